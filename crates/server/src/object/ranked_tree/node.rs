//! The nodes of the tree: arrays of fixed size that refer to each other by number.

use std::ops::Range;

/// The maximum number of entries of a leaf.
pub(super) const LEAF_ENTRIES: usize = 64;

/// The maximum number of children of an inner node.
pub(super) const INNER_CHILDREN: usize = 32;

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// Entries in order, and the neighbouring leaves.
#[derive(Clone)]
pub(super) struct RankedTreeLeaf {
    pub(super) scores: [f64; LEAF_ENTRIES],
    pub(super) ids: [u32; LEAF_ENTRIES],
    pub(super) len: u32,
    pub(super) previous: u32,
    /// The next leaf; for an unused leaf, the next unused one.
    pub(super) next: u32,
}

/// The slots of a node's children: the first entry of each, the number of entries below it, and its
/// number.
#[derive(Clone)]
pub(super) struct RankedTreeInner {
    pub(super) scores: [f64; INNER_CHILDREN],
    pub(super) ids: [u32; INNER_CHILDREN],
    pub(super) counts: [u32; INNER_CHILDREN],
    /// The numbers of the children. In an unused node, the first is the next unused one.
    pub(super) children: [u32; INNER_CHILDREN],
    pub(super) len: u32,
}

/// A child as its parent knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RankedTreeSlot {
    pub(super) score: f64,
    pub(super) id: u32,
    pub(super) count: u32,
    pub(super) child: u32,
}

/// Returns the number of the entries, which are in order, before a position: those with a lesser
/// score, and of those with this `score` the ones for which `is_before` returns true.
#[inline]
pub(super) fn partition(
    scores: &[f64],
    ids: &[u32],
    score: f64,
    is_before: &impl Fn(u32) -> bool,
) -> usize {
    let equal = equals(scores, score);
    equal.start + ids[equal].partition_point(|id| is_before(*id))
}

/// Returns the range of the entries that have this `score`, or the empty range where they would be.
#[inline]
pub(super) fn equals(scores: &[f64], score: f64) -> Range<usize> {
    // All scores are compared instead of a binary search: no branch is hard to predict, and the
    // cache lines of the node are fetched in parallel.
    let (mut less, mut equal) = (0_u64, 0_u64);
    for other in scores {
        less += u64::from(*other < score);
        equal += u64::from(*other == score);
    }
    less as usize..(less + equal) as usize
}

/// Moves `array[from..to]` so that it begins at `target`.
fn shift<T: Copy>(array: &mut [T], from: usize, to: usize, target: usize) {
    array.copy_within(from..to, target);
}

impl RankedTreeLeaf {
    pub(super) const EMPTY: RankedTreeLeaf = RankedTreeLeaf {
        scores: [0.0; LEAF_ENTRIES],
        ids: [0; LEAF_ENTRIES],
        len: 0,
        previous: NONE,
        next: NONE,
    };

    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn entry(&self, index: usize) -> (f64, u32) {
        (self.scores[index], self.ids[index])
    }

    pub(super) fn insert(&mut self, index: usize, (score, id): (f64, u32)) {
        let len = self.len();
        debug_assert!(index <= len && len < LEAF_ENTRIES);
        shift(&mut self.scores, index, len, index + 1);
        shift(&mut self.ids, index, len, index + 1);
        self.scores[index] = score;
        self.ids[index] = id;
        self.len += 1;
    }

    pub(super) fn remove(&mut self, index: usize) -> (f64, u32) {
        debug_assert!(index < self.len());
        let (entry, len) = (self.entry(index), self.len());
        shift(&mut self.scores, index + 1, len, index);
        shift(&mut self.ids, index + 1, len, index);
        self.len -= 1;
        entry
    }

    /// Moves the entries from `at` on to the front of `right`, before its own.
    pub(super) fn move_right(&mut self, at: usize, right: &mut RankedTreeLeaf) {
        let (count, old) = (self.len() - at, right.len());
        shift(&mut right.scores, 0, old, count);
        shift(&mut right.ids, 0, old, count);
        right.scores[..count].copy_from_slice(&self.scores[at..at + count]);
        right.ids[..count].copy_from_slice(&self.ids[at..at + count]);
        right.len += count as u32;
        self.len = at as u32;
    }

    /// Moves the first `count` entries of `right` behind the own ones.
    pub(super) fn move_left(&mut self, right: &mut RankedTreeLeaf, count: usize) {
        let (at, old) = (self.len(), right.len());
        self.scores[at..at + count].copy_from_slice(&right.scores[..count]);
        self.ids[at..at + count].copy_from_slice(&right.ids[..count]);
        shift(&mut right.scores, count, old, 0);
        shift(&mut right.ids, count, old, 0);
        right.len -= count as u32;
        self.len += count as u32;
    }
}

impl RankedTreeInner {
    pub(super) const EMPTY: RankedTreeInner = RankedTreeInner {
        scores: [0.0; INNER_CHILDREN],
        ids: [0; INNER_CHILDREN],
        counts: [0; INNER_CHILDREN],
        children: [NONE; INNER_CHILDREN],
        len: 0,
    };

    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn slot(&self, index: usize) -> RankedTreeSlot {
        RankedTreeSlot {
            score: self.scores[index],
            id: self.ids[index],
            count: self.counts[index],
            child: self.children[index],
        }
    }

    pub(super) fn set(&mut self, index: usize, slot: RankedTreeSlot) {
        self.scores[index] = slot.score;
        self.ids[index] = slot.id;
        self.counts[index] = slot.count;
        self.children[index] = slot.child;
    }

    /// Returns the number of entries in all children.
    pub(super) fn count(&self) -> u32 {
        self.counts[..self.len()].iter().sum()
    }

    fn shift(&mut self, from: usize, target: usize) {
        let len = self.len();
        shift(&mut self.scores, from, len, target);
        shift(&mut self.ids, from, len, target);
        shift(&mut self.counts, from, len, target);
        shift(&mut self.children, from, len, target);
    }

    fn copy(&mut self, at: usize, source: &RankedTreeInner, from: usize, count: usize) {
        for index in 0..count {
            self.set(at + index, source.slot(from + index));
        }
    }

    pub(super) fn insert(&mut self, index: usize, slot: RankedTreeSlot) {
        debug_assert!(index <= self.len() && self.len() < INNER_CHILDREN);
        self.shift(index, index + 1);
        self.set(index, slot);
        self.len += 1;
    }

    pub(super) fn remove(&mut self, index: usize) {
        debug_assert!(index < self.len());
        self.shift(index + 1, index);
        self.len -= 1;
    }

    /// Works like [`RankedTreeLeaf::move_right`].
    pub(super) fn move_right(&mut self, at: usize, right: &mut RankedTreeInner) {
        let count = self.len() - at;
        right.shift(0, count);
        right.copy(0, self, at, count);
        right.len += count as u32;
        self.len = at as u32;
    }

    /// Works like [`RankedTreeLeaf::move_left`].
    pub(super) fn move_left(&mut self, right: &mut RankedTreeInner, count: usize) {
        self.copy(self.len(), right, 0, count);
        self.len += count as u32;
        right.shift(count, 0);
        right.len -= count as u32;
    }
}
