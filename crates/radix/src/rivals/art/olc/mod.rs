//! Optimistic lock coupling.
//!
//! *Readers* take the version of a node, read, and validate the version before they use the result.
//! They validate it once more when they have the version of the child, so that the child still
//! belonged to the node at that time. They restart if a version has changed or a node is obsolete.
//!
//! *Writers* walk in the same way, and lock nodes at the versions that they have read.

mod find;
mod node;

use super::node::{Found, Kind, Node, Tagged};
use super::synchronization::Synchronization;
use super::tree::{Parent, enter, upgrade};
use crate::counters::Probe;
use crate::lock::{Version, pause};
use crate::rivals::leaf::{Leaf, RivalForm};
use crate::rivals::scan::{Restart, Symbol};
use crossbeam_epoch::Guard;

/// The synchronization; see the [module](self). Only a test that must fail does not validate.
#[derive(Clone, Copy, Debug)]
pub enum LockCoupling<const VALIDATES: bool = true> {}

impl<const VALIDATES: bool> Synchronization for LockCoupling<VALIDATES> {
    const ASCENDING: bool = true;

    #[inline]
    fn leaf<'g, F: RivalForm>(
        root: Node<'g>,
        key: &[u8],
        guard: &'g Guard,
        probe: &mut impl Probe,
    ) -> Option<Leaf<'g, F>> {
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
        node: Node<'g>,
        probe: &mut impl Probe,
        children: &mut Vec<(Symbol, Tagged)>,
    ) -> Result<(), Restart> {
        let version = enter(node, probe)?;
        children.push((None, node.end().load()));
        node.for_each(|byte, child| children.push((Some(byte), child)));
        Self::check(node, version)
    }

    #[inline]
    fn find(node: Node<'_>, symbol: Symbol) -> Found {
        node::find(node, symbol)
    }

    #[inline]
    fn check(node: Node<'_>, version: Version) -> Result<(), Restart> {
        match !VALIDATES || node.lock().validate(version) {
            true => Ok(()),
            false => Err(Restart),
        }
    }

    fn lock_parent(parent: Parent<'_>, probe: &mut impl Probe) -> Result<(), Restart> {
        upgrade(parent.node, parent.version, probe)
    }

    fn count(node: Node<'_>) -> usize {
        node.count()
    }

    fn outgrown(node: Node<'_>) -> Option<Kind> {
        let kind = node.kind();
        let is_full = kind != Kind::Node256 && node.count() >= usize::from(kind.slots());
        is_full.then_some(kind.larger())
    }

    fn insert(node: Node<'_>, symbol: Symbol, child: Tagged, probe: &mut impl Probe) {
        node::insert(node, symbol, child, probe);
    }

    fn remove(node: Node<'_>, symbol: Symbol, slot: u32, probe: &mut impl Probe) {
        node::remove(node, symbol, slot, probe);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rivals::Rival;
    use crate::rivals::art::tree::Tree;
    use nearfield_core::Words;
    use nearfield_testkit::concurrent::{self, Config};

    /// Without validation, readers miss keys that move within a node.
    #[test]
    fn canary_readers_that_do_not_validate_are_caught() {
        let caught = (0..200).any(|seed| {
            let index = Rival::<Words, Tree<Words, LockCoupling<false>>>::new();
            concurrent::run(&index, seed, &Config::default()).is_err()
        });
        assert!(caught, "no violation in 200 runs");
    }
}
