//! The properties of a program that its code does not contain.

use super::window::SCRATCHPAD_BYTES_MAX;

/// The part of a program besides its code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Declaration {
    /// Length of the scratchpad, in bytes.
    pub scratchpad: u16,
    /// Offset of the list of free regions in the scratchpad, if the program allocates. The list is
    /// a count of 8 bytes at a multiple of 8, then that many addresses. An iteration that stores
    /// into the new allocation takes the last one.
    pub regions_at: Option<u16>,
}

impl Declaration {
    /// Declares a program without allocations.
    pub const fn scratchpad(bytes: u16) -> Declaration {
        Declaration {
            scratchpad: bytes,
            regions_at: None,
        }
    }

    pub(super) fn has_valid_regions(&self) -> bool {
        self.regions_at.is_none_or(|at| {
            // The list has room for its count and at least one address.
            at.is_multiple_of(8) && usize::from(at) + 16 <= usize::from(self.scratchpad)
        })
    }

    pub(super) fn has_valid_scratchpad(&self) -> bool {
        usize::from(self.scratchpad) <= SCRATCHPAD_BYTES_MAX
    }
}
