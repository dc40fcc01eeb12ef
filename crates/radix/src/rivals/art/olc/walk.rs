//! Walking in order.

use super::Olc;
use super::node::{check, enter};
use crate::counters::Probe;
use crate::rivals::art::node::Node;
use crate::rivals::leaf::RivalForm;
use crate::rivals::scan::{Children, Ordered, Restart, Symbol};
use crossbeam_epoch::Guard;

impl<F: RivalForm, const VALIDATES: bool> Ordered<F> for Olc<F, VALIDATES> {
    type Node<'g>
        = Node<'g>
    where
        Self: 'g;

    fn root<'g>(&'g self, _guard: &'g Guard) -> Node<'g> {
        self.root.node()
    }

    fn expand<'g>(
        &'g self,
        node: Node<'g>,
        depth: usize,
        _guard: &'g Guard,
        probe: &mut impl Probe,
        children: &mut Children<'g, F, Node<'g>>,
    ) -> Result<usize, Restart> {
        let version = enter(node, probe)?;
        let (level, prefix) = (node.level(), node.prefix());
        let mut seen = vec![(None, node.end().load())];
        node.for_each(|byte, child| seen.push((Symbol::from(byte), child)));
        check::<VALIDATES>(node, version)?;
        // The parent was read before; another node may have come between, or have gone.
        if depth + prefix.length() != level {
            return Err(Restart);
        }
        probe.node(node.visit(None, 0, prefix));
        for (byte, child) in seen {
            // SAFETY: the version was validated, so that the child was the node's at an instant
            // since the guard; whoever unlinks it afterwards does not free it during 'g.
            if let Some(child) = unsafe { child.child::<F>() } {
                children.push((byte, child));
            }
        }
        Ok(level)
    }

    fn any_key<'g>(&'g self, node: Node<'g>, _guard: &'g Guard) -> Result<&'g [u8], Restart> {
        node.any_key::<F>().ok_or(Restart)
    }
}
