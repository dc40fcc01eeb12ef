//! A client's post, and its progress.

use crate::address::{GlobalAddress, NodeId};
use crate::error::FabricError;
use crate::verb::{FabricVerb, MaskedSwap};
use std::ops::Range;
use std::task::Waker;

/// A verb with bytes of its own, because the task that has posted it may be gone when they are
/// needed.
#[derive(Debug)]
pub enum SimVerb {
    Read {
        from: GlobalAddress,
        bytes: Vec<u8>,
    },
    Write {
        to: GlobalAddress,
        bytes: Vec<u8>,
    },
    Swap {
        at: GlobalAddress,
        swap: MaskedSwap,
        found: u64,
    },
    Add {
        at: GlobalAddress,
        summand: u64,
        found: u64,
    },
    /// A call to the node's processor: allocate.
    Allocate {
        node: NodeId,
        bytes: u64,
        at: GlobalAddress,
    },
    /// A call to the node's processor: allocate these bytes.
    AllocateAt {
        at: GlobalAddress,
        bytes: u64,
    },
    /// A call to the node's processor: find allocated or other memory.
    Find {
        from: GlobalAddress,
        is_allocated: bool,
        found: Option<GlobalAddress>,
    },
    /// A call to the node's processor: free.
    Free {
        at: GlobalAddress,
        bytes: u64,
    },
}

impl SimVerb {
    pub fn of(verb: &FabricVerb<'_>) -> SimVerb {
        match *verb {
            FabricVerb::Read { from, ref into } => SimVerb::Read {
                from,
                // Filled part by part when the parts are done.
                bytes: vec![0; into.len()],
            },
            FabricVerb::Write { to, bytes } => SimVerb::Write {
                to,
                bytes: bytes.to_vec(),
            },
            FabricVerb::Swap { at, swap, .. } => SimVerb::Swap { at, swap, found: 0 },
            FabricVerb::Add { at, summand, .. } => SimVerb::Add {
                at,
                summand,
                found: 0,
            },
        }
    }

    /// Stores the result in the verb.
    pub fn answer(self, verb: &mut FabricVerb<'_>) {
        match (self, verb) {
            (SimVerb::Read { bytes, .. }, FabricVerb::Read { into, .. }) => {
                into.copy_from_slice(&bytes)
            }
            (SimVerb::Swap { found: was, .. }, FabricVerb::Swap { found, .. })
            | (SimVerb::Add { found: was, .. }, FabricVerb::Add { found, .. }) => *found = was,
            _ => {}
        }
    }

    pub fn address(&self) -> GlobalAddress {
        match *self {
            SimVerb::Read { from, .. } | SimVerb::Find { from, .. } => from,
            SimVerb::Write { to, .. } => to,
            SimVerb::Swap { at, .. }
            | SimVerb::Add { at, .. }
            | SimVerb::AllocateAt { at, .. }
            | SimVerb::Free { at, .. } => at,
            SimVerb::Allocate { node, .. } => GlobalAddress::new(node, 0),
        }
    }

    /// Returns the parts that are done at moments of their own: the bytes between two multiples of
    /// `atomic_bytes`.
    pub fn parts(&self, atomic_bytes: u64) -> Vec<Range<usize>> {
        let (start, length) = match self {
            SimVerb::Read { from, bytes } => (from.offset(), bytes.len()),
            SimVerb::Write { to, bytes } => (to.offset(), bytes.len()),
            // Swaps, adds and calls are one part each: they take effect as a whole or not at all.
            _ => return std::iter::once(0..8).collect(),
        };
        debug_assert!(atomic_bytes.is_power_of_two());
        let mut parts = Vec::new();
        let mut at = 0;
        while at < length {
            let within = (start + at as u64) % atomic_bytes;
            let end = length.min(at + (atomic_bytes - within) as usize);
            parts.push(at..end);
            at = end;
        }
        parts
    }
}

/// A post of verbs, or one call.
#[derive(Debug)]
pub struct SimRequest {
    /// The index of the client among the clients.
    pub client: usize,
    pub steps: Vec<SimVerb>,
    pub error: Option<FabricError>,
    /// True if the client has received the completion.
    pub answered: bool,
    /// True if no task waits for it.
    pub unsignalled: bool,
    pub waker: Option<Waker>,
}
