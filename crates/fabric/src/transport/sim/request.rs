//! A client's post, and its progress.

use crate::address::{GlobalAddress, NodeId};
use crate::error::FabricError;
use crate::verb::{MaskedSwap, Verb};
use std::ops::Range;
use std::task::Waker;

/// A verb with bytes of its own, because the task that has posted it may be gone when they are
/// needed.
#[derive(Debug)]
pub enum Step {
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
    /// A call to the node's processor: free.
    Free {
        at: GlobalAddress,
        bytes: u64,
    },
}

impl Step {
    pub fn of(verb: &Verb<'_>) -> Step {
        match *verb {
            Verb::Read { from, ref into } => Step::Read {
                from,
                bytes: vec![0; into.len()],
            },
            Verb::Write { to, bytes } => Step::Write {
                to,
                bytes: bytes.to_vec(),
            },
            Verb::Swap { at, swap, .. } => Step::Swap { at, swap, found: 0 },
            Verb::Add { at, summand, .. } => Step::Add {
                at,
                summand,
                found: 0,
            },
        }
    }

    /// Stores the result in the verb.
    pub fn answer(self, verb: &mut Verb<'_>) {
        match (self, verb) {
            (Step::Read { bytes, .. }, Verb::Read { into, .. }) => into.copy_from_slice(&bytes),
            (Step::Swap { found: was, .. }, Verb::Swap { found, .. })
            | (Step::Add { found: was, .. }, Verb::Add { found, .. }) => *found = was,
            _ => {}
        }
    }

    pub fn address(&self) -> GlobalAddress {
        match *self {
            Step::Read { from, .. } => from,
            Step::Write { to, .. } => to,
            Step::Swap { at, .. } | Step::Add { at, .. } | Step::Free { at, .. } => at,
            Step::Allocate { node, .. } => GlobalAddress::new(node, 0),
        }
    }

    /// Returns the parts that are done at moments of their own: the bytes between two multiples of
    /// `atomic_bytes`.
    pub fn parts(&self, atomic_bytes: u64) -> Vec<Range<usize>> {
        let (start, length) = match self {
            Step::Read { from, bytes } => (from.offset(), bytes.len()),
            Step::Write { to, bytes } => (to.offset(), bytes.len()),
            _ => return std::iter::once(0..8).collect(),
        };
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
pub struct Request {
    /// The index of the client among the clients.
    pub client: usize,
    pub steps: Vec<Step>,
    pub error: Option<FabricError>,
    /// True if the client has received the completion.
    pub answered: bool,
    /// True if no task waits for it.
    pub unsignalled: bool,
    pub waker: Option<Waker>,
}
