//! One pin for many single operations.

use crate::counters::Off;
use crate::radix::{RadixForm, RadixIndex};
use crossbeam_epoch::Guard;

/// Guard that keeps this thread's place in the epochs. The thread's operations are cheaper while it
/// lives: otherwise each operation pins by itself, with a barrier that keeps the processor from
/// beginning the next operation before the last one has ended.
///
/// Memory that any thread unlinks meanwhile is not freed before this guard is dropped, so replace
/// the guard from time to time.
#[derive(Debug)]
#[must_use = "a pin that is dropped immediately has no effect"]
pub struct RadixPinGuard {
    guard: Guard,
}

impl<F: RadixForm> RadixIndex<F> {
    /// Pins this thread for a number of operations, on this index or others.
    ///
    /// ```
    /// use nearfield_core::{OrderedIndex, Words};
    /// use nearfield_radix::RadixIndex;
    ///
    /// let index = RadixIndex::<Words>::new()?;
    /// let pinned = index.pin();
    /// for key in 0..64 {
    ///     index.insert(key, key)?;
    /// }
    /// drop(pinned);
    /// # Ok::<(), nearfield_core::OperationError>(())
    /// ```
    pub fn pin(&self) -> RadixPinGuard {
        RadixPinGuard {
            guard: crossbeam_epoch::pin(),
        }
    }

    /// Reads the value of a key like [`read`](RadixIndex::read), in a thread that is already
    /// pinned: the cheapest lookup of a single key.
    ///
    /// ```
    /// use nearfield_core::{OrderedIndex, Words};
    /// use nearfield_radix::RadixIndex;
    ///
    /// let index = RadixIndex::<Words>::new()?;
    /// index.insert(1, 10)?;
    /// let pinned = index.pin();
    /// assert_eq!(index.read_pinned(&pinned, 1, |value| value), Some(10));
    /// # Ok::<(), nearfield_core::OperationError>(())
    /// ```
    #[inline]
    pub fn read_pinned<R>(
        &self,
        pinned: &RadixPinGuard,
        key: F::Key<'_>,
        read: impl FnOnce(F::Value<'_>) -> R,
    ) -> Option<R> {
        self.tree.find(key, &pinned.guard, &mut Off, read)
    }
}
