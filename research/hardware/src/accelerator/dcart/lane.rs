//! The progress of an operation through an operating unit.

use super::super::MemorySpan;

/// The four stages of a unit (section III-C).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DcartStage {
    Index,
    Traverse,
    Trigger,
    Generate,
}

impl DcartStage {
    pub(super) const COUNT: usize = 4;

    pub(super) fn next(self) -> Option<DcartStage> {
        match self {
            DcartStage::Index => Some(DcartStage::Traverse),
            DcartStage::Traverse => Some(DcartStage::Trigger),
            DcartStage::Trigger => Some(DcartStage::Generate),
            DcartStage::Generate => None,
        }
    }
}

/// The step that has ended when a lane is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DcartLaneStep {
    /// The key has been hashed, and the buffer of shortcuts has been looked up.
    Hashed,
    /// The line of its shortcut has arrived.
    Shortcut,
    /// The buffer of the tree has been looked up for these bytes.
    Looked,
    /// The lines that were not in the buffer have arrived.
    Fetched,
    /// A node has decided.
    Matched,
    /// The operation has been executed.
    Triggered,
    /// Its shortcut has been written.
    Generated,
}

/// The part of the tree that a lane reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DcartLaneRead {
    /// The nodes that a shortcut names. `valid` is true if they are those that have the key.
    Named { valid: bool },
    /// The header of a node.
    First(usize),
    /// The slot of a node.
    Then(usize),
}

/// An operation in flight in a unit.
#[derive(Clone, Debug)]
pub(super) struct DcartLane {
    /// The operation's place in the batch.
    pub(super) operation: usize,
    pub(super) key: u64,
    pub(super) stage: DcartStage,
    pub(super) step: DcartLaneStep,
    pub(super) reading: DcartLaneRead,
    /// Number of lines that have not arrived.
    pub(super) awaited: u32,
    /// True if its stage has ended, and the next one has no room.
    pub(super) stalled: bool,
    /// True if it walked the tree, so that a shortcut is worth writing.
    pub(super) walked: bool,
    /// The later operations on the same key, which are executed with it.
    pub(super) riders: Vec<usize>,
    /// The last of them, or the operation itself.
    pub(super) last: usize,
}

/// Returns the lines that contain some bytes.
pub(super) fn lines(span: MemorySpan) -> impl Iterator<Item = u64> {
    let line = crate::dram::LINE_BYTES;
    let first = span.address / line;
    // Bytes that begin in a line may end in the next, so both ends are rounded.
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
        let of = |address, bytes| lines(MemorySpan { address, bytes }).collect::<Vec<_>>();
        assert_eq!(of(60, 0), []);
        assert_eq!(of(60, 4), [0]);
        assert_eq!(of(60, 5), [0, 64]);
        assert_eq!(of(128, 128), [128, 192]);
    }
}
