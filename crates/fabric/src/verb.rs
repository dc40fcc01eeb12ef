//! A client's accesses to the memory of nodes.

use crate::address::{GlobalAddress, NodeId};
use crate::error::FabricError;

/// One access to the memory of a node. The verb itself receives the result.
#[derive(Debug)]
pub enum FabricVerb<'b> {
    /// Reads bytes, in parts and any order.
    Read {
        /// The first byte.
        from: GlobalAddress,
        /// The buffer that receives the bytes.
        into: &'b mut [u8],
    },
    /// Writes bytes, in parts and any order.
    Write {
        /// The first byte.
        to: GlobalAddress,
        /// The bytes.
        bytes: &'b [u8],
    },
    /// Swaps bits of a word if other bits are as expected.
    Swap {
        /// The word, aligned to 8 bytes.
        at: GlobalAddress,
        /// The bits that are compared and swapped.
        swap: MaskedSwap,
        /// The old word.
        found: u64,
    },
    /// Adds to a word, modulo 2^64.
    Add {
        /// The word, aligned to 8 bytes.
        at: GlobalAddress,
        /// The summand.
        summand: u64,
        /// The old word.
        found: u64,
    },
}

/// A compare-and-swap in which only some bits are compared, and only some are swapped. (CHIME takes
/// its lock word by one that compares the lock bit and swaps all bits: section 4.2.1.)
///
/// ```
/// use nearfield_fabric::MaskedSwap;
/// let lock = MaskedSwap {
///     expected: 0,
///     compare_mask: 1 << 63,
///     desired: u64::MAX,
///     swap_mask: u64::MAX,
/// };
/// assert_eq!(lock.apply(0x1234), Some(u64::MAX));
/// assert_eq!(lock.apply(1 << 63), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskedSwap {
    /// The expected value of the compared bits.
    pub expected: u64,
    /// The bits that are compared.
    pub compare_mask: u64,
    /// The new value of the swapped bits.
    pub desired: u64,
    /// The bits that are swapped.
    pub swap_mask: u64,
}

impl MaskedSwap {
    /// Creates a plain compare-and-swap.
    pub const fn whole(expected: u64, desired: u64) -> MaskedSwap {
        MaskedSwap {
            expected,
            compare_mask: u64::MAX,
            desired,
            swap_mask: u64::MAX,
        }
    }

    /// Returns true for a plain compare-and-swap: one that compares and swaps all bits.
    pub const fn is_whole(&self) -> bool {
        self.compare_mask == u64::MAX && self.swap_mask == u64::MAX
    }

    /// Returns true if the word `found` is as expected, so that it was swapped.
    pub const fn succeeds(&self, found: u64) -> bool {
        (found ^ self.expected) & self.compare_mask == 0
    }

    /// Returns the new word; `None` if it stays unchanged.
    pub const fn apply(&self, found: u64) -> Option<u64> {
        if self.succeeds(found) {
            Some(found & !self.swap_mask | self.desired & self.swap_mask)
        } else {
            None
        }
    }
}

impl FabricVerb<'_> {
    /// Creates a compare-and-swap of a whole word.
    pub const fn compare_swap(
        at: GlobalAddress,
        expected: u64,
        desired: u64,
    ) -> FabricVerb<'static> {
        FabricVerb::Swap {
            at,
            swap: MaskedSwap::whole(expected, desired),
            found: 0,
        }
    }

    /// Returns the address of the first byte that it accesses.
    pub fn address(&self) -> GlobalAddress {
        match *self {
            FabricVerb::Read { from, .. } => from,
            FabricVerb::Write { to, .. } => to,
            FabricVerb::Swap { at, .. } | FabricVerb::Add { at, .. } => at,
        }
    }

    /// Returns the node that it accesses.
    pub fn node(&self) -> NodeId {
        self.address().node()
    }

    /// Returns the number of bytes that it accesses.
    pub fn bytes(&self) -> u64 {
        match self {
            FabricVerb::Read { into, .. } => into.len() as u64,
            FabricVerb::Write { bytes, .. } => bytes.len() as u64,
            FabricVerb::Swap { .. } | FabricVerb::Add { .. } => 8,
        }
    }

    /// Returns true for swaps and additions.
    pub fn is_atomic(&self) -> bool {
        matches!(self, FabricVerb::Swap { .. } | FabricVerb::Add { .. })
    }

    /// Returns the old word of a swap or an addition; `None` for other verbs.
    pub fn found(&self) -> Option<u64> {
        match *self {
            FabricVerb::Swap { found, .. } | FabricVerb::Add { found, .. } => Some(found),
            _ => None,
        }
    }

    /// Checks that a node with `size` bytes of memory can execute it.
    ///
    /// # Errors
    /// `OutOfRange`, `Misaligned`.
    pub fn check(&self, size: u64) -> Result<(), FabricError> {
        let (address, bytes) = (self.address(), self.bytes());
        if address
            .offset()
            .checked_add(bytes)
            .is_none_or(|end| end > size)
        {
            return Err(FabricError::OutOfRange {
                address,
                bytes,
                size,
            });
        }
        if self.is_atomic() && !address.offset().is_multiple_of(8) {
            return Err(FabricError::Misaligned { address });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_say_what_is_compared_and_what_is_swapped() {
        let swap = MaskedSwap {
            expected: 0x00ff,
            compare_mask: 0x0ff0,
            desired: 0xabcd,
            swap_mask: 0xf000,
        };
        assert_eq!(swap.apply(0x70f7), Some(0xa0f7));
        assert_eq!(swap.apply(0x71f7), None);
        let whole = MaskedSwap::whole(5, 6);
        assert_eq!((whole.apply(5), whole.apply(4)), (Some(6), None));
    }

    #[test]
    fn what_a_node_cannot_do_is_refused() {
        let at = |offset| GlobalAddress::new(NodeId(1), offset);
        let mut buffer = [0; 16];
        let mut read = |offset| {
            FabricVerb::Read {
                from: at(offset),
                into: &mut buffer,
            }
            .check(64)
        };
        assert_eq!(read(48), Ok(()));
        assert!(matches!(read(49), Err(FabricError::OutOfRange { .. })));
        assert_eq!(
            FabricVerb::compare_swap(at(4), 0, 0).check(64),
            Err(FabricError::Misaligned { address: at(4) })
        );
        let error = FabricVerb::compare_swap(at(64), 0, 0)
            .check(64)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "8 bytes at 1:0x40 reach beyond the node's memory of 64 bytes"
        );
    }
}
