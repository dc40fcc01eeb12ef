//! Locking of nodes by writers.

use super::Parent;
use crate::art::node::{ArtNode, ArtTaggedPointer};
use crate::scan::Restart;
use crossbeam_epoch::Guard;
use nearfield_radix::RadixProbe;
use nearfield_radix::lock::{Version, pause};

/// Takes the version of a node, after waiting for a writer that holds the lock.
#[inline]
pub fn enter(node: ArtNode<'_>, probe: &mut impl RadixProbe) -> Result<Version, Restart> {
    let version = node.lock().now();
    if !version.is_locked() {
        return match version.is_obsolete() {
            true => Err(Restart),
            false => Ok(version),
        };
    }
    probe.wait();
    enter_when_unlocked(node)
}

#[cold]
fn enter_when_unlocked(node: ArtNode<'_>) -> Result<Version, Restart> {
    let mut waits = 0;
    loop {
        let version = node.lock().now();
        if !version.is_locked() {
            return match version.is_obsolete() {
                true => Err(Restart),
                false => Ok(version),
            };
        }
        pause(&mut waits);
    }
}

/// Locks a node at a version.
#[inline]
pub fn upgrade(
    node: ArtNode<'_>,
    version: Version,
    probe: &mut impl RadixProbe,
) -> Result<(), Restart> {
    match node.lock().upgrade(version) {
        true => {
            probe.lock(0);
            Ok(())
        }
        false => Err(Restart),
    }
}

/// Replaces a node with a copy and unlocks. The node and its parent are locked.
pub(super) fn replace(
    parent: Parent<'_>,
    node: ArtNode<'_>,
    copy: ArtNode<'_>,
    guard: &Guard,
    probe: &mut impl RadixProbe,
) {
    copy.written(probe);
    parent
        .node
        .put(parent.slot, ArtTaggedPointer::of_node(copy), probe);
    probe.replace(node.place(), copy.place(), copy.kind().bytes());
    parent.node.lock().unlock_changed();
    node.lock().unlock_obsolete();
    // SAFETY: the parent's slot now has another node.
    unsafe { node.retire(guard) };
}
