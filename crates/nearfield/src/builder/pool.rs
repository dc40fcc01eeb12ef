//! Opening of maps in a pool.

use crate::form::MapForm;
use crate::map::OrderedMap;
use crate::placement::{PoolPlacement, ProgramNodes};
use nearfield_offload::node::Tenant;
use nearfield_offload::wire::AuthenticationKey;
use nearfield_pool::store::{StoreOpenError, StoreOptions};
use std::marker::PhantomData;
use std::net::SocketAddrV4;

/// Builder that opens an [`OrderedMap`] in a pool, with options other than the defaults; from
/// [`MapBuilder::pool`](crate::MapBuilder::pool).
///
/// ```
/// use nearfield::{ByteStrings, OrderedMap, PoolPlacement};
///
/// let names = OrderedMap::<ByteStrings>::builder().pool(PoolPlacement::shm(["left", "right"]));
/// let names = names.key_bytes_max(64).cache_bytes(16 << 20);
/// # drop(names);
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder has no effect until it builds"]
pub struct PoolBuilder<F: MapForm> {
    pool: PoolPlacement,
    options: StoreOptions,
    programs: Option<ProgramNodes>,
    form: PhantomData<F>,
}

impl<F: MapForm> PoolBuilder<F> {
    pub(crate) fn new(pool: PoolPlacement) -> PoolBuilder<F> {
        let mut options = StoreOptions::default();
        // No hotspot buffer: a batch posts the reads of many neighborhoods together, but each
        // guessed read on its own. Such reads fetch less. That saves nothing in shared memory, and
        // over TCP it costs one message for each guess.
        options.tree.hotspot_bytes = 0;
        PoolBuilder {
            pool,
            options,
            programs: None,
            form: PhantomData,
        }
    }

    /// Sets the size of this process's cache of inner nodes in bytes, 100 MiB by default. With
    /// about half a byte for each entry, all inner nodes fit.
    ///
    /// ```
    /// use nearfield::{ByteStrings, OrderedMap, PoolPlacement};
    ///
    /// // Saves the reads of inner nodes for about 32 million entries.
    /// let pool = PoolPlacement::shm(["left"]);
    /// let users = OrderedMap::<ByteStrings>::builder().pool(pool).cache_bytes(16 << 20);
    /// # drop(users);
    /// ```
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.options.tree.cache_bytes = bytes;
        self
    }

    /// Sets the greatest length of a key in bytes, 32 by default, up to 4094. Every entry reserves
    /// this length, unless [`key_slot_bytes`](PoolBuilder::key_slot_bytes) is less. All processes
    /// must open the map with the same length. Maps of words ignore it.
    ///
    /// ```
    /// use nearfield::{ByteStrings, OrderedMap, PoolPlacement};
    ///
    /// // The name of a user has up to 64 bytes.
    /// let pool = PoolPlacement::shm(["left"]);
    /// let users = OrderedMap::<ByteStrings>::builder().pool(pool).key_bytes_max(64);
    /// # drop(users);
    /// ```
    pub fn key_bytes_max(mut self, bytes: usize) -> Self {
        self.options.key_bytes_max = bytes;
        self
    }

    /// Sets the greatest length of a key in bytes that its entry holds as a whole: by default all.
    /// Every entry reserves this length and 6 bytes at most. The rest of a longer key is stored
    /// elsewhere, with the value, and takes another round trip. All processes must open the map
    /// with the same length. Maps of words ignore it.
    ///
    /// A range that begins or ends among keys whose first bytes, up to this length, are the same
    /// reads all of them.
    ///
    /// ```
    /// use nearfield::{ByteStrings, OrderedMap, PoolPlacement};
    ///
    /// // Most addresses have up to 64 bytes, and few up to 2,000.
    /// let pool = PoolPlacement::shm(["left"]);
    /// let pages = OrderedMap::<ByteStrings>::builder().pool(pool);
    /// let pages = pages.key_bytes_max(2000).key_slot_bytes(64);
    /// # drop(pages);
    /// ```
    pub fn key_slot_bytes(mut self, bytes: usize) -> Self {
        self.options.key_slot_bytes = Some(bytes);
        self
    }

    /// Sets the greatest length in bytes of a value that is stored beside its key, 16 by default,
    /// 12 to 254. Every entry reserves this length. Reading a longer value takes another round
    /// trip. All processes must open the map with the same length. Maps of words ignore it.
    ///
    /// ```
    /// use nearfield::{ByteStrings, OrderedMap, PoolPlacement};
    ///
    /// // Values of up to 100 bytes are read together with their keys.
    /// let pool = PoolPlacement::shm(["left"]);
    /// let users = OrderedMap::<ByteStrings>::builder().pool(pool).inline_bytes_max(100);
    /// # drop(users);
    /// ```
    pub fn inline_bytes_max(mut self, bytes: usize) -> Self {
        self.options.inline_bytes_max = bytes;
        self
    }

    /// Sets the greatest number of operations of a batch that a thread has in flight, 64 by
    /// default. At most 16 of them are writes, of which all on keys of one leaf count as one.
    ///
    /// ```
    /// use nearfield::{ByteStrings, OrderedMap, PoolPlacement};
    ///
    /// // Few operations at once, for a network with short queues.
    /// let pool = PoolPlacement::shm(["left"]);
    /// let users = OrderedMap::<ByteStrings>::builder().pool(pool).in_flight(16);
    /// # drop(users);
    /// ```
    pub fn in_flight(mut self, operations: usize) -> Self {
        self.options.in_flight = operations;
        self
    }

    /// Sets the number of memory nodes that have each byte, 1 by default or 2
    /// ([`PoolPlacement::with_replicas`]).
    ///
    /// ```
    /// use nearfield::{PoolPlacement, WordMap};
    ///
    /// let pool = PoolPlacement::shm(["left", "right"]);
    /// let counts = WordMap::builder().pool(pool).replicas(2);
    /// # drop(counts);
    /// ```
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.pool = self.pool.with_replicas(replicas);
        self
    }

    /// Makes filtered ranges and aggregates run as programs at the memory nodes, which must have
    /// been started with `--offload`. `tenant` must have the right to read the map's memory.
    /// `switch` is the address of the switch, or of the only memory node. Maps of byte strings
    /// ignore this option. If programs cannot run, this process reads the leaves, with the same
    /// results; [`OrderedMap::leaf_reads`] counts both.
    ///
    /// ```
    /// use nearfield::{AuthenticationKey, PoolPlacement, Tenant, WordMap};
    ///
    /// let key: AuthenticationKey = "0a".repeat(32).parse()?;
    /// let sales = WordMap::builder().pool(PoolPlacement::shm(["left", "right"]));
    /// let sales = sales.programs("127.0.0.1:7000".parse()?, Tenant(1), key);
    /// # drop(sales);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn programs(
        mut self,
        switch: SocketAddrV4,
        tenant: Tenant,
        key: AuthenticationKey,
    ) -> Self {
        self.programs = Some(ProgramNodes {
            switch,
            tenant,
            key,
        });
        self
    }

    /// Opens the map on these nodes, or creates an empty one if there is none.
    ///
    /// # Errors
    /// `Connect` if no connection to a node succeeds; `PoolPlacement` if the map was created with
    /// other lengths, or if a node has no room or does not respond; `KeyBytes`, `NoNodes`. The call
    /// waits up to 30 s for nodes to register in etcd. A map that exists is opened without those
    /// of its nodes that cannot be reached, except the first: their keys fail.
    ///
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// use nearfield::{StoreOpenError, PoolPlacement, WordMap};
    ///
    /// let error = WordMap::builder().pool(PoolPlacement::shm(["nobody"])).build().unwrap_err();
    /// assert!(error.to_string().starts_with("memory node nobody does not exist"));
    /// # }
    /// ```
    pub fn build(self) -> Result<OrderedMap<F, PoolPlacement>, StoreOpenError> {
        let opened = self.pool.open(&self.options, self.programs);
        opened.map(OrderedMap::of)
    }
}
