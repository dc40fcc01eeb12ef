//! The map: one of a closed set of placements, matched once for each call.

use crate::{Builder, Range};
use nearfield_core::{Batch, Bytes, Direction, Error, MAX_KEY_BYTES, OrderedIndex, Outcome, Words};
use nearfield_pim::PimForm;
use nearfield_pool::store::StoreForm;
use nearfield_radix::{Counters, EngineOptions, Entry, MemoryUse, Pinned, Radix, RadixForm};
use std::ops::{Bound, ControlFlow, RangeBounds};

/// The greatest number of operations that [`Map::get_many`] and [`Map::insert_many`] put into one
/// batch: many times what the engine keeps in flight, and few enough for their outcomes to stay in
/// the cache until they are read.
const MANY: usize = 4096;

/// A form of entries that a [`Map`] can hold: [`Bytes`] or [`Words`].
pub trait MapForm: RadixForm + StoreForm + PimForm {
    /// The bytes of an entry's key and value.
    #[doc(hidden)]
    fn entry_bytes(key: Self::Key<'_>, value: Self::Value<'_>) -> usize;

    /// Cuts a bound that is longer than any key, and says whether it was. All keys that are greater than what is
    /// left are greater than the bound.
    #[doc(hidden)]
    fn cut(bound: &mut Self::OwnedKey) -> bool;
}

impl MapForm for Bytes {
    fn entry_bytes(key: &[u8], value: &[u8]) -> usize {
        key.len() + value.len()
    }

    fn cut(bound: &mut Vec<u8>) -> bool {
        let is_longer = bound.len() > MAX_KEY_BYTES;
        bound.truncate(MAX_KEY_BYTES);
        is_longer
    }
}

impl MapForm for Words {
    #[inline]
    fn entry_bytes(_key: u64, _value: u64) -> usize {
        16
    }

    fn cut(_bound: &mut u64) -> bool {
        false
    }
}

/// An ordered map in memory: of byte strings, or with `Map<Words>` of 8-byte words.
///
/// It may be shared among any number of threads by reference. A single operation on a key takes a
/// number of steps that grows with the length of the key, at most, and not with the number of
/// entries; [`execute`](Map::execute) takes less time for many than single calls do.
///
/// ```
/// use nearfield::{Bytes, Map};
///
/// let map = Map::<Bytes>::new()?;
/// std::thread::scope(|scope| {
///     for name in ["ann", "bob"] {
///         let map = &map;
///         scope.spawn(move || map.insert(name.as_bytes(), b"here"));
///     }
/// });
/// assert_eq!(map.len(), 2);
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Debug)]
pub struct Map<F: MapForm = Bytes> {
    placement: Placement<F>,
}

/// Where a map's entries are, and who executes its operations.
#[derive(Debug)]
enum Placement<F: MapForm> {
    /// In this machine's memory.
    Local(Radix<F>),
}

/// What an update has done.
///
/// ```
/// use nearfield::{Updated, WordMap};
///
/// let map = WordMap::new()?;
/// match map.update(1, Some(10), 11)? {
///     Updated::Applied => unreachable!("the map is empty"),
///     Updated::Differs { current } => assert_eq!(current, None),
/// }
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an update may have met another value than expected"]
pub enum Updated<V> {
    /// The value was the one expected, and has been set.
    Applied,
    /// The value was another one, or absent, and has been left as it is.
    Differs {
        /// The value, `None` if the key is absent.
        current: Option<V>,
    },
}

impl<V> Updated<V> {
    /// What an index answers: whether the value was set, and the one before.
    pub(crate) fn of((applied, current): (bool, Option<V>)) -> Updated<V> {
        match applied {
            true => Updated::Applied,
            false => Updated::Differs { current },
        }
    }

    /// True if the value has been set.
    pub fn is_applied(&self) -> bool {
        matches!(self, Updated::Applied)
    }
}

impl<F: MapForm> Map<F> {
    /// Creates an empty map that may take all memory there is.
    ///
    /// # Errors
    /// `OutOfMemory` if the system grants no address space.
    ///
    /// ```
    /// let map = nearfield::Map::<nearfield::Bytes>::new()?;
    /// assert!(map.is_empty());
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn new() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// Begins a map with a limit of memory or options of the engine; see [`Builder`].
    pub fn builder() -> Builder<F> {
        Builder::default()
    }

    pub(crate) fn local(radix: Radix<F>) -> Self {
        Map {
            placement: Placement::Local(radix),
        }
    }

    #[inline]
    pub(crate) fn read<R>(
        &self,
        key: F::Key<'_>,
        read: impl FnOnce(F::Value<'_>) -> R,
    ) -> Option<R> {
        match &self.placement {
            Placement::Local(radix) => radix.read(key, read),
        }
    }

    pub(crate) fn scan(
        &self,
        from: Bound<F::Key<'_>>,
        direction: Direction,
        expected: usize,
        visit: impl FnMut(F::Key<'_>, F::Value<'_>) -> ControlFlow<()>,
    ) {
        match &self.placement {
            Placement::Local(radix) => radix.scan(from, direction, expected, visit),
        }
    }

    /// The first entry from a bound on.
    pub(crate) fn nearest(
        &self,
        from: Bound<F::Key<'_>>,
        direction: Direction,
    ) -> Option<Entry<F>> {
        let mut nearest = None;
        self.scan(from, direction, 1, |key, value| {
            nearest = Some((F::own_key(key), F::own_value(value)));
            ControlFlow::Break(())
        });
        nearest
    }

    /// Sets the value of a key and answers the one before, `None` if the key was absent.
    ///
    /// # Errors
    /// `KeyTooLong`, `ValueTooLong`, `OutOfMemory`; nothing has been changed then.
    ///
    /// ```
    /// let map = nearfield::Map::<nearfield::Bytes>::new()?;
    /// assert_eq!(map.insert(b"ann", b"1")?, None);
    /// assert_eq!(map.insert(b"ann", b"2")?, Some(b"1".to_vec()));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    #[inline]
    pub fn insert(
        &self,
        key: F::Key<'_>,
        value: F::Value<'_>,
    ) -> Result<Option<F::OwnedValue>, Error> {
        match &self.placement {
            Placement::Local(radix) => radix.insert(key, value),
        }
    }

    /// Sets the value of a key if it is `previous` now, where `None` stands for an absent key.
    /// Comparing and setting are one atomic step.
    ///
    /// # Errors
    /// `KeyTooLong`, `ValueTooLong`, `OutOfMemory`; nothing has been changed then.
    ///
    /// ```
    /// use nearfield::{Map, Updated, Words};
    ///
    /// let counters = Map::<Words>::new()?;
    /// assert_eq!(counters.update(7, None, 1)?, Updated::Applied);
    /// assert_eq!(counters.update(7, None, 1)?, Updated::Differs { current: Some(1) });
    ///
    /// // Add 10, whoever else is counting.
    /// let mut current = counters.get(7);
    /// while let Updated::Differs { current: met } =
    ///     counters.update(7, current, current.unwrap_or(0) + 10)?
    /// {
    ///     current = met;
    /// }
    /// assert_eq!(counters.get(7), Some(11));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    #[inline]
    pub fn update(
        &self,
        key: F::Key<'_>,
        previous: Option<F::Value<'_>>,
        value: F::Value<'_>,
    ) -> Result<Updated<F::OwnedValue>, Error> {
        OrderedIndex::update(self, key, previous, value).map(Updated::of)
    }

    /// Removes a key and answers its value, `None` if it was absent.
    ///
    /// # Errors
    /// `KeyTooLong`.
    ///
    /// ```
    /// let map = nearfield::Map::<nearfield::Bytes>::new()?;
    /// map.insert(b"ann", b"1")?;
    /// assert_eq!(map.remove(b"ann")?, Some(b"1".to_vec()));
    /// assert_eq!(map.remove(b"ann")?, None);
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    #[inline]
    pub fn remove(&self, key: F::Key<'_>) -> Result<Option<F::OwnedValue>, Error> {
        match &self.placement {
            Placement::Local(radix) => radix.remove(key),
        }
    }

    /// The entry with the least key, copied.
    ///
    /// ```
    /// let map = nearfield::WordMap::from_sorted([(1, 10), (2, 20)])?;
    /// assert_eq!((map.first(), map.last()), (Some((1, 10)), Some((2, 20))));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn first(&self) -> Option<Entry<F>> {
        self.nearest(Bound::Unbounded, Direction::Ascending)
    }

    /// The entry with the greatest key, copied.
    ///
    /// ```
    /// let map = nearfield::WordMap::new()?;
    /// assert_eq!(map.last(), None);
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn last(&self) -> Option<Entry<F>> {
        self.nearest(Bound::Unbounded, Direction::Descending)
    }

    /// The entries whose keys lie within a range, in ascending order, or, taken from the other
    /// end, in descending order. Bounds may be longer than a key can be. A range that ends before
    /// it begins is empty.
    ///
    /// See [`Range`] for what it costs and what it sees of concurrent writers.
    ///
    /// ```
    /// let map = nearfield::Map::<nearfield::Bytes>::new()?;
    /// for name in ["ann", "bob", "cid", "dan"] {
    ///     map.insert(name.as_bytes(), b"")?;
    /// }
    /// let names = map.range(&b"b"[..]..&b"d"[..]).map(|(name, _)| name);
    /// assert_eq!(names.collect::<Vec<_>>(), [b"bob", b"cid"]);
    /// assert_eq!(map.range(..).next_back(), Some((b"dan".to_vec(), vec![])));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn range<'k>(&self, bounds: impl RangeBounds<F::Key<'k>>) -> Range<'_, F> {
        let own = |bound: Bound<&F::Key<'k>>| bound.map(|&key| F::own_key(key));
        Range::new(self, own(bounds.start_bound()), own(bounds.end_bound()))
    }

    /// Executes a batch and writes an outcome for each of its operations, as executing them one
    /// after the other would. Operations that fail alone have an [`Outcome::Failed`].
    ///
    /// # Errors
    /// `BatchTooLarge` above 16,777,216 operations: nothing has been executed.
    ///
    /// ```
    /// use nearfield::{Batch, WordMap};
    ///
    /// let map = WordMap::new()?;
    /// let mut batch = Batch::new();
    /// batch.insert(1, 10);
    /// batch.insert(3, 30);
    /// let at_most_2 = batch.predecessor(2);
    /// map.execute(&mut batch)?;
    /// assert_eq!(batch.outcome(at_most_2), nearfield::Outcome::Entry(Some((1, 10))));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    #[inline]
    pub fn execute(&self, batch: &mut Batch<F>) -> Result<(), Error> {
        match &self.placement {
            Placement::Local(radix) => radix.execute(batch),
        }
    }

    /// As [`execute`](Map::execute), and adds what it has taken to `counters`.
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
        match &self.placement {
            Placement::Local(radix) => radix.execute_counted(batch, counters),
        }
    }

    /// The values of many keys, in the order of `keys`, read in batches.
    ///
    /// # Errors
    /// `KeyTooLong`.
    ///
    /// ```
    /// let map = nearfield::WordMap::from_sorted([(1, 10), (2, 20)])?;
    /// assert_eq!(map.get_many(&[2, 3, 1])?, [Some(20), None, Some(10)]);
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn get_many(&self, keys: &[F::Key<'_>]) -> Result<Vec<Option<F::OwnedValue>>, Error> {
        get_many(self, keys)
    }

    /// Inserts many entries, in their order, in batches; answers how many keys were absent before.
    /// Of entries with equal keys, the last one's value stays.
    ///
    /// # Errors
    /// The first of `KeyTooLong`, `ValueTooLong`, `OutOfMemory` that an entry met. That entry has
    /// not been inserted; up to 4095 after it may have been.
    ///
    /// ```
    /// let map = nearfield::WordMap::new()?;
    /// assert_eq!(map.insert_many(&[(2, 20), (1, 10), (2, 21)])?, 2);
    /// assert_eq!(map.get(2), Some(21));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn insert_many(&self, entries: &[(F::Key<'_>, F::Value<'_>)]) -> Result<usize, Error> {
        insert_many(self, entries)
    }

    /// The number of entries; exact when no writer is at work. Takes one read of memory.
    ///
    /// ```
    /// let map = nearfield::WordMap::from_sorted([(1, 10), (2, 20)])?;
    /// assert!(map.len() == 2 && !map.is_empty());
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        match &self.placement {
            Placement::Local(radix) => radix.len(),
        }
    }

    /// True if there is no entry; exact when no writer is at work.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
        match &self.placement {
            Placement::Local(radix) => radix.memory(),
        }
    }

    /// Executes batches one after the other, and plans each while the one before it is executed
    /// by `workers` threads; 1 is the calling thread alone. Gives each batch to `done` in their
    /// order, with what [`execute`](Map::execute) would have answered, until that breaks.
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
        match &self.placement {
            Placement::Local(radix) => radix.execute_stream(workers, batches, done),
        }
    }

    /// Pins this thread for a number of single operations, which are cheaper meanwhile: each pins
    /// by itself otherwise. What is removed while the pin lives is not freed before it is dropped.
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
        match &self.placement {
            Placement::Local(radix) => radix.pin(),
        }
    }

    /// Finds the value of a key and gives it to `read`, by a thread that is pinned already: the
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
        match &self.placement {
            Placement::Local(radix) => radix.read_pinned(pinned, key, read),
        }
    }

    /// The techniques that batches are executed with.
    pub fn engine_options(&self) -> EngineOptions {
        match &self.placement {
            Placement::Local(radix) => radix.options(),
        }
    }

    /// Chooses the techniques for batches to come; they have no effect on what a batch answers.
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
        match &self.placement {
            Placement::Local(radix) => radix.set_options(options),
        }
    }
}

impl Map<Bytes> {
    /// Reads the value of a key without copying it, `None` if the key is absent.
    ///
    /// See [`ValueRef`] for how long to hold it.
    ///
    /// # Errors
    /// `KeyTooLong`.
    ///
    /// ```
    /// let map = nearfield::Map::<nearfield::Bytes>::new()?;
    /// map.insert(b"ann", b"one")?;
    /// let value = map.get(b"ann")?.expect("inserted before");
    /// map.remove(b"ann")?;
    /// assert_eq!(&*value, b"one");
    /// assert!(map.get(b"ann")?.is_none());
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    ///
    /// [`ValueRef`]: crate::ValueRef
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<crate::ValueRef<'_>>, Error> {
        match &self.placement {
            Placement::Local(radix) => radix.get_ref(key),
        }
    }
}

impl<F: MapForm> OrderedIndex<F> for Map<F> {
    fn execute(&self, batch: &mut Batch<F>) -> Result<(), Error> {
        Map::execute(self, batch)
    }

    fn len(&self) -> usize {
        Map::len(self)
    }

    fn check_invariants(&self) {
        match &self.placement {
            Placement::Local(radix) => radix.check_invariants(),
        }
    }

    fn get(&self, key: F::Key<'_>) -> Result<Option<F::OwnedValue>, Error> {
        match &self.placement {
            Placement::Local(radix) => radix.get(key),
        }
    }

    fn insert(&self, key: F::Key<'_>, value: F::Value<'_>) -> Result<Option<F::OwnedValue>, Error> {
        Map::insert(self, key, value)
    }

    fn update(
        &self,
        key: F::Key<'_>,
        previous: Option<F::Value<'_>>,
        value: F::Value<'_>,
    ) -> Result<(bool, Option<F::OwnedValue>), Error> {
        match &self.placement {
            Placement::Local(radix) => radix.update(key, previous, value),
        }
    }

    fn remove(&self, key: F::Key<'_>) -> Result<Option<F::OwnedValue>, Error> {
        Map::remove(self, key)
    }
}

/// The values of many keys, read in batches.
pub(crate) fn get_many<F: MapForm>(
    index: &impl OrderedIndex<F>,
    keys: &[F::Key<'_>],
) -> Result<Vec<Option<F::OwnedValue>>, Error> {
    let mut values = Vec::with_capacity(keys.len());
    let mut batch = Batch::with_capacity(keys.len().min(MANY));
    for keys in keys.chunks(MANY) {
        batch.clear();
        for &key in keys {
            batch.get(F::shorten_key(key));
        }
        index.execute(&mut batch)?;
        for position in 0..keys.len() {
            values.push(met(&batch, position)?.map(F::own_value));
        }
    }
    Ok(values)
}

/// Inserts many entries in batches, and answers how many keys were absent.
pub(crate) fn insert_many<F: MapForm>(
    index: &impl OrderedIndex<F>,
    entries: &[(F::Key<'_>, F::Value<'_>)],
) -> Result<usize, Error> {
    let mut absent = 0;
    let mut batch = Batch::with_capacity(entries.len().min(MANY));
    for entries in entries.chunks(MANY) {
        batch.clear();
        for &(key, value) in entries {
            batch.insert(F::shorten_key(key), F::shorten_value(value));
        }
        index.execute(&mut batch)?;
        for position in 0..entries.len() {
            absent += usize::from(met(&batch, position)?.is_none());
        }
    }
    Ok(absent)
}

/// The value that a get or insert of a batch has met.
#[inline]
fn met<F: MapForm>(batch: &Batch<F>, position: usize) -> Result<Option<F::Value<'_>>, Error> {
    match batch.value(position) {
        Some(value) => Ok(Some(value)),
        None => match batch.outcome(position) {
            Outcome::Failed(error) => Err(error),
            _ => Ok(None),
        },
    }
}
