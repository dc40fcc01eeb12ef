//! Walking down to a key, and in order.

use super::SmartTree;
use super::node::Node;
use super::slot::Slot;
use crate::counters::Probe;
use crate::rivals::leaf::{Leaf, RivalForm};
use crate::rivals::scan::{Child, Children, Ordered, Restart, symbol};
use crossbeam_epoch::Guard;
use std::sync::atomic::Ordering;

impl<F: RivalForm, const DELEGATES: bool> SmartTree<F, DELEGATES> {
    /// Finds the leaf of a key.
    #[inline]
    pub(super) fn find<'g>(
        &'g self,
        key: &[u8],
        _guard: &'g Guard,
        probe: &mut impl Probe,
    ) -> Option<Leaf<'g, F>> {
        let mut node: Node<'g> = self.root;
        let (mut depth, mut has_prefix) = (0, false);
        loop {
            let mut compared = 0;
            if has_prefix {
                let (parting, bytes) = node.parting(key, depth, false);
                compared = bytes;
                if parting.is_some() {
                    probe.node(node.visit(None, 0, true, compared));
                    return None;
                }
                depth = node.level();
            }
            let byte = symbol(key, depth);
            let place = node.find(byte);
            let offset = place.map_or(0, |place| place.offset);
            probe.node(node.visit(byte, offset, has_prefix, compared));
            let slot = place?.slot;
            // SAFETY: the child was the node's at an instant since the guard; whoever unlinks it
            // afterwards does not free it during 'g.
            match unsafe { slot.child::<F>() }? {
                Child::Leaf(leaf) => {
                    probe.node(leaf.visit());
                    return (leaf.key() == key).then_some(leaf);
                }
                Child::Node(child) => {
                    node = child;
                    has_prefix = slot.has_prefix();
                    depth += 1;
                }
            }
        }
    }
}

impl<F: RivalForm, const DELEGATES: bool> Ordered<F> for SmartTree<F, DELEGATES> {
    type Node<'g>
        = Node<'g>
    where
        Self: 'g;

    fn root<'g>(&'g self, _guard: &'g Guard) -> Node<'g> {
        self.root
    }

    fn expand<'g>(
        &'g self,
        node: Node<'g>,
        _depth: usize,
        _guard: &'g Guard,
        probe: &mut impl Probe,
        children: &mut Children<'g, F, Node<'g>>,
    ) -> Result<usize, Restart> {
        probe.node(node.visit(None, 0, true, 0));
        for (position, word) in node.words().enumerate() {
            let slot = Slot(word.load(Ordering::Acquire));
            let byte = (position > 0).then_some(slot.byte());
            // SAFETY: the child was the node's at an instant since the guard; whoever unlinks it
            // afterwards does not free it during 'g.
            if let Some(child) = unsafe { slot.child::<F>() } {
                children.push((byte, child));
            }
        }
        children.sort_unstable_by_key(|(byte, _)| *byte);
        Ok(node.level())
    }

    fn path<'g>(
        &'g self,
        node: Node<'g>,
        depth: usize,
        _guard: &'g Guard,
    ) -> Result<&'g [u8], Restart> {
        let prefix = node.prefix();
        let begin = node.level() - prefix.len();
        // A node that is put above covers some of it.
        prefix.get(depth - begin..).ok_or(Restart)
    }
}
