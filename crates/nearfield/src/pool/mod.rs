//! Maps whose entries lie in the memory of memory nodes.
//!
//! These are a type of their own. A map in this machine's memory answers reads without a `Result`,
//! lends values where they lie, and says what memory it takes; none of that can be had of entries
//! that are elsewhere. One type for both would make every method of the local one fallible, or have
//! methods that panic for some maps.

mod builder;
#[cfg(target_os = "linux")]
mod transport;

pub use builder::{Pool, PoolBuilder};

use crate::map::{get_many, insert_many};
use crate::{FallibleRange, MapForm, Updated};
use nearfield_core::{Batch, Bytes, Error, OrderedIndex};
use nearfield_fabric::Endpoint;
use nearfield_pool::store::Store;
use nearfield_radix::Entry;
use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};

/// What a map asks of a store, whatever leads to its nodes.
trait Placed<F: MapForm>: OrderedIndex<F> + Debug {
    fn count(&self) -> Result<usize, Error>;
    fn cache_bytes(&self) -> usize;
}

impl<F: MapForm, E: Endpoint + 'static> Placed<F> for Store<F, E> {
    fn count(&self) -> Result<usize, Error> {
        Store::count(self)
    }

    fn cache_bytes(&self) -> usize {
        Store::cache_bytes(self)
    }
}

/// An ordered map in the memory of memory nodes, of byte strings or, with `PoolMap<Words>`, of 8-byte
/// words. Threads share it by reference, and processes by opening it as well; it outlives all of
/// them, as long as its nodes do.
///
/// The methods are those of [`Map`](crate::Map), and all can fail: with `Unreachable` if a memory
/// node does not answer, and with `Unknown` if it stopped to while something was changed. A single
/// operation waits for one to three round trips; [`execute`](PoolMap::execute), `get_many` and
/// `insert_many` have many operations under way at once. Keys are shorter than elsewhere:
/// [`PoolBuilder::key_bytes_max`].
///
/// A thread that uses the map has a client from then on: threads should be few and live long.
/// [`Builder::pool`](crate::Builder::pool) has an example.
#[derive(Debug)]
pub struct PoolMap<F: MapForm = Bytes> {
    store: Box<dyn Placed<F>>,
}

impl<F: MapForm> PoolMap<F> {
    fn new<E: Endpoint + 'static>(store: Store<F, E>) -> PoolMap<F> {
        let store = Box::new(store);
        PoolMap { store }
    }

    /// Reads the value of a key, `None` if it is absent.
    ///
    /// # Errors
    /// `KeyTooLong`, `Unreachable`.
    pub fn get(&self, key: F::Key<'_>) -> Result<Option<F::OwnedValue>, Error> {
        self.store.get(key)
    }

    /// Sets the value of a key and answers the one before, `None` if the key was absent.
    ///
    /// # Errors
    /// `KeyTooLong`, `ValueTooLong`, `OutOfMemory`, `Unreachable`, `Unknown`.
    pub fn insert(
        &self,
        key: F::Key<'_>,
        value: F::Value<'_>,
    ) -> Result<Option<F::OwnedValue>, Error> {
        self.store.insert(key, value)
    }

    /// Sets the value of a key if it is `previous` now, where `None` stands for an absent key.
    /// Comparing and setting are one atomic step.
    ///
    /// # Errors
    /// As [`insert`](PoolMap::insert).
    pub fn update(
        &self,
        key: F::Key<'_>,
        previous: Option<F::Value<'_>>,
        value: F::Value<'_>,
    ) -> Result<Updated<F::OwnedValue>, Error> {
        self.store.update(key, previous, value).map(Updated::of)
    }

    /// Removes a key and answers its value, `None` if it was absent.
    ///
    /// # Errors
    /// `KeyTooLong`, `Unreachable`, `Unknown`.
    pub fn remove(&self, key: F::Key<'_>) -> Result<Option<F::OwnedValue>, Error> {
        self.store.remove(key)
    }

    /// The entry with the least key.
    ///
    /// # Errors
    /// `Unreachable`.
    pub fn first(&self) -> Result<Option<Entry<F>>, Error> {
        self.range(..).next().transpose()
    }

    /// The entry with the greatest key.
    ///
    /// # Errors
    /// `Unreachable`.
    pub fn last(&self) -> Result<Option<Entry<F>>, Error> {
        self.range(..).next_back().transpose()
    }

    /// The entries whose keys lie within a range, from both ends; see [`Map::range`](crate::Map::range).
    pub fn range<'k>(&self, bounds: impl RangeBounds<F::Key<'k>>) -> FallibleRange<'_, F> {
        let own = |bound: Bound<&F::Key<'k>>| bound.map(|&key| F::own_key(key));
        FallibleRange::new(self, own(bounds.start_bound()), own(bounds.end_bound()))
    }

    /// Executes a batch and writes an outcome for each of its operations, as executing them one
    /// after the other would, with many of them under way at once. Operations that fail alone have an
    /// [`Outcome::Failed`](crate::Outcome::Failed).
    ///
    /// # Errors
    /// `BatchTooLarge` above 16,777,216 operations, and `Unreachable` if this thread is new to the
    /// map and has no way to the nodes: nothing has been executed.
    pub fn execute(&self, batch: &mut Batch<F>) -> Result<(), Error> {
        self.store.execute(batch)
    }

    /// The values of many keys, in the order of `keys`, read in batches.
    ///
    /// # Errors
    /// As [`get`](PoolMap::get).
    pub fn get_many(&self, keys: &[F::Key<'_>]) -> Result<Vec<Option<F::OwnedValue>>, Error> {
        get_many(self, keys)
    }

    /// Inserts many entries, in their order, in batches; answers how many keys were absent before.
    /// Of entries with equal keys, the last one's value stays.
    ///
    /// # Errors
    /// The first one that an entry met; up to 4095 after it may have been inserted.
    pub fn insert_many(&self, entries: &[(F::Key<'_>, F::Value<'_>)]) -> Result<usize, Error> {
        insert_many(self, entries)
    }

    /// The number of entries; exact when no writer is at work. Reads all of them.
    ///
    /// # Errors
    /// `Unreachable`.
    pub fn len(&self) -> Result<usize, Error> {
        self.store.count()
    }

    /// True if there is no entry.
    ///
    /// # Errors
    /// `Unreachable`.
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.first()?.is_none())
    }

    /// The bytes that this process keeps of the map's inner nodes.
    pub fn cache_bytes(&self) -> usize {
        self.store.cache_bytes()
    }
}

impl<F: MapForm> OrderedIndex<F> for PoolMap<F> {
    fn execute(&self, batch: &mut Batch<F>) -> Result<(), Error> {
        self.store.execute(batch)
    }

    /// As [`PoolMap::len`]; 0 if the nodes do not answer.
    fn len(&self) -> usize {
        self.store.len()
    }
}
