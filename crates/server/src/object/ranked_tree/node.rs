//! The nodes of the tree: arrays of fixed size that are found by number.

use std::ops::Range;

/// The entries of a leaf.
pub(super) const LEAF_ENTRIES: usize = 64;

/// The children of an inner node.
pub(super) const INNER_CHILDREN: usize = 32;

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// Entries in order, and the neighbouring leaves.
#[derive(Clone)]
pub(super) struct Leaf {
    pub(super) scores: [f64; LEAF_ENTRIES],
    pub(super) ids: [u32; LEAF_ENTRIES],
    pub(super) len: u32,
    pub(super) previous: u32,
    /// The next leaf; of a leaf that is not in use, the next such one.
    pub(super) next: u32,
}

/// What a node knows of its children: the first entry of each, how many entries there are in it,
/// and its number.
#[derive(Clone)]
pub(super) struct Inner {
    pub(super) scores: [f64; INNER_CHILDREN],
    pub(super) ids: [u32; INNER_CHILDREN],
    pub(super) counts: [u32; INNER_CHILDREN],
    /// The numbers of the children. Of a node that is not in use, the first is the next such one.
    pub(super) children: [u32; INNER_CHILDREN],
    pub(super) len: u32,
}

/// A child as its parent knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slot {
    pub(super) score: f64,
    pub(super) id: u32,
    pub(super) count: u32,
    pub(super) child: u32,
}

/// How many of the entries, which are in order, lie before a place: those of a lesser score, and
/// of those with this `score` the ones that `is_before` says yes of.
///
/// Scores are all compared rather than halved: that takes no branch that is hard to predict, and
/// the lines of the node come from memory side by side.
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

/// The entries that have this `score`, or where they would be.
#[inline]
pub(super) fn equals(scores: &[f64], score: f64) -> Range<usize> {
    let (mut less, mut equal) = (0_u64, 0_u64);
    for other in scores {
        less += u64::from(*other < score);
        equal += u64::from(*other == score);
    }
    less as usize..(less + equal) as usize
}

/// Moves `array[from..to]` to where it begins at `target`.
fn shift<T: Copy>(array: &mut [T], from: usize, to: usize, target: usize) {
    array.copy_within(from..to, target);
}

impl Leaf {
    pub(super) const EMPTY: Leaf = Leaf {
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
        shift(&mut self.scores, index, len, index + 1);
        shift(&mut self.ids, index, len, index + 1);
        self.scores[index] = score;
        self.ids[index] = id;
        self.len += 1;
    }

    pub(super) fn remove(&mut self, index: usize) -> (f64, u32) {
        let (entry, len) = (self.entry(index), self.len());
        shift(&mut self.scores, index + 1, len, index);
        shift(&mut self.ids, index + 1, len, index);
        self.len -= 1;
        entry
    }

    /// Moves the entries from `at` on to the front of `right`, before those that are there.
    pub(super) fn move_right(&mut self, at: usize, right: &mut Leaf) {
        let (count, old) = (self.len() - at, right.len());
        shift(&mut right.scores, 0, old, count);
        shift(&mut right.ids, 0, old, count);
        right.scores[..count].copy_from_slice(&self.scores[at..at + count]);
        right.ids[..count].copy_from_slice(&self.ids[at..at + count]);
        right.len += count as u32;
        self.len = at as u32;
    }

    /// Moves the first `count` entries of `right` behind those that are here.
    pub(super) fn move_left(&mut self, right: &mut Leaf, count: usize) {
        let (at, old) = (self.len(), right.len());
        self.scores[at..at + count].copy_from_slice(&right.scores[..count]);
        self.ids[at..at + count].copy_from_slice(&right.ids[..count]);
        shift(&mut right.scores, count, old, 0);
        shift(&mut right.ids, count, old, 0);
        right.len -= count as u32;
        self.len += count as u32;
    }
}

impl Inner {
    pub(super) const EMPTY: Inner = Inner {
        scores: [0.0; INNER_CHILDREN],
        ids: [0; INNER_CHILDREN],
        counts: [0; INNER_CHILDREN],
        children: [NONE; INNER_CHILDREN],
        len: 0,
    };

    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn slot(&self, index: usize) -> Slot {
        Slot {
            score: self.scores[index],
            id: self.ids[index],
            count: self.counts[index],
            child: self.children[index],
        }
    }

    pub(super) fn set(&mut self, index: usize, slot: Slot) {
        self.scores[index] = slot.score;
        self.ids[index] = slot.id;
        self.counts[index] = slot.count;
        self.children[index] = slot.child;
    }

    /// The entries in all children.
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

    fn copy(&mut self, at: usize, source: &Inner, from: usize, count: usize) {
        for index in 0..count {
            self.set(at + index, source.slot(from + index));
        }
    }

    pub(super) fn insert(&mut self, index: usize, slot: Slot) {
        self.shift(index, index + 1);
        self.set(index, slot);
        self.len += 1;
    }

    pub(super) fn remove(&mut self, index: usize) {
        self.shift(index + 1, index);
        self.len -= 1;
    }

    /// As [`Leaf::move_right`].
    pub(super) fn move_right(&mut self, at: usize, right: &mut Inner) {
        let count = self.len() - at;
        right.shift(0, count);
        right.copy(0, self, at, count);
        right.len += count as u32;
        self.len = at as u32;
    }

    /// As [`Leaf::move_left`].
    pub(super) fn move_left(&mut self, right: &mut Inner, count: usize) {
        self.copy(self.len(), right, 0, count);
        self.len += count as u32;
        right.shift(count, 0);
        right.len -= count as u32;
    }
}
