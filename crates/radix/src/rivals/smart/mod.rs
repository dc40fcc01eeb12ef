//! SMART (Luo et al., OSDI 2023) for memory that threads share, as the authors of DCART have ported
//! it.
//!
//! Internal nodes are never locked. A slot is a word with a byte of the key, the kind of the child
//! and its address, so that one swap changes all three. A new key takes the slot of its byte, or
//! puts a node in the place of a leaf or above a node with a prefix. A node without a slot for a
//! byte is frozen, which keeps swaps away, copied to a larger one, and replaced in its parent's
//! slot; writers that meet a frozen slot make the copy, too, and the first swap counts. Nodes that
//! have lost their entries stay.
//!
//! Operations pass a table of local locks (`delegation.rs`). One that meets another of the same
//! lock does not wait to be next: whoever holds the lock executes it along. The reads of a key are
//! served by one walk, and its writes by one write.
//!
//! # Why it is linearizable
//!
//! - Operations on one key exclude each other by the local lock.
//! - A byte has one slot in a node, and a slot its byte, until the node is replaced. A slot changes
//!   by swaps alone, and not after it was frozen.
//! - A frozen node shows the tree's state up to the instant when it is replaced; who reads it then
//!   came upon it before. A node covers the keys with its first bytes for ever, whatever is put
//!   above.
//!
//! # Where this differs from the published tree
//!
//! - There is no remote memory: no cache of nodes, no checksums, no reverse pointers.
//! - Nodes have memory for their own slots, not for 256, so that growing copies them. A byte's slot
//!   lies near a position of its own, so that a search reads one or two lines; the published tree
//!   compares all slots.
//! - Values that are words are written in place; byte strings, which have any length here, take a
//!   new
//!   leaf, by a swap.
//! - The authors of DCART have not published their port.

mod change;
mod check;
mod delegation;
mod node;
mod slot;
mod walk;

use super::design::Design;
use super::entries::EntryCount;
use super::index::Rival;
use super::leaf::{Leaf, RivalForm};
use super::scan;
use crate::change::Change;
use crate::counters::Probe;
use crossbeam_epoch::Guard;
use delegation::Delegation;
use nearfield_core::Direction;
use node::{Node, Size};
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};

/// SMART for memory that threads share.
///
/// ```
/// use nearfield_core::{OrderedIndex, Words};
/// use nearfield_radix::rivals::Smart;
///
/// let index = Smart::<Words>::new();
/// index.insert(1, 10)?;
/// assert_eq!(index.get(1)?, Some(10));
/// # Ok::<(), nearfield_core::Error>(())
/// ```
pub type Smart<F> = Rival<F, SmartTree<F>>;

/// The design of [`Smart`]. Only a test, which must fail, has no local locks.
#[derive(Debug)]
pub struct SmartTree<F: RivalForm, const DELEGATES: bool = true> {
    /// Has 256 slots, and stays.
    root: Node<'static>,
    entries: EntryCount,
    delegation: Delegation,
    form: PhantomData<F>,
}

// SAFETY: nodes consist of atomics and what never changes; those below the root belong to the tree.
// Leaves hold bytes alone.
unsafe impl<F: RivalForm, const DELEGATES: bool> Send for SmartTree<F, DELEGATES> {}
// SAFETY: as above.
unsafe impl<F: RivalForm, const DELEGATES: bool> Sync for SmartTree<F, DELEGATES> {}

impl<F: RivalForm, const DELEGATES: bool> Default for SmartTree<F, DELEGATES> {
    fn default() -> Self {
        SmartTree {
            root: Node::new(Size::S256, 0, &[]),
            entries: EntryCount::default(),
            delegation: Delegation::default(),
            form: PhantomData,
        }
    }
}

impl<F: RivalForm, const DELEGATES: bool> Design<F> for SmartTree<F, DELEGATES> {
    #[inline]
    fn read<R>(
        &self,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl Probe,
        read: impl FnOnce(F::Value<'_>) -> R,
    ) -> Option<R> {
        let key = F::bytes(key);
        let leaf = match DELEGATES {
            true => self.read_delegated(key.as_ref(), guard, probe),
            false => self.find(key.as_ref(), guard, probe),
        };
        Some(read(leaf?.value()))
    }

    fn modify<'v>(
        &self,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl Probe,
        decide: &mut (impl FnMut(Option<F::Value<'_>>) -> Change<F::Value<'v>> + Send),
    ) {
        let key = F::bytes(key);
        match DELEGATES {
            true => self.change_combined(key.as_ref(), guard, probe, decide),
            false => self.change(key.as_ref(), guard, probe, decide),
        }
    }

    fn scan<'g>(
        &'g self,
        from: Bound<&'g [u8]>,
        direction: Direction,
        guard: &'g Guard,
        probe: &mut impl Probe,
        visit: impl FnMut(Leaf<'g, F>) -> ControlFlow<()>,
    ) {
        scan::scan(self, from, direction, guard, probe, visit);
    }

    fn entries(&self) -> usize {
        self.entries.sum()
    }

    fn check_invariants(&self) {
        self.check();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_core::Words;
    use nearfield_testkit::concurrent::{self, Config};

    /// Without local locks, two threads change one value at a time.
    #[test]
    fn canary_operations_without_local_locks_are_caught() {
        let caught = (0..200).any(|seed| {
            let index = Rival::<Words, SmartTree<Words, false>>::new();
            concurrent::run(&index, seed, &Config::default()).is_err()
        });
        assert!(caught, "no violation in 200 runs");
    }
}
