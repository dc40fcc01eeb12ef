//! Optimistic lock coupling.
//!
//! *Readers* take the version of a node, read, and validate the version before they use what they
//! have read; and once more when they have the version of the child, so that the child was still
//! the node's then. They begin again if a version has changed or a node is obsolete.
//!
//! *Writers* walk in the same way. Then they lock what they change, at the version that they have
//! read: the node, and its parent where the node is replaced. A lock that is not to be had at once
//! makes them begin again, so that no order of locks is needed. A node that was replaced stays
//! locked for ever, as obsolete.

mod change;
mod find;
mod node;
mod remove;
mod walk;

use super::root::Root;
use crate::change::Change;
use crate::counters::Probe;
use crate::rivals::design::Design;
use crate::rivals::leaf::{Leaf, RivalForm};
use crate::rivals::scan;
use crossbeam_epoch::Guard;
use nearfield_core::Direction;
use std::ops::{Bound, ControlFlow};

/// See the [module](self). Only a test, which must fail, does not validate.
#[derive(Debug)]
pub struct Olc<F: RivalForm, const VALIDATES: bool = true> {
    root: Root<F>,
}

impl<F: RivalForm, const VALIDATES: bool> Default for Olc<F, VALIDATES> {
    fn default() -> Self {
        let root = Root::default();
        Olc { root }
    }
}

impl<F: RivalForm, const VALIDATES: bool> Design<F> for Olc<F, VALIDATES> {
    #[inline]
    fn read<R>(
        &self,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl Probe,
        read: impl FnOnce(F::Value<'_>) -> R,
    ) -> Option<R> {
        let key = F::bytes(key);
        let leaf = self.find(key.as_ref(), guard, probe)?;
        Some(read(leaf.value()))
    }

    fn modify<'v>(
        &self,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl Probe,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> Change<F::Value<'v>>,
    ) {
        let key = F::bytes(key);
        self.change(key.as_ref(), guard, probe, decide);
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
        self.root.entries.sum()
    }

    fn check_invariants(&self) {
        self.root.check_invariants(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rivals::Rival;
    use nearfield_core::Words;
    use nearfield_testkit::concurrent::{self, Config};

    /// Without validation, readers miss keys that move within a node.
    #[test]
    fn canary_readers_that_do_not_validate_are_caught() {
        let caught = (0..200).any(|seed| {
            let index = Rival::<Words, Olc<Words, false>>::new();
            concurrent::run(&index, seed, &Config::default()).is_err()
        });
        assert!(caught, "no violation in 200 runs");
    }
}
