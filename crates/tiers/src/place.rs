//! The position of a value in a cold tier.

/// The position of a value in a cold tier: the number of the tier, and the position within it.
/// Eight bytes, which the store keeps instead of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ColdPlace(u64);

/// Number of bits below the tier's number.
const INNER_BITS: u32 = 56;

impl ColdPlace {
    /// Creates a place in a tier. `inner` has at most 56 bits; the tier defines their meaning.
    pub(crate) fn new(tier: usize, inner: u64) -> ColdPlace {
        debug_assert!(inner >> INNER_BITS == 0 && tier < 256);
        ColdPlace(((tier as u64) << INNER_BITS) | inner)
    }

    /// Returns the number of the tier, in the order of the tiers. The memory tier is number 0 and
    /// has no places.
    pub fn tier(self) -> usize {
        (self.0 >> INNER_BITS) as usize
    }

    pub(crate) fn inner(self) -> u64 {
        self.0 & ((1 << INNER_BITS) - 1)
    }

    /// Returns the place as a number that [`from_bits`](ColdPlace::from_bits) takes.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// Creates the place from a number that [`to_bits`](ColdPlace::to_bits) returned.
    pub fn from_bits(bits: u64) -> ColdPlace {
        ColdPlace(bits)
    }
}
