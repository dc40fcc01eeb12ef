//! Looking a key up.

use super::Olc;
use super::node::{check, enter, find};
use crate::counters::Probe;
use crate::lock::pause;
use crate::rivals::leaf::{Leaf, RivalForm};
use crate::rivals::scan::{Child, Restart, symbol};
use crossbeam_epoch::Guard;

impl<F: RivalForm, const VALIDATES: bool> Olc<F, VALIDATES> {
    /// Finds the leaf of a key.
    #[inline]
    pub(super) fn find<'g>(
        &'g self,
        key: &[u8],
        guard: &'g Guard,
        probe: &mut impl Probe,
    ) -> Option<Leaf<'g, F>> {
        let mut waits = 0;
        loop {
            match self.try_find(key, guard, probe) {
                Ok(leaf) => return leaf,
                Err(Restart) => {
                    probe.restart();
                    pause(&mut waits);
                }
            }
        }
    }

    #[inline]
    fn try_find<'g>(
        &'g self,
        key: &[u8],
        _guard: &'g Guard,
        probe: &mut impl Probe,
    ) -> Result<Option<Leaf<'g, F>>, Restart> {
        let mut node = self.root.node();
        let mut version = enter(node, probe)?;
        let mut depth = 0;
        loop {
            let prefix = node.prefix();
            if prefix.length() != 0 {
                // Bytes that are not stored are skipped: the whole key is compared at the leaf.
                if prefix.difference(key, depth).is_some() {
                    probe.node(node.visit_prefix(prefix));
                    check::<VALIDATES>(node, version)?;
                    return Ok(None);
                }
                depth += prefix.length();
            }
            let byte = symbol(key, depth);
            let found = find(node, byte);
            probe.node(node.visit(byte, found.slot, prefix));
            check::<VALIDATES>(node, version)?;
            // SAFETY: the version was validated, so that the child was the node's at an instant
            // since the guard; whoever unlinks it afterwards does not free it during 'g.
            match unsafe { found.child.child::<F>() } {
                None => return Ok(None),
                Some(Child::Leaf(leaf)) => {
                    probe.node(leaf.visit());
                    return Ok((leaf.key() == key).then_some(leaf));
                }
                Some(Child::Node(child)) => {
                    let child_version = enter(child, probe)?;
                    check::<VALIDATES>(node, version)?;
                    (node, version) = (child, child_version);
                    depth += 1;
                }
            }
        }
    }
}
