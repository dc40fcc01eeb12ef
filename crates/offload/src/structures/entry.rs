//! The results of lookups.

use super::programs::{ENTRY_KEY, ENTRY_NODE, ENTRY_VALUE, FOUND};
use crate::traversal::{TraversalOutcome, TraversalStatus};

/// An entry of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StructureEntry {
    /// The key.
    pub key: u64,
    /// The value. In a set or a list it is the key.
    pub value: u64,
}

/// Returns the entry in the outcome of a lookup; `None` if there is none, or the traversal is not
/// done.
pub fn entry(outcome: &TraversalOutcome) -> Option<StructureEntry> {
    let found = outcome.status == TraversalStatus::Done && outcome.word(FOUND) == 1;
    found.then(|| StructureEntry {
        key: outcome.word(ENTRY_KEY),
        value: outcome.word(ENTRY_VALUE),
    })
}

/// Returns the address of the node in the outcome of a lookup.
pub fn entry_node(outcome: &TraversalOutcome) -> Option<u64> {
    entry(outcome).map(|_| outcome.word(ENTRY_NODE))
}
