//! One pin for many single operations.

use crate::radix::{Radix, RadixForm};
use crossbeam_epoch::Guard;

/// Keeps this thread's place in the epochs. Operations of the thread are cheaper while it lives:
/// each pins by itself otherwise, with a barrier that keeps the processor from beginning the next
/// operation before the last has ended.
///
/// What is removed meanwhile, by any thread, is not freed before this is dropped; take a new one
/// every so many operations.
#[derive(Debug)]
#[must_use = "dropped at once, it has no effect"]
pub struct Pinned {
    _guard: Guard,
}

impl<F: RadixForm> Radix<F> {
    /// Pins this thread for a number of operations, on this index or others.
    ///
    /// ```
    /// use nearfield_core::{OrderedIndex, Words};
    /// use nearfield_radix::Radix;
    ///
    /// let index = Radix::<Words>::new()?;
    /// let pinned = index.pin();
    /// for key in 0..64 {
    ///     index.insert(key, key)?;
    /// }
    /// drop(pinned);
    /// # Ok::<(), nearfield_core::Error>(())
    /// ```
    pub fn pin(&self) -> Pinned {
        Pinned {
            _guard: crossbeam_epoch::pin(),
        }
    }
}
