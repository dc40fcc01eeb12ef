//! Maps whose entries lie in modules, each with a processor of its own.
//!
//! A type of their own for the same reason as [`PoolMap`](crate::PoolMap): reads can fail, as a module may have
//! come to nothing, and nothing can be lent of entries that another thread owns.

mod builder;

pub use builder::{Pim, PimBuilder};

use crate::map::{get_many, insert_many};
use crate::{FallibleRange, MapForm, Updated};
use nearfield_core::{Batch, Bytes, Error, OrderedIndex};
use nearfield_pim::gather::Gathered;
use nearfield_radix::Entry;
use std::ops::{Bound, RangeBounds};

/// An ordered map in modules, which are worker threads that own a part of the keys each; of byte strings or, with
/// `PimMap<Words>`, of 8-byte words. Threads share it by reference. Dropping it ends its threads.
///
/// The methods are those of [`Map`](crate::Map), and all can fail: with `OutOfMemory` if a module has no room, and with
/// `Unknown` if one has come to nothing while it was asked. A batch is sent to all modules at once and takes as long
/// as that with most to do; keys that are asked for more than others are spread over modules meanwhile. Single operations
/// wait for a round between threads; those of callers that come at once are gathered into a batch. So batches of
/// thousands are what it is good for, and single operations take less time in [`Map`](crate::Map).
///
/// A key has up to an eighth of a module's memory, and an entry what a module has: `KeyTooLong`, `ValueTooLong`.
/// [`Builder::pim`](crate::Builder::pim) has an example.
#[derive(Debug)]
pub struct PimMap<F: MapForm = Bytes> {
    index: Gathered<F, F::OnWorkers>,
}

impl<F: MapForm> PimMap<F> {
    fn new(index: F::OnWorkers) -> PimMap<F> {
        let index = Gathered::new(index);
        PimMap { index }
    }

    /// Reads the value of a key, `None` if it is absent.
    ///
    /// # Errors
    /// `KeyTooLong`, `Unknown`.
    pub fn get(&self, key: F::Key<'_>) -> Result<Option<F::OwnedValue>, Error> {
        self.index.get(key)
    }

    /// Sets the value of a key and answers the one before, `None` if the key was absent.
    ///
    /// # Errors
    /// `KeyTooLong`, `ValueTooLong`, `OutOfMemory`, `Unknown`.
    pub fn insert(
        &self,
        key: F::Key<'_>,
        value: F::Value<'_>,
    ) -> Result<Option<F::OwnedValue>, Error> {
        self.index.insert(key, value)
    }

    /// Sets the value of a key if it is `previous` now, where `None` stands for an absent key.
    /// Comparing and setting are one atomic step.
    ///
    /// # Errors
    /// As [`insert`](PimMap::insert).
    pub fn update(
        &self,
        key: F::Key<'_>,
        previous: Option<F::Value<'_>>,
        value: F::Value<'_>,
    ) -> Result<Updated<F::OwnedValue>, Error> {
        self.index.update(key, previous, value).map(Updated::of)
    }

    /// Removes a key and answers its value, `None` if it was absent.
    ///
    /// # Errors
    /// `KeyTooLong`, `Unknown`.
    pub fn remove(&self, key: F::Key<'_>) -> Result<Option<F::OwnedValue>, Error> {
        self.index.remove(key)
    }

    /// The entry with the least key.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn first(&self) -> Result<Option<Entry<F>>, Error> {
        self.range(..).next().transpose()
    }

    /// The entry with the greatest key.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn last(&self) -> Result<Option<Entry<F>>, Error> {
        self.range(..).next_back().transpose()
    }

    /// The entries whose keys lie within a range, from both ends; see [`Map::range`](crate::Map::range).
    pub fn range<'k>(&self, bounds: impl RangeBounds<F::Key<'k>>) -> FallibleRange<'_, F> {
        let own = |bound: Bound<&F::Key<'k>>| bound.map(|&key| F::own_key(key));
        FallibleRange::new(
            &self.index,
            own(bounds.start_bound()),
            own(bounds.end_bound()),
        )
    }

    /// Executes a batch and writes an outcome for each of its operations, as executing them one
    /// after the other would. Operations that fail alone have an [`Outcome::Failed`](crate::Outcome::Failed).
    ///
    /// # Errors
    /// `BatchTooLarge` above 16,777,216 operations, and `OutOfMemory` if a module would have to be sent more than its
    /// memory holds: nothing has been executed.
    pub fn execute(&self, batch: &mut Batch<F>) -> Result<(), Error> {
        self.index.execute(batch)
    }

    /// The values of many keys, in the order of `keys`, read in batches.
    ///
    /// # Errors
    /// As [`get`](PimMap::get).
    pub fn get_many(&self, keys: &[F::Key<'_>]) -> Result<Vec<Option<F::OwnedValue>>, Error> {
        get_many(&self.index, keys)
    }

    /// Inserts many entries, in their order, in batches; answers how many keys were absent before.
    /// Of entries with equal keys, the last one's value stays.
    ///
    /// # Errors
    /// The first one that an entry met; up to 4095 after it may have been inserted.
    pub fn insert_many(&self, entries: &[(F::Key<'_>, F::Value<'_>)]) -> Result<usize, Error> {
        insert_many(&self.index, entries)
    }

    /// The number of entries; exact when no writer is at work and no module has come to nothing. Asks no module.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }
}

impl<F: MapForm> OrderedIndex<F> for PimMap<F> {
    fn execute(&self, batch: &mut Batch<F>) -> Result<(), Error> {
        self.index.execute(batch)
    }

    fn len(&self) -> usize {
        self.index.len()
    }

    fn check_invariants(&self) {
        self.index.check_invariants();
    }

    fn get(&self, key: F::Key<'_>) -> Result<Option<F::OwnedValue>, Error> {
        self.index.get(key)
    }

    fn insert(&self, key: F::Key<'_>, value: F::Value<'_>) -> Result<Option<F::OwnedValue>, Error> {
        self.index.insert(key, value)
    }

    fn update(
        &self,
        key: F::Key<'_>,
        previous: Option<F::Value<'_>>,
        value: F::Value<'_>,
    ) -> Result<(bool, Option<F::OwnedValue>), Error> {
        self.index.update(key, previous, value)
    }

    fn remove(&self, key: F::Key<'_>) -> Result<Option<F::OwnedValue>, Error> {
        self.index.remove(key)
    }
}
