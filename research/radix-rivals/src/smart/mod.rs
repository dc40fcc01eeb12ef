//! SMART (Luo et al., OSDI 2023) for memory that threads share, as the authors of DCART have ported
//! it.
//!
//! The tree is one of [swaps](super::swapping), with slots that follow their node. Operations pass
//! a table of local locks (`delegation.rs`). An operation whose lock is taken does not wait for its
//! turn: the holder of the lock executes it, too. The reads of a key are served by one walk, and
//! its writes by one write.
//!
//! Operations on one key exclude each other by the local lock, so they are linearizable.
//!
//! # Differences from the published tree
//!
//! - There is no remote memory: no cache of nodes, no checksums, no reverse pointers.
//! - Nodes have memory for their own slots, not for 256, so that growing copies them. A byte's slot
//!   is near the byte's own position, so that a search reads one or two lines; the published tree
//!   compares all slots.
//! - Values that are words are written in place; byte strings, which have any length here, take a
//!   new leaf, by a swap.
//! - The authors of DCART have not published their port.

mod delegation;
mod lock;

use super::design::RivalDesign;
use super::index::Rival;
use super::leaf::{RivalForm, RivalLeaf};
use super::swapping::SwapTree;
use crossbeam_epoch::Guard;
use delegation::DelegationLockTable;
use nearfield_core::ScanDirection;
use nearfield_radix::{RadixKeyChange, RadixProbe};
use std::ops::{Bound, ControlFlow};

/// SMART for memory that threads share.
///
/// ```
/// use nearfield_core::{OrderedIndex, Words};
/// use nearfield_radix_rivals::Smart;
///
/// let index = Smart::<Words>::new();
/// index.insert(1, 10)?;
/// assert_eq!(index.get(1)?, Some(10));
/// # Ok::<(), nearfield_core::OperationError>(())
/// ```
pub type Smart<F> = Rival<F, SmartTree<F>>;

/// The design of [`Smart`]. Only a test that must fail has no local locks.
#[derive(Debug)]
pub struct SmartTree<F: RivalForm, const DELEGATES: bool = true> {
    tree: SwapTree<F, false, true>,
    delegation: DelegationLockTable,
}

impl<F: RivalForm, const DELEGATES: bool> Default for SmartTree<F, DELEGATES> {
    fn default() -> Self {
        SmartTree {
            tree: SwapTree::default(),
            delegation: DelegationLockTable::default(),
        }
    }
}

impl<F: RivalForm, const DELEGATES: bool> RivalDesign<F> for SmartTree<F, DELEGATES> {
    #[inline]
    fn read<R>(
        &self,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl RadixProbe,
        read: impl FnOnce(F::Value<'_>) -> R,
    ) -> Option<R> {
        let key = F::bytes(key);
        let leaf = match DELEGATES {
            true => self.read_delegated(key.as_ref(), guard, probe),
            false => self.tree.find(key.as_ref(), guard, probe),
        };
        Some(read(leaf?.value()))
    }

    fn modify<'v>(
        &self,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl RadixProbe,
        decide: &mut (impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>> + Send),
    ) {
        let key = F::bytes(key);
        match DELEGATES {
            true => self.change_combined(key.as_ref(), guard, probe, decide),
            false => self.tree.change(key.as_ref(), guard, probe, decide),
        }
    }

    fn scan<'g>(
        &'g self,
        from: Bound<&'g [u8]>,
        direction: ScanDirection,
        guard: &'g Guard,
        probe: &mut impl RadixProbe,
        visit: impl FnMut(RivalLeaf<'g, F>) -> ControlFlow<()>,
    ) {
        self.tree.scan(from, direction, guard, probe, visit);
    }

    fn entries(&self) -> usize {
        self.tree.entries()
    }

    fn check_invariants(&self) {
        self.tree.check_invariants();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_core::Words;
    use nearfield_testkit::concurrent::{self, ConcurrentTestConfig};

    /// Without local locks, two threads change one value at a time.
    #[test]
    fn canary_operations_without_local_locks_are_caught() {
        let caught = (0..200).any(|seed| {
            let index = Rival::<Words, SmartTree<Words, false>>::new();
            concurrent::run(&index, seed, &ConcurrentTestConfig::default()).is_err()
        });
        assert!(caught, "no violation in 200 runs");
    }
}
