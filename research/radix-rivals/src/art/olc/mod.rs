//! Optimistic lock coupling.
//!
//! *Readers* take the version of a node, read, and validate the version before they use the result.
//! They validate it once more when they have the version of the child, so that the child still
//! belonged to the node at that time. They restart if a version has changed or a node is obsolete.
//!
//! *Writers* walk in the same way, and lock nodes at the versions that they have read.

mod find;
mod node;

use super::node::{ArtNode, ArtNodeKind, ArtSearchResult, ArtTaggedPointer};
use super::synchronization::Synchronization;
use super::tree::{Parent, enter, upgrade};
use crate::leaf::{RivalForm, RivalLeaf};
use crate::scan::{Restart, Symbol};
use crossbeam_epoch::Guard;
use nearfield_radix::RadixProbe;
use nearfield_radix::lock::{Version, pause};

/// The synchronization; see the [module](self). Only a test that must fail does not validate.
#[derive(Clone, Copy, Debug)]
pub enum LockCoupling<const VALIDATES: bool = true> {}

impl<const VALIDATES: bool> Synchronization for LockCoupling<VALIDATES> {
    const ASCENDING: bool = true;

    #[inline]
    fn leaf<'g, F: RivalForm>(
        root: ArtNode<'g>,
        key: &[u8],
        guard: &'g Guard,
        probe: &mut impl RadixProbe,
    ) -> Option<RivalLeaf<'g, F>> {
        let mut waits = 0;
        loop {
            match Self::try_leaf(root, key, guard, probe) {
                Ok(leaf) => return leaf,
                Err(Restart) => {
                    probe.restart();
                    pause(&mut waits);
                }
            }
        }
    }

    fn children<'g>(
        node: ArtNode<'g>,
        probe: &mut impl RadixProbe,
        children: &mut Vec<(Symbol, ArtTaggedPointer)>,
    ) -> Result<(), Restart> {
        let version = enter(node, probe)?;
        children.push((None, node.end().load()));
        node.for_each(|byte, child| children.push((Some(byte), child)));
        Self::check(node, version)
    }

    #[inline]
    fn find(node: ArtNode<'_>, symbol: Symbol) -> ArtSearchResult {
        node::find(node, symbol)
    }

    #[inline]
    fn check(node: ArtNode<'_>, version: Version) -> Result<(), Restart> {
        match !VALIDATES || node.lock().validate(version) {
            true => Ok(()),
            false => Err(Restart),
        }
    }

    fn lock_parent(parent: Parent<'_>, probe: &mut impl RadixProbe) -> Result<(), Restart> {
        upgrade(parent.node, parent.version, probe)
    }

    fn count(node: ArtNode<'_>) -> usize {
        node.count()
    }

    fn outgrown(node: ArtNode<'_>) -> Option<ArtNodeKind> {
        let kind = node.kind();
        let is_full = kind != ArtNodeKind::Node256 && node.count() >= usize::from(kind.slots());
        is_full.then_some(kind.larger())
    }

    fn insert(
        node: ArtNode<'_>,
        symbol: Symbol,
        child: ArtTaggedPointer,
        probe: &mut impl RadixProbe,
    ) {
        node::insert(node, symbol, child, probe);
    }

    fn remove(node: ArtNode<'_>, symbol: Symbol, slot: u32, probe: &mut impl RadixProbe) {
        node::remove(node, symbol, slot, probe);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rival;
    use crate::art::tree::ArtTree;
    use nearfield_core::Words;
    use nearfield_testkit::concurrent::{self, ConcurrentTestConfig};

    /// Without validation, readers miss keys that move within a node.
    #[test]
    fn canary_readers_that_do_not_validate_are_caught() {
        let caught = (0..200).any(|seed| {
            let index = Rival::<Words, ArtTree<Words, LockCoupling<false>>>::new();
            concurrent::run(&index, seed, &ConcurrentTestConfig::default()).is_err()
        });
        assert!(caught, "no violation in 200 runs");
    }
}
