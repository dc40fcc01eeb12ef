//! The word behind a leaf. It holds the leaf's lock and, because a client that takes the lock reads
//! the word, the facts that a writer needs before it reads (reference: CHIME, vacancy bitmap
//! piggybacking).
//!
//! ```text
//! bit 63 | index of the slot with the greatest key | vacancy bitmap | bit 0
//!  held  | 6 (the rest)                            | 57             |
//! ```
//!
//! A bit of the vacancy bitmap is 1 if all slots of its *bucket* are full. If a leaf has more slots
//! than there are bits, some buckets have several. This layout applies while the lock is free.
//! While the lock is held, the other bits name the holder ([`nearfield_fabric::recovery::lease`]);
//! CHIME sets all of them.

use super::{LeafSlotRange, PoolLeaf};
use nearfield_fabric::recovery::lease::HELD_BIT;
use std::ops::Range;

/// A lock word. The meaning of its bits depends on the number of slots in a leaf:
/// [`LockWordLayout`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockWord(u64);

impl LockWord {
    /// Creates the lock word from a word of memory.
    pub const fn from_bits(bits: u64) -> LockWord {
        LockWord(bits)
    }

    /// Returns the lock word as a word of memory.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Returns true if the lock is held.
    pub const fn is_locked(self) -> bool {
        self.0 & HELD_BIT != 0
    }
}

/// The layout of lock words of leaves of some span.
///
/// ```
/// use nearfield_pool::layout::LockWordLayout;
/// let layout = LockWordLayout::new(64);
/// assert_eq!((layout.buckets(), layout.index_bits()), (57, 6));
/// assert_eq!(layout.slots(0), 0..2);
/// assert_eq!(layout.bucket(1), 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockWordLayout {
    span: usize,
    buckets: usize,
}

impl LockWordLayout {
    /// Creates the layout for leaves of `span` slots. The index takes as many bits as it needs, the
    /// vacancy bitmap at most one of the others for each slot.
    ///
    /// # Panics
    /// If a leaf has no slot, or 2^32 and more.
    pub fn new(span: usize) -> LockWordLayout {
        assert!(span > 0 && span >> 32 == 0, "a span has up to 32 bits");
        let index_bits = (usize::BITS - (span - 1).leading_zeros()) as usize;
        LockWordLayout {
            span,
            buckets: span.min(63 - index_bits),
        }
    }

    /// Returns the number of buckets, and so of bits of the vacancy bitmap.
    pub fn buckets(&self) -> usize {
        self.buckets
    }

    /// Returns the number of bits for the index of the greatest key's slot.
    pub fn index_bits(&self) -> usize {
        63 - self.buckets
    }

    /// Returns the bucket of a slot.
    pub fn bucket(&self, slot: usize) -> usize {
        debug_assert!(slot < self.span);
        slot * self.buckets / self.span
    }

    /// Returns the slots of a bucket.
    pub fn slots(&self, bucket: usize) -> Range<usize> {
        debug_assert!(bucket < self.buckets);
        let first = |bucket: usize| (bucket * self.span).div_ceil(self.buckets);
        first(bucket)..first(bucket + 1)
    }

    /// Returns true if the word shows all slots of a bucket as full.
    pub fn is_full(&self, word: LockWord, bucket: usize) -> bool {
        word.0 >> bucket & 1 != 0
    }

    /// Returns the word that shows a bucket as full, or not.
    #[must_use]
    pub fn with_full(&self, word: LockWord, bucket: usize, full: bool) -> LockWord {
        debug_assert!(
            bucket < self.buckets,
            "other bits are the index, or the lock"
        );
        LockWord(word.0 & !(1 << bucket) | u64::from(full) << bucket)
    }

    /// Returns the slot with the greatest key. Meaningless if the leaf is empty.
    pub fn max_slot(&self, word: LockWord) -> usize {
        ((word.0 & !HELD_BIT) >> self.buckets) as usize
    }

    /// Returns the word with another slot for the greatest key.
    #[must_use]
    pub fn with_max_slot(&self, word: LockWord, slot: usize) -> LockWord {
        debug_assert!(slot as u64 >> self.index_bits() == 0, "the held bit stays");
        let vacancy = (1 << self.buckets) - 1;
        LockWord(word.0 & (HELD_BIT | vacancy) | (slot as u64) << self.buckets)
    }

    /// Returns the word of a fully known leaf, unlocked.
    pub fn of_leaf(&self, leaf: &PoolLeaf) -> LockWord {
        let mut word = LockWord::default();
        for bucket in 0..self.buckets {
            let full = self.slots(bucket).all(|slot| leaf.key(slot).is_some());
            word = self.with_full(word, bucket, full);
        }
        self.with_max_slot(word, leaf.max_slot().unwrap_or(0))
    }

    /// Returns the slots from `home` to the end of the first bucket with an empty one, which an
    /// insert must read. Returns `None` if the word shows all as full.
    ///
    /// Ranges wrap, unlike in the public implementation of CHIME, which skips all buckets behind
    /// the end of the leaf and so reads whole leaves.
    pub fn hop_range(&self, word: LockWord, home: usize) -> Option<LeafSlotRange> {
        let leaf = LeafSlotRange::new(home, self.span, self.span);
        // A bucket that begins before `home` and reaches beyond it is skipped, because its empty
        // slot may be before `home`. If there is no other, the whole leaf must be read.
        let split = self.slots(self.bucket(home)).start < home;
        let first = self.bucket(home) + usize::from(split);
        let candidates = self.buckets - usize::from(split);
        for bucket in (first..first + candidates).map(|bucket| bucket % self.buckets) {
            if !self.is_full(word, bucket) {
                let last = self.slots(bucket).end - 1;
                return Some(LeafSlotRange::new(home, leaf.distance(last) + 1, self.span));
            }
        }
        (!self.is_full(word, self.bucket(home))).then_some(leaf)
    }

    /// Returns the word after slots were written, as far as the writer knows: buckets with a
    /// written slot become full, unless `is_empty` is true for a fetched slot of theirs.
    #[must_use]
    pub fn after_write(
        &self,
        word: LockWord,
        written: LeafSlotRange,
        fetched: LeafSlotRange,
        is_empty: impl Fn(usize) -> bool,
    ) -> LockWord {
        let full = written.iter().fold(word, |word, slot| {
            self.with_full(word, self.bucket(slot), true)
        });
        // Fetched slots come last: a written bucket is full only as far as the writer knows.
        let empty = fetched.iter().filter(|&slot| is_empty(slot));
        empty.fold(full, |word, slot| {
            self.with_full(word, self.bucket(slot), false)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_divide_the_slots_of_any_span() {
        for span in 1..=600 {
            let layout = LockWordLayout::new(span);
            assert!(layout.buckets() + layout.index_bits() == 63);
            assert!(span <= 1 << layout.index_bits());
            let mut next = 0;
            for bucket in 0..layout.buckets() {
                let slots = layout.slots(bucket);
                assert_eq!(slots.start, next);
                assert!(!slots.is_empty());
                assert!(slots.clone().all(|slot| layout.bucket(slot) == bucket));
                next = slots.end;
            }
            assert_eq!(next, span);
        }
    }

    #[test]
    fn the_sizes_of_the_default_leaf_are_those_of_chime() {
        let layout = LockWordLayout::new(64);
        let double = (0..57).filter(|&bucket| layout.slots(bucket).len() == 2);
        assert_eq!(double.count(), 7);
        assert_eq!(LockWordLayout::new(32).buckets(), 32);
        assert_eq!(LockWordLayout::new(32).index_bits(), 31);
        assert_eq!(LockWordLayout::new(512).buckets(), 54);
    }

    #[test]
    fn fields_do_not_touch_each_other() {
        for span in [2, 31, 64, 512, 4096] {
            let layout = LockWordLayout::new(span);
            for slot in [0, 1, span / 2, span - 1] {
                let bucket = layout.bucket(slot);
                let word = layout.with_full(LockWord::default(), bucket, true);
                let word = layout.with_max_slot(word, slot);
                assert_eq!(layout.max_slot(word), slot);
                assert!(layout.is_full(word, bucket) && !word.is_locked());
                let full = |bucket: &usize| layout.is_full(word, *bucket);
                assert_eq!((0..layout.buckets()).filter(full).count(), 1);
                let word = layout.with_full(word, bucket, false);
                assert_eq!(layout.max_slot(layout.with_max_slot(word, 0)), 0);
                assert_eq!(layout.with_max_slot(word, 0), LockWord::default());
            }
        }
        assert!(LockWord::from_bits(HELD_BIT).is_locked());
    }

    #[test]
    fn hop_ranges_wrap_and_skip_only_the_bucket_around_home() {
        let layout = LockWordLayout::new(64);
        let vacant = |slots: &[usize]| {
            let word = LockWord::from_bits((1 << 57) - 1);
            slots.iter().fold(word, |word, &slot| {
                layout.with_full(word, layout.bucket(slot), false)
            })
        };
        assert_eq!(layout.hop_range(vacant(&[]), 5), None);
        // Bucket 0 has slots 0 and 1.
        let from = |home, count| Some(LeafSlotRange::new(home, count, 64));
        assert_eq!(layout.hop_range(vacant(&[0]), 0), from(0, 2));
        assert_eq!(layout.hop_range(vacant(&[0]), 1), from(1, 64));
        assert_eq!(layout.hop_range(vacant(&[0, 5]), 1), from(1, 5));
        assert_eq!(layout.hop_range(vacant(&[0]), 62), from(62, 4));
        assert_eq!(layout.hop_range(vacant(&[3]), 4), from(4, 64));
    }

    #[test]
    fn a_writer_says_of_a_bucket_what_it_knows() {
        let layout = LockWordLayout::new(64);
        let (written, fetched) = (LeafSlotRange::new(0, 1, 64), LeafSlotRange::new(0, 4, 64));
        let word = LockWord::default();
        let after = |empty: usize| {
            let after = layout.after_write(word, written, fetched, |slot| slot == empty);
            layout.is_full(after, 0)
        };
        assert!(
            !after(1),
            "the other slot of the bucket is known to be empty"
        );
        assert!(after(3));
    }
}
