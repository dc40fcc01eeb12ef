//! The word behind a leaf without hop bitmaps. Not in the paper, whose words show vacant slots.
//!
//! ```text
//! bit 63 | stamp           | entries            | index of the slot with the greatest key | bit 0
//!  held  | the rest        | one bit more than  | as many bits as slots have numbers      |
//! ```
//!
//! The *stamp* changes when a key leaves its slot: when it is removed, moved, or put into another
//! leaf. If a client has once seen a key in a slot and takes the lock later, an equal stamp proves
//! that the key is still there, and the client need not read it to overwrite its value. This layout
//! applies while the lock is free, as in [`LockWordLayout`](super::LockWordLayout).

use super::{LockWord, PoolLeaf};

const STAMP_BITS_MAX: u32 = 48;

/// The layout of lock words of leaves of some span.
///
/// ```
/// use nearfield_pool::layout::{LockWord, StampedLayout};
/// let layout = StampedLayout::new(64);
/// assert_eq!(layout.stamp_bits(), 48);
/// let word = layout.with_stamp(LockWord::default(), 77);
/// assert_eq!((layout.stamp(word), layout.entries(word)), (77, 0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampedLayout {
    index_bits: u32,
}

impl StampedLayout {
    /// Creates the layout for leaves of `span` slots.
    ///
    /// # Panics
    /// If a leaf has no slot, or 2^16 and more.
    pub fn new(span: usize) -> StampedLayout {
        assert!(span > 0 && span >> 16 == 0, "a span has up to 16 bits");
        StampedLayout {
            index_bits: usize::BITS - (span - 1).leading_zeros(),
        }
    }

    /// Returns the number of bits of the stamp: 48, or fewer if slot numbers have many.
    pub const fn stamp_bits(&self) -> u32 {
        let left = 63 - self.stamp_shift();
        if left < STAMP_BITS_MAX {
            left
        } else {
            STAMP_BITS_MAX
        }
    }

    /// Returns the slot with the greatest key. Meaningless if the leaf is empty.
    pub fn max_slot(&self, word: LockWord) -> usize {
        (word.to_bits() & low(self.index_bits)) as usize
    }

    /// Returns the word with another slot for the greatest key.
    #[must_use]
    pub fn with_max_slot(&self, word: LockWord, slot: usize) -> LockWord {
        debug_assert!(slot as u64 <= low(self.index_bits));
        replaced(word, 0, self.index_bits, slot as u64)
    }

    /// Returns the number of occupied slots.
    pub fn entries(&self, word: LockWord) -> usize {
        (word.to_bits() >> self.index_bits & low(self.index_bits + 1)) as usize
    }

    /// Returns the word with another number of occupied slots.
    #[must_use]
    pub fn with_entries(&self, word: LockWord, entries: usize) -> LockWord {
        replaced(word, self.index_bits, self.index_bits + 1, entries as u64)
    }

    /// Returns the stamp.
    pub fn stamp(&self, word: LockWord) -> u64 {
        word.to_bits() >> self.stamp_shift() & low(self.stamp_bits())
    }

    /// Returns the word with another stamp, cut off to the bits that fit.
    #[must_use]
    pub fn with_stamp(&self, word: LockWord, stamp: u64) -> LockWord {
        replaced(word, self.stamp_shift(), self.stamp_bits(), stamp)
    }

    /// Returns the word of a fully known leaf, unlocked and with a stamp of zero.
    pub fn of_leaf(&self, leaf: &PoolLeaf) -> LockWord {
        let word = self.with_max_slot(LockWord::default(), leaf.max_slot().unwrap_or(0));
        self.with_entries(word, leaf.occupied().count())
    }

    const fn stamp_shift(&self) -> u32 {
        2 * self.index_bits + 1
    }
}

/// Returns a mask of the lowest bits.
const fn low(bits: u32) -> u64 {
    (1 << bits) - 1
}

fn replaced(word: LockWord, shift: u32, bits: u32, by: u64) -> LockWord {
    debug_assert!(shift + bits < u64::BITS, "the held bit stays");
    let mask = low(bits);
    LockWord::from_bits(word.to_bits() & !(mask << shift) | (by & mask) << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_touch_each_other() {
        for span in [1, 2, 31, 64, 512, 4096] {
            let layout = StampedLayout::new(span);
            let word = layout.with_max_slot(LockWord::default(), span - 1);
            let word = layout.with_entries(word, span);
            let word = layout.with_stamp(word, u64::MAX);
            assert!(!word.is_locked());
            assert_eq!(layout.max_slot(word), span - 1);
            assert_eq!(layout.entries(word), span);
            assert_eq!(layout.stamp(word), low(layout.stamp_bits()));
            let word = layout.with_stamp(word, 0);
            assert_eq!((layout.entries(word), layout.stamp(word)), (span, 0));
            let word = layout.with_entries(word, 0);
            assert_eq!(layout.max_slot(word), span - 1);
            assert_eq!(layout.with_max_slot(word, 0), LockWord::default());
        }
    }
}
