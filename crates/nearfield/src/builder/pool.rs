//! How a map in a pool is opened.

use crate::form::MapForm;
use crate::map::Map;
use crate::placement::Pool;
use nearfield_pool::store::{OpenError, StoreOptions};
use std::marker::PhantomData;

/// What a [`Map`] in a pool is opened with, where that is not the default; from
/// [`Builder::pool`](crate::Builder::pool).
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct PoolBuilder<F: MapForm> {
    pool: Pool,
    options: StoreOptions,
    form: PhantomData<F>,
}

impl<F: MapForm> PoolBuilder<F> {
    pub(crate) fn new(pool: Pool) -> PoolBuilder<F> {
        let mut options = StoreOptions::default();
        // The keys of a batch are looked for by one post for many of them, unless there is a guess
        // for each: that would read less, which saves nothing in shared memory, by a message for
        // each over TCP.
        options.tree.hotspot_bytes = 0;
        PoolBuilder {
            pool,
            options,
            form: PhantomData,
        }
    }

    /// What this process keeps of the map at most, in bytes, 100 MiB by default. About half a byte
    /// for each entry saves all reads of inner nodes.
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.options.tree.cache_bytes = bytes;
        self
    }

    /// The longest key in bytes, 32 by default, up to 4094; every entry takes as much. All who open
    /// the map have to agree on it. Of no meaning for words.
    pub fn key_bytes_max(mut self, bytes: usize) -> Self {
        self.options.key_bytes_max = bytes;
        self
    }

    /// The longest value in bytes that is read with its key, 16 by default, 12 to 254; every entry
    /// takes as much. Longer ones take another round trip. All who open the map have to agree on
    /// it. Of no meaning for words.
    pub fn inline_bytes_max(mut self, bytes: usize) -> Self {
        self.options.inline_bytes_max = bytes;
        self
    }

    /// How many operations of a batch a thread has under way at most, 64 by default. Of those that
    /// change something it is up to 16.
    pub fn in_flight(mut self, operations: usize) -> Self {
        self.options.in_flight = operations;
        self
    }

    /// Opens the map that lies on these nodes, or makes an empty one if there is none.
    ///
    /// # Errors
    /// `Connect` if there is no way to a node; `Pool` if what lies there was made with other
    /// lengths, if there is no room, or a node does not answer; `KeyBytes`, `NoNodes`. Nodes that
    /// are not registered in etcd are waited for, up to 30 s.
    ///
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// use nearfield::{OpenError, Pool, WordMap};
    ///
    /// let error = WordMap::builder().pool(Pool::shm(["nobody"])).build().unwrap_err();
    /// assert!(error.to_string().starts_with("there is no memory node nobody"));
    /// # }
    /// ```
    pub fn build(self) -> Result<Map<F, Pool>, OpenError> {
        self.pool.open(&self.options).map(Map::of)
    }
}
