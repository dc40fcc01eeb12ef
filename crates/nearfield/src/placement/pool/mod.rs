//! The placement in the memory of memory nodes, which processes and machines share.

mod builder;
#[cfg(target_os = "linux")]
mod transport;

pub use builder::{Pool, PoolBuilder};

use super::by_batch::scan_by_batch;
use super::{Bounds, Placement, fallible_reads, sealed};
use crate::{Map, MapForm};
use nearfield_core::{Batch, Direction, Error, OrderedIndex};
use nearfield_fabric::Endpoint;
use nearfield_pool::store::Store;
use nearfield_radix::Entry;
use std::fmt::Debug;

/// What a map asks of a store, whichever transport leads to its nodes.
trait AnyStore<F: MapForm>: OrderedIndex<F> + Debug {
    fn count(&self) -> Result<usize, Error>;
    fn cache_bytes(&self) -> usize;
}

impl<F: MapForm, E: Endpoint + 'static> AnyStore<F> for Store<F, E> {
    fn count(&self) -> Result<usize, Error> {
        Store::count(self)
    }

    fn cache_bytes(&self) -> usize {
        Store::cache_bytes(self)
    }
}

/// The store of a map. A call of it takes at least a round trip, beside which looking up the
/// transport is nothing.
#[doc(hidden)]
#[derive(Debug)]
pub struct PoolIndex<F: MapForm> {
    store: Box<dyn AnyStore<F>>,
}

impl<F: MapForm> PoolIndex<F> {
    fn new<E: Endpoint + 'static>(store: Store<F, E>) -> PoolIndex<F> {
        let store = Box::new(store);
        PoolIndex { store }
    }
}

impl<F: MapForm> OrderedIndex<F> for PoolIndex<F> {
    fn execute(&self, batch: &mut Batch<F>) -> Result<(), Error> {
        self.store.execute(batch)
    }

    fn len(&self) -> usize {
        self.store.len()
    }

    fn get(&self, key: F::Key<'_>) -> Result<Option<F::OwnedValue>, Error> {
        self.store.get(key)
    }

    fn insert(&self, key: F::Key<'_>, value: F::Value<'_>) -> Result<Option<F::OwnedValue>, Error> {
        self.store.insert(key, value)
    }

    fn update(
        &self,
        key: F::Key<'_>,
        previous: Option<F::Value<'_>>,
        value: F::Value<'_>,
    ) -> Result<(bool, Option<F::OwnedValue>), Error> {
        self.store.update(key, previous, value)
    }

    fn remove(&self, key: F::Key<'_>) -> Result<Option<F::OwnedValue>, Error> {
        self.store.remove(key)
    }

    fn remove_if(
        &self,
        key: F::Key<'_>,
        expected: F::Value<'_>,
    ) -> Result<(bool, Option<F::OwnedValue>), Error> {
        self.store.remove_if(key, expected)
    }
}

impl sealed::Sealed for Pool {}

impl<F: MapForm> Placement<F> for Pool {
    fallible_reads!();
    type Value<'m> = F::OwnedValue;
    type Index = PoolIndex<F>;

    fn get(index: &PoolIndex<F>, key: F::Key<'_>) -> Result<Option<F::OwnedValue>, Error> {
        OrderedIndex::get(index, key)
    }

    fn len(index: &PoolIndex<F>) -> Result<usize, Error> {
        index.store.count()
    }

    fn scan(
        index: &PoolIndex<F>,
        bounds: Bounds<'_, F>,
        direction: Direction,
        limit: usize,
        found: impl FnMut(Entry<F>),
    ) -> Result<bool, Error> {
        scan_by_batch(index, bounds, direction, limit, found)
    }
}

impl<F: MapForm> Map<F, Pool> {
    /// The bytes that this process keeps of the map's inner nodes.
    pub fn cache_bytes(&self) -> usize {
        self.index.store.cache_bytes()
    }
}
