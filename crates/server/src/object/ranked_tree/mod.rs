//! A B+ tree of scores and ids with counts, so that an entry is found by its rank.
//!
//! The tree does not know the order of ids that have one score: the caller of a search passes a
//! function that returns true if such an id comes before the one searched. An inner node holds the
//! first entry of each child and its number of entries, both exact at all times; leaves are linked,
//! for walks in both directions. Nodes are stored in two vectors and refer to each other by number,
//! and unused nodes are kept in lists.
//!
//! All nodes except those on the path to the last leaf are at least a third full. These may hold
//! less, because a node that is split by an append at the end keeps all its entries: appends would
//! otherwise leave a trail of half-full nodes.

mod node;

use allocator_api2::alloc::Allocator;
use allocator_api2::vec::Vec;
use node::{
    INNER_CHILDREN, LEAF_ENTRIES, NONE, RankedTreeInner, RankedTreeLeaf, RankedTreeSlot, equals,
    partition,
};

/// The fill below which a node gives its entries away or gets some.
const LEAF_ENTRIES_MIN: usize = LEAF_ENTRIES / 3;
const INNER_CHILDREN_MIN: usize = INNER_CHILDREN / 3;

/// The fill up to which two neighbours are merged, which leaves room in the merged node.
const LEAF_ENTRIES_MERGED: usize = LEAF_ENTRIES * 3 / 4;
const INNER_CHILDREN_MERGED: usize = INNER_CHILDREN * 3 / 4;

/// The fill of nodes in a tree that is built at once.
const LEAF_ENTRIES_BUILT: usize = LEAF_ENTRIES * 7 / 8;
const INNER_CHILDREN_BUILT: usize = INNER_CHILDREN * 7 / 8;

/// The maximum number of levels of inner nodes. With ten children each, 2^32 entries take nine
/// levels.
const LEVELS_MAX: usize = 12;

/// Entries of a score and an id, in an order that the caller defines.
///
/// There are at most 2^32 - 1 entries, and scores are never NaN.
pub struct RankedTree<A: Allocator> {
    leaves: Vec<RankedTreeLeaf, A>,
    inners: Vec<RankedTreeInner, A>,
    root: u32,
    /// Levels of inner nodes: with none, the root is a leaf.
    levels: u32,
    len: u32,
    free_leaf: u32,
    free_inner: u32,
}

/// The position of an entry in the tree. Any change invalidates it.
#[derive(Clone, Copy, Debug)]
pub struct RankedTreePosition {
    leaf: u32,
    index: u32,
}

/// The facts about an entry that is searched.
pub struct RankedSearchKey<F: Fn(u32) -> bool> {
    /// Its score.
    pub score: f64,
    /// Its id.
    pub id: u32,
    /// A function that returns true if an id with this score comes before the entry, or is its own.
    pub is_not_behind: F,
}

/// The path to a position in a leaf: the inner nodes from the root on, each with the index of the
/// child at which the path continues.
struct RankedTreePath {
    steps: [(u32, u32); LEVELS_MAX],
    leaf: u32,
    index: usize,
}

impl<A: Allocator + Clone> RankedTree<A> {
    /// Creates an empty tree, which takes no memory yet.
    pub fn new_in(heap: A) -> Self {
        RankedTree {
            leaves: Vec::new_in(heap.clone()),
            inners: Vec::new_in(heap),
            root: NONE,
            levels: 0,
            len: 0,
            free_leaf: NONE,
            free_inner: NONE,
        }
    }

    /// Creates a tree of `len` entries that come in order. Linear.
    pub fn from_sorted_in(heap: A, len: usize, entries: impl Iterator<Item = (f64, u32)>) -> Self {
        let mut tree = RankedTree::new_in(heap);
        if len == 0 {
            return tree;
        }
        let mut entries = entries.take(len);
        let mut slots = std::vec::Vec::new();
        tree.leaves.reserve_exact(len.div_ceil(LEAF_ENTRIES_BUILT));
        for count in even_parts(len, LEAF_ENTRIES_BUILT) {
            let child = tree.leaves.len() as u32;
            let mut leaf = RankedTreeLeaf::EMPTY;
            for entry in entries.by_ref().take(count) {
                let at = leaf.len();
                debug_assert!(at == 0 || leaf.scores[at - 1] <= entry.0);
                leaf.insert(at, entry);
            }
            leaf.previous = child.checked_sub(1).unwrap_or(NONE);
            leaf.next = child + 1;
            tree.leaves.push(leaf);
            slots.push(tree.slot_of(child, 0));
        }
        if let Some(last) = tree.leaves.last_mut() {
            last.next = NONE;
        }
        while slots.len() > 1 {
            let mut below = std::mem::take(&mut slots).into_iter();
            tree.levels += 1;
            for count in even_parts(below.len(), INNER_CHILDREN_BUILT) {
                let child = tree.take_inner();
                let inner = &mut tree.inners[child as usize];
                for slot in below.by_ref().take(count) {
                    inner.insert(inner.len(), slot);
                }
                slots.push(tree.slot_of(child, tree.levels));
            }
        }
        tree.root = slots[0].child;
        tree.len = slots[0].count;
        debug_assert_eq!(tree.len(), len, "fewer entries than announced");
        tree
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns the bytes taken from the heap.
    pub fn memory_bytes(&self) -> usize {
        self.leaves.capacity() * size_of::<RankedTreeLeaf>()
            + self.inners.capacity() * size_of::<RankedTreeInner>()
    }

    /// Returns the number of entries before a position: those with a lesser score, and of those
    /// with this `score` the ones for which `is_before` returns true, which must come first.
    /// Logarithmic.
    pub fn rank(&self, score: f64, is_before: impl Fn(u32) -> bool) -> usize {
        let path = self.path(score, &is_before);
        self.rank_of_path(&path)
    }

    /// Returns the number of entries before one of the tree. Logarithmic.
    pub fn rank_of(&self, entry: RankedSearchKey<impl Fn(u32) -> bool>) -> Option<usize> {
        let path = self.path_to(entry)?;
        Some(self.rank_of_path(&path))
    }

    fn rank_of_path(&self, path: &RankedTreePath) -> usize {
        let steps = path.steps[..self.levels as usize].iter();
        let passed = steps.map(|(number, index)| {
            let counts = &self.inners[*number as usize].counts;
            counts[..*index as usize].iter().sum::<u32>() as usize
        });
        path.index + passed.sum::<usize>()
    }

    /// Returns the entry with `rank` entries before it. Logarithmic.
    pub fn seek(&self, rank: usize) -> Option<RankedTreePosition> {
        (rank < self.len()).then(|| {
            let path = self.path_to_rank(rank);
            RankedTreePosition {
                leaf: path.leaf,
                index: path.index as u32,
            }
        })
    }

    /// Returns score and id of the entry at `spot`.
    #[inline]
    pub fn entry(&self, spot: RankedTreePosition) -> (f64, u32) {
        self.leaves[spot.leaf as usize].entry(spot.index as usize)
    }

    /// Returns the position of the next entry.
    #[inline]
    pub fn next(&self, mut spot: RankedTreePosition) -> Option<RankedTreePosition> {
        let leaf = &self.leaves[spot.leaf as usize];
        spot.index += 1;
        if spot.index == leaf.len {
            let (leaf, index) = (leaf.next, 0);
            spot = RankedTreePosition { leaf, index };
        }
        (spot.leaf != NONE).then_some(spot)
    }

    /// Returns the position of the entry before.
    #[inline]
    pub fn previous(&self, mut spot: RankedTreePosition) -> Option<RankedTreePosition> {
        if spot.index == 0 {
            spot.leaf = self.leaves[spot.leaf as usize].previous;
            if spot.leaf == NONE {
                return None;
            }
            spot.index = self.leaves[spot.leaf as usize].len;
        }
        spot.index -= 1;
        Some(spot)
    }

    /// Returns all entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (f64, u32)> {
        let spots = std::iter::successors(self.seek(0), |spot| self.next(*spot));
        spots.map(|spot| self.entry(spot))
    }

    /// Inserts an entry at a position given as for [`RankedTree::rank`]. Logarithmic.
    pub fn insert(&mut self, score: f64, is_before: impl Fn(u32) -> bool, id: u32) {
        debug_assert!(!score.is_nan());
        if self.root == NONE {
            self.root = self.take_leaf();
        }
        let path = self.path(score, &is_before);
        self.len += 1;
        let mut split = self.insert_in_leaf(path.leaf, path.index, (score, id));
        for level in 1..=self.levels {
            let (number, index) = path.steps[(self.levels - level) as usize];
            match split {
                None => {
                    let parent = &mut self.inners[number as usize];
                    parent.counts[index as usize] += 1;
                    // The first entry of a node is copied into the slots above it.
                    if path.index == 0 {
                        self.refresh(number, index as usize, level);
                    }
                }
                Some(slot) => {
                    // The child has given entries to the new one.
                    self.refresh(number, index as usize, level);
                    split = self.insert_in_inner(number, index as usize + 1, slot, level);
                }
            }
        }
        if let Some(slot) = split {
            debug_assert!((self.levels as usize) < LEVELS_MAX);
            let old = self.slot_of(self.root, self.levels);
            self.root = self.take_inner();
            self.levels += 1;
            let root = &mut self.inners[self.root as usize];
            root.insert(0, old);
            root.insert(1, slot);
        }
    }

    /// Removes an entry. Returns true if it was present. Logarithmic.
    pub fn remove(&mut self, entry: RankedSearchKey<impl Fn(u32) -> bool>) -> bool {
        let path = self.path_to(entry);
        path.is_some_and(|path| {
            self.remove_at(path);
            true
        })
    }

    /// Removes the entry with `rank` entries before it, which must exist. Logarithmic.
    pub fn remove_rank(&mut self, rank: usize) -> (f64, u32) {
        self.remove_at(self.path_to_rank(rank))
    }

    /// Moves an entry, which must exist, to another score, with a position given as for
    /// [`RankedTree::rank`]. Logarithmic, and cheap if it passes no other entry.
    pub fn replace(
        &mut self,
        entry: RankedSearchKey<impl Fn(u32) -> bool>,
        score: f64,
        is_before: impl Fn(u32) -> bool,
    ) {
        let id = entry.id;
        let Some(path) = self.path_to(entry) else {
            unreachable!("only existing entries are replaced");
        };
        let (leaf, index) = (&mut self.leaves[path.leaf as usize], path.index);
        // The first entry of a leaf is copied into inner nodes, and after the last entry there may
        // be another leaf.
        let is_inside = index > 0 && index + 1 < leaf.len();
        if is_inside && leaf.scores[index - 1] < score && score < leaf.scores[index + 1] {
            leaf.scores[index] = score;
            return;
        }
        self.remove_at(path);
        self.insert(score, is_before, id);
    }

    fn remove_at(&mut self, path: RankedTreePath) -> (f64, u32) {
        let leaf = &mut self.leaves[path.leaf as usize];
        let entry = leaf.remove(path.index);
        let mut is_small = leaf.len() < LEAF_ENTRIES_MIN;
        self.len -= 1;
        for level in 1..=self.levels {
            let (number, index) = path.steps[(self.levels - level) as usize];
            let index = index as usize;
            // A refill updates all counts of the parent that have changed.
            if is_small {
                self.refill(number, index, level);
            } else {
                let parent = &mut self.inners[number as usize];
                parent.counts[index] -= 1;
                if path.index == 0 {
                    self.refresh(number, index, level);
                }
            }
            is_small = self.inners[number as usize].len() < INNER_CHILDREN_MIN;
        }
        self.lower_root();
        entry
    }

    /// Drops roots with fewer than two children.
    fn lower_root(&mut self) {
        while self.levels > 0 && self.inners[self.root as usize].len() <= 1 {
            let root = &self.inners[self.root as usize];
            let (child, is_empty) = (root.children[0], root.len == 0);
            self.free_inner(self.root);
            self.root = child;
            self.levels -= 1;
            // The last entry took the last child with it.
            if is_empty {
                (self.root, self.levels) = (NONE, 0);
                return;
            }
        }
        if self.levels == 0 && self.len == 0 && self.root != NONE {
            self.free_leaf(self.root);
            self.root = NONE;
        }
    }

    /// Returns the path to a position: the end of the leaf that holds the last entry before it, or
    /// the beginning of the first leaf.
    fn path(&self, score: f64, is_before: &impl Fn(u32) -> bool) -> RankedTreePath {
        let mut path = self.path_to_leaf(score, is_before);
        if path.leaf != NONE {
            let leaf = &self.leaves[path.leaf as usize];
            let len = leaf.len();
            path.index = partition(&leaf.scores[..len], &leaf.ids[..len], score, is_before);
        }
        path
    }

    /// Returns the path to an entry. In the leaf it is found by its id, without reading a member.
    fn path_to(&self, entry: RankedSearchKey<impl Fn(u32) -> bool>) -> Option<RankedTreePath> {
        let mut path = self.path_to_leaf(entry.score, &entry.is_not_behind);
        let leaf = self.leaves.get(path.leaf as usize)?;
        let equal = equals(&leaf.scores[..leaf.len()], entry.score);
        let mut ids = leaf.ids[equal.clone()].iter();
        path.index = equal.start + ids.position(|id| *id == entry.id)?;
        Some(path)
    }

    fn path_to_leaf(&self, score: f64, is_before: &impl Fn(u32) -> bool) -> RankedTreePath {
        let mut path = self.begin_path();
        for step in 0..self.levels as usize {
            let inner = &self.inners[path.leaf as usize];
            let len = inner.len();
            // The first slot does not count: the first child also has the place before all entries.
            let index = partition(&inner.scores[1..len], &inner.ids[1..len], score, is_before);
            path.descend(step, inner, index);
        }
        path
    }

    fn path_to_rank(&self, rank: usize) -> RankedTreePath {
        debug_assert!(rank < self.len());
        let (mut path, mut left) = (self.begin_path(), rank);
        for step in 0..self.levels as usize {
            let inner = &self.inners[path.leaf as usize];
            let mut index = 0;
            while left >= inner.counts[index] as usize {
                left -= inner.counts[index] as usize;
                index += 1;
            }
            path.descend(step, inner, index);
        }
        path.index = left;
        path
    }

    fn begin_path(&self) -> RankedTreePath {
        RankedTreePath {
            steps: [(NONE, 0); LEVELS_MAX],
            leaf: self.root,
            index: 0,
        }
    }

    /// Returns the parent's slot for node `child`, which has `levels` levels of inner nodes.
    fn slot_of(&self, child: u32, levels: u32) -> RankedTreeSlot {
        let (score, id, count) = if levels == 0 {
            let leaf = &self.leaves[child as usize];
            (leaf.scores[0], leaf.ids[0], leaf.len)
        } else {
            let inner = &self.inners[child as usize];
            (inner.scores[0], inner.ids[0], inner.count())
        };
        RankedTreeSlot {
            score,
            id,
            count,
            child,
        }
    }

    /// Updates the slot of a child in an inner node at `level`.
    fn refresh(&mut self, number: u32, index: usize, level: u32) {
        let child = self.inners[number as usize].children[index];
        let slot = self.slot_of(child, level - 1);
        self.inners[number as usize].set(index, slot);
    }

    /// Inserts an entry and returns the leaf, if any, that was split off after it.
    fn insert_in_leaf(
        &mut self,
        number: u32,
        index: usize,
        entry: (f64, u32),
    ) -> Option<RankedTreeSlot> {
        let leaf = &mut self.leaves[number as usize];
        if leaf.len() < LEAF_ENTRIES {
            leaf.insert(index, entry);
            return None;
        }
        // Appends in order would otherwise leave a trail of half-full leaves.
        let is_append = leaf.next == NONE && index == LEAF_ENTRIES;
        let middle = if is_append {
            LEAF_ENTRIES
        } else {
            LEAF_ENTRIES / 2
        };
        let other = self.take_leaf();
        let [leaf, right] = two(&mut self.leaves, number, other);
        leaf.move_right(middle, right);
        (right.previous, right.next) = (number, leaf.next);
        let next = std::mem::replace(&mut leaf.next, other);
        if index <= middle && !is_append {
            leaf.insert(index, entry);
        } else {
            right.insert(index - middle, entry);
        }
        if next != NONE {
            self.leaves[next as usize].previous = other;
        }
        Some(self.slot_of(other, 0))
    }

    /// Inserts a child and returns the node, if any, that was split off after it.
    fn insert_in_inner(
        &mut self,
        number: u32,
        index: usize,
        slot: RankedTreeSlot,
        level: u32,
    ) -> Option<RankedTreeSlot> {
        let inner = &mut self.inners[number as usize];
        if inner.len() < INNER_CHILDREN {
            inner.insert(index, slot);
            return None;
        }
        // Only on the path to the last leaf may the new node be nearly empty.
        let is_append = index == INNER_CHILDREN && self.is_last(slot, level);
        let middle = if is_append {
            INNER_CHILDREN
        } else {
            INNER_CHILDREN / 2
        };
        let other = self.take_inner();
        let [inner, right] = two(&mut self.inners, number, other);
        inner.move_right(middle, right);
        if index <= middle && !is_append {
            inner.insert(index, slot);
        } else {
            right.insert(index - middle, slot);
        }
        Some(self.slot_of(other, level))
    }

    /// Returns true if the last leaf is below a child of a node at `level`.
    fn is_last(&self, slot: RankedTreeSlot, level: u32) -> bool {
        let mut child = slot.child;
        for _ in 1..level {
            let inner = &self.inners[child as usize];
            child = inner.children[inner.len() - 1];
        }
        self.leaves[child as usize].next == NONE
    }

    /// Updates a child that has too few entries, and shares with a neighbour or merges both.
    fn refill(&mut self, number: u32, index: usize, level: u32) {
        let parent = &self.inners[number as usize];
        if parent.len() == 1 {
            let child = parent.children[0];
            let slot = self.slot_of(child, level - 1);
            // A child without a neighbour stays as it is, unless it is empty. Its parent is then
            // too small itself, and is next.
            if slot.count > 0 {
                self.inners[number as usize].set(0, slot);
                return;
            }
            self.free_node(child, level - 1);
            self.inners[number as usize].remove(0);
            return;
        }
        let left = index.saturating_sub(1);
        let (a, b) = (parent.children[left], parent.children[left + 1]);
        let right_is_empty = if level == 1 {
            self.share_leaves(a, b)
        } else {
            self.share_inners(a, b)
        };
        self.refresh(number, left, level);
        if right_is_empty {
            self.free_node(b, level - 1);
            self.inners[number as usize].remove(left + 1);
        } else {
            self.refresh(number, left + 1, level);
        }
    }

    /// Evens two neighbours out, or moves all entries into the left one and returns true.
    fn share_leaves(&mut self, a: u32, b: u32) -> bool {
        let [left, right] = two(&mut self.leaves, a, b);
        let total = left.len() + right.len();
        if total <= LEAF_ENTRIES_MERGED {
            left.move_left(right, right.len());
            return true;
        }
        match total / 2 {
            half if left.len() > half => left.move_right(half, right),
            half => left.move_left(right, half - left.len()),
        }
        false
    }

    /// Works like [`RankedTree::share_leaves`], for inner nodes.
    fn share_inners(&mut self, a: u32, b: u32) -> bool {
        let [left, right] = two(&mut self.inners, a, b);
        let total = left.len() + right.len();
        if total <= INNER_CHILDREN_MERGED {
            left.move_left(right, right.len());
            return true;
        }
        match total / 2 {
            half if left.len() > half => left.move_right(half, right),
            half => left.move_left(right, half - left.len()),
        }
        false
    }

    fn take_leaf(&mut self) -> u32 {
        // At the end of the list of free leaves is `NONE`, which is no index.
        if let Some(leaf) = self.leaves.get_mut(self.free_leaf as usize) {
            let number = std::mem::replace(&mut self.free_leaf, leaf.next);
            *leaf = RankedTreeLeaf::EMPTY;
            return number;
        }
        push_node(&mut self.leaves, RankedTreeLeaf::EMPTY)
    }

    fn take_inner(&mut self) -> u32 {
        if let Some(inner) = self.inners.get_mut(self.free_inner as usize) {
            let number = std::mem::replace(&mut self.free_inner, inner.children[0]);
            *inner = RankedTreeInner::EMPTY;
            return number;
        }
        push_node(&mut self.inners, RankedTreeInner::EMPTY)
    }

    fn free_node(&mut self, number: u32, levels: u32) {
        if levels == 0 {
            self.free_leaf(number);
        } else {
            self.free_inner(number);
        }
    }

    /// Takes a leaf out of the chain of leaves.
    fn free_leaf(&mut self, number: u32) {
        let leaf = &mut self.leaves[number as usize];
        leaf.len = 0;
        let (previous, next) = (leaf.previous, leaf.next);
        leaf.next = self.free_leaf;
        self.free_leaf = number;
        // At both ends of the chain is `NONE`, which is no index.
        if let Some(previous) = self.leaves.get_mut(previous as usize) {
            previous.next = next;
        }
        if let Some(next) = self.leaves.get_mut(next as usize) {
            next.previous = previous;
        }
    }

    fn free_inner(&mut self, number: u32) {
        let inner = &mut self.inners[number as usize];
        inner.len = 0;
        inner.children[0] = self.free_inner;
        self.free_inner = number;
    }

    /// Panics unless counts, first entries, fill and links are consistent, and `before` returns
    /// true for each entry and the next one. For tests.
    pub fn check_invariants(&self, before: impl Fn((f64, u32), (f64, u32)) -> bool) {
        let mut chain = std::vec::Vec::new();
        if self.root == NONE {
            assert_eq!((self.len, self.levels), (0, 0));
        } else {
            let slot = self.slot_of(self.root, self.levels);
            self.check_node(slot, self.levels, true, &mut chain);
            assert_eq!(slot.count, self.len);
        }
        for (index, number) in chain.iter().enumerate() {
            let leaf = &self.leaves[*number as usize];
            let previous = index.checked_sub(1).map_or(NONE, |before| chain[before]);
            assert_eq!(leaf.previous, previous);
            assert_eq!(leaf.next, chain.get(index + 1).copied().unwrap_or(NONE));
        }
        let entries: std::vec::Vec<_> = self.iter().collect();
        assert_eq!(entries.len(), self.len());
        assert!(entries.windows(2).all(|two| before(two[0], two[1])));
    }

    fn check_node(
        &self,
        slot: RankedTreeSlot,
        levels: u32,
        last: bool,
        chain: &mut std::vec::Vec<u32>,
    ) {
        assert_eq!(slot, self.slot_of(slot.child, levels));
        assert!(slot.count > 0);
        if levels == 0 {
            let leaf = &self.leaves[slot.child as usize];
            assert!(last || leaf.len() >= LEAF_ENTRIES_MIN);
            chain.push(slot.child);
            return;
        }
        let inner = &self.inners[slot.child as usize];
        assert!(last || inner.len() >= INNER_CHILDREN_MIN);
        for index in 0..inner.len() {
            let last = last && index + 1 == inner.len();
            self.check_node(inner.slot(index), levels - 1, last, chain);
        }
    }
}

impl RankedTreePath {
    /// Continues at child `index` of `inner`, the node that was reached in `step` steps.
    #[inline]
    fn descend(&mut self, step: usize, inner: &RankedTreeInner, index: usize) {
        self.steps[step] = (self.leaf, index as u32);
        self.leaf = inner.children[index];
    }
}

/// Returns two different nodes at once.
fn two<T>(nodes: &mut [T], a: u32, b: u32) -> [&mut T; 2] {
    match nodes.get_disjoint_mut([a as usize, b as usize]) {
        Ok(nodes) => nodes,
        Err(error) => unreachable!("two nodes that both exist: {error}"),
    }
}

/// Appends a node.
fn push_node<T, A: Allocator>(nodes: &mut Vec<T, A>, node: T) -> u32 {
    if nodes.len() == nodes.capacity() {
        // An eighth is enough: nodes are large, and a large block is usually moved without a copy.
        nodes.reserve_exact((nodes.len() / 8).max(1));
    }
    nodes.push(node);
    (nodes.len() - 1) as u32
}

/// Returns the sizes of the fewest parts of at most `part_max` into which `total` can be divided
/// evenly.
fn even_parts(total: usize, part_max: usize) -> impl Iterator<Item = usize> {
    let parts = total.div_ceil(part_max);
    (0..parts).map(move |part| (part + 1) * total / parts - part * total / parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::testing::for_each_seed;
    use nearfield_tiers::AccountedHeap;
    use rand::RngExt;

    fn is_before(a: (f64, u32), b: (f64, u32)) -> bool {
        a.0 < b.0 || a.0 == b.0 && a.1 < b.1
    }

    fn known((score, id): (f64, u32)) -> RankedSearchKey<impl Fn(u32) -> bool> {
        let is_not_behind = move |other| other <= id;
        RankedSearchKey {
            score,
            id,
            is_not_behind,
        }
    }

    #[test]
    fn behaves_like_a_sorted_vector() {
        for_each_seed(40, |random| {
            let heap = AccountedHeap::new();
            let mut tree = RankedTree::new_in(heap.clone());
            let mut model: std::vec::Vec<(f64, u32)> = std::vec::Vec::new();
            let scores = [2, 50, 100_000][random.random_range(0..3)];
            let mut inserts = 7;
            let mut order = 0;
            for step in 0..6000_u32 {
                if step % 1000 == 0 {
                    inserts = [1, 3, 7, 9][random.random_range(0..4)];
                    order = random.random_range(0..4);
                }
                if random.random_range(0..10) < inserts {
                    let score = match order {
                        0 => f64::from(step),
                        1 => -f64::from(step),
                        _ => f64::from(random.random_range(0..scores)),
                    };
                    let entry = (score, step);
                    tree.insert(score, |id| id < step, step);
                    let rank = model.partition_point(|other| is_before(*other, entry));
                    model.insert(rank, entry);
                } else if !model.is_empty() {
                    let rank = match order {
                        0 => 0,
                        1 => model.len() - 1,
                        _ => random.random_range(0..model.len()),
                    };
                    let entry = model.remove(rank);
                    let removed = match random.random_bool(0.5) {
                        true => tree.remove(known(entry)),
                        false => tree.remove_rank(rank) == entry,
                    };
                    assert!(removed);
                }
                if !model.is_empty() {
                    let rank = random.random_range(0..model.len());
                    let entry = model[rank];
                    assert_eq!(tree.seek(rank).map(|spot| tree.entry(spot)), Some(entry));
                    assert_eq!(tree.rank(entry.0, |id| id < entry.1), rank);
                    assert_eq!(tree.rank_of(known(entry)), Some(rank));
                    let score = entry.0 + [0.5, 3.0, -1.0, 0.0][random.random_range(0..4)];
                    if step % 3 == 0 {
                        tree.replace(known(entry), score, |id| id < entry.1);
                        let entry = (score, model.remove(rank).1);
                        let rank = model.partition_point(|other| is_before(*other, entry));
                        model.insert(rank, entry);
                    }
                }
                if step % 50 == 0 {
                    tree.check_invariants(is_before);
                    assert!(tree.iter().eq(model.iter().copied()));
                    assert_eq!(tree.memory_bytes(), heap.used_bytes());
                }
            }
            let last = tree.len().checked_sub(1).and_then(|rank| tree.seek(rank));
            let back = std::iter::successors(last, |spot| tree.previous(*spot));
            assert!(
                back.map(|spot| tree.entry(spot))
                    .eq(model.iter().rev().copied())
            );
            for len in [0, 1, 56, 57, 64, 1567, 1569, model.len()] {
                let len = len.min(model.len());
                let built = RankedTree::from_sorted_in(heap.clone(), len, model.iter().copied());
                built.check_invariants(is_before);
                assert!(built.iter().eq(model[..len].iter().copied()));
            }
            while tree.len() > 0 {
                tree.remove_rank(random.random_range(0..tree.len()));
            }
            tree.check_invariants(is_before);
            drop(tree);
            assert_eq!(heap.used_bytes(), 0);
        });
    }
}
