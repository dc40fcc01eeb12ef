//! The walk in order.

use super::ArtTree;
use crate::art::node::ArtNode;
use crate::art::synchronization::Synchronization;
use crate::leaf::RivalForm;
use crate::scan::{Children, OrderedRivalTree, Restart};
use crossbeam_epoch::Guard;
use nearfield_radix::RadixProbe;

impl<F: RivalForm, S: Synchronization> OrderedRivalTree<F> for ArtTree<F, S> {
    type Node<'g>
        = ArtNode<'g>
    where
        Self: 'g;

    fn root<'g>(&'g self, _guard: &'g Guard) -> ArtNode<'g> {
        self.root.node()
    }

    fn expand<'g>(
        &'g self,
        node: ArtNode<'g>,
        _depth: usize,
        _guard: &'g Guard,
        probe: &mut impl RadixProbe,
        children: &mut Children<'g, F, ArtNode<'g>>,
    ) -> Result<usize, Restart> {
        let mut seen = Vec::new();
        S::children(node, probe, &mut seen)?;
        probe.node(node.visit(None, 0, node.prefix()));
        if !S::ASCENDING {
            seen.sort_by_key(|(byte, _)| *byte);
            // A child that was removed and inserted again meanwhile may have been seen twice.
            seen.dedup_by_key(|(byte, _)| *byte);
        }
        for (byte, child) in seen {
            // SAFETY: the child belonged to the node at an instant since the guard was pinned; a
            // thread that unlinks it afterwards does not free it during 'g.
            if let Some(child) = unsafe { child.child::<F>() } {
                children.push((byte, child));
            }
        }
        // Nodes that were inserted between or removed since the parent was read do not matter: the
        // level of a node and the bytes up to it never change.
        Ok(node.level())
    }

    fn path<'g>(
        &'g self,
        node: ArtNode<'g>,
        depth: usize,
        _guard: &'g Guard,
    ) -> Result<&'g [u8], Restart> {
        let key = node.any_key::<F>().ok_or(Restart)?;
        key.get(depth..node.level()).ok_or(Restart)
    }
}
