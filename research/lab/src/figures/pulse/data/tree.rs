//! The bytes of a node of the applications' B+ tree, and the structure of the tree without its
//! bytes. Layout: the paper's artifact, which the B+ tree of `nearfield_offload` has, too.

use super::{Image, put};
use nearfield_offload::structures::layout::b_plus::{
    CHILDREN, COUNT, ENTRIES, IS_LEAF, NEXT, PREVIOUS,
};

/// The most keys of a node.
pub(in super::super) const KEYS_MAX: u64 = 9;

/// The position of a node: its level, 0 for leaves, and its number from the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TreeNodePosition {
    pub level: u32,
    pub index: u64,
}

/// A tree with nodes that are computed from their positions.
pub(super) trait GeneratedTree {
    /// Returns the number of nodes of a level.
    fn count(&self, level: u32) -> u64;

    /// Returns the children of an inner node, as numbers in the level below, or the entries of a
    /// leaf, as numbers in the order of their keys.
    fn below(&self, place: TreeNodePosition) -> std::ops::Range<u64>;

    /// Returns an entry by its number.
    fn entry(&self, number: u64) -> (u64, u64);

    fn address(&self, place: TreeNodePosition) -> u64;

    /// Returns the least entry below a node.
    fn first_entry(&self, place: TreeNodePosition) -> u64 {
        let mut below = self.below(place);
        for level in (0..place.level).rev() {
            below = self.below(TreeNodePosition {
                level,
                index: below.start,
            });
        }
        below.start
    }
}

/// Computes the bytes of a node.
pub(super) fn image(shape: &impl GeneratedTree, place: TreeNodePosition) -> Image {
    let mut image = [0; 256];
    let below = shape.below(place);
    debug_assert!(below.start < below.end, "a node is never empty");
    debug_assert!(below.end - below.start <= KEYS_MAX + u64::from(place.level > 0));
    if place.level == 0 {
        put(&mut image, IS_LEAF, 1);
        put(&mut image, COUNT, below.end - below.start);
        for (slot, number) in (0..).zip(below) {
            let (key, value) = shape.entry(number);
            put(&mut image, ENTRIES + 16 * slot, key);
            put(&mut image, ENTRIES + 16 * slot + 8, value);
        }
        let neighbor = |index: u64| {
            let place = TreeNodePosition { level: 0, index };
            shape.address(place)
        };
        if place.index + 1 < shape.count(0) {
            put(&mut image, NEXT, neighbor(place.index + 1));
        }
        if place.index > 0 {
            put(&mut image, PREVIOUS, neighbor(place.index - 1));
        }
        return image;
    }
    put(&mut image, COUNT, below.end - below.start - 1);
    let level = place.level - 1;
    for (slot, index) in (0..).zip(below) {
        let child = TreeNodePosition { level, index };
        put(&mut image, CHILDREN + 8 * slot, shape.address(child));
        if slot > 0 {
            // The separator is the first key to the right of it.
            let (key, _) = shape.entry(shape.first_entry(child));
            put(&mut image, ENTRIES + 16 * (slot - 1), key);
        }
    }
    image
}
