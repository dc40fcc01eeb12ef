//! The parts of long requests that have arrived at a memory node.

use crate::node::Tenant;
use crate::wire::{MessageFragment, MessageParts, PartsProgress, ProcessAddress};
use std::collections::{BTreeMap, HashMap};

/// Largest number of bytes of incomplete requests that are kept for each tenant: some 120 of the
/// longest requests.
const TENANT_BYTES_MAX: usize = 8 << 20;
/// The assumed size of an entry without its bytes.
const ENTRY_BYTES: usize = 256;

/// The incomplete requests of all tenants. A tenant takes no room of others.
#[derive(Debug, Default)]
pub struct PartialRequests {
    tenants: HashMap<Tenant, TenantParts>,
}

/// The incomplete requests of a tenant.
#[derive(Debug, Default)]
struct TenantParts {
    requests: HashMap<PartialRequestKey, PartialRequest>,
    /// The requests in the order of their first parts.
    order: BTreeMap<u64, PartialRequestKey>,
    /// Number of requests of which a first part has arrived.
    begun: u64,
    bytes: usize,
}

/// The fields that the parts of a request have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PartialRequestKey {
    caller: ProcessAddress,
    counter: u64,
    digest: u64,
    message_bytes: u32,
    part_bytes: u16,
}

#[derive(Debug)]
struct PartialRequest {
    order: u64,
    parts: MessageParts,
}

impl PartialRequestKey {
    fn of(part: &MessageFragment) -> PartialRequestKey {
        PartialRequestKey {
            caller: part.caller,
            counter: part.counter,
            digest: part.digest,
            message_bytes: part.message_bytes,
            part_bytes: part.part_bytes,
        }
    }

    /// Returns the number of bytes of a request: one for each of its bytes and its parts.
    fn bytes(&self) -> usize {
        let bytes = self.message_bytes as usize;
        ENTRY_BYTES + bytes + bytes.div_ceil(usize::from(self.part_bytes.max(1)))
    }
}

impl PartialRequests {
    /// Adds a decoded part. Returns the bytes of its request if they are complete.
    pub fn add(&mut self, part: &MessageFragment) -> Option<Vec<u8>> {
        let tenant = self.tenants.entry(part.tenant).or_default();
        let key = PartialRequestKey::of(part);
        if !tenant.requests.contains_key(&key) {
            tenant.begin(key);
        }
        let request = tenant.requests.get_mut(&key)?;
        match request.parts.add(part) {
            PartsProgress::Known | PartsProgress::Added => None,
            PartsProgress::Whole(bytes) => {
                tenant.forget(&key);
                Some(bytes)
            }
        }
    }
}

impl TenantParts {
    /// Begins a request. If there is no room, those that have been incomplete for longest are
    /// forgotten: their callers have given them up, or send all parts again.
    fn begin(&mut self, key: PartialRequestKey) {
        while self.bytes + key.bytes() > TENANT_BYTES_MAX
            && let Some((_, oldest)) = self.order.first_key_value()
        {
            let oldest = *oldest;
            self.forget(&oldest);
        }
        self.begun += 1;
        self.bytes += key.bytes();
        self.order.insert(self.begun, key);
        let request = PartialRequest {
            order: self.begun,
            parts: MessageParts::default(),
        };
        self.requests.insert(key, request);
        debug_assert_eq!(self.requests.len(), self.order.len());
    }

    fn forget(&mut self, key: &PartialRequestKey) {
        if let Some(request) = self.requests.remove(key) {
            self.order.remove(&request.order);
            self.bytes -= key.bytes();
        }
        debug_assert!(self.bytes <= TENANT_BYTES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::OffloadMessageKind;

    /// Returns the part of a number of a request of three parts.
    fn part(tenant: u16, counter: u64, part_bytes: u16, number: u32) -> MessageFragment {
        MessageFragment {
            kind: OffloadMessageKind::Request,
            hops: 0,
            caller: ProcessAddress(7),
            counter,
            digest: 1,
            tenant: Tenant(tenant),
            visit: 0,
            address: 4096,
            message_bytes: 3 * u32::from(part_bytes),
            part_bytes,
            position: number * u32::from(part_bytes),
            part: vec![number as u8; part_bytes.into()],
        }
    }

    #[test]
    fn a_request_is_whole_once() {
        let mut partial = PartialRequests::default();
        assert_eq!(partial.add(&part(1, 5, 2, 2)), None);
        assert_eq!(partial.add(&part(1, 5, 2, 0)), None);
        assert_eq!(partial.add(&part(1, 5, 2, 0)), None);
        // The missing part of other requests: of another tenant, number, and length of parts.
        assert_eq!(partial.add(&part(2, 5, 2, 1)), None);
        assert_eq!(partial.add(&part(1, 6, 2, 1)), None);
        assert_eq!(partial.add(&part(1, 5, 3, 1)), None);
        let whole = vec![0, 0, 1, 1, 2, 2];
        assert_eq!(partial.add(&part(1, 5, 2, 1)), Some(whole));
        assert_eq!(partial.add(&part(1, 5, 2, 1)), None);
    }

    #[test]
    fn requests_that_are_never_complete_take_limited_room_of_their_tenant() {
        let mut partial = PartialRequests::default();
        let first = part(2, 1, 20_000, 0);
        assert_eq!(partial.add(&first), None);
        for counter in 0..1000 {
            assert_eq!(partial.add(&part(1, counter, 20_000, 0)), None);
            // The smallest ones, too.
            assert_eq!(partial.add(&part(1, counter, 1, 0)), None);
            let bytes = partial.tenants[&Tenant(1)].bytes;
            assert!(bytes <= TENANT_BYTES_MAX, "{bytes}");
        }
        let tenant = &partial.tenants[&Tenant(1)];
        assert!(tenant.requests.len() < 400, "{}", tenant.requests.len());
        assert_eq!(tenant.order.len(), tenant.requests.len());
        // The oldest ones are forgotten, and the latest one is not.
        assert!(partial.add(&part(1, 0, 20_000, 1)).is_none());
        assert!(partial.add(&part(1, 0, 20_000, 2)).is_none());
        assert!(partial.add(&part(1, 999, 20_000, 1)).is_none());
        assert!(partial.add(&part(1, 999, 20_000, 2)).is_some());
        // Another tenant has lost nothing.
        assert!(partial.add(&part(2, 1, 20_000, 1)).is_none());
        assert!(partial.add(&part(2, 1, 20_000, 2)).is_some());
    }
}
