//! Where a value lies in a cold tier.

/// Where a value lies: the number of its tier, and the place there. Eight bytes, which the store
/// keeps instead of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place(u64);

/// The bits below the tier's number.
const INNER_BITS: u32 = 56;

impl Place {
    /// A place of a tier. `inner` has at most 56 bits; the tier gives them their meaning.
    pub(crate) fn new(tier: usize, inner: u64) -> Place {
        debug_assert!(inner >> INNER_BITS == 0 && tier < 256);
        Place(((tier as u64) << INNER_BITS) | inner)
    }

    /// The number of the tier, in the order of the tiers. The memory tier is number 0 and has no
    /// places.
    pub fn tier(self) -> usize {
        (self.0 >> INNER_BITS) as usize
    }

    pub(crate) fn inner(self) -> u64 {
        self.0 & ((1 << INNER_BITS) - 1)
    }

    /// The place as a number that [`from_bits`](Place::from_bits) takes.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The place of a number that [`to_bits`](Place::to_bits) has answered.
    pub fn from_bits(bits: u64) -> Place {
        Place(bits)
    }
}
