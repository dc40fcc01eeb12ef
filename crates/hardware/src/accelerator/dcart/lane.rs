//! An operation on its way through an operating unit.

use super::super::Span;

/// The four stages of a unit (section III-C).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Index,
    Traverse,
    Trigger,
    Generate,
}

impl Stage {
    pub(super) const COUNT: usize = 4;

    pub(super) fn next(self) -> Option<Stage> {
        match self {
            Stage::Index => Some(Stage::Traverse),
            Stage::Traverse => Some(Stage::Trigger),
            Stage::Trigger => Some(Stage::Generate),
            Stage::Generate => None,
        }
    }
}

/// What is over when a lane is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The key is hashed, and the buffer of shortcuts has answered.
    Hashed,
    /// The line of its shortcut is here.
    Shortcut,
    /// The buffer of the tree has answered for these bytes.
    Looked,
    /// The lines that the buffer lacked are here.
    Fetched,
    /// A node has decided.
    Matched,
    /// It is executed.
    Triggered,
    /// Its shortcut is written.
    Generated,
}

/// What a lane reads of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The nodes that a shortcut names: of it, whether they are those that the key has.
    Named { valid: bool },
    /// The header of a node.
    First(usize),
    /// Its slot.
    Then(usize),
}

/// An operation under way in a unit.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    /// Its place in the batch.
    pub(super) operation: usize,
    pub(super) key: u64,
    pub(super) stage: Stage,
    pub(super) step: Step,
    pub(super) reading: Reading,
    /// Lines that have not come.
    pub(super) awaited: u32,
    /// Its stage is over, and the next one is taken.
    pub(super) stalled: bool,
    /// It walked the tree, so that a shortcut is worth writing.
    pub(super) walked: bool,
    /// Later operations on the same key, which are executed with it.
    pub(super) riders: Vec<usize>,
    /// The last of them, or itself.
    pub(super) last: usize,
}

/// The lines that hold some bytes.
pub(super) fn lines(span: Span) -> impl Iterator<Item = u64> {
    let line = crate::dram::LINE_BYTES;
    let first = span.address / line;
    let count = match span.bytes {
        0 => 0,
        bytes => (span.address + u64::from(bytes) - 1) / line - first + 1,
    };
    (first..first + count).map(move |number| number * line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_lie_in_lines() {
        let of = |address, bytes| lines(Span { address, bytes }).collect::<Vec<_>>();
        assert_eq!(of(60, 0), []);
        assert_eq!(of(60, 4), [0]);
        assert_eq!(of(60, 5), [0, 64]);
        assert_eq!(of(128, 128), [128, 192]);
    }
}
