//! The interface that the design of a rival must implement.

use super::leaf::{RivalForm, RivalLeaf};
use crossbeam_epoch::Guard;
use nearfield_core::ScanDirection;
use nearfield_radix::{RadixKeyChange, RadixProbe};
use std::ops::{Bound, ControlFlow};

/// A concurrent tree with one leaf per key.
///
/// Every point operation is linearizable. A scan visits each entry that is present all the time and
/// none that is absent all the time.
pub trait RivalDesign<F: RivalForm>: Default + Send + Sync {
    /// Passes the value of a key to `read` and returns the result; `None` if the key is absent.
    fn read<R>(
        &self,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl RadixProbe,
        read: impl FnOnce(F::Value<'_>) -> R,
    ) -> Option<R>;

    /// Applies the decision of `decide` to a key, given its present value. `decide` may be called
    /// several times; the last call counts.
    fn modify<'v>(
        &self,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl RadixProbe,
        decide: &mut (impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>> + Send),
    );

    /// Calls `visit` with the leaves in `direction`, starting at a bound, until it breaks.
    fn scan<'g>(
        &'g self,
        from: Bound<&'g [u8]>,
        direction: ScanDirection,
        guard: &'g Guard,
        probe: &mut impl RadixProbe,
        visit: impl FnMut(RivalLeaf<'g, F>) -> ControlFlow<()>,
    );

    /// Returns the number of entries; exact while no thread writes.
    fn entries(&self) -> usize;

    /// Checks the structure.
    ///
    /// # Panics
    /// If an invariant is broken. Call it only while no thread writes.
    fn check_invariants(&self);
}
