//! The ordered index of a database, in any placement.
//!
//! Each database has indexes of its own, with one exception: all servers of a pool share one map in
//! it. There an index is the part of the map whose keys begin with a byte of the index. Its callers
//! see the keys without that byte.

use super::home::NOTE_BYTES;
#[cfg(test)]
use super::refusals::{self, RefusableCall};
use nearfield::{
    AnyPlacement, AnyValue, Batch, ByteStrings, OperationError, OrderedMap, UpdateOutcome,
};
use smallvec::SmallVec;
use std::ops::Bound;
use std::sync::Arc;

/// A map whose placement was chosen when the server started.
pub type AnyMap = OrderedMap<ByteStrings, AnyPlacement>;

/// A key and what is stored for it.
pub type Entry = (Vec<u8>, Vec<u8>);

/// The bounds of a range of keys.
pub type KeyBounds<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);

/// An ordered index. See the [module](self).
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a server has few indexes, and reads should not follow a pointer"
)]
pub enum DatabaseIndex {
    /// A map of this server alone.
    Own(AnyMap),
    /// The keys of a shared map that begin with a byte.
    Part(Arc<AnyMap>, u8),
}

/// A key as the map stores it.
type StoredKey = SmallVec<[u8; 64]>;

impl DatabaseIndex {
    /// Returns the map that stores the entries.
    #[inline]
    fn map(&self) -> &AnyMap {
        match self {
            DatabaseIndex::Own(map) => map,
            DatabaseIndex::Part(map, _) => map,
        }
    }

    /// Returns the byte that stored keys begin with.
    #[inline]
    pub fn prefix(&self) -> Option<u8> {
        match self {
            DatabaseIndex::Own(_) => None,
            DatabaseIndex::Part(_, prefix) => Some(*prefix),
        }
    }

    /// Calls `run` with the map and the stored form of `key`.
    #[inline]
    fn with<'m, R>(
        &'m self,
        key: &[u8],
        run: impl FnOnce(&'m AnyMap, &[u8]) -> Result<R, OperationError>,
    ) -> Result<R, OperationError> {
        match self {
            DatabaseIndex::Own(map) => run(map, key),
            DatabaseIndex::Part(map, prefix) => {
                let mut stored = StoredKey::with_capacity(key.len() + 1);
                stored.push(*prefix);
                stored.extend_from_slice(key);
                run(map, &stored).map_err(|error| without_prefix(error, key))
            }
        }
    }

    /// Returns the value of a key. A key that is longer than keys can be is absent.
    ///
    /// # Errors
    /// Those of the placement.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<AnyValue<'_>>, OperationError> {
        absent_if_too_long(self.with(key, |map, key| map.get(key)))
    }

    /// Sets the value of a key and returns the one before.
    ///
    /// # Errors
    /// As `OrderedMap::insert`.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, OperationError> {
        #[cfg(test)]
        refusals::check(RefusableCall::Insert, key)?;
        self.with(key, |map, key| map.insert(key, value))
    }

    /// Sets the value of a key if it is `previous`, where `None` stands for an absent key. Returns
    /// true if it was.
    ///
    /// # Errors
    /// As `OrderedMap::update`.
    pub fn update(
        &self,
        key: &[u8],
        previous: Option<&[u8]>,
        value: &[u8],
    ) -> Result<bool, OperationError> {
        let updated = self.with(key, |map, key| map.update(key, previous, value))?;
        Ok(updated.is_applied())
    }

    /// Removes a key and returns its value. A key that is longer than keys can be is absent.
    ///
    /// # Errors
    /// Those of the placement.
    pub fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, OperationError> {
        #[cfg(test)]
        refusals::check(RefusableCall::Remove, key)?;
        absent_if_too_long(self.with(key, |map, key| map.remove(key)))
    }

    /// Removes a key if its value is `previous`, and returns true if it was.
    ///
    /// # Errors
    /// Those of the placement.
    pub fn remove_if(&self, key: &[u8], previous: &[u8]) -> Result<bool, OperationError> {
        let removed = self.with(key, |map, key| map.remove_if(key, previous))?;
        Ok(matches!(removed, UpdateOutcome::Applied))
    }

    /// Executes a batch whose keys are in their stored form, each with the
    /// [prefix](DatabaseIndex::prefix) before it.
    ///
    /// # Errors
    /// As `OrderedMap::execute`.
    #[inline]
    pub fn execute(&self, batch: &mut Batch<ByteStrings>) -> Result<(), OperationError> {
        #[cfg(test)]
        refusals::check(RefusableCall::Execute, b"")?;
        self.map().execute(batch)
    }

    /// Returns the entries between two bounds, from either end. No entries follow an error.
    pub fn range(&self, bounds: KeyBounds<'_>) -> IndexRange<'_> {
        let Some(prefix) = self.prefix() else {
            return IndexRange {
                stored: self.map().range(bounds),
                prefix_bytes: 0,
            };
        };
        debug_assert!(prefix < u8::MAX);
        let stored = |key: &[u8]| [&[prefix][..], key].concat();
        let low = match bounds.0 {
            // The prefix alone is the stored form of the empty key, the least of the part.
            Bound::Unbounded => Bound::Included(vec![prefix]),
            bound => bound.map(stored),
        };
        let high = match bounds.1 {
            // The last prefix is less than 255, so that there is a byte above each.
            Bound::Unbounded => Bound::Excluded(vec![prefix + 1]),
            bound => bound.map(stored),
        };
        let bounds = (
            low.as_ref().map(Vec::as_slice),
            high.as_ref().map(Vec::as_slice),
        );
        IndexRange {
            stored: self.map().range(bounds),
            prefix_bytes: 1,
        }
    }

    /// Returns the entry with the least key.
    ///
    /// # Errors
    /// Those of the placement.
    pub fn first(&self) -> Result<Option<Entry>, OperationError> {
        self.successor(b"")
    }

    /// Returns the entry with the greatest key.
    ///
    /// # Errors
    /// Those of the placement.
    pub fn last(&self) -> Result<Option<Entry>, OperationError> {
        let mut all = self.range((Bound::Unbounded, Bound::Unbounded));
        all.next_back().transpose()
    }

    /// Returns the entry with the least key at or above `key`.
    ///
    /// # Errors
    /// Those of the placement.
    pub fn successor(&self, key: &[u8]) -> Result<Option<Entry>, OperationError> {
        let found = self.with(key, |map, key| map.successor(key));
        Ok(self.own(absent_if_too_long(found)?))
    }

    /// Returns the entry with the greatest key at or below `key`.
    ///
    /// # Errors
    /// Those of the placement.
    pub fn predecessor(&self, key: &[u8]) -> Result<Option<Entry>, OperationError> {
        let found = self.with(key, |map, key| map.predecessor(key));
        Ok(self.own(absent_if_too_long(found)?))
    }

    /// Returns the entry as callers see it, if it belongs to this index.
    pub fn own(&self, entry: Option<Entry>) -> Option<Entry> {
        let Some(prefix) = self.prefix() else {
            return entry;
        };
        // The neighbor of the part's last key belongs to another part.
        let (mut key, value) = entry.filter(|(key, _)| key.first() == Some(&prefix))?;
        key.remove(0);
        Some((key, value))
    }

    /// Returns the number of entries. To count a part of a shared map, it reads the whole part.
    ///
    /// # Errors
    /// Those of the placement.
    pub fn len(&self) -> Result<usize, OperationError> {
        match self {
            DatabaseIndex::Own(map) => map.len(),
            DatabaseIndex::Part(..) => {
                // The map knows only how many entries all parts have.
                let mut all = self.range((Bound::Unbounded, Bound::Unbounded));
                all.try_fold(0, |count, entry| entry.map(|_| count + 1))
            }
        }
    }

    /// Returns true if there are no entries.
    ///
    /// # Errors
    /// Those of the placement.
    pub fn is_empty(&self) -> Result<bool, OperationError> {
        Ok(self.first()?.is_none())
    }

    /// Returns an error of a [batch](DatabaseIndex::execute) in the form that the client may see;
    /// its key is `key`.
    pub fn own_error(&self, error: OperationError, key: &[u8]) -> OperationError {
        match self.prefix() {
            Some(_) => without_prefix(error, key),
            None => error,
        }
    }

    /// Removes all entries.
    ///
    /// # Errors
    /// Those of the placement. Some entries may already be gone.
    pub fn clear(&self) -> Result<(), OperationError> {
        match self {
            DatabaseIndex::Own(map) => map.clear().map(drop),
            DatabaseIndex::Part(map, prefix) => {
                debug_assert!(*prefix < u8::MAX);
                let (low, high) = ([*prefix], [*prefix + 1]);
                let bounds = (Bound::Included(&low[..]), Bound::Excluded(&high[..]));
                map.remove_range(bounds).map(drop)
            }
        }
    }

    /// Moves up to `blocks` blocks, so that memory can be given back to the system. Returns true if
    /// there is more to do.
    pub fn compact(&self, blocks: usize) -> bool {
        self.map().compact(blocks)
    }

    /// Returns the memory that the index takes in this process.
    pub fn memory(&self) -> nearfield::MemoryUse {
        self.map().local_memory().unwrap_or_default()
    }
}

/// The entries of a range of a [`DatabaseIndex`].
#[derive(Debug)]
pub struct IndexRange<'m> {
    stored: nearfield::MapRange<'m, ByteStrings, AnyPlacement>,
    prefix_bytes: usize,
}

impl IndexRange<'_> {
    fn strip(&self, entry: Result<Entry, OperationError>) -> Result<Entry, OperationError> {
        entry.map(|(mut key, value)| {
            key.drain(..self.prefix_bytes);
            (key, value)
        })
    }
}

impl Iterator for IndexRange<'_> {
    type Item = Result<Entry, OperationError>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.stored.next()?;
        Some(self.strip(entry))
    }
}

impl DoubleEndedIterator for IndexRange<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let entry = self.stored.next_back()?;
        Some(self.strip(entry))
    }
}

/// Makes an error name a key of a shared map as the client has sent it.
#[cold]
fn without_prefix(error: OperationError, key: &[u8]) -> OperationError {
    match error {
        OperationError::KeyTooLong { length, limit, .. } => OperationError::KeyTooLong {
            start: OperationError::shorten(key),
            length: length - 1,
            // A note of the key's expiry has more bytes before it than its entry.
            limit: limit - NOTE_BYTES,
        },
        other => other,
    }
}

/// Treats a key that is longer than keys can be as absent.
#[inline]
fn absent_if_too_long<T>(
    result: Result<Option<T>, OperationError>,
) -> Result<Option<T>, OperationError> {
    match result {
        Err(OperationError::KeyTooLong { .. }) => Ok(None),
        other => other,
    }
}
