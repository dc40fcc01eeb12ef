//! The map: one set of methods for every placement.

mod any;
mod bytes;
#[cfg(feature = "pool")]
mod filtered;
mod local;
mod many;
#[cfg(feature = "pool")]
mod pool;
mod range;
#[cfg(feature = "tiers")]
mod tiered;
mod words;

#[cfg(feature = "pool")]
pub use filtered::{FilteredEntries, FilteredRange};
pub use range::MapRange;
pub use words::WordMap;

use crate::form::MapForm;
use crate::placement::{Local, MapPlacement};
use nearfield_core::{
    Batch, ByteStrings, ComparisonResult, OperationError, OrderedIndex, PointResult, ScanDirection,
};
use nearfield_radix::Entry;
use std::fmt::{self, Debug, Formatter};
use std::ops::{Bound, RangeBounds};

/// An ordered map: of byte strings, or with `OrderedMap<Words>` of 8-byte words; in this machine's
/// memory, or in another [`MapPlacement`].
///
/// It may be shared among any number of threads by reference. [`execute`](OrderedMap::execute)
/// takes less time for many operations than single calls do. The cost of single operations:
///
/// - [`Local`]: a number of steps that grows at most with the length of the key, not with the
///   number of entries.
/// - `PoolPlacement`: one to three round trips to a memory node. Reads and writes fail with
///   `Unreachable` if a node does not respond, and writes with `Unknown` if the connection is lost
///   meanwhile. Keys are shorter than elsewhere (`PoolBuilder::key_bytes_max`). Each thread that
///   uses the map keeps a connection, so threads should be few and long-lived.
/// - `Pim`: a round between threads; calls of several threads are gathered into one batch.
///   Operations fail with `OutOfMemory` if a module has no room, and with `Unknown` if its thread
///   has ended.
/// - `TieredPlacement`: as `Local` if the value is in memory, otherwise the time to decompress it,
///   or a read of an SSD. Operations fail with `Unreadable` if the value cannot be read, and with
///   `OutOfMemory` if no tier has room.
///
/// ```
/// use nearfield::{ByteStrings, OrderedMap};
///
/// let map = OrderedMap::<ByteStrings>::new()?;
/// std::thread::scope(|scope| {
///     for name in ["ann", "bob"] {
///         let map = &map;
///         scope.spawn(move || map.insert(name.as_bytes(), b"here"));
///     }
/// });
/// assert_eq!(map.len(), 2);
/// # Ok::<(), nearfield::OperationError>(())
/// ```
pub struct OrderedMap<F: MapForm = ByteStrings, P: MapPlacement<F> = Local> {
    pub(crate) index: P::Index,
}

impl<F: MapForm, P: MapPlacement<F>> Debug for OrderedMap<F, P> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map").field("index", &self.index).finish()
    }
}

/// The result of an update or a conditional remove.
///
/// ```
/// use nearfield::{UpdateOutcome, WordMap};
///
/// let map = WordMap::new()?;
/// match map.update(1, Some(10), 11)? {
///     UpdateOutcome::Applied => unreachable!("the map is empty"),
///     UpdateOutcome::Differs { current } => assert_eq!(current, None),
/// }
/// # Ok::<(), nearfield::OperationError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the value may differ from the expected one"]
pub enum UpdateOutcome<V> {
    /// The value was the expected one, and has been set or removed.
    Applied,
    /// The value was another one, or absent, and did not change.
    Differs {
        /// The value, `None` if the key is absent.
        current: Option<V>,
    },
}

impl<V> UpdateOutcome<V> {
    /// Converts the result of an index: true if the value was the expected one, and the value.
    pub(crate) fn of((applied, current): (bool, Option<V>)) -> UpdateOutcome<V> {
        match applied {
            true => UpdateOutcome::Applied,
            false => UpdateOutcome::Differs { current },
        }
    }

    /// Converts the value that differs.
    pub(crate) fn map<W>(self, map: impl FnOnce(V) -> W) -> UpdateOutcome<W> {
        match self {
            UpdateOutcome::Applied => UpdateOutcome::Applied,
            UpdateOutcome::Differs { current } => UpdateOutcome::Differs {
                current: current.map(map),
            },
        }
    }

    /// Returns true if the value has been set or removed.
    ///
    /// ```
    /// let map = nearfield::WordMap::from_sorted([(1, 10)])?;
    /// assert!(map.update(1, Some(10), 11)?.is_applied());
    /// assert!(!map.update(1, Some(10), 12)?.is_applied());
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn is_applied(&self) -> bool {
        matches!(self, UpdateOutcome::Applied)
    }
}

impl<F: MapForm, P: MapPlacement<F>> OrderedMap<F, P> {
    pub(crate) fn of(index: P::Index) -> Self {
        OrderedMap { index }
    }

    /// Returns the first entry within bounds, from one end.
    fn nearest<'k>(
        &self,
        low: Bound<F::Key<'k>>,
        high: Bound<F::Key<'k>>,
        direction: ScanDirection,
    ) -> Result<Option<Entry<F>>, P::Failure> {
        let mut nearest = None;
        let found = |entry| nearest = Some(entry);
        P::scan(&self.index, (low, high), direction, 1, found)?;
        Ok(nearest)
    }

    /// Reads the value of a key, `None` if it is absent. A map of byte strings in this machine's
    /// memory lends a long value without a copy; see [`ValueRef`](crate::ValueRef) for how long to
    /// hold it.
    ///
    /// # Errors
    /// `KeyTooLong`; those of the placement.
    ///
    /// ```
    /// let map = nearfield::OrderedMap::<nearfield::ByteStrings>::new()?;
    /// map.insert(b"ann", b"one")?;
    /// let value = map.get(b"ann")?.expect("inserted before");
    /// map.remove(b"ann")?;
    /// assert_eq!(&*value, b"one");
    /// assert!(map.get(b"ann")?.is_none());
    ///
    /// // Words cannot be too long, and are copied.
    /// let map = nearfield::WordMap::from_sorted([(1, 10)])?;
    /// assert_eq!((map.get(1), map.get(2)), (Some(10), None));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    #[inline]
    pub fn get(&self, key: F::Key<'_>) -> P::Lookup<Option<P::Value<'_>>> {
        P::lookup_result(P::get(&self.index, key))
    }

    /// Returns true if the key is present.
    ///
    /// # Errors
    /// `KeyTooLong`; those of the placement.
    ///
    /// ```
    /// let map = nearfield::OrderedMap::<nearfield::ByteStrings>::from_sorted([("ann", "1")])?;
    /// assert!(map.contains_key(b"ann")? && !map.contains_key(b"bob")?);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    #[inline]
    pub fn contains_key(&self, key: F::Key<'_>) -> P::Lookup<bool> {
        P::lookup_result(P::get(&self.index, key).map(|value| value.is_some()))
    }

    /// Sets the value of a key and returns the previous one, `None` if the key was absent.
    ///
    /// # Errors
    /// `KeyTooLong`, `ValueTooLong`, `OutOfMemory`; those of the placement. Nothing changes, except
    /// that after `Unknown` the change may have been made or not.
    ///
    /// ```
    /// let map = nearfield::OrderedMap::<nearfield::ByteStrings>::new()?;
    /// assert_eq!(map.insert(b"ann", b"1")?, None);
    /// assert_eq!(map.insert(b"ann", b"2")?, Some(b"1".to_vec()));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    #[inline]
    pub fn insert(
        &self,
        key: F::Key<'_>,
        value: F::Value<'_>,
    ) -> Result<Option<F::OwnedValue>, OperationError> {
        OrderedIndex::insert(&self.index, key, value)
    }

    /// Sets the value of a key if its value is `previous`, where `None` stands for an absent key.
    /// Comparing and setting are one atomic step.
    ///
    /// # Errors
    /// As [`insert`](OrderedMap::insert).
    ///
    /// ```
    /// use nearfield::{OrderedMap, UpdateOutcome, Words};
    ///
    /// let counters = OrderedMap::<Words>::new()?;
    /// assert_eq!(counters.update(7, None, 1)?, UpdateOutcome::Applied);
    /// assert_eq!(counters.update(7, None, 1)?, UpdateOutcome::Differs { current: Some(1) });
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    #[inline]
    pub fn update(
        &self,
        key: F::Key<'_>,
        previous: Option<F::Value<'_>>,
        value: F::Value<'_>,
    ) -> Result<UpdateOutcome<F::OwnedValue>, OperationError> {
        OrderedIndex::update(&self.index, key, previous, value).map(UpdateOutcome::of)
    }

    /// Sets the value of a key to the result of `change` and returns the old value. `change`
    /// receives the old value, `None` if the key is absent. This is one atomic step: `change` is
    /// called again if another thread has set the key meanwhile.
    ///
    /// # Errors
    /// As [`insert`](OrderedMap::insert).
    ///
    /// ```
    /// let counters = nearfield::WordMap::new()?;
    /// std::thread::scope(|scope| {
    ///     for _ in 0..2 {
    ///         scope.spawn(|| {
    ///             (0..100).try_for_each(|_| {
    ///                 counters.modify(7, |count| count.unwrap_or(0) + 1).map(|_| ())
    ///             })
    ///         });
    ///     }
    /// });
    /// assert_eq!(counters.get(7), Some(200));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn modify(
        &self,
        key: F::Key<'_>,
        mut change: impl FnMut(Option<F::Value<'_>>) -> F::OwnedValue,
    ) -> Result<Option<F::OwnedValue>, OperationError> {
        let mut current: Option<F::OwnedValue> = P::get(&self.index, F::shorten_key(key))
            .map_err(Into::into)?
            .map(Into::into);
        loop {
            let value = change(current.as_ref().map(F::value));
            let previous = current.as_ref().map(F::value);
            // The value is compared, so that a change of another thread is not lost.
            match self.update(F::shorten_key(key), previous, F::value(&value))? {
                UpdateOutcome::Applied => return Ok(current),
                UpdateOutcome::Differs { current: other } => current = other,
            }
        }
    }

    /// Inserts the value if the key is absent, and returns the value that the key then has, which
    /// is the old one if there was one. This is one atomic step.
    ///
    /// # Errors
    /// As [`insert`](OrderedMap::insert).
    ///
    /// ```
    /// let map = nearfield::WordMap::new()?;
    /// assert_eq!((map.get_or_insert(1, 10)?, map.get_or_insert(1, 11)?), (10, 10));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn get_or_insert(
        &self,
        key: F::Key<'_>,
        value: F::Value<'_>,
    ) -> Result<F::OwnedValue, OperationError> {
        let updated = self.update(key, None, F::shorten_value(value))?;
        // `Differs` without a value does not occur, because the update of an absent key applies.
        Ok(match updated {
            UpdateOutcome::Differs {
                current: Some(current),
            } => current,
            _ => F::own_value(value),
        })
    }

    /// Removes a key and returns its value, `None` if it was absent.
    ///
    /// # Errors
    /// `KeyTooLong`; those of the placement.
    ///
    /// ```
    /// let map = nearfield::OrderedMap::<nearfield::ByteStrings>::new()?;
    /// map.insert(b"ann", b"1")?;
    /// assert_eq!(map.remove(b"ann")?, Some(b"1".to_vec()));
    /// assert_eq!(map.remove(b"ann")?, None);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    #[inline]
    pub fn remove(&self, key: F::Key<'_>) -> Result<Option<F::OwnedValue>, OperationError> {
        OrderedIndex::remove(&self.index, key)
    }

    /// Removes a key if its value is `expected`. Comparing and removing are one atomic step.
    ///
    /// # Errors
    /// As [`insert`](OrderedMap::insert).
    ///
    /// ```
    /// use nearfield::{ByteStrings, OrderedMap, UpdateOutcome};
    ///
    /// let locks = OrderedMap::<ByteStrings>::from_sorted([("door", "ann")])?;
    /// let owned_by_ann = UpdateOutcome::Differs { current: Some(b"ann".to_vec()) };
    /// assert_eq!(locks.remove_if(b"door", b"bob")?, owned_by_ann);
    /// assert_eq!(locks.remove_if(b"door", b"ann")?, UpdateOutcome::Applied);
    /// assert_eq!(locks.remove_if(b"door", b"ann")?, UpdateOutcome::Differs { current: None });
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    #[inline]
    pub fn remove_if(
        &self,
        key: F::Key<'_>,
        expected: F::Value<'_>,
    ) -> Result<UpdateOutcome<F::OwnedValue>, OperationError> {
        OrderedIndex::remove_if(&self.index, key, expected).map(UpdateOutcome::of)
    }

    /// Returns the entry with the least key, copied.
    ///
    /// ```
    /// let map = nearfield::WordMap::from_sorted([(1, 10), (2, 20)])?;
    /// assert_eq!((map.first(), map.last()), (Some((1, 10)), Some((2, 20))));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn first(&self) -> P::Read<Option<Entry<F>>> {
        P::read_result(self.end(ScanDirection::Ascending))
    }

    /// Returns the entry with the greatest key, copied.
    ///
    /// ```
    /// let map = nearfield::WordMap::new()?;
    /// assert_eq!(map.last(), None);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn last(&self) -> P::Read<Option<Entry<F>>> {
        P::read_result(self.end(ScanDirection::Descending))
    }

    /// Returns the entry at one end.
    fn end(&self, direction: ScanDirection) -> Result<Option<Entry<F>>, P::Failure> {
        self.nearest(Bound::Unbounded, Bound::Unbounded, direction)
    }

    /// Removes the entry with the least key and returns it. Each entry is returned to one caller
    /// only.
    ///
    /// # Errors
    /// Those of the placement.
    ///
    /// ```
    /// let queue = nearfield::WordMap::from_sorted([(1, 10), (2, 20)])?;
    /// assert_eq!(queue.pop_first()?, Some((1, 10)));
    /// assert_eq!(queue.len(), 1);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn pop_first(&self) -> Result<Option<Entry<F>>, OperationError> {
        self.pop(ScanDirection::Ascending)
    }

    /// Removes the entry with the greatest key and returns it. Each entry is returned to one caller
    /// only.
    ///
    /// # Errors
    /// Those of the placement.
    ///
    /// ```
    /// let stack = nearfield::WordMap::from_sorted([(1, 10), (2, 20)])?;
    /// assert_eq!(stack.pop_last()?, Some((2, 20)));
    /// assert_eq!(stack.pop_last()?, Some((1, 10)));
    /// assert_eq!(stack.pop_last()?, None);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn pop_last(&self) -> Result<Option<Entry<F>>, OperationError> {
        self.pop(ScanDirection::Descending)
    }

    fn pop(&self, direction: ScanDirection) -> Result<Option<Entry<F>>, OperationError> {
        loop {
            let Some((key, _)) = self.end(direction).map_err(Into::into)? else {
                return Ok(None);
            };
            // If another thread has removed it meanwhile, another entry is at the end now.
            // The value is that of the remove, because the scanned one may have been replaced.
            if let Some(value) = self.remove(F::key(&key))? {
                return Ok(Some((key, value)));
            }
        }
    }

    /// Returns the entry with the greatest key at or below the given one, copied.
    ///
    /// # Errors
    /// `KeyTooLong`; those of the placement.
    ///
    /// ```
    /// use nearfield::{ByteStrings, OrderedMap};
    ///
    /// let map = OrderedMap::<ByteStrings>::from_sorted([("ann", "1"), ("bob", "2")])?;
    /// assert_eq!(map.predecessor(b"bill")?, Some((b"ann".to_vec(), b"1".to_vec())));
    /// assert_eq!(map.predecessor(b"abe")?, None);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn predecessor(&self, key: F::Key<'_>) -> P::Lookup<Option<Entry<F>>> {
        let bounds = (Bound::Unbounded, Bound::Included(key));
        P::lookup_result(self.neighbor(key, bounds, ScanDirection::Descending))
    }

    /// Returns the entry with the least key at or above the given one, copied.
    ///
    /// # Errors
    /// `KeyTooLong`; those of the placement.
    ///
    /// ```
    /// let map = nearfield::WordMap::from_sorted([(1, 10), (5, 50)])?;
    /// assert_eq!((map.successor(2), map.successor(6)), (Some((5, 50)), None));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn successor(&self, key: F::Key<'_>) -> P::Lookup<Option<Entry<F>>> {
        let bounds = (Bound::Included(key), Bound::Unbounded);
        P::lookup_result(self.neighbor(key, bounds, ScanDirection::Ascending))
    }

    fn neighbor<'k>(
        &self,
        key: F::Key<'k>,
        (low, high): (Bound<F::Key<'k>>, Bound<F::Key<'k>>),
        direction: ScanDirection,
    ) -> Result<Option<Entry<F>>, P::LookupFailure> {
        // A scan accepts longer bounds than a key can be.
        P::check_key(key)?;
        Ok(self.nearest(low, high, direction)?)
    }

    /// Returns the entries whose keys lie within a range, in ascending order, or in descending
    /// order from the other end. Bounds may be longer than keys can be. A range that ends before it
    /// begins is empty.
    ///
    /// See [`MapRange`] for the cost and for concurrent writes.
    ///
    /// ```
    /// let map = nearfield::OrderedMap::<nearfield::ByteStrings>::new()?;
    /// for name in ["ann", "bob", "cid", "dan"] {
    ///     map.insert(name.as_bytes(), b"")?;
    /// }
    /// let names = map.range(&b"b"[..]..&b"d"[..]).map(|(name, _)| name);
    /// assert_eq!(names.collect::<Vec<_>>(), [b"bob", b"cid"]);
    /// assert_eq!(map.range(..).next_back(), Some((b"dan".to_vec(), vec![])));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn range<'k>(&self, bounds: impl RangeBounds<F::Key<'k>>) -> MapRange<'_, F, P> {
        // Owned, because each bound moves to the last key read from its end.
        let own = |bound: Bound<&F::Key<'k>>| bound.map(|&key| F::own_key(key));
        MapRange::new(self, own(bounds.start_bound()), own(bounds.end_bound()))
    }

    /// Executes a batch and writes an outcome for each of its operations, as if they were executed
    /// one after the other. An operation that fails alone has an
    /// [`OperationOutcome::Failed`](crate::OperationOutcome::Failed).
    ///
    /// # Errors
    /// `BatchTooLarge` above 16,777,216 operations; `Unreachable` or `OutOfMemory` if the placement
    /// cannot be reached. Nothing has been executed.
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
    /// assert_eq!(batch.outcome(at_most_2), nearfield::OperationOutcome::Entry(Some((1, 10))));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    #[inline]
    pub fn execute(&self, batch: &mut Batch<F>) -> Result<(), OperationError> {
        self.index.execute(batch)
    }

    /// Returns the number of entries; exact while no thread writes. Takes one read of memory, or a
    /// scan of all entries in a pool.
    ///
    /// ```
    /// let map = nearfield::WordMap::from_sorted([(1, 10), (2, 20)])?;
    /// assert!(map.len() == 2 && !map.is_empty());
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn len(&self) -> P::Read<usize> {
        P::read_result(P::len(&self.index))
    }

    /// Returns true if there is no entry; exact while no thread writes.
    ///
    /// ```
    /// assert!(nearfield::WordMap::new()?.is_empty());
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn is_empty(&self) -> P::Read<bool> {
        // One lookup, instead of a count that may need many.
        P::read_result(
            self.end(ScanDirection::Ascending)
                .map(|entry| entry.is_none()),
        )
    }
}

/// The map as an index, for tests and programs that are generic over indexes.
impl<F: MapForm, P: MapPlacement<F>> OrderedIndex<F> for OrderedMap<F, P> {
    #[inline]
    fn execute(&self, batch: &mut Batch<F>) -> Result<(), OperationError> {
        self.index.execute(batch)
    }

    /// Returns the length as [`OrderedMap::len`] does, or 0 if that fails.
    fn len(&self) -> usize {
        self.index.len()
    }

    fn check_invariants(&self) {
        self.index.check_invariants();
    }

    fn get(&self, key: F::Key<'_>) -> PointResult<F> {
        self.index.get(key)
    }

    fn insert(&self, key: F::Key<'_>, value: F::Value<'_>) -> PointResult<F> {
        self.index.insert(key, value)
    }

    fn update(
        &self,
        key: F::Key<'_>,
        previous: Option<F::Value<'_>>,
        value: F::Value<'_>,
    ) -> ComparisonResult<F> {
        self.index.update(key, previous, value)
    }

    fn remove(&self, key: F::Key<'_>) -> PointResult<F> {
        self.index.remove(key)
    }

    fn remove_if(&self, key: F::Key<'_>, expected: F::Value<'_>) -> ComparisonResult<F> {
        self.index.remove_if(key, expected)
    }
}
