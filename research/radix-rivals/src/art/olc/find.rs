//! Lookup of a key.

use super::LockCoupling;
use super::node::find;
use crate::art::node::ArtNode;
use crate::art::synchronization::Synchronization;
use crate::art::tree::enter;
use crate::leaf::{RivalForm, RivalLeaf};
use crate::scan::{Restart, RivalChild, symbol};
use crossbeam_epoch::Guard;
use nearfield_radix::RadixProbe;

impl<const VALIDATES: bool> LockCoupling<VALIDATES> {
    /// Finds the leaf of a key, unless another thread intervenes.
    #[inline]
    pub(super) fn try_leaf<'g, F: RivalForm>(
        root: ArtNode<'g>,
        key: &[u8],
        _guard: &'g Guard,
        probe: &mut impl RadixProbe,
    ) -> Result<Option<RivalLeaf<'g, F>>, Restart> {
        let mut node = root;
        let mut version = enter(node, probe)?;
        let mut depth = 0;
        loop {
            let prefix = node.prefix();
            if prefix.length() != 0 {
                // Bytes that are not stored are skipped: the whole key is compared at the leaf.
                if prefix.difference(key, depth).is_some() {
                    probe.node(node.visit_prefix(prefix));
                    Self::check(node, version)?;
                    return Ok(None);
                }
                depth += prefix.length();
            }
            let byte = symbol(key, depth);
            let found = find(node, byte);
            probe.node(node.visit(byte, found.slot, prefix));
            Self::check(node, version)?;
            // SAFETY: the version was validated, so the child belonged to the node at an instant
            // since the guard was pinned; a thread that unlinks it afterwards does not free it
            // during 'g.
            match unsafe { found.child.child::<F>() } {
                None => return Ok(None),
                Some(RivalChild::Leaf(leaf)) => {
                    probe.node(leaf.visit());
                    return Ok((leaf.key() == key).then_some(leaf));
                }
                Some(RivalChild::Node(child)) => {
                    let child_version = enter(child, probe)?;
                    Self::check(node, version)?;
                    (node, version) = (child, child_version);
                    depth += 1;
                }
            }
        }
    }
}
