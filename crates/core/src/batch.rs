//! An ordered list of operations that are executed together, and their outcomes.

use crate::form::{EntryList, too_long};
use crate::{
    ArenaSpan, ByteStrings, EntryForm, IndexOperation, OperationError, OperationOutcome, Previous,
    ScanBoundsHandle, ScanDirection, StoredOutcome, Words,
};
use std::ops::{Bound, ControlFlow};

/// The greatest number of operations in a batch.
const MAX_OPERATIONS: usize = 1 << 24;

/// An ordered list of operations that an index executes together, and, after that, their
/// outcomes in the same order.
///
/// The methods that add an operation return its position, which [`outcome`](Batch::outcome) takes.
/// An operation that is invalid (its key is too long, say) keeps its position and fails alone, with
/// an [`OperationOutcome::Failed`]. A batch can be cleared and filled again, which keeps its
/// memory.
///
/// ```
/// use nearfield_core::{Batch, ByteStrings, OperationOutcome};
///
/// let mut batch = Batch::<ByteStrings>::new();
/// let position = batch.get(b"key");
/// assert_eq!(batch.len(), 1);
/// assert_eq!(batch.outcome(position), OperationOutcome::Pending);
/// ```
#[derive(Clone, Debug)]
pub struct Batch<F: EntryForm> {
    operations: Vec<IndexOperation<F>>,
    /// Errors of the operations that were refused when they were added, by position.
    refusals: Vec<(usize, OperationError)>,
    sides: BatchSideTables<F>,
    input: F::Arena,
    outcomes: Outcomes<F>,
}

/// The bounds of a scan, the lower one first.
type Bounds<F> = (
    Bound<<F as EntryForm>::StoredKey>,
    Bound<<F as EntryForm>::StoredKey>,
);

/// The parts of operations that are stored apart from them: compared values, and bounds of scans.
#[derive(Clone, Debug)]
struct BatchSideTables<F: EntryForm> {
    previous: Vec<Option<F::StoredValue>>,
    ranges: Vec<Bounds<F>>,
}

impl<F: EntryForm> BatchSideTables<F> {
    // A batch whose positions do not fit in 32 bits is refused as a whole.

    fn add_previous(&mut self, previous: Option<F::StoredValue>) -> Previous {
        self.previous.push(previous);
        Previous(self.previous.len() as u32 - 1)
    }

    fn add_range(
        &mut self,
        low: Bound<F::StoredKey>,
        high: Bound<F::StoredKey>,
    ) -> ScanBoundsHandle {
        self.ranges.push((low, high));
        ScanBoundsHandle(self.ranges.len() as u32 - 1)
    }
}

impl<F: EntryForm> Default for Batch<F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: EntryForm> Batch<F> {
    /// Creates an empty batch.
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// Creates an empty batch with room for `operations` operations.
    pub fn with_capacity(operations: usize) -> Self {
        Batch {
            operations: Vec::with_capacity(operations),
            refusals: Vec::new(),
            sides: BatchSideTables {
                previous: Vec::new(),
                ranges: Vec::new(),
            },
            input: F::Arena::default(),
            outcomes: Outcomes {
                stored: Vec::with_capacity(operations),
                ..Outcomes::default()
            },
        }
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Returns true if there is no operation.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Allows an index to copy only the first `bytes` bytes of the values that inserts and removes
    /// replace. Their outcomes then hold at least these bytes. For callers that do not read the
    /// rest. Applies until the next call, also after [`clear`](Batch::clear).
    ///
    /// ```
    /// use nearfield_core::{Batch, ByteStrings};
    ///
    /// let mut batch = Batch::<ByteStrings>::new();
    /// batch.cut_replaced(1);
    /// batch.insert(b"key", b"new");
    /// let (_, mut outcomes) = batch.begin()?;
    /// outcomes.replaced(0, b"key", Some(b"old"));
    /// assert_eq!(batch.value(0), Some(&b"o"[..]));
    /// # Ok::<(), nearfield_core::OperationError>(())
    /// ```
    pub fn cut_replaced(&mut self, bytes: usize) {
        self.outcomes.replaced_bytes = bytes;
    }

    /// Returns the number of bytes of a replaced value that the outcomes must hold; see
    /// [`cut_replaced`](Batch::cut_replaced).
    pub fn replaced_bytes(&self) -> usize {
        self.outcomes.replaced_bytes
    }

    /// Removes all operations and outcomes and keeps the memory.
    pub fn clear(&mut self) {
        self.operations.clear();
        self.refusals.clear();
        self.sides.previous.clear();
        self.sides.ranges.clear();
        F::clear(&mut self.input);
        // `replaced_bytes` stays: it depends on the caller, not on the operations.
        self.outcomes.clear();
    }

    /// Adds a get.
    #[inline]
    pub fn get(&mut self, key: F::Key<'_>) -> usize {
        let operation = F::store_key(&mut self.input, key).map(|key| IndexOperation::Get { key });
        self.push(operation)
    }

    /// Adds an insert, which sets the value whether or not the key is present. Its outcome is the
    /// old value.
    #[inline]
    pub fn insert(&mut self, key: F::Key<'_>, value: F::Value<'_>) -> usize {
        let operation = self
            .store_entry(key, value)
            .map(|(key, value)| IndexOperation::Insert { key, value });
        self.push(operation)
    }

    /// Adds an update, which sets the value only if the old value equals `previous`. `None` stands
    /// for an absent key.
    pub fn update(
        &mut self,
        key: F::Key<'_>,
        previous: Option<F::Value<'_>>,
        value: F::Value<'_>,
    ) -> usize {
        let operation = self.store_entry(key, value).and_then(|(stored, value)| {
            let previous = previous
                .map(|previous| F::store_value(&mut self.input, key, previous))
                .transpose()?;
            Ok(IndexOperation::Update {
                key: stored,
                value,
                previous: self.sides.add_previous(previous),
            })
        });
        self.push(operation)
    }

    /// Adds a remove. Its outcome is the old value.
    pub fn remove(&mut self, key: F::Key<'_>) -> usize {
        let operation =
            F::store_key(&mut self.input, key).map(|key| IndexOperation::Remove { key });
        self.push(operation)
    }

    /// Adds a conditional remove: removes the key only if its value equals `expected`.
    pub fn remove_if(&mut self, key: F::Key<'_>, expected: F::Value<'_>) -> usize {
        let operation =
            self.store_entry(key, expected)
                .map(|(key, expected)| IndexOperation::RemoveIf {
                    key,
                    previous: self.sides.add_previous(Some(expected)),
                });
        self.push(operation)
    }

    /// Adds a search for the greatest key at or below `key`.
    pub fn predecessor(&mut self, key: F::Key<'_>) -> usize {
        let operation =
            F::store_key(&mut self.input, key).map(|key| IndexOperation::Predecessor { key });
        self.push(operation)
    }

    /// Adds a search for the least key at or above `key`.
    pub fn successor(&mut self, key: F::Key<'_>) -> usize {
        let operation =
            F::store_key(&mut self.input, key).map(|key| IndexOperation::Successor { key });
        self.push(operation)
    }

    /// Adds a scan of the entries between two bounds: at most `limit` of them, from the end where
    /// `direction` begins.
    pub fn scan(
        &mut self,
        low: Bound<F::Key<'_>>,
        high: Bound<F::Key<'_>>,
        limit: u32,
        direction: ScanDirection,
    ) -> usize {
        let operation = self.store_bound(low).and_then(|low| {
            let high = self.store_bound(high)?;
            Ok(IndexOperation::Scan {
                range: self.sides.add_range(low, high),
                limit,
                direction,
            })
        });
        self.push(operation)
    }

    /// Returns the outcome of the operation at `position`.
    ///
    /// # Panics
    /// If there is no operation at `position`.
    pub fn outcome(&self, position: usize) -> OperationOutcome<'_, F> {
        assert!(
            position < self.operations.len(),
            "no operation at {position}"
        );
        if let Some(outcome) = self.outcomes.read(position) {
            return outcome;
        }
        // The batch has not begun, so a refusal is not among the outcomes yet.
        match self.refusals.iter().find(|refusal| refusal.0 == position) {
            Some((_, error)) => OperationOutcome::Failed(error.clone()),
            None => OperationOutcome::Pending,
        }
    }

    /// Returns the value that the operation on one key at `position` found. Returns `None` for an
    /// absent key, for other operations and for operations that failed. Cheaper than
    /// [`outcome`](Batch::outcome).
    #[inline]
    pub fn value(&self, position: usize) -> Option<F::Value<'_>> {
        match self.outcomes.at(position)? {
            StoredOutcome::Value(stored) | StoredOutcome::Updated(_, stored) => {
                Some(F::load_value(&self.outcomes.arena, *stored))
            }
            // A failure looks like an absent key. Callers that read failures call `outcome`.
            _ => None,
        }
    }

    /// Returns the entries that the scan at `position` found, without collecting them; none for
    /// other operations.
    pub fn entries(
        &self,
        position: usize,
    ) -> impl ExactSizeIterator<Item = (F::Key<'_>, F::Value<'_>)> {
        let (start, count) = match self.outcomes.at(position) {
            Some(&StoredOutcome::Entries(start, count)) => (start, count),
            _ => (0, 0),
        };
        self.outcomes.entries.read(start as usize, count as usize)
    }

    /// Splits the batch for an index into the operations to read and the outcomes to write. All
    /// outcomes are pending again except those of refused operations.
    ///
    /// # Errors
    /// `BatchTooLarge`, and no outcome is changed.
    pub fn begin(&mut self) -> Result<(BatchInput<'_, F>, BatchOutput<'_, F>), OperationError> {
        // Checked first, because after an error the former outcomes stay.
        self.check_size()?;
        self.outcomes.reset(self.operations.len());
        self.refuse();
        Ok((
            BatchInput {
                operations: &self.operations,
                sides: &self.sides,
                arena: &self.input,
            },
            self.outcomes.output(),
        ))
    }

    /// Returns the operations to read, for an index that plans ahead. No outcome changes.
    ///
    /// # Errors
    /// `BatchTooLarge`.
    pub fn input(&self) -> Result<BatchInput<'_, F>, OperationError> {
        self.check_size()?;
        Ok(BatchInput {
            operations: &self.operations,
            sides: &self.sides,
            arena: &self.input,
        })
    }

    /// Begins a batch as [`begin`](Batch::begin) does, for one of several threads that each execute
    /// some of the operations. Its output goes to `outcomes`, which are reset to pending and stay
    /// apart until [`join`](Batch::join).
    ///
    /// # Errors
    /// `BatchTooLarge`.
    pub fn begin_apart<'b>(
        &'b self,
        outcomes: &'b mut Outcomes<F>,
    ) -> Result<(BatchInput<'b, F>, BatchOutput<'b, F>), OperationError> {
        let input = self.input()?;
        // Set for each batch, because a thread's outcomes serve batches with different settings.
        outcomes.replaced_bytes = self.outcomes.replaced_bytes;
        // `join` marks refusals, once for all threads.
        outcomes.reset(self.operations.len());
        Ok((input, outcomes.output()))
    }

    /// Joins the outcomes that several threads have written after
    /// [`begin_apart`](Batch::begin_apart), each for operations of its own. They replace the former
    /// outcomes of the batch.
    ///
    /// # Panics
    /// If `parts` belong to a batch with a different number of operations.
    pub fn join(&mut self, parts: &mut [Outcomes<F>]) {
        let Some((first, others)) = parts.split_first_mut() else {
            return;
        };
        // One part is moved, which saves its copy. Its former outcomes go to the thread, which uses
        // their memory for the next batch.
        std::mem::swap(&mut self.outcomes, first);
        debug_assert_eq!(self.outcomes.live, self.operations.len());
        self.refuse();
        let mut output = self.outcomes.output();
        // Only the thread that executed an operation has its outcome. In the other parts it is
        // pending, and `copy` skips it.
        for part in others {
            for (position, operation) in self.operations.iter().enumerate() {
                let key = operation.point_key();
                let key = key.map(|key| F::load_key(&self.input, key));
                output.copy(position, key, part);
            }
        }
    }

    fn check_size(&self) -> Result<(), OperationError> {
        // Checked when the batch begins, so that adding an operation never fails.
        if self.operations.len() > MAX_OPERATIONS {
            return Err(OperationError::BatchTooLarge {
                size: self.operations.len(),
                unit: "operations",
                limit: MAX_OPERATIONS,
            });
        }
        Ok(())
    }

    /// Marks as failed the operations that were refused when they were added.
    fn refuse(&mut self) {
        for (position, error) in &self.refusals {
            debug_assert!(matches!(
                self.operations[*position],
                IndexOperation::Refused
            ));
            self.outcomes.stored[*position] = StoredOutcome::Failed(Box::new(error.clone()));
        }
    }

    #[inline]
    fn push(&mut self, operation: Result<IndexOperation<F>, OperationError>) -> usize {
        let position = self.operations.len();
        self.operations.push(match operation {
            Ok(operation) => operation,
            Err(error) => {
                // Its position is used up, so that those of later operations do not depend on it.
                // Bytes that it stored before the error stay in the arena until `clear`.
                self.refusals.push((position, error));
                IndexOperation::Refused
            }
        });
        position
    }

    fn store_entry(
        &mut self,
        key: F::Key<'_>,
        value: F::Value<'_>,
    ) -> Result<(F::StoredKey, F::StoredValue), OperationError> {
        Ok((
            F::store_key(&mut self.input, key)?,
            F::store_value(&mut self.input, key, value)?,
        ))
    }

    fn store_bound(
        &mut self,
        bound: Bound<F::Key<'_>>,
    ) -> Result<Bound<F::StoredKey>, OperationError> {
        Ok(match bound {
            Bound::Included(key) => Bound::Included(F::store_key(&mut self.input, key)?),
            Bound::Excluded(key) => Bound::Excluded(F::store_key(&mut self.input, key)?),
            Bound::Unbounded => Bound::Unbounded,
        })
    }
}

/// Operations on bytes that are already in the batch. A caller that receives keys and values with
/// other bytes between them can so copy all of them at once.
///
/// ```
/// use nearfield_core::{Batch, ByteStrings, IndexOperation, ArenaSpan};
///
/// let mut batch = Batch::<ByteStrings>::new();
/// let start = batch.stage(b"key=value")?.start();
/// let (key, value) = (ArenaSpan::new(start, 3), ArenaSpan::new(start + 4, 5));
/// assert_eq!(batch.staged(value), b"value");
/// batch.insert_staged(key, value);
/// let input = batch.input()?;
/// let IndexOperation::Insert { key, value } = input.operations()[0] else {
///     unreachable!("an insert was added");
/// };
/// assert_eq!((input.key(key), input.value(value)), (&b"key"[..], &b"value"[..]));
/// # Ok::<(), nearfield_core::OperationError>(())
/// ```
impl Batch<ByteStrings> {
    /// Copies bytes into the batch, where they stay until it is [cleared](Batch::clear).
    ///
    /// # Errors
    /// `BatchTooLarge`.
    #[inline]
    pub fn stage(&mut self, bytes: &[u8]) -> Result<ArenaSpan, OperationError> {
        ArenaSpan::store(&mut self.input, bytes)
    }

    /// Returns the offset at which the next staged bytes will begin.
    #[inline]
    pub fn staged_end(&self) -> usize {
        self.input.len()
    }

    /// Returns bytes of the batch.
    ///
    /// # Panics
    /// If `span` lies beyond the staged bytes. The methods below panic likewise.
    #[inline]
    pub fn staged(&self, span: ArenaSpan) -> &[u8] {
        span.load(&self.input)
    }

    /// Returns staged bytes of the batch, which may be changed until an operation on them is added.
    #[inline]
    pub fn staged_mut(&mut self, span: ArenaSpan) -> &mut [u8] {
        &mut self.input[span.start()..][..span.length()]
    }

    /// Adds a get, as [`get`](Batch::get) does.
    #[inline]
    pub fn get_staged(&mut self, key: ArenaSpan) -> usize {
        let checked = ByteStrings::check(self.staged(key), None);
        self.push(checked.map(|()| IndexOperation::Get { key }))
    }

    /// Adds an insert, as [`insert`](Batch::insert) does.
    #[inline]
    pub fn insert_staged(&mut self, key: ArenaSpan, value: ArenaSpan) -> usize {
        // Bytes of any length can be staged, so keys and values are checked only here.
        let checked = ByteStrings::check(self.staged(key), Some(self.staged(value)));
        self.push(checked.map(|()| IndexOperation::Insert { key, value }))
    }

    /// Adds a remove, as [`remove`](Batch::remove) does.
    #[inline]
    pub fn remove_staged(&mut self, key: ArenaSpan) -> usize {
        let checked = ByteStrings::check(self.staged(key), None);
        self.push(checked.map(|()| IndexOperation::Remove { key }))
    }

    /// Adds a search, as [`predecessor`](Batch::predecessor) does.
    pub fn predecessor_staged(&mut self, key: ArenaSpan) -> usize {
        let checked = ByteStrings::check(self.staged(key), None);
        self.push(checked.map(|()| IndexOperation::Predecessor { key }))
    }

    /// Adds a search, as [`successor`](Batch::successor) does.
    pub fn successor_staged(&mut self, key: ArenaSpan) -> usize {
        let checked = ByteStrings::check(self.staged(key), None);
        self.push(checked.map(|()| IndexOperation::Successor { key }))
    }
}

/// The outcomes of a batch's operations, by position, with the bytes that they refer to.
///
/// Outside a batch they are the output of one of several threads; see [`Batch::begin_apart`].
#[derive(Clone, Debug)]
pub struct Outcomes<F: EntryForm> {
    /// The outcomes. Those from index `live` on are left over and will be overwritten.
    stored: Vec<StoredOutcome<F>>,
    live: usize,
    /// Number of bytes of a replaced value that must be held.
    replaced_bytes: usize,
    entries: F::Entries,
    arena: F::Arena,
}

impl<F: EntryForm> Default for Outcomes<F> {
    fn default() -> Self {
        Outcomes {
            stored: Vec::new(),
            live: 0,
            replaced_bytes: usize::MAX,
            entries: F::Entries::default(),
            arena: F::Arena::default(),
        }
    }
}

impl<F: EntryForm> Outcomes<F> {
    /// Removes all outcomes and keeps the memory.
    fn clear(&mut self) {
        // The old outcomes are hidden instead of dropped one by one. `reset` overwrites them.
        self.live = 0;
        self.entries.truncate(0);
        F::clear(&mut self.arena);
    }

    /// Makes all outcomes pending.
    fn reset(&mut self, operations: usize) {
        self.clear();
        self.stored.truncate(operations);
        // Filled before it grows, so that each position is written once.
        self.stored.fill_with(|| StoredOutcome::Pending);
        self.stored
            .resize_with(operations, || StoredOutcome::Pending);
        self.live = operations;
    }

    /// Returns the stored outcome at a position, `None` if the operation has not begun.
    #[inline]
    fn at(&self, position: usize) -> Option<&StoredOutcome<F>> {
        self.stored[..self.live].get(position)
    }

    fn output(&mut self) -> BatchOutput<'_, F> {
        BatchOutput {
            replaced_bytes: self.replaced_bytes,
            outcomes: &mut self.stored,
            entries: &mut self.entries,
            arena: &mut self.arena,
        }
    }

    fn load_value(&self, stored: F::StoredValue) -> F::Value<'_> {
        F::load_value(&self.arena, stored)
    }

    /// Returns the outcome at a position, `None` if there is none yet.
    fn read(&self, position: usize) -> Option<OperationOutcome<'_, F>> {
        let value = |stored: &F::StoredValue| Some(self.load_value(*stored));
        Some(match self.at(position)? {
            StoredOutcome::Pending => OperationOutcome::Pending,
            StoredOutcome::NoValue => OperationOutcome::Value(None),
            StoredOutcome::Value(stored) => OperationOutcome::Value(value(stored)),
            &StoredOutcome::UpdatedNone(applied) => OperationOutcome::Updated {
                applied,
                before: None,
            },
            StoredOutcome::Updated(applied, before) => OperationOutcome::Updated {
                applied: *applied,
                before: value(before),
            },
            StoredOutcome::NoEntry => OperationOutcome::Entry(None),
            &StoredOutcome::Entry(place) => {
                OperationOutcome::Entry(self.entries.read(place as usize, 1).next())
            }
            &StoredOutcome::Entries(start, count) => OperationOutcome::Entries(
                self.entries.read(start as usize, count as usize).collect(),
            ),
            StoredOutcome::Failed(error) => OperationOutcome::Failed((**error).clone()),
        })
    }
}

/// The operations of a batch that is being executed.
#[derive(Debug)]
pub struct BatchInput<'b, F: EntryForm> {
    operations: &'b [IndexOperation<F>],
    sides: &'b BatchSideTables<F>,
    arena: &'b F::Arena,
}

// The impls are written out because derived ones would require an arena that can be copied.
impl<F: EntryForm> Clone for BatchInput<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: EntryForm> Copy for BatchInput<'_, F> {}

impl<'b, F: EntryForm> BatchInput<'b, F> {
    /// Returns all operations, in order.
    #[inline]
    pub fn operations(&self) -> &'b [IndexOperation<F>] {
        self.operations
    }

    /// Reads a key of one of the operations.
    #[inline]
    pub fn key(&self, stored: F::StoredKey) -> F::Key<'b> {
        F::load_key(self.arena, stored)
    }

    /// Reads a value of one of the operations.
    #[inline]
    pub fn value(&self, stored: F::StoredValue) -> F::Value<'b> {
        F::load_value(self.arena, stored)
    }

    /// Reads the value that an update or a conditional remove compares with.
    #[inline]
    pub fn previous(&self, previous: Previous) -> Option<F::Value<'b>> {
        self.sides.previous[previous.0 as usize].map(|stored| self.value(stored))
    }

    /// Reads the bounds of a scan, the lower one first.
    pub fn range(&self, range: ScanBoundsHandle) -> (Bound<F::Key<'b>>, Bound<F::Key<'b>>) {
        let (low, high) = self.sides.ranges[range.0 as usize];
        let read = |bound: Bound<F::StoredKey>| bound.map(|key| self.key(key));
        (read(low), read(high))
    }
}

/// The outcomes of a batch that is being executed, written in any order.
///
/// The bytes of an outcome are copied into the batch, so that they stay valid when the index
/// changes. If the outcomes of a batch exceed 4 GiB, the operation at hand fails with
/// `BatchTooLarge`.
#[derive(Debug)]
pub struct BatchOutput<'b, F: EntryForm> {
    replaced_bytes: usize,
    outcomes: &'b mut Vec<StoredOutcome<F>>,
    entries: &'b mut F::Entries,
    arena: &'b mut F::Arena,
}

impl<F: EntryForm> BatchOutput<'_, F> {
    /// Writes the outcome of a get, insert or remove. `key` is used in error messages.
    #[inline]
    pub fn value(&mut self, position: usize, key: F::Key<'_>, value: Option<F::Value<'_>>) {
        let stored = value
            .map(|value| F::store_value(self.arena, key, value))
            .transpose();
        self.outcomes[position] = match stored {
            Ok(Some(stored)) => StoredOutcome::Value(stored),
            Ok(None) => StoredOutcome::NoValue,
            // Without room for its value an operation fails alone; shorter values may still fit.
            Err(error) => StoredOutcome::Failed(Box::new(error)),
        };
    }

    /// Writes the outcome of an insert or remove as [`value`](Self::value) does. Writes only the
    /// first bytes of the value if the batch [allows](Batch::cut_replaced) that.
    #[inline]
    pub fn replaced(&mut self, position: usize, key: F::Key<'_>, value: Option<F::Value<'_>>) {
        let bytes = self.replaced_bytes;
        self.value(
            position,
            key,
            value.map(|value| F::first_bytes(value, bytes)),
        );
    }

    /// Writes the outcome of an update or a conditional remove.
    pub fn updated(
        &mut self,
        position: usize,
        key: F::Key<'_>,
        applied: bool,
        before: Option<F::Value<'_>>,
    ) {
        let stored = before
            .map(|before| F::store_value(self.arena, key, before))
            .transpose();
        self.outcomes[position] = match stored {
            Ok(Some(stored)) => StoredOutcome::Updated(applied, stored),
            Ok(None) => StoredOutcome::UpdatedNone(applied),
            Err(error) => StoredOutcome::Failed(Box::new(error)),
        };
    }

    /// Writes the outcome of a predecessor or successor.
    pub fn entry(&mut self, position: usize, entry: Option<(F::Key<'_>, F::Value<'_>)>) {
        let Some((key, value)) = entry else {
            self.outcomes[position] = StoredOutcome::NoEntry;
            return;
        };
        // A single entry is stored like a scan of one.
        let mut writer = self.begin_entries(position);
        // `finish` reports a list without room as `push` does.
        let _ = writer.push(key, value);
        writer.finish();
        if let StoredOutcome::Entries(place, _) = self.outcomes[position] {
            self.outcomes[position] = StoredOutcome::Entry(place);
        }
    }

    /// Writes the outcome of a scan: the entries in the order of the scan.
    pub fn entries<'e>(
        &mut self,
        position: usize,
        entries: impl IntoIterator<Item = (F::Key<'e>, F::Value<'e>)>,
    ) {
        let mut writer = self.begin_entries(position);
        for (key, value) in entries {
            if writer.push(key, value).is_break() {
                break;
            }
        }
        writer.finish();
    }

    /// Begins the outcome of a scan, to be written entry by entry in the order of the scan.
    pub fn begin_entries(&mut self, position: usize) -> EntriesWriter<'_, F> {
        EntriesWriter {
            start: self.entries.end(),
            count: 0,
            position,
            outcomes: self.outcomes,
            entries: self.entries,
        }
    }

    /// Marks an operation as failed.
    pub fn fail(&mut self, position: usize, error: OperationError) {
        self.outcomes[position] = StoredOutcome::Failed(Box::new(error));
    }

    /// Copies the outcome of an operation, unless it is pending. `key` is needed for point
    /// operations.
    fn copy(&mut self, position: usize, key: Option<F::Key<'_>>, from: &Outcomes<F>) {
        let outcome = from.read(position);
        match (outcome.unwrap_or(OperationOutcome::Pending), key) {
            (OperationOutcome::Value(value), Some(key)) => self.value(position, key, value),
            (OperationOutcome::Updated { applied, before }, Some(key)) => {
                self.updated(position, key, applied, before);
            }
            (OperationOutcome::Value(_) | OperationOutcome::Updated { .. }, None) => {
                unreachable!("only point operations have such an outcome")
            }
            (OperationOutcome::Entry(entry), _) => self.entry(position, entry),
            (OperationOutcome::Entries(entries), _) => self.entries(position, entries),
            (OperationOutcome::Failed(error), _) => self.fail(position, error),
            (OperationOutcome::Pending, _) => {}
        }
    }
}

impl BatchOutput<'_, ByteStrings> {
    /// Writes the outcome of a get. `copy` appends the value to the bytes that it receives, or
    /// returns false if the key is absent. Returns what `copy` returned.
    #[inline]
    pub fn copied(&mut self, position: usize, copy: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        // Appended in place, which saves the copy that `value` makes.
        let start = self.arena.len();
        let is_there = copy(self.arena);
        let end = self.arena.len();
        self.outcomes[position] = match is_there {
            false => StoredOutcome::NoValue,
            true if end <= u32::MAX as usize => {
                StoredOutcome::Value(ArenaSpan::new(start, end - start))
            }
            true => {
                // The value is removed again, so that shorter ones after it have room.
                self.arena.truncate(start);
                StoredOutcome::Failed(Box::new(too_long(end)))
            }
        };
        is_there
    }
}

/// Writer of the entries that a scan finds. They become its outcome when [`finish`](Self::finish)
/// is called.
#[derive(Debug)]
pub struct EntriesWriter<'o, F: EntryForm> {
    start: usize,
    count: usize,
    position: usize,
    outcomes: &'o mut Vec<StoredOutcome<F>>,
    entries: &'o mut F::Entries,
}

impl<F: EntryForm> EntriesWriter<'_, F> {
    /// Adds an entry. Returns `Break` if there is no room for more; the scan has then failed.
    #[inline]
    pub fn push(&mut self, key: F::Key<'_>, value: F::Value<'_>) -> ControlFlow<()> {
        self.entries.push(key, value);
        self.added(1)
    }

    #[inline]
    fn added(&mut self, count: usize) -> ControlFlow<()> {
        // The entries that exceed the limit are counted, too: `finish` recognizes the failure by
        // the end of the list.
        self.count += count;
        // An outcome refers to its entries by 32 bits.
        match u32::try_from(self.entries.end()) {
            Ok(_) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    /// Returns the number of entries so far.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Makes the entries the outcome of the scan.
    pub fn finish(self) {
        let end = self.entries.end();
        self.outcomes[self.position] = if u32::try_from(end).is_ok() {
            StoredOutcome::Entries(self.start as u32, self.count as u32)
        } else {
            // Removed again, so that scans with fewer entries have room.
            self.entries.truncate(self.start);
            StoredOutcome::Failed(Box::new(too_long(end)))
        };
    }
}

impl EntriesWriter<'_, Words> {
    /// Adds several entries. Returns `Break` as `push` does.
    #[inline]
    pub fn push_all(&mut self, entries: &[(u64, u64)]) -> ControlFlow<()> {
        self.entries.extend(entries);
        self.added(entries.len())
    }
}

impl EntriesWriter<'_, ByteStrings> {
    /// Returns `bytes` bytes of unspecified content behind the entries, to pack more entries into.
    #[inline]
    pub fn room(&mut self, bytes: usize) -> &mut [u8] {
        self.entries.room(bytes)
    }

    /// Adds `count` entries, which have been [packed](crate::packed) into the first `bytes` bytes
    /// of the [room](Self::room). Returns `Break` as `push` does.
    #[inline]
    pub fn written(&mut self, bytes: usize, count: usize) -> ControlFlow<()> {
        self.entries.written(bytes);
        self.added(count)
    }
}
