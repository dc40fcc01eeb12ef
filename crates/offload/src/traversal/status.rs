//! The status with which a run of a traversal ended.

use super::memory::AccessError;

/// The status with which a run ended. After all except [`Done`](TraversalStatus::Done), the
/// traversal can continue from its address and scratchpad, because the iteration that was stopped
/// had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum TraversalStatus {
    /// The program has ended the traversal.
    Done = 0,
    /// The run has made its maximum number of iterations.
    IterationLimit = 1,
    /// An iteration has stored into a new allocation, and no region was free.
    OutOfRegions = 2,
    /// The node or the object is on no memory node, or a region of the free list is not.
    NoSuchAddress = 3,
    /// The tenant may not read the node or the object, or may not write where the program stores.
    Denied = 4,
    /// The bytes of an iteration's load, or of an object, are in more than one range, or an object
    /// is longer than an answer may carry.
    Split = 5,
    /// Switches have forwarded the request as often as allowed.
    HopLimit = 6,
    /// The memory node does not know the program; the request must carry it.
    UnknownProgram = 7,
    /// The memory node's verifier refuses the program, or the program does not have the given hash.
    RefusedProgram = 8,
    /// The switch routed the request to a memory node that does not hold the address: its map of
    /// ranges is out of date.
    StaleMap = 9,
    /// The node is on another memory node, and the caller asked to learn this.
    Elsewhere = 10,
    /// The memory node has as many requests as it accepts; retry.
    Busy = 11,
    /// The request is older than one that its caller has already completed.
    Outdated = 12,
    /// A verified program has accessed memory outside its windows: a mistake in the verifier.
    Malfunction = 13,
    /// The node's memory is newer than the caller allows: its earlier contents are lost.
    MemoryLost = 14,
}

impl TraversalStatus {
    /// Number of statuses.
    pub const COUNT: usize = 15;

    const ALL: [TraversalStatus; TraversalStatus::COUNT] = [
        TraversalStatus::Done,
        TraversalStatus::IterationLimit,
        TraversalStatus::OutOfRegions,
        TraversalStatus::NoSuchAddress,
        TraversalStatus::Denied,
        TraversalStatus::Split,
        TraversalStatus::HopLimit,
        TraversalStatus::UnknownProgram,
        TraversalStatus::RefusedProgram,
        TraversalStatus::StaleMap,
        TraversalStatus::Elsewhere,
        TraversalStatus::Busy,
        TraversalStatus::Outdated,
        TraversalStatus::Malfunction,
        TraversalStatus::MemoryLost,
    ];

    /// Returns the number that stands for it in messages.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the status of a number.
    pub fn from_code(code: u8) -> Option<TraversalStatus> {
        let status = TraversalStatus::ALL.get(usize::from(code)).copied();
        debug_assert!(status.is_none_or(|status| status.code() == code));
        status
    }
}

impl From<AccessError> for TraversalStatus {
    fn from(error: AccessError) -> TraversalStatus {
        match error {
            AccessError::Absent => TraversalStatus::NoSuchAddress,
            AccessError::Denied => TraversalStatus::Denied,
            AccessError::Split => TraversalStatus::Split,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_statuses() {
        for (number, status) in TraversalStatus::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(status.code()), number);
            assert_eq!(TraversalStatus::from_code(status.code()), Some(status));
        }
        assert_eq!(TraversalStatus::from_code(15), None);
    }
}
