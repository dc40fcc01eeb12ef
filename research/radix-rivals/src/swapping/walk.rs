//! Walks down to a key, and walks in order.

use super::SwapTree;
use super::node::SwapNode;
use super::slot::SwapSlot;
use crate::leaf::{RivalForm, RivalLeaf};
use crate::scan::{Children, OrderedRivalTree, Restart, RivalChild, symbol};
use crossbeam_epoch::Guard;
use nearfield_radix::RadixProbe;
use std::sync::atomic::Ordering;

impl<F: RivalForm, const APART: bool, const IN_PLACE: bool> SwapTree<F, APART, IN_PLACE> {
    /// Finds the leaf of a key.
    #[inline]
    pub fn find<'g>(
        &'g self,
        key: &[u8],
        _guard: &'g Guard,
        probe: &mut impl RadixProbe,
    ) -> Option<RivalLeaf<'g, F>> {
        let mut node: SwapNode<'g, APART> = self.root;
        let (mut depth, mut has_prefix) = (0, false);
        loop {
            let mut compared = 0;
            if has_prefix {
                // A reader compares the part in the header only, because it compares the whole key
                // at the leaf.
                let (parting, bytes) = node.parting(key, depth, false);
                compared = bytes;
                if parting.is_some() {
                    node.report(None, None, true, compared, probe);
                    return None;
                }
                depth = node.level();
            }
            let byte = symbol(key, depth);
            let place = node.find(byte);
            node.report(byte, place, has_prefix, compared, probe);
            // The slot was read once, so that byte and child belong together.
            let slot = place?.slot;
            // SAFETY: the child belonged to the node at an instant since the guard was pinned; a
            // thread that unlinks it afterwards does not free it during 'g.
            match unsafe { slot.child::<F, APART>() }? {
                RivalChild::Leaf(leaf) => {
                    probe.node(leaf.visit());
                    return (leaf.key() == key).then_some(leaf);
                }
                RivalChild::Node(child) => {
                    node = child;
                    has_prefix = slot.has_prefix();
                    depth += 1;
                }
            }
        }
    }
}

impl<F: RivalForm, const APART: bool, const IN_PLACE: bool> OrderedRivalTree<F>
    for SwapTree<F, APART, IN_PLACE>
{
    type Node<'g>
        = SwapNode<'g, APART>
    where
        Self: 'g;

    fn root<'g>(&'g self, _guard: &'g Guard) -> SwapNode<'g, APART> {
        self.root
    }

    fn expand<'g>(
        &'g self,
        node: SwapNode<'g, APART>,
        _depth: usize,
        _guard: &'g Guard,
        probe: &mut impl RadixProbe,
        children: &mut Children<'g, F, SwapNode<'g, APART>>,
    ) -> Result<usize, Restart> {
        node.report(None, None, true, 0, probe);
        let end = SwapSlot(node.end().load(Ordering::Acquire));
        let words = node.slots().words().iter();
        let slots = words.map(|word| SwapSlot(word.load(Ordering::Acquire)));
        let slots = slots.map(|slot| (Some(slot.byte()), slot));
        for (byte, slot) in slots.chain([(None, end)]) {
            // SAFETY: the child belonged to the node at an instant since the guard was pinned; a
            // thread that unlinks it afterwards does not free it during 'g.
            if let Some(child) = unsafe { slot.child::<F, APART>() } {
                children.push((byte, child));
            }
        }
        children.sort_unstable_by_key(|(byte, _)| *byte);
        Ok(node.level())
    }

    fn path<'g>(
        &'g self,
        node: SwapNode<'g, APART>,
        depth: usize,
        _guard: &'g Guard,
    ) -> Result<&'g [u8], Restart> {
        let prefix = node.prefix();
        let begin = node.level() - prefix.len();
        // A node that is inserted above covers a part of it.
        prefix.get(depth - begin..).ok_or(Restart)
    }
}
