//! How a run of a traversal ended.

use super::memory::AccessError;

/// How a run ended. All but [`Done`](Status::Done) leave a traversal that can continue from its
/// address and scratchpad, as the iteration that was stopped had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Status {
    /// The program has ended the traversal.
    Done = 0,
    /// The run has made as many iterations as it may.
    IterationLimit = 1,
    /// An iteration has stored into a new allocation, and no region was free.
    OutOfRegions = 2,
    /// The node lies on no memory node, or a region of the list does not.
    NoSuchAddress = 3,
    /// The tenant may not read the node, or not write where the program stores.
    Denied = 4,
    /// The bytes of an iteration's load lie in more than one range.
    Split = 5,
    /// The traversal has gone from node to node as often as it may.
    HopLimit = 6,
    /// The memory node does not know the program: send it along.
    UnknownProgram = 7,
    /// The memory node's verifier refuses the program, or it is not of the given hash.
    RefusedProgram = 8,
    /// The switch sent the request to a memory node that does not hold the address: its map of
    /// ranges is not the present one.
    StaleMap = 9,
    /// The node lies on another memory node, and the request asked to be told.
    Elsewhere = 10,
    /// The memory node has as many requests as it takes; try again.
    Busy = 11,
    /// The request is older than one that its caller has already completed.
    Outdated = 12,
    /// A verified program has accessed memory outside its windows: a mistake in the verifier.
    Malfunction = 13,
    /// The node's memory is younger than all that the caller relies on: what lay there is lost.
    MemoryLost = 14,
}

impl Status {
    /// How many there are.
    pub const COUNT: usize = 15;

    const ALL: [Status; Status::COUNT] = [
        Status::Done,
        Status::IterationLimit,
        Status::OutOfRegions,
        Status::NoSuchAddress,
        Status::Denied,
        Status::Split,
        Status::HopLimit,
        Status::UnknownProgram,
        Status::RefusedProgram,
        Status::StaleMap,
        Status::Elsewhere,
        Status::Busy,
        Status::Outdated,
        Status::Malfunction,
        Status::MemoryLost,
    ];

    /// The number by which messages name it.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The status of a number.
    pub fn from_code(code: u8) -> Option<Status> {
        Status::ALL.get(usize::from(code)).copied()
    }
}

impl From<AccessError> for Status {
    fn from(error: AccessError) -> Status {
        match error {
            AccessError::Absent => Status::NoSuchAddress,
            AccessError::Denied => Status::Denied,
            AccessError::Split => Status::Split,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_statuses() {
        for (number, status) in Status::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(status.code()), number);
            assert_eq!(Status::from_code(status.code()), Some(status));
        }
        assert_eq!(Status::from_code(15), None);
    }
}
