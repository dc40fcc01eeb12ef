//! What look-ups answer.

use super::programs::{ENTRY_KEY, ENTRY_NODE, ENTRY_VALUE, FOUND};
use crate::traversal::{Outcome, Status};

/// An entry of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    /// The key.
    pub key: u64,
    /// The value; of a set and a list the key.
    pub value: u64,
}

/// The entry in the answer of a look-up; `None` if there is none, or the traversal is not done.
pub fn entry(outcome: &Outcome) -> Option<Entry> {
    let found = outcome.status == Status::Done && outcome.word(FOUND) == 1;
    found.then(|| Entry {
        key: outcome.word(ENTRY_KEY),
        value: outcome.word(ENTRY_VALUE),
    })
}

/// The node in the answer of a look-up.
pub fn entry_node(outcome: &Outcome) -> Option<u64> {
    entry(outcome).map(|_| outcome.word(ENTRY_NODE))
}
