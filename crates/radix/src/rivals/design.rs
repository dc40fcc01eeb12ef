//! What the design of a rival must offer.

use super::leaf::{Leaf, RivalForm};
use crate::change::Change;
use crate::counters::Probe;
use crossbeam_epoch::Guard;
use nearfield_core::Direction;
use std::ops::{Bound, ControlFlow};

/// A concurrent tree with one leaf a key.
///
/// Every point operation is linearizable; a scan meets each entry that is present all the time and
/// none that is absent all the time.
pub trait Design<F: RivalForm>: Default + Send + Sync {
    /// Passes the value of a key to `read`; `None` if the key is absent.
    fn read<R>(
        &self,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl Probe,
        read: impl FnOnce(F::Value<'_>) -> R,
    ) -> Option<R>;

    /// Changes a key as `decide` says, given the value now. `decide` may be called several times;
    /// the last call counts.
    fn modify<'v>(
        &self,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl Probe,
        decide: &mut (impl FnMut(Option<F::Value<'_>>) -> Change<F::Value<'v>> + Send),
    );

    /// Calls `visit` with the leaves from a bound on, in `direction`, until it breaks.
    fn scan<'g>(
        &'g self,
        from: Bound<&'g [u8]>,
        direction: Direction,
        guard: &'g Guard,
        probe: &mut impl Probe,
        visit: impl FnMut(Leaf<'g, F>) -> ControlFlow<()>,
    );

    /// The number of entries; exact while nobody writes.
    fn entries(&self) -> usize;

    /// Checks the structure.
    ///
    /// # Panics
    /// If an invariant is broken. Only while nobody writes.
    fn check_invariants(&self);
}
