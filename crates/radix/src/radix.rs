//! The local placement: an adaptive radix tree and its engine as one type.

use crate::change::RadixKeyChange;
use crate::counters::{Off, RadixCounters, RadixProbe};
use crate::cursor::RadixScanScratch;
use crate::engine::{self, Combine, EngineOptions, RadixWorkspace, pipeline};
use crate::leaf::LeafForm;
use crate::memory::MemoryUse;
use crate::tree::RadixTree;
use nearfield_core::{
    Batch, ByteStrings, ComparisonResult, EntryForm, OperationError, OrderedIndex, PointResult,
    ScanDirection, Words,
};
use std::cell::RefCell;
use std::convert::Infallible;
use std::ops::{Bound, ControlFlow};
use std::sync::{PoisonError, RwLock};

/// A form that a [`RadixIndex`] can hold: [`Words`] or
/// [`ByteStrings`](nearfield_core::ByteStrings). The set is closed.
pub trait RadixForm: LeafForm {
    /// The value as an index lends it.
    type Lent<'m>: Into<Self::OwnedValue>;
    /// Error for a key that is refused.
    type KeyFailure: Into<OperationError> + From<Infallible>;

    /// Finds the value of a key, without copying a byte string; `None` if the key is absent.
    ///
    /// # Errors
    /// `KeyTooLong`.
    ///
    /// ```
    /// use nearfield_core::{ByteStrings, OrderedIndex};
    /// use nearfield_radix::{RadixIndex, RadixForm};
    ///
    /// let index = RadixIndex::<ByteStrings>::new()?;
    /// index.insert(b"ann", b"one")?;
    /// let value = ByteStrings::lend(&index, b"ann")?.expect("inserted before");
    /// index.insert(b"ann", b"two")?;
    /// assert_eq!(&*value, b"one");
    /// # Ok::<(), nearfield_core::OperationError>(())
    /// ```
    fn lend<'m>(
        radix: &'m RadixIndex<Self>,
        key: Self::Key<'_>,
    ) -> Result<Option<Self::Lent<'m>>, Self::KeyFailure>;
}

impl RadixForm for Words {
    type Lent<'m> = u64;
    type KeyFailure = Infallible;

    #[inline]
    fn lend(radix: &RadixIndex<Words>, key: u64) -> Result<Option<u64>, Infallible> {
        let guard = crossbeam_epoch::pin();
        Ok(radix.tree.find(key, &guard, &mut Off, |value| value))
    }
}

/// An entry that owns its key and value.
pub type Entry<F> = (<F as EntryForm>::OwnedKey, <F as EntryForm>::OwnedValue);

/// An ordered index in this machine's memory, shared among threads by reference.
///
/// ```
/// use nearfield_core::{Batch, OrderedIndex, Words};
/// use nearfield_radix::RadixIndex;
///
/// let index = RadixIndex::<Words>::new()?;
/// index.insert(1, 100)?;
/// let mut batch = Batch::new();
/// let one = batch.get(1);
/// let two = batch.get(2);
/// index.execute(&mut batch)?;
/// assert_eq!((batch.value(one), batch.value(two)), (Some(100), None));
/// # Ok::<(), nearfield_core::OperationError>(())
/// ```
#[derive(Debug)]
pub struct RadixIndex<F: RadixForm> {
    pub(crate) tree: RadixTree<F>,
    options: RwLock<EngineOptions>,
}

thread_local! {
    // An empty workspace takes memory, too, so none is created as a stand-in while the real one is
    // in use.
    static WORKSPACE: RefCell<Option<RadixWorkspace>> = const { RefCell::new(None) };
    static SCRATCH: RefCell<RadixScanScratch> = RefCell::default();
}

impl<F: RadixForm> RadixIndex<F> {
    /// Creates an empty index without a limit of memory.
    ///
    /// # Errors
    /// `OutOfMemory` if the system grants no address space.
    pub fn new() -> Result<Self, OperationError> {
        Self::with_memory_limit(usize::MAX)
    }

    /// Creates an empty index that takes no more than `limit_bytes` of memory for its nodes and
    /// leaves. An operation that would need more fails with `OutOfMemory` and changes nothing.
    ///
    /// # Errors
    /// `OutOfMemory` if the limit, or the address space granted, is too small for an empty index.
    pub fn with_memory_limit(limit_bytes: usize) -> Result<Self, OperationError> {
        RadixTree::new(limit_bytes).map(Self::from_tree)
    }

    pub(crate) fn from_tree(tree: RadixTree<F>) -> Self {
        RadixIndex {
            tree,
            options: RwLock::default(),
        }
    }

    /// Returns the techniques that [`execute`](OrderedIndex::execute) uses.
    pub fn options(&self) -> EngineOptions {
        *self.options.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the techniques for later batches.
    pub fn set_options(&self, options: EngineOptions) {
        let mut current = self.options.write().unwrap_or_else(PoisonError::into_inner);
        if current.shortcut_bytes != options.shortcut_bytes {
            self.tree.resize_shortcuts(options.shortcut_bytes);
        }
        // A map that always combines executes many operations under one lock.
        let allowed = options.combine != Combine::Always;
        self.tree.latching.allow(allowed);
        *current = options;
    }

    /// Executes a batch as [`execute`](OrderedIndex::execute) does, and counts its accesses.
    ///
    /// # Errors
    /// Those of [`execute`](OrderedIndex::execute).
    pub fn execute_counted(
        &self,
        batch: &mut Batch<F>,
        counters: &mut RadixCounters,
    ) -> Result<(), OperationError> {
        self.execute_probed(batch, counters)
    }

    /// Executes batches in order, and plans each batch while the one before it is executed (DCART
    /// §III-D). Passes each batch to `done`, in order, with the result of
    /// [`execute`](OrderedIndex::execute). A refused batch does not end the stream. The stream ends
    /// when `batches` ends or when `done` breaks. After a break no batch is executed, but one more
    /// may have been taken from `batches`.
    ///
    /// All effects of a batch are complete before the next one begins, so that the stream is
    /// serially equivalent to all its operations in order.
    ///
    /// A separate thread calls `batches` and makes the plans. `workers` threads execute a batch:
    /// the calling thread, and others that live as long as the call. Each executes a part of the
    /// batch's keys. Several workers pay if each has a core, the planning thread has one, too, and
    /// batches have thousands of operations. With several workers, results are copied once more.
    /// The calling thread alone executes a batch with scans, predecessors or successors and, if
    /// there is one worker, a batch of reads that are not combined. The calling thread calls `done`
    /// between two batches. The [options](RadixIndex::options) are those at the time of the call.
    ///
    /// # Panics
    /// If `batches` or `done` panics, or a thread cannot be started. All threads have stopped by
    /// then.
    ///
    /// ```
    /// use nearfield_core::{Batch, Words};
    /// use nearfield_radix::RadixIndex;
    /// use std::ops::ControlFlow;
    ///
    /// let index = RadixIndex::<Words>::new()?;
    /// let batches = (0..3).map(|value| {
    ///     let mut batch = Batch::new();
    ///     batch.insert(7, value);
    ///     batch
    /// });
    /// let mut before = Vec::new();
    /// index.execute_stream(2, batches, |batch, _| {
    ///     before.push(batch.value(0));
    ///     ControlFlow::Continue(())
    /// });
    /// assert_eq!(before, [None, Some(0), Some(1)]);
    /// # Ok::<(), nearfield_core::OperationError>(())
    /// ```
    pub fn execute_stream(
        &self,
        workers: usize,
        batches: impl IntoIterator<Item = Batch<F>, IntoIter: Send>,
        done: impl FnMut(Batch<F>, Result<(), OperationError>) -> ControlFlow<()>,
    ) {
        let options = self.options();
        let batches = batches.into_iter();
        pipeline::execute(&self.tree, &options, workers, batches, done, &Off);
    }

    /// Executes a batch one operation at a time, each by a walk from the root. Reports to a probe
    /// the nodes that each operation reads and the bytes that it changes, as a hardware model needs
    /// them. This takes many times as long as [`execute`](OrderedIndex::execute), with the same
    /// results.
    ///
    /// Scans, predecessors and successors report no nodes.
    ///
    /// # Errors
    /// Those of [`execute`](OrderedIndex::execute).
    ///
    /// ```
    /// use nearfield_core::{Batch, OrderedIndex, Words};
    /// use nearfield_radix::{RadixIndex, RadixNodeVisit, RadixProbe, VisitedNodeKind};
    ///
    /// #[derive(Default)]
    /// struct Log(Vec<(VisitedNodeKind, u32)>, u32);
    /// impl RadixProbe for Log {
    ///     fn node(&mut self, visit: RadixNodeVisit) {
    ///         self.0.push((visit.kind, visit.bytes));
    ///     }
    ///     fn write(&mut self, _: usize, bytes: u32) {
    ///         self.1 += bytes;
    ///     }
    /// }
    ///
    /// let mut index = RadixIndex::<Words>::new()?;
    /// index.insert(7, 1)?;
    /// let mut batch = Batch::new();
    /// batch.insert(7, 2);
    /// let mut log = Log::default();
    /// index.execute_recorded(&mut batch, &mut log)?;
    /// // The root and a block of seven entries, of which a byte of the value has changed.
    /// let visits = [(VisitedNodeKind::Inner { slots: 256 }, 1088), (VisitedNodeKind::Leaf, 128)];
    /// assert_eq!((&log.0[..], log.1), (&visits[..], 1));
    /// # Ok::<(), nearfield_core::OperationError>(())
    /// ```
    pub fn execute_recorded(
        &mut self,
        batch: &mut Batch<F>,
        probe: &mut impl RadixProbe,
    ) -> Result<(), OperationError> {
        let mut workspace = WORKSPACE.take().unwrap_or_default();
        let result = engine::execute_recorded(&mut self.tree, batch, &mut workspace, probe);
        WORKSPACE.set(Some(workspace));
        self.tree.collect();
        result
    }

    fn execute_probed(
        &self,
        batch: &mut Batch<F>,
        probe: &mut impl RadixProbe,
    ) -> Result<(), OperationError> {
        let options = self.options();
        // Taken out of its cell, so that a panic cannot leave it borrowed.
        let mut workspace = WORKSPACE.take().unwrap_or_default();
        let result = engine::execute(&self.tree, &options, batch, &mut workspace, probe);
        WORKSPACE.set(Some(workspace));
        self.tree.collect();
        result
    }

    /// Reads the value of a key in place: passes it to `read` and returns the result, or `None` if
    /// the key is absent.
    #[inline]
    pub fn read<R>(&self, key: F::Key<'_>, read: impl FnOnce(F::Value<'_>) -> R) -> Option<R> {
        let guard = crossbeam_epoch::pin();
        self.tree.find(key, &guard, &mut Off, read)
    }

    /// Calls `visit` for the entries in `direction`, starting at a bound, until it breaks.
    /// `expected` is the number of entries that the caller will take, if known.
    pub fn scan(
        &self,
        from: Bound<F::Key<'_>>,
        direction: ScanDirection,
        expected: usize,
        visit: impl FnMut(F::Key<'_>, F::Value<'_>) -> ControlFlow<()>,
    ) {
        let guard = crossbeam_epoch::pin();
        let mut scratch = SCRATCH.take();
        self.tree.scan(
            from.map(F::shorten_key),
            direction,
            expected,
            &mut scratch,
            &guard,
            visit,
        );
        SCRATCH.set(scratch);
    }

    /// Returns the memory in use, by kind of node.
    pub fn memory(&self) -> MemoryUse {
        let bytes = self.tree.memory.bytes();
        let jump_bytes = self.tree.jumps.bytes();
        MemoryUse {
            shortcut_bytes: self.tree.shortcuts.bytes(),
            jump_bytes,
            taken_bytes: bytes.taken_bytes + jump_bytes,
            ..bytes
        }
    }

    /// Makes one change to a key.
    fn modify<'v>(
        &self,
        key: F::Key<'_>,
        mut decide: impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>>,
    ) -> Result<(), OperationError> {
        let guard = self.tree.writer();
        self.tree.modify(key, &guard, &mut Off, &mut decide)
    }

    /// Makes a change if the value of a key equals `previous`. Returns true if it made the change,
    /// and the previous value.
    fn change_if(
        &self,
        key: F::Key<'_>,
        previous: Option<F::Value<'_>>,
        change: RadixKeyChange<F::Value<'_>>,
    ) -> ComparisonResult<F> {
        let mut outcome = (false, None);
        self.modify(key, |current| {
            let applied = current.map(F::shorten_value) == previous.map(F::shorten_value);
            outcome = (applied, current.map(F::own_value));
            match applied {
                true => change,
                false => RadixKeyChange::Keep,
            }
        })?;
        Ok(outcome)
    }
}

impl RadixIndex<ByteStrings> {
    /// Moves entries out of sparsely used memory, so that this memory can be given back to the
    /// system. One call moves up to `blocks` blocks of up to 1 KiB, which takes about a microsecond
    /// each. Returns true if there is more to do; other threads may have to finish first.
    ///
    /// A map takes up to a third more memory than its entries need after it has grown, or after
    /// values have become longer or shorter. Call this from time to time, in a thread that is
    /// otherwise idle. Other threads may read and write meanwhile. A round takes up to a sixteenth
    /// of the map's memory before it gives some back.
    ///
    /// ```
    /// use nearfield_core::{ByteStrings, OrderedIndex};
    /// use nearfield_radix::RadixIndex;
    ///
    /// let index = RadixIndex::<ByteStrings>::new()?;
    /// index.insert(b"ann", b"one")?;
    /// while index.compact(64) {}
    /// assert_eq!(index.get(b"ann")?.as_deref(), Some(&b"one"[..]));
    /// # Ok::<(), nearfield_core::OperationError>(())
    /// ```
    pub fn compact(&self, blocks: usize) -> bool {
        self.tree.compact(blocks)
    }
}

impl<F: RadixForm> OrderedIndex<F> for RadixIndex<F> {
    fn execute(&self, batch: &mut Batch<F>) -> Result<(), OperationError> {
        self.execute_probed(batch, &mut Off)
    }

    fn len(&self) -> usize {
        self.tree.len()
    }

    fn check_invariants(&self) {
        self.tree.check_invariants();
    }

    fn get(&self, key: F::Key<'_>) -> PointResult<F> {
        F::check(key, None)?;
        Ok(self.read(key, F::own_value))
    }

    fn insert(&self, key: F::Key<'_>, value: F::Value<'_>) -> PointResult<F> {
        F::check(key, Some(value))?;
        let mut before = None;
        self.modify(key, |current| {
            before = current.map(F::own_value);
            RadixKeyChange::Set(value)
        })?;
        Ok(before)
    }

    fn update(
        &self,
        key: F::Key<'_>,
        previous: Option<F::Value<'_>>,
        value: F::Value<'_>,
    ) -> ComparisonResult<F> {
        F::check(key, previous)?;
        F::check(key, Some(value))?;
        self.change_if(key, previous, RadixKeyChange::Set(value))
    }

    fn remove(&self, key: F::Key<'_>) -> PointResult<F> {
        F::check(key, None)?;
        let mut before = None;
        self.modify(key, |current| {
            before = current.map(F::own_value);
            RadixKeyChange::Remove
        })?;
        Ok(before)
    }

    fn remove_if(&self, key: F::Key<'_>, expected: F::Value<'_>) -> ComparisonResult<F> {
        F::check(key, Some(expected))?;
        self.change_if(key, Some(expected), RadixKeyChange::Remove)
    }
}
