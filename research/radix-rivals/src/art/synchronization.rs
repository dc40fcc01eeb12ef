//! The interface in which the synchronizations of the tree differ.

use super::node::{ArtNode, ArtNodeKind, ArtSearchResult, ArtTaggedPointer};
use super::tree::Parent;
use crate::leaf::{RivalForm, RivalLeaf};
use crate::scan::{Restart, Symbol};
use crossbeam_epoch::Guard;
use nearfield_radix::RadixProbe;
use nearfield_radix::lock::Version;

/// A method to read and change nodes that other threads read and change.
///
/// Writers take the version of a node before they read it, and lock it at that version. They lock a
/// node before its parent, and a child of it only if its lock is free.
pub trait Synchronization: Send + Sync + 'static {
    /// True if the bytes of small nodes are in ascending order, and their slots in use.
    const ASCENDING: bool;

    /// Finds the leaf of a key below the root.
    fn leaf<'g, F: RivalForm>(
        root: ArtNode<'g>,
        key: &[u8],
        guard: &'g Guard,
        probe: &mut impl RadixProbe,
    ) -> Option<RivalLeaf<'g, F>>;

    /// Adds the children of a node for a scan, in any order.
    fn children<'g>(
        node: ArtNode<'g>,
        probe: &mut impl RadixProbe,
        children: &mut Vec<(Symbol, ArtTaggedPointer)>,
    ) -> Result<(), Restart>;

    /// Finds the child of a symbol.
    fn find(node: ArtNode<'_>, symbol: Symbol) -> ArtSearchResult;

    /// Checks that everything that a writer has read since it took a version is valid.
    fn check(node: ArtNode<'_>, version: Version) -> Result<(), Restart>;

    /// Locks the parent of a node that is locked.
    fn lock_parent(parent: Parent<'_>, probe: &mut impl RadixProbe) -> Result<(), Restart>;

    /// Returns the number of children, except that of the key that ends at the node, under the
    /// lock.
    fn count(node: ArtNode<'_>) -> usize;

    /// Returns the kind of the node that must replace a node before a child can be added; `None` if
    /// there is room. The result is true at the version at which the writer locks.
    fn outgrown(node: ArtNode<'_>) -> Option<ArtNodeKind>;

    /// Adds a child, for which there is room, under the lock.
    fn insert(
        node: ArtNode<'_>,
        symbol: Symbol,
        child: ArtTaggedPointer,
        probe: &mut impl RadixProbe,
    );

    /// Removes a child that is present, under the lock.
    fn remove(node: ArtNode<'_>, symbol: Symbol, slot: u32, probe: &mut impl RadixProbe);
}
