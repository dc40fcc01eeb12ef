//! The state of a block, in one word that is written at once.

/// The state of a block; see the [module](self).
///
/// ```text
///   31        30        29            23         17         11        0
///   │ outside │ latched │ granules: 7 │ slots: 6 │ count: 6 │ end: 11 │
/// ```
///
/// For a block whose entry is stored outside, only the count and the marks are meaningful.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringBlockState(pub u32);

impl StringBlockState {
    /// The mark of a block whose entry is stored outside the region of leaves.
    pub const OUTSIDE: u32 = 1 << 31;
    /// The mark of a block that a thread is about to change.
    pub const LATCHED: u32 = 1 << 30;

    /// Returns the state of a block that has its entries inside.
    pub fn inside(granules: usize, slots: usize, count: usize, end: usize) -> StringBlockState {
        debug_assert!(granules < 1 << 7 && count <= slots && slots < 1 << 6 && end < 1 << 11);
        StringBlockState((granules << 23 | slots << 17 | count << 11 | end) as u32)
    }

    /// Returns the state of a block of one entry, which is stored outside.
    pub fn outside() -> StringBlockState {
        StringBlockState(Self::OUTSIDE | 1 << 11)
    }

    /// Returns true if the entry is stored outside the region of leaves.
    #[inline]
    pub fn is_outside(self) -> bool {
        self.0 & Self::OUTSIDE != 0
    }

    /// Returns the length of the block in granules.
    pub fn granules(self) -> usize {
        (self.0 >> 23 & 0x7f) as usize
    }

    /// Returns the number of places for offsets.
    #[inline]
    pub fn slots(self) -> usize {
        (self.0 >> 17 & 0x3f) as usize
    }

    /// Returns the number of entries.
    #[inline]
    pub fn count(self) -> usize {
        (self.0 >> 11 & 0x3f) as usize
    }

    /// Returns the offset of the room after the entries.
    #[inline]
    pub fn end(self) -> usize {
        (self.0 & 0x7ff) as usize
    }

    /// Returns the state with another number of entries and another end.
    #[inline]
    pub fn with(self, count: usize, end: usize) -> StringBlockState {
        debug_assert!(count < 1 << 6 && end < 1 << 11);
        StringBlockState(self.0 & !0x1_ffff | (count << 11 | end) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_state_are_read_as_they_were_written() {
        for (granules, slots, count, end) in [(64, 32, 32, 1024), (3, 1, 1, 48), (64, 32, 0, 0)] {
            let state = StringBlockState(
                StringBlockState::inside(granules, slots, count, end).0 | StringBlockState::LATCHED,
            );
            assert_eq!(
                (state.granules(), state.slots(), state.count(), state.end()),
                (granules, slots, count, end)
            );
            let less = state.with(0, 1);
            assert_eq!((less.count(), less.end(), less.slots()), (0, 1, slots));
            assert!(!less.is_outside() && less.0 & StringBlockState::LATCHED != 0);
        }
        assert!(
            StringBlockState::outside().is_outside() && StringBlockState::outside().count() == 1
        );
    }
}
