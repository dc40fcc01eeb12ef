//! Heart (Nie et al., ICCD 2023) in memory that threads share, as far as its published facts go.
//!
//! The tree is one of [swaps](super::swapping), with slots apart from their nodes.
//!
//! # What the facts say, and what they leave open
//!
//! The paper is for persistent memory, and its authors have published no program. Its facts are:
//!
//! - *One node shape for all capacities, with hashed children.* Here 4 to 256 slots; a byte is its
//!   own
//!   hash, and a slot is searched from there on, over one cache line at most.
//! - *Decoupled node parts.* Here a header with the prefix, which never changes and stays where it
//!   is, and slots in memory of their own, which are replaced.
//! - *Basic operations and splits by compare-and-swap, without locks.* Here every change is the
//!   swap
//!   of one slot, and a new value has a new leaf, so that the value and its presence are one word.
//! - *A visible intermediate state while a node expands or shrinks.* Here frozen slots: readers use
//!   them, writers that meet them make the new slots themselves.
//!
//! Open are the sizes, the hash function, when nodes expand and shrink (here: when a byte finds no
//! slot within a line; when less than a quarter of the slots lead to something) and what happens to
//! nodes without entries (here: they stay). Nothing is flushed to persistent memory.

use super::design::Design;
use super::index::Rival;
use super::leaf::{Leaf, RivalForm};
use super::scan;
use super::swapping::SwapTree;
use crate::change::Change;
use crate::counters::Probe;
use crossbeam_epoch::Guard;
use nearfield_core::Direction;
use std::ops::{Bound, ControlFlow};

/// Heart, without persistence.
///
/// ```
/// use nearfield_core::{OrderedIndex, Words};
/// use nearfield_radix::rivals::Heart;
///
/// let index = Heart::<Words>::new();
/// index.insert(1, 10)?;
/// assert_eq!(index.get(1)?, Some(10));
/// # Ok::<(), nearfield_core::Error>(())
/// ```
pub type Heart<F> = Rival<F, HeartTree<F>>;

/// The design of [`Heart`]. Only a test, which must fail, writes values in place.
#[derive(Debug)]
pub struct HeartTree<F: RivalForm, const IN_PLACE: bool = false>(SwapTree<F, true, IN_PLACE>);

impl<F: RivalForm, const IN_PLACE: bool> Default for HeartTree<F, IN_PLACE> {
    fn default() -> Self {
        HeartTree(SwapTree::default())
    }
}

impl<F: RivalForm, const IN_PLACE: bool> Design<F> for HeartTree<F, IN_PLACE> {
    #[inline]
    fn read<R>(
        &self,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl Probe,
        read: impl FnOnce(F::Value<'_>) -> R,
    ) -> Option<R> {
        let key = F::bytes(key);
        let leaf = self.0.find(key.as_ref(), guard, probe)?;
        Some(read(leaf.value()))
    }

    fn modify<'v>(
        &self,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl Probe,
        decide: &mut (impl FnMut(Option<F::Value<'_>>) -> Change<F::Value<'v>> + Send),
    ) {
        let key = F::bytes(key);
        self.0.change(key.as_ref(), guard, probe, decide);
    }

    fn scan<'g>(
        &'g self,
        from: Bound<&'g [u8]>,
        direction: Direction,
        guard: &'g Guard,
        probe: &mut impl Probe,
        visit: impl FnMut(Leaf<'g, F>) -> ControlFlow<()>,
    ) {
        scan::scan(&self.0, from, direction, guard, probe, visit);
    }

    fn entries(&self) -> usize {
        self.0.entries.sum()
    }

    fn check_invariants(&self) {
        self.0.check();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_core::Words;
    use nearfield_testkit::concurrent::{self, Config};

    /// Values are not part of the word that is swapped if they are written in place.
    #[test]
    fn canary_values_that_are_not_swapped_are_caught() {
        let caught = (0..200).any(|seed| {
            let index = Rival::<Words, HeartTree<Words, true>>::new();
            concurrent::run(&index, seed, &Config::default()).is_err()
        });
        assert!(caught, "no violation in 200 runs");
    }
}
