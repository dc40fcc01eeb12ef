//! The interface in which the synchronizations of the tree differ.

use super::node::{Found, Kind, Node, Tagged};
use super::tree::Parent;
use crate::counters::Probe;
use crate::lock::Version;
use crate::rivals::leaf::{Leaf, RivalForm};
use crate::rivals::scan::{Restart, Symbol};
use crossbeam_epoch::Guard;

/// A method to read and change nodes that other threads read and change.
///
/// Writers take the version of a node before they read it, and lock it at that version. They lock a
/// node before its parent, and a child of it only if its lock is free.
pub trait Synchronization: Send + Sync + 'static {
    /// True if the bytes of small nodes are in ascending order, and their slots in use.
    const ASCENDING: bool;

    /// Finds the leaf of a key below the root.
    fn leaf<'g, F: RivalForm>(
        root: Node<'g>,
        key: &[u8],
        guard: &'g Guard,
        probe: &mut impl Probe,
    ) -> Option<Leaf<'g, F>>;

    /// Adds the children of a node for a scan, in any order.
    fn children<'g>(
        node: Node<'g>,
        probe: &mut impl Probe,
        children: &mut Vec<(Symbol, Tagged)>,
    ) -> Result<(), Restart>;

    /// Finds the child of a symbol.
    fn find(node: Node<'_>, symbol: Symbol) -> Found;

    /// Checks that everything that a writer has read since it took a version is valid.
    fn check(node: Node<'_>, version: Version) -> Result<(), Restart>;

    /// Locks the parent of a node that is locked.
    fn lock_parent(parent: Parent<'_>, probe: &mut impl Probe) -> Result<(), Restart>;

    /// Returns the number of children, except that of the key that ends at the node, under the
    /// lock.
    fn count(node: Node<'_>) -> usize;

    /// Returns the kind of the node that must replace a node before a child can be added; `None` if
    /// there is room. The result is true at the version at which the writer locks.
    fn outgrown(node: Node<'_>) -> Option<Kind>;

    /// Adds a child, for which there is room, under the lock.
    fn insert(node: Node<'_>, symbol: Symbol, child: Tagged, probe: &mut impl Probe);

    /// Removes a child that is present, under the lock.
    fn remove(node: Node<'_>, symbol: Symbol, slot: u32, probe: &mut impl Probe);
}
