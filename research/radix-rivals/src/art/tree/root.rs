//! The root of a tree, which owns all nodes and leaves below it.

use crate::art::node::{ArtNode, ArtNodeKind, ArtPrefix, ArtTaggedPointer};
use crate::entries::EntryCount;
use crate::leaf::RivalForm;
use crate::scan::{RivalChild, symbol};
use std::marker::PhantomData;

/// The root node, a node256 that is never replaced, and the number of entries below.
#[derive(Debug)]
pub struct ArtRoot<F: RivalForm> {
    node: ArtNode<'static>,
    pub entries: EntryCount,
    form: PhantomData<F>,
}

// SAFETY: nodes consist of atomics and of fields that never change; those below the root belong to
// it, and the tree's synchronization determines which thread may change them. Leaves hold only
// bytes.
unsafe impl<F: RivalForm> Send for ArtRoot<F> {}
// SAFETY: as above.
unsafe impl<F: RivalForm> Sync for ArtRoot<F> {}

impl<F: RivalForm> Default for ArtRoot<F> {
    fn default() -> Self {
        ArtRoot {
            node: ArtNode::new(ArtNodeKind::Node256, 0, ArtPrefix::default()),
            entries: EntryCount::default(),
            form: PhantomData,
        }
    }
}

impl<F: RivalForm> ArtRoot<F> {
    /// Returns the node.
    #[inline]
    pub fn node(&self) -> ArtNode<'_> {
        self.node
    }

    /// Checks the structure. Checks the order of bytes in small nodes, and that their slots are in
    /// use, if `ascending` is true.
    ///
    /// # Panics
    /// If an invariant is broken. Call it only while no thread writes.
    pub fn check_invariants(&self, ascending: bool) {
        let mut entries = 0;
        let mut to_check = vec![(self.node(), 0)];
        while let Some((node, depth)) = to_check.pop() {
            let is_root = node == self.node;
            let (level, prefix) = (node.level(), node.prefix());
            assert_eq!(level, depth + prefix.length(), "a prefix of another length");
            assert!(!node.lock().is_locked_or_obsolete(), "locked or obsolete");
            let mut children = vec![(None, node.end().load())];
            children.retain(|(_, child)| !child.is_none());
            node.for_each(|byte, child| children.push((Some(byte), child)));
            assert!(is_root || children.len() > 1, "a node of one entry");
            let bytes = children.iter().filter(|(byte, _)| byte.is_some()).count();
            let kind = node.kind();
            assert!(bytes <= usize::from(kind.slots()));
            assert!(
                is_root || bytes >= kind.shrinks_from(),
                "{kind:?} of {bytes}"
            );
            if ascending {
                assert!(is_root || node.count() == bytes, "a wrong count");
                assert!(children.is_sorted_by_key(|(byte, _)| *byte), "out of order");
            }
            let Some(path) = node.any_key::<F>() else {
                assert!(is_root, "no leaf below a node");
                continue;
            };
            assert_eq!(prefix.difference(path, depth), None, "a wrong prefix");
            for (byte, child) in children {
                // SAFETY: no thread writes, so nothing is freed.
                match unsafe { child.child::<F>() } {
                    Some(RivalChild::Leaf(leaf)) => {
                        entries += 1;
                        assert_eq!(leaf.key().get(..level), path.get(..level), "a wrong path");
                        assert_eq!(symbol(leaf.key(), level), byte, "a leaf at a wrong byte");
                    }
                    Some(RivalChild::Node(below)) => {
                        assert!(byte.is_some(), "a node where keys end");
                        let key = below.any_key::<F>().unwrap_or_default();
                        assert_eq!(key.get(..level), path.get(..level), "a wrong path");
                        assert_eq!(symbol(key, level), byte, "a node at a wrong byte");
                        to_check.push((below, level + 1));
                    }
                    None => unreachable!("children are listed where there are some"),
                }
            }
        }
        assert_eq!(entries, self.entries.sum(), "a wrong number of entries");
    }
}

impl<F: RivalForm> Drop for ArtRoot<F> {
    fn drop(&mut self) {
        let mut nodes = vec![self.node];
        while let Some(node) = nodes.pop() {
            let mut free = |child: ArtTaggedPointer| {
                // SAFETY: the tree is no longer shared; nothing in it was retired.
                match unsafe { child.child::<F>() } {
                    // SAFETY: nothing else leads to the leaf, and `node` is freed below.
                    Some(RivalChild::Leaf(leaf)) => unsafe { leaf.free() },
                    Some(RivalChild::Node(below)) => nodes.push(below),
                    None => {}
                }
            };
            free(node.end().load());
            node.for_each(|_, child| free(child));
            // SAFETY: as for leaves.
            unsafe { node.free() }
        }
    }
}
