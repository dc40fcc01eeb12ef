//! The end of a tree, and its invariants.

use super::SmartTree;
use super::node::Node;
use super::slot::Slot;
use crate::rivals::leaf::RivalForm;
use crate::rivals::scan::{Child, symbol};
use std::sync::atomic::Ordering;

impl<F: RivalForm, const DELEGATES: bool> SmartTree<F, DELEGATES> {
    /// Checks the structure.
    ///
    /// # Panics
    /// If an invariant is broken. Only while nobody writes.
    pub(super) fn check(&self) {
        let mut entries = 0;
        let mut to_check: Vec<(Node<'_>, Vec<u8>)> = vec![(self.root, Vec::new())];
        while let Some((node, mut path)) = to_check.pop() {
            let begin = node.level() - node.prefix().len();
            assert!(begin <= path.len(), "a path that is too short");
            path.extend(&node.prefix()[path.len() - begin..]);
            assert_eq!(path.len(), node.level(), "a wrong level");
            let mut seen = [false; 256];
            for (position, word) in node.words().enumerate() {
                let slot = Slot(word.load(Ordering::Relaxed));
                let byte = (position > 0).then_some(slot.byte());
                if let Some(byte) = byte
                    && !slot.is_unused()
                {
                    let is_first = !std::mem::replace(&mut seen[usize::from(byte)], true);
                    assert!(is_first, "two slots of one byte");
                    let place = node.find(Some(byte)).map(|place| place.slot);
                    assert_eq!(place, Some(slot), "a slot that is not found");
                }
                // SAFETY: nobody writes, so nothing is freed.
                match unsafe { slot.child::<F>() } {
                    None => {}
                    Some(Child::Leaf(leaf)) => {
                        entries += 1;
                        assert_eq!(leaf.key().get(..path.len()), Some(&path[..]));
                        assert_eq!(symbol(leaf.key(), path.len()), byte);
                    }
                    Some(Child::Node(below)) => {
                        assert!(!slot.is_frozen(), "a frozen node is part of the tree");
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

impl<F: RivalForm, const DELEGATES: bool> Drop for SmartTree<F, DELEGATES> {
    fn drop(&mut self) {
        let mut nodes = vec![self.root];
        while let Some(node) = nodes.pop() {
            for word in node.words() {
                // SAFETY: the tree is not shared any more; what is part of it was not retired.
                match unsafe { Slot(word.load(Ordering::Relaxed)).child::<F>() } {
                    // SAFETY: nothing else leads to the leaf, and `node` is freed below.
                    Some(Child::Leaf(leaf)) => unsafe { leaf.free() },
                    Some(Child::Node(below)) => nodes.push(below),
                    None => {}
                }
            }
            // SAFETY: as for leaves.
            unsafe { node.free() }
        }
    }
}
