//! Removal of a leaf from its node.

use super::change::{ArtWalkEnd, copy};
use super::locking::replace;
use super::{ArtTree, Parent};
use crate::art::node::{ArtNode, ArtNodeKind};
use crate::art::synchronization::Synchronization;
use crate::leaf::RivalForm;
use crate::scan::{Restart, RivalChild, Symbol};
use crossbeam_epoch::Guard;
use nearfield_radix::RadixProbe;
use nearfield_radix::lock::TryLock;

impl<F: RivalForm, S: Synchronization> ArtTree<F, S> {
    /// Removes the child of a place, whose node is locked, and unlocks the node. The node shrinks
    /// if it can, and a node that is left with one entry is replaced by that entry.
    pub(super) fn take(
        &self,
        place: ArtWalkEnd<'_>,
        guard: &Guard,
        probe: &mut impl RadixProbe,
    ) -> Result<(), Restart> {
        let ArtWalkEnd {
            node,
            symbol,
            found,
            ..
        } = place;
        let (kind, count) = (node.kind(), S::count(node));
        let has_end = !node.end().load().is_none();
        let is_last_but_one = kind == ArtNodeKind::Node4 && count + usize::from(has_end) == 2;
        let shrinks = symbol.is_some() && count == kind.shrinks_from();
        let parent = place.parent.filter(|_| is_last_but_one || shrinks);
        let Some(parent) = parent else {
            S::remove(node, symbol, found.slot, probe);
            node.lock().unlock_changed();
            return Ok(());
        };
        let locked = S::lock_parent(parent, probe);
        locked.inspect_err(|_| node.lock().unlock_unchanged())?;
        if is_last_but_one {
            return self.collapse(parent, node, symbol, guard, probe);
        }
        let smaller = copy::<S>(node, kind.smaller(), symbol);
        replace(parent, node, smaller, guard, probe);
        Ok(())
    }

    /// Replaces a node with the only entry that it has left, and unlocks. The node and its parent
    /// are locked.
    fn collapse(
        &self,
        parent: Parent<'_>,
        node: ArtNode<'_>,
        symbol: Symbol,
        guard: &Guard,
        probe: &mut impl RadixProbe,
    ) -> Result<(), Restart> {
        let mut survivor = (None, node.end().load());
        node.for_each(|byte, child| {
            if Some(byte) != symbol {
                survivor = (Some(byte), child);
            }
        });
        let (byte, child) = survivor;
        // SAFETY: the node is locked, so this is its child.
        if let (Some(byte), Some(RivalChild::Node(below))) = (byte, unsafe { child.child::<F>() }) {
            // Locks are taken upwards here, so this thread must not wait for one below.
            if below.lock().try_lock() != TryLock::Locked {
                parent.node.lock().unlock_unchanged();
                node.lock().unlock_unchanged();
                return Err(Restart);
            }
            probe.lock(0);
            let joined = node.prefix().joined(byte, below.prefix());
            below.set_prefix(joined, probe);
            below.lock().unlock_changed();
        }
        parent.node.put(parent.slot, child, probe);
        probe.replace(node.place(), child.address(), 0);
        parent.node.lock().unlock_changed();
        node.lock().unlock_obsolete();
        // SAFETY: the parent's slot now has the survivor.
        unsafe { node.retire(guard) };
        Ok(())
    }
}
