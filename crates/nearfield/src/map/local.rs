//! Methods of maps in the memory of this machine.

use super::OrderedMap;
use crate::form::MapForm;
use crate::placement::Local;
use nearfield_core::{Batch, ByteStrings, OperationError};
use nearfield_radix::{EngineOptions, MemoryUse, RadixCounters, RadixPinGuard};
use std::ops::ControlFlow;

impl<F: MapForm> OrderedMap<F, Local> {
    /// Executes a batch as [`execute`](OrderedMap::execute) does, and adds its work to `counters`.
    ///
    /// # Errors
    /// As `execute`.
    ///
    /// ```
    /// use nearfield::{Batch, RadixCounters, WordMap};
    ///
    /// let map = WordMap::new()?;
    /// let mut batch = Batch::new();
    /// batch.insert(1, 10);
    /// let mut counters = RadixCounters::default();
    /// map.execute_counted(&mut batch, &mut counters)?;
    /// assert_eq!(counters.lock_acquisitions, 1);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn execute_counted(
        &self,
        batch: &mut Batch<F>,
        counters: &mut RadixCounters,
    ) -> Result<(), OperationError> {
        self.index.execute_counted(batch, counters)
    }

    /// Returns the memory that the map takes, by kind of node.
    ///
    /// ```
    /// let map = nearfield::WordMap::new()?;
    /// map.insert(1, 10)?;
    /// assert_eq!(map.memory().leaf_bytes, 128);
    /// assert!(map.memory().total_bytes() <= map.memory().taken_bytes);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn memory(&self) -> MemoryUse {
        self.index.memory()
    }

    /// Executes batches one after the other. `workers` threads execute a batch while the next one
    /// is planned; 1 means the calling thread alone. Passes each batch to `done`, in order, with
    /// the result that [`execute`](OrderedMap::execute) would return, until `done` returns `Break`.
    ///
    /// All effects of a batch are complete before the next begins. This pays off for batches of
    /// thousands of writes, if there is a core for each worker and one for the planner.
    ///
    /// # Panics
    /// If `batches` or `done` panics or a thread cannot be started. All threads are stopped first.
    ///
    /// ```
    /// use nearfield::{Batch, WordMap};
    /// use std::ops::ControlFlow;
    ///
    /// let map = WordMap::new()?;
    /// let batches = (0..10).map(|start| {
    ///     let mut batch = Batch::new();
    ///     (start..start + 1000).for_each(|key| {
    ///         batch.insert(key, start);
    ///     });
    ///     batch
    /// });
    /// map.execute_stream(2, batches, |_, result| match result {
    ///     Ok(()) => ControlFlow::Continue(()),
    ///     Err(_) => ControlFlow::Break(()),
    /// });
    /// assert_eq!(map.len(), 1009);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn execute_stream(
        &self,
        workers: usize,
        batches: impl IntoIterator<Item = Batch<F>, IntoIter: Send>,
        done: impl FnMut(Batch<F>, Result<(), OperationError>) -> ControlFlow<()>,
    ) {
        self.index.execute_stream(workers, batches, done)
    }

    /// Pins this thread to an epoch. Single operations are then cheaper, because each of them would
    /// otherwise pin the thread. Memory that is retired meanwhile is freed only after the pin is
    /// dropped.
    ///
    /// ```
    /// let map = nearfield::WordMap::new()?;
    /// let pinned = map.pin();
    /// for key in 0..64 {
    ///     map.insert(key, key)?;
    /// }
    /// drop(pinned);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn pin(&self) -> RadixPinGuard {
        self.index.pin()
    }

    /// Finds the value of a key and passes it to `read`. The thread is already pinned, which makes
    /// this the cheapest lookup of a single key.
    ///
    /// ```
    /// let map = nearfield::WordMap::new()?;
    /// map.insert(1, 10)?;
    /// let pinned = map.pin();
    /// assert_eq!(map.read_pinned(&pinned, 1, |value| value), Some(10));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    #[inline]
    pub fn read_pinned<R>(
        &self,
        pinned: &RadixPinGuard,
        key: F::Key<'_>,
        read: impl FnOnce(F::Value<'_>) -> R,
    ) -> Option<R> {
        self.index.read_pinned(pinned, key, read)
    }

    /// Returns the techniques by which batches are executed.
    ///
    /// ```
    /// use nearfield::{EngineOptions, WordMap};
    ///
    /// let combine = EngineOptions::default().combine;
    /// assert_eq!(WordMap::new()?.engine_options().combine, combine);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn engine_options(&self) -> EngineOptions {
        self.index.options()
    }

    /// Sets the techniques for later batches. They do not affect results.
    ///
    /// ```
    /// use nearfield::{Combine, EngineOptions, WordMap};
    ///
    /// let map = WordMap::new()?;
    /// map.set_engine_options(EngineOptions {
    ///     combine: Combine::Always,
    ///     ..map.engine_options()
    /// });
    /// assert_eq!(map.engine_options().combine, Combine::Always);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn set_engine_options(&self, options: EngineOptions) {
        self.index.set_options(options)
    }
}

impl OrderedMap<ByteStrings, Local> {
    /// Moves entries out of sparsely used memory, so that it can be returned to the system. Moves
    /// up to `blocks` blocks of up to 1 KiB, at about a microsecond each. Returns true if there is
    /// more to do; that may require that other threads finish, and that lent values are dropped.
    ///
    /// A map takes up to a third more memory than its entries need after it has grown, or after
    /// values have become longer or shorter. Call this from time to time on an idle thread. Others
    /// can read and write meanwhile. While entries move, the map takes up to a sixteenth more.
    ///
    /// ```
    /// let map = nearfield::OrderedMap::<nearfield::ByteStrings>::new()?;
    /// map.insert(b"ann", b"one")?;
    /// while map.compact(64) {}
    /// assert_eq!(map.get(b"ann")?.as_deref(), Some(&b"one"[..]));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn compact(&self, blocks: usize) -> bool {
        self.index.compact(blocks)
    }
}
