//! The messages that a memory node has sent after work that may have stored something, so that a
//! repeated request does not store again.

use crate::node::Tenant;
use crate::wire::{MessageFragment, OBJECT_BYTES_MAX, OffloadMessage, ProcessAddress};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Largest number of bytes that are remembered for each tenant.
const TENANT_BYTES_MAX: usize = 16 << 20;
/// The assumed size of a caller, and of an entry without its datagram.
const ENTRY_BYTES: usize = 128;
/// Time of silence after which a caller is forgotten if its tenant has no more room. No datagram is
/// assumed to be in flight for longer (TCP assumes two minutes, RFC 9293).
const SILENCE: Duration = Duration::from_secs(120);

/// The remembered messages for all callers.
#[derive(Debug, Default)]
pub struct SentReplies {
    tenants: HashMap<Tenant, Callers>,
}

#[derive(Debug, Default)]
struct Callers {
    callers: HashMap<ProcessAddress, CallerReplies>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct CallerReplies {
    /// The bound below which the caller requests no counters any more.
    settled: u64,
    heard: Duration,
    /// The pieces of work, by counter.
    works: BTreeMap<u64, ReplyRecord>,
}

/// The latest piece of work for a request. A request for a later one means that all before it are
/// done, and that the messages after them have arrived.
#[derive(Debug)]
struct ReplyRecord {
    visit: u32,
    /// The message that was sent, or nothing while the work is in progress.
    sent: Option<SentReply>,
    /// Number of bytes that are reserved while the work is in progress.
    reserved: usize,
}

/// A message as it was sent.
#[derive(Debug)]
enum SentReply {
    Whole(Vec<u8>),
    Parts(Vec<Vec<u8>>),
}

impl SentReply {
    fn bytes(&self) -> usize {
        match self {
            SentReply::Whole(datagram) => datagram.len(),
            SentReply::Parts(parts) => parts.iter().map(Vec::len).sum(),
        }
    }
}

/// The state of a piece of work.
#[derive(Debug, PartialEq, Eq)]
pub enum ReplyProgress<'a> {
    /// The work is new, and may be executed.
    New,
    /// The work is in progress.
    UnderWay,
    /// The work is done, and this was sent.
    Done(&'a [u8]),
    /// The work is done, and this was sent, in parts.
    DoneInParts(&'a [Vec<u8>]),
    /// The caller requested it long ago, and has since reported that it has the outcome.
    Outdated,
}

impl ReplyRecord {
    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.sent.as_ref().map_or(self.reserved, SentReply::bytes)
    }
}

impl SentReplies {
    /// Looks up the work of a request. Forgets the work that its caller has settled.
    pub fn find(&mut self, now: Duration, request: &OffloadMessage) -> ReplyProgress<'_> {
        let Some(callers) = self.tenants.get_mut(&request.tenant) else {
            return ReplyProgress::New;
        };
        let Some(caller) = callers.callers.get_mut(&request.caller) else {
            return ReplyProgress::New;
        };
        caller.heard = now;
        if request.settled > caller.settled {
            caller.settled = request.settled;
            // Counters from the bound on are kept: their callers may still repeat them.
            let kept = caller.works.split_off(&request.settled);
            for work in caller.works.values() {
                callers.bytes -= work.bytes();
            }
            caller.works = kept;
        }
        caller.progress(request.counter, request.visit)
    }

    /// Looks up the work of a request of which a part has arrived.
    pub fn find_part(&mut self, now: Duration, part: &MessageFragment) -> ReplyProgress<'_> {
        let Some(callers) = self.tenants.get_mut(&part.tenant) else {
            return ReplyProgress::New;
        };
        let Some(caller) = callers.callers.get_mut(&part.caller) else {
            return ReplyProgress::New;
        };
        caller.heard = now;
        caller.progress(part.counter, part.visit)
    }

    /// Notes that new work begins. Returns false if there is no room to remember it.
    pub fn begin(&mut self, now: Duration, request: &OffloadMessage) -> bool {
        let callers = self.tenants.entry(request.tenant).or_default();
        if callers.bytes >= TENANT_BYTES_MAX {
            // The search visits all callers of the tenant, so it runs only when there is no room.
            callers.forget_silent(now);
            if callers.bytes >= TENANT_BYTES_MAX {
                return false;
            }
        }
        let bytes = &mut callers.bytes;
        let caller = callers.callers.entry(request.caller).or_insert_with(|| {
            *bytes += ENTRY_BYTES;
            CallerReplies::default()
        });
        caller.heard = now;
        caller.settled = caller.settled.max(request.settled);
        let work = ReplyRecord {
            visit: request.visit,
            sent: None,
            // Objects are long: several pieces of work would exceed the room together. The message
            // after the work may carry the object of the request to another node.
            reserved: request.object.map_or(0, |_| OBJECT_BYTES_MAX),
        };
        callers.bytes += work.bytes();
        if let Some(before) = caller.works.insert(request.counter, work) {
            debug_assert!(before.visit < request.visit, "a piece of work begins once");
            callers.bytes -= before.bytes();
        }
        true
    }

    /// Notes the message that was sent after the work of a request.
    pub fn end(&mut self, request: &OffloadMessage, visit: u32, datagram: &[u8]) {
        self.note(request, visit, SentReply::Whole(datagram.to_vec()));
    }

    /// Notes the parts of the message that was sent after the work of a request.
    pub fn end_in_parts(&mut self, request: &OffloadMessage, visit: u32, parts: &[Vec<u8>]) {
        self.note(request, visit, SentReply::Parts(parts.to_vec()));
    }

    fn note(&mut self, request: &OffloadMessage, visit: u32, sent: SentReply) {
        let Some(callers) = self.tenants.get_mut(&request.tenant) else {
            return;
        };
        // The caller may have settled the request meanwhile, if it has given it up.
        if let Some(caller) = callers.callers.get_mut(&request.caller)
            && let Some(work) = caller.works.get_mut(&request.counter)
            && work.visit == visit
        {
            debug_assert!(work.sent.is_none(), "a piece of work ends once");
            callers.bytes -= work.bytes();
            work.sent = Some(sent);
            callers.bytes += work.bytes();
        }
    }
}

impl CallerReplies {
    /// Returns the state of a piece of work.
    fn progress(&self, counter: u64, visit: u32) -> ReplyProgress<'_> {
        if counter < self.settled {
            return ReplyProgress::Outdated;
        }
        match self.works.get(&counter) {
            Some(work) if visit <= work.visit => match &work.sent {
                Some(SentReply::Whole(datagram)) => ReplyProgress::Done(datagram),
                Some(SentReply::Parts(parts)) => ReplyProgress::DoneInParts(parts),
                // The reply is on its way as soon as the work is done, so the repeat needs none.
                None => ReplyProgress::UnderWay,
            },
            _ => ReplyProgress::New,
        }
    }
}

impl Callers {
    fn forget_silent(&mut self, now: Duration) {
        let bytes = &mut self.bytes;
        self.callers.retain(|_, caller| {
            // A forgotten piece of work in progress could begin a second time.
            let is_at_work = caller.works.values().any(|work| work.sent.is_none());
            let stays = is_at_work || now.saturating_sub(caller.heard) < SILENCE;
            if !stays {
                *bytes -=
                    ENTRY_BYTES + caller.works.values().map(ReplyRecord::bytes).sum::<usize>();
            }
            stays
        });
        let works = self
            .callers
            .values()
            .flat_map(|caller| caller.works.values());
        debug_assert_eq!(
            self.bytes,
            ENTRY_BYTES * self.callers.len() + works.map(ReplyRecord::bytes).sum::<usize>()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::ProgramHash;
    use crate::traversal::TraversalStatus;
    use crate::wire::{OffloadMessageKind, RequestObject};

    const NOW: Duration = Duration::from_secs(1000);

    fn request(tenant: u16, caller: u64, counter: u64, visit: u32, settled: u64) -> OffloadMessage {
        OffloadMessage {
            kind: OffloadMessageKind::Request,
            status: TraversalStatus::Done,
            returns_to_caller: false,
            object: None,
            hops: 0,
            caller: ProcessAddress(caller),
            counter,
            settled,
            visit,
            tenant: Tenant(tenant),
            map_epoch: 0,
            address: 0,
            made: 0,
            left: 0,
            program: ProgramHash([0; 16]),
            scratchpad: Vec::new(),
            carried: Vec::new(),
            body: Vec::new(),
        }
    }

    #[test]
    fn work_is_done_once_until_it_is_settled() {
        let mut replies = SentReplies::default();
        let first = request(1, 5, 10, 0, 10);
        assert_eq!(replies.find(NOW, &first), ReplyProgress::New);
        assert!(replies.begin(NOW, &first));
        assert_eq!(replies.find(NOW, &first), ReplyProgress::UnderWay);
        replies.end(&first, 0, &[1]);
        assert_eq!(replies.find(NOW, &first), ReplyProgress::Done(&[1]));
        // A request of the same number by another tenant or caller is a different one.
        for other in [request(2, 5, 10, 0, 10), request(1, 6, 10, 0, 10)] {
            assert_eq!(replies.find(NOW, &other), ReplyProgress::New);
        }
        let part = |counter, visit| MessageFragment {
            kind: OffloadMessageKind::Request,
            hops: 0,
            caller: first.caller,
            counter,
            digest: 0,
            tenant: first.tenant,
            visit,
            address: 0,
            message_bytes: 2,
            part_bytes: 1,
            position: 0,
            part: vec![0],
        };
        assert_eq!(
            replies.find_part(NOW, &part(10, 0)),
            ReplyProgress::Done(&[1])
        );
        assert_eq!(replies.find_part(NOW, &part(10, 1)), ReplyProgress::New);
        assert_eq!(replies.find_part(NOW, &part(9, 0)), ReplyProgress::Outdated);
        // The traversal returns to this node. So the first message has arrived, and the second is
        // repeated.
        let back = request(1, 5, 10, 2, 10);
        assert_eq!(replies.find(NOW, &back), ReplyProgress::New);
        assert!(replies.begin(NOW, &back));
        assert_eq!(replies.find(NOW, &first), ReplyProgress::UnderWay);
        replies.end(&back, 2, &[2, 2]);
        assert_eq!(replies.find(NOW, &first), ReplyProgress::Done(&[2, 2]));
        // The caller has the outcome.
        let next = request(1, 5, 11, 0, 11);
        assert_eq!(replies.find(NOW, &next), ReplyProgress::New);
        assert_eq!(replies.find(NOW, &first), ReplyProgress::Outdated);
        assert_eq!(replies.tenants[&Tenant(1)].bytes, ENTRY_BYTES);
    }

    #[test]
    fn work_for_an_object_reserves_its_room() {
        let mut replies = SentReplies::default();
        let of = |counter| OffloadMessage {
            object: Some(RequestObject {
                address: 0,
                length: 1,
                is_next: false,
            }),
            ..request(1, 5, counter, 0, 0)
        };
        let mut count = 0;
        while replies.begin(NOW, &of(count)) {
            count += 1;
        }
        assert_eq!(count, 256);
        let parts = [vec![1, 2], vec![3]];
        replies.end_in_parts(&of(7), 0, &parts);
        assert_eq!(
            replies.find(NOW, &of(7)),
            ReplyProgress::DoneInParts(&parts)
        );
        // The reserved room of the ended work is free again.
        assert!(replies.begin(NOW, &of(count)));
        assert!(!replies.begin(NOW, &of(count + 1)));
    }

    #[test]
    fn a_full_tenant_is_refused_until_callers_were_silent() {
        let mut replies = SentReplies::default();
        let large = vec![0; 1 << 20];
        let mut counter = 0;
        loop {
            let request = request(1, counter % 2, counter, 0, 0);
            if !replies.begin(NOW, &request) {
                break;
            }
            replies.end(&request, 0, &large);
            counter += 1;
        }
        assert_eq!(counter, 16);
        // Another tenant has room of its own.
        assert!(replies.begin(NOW, &request(2, 0, 0, 0, 0)));
        let later = NOW + SILENCE;
        let (recent, silent) = (request(1, 1, 1, 0, 0), request(1, 0, 0, 0, 0));
        assert_eq!(replies.find(later, &recent), ReplyProgress::Done(&large));
        assert!(replies.begin(later, &request(1, 9, 0, 0, 0)));
        // The caller that has sent a request recently is still remembered.
        assert_eq!(replies.find(later, &recent), ReplyProgress::Done(&large));
        assert_eq!(replies.find(later, &silent), ReplyProgress::New);
    }
}
