//! The lock word of a leaf while the lock is free.

use super::lock::ChimeNodeLock;
use crate::layout::{
    Arrangement, LeafSlotRange, LockWord, LockWordLayout, PoolIndexShape, PoolLeaf, StampedLayout,
};

/// The layout of the lock words of leaves.
#[derive(Clone, Copy, Debug)]
pub(super) enum LeafLockWord {
    /// Words that contain a vacancy bitmap, as in the paper.
    Vacancy(LockWordLayout),
    /// Words with stamps, for leaves without hop bitmaps.
    Stamped(StampedLayout),
}

impl LeafLockWord {
    pub fn new(shape: &PoolIndexShape) -> LeafLockWord {
        match shape.arrangement {
            Arrangement::Neighborhood => LeafLockWord::Stamped(StampedLayout::new(shape.leaf_span)),
            _ => LeafLockWord::Vacancy(LockWordLayout::new(shape.leaf_span)),
        }
    }

    /// Returns the word of a fully known leaf whose keys may have left their slots under this lock
    /// or earlier.
    pub fn of_leaf(&self, leaf: &PoolLeaf, lock: &ChimeNodeLock<'_>) -> LockWord {
        self.stamped(self.of_new(leaf), lock)
    }

    /// Returns the word of a new leaf that no other client knows.
    pub fn of_new(&self, leaf: &PoolLeaf) -> LockWord {
        match self {
            LeafLockWord::Vacancy(layout) => layout.of_leaf(leaf),
            LeafLockWord::Stamped(layout) => layout.of_leaf(leaf),
        }
    }

    /// Returns the word of a leaf that a key has left under this lock.
    pub fn stamped(&self, word: LockWord, lock: &ChimeNodeLock<'_>) -> LockWord {
        match self {
            LeafLockWord::Vacancy(_) => word,
            LeafLockWord::Stamped(layout) => {
                layout.with_stamp(word, lock.stamp(layout.stamp_bits()))
            }
        }
    }

    /// Returns the stamp of a word, if it has one.
    pub fn stamp(&self, word: LockWord) -> Option<u64> {
        match self {
            LeafLockWord::Vacancy(_) => None,
            LeafLockWord::Stamped(layout) => Some(layout.stamp(word)).filter(|&stamp| stamp != 0),
        }
    }

    /// Returns the word after a write of slots that gives the leaf this many more entries, as far
    /// as the writer knows, which has fetched `known`.
    pub fn after_write(
        &self,
        word: LockWord,
        leaf: &PoolLeaf,
        written: LeafSlotRange,
        known: LeafSlotRange,
        more: isize,
    ) -> LockWord {
        let word = match self {
            LeafLockWord::Vacancy(layout) => {
                layout.after_write(word, written, known, |slot| leaf.key(slot).is_none())
            }
            LeafLockWord::Stamped(layout) => {
                // The word may be damaged, and a count that wraps would claim a full leaf.
                let entries = layout.entries(word).saturating_add_signed(more);
                layout.with_entries(word, entries)
            }
        };
        self.with_greatest(word, leaf, known, written)
    }

    /// Stores the slot of the greatest key in the word, as far as it is known.
    fn with_greatest(
        &self,
        word: LockWord,
        leaf: &PoolLeaf,
        known: LeafSlotRange,
        written: LeafSlotRange,
    ) -> LockWord {
        // A damaged word may name a slot that no leaf has.
        let former = Some(self.max_slot(word)).filter(|&slot| slot < leaf.layout().span());
        // If the former slot was not read, its key may still be the greatest.
        if former.is_some_and(|former| !known.contains(former)) {
            return word;
        }
        // The key may have been moved, or a greater one written. If it was removed the named slot
        // does not matter: `has_greater` finds no key there.
        let candidates = written.iter().chain(former);
        let candidates = candidates.filter(|&slot| known.contains(slot));
        match (candidates.max_by_key(|&slot| leaf.key(slot)), self) {
            (None, _) => word,
            (Some(slot), LeafLockWord::Vacancy(layout)) => layout.with_max_slot(word, slot),
            (Some(slot), LeafLockWord::Stamped(layout)) => layout.with_max_slot(word, slot),
        }
    }

    /// Returns the slot that the word names for the greatest key.
    pub fn max_slot(&self, word: LockWord) -> usize {
        match self {
            LeafLockWord::Vacancy(layout) => layout.max_slot(word),
            LeafLockWord::Stamped(layout) => layout.max_slot(word),
        }
    }

    /// Returns the number of occupied slots that the word shows; never more than there are.
    pub fn occupied(&self, word: LockWord) -> usize {
        match self {
            // A bucket that is not full may still have entries, which the word does not show.
            LeafLockWord::Vacancy(layout) => (0..layout.buckets())
                .filter(|&bucket| layout.is_full(word, bucket))
                .count(),
            LeafLockWord::Stamped(layout) => layout.entries(word),
        }
    }

    /// Returns the slots from `home` on that an insert must read to find an empty one. `None` if
    /// that is unknown.
    pub fn hop_range(&self, word: LockWord, home: usize) -> Option<LeafSlotRange> {
        match self {
            LeafLockWord::Vacancy(layout) => layout.hop_range(word, home),
            LeafLockWord::Stamped(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Geometry, PoolLeafLayout};

    /// A word of a free lock may contain anything, and the next write makes it name a slot.
    #[test]
    fn damaged_words_name_a_slot_after_a_write() {
        for arrangement in [Arrangement::Hopscotch, Arrangement::Neighborhood] {
            for leaf_span in [8, 31, 32, 33, 64, 100] {
                let shape = PoolIndexShape {
                    leaf_span,
                    arrangement,
                    ..PoolIndexShape::default()
                };
                let geometry = Geometry::new(shape).expect("the shape is possible");
                let words = LeafLockWord::new(&shape);
                let mut leaf = PoolLeaf::new(PoolLeafLayout::new(geometry));
                let last = leaf_span - 1;
                leaf.put(last, b"some key", b"no value");
                let written = LeafSlotRange::new(last, 1, leaf_span);
                for bits in (0..u64::BITS).map(|shift| u64::MAX >> 1 >> shift) {
                    let word = LockWord::from_bits(bits);
                    for known in [written, LeafSlotRange::new(0, leaf_span, leaf_span)] {
                        let after = words.after_write(word, &leaf, written, known, 1);
                        let slot = words.max_slot(after);
                        assert!(slot < leaf_span, "{leaf_span} slots, {bits:#x}: {slot}");
                        assert!(!after.is_locked());
                    }
                }
            }
        }
    }
}
