//! The destruction of a tree, and its invariants.

use super::SwapTree;
use super::node::SwapNode;
use super::slot::SwapSlot;
use crate::leaf::RivalForm;
use crate::scan::{RivalChild, Symbol, symbol};
use std::sync::atomic::{AtomicU64, Ordering};

impl<F: RivalForm, const APART: bool, const IN_PLACE: bool> SwapTree<F, APART, IN_PLACE> {
    /// Checks the structure.
    ///
    /// # Panics
    /// If an invariant is broken. Call it only while no thread writes.
    pub fn check(&self) {
        let mut entries = 0;
        let mut to_check: Vec<(SwapNode<'_, APART>, Vec<u8>)> = vec![(self.root, Vec::new())];
        while let Some((node, mut path)) = to_check.pop() {
            let begin = node.level() - node.prefix().len();
            assert!(begin <= path.len(), "a path that is too short");
            path.extend(&node.prefix()[path.len() - begin..]);
            assert_eq!(path.len(), node.level(), "a wrong level");
            let mut seen = [false; 256];
            for (byte, slot) in slots(node) {
                assert!(!slot.is_frozen(), "a frozen node is part of the tree");
                if let Some(byte) = byte
                    && !slot.is_unused()
                {
                    let is_first = !std::mem::replace(&mut seen[usize::from(byte)], true);
                    assert!(is_first, "two slots of one byte");
                    let place = node.find(Some(byte)).map(|place| place.slot);
                    assert_eq!(place, Some(slot), "a slot that is not found");
                }
                // SAFETY: no thread writes, so nothing is freed.
                match unsafe { slot.child::<F, APART>() } {
                    None => {}
                    Some(RivalChild::Leaf(leaf)) => {
                        entries += 1;
                        assert_eq!(leaf.key().get(..path.len()), Some(&path[..]));
                        assert_eq!(symbol(leaf.key(), path.len()), byte);
                    }
                    Some(RivalChild::Node(below)) => {
                        let mut path = path.clone();
                        path.push(byte.expect("keys that end have no node"));
                        assert_eq!(slot.has_prefix(), below.level() > path.len());
                        to_check.push((below, path));
                    }
                }
            }
        }
        assert_eq!(entries, self.entries.sum(), "a wrong number of entries");
    }
}

impl<F: RivalForm, const APART: bool, const IN_PLACE: bool> Drop for SwapTree<F, APART, IN_PLACE> {
    fn drop(&mut self) {
        let mut nodes = vec![self.root];
        while let Some(node) = nodes.pop() {
            for (_, slot) in slots(node) {
                // SAFETY: the tree is no longer shared; nothing in it was retired.
                match unsafe { slot.child::<F, APART>() } {
                    // SAFETY: nothing else leads to the leaf, and `node` is freed below.
                    Some(RivalChild::Leaf(leaf)) => unsafe { leaf.free() },
                    Some(RivalChild::Node(below)) => nodes.push(below),
                    None => {}
                }
            }
            // SAFETY: as for leaves.
            unsafe { node.free() }
        }
    }
}

/// Returns all slots, with the symbols to which used ones belong.
fn slots<'g, const APART: bool>(
    node: SwapNode<'g, APART>,
) -> impl Iterator<Item = (Symbol, SwapSlot)> {
    let load = |word: &AtomicU64| SwapSlot(word.load(Ordering::Relaxed));
    let words = node.slots().words().iter();
    let slots = words.map(move |word| (Some(load(word).byte()), load(word)));
    slots.chain([(None, load(node.end()))])
}
