//! Methods of maps in the memory of this machine.

use super::Map;
use crate::form::MapForm;
use crate::placement::Local;
use nearfield_core::{Batch, Bytes, Error};
use nearfield_radix::{Counters, EngineOptions, MemoryUse, Pinned};
use std::ops::ControlFlow;

impl<F: MapForm> Map<F, Local> {
    /// As [`execute`](Map::execute), and adds the work of the batch to `counters`.
    ///
    /// # Errors
    /// As `execute`.
    ///
    /// ```
    /// use nearfield::{Batch, Counters, WordMap};
    ///
    /// let map = WordMap::new()?;
    /// let mut batch = Batch::new();
    /// batch.insert(1, 10);
    /// let mut counters = Counters::default();
    /// map.execute_counted(&mut batch, &mut counters)?;
    /// assert_eq!(counters.lock_acquisitions, 1);
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn execute_counted(
        &self,
        batch: &mut Batch<F>,
        counters: &mut Counters,
    ) -> Result<(), Error> {
        self.index.execute_counted(batch, counters)
    }

    /// The memory that the map takes, by kind of node.
    ///
    /// ```
    /// let map = nearfield::WordMap::new()?;
    /// map.insert(1, 10)?;
    /// assert_eq!(map.memory().leaf_bytes, 128);
    /// assert!(map.memory().total_bytes() <= map.memory().taken_bytes);
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn memory(&self) -> MemoryUse {
        self.index.memory()
    }

    /// Executes batches one after the other, and plans each while the one before it is executed
    /// by `workers` threads; 1 is the calling thread alone. Gives each batch to `done`, in
    /// order, with the result that [`execute`](Map::execute) would return, until `done` breaks.
    ///
    /// All effects of a batch are complete before the next begins. Pays for batches of thousands
    /// of writes, with a core for each worker and one for the plans.
    ///
    /// # Panics
    /// If `batches` or `done` panic or a thread cannot be started, when all threads have stopped.
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
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn execute_stream(
        &self,
        workers: usize,
        batches: impl IntoIterator<Item = Batch<F>, IntoIter: Send>,
        done: impl FnMut(Batch<F>, Result<(), Error>) -> ControlFlow<()>,
    ) {
        self.index.execute_stream(workers, batches, done)
    }

    /// Pins this thread to an epoch, which makes single operations cheaper: otherwise each of them
    /// pins the thread. Memory that is removed meanwhile is freed only after the pin is dropped.
    ///
    /// ```
    /// let map = nearfield::WordMap::new()?;
    /// let pinned = map.pin();
    /// for key in 0..64 {
    ///     map.insert(key, key)?;
    /// }
    /// drop(pinned);
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn pin(&self) -> Pinned {
        self.index.pin()
    }

    /// Finds the value of a key and gives it to `read`, by a thread that is already pinned: the
    /// cheapest look-up of a single key.
    ///
    /// ```
    /// let map = nearfield::WordMap::new()?;
    /// map.insert(1, 10)?;
    /// let pinned = map.pin();
    /// assert_eq!(map.read_pinned(&pinned, 1, |value| value), Some(10));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    #[inline]
    pub fn read_pinned<R>(
        &self,
        pinned: &Pinned,
        key: F::Key<'_>,
        read: impl FnOnce(F::Value<'_>) -> R,
    ) -> Option<R> {
        self.index.read_pinned(pinned, key, read)
    }

    /// The techniques by which batches are executed.
    ///
    /// ```
    /// use nearfield::{EngineOptions, WordMap};
    ///
    /// let combine = EngineOptions::default().combine;
    /// assert_eq!(WordMap::new()?.engine_options().combine, combine);
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn engine_options(&self) -> EngineOptions {
        self.index.options()
    }

    /// Chooses the techniques for later batches; they have no effect on results.
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
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn set_engine_options(&self, options: EngineOptions) {
        self.index.set_options(options)
    }
}

impl Map<Bytes, Local> {
    /// Moves entries out of memory that is used in parts only, so that it can be given back to the
    /// system: up to `blocks` blocks of up to 1 KiB in this call, about a microsecond each. True if
    /// there is more to do, for which other threads may have to finish first, and values that were
    /// lent to be dropped.
    ///
    /// A map takes up to a third more memory than its entries need after it has grown, or after
    /// values have become longer or shorter. Call this from time to time, by a thread that has
    /// time. Others read and write meanwhile. While entries move, the map takes up to a sixteenth
    /// more.
    ///
    /// ```
    /// let map = nearfield::Map::<nearfield::Bytes>::new()?;
    /// map.insert(b"ann", b"one")?;
    /// while map.compact(64) {}
    /// assert_eq!(map.get(b"ann")?.as_deref(), Some(&b"one"[..]));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn compact(&self, blocks: usize) -> bool {
        self.index.compact(blocks)
    }
}
