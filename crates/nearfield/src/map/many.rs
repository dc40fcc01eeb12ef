//! Methods that read or change many entries, in batches.

use super::OrderedMap;
use crate::form::MapForm;
use crate::placement::MapPlacement;
use nearfield_core::{Batch, OperationError, OperationOutcome, OrderedIndex};
use std::ops::RangeBounds;

/// The greatest number of operations in one batch of these methods: many times the number that an
/// engine keeps in flight, yet few enough that their outcomes are still cached when they are read.
const MANY: usize = 4096;

impl<F: MapForm, P: MapPlacement<F>> OrderedMap<F, P> {
    /// Returns the values of many keys, in the order of `keys`, read in batches.
    ///
    /// # Errors
    /// `KeyTooLong`; those of the placement.
    ///
    /// ```
    /// let map = nearfield::WordMap::from_sorted([(1, 10), (2, 20)])?;
    /// assert_eq!(map.get_many(&[2, 3, 1])?, [Some(20), None, Some(10)]);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn get_many(
        &self,
        keys: &[F::Key<'_>],
    ) -> Result<Vec<Option<F::OwnedValue>>, OperationError> {
        let mut values = Vec::with_capacity(keys.len());
        let mut batch = Batch::with_capacity(keys.len().min(MANY));
        for keys in keys.chunks(MANY) {
            batch.clear();
            for &key in keys {
                batch.get(F::shorten_key(key));
            }
            debug_assert_eq!(
                batch.len(),
                keys.len(),
                "a key and its get have one position"
            );
            self.index.execute(&mut batch)?;
            for position in 0..keys.len() {
                values.push(found_value(&batch, position)?.map(F::own_value));
            }
        }
        Ok(values)
    }

    /// Inserts many entries, in their order, in batches; returns the number of keys that were
    /// absent before. Of entries with equal keys, the last one wins.
    ///
    /// # Errors
    /// The error of the first entry that failed: `KeyTooLong`, `ValueTooLong`, `OutOfMemory`, or
    /// one of the placement. That entry has not been inserted; up to 4095 after it may have been.
    ///
    /// ```
    /// let map = nearfield::WordMap::new()?;
    /// assert_eq!(map.insert_many(&[(2, 20), (1, 10), (2, 21)])?, 2);
    /// assert_eq!(map.get(2), Some(21));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn insert_many(
        &self,
        entries: &[(F::Key<'_>, F::Value<'_>)],
    ) -> Result<usize, OperationError> {
        let entries = entries.iter().copied();
        self.insert_all(entries, |batch, (key, value)| {
            batch.insert(F::shorten_key(key), F::shorten_value(value));
        })
    }

    /// Inserts the entries of an iterator, in batches, and returns the number of keys that were
    /// absent.
    pub(super) fn insert_all<E>(
        &self,
        entries: impl IntoIterator<Item = E>,
        mut add: impl FnMut(&mut Batch<F>, E),
    ) -> Result<usize, OperationError> {
        let mut absent = 0;
        let mut batch = Batch::new();
        // The old values are not needed, only whether there were any.
        batch.cut_replaced(0);
        let mut entries = entries.into_iter();
        loop {
            batch.clear();
            let mut count = 0;
            for entry in entries.by_ref().take(MANY) {
                add(&mut batch, entry);
                count += 1;
            }
            if count == 0 {
                return Ok(absent);
            }
            debug_assert_eq!(batch.len(), count, "an entry is one insert");
            self.index.execute(&mut batch)?;
            for position in 0..count {
                absent += usize::from(found_value(&batch, position)?.is_none());
            }
        }
    }

    /// Removes all entries whose keys lie within a range and for which `keep` returns false;
    /// returns the number of entries removed. An entry that another thread sets after `keep` has
    /// seen it may be removed with its new value.
    ///
    /// # Errors
    /// Those of the placement. Some entries may have been removed.
    ///
    /// ```
    /// let map = nearfield::WordMap::from_sorted((0..10).map(|n| (n, n * n)))?;
    /// assert_eq!(map.retain(5.., |_, square| square % 2 == 0)?, 3);
    /// assert!(map.range(5..).eq([(6, 36), (8, 64)]));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn retain<'k>(
        &self,
        bounds: impl RangeBounds<F::Key<'k>>,
        mut keep: impl FnMut(F::Key<'_>, F::Value<'_>) -> bool,
    ) -> Result<usize, OperationError> {
        let mut removed = 0;
        let mut batch = Batch::new();
        // Removed values are counted only.
        batch.cut_replaced(0);
        // The range goes on by key, so that the removes behind it do not disturb it.
        let mut range = self.range(bounds);
        loop {
            batch.clear();
            let mut count = 0;
            while count < MANY {
                let Some(entry) = range.next_entry() else {
                    break;
                };
                let (key, value) = entry.map_err(Into::into)?;
                // Entries that stay need no operation, so a batch may span much of the range.
                if !keep(F::key(&key), F::value(&value)) {
                    batch.remove(F::key(&key));
                    count += 1;
                }
            }
            if count == 0 {
                return Ok(removed);
            }
            debug_assert_eq!(batch.len(), count, "only removes are in the batch");
            self.index.execute(&mut batch)?;
            for position in 0..count {
                removed += usize::from(found_value(&batch, position)?.is_some());
            }
        }
    }

    /// Removes all entries whose keys lie within a range, and returns their number.
    ///
    /// # Errors
    /// Those of the placement. Some entries may have been removed.
    ///
    /// ```
    /// let map = nearfield::WordMap::from_sorted((0..10).map(|n| (n, n)))?;
    /// assert_eq!((map.remove_range(3..5)?, map.len()), (2, 8));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn remove_range<'k>(
        &self,
        bounds: impl RangeBounds<F::Key<'k>>,
    ) -> Result<usize, OperationError> {
        self.retain(bounds, |_, _| false)
    }

    /// Removes all entries. Entries that other threads insert meanwhile may stay.
    ///
    /// # Errors
    /// Those of the placement. Some entries may have been removed.
    ///
    /// ```
    /// let map = nearfield::WordMap::from_sorted([(1, 10), (2, 20)])?;
    /// map.clear()?;
    /// assert!(map.is_empty());
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn clear(&self) -> Result<(), OperationError> {
        self.remove_range(..).map(|_| ())
    }
}

/// Returns the value that a point operation of a batch found.
#[inline]
fn found_value<F: MapForm>(
    batch: &Batch<F>,
    position: usize,
) -> Result<Option<F::Value<'_>>, OperationError> {
    match batch.value(position) {
        Some(value) => Ok(Some(value)),
        // Errors are rare, so they are looked for only where no value is.
        None => match batch.outcome(position) {
            OperationOutcome::Failed(error) => Err(error),
            _ => Ok(None),
        },
    }
}
