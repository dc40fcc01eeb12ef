//! Hashes that identify programs.

use std::fmt;

/// The first 16 bytes of the BLAKE3 hash of a program's bytes. It is infeasible to find a second
/// program with the hash of a given one, so memory nodes identify programs by it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProgramHash(pub [u8; 16]);

impl ProgramHash {
    pub(super) fn of(program: &[u8]) -> ProgramHash {
        let hash = blake3::hash(program);
        let mut first = [0; 16];
        for (to, from) in first.iter_mut().zip(hash.as_bytes()) {
            *to = *from;
        }
        ProgramHash(first)
    }
}

impl fmt::Display for ProgramHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for ProgramHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}
