//! Builders of maps, by placement.

mod local;
#[cfg(feature = "pim")]
mod pim;
#[cfg(feature = "pool")]
mod pool;
#[cfg(feature = "tiers")]
mod tiered;

#[cfg(feature = "pim")]
pub use pim::PimBuilder;
#[cfg(feature = "pool")]
pub use pool::PoolBuilder;
#[cfg(feature = "tiers")]
pub use tiered::TieredBuilder;

use crate::form::MapForm;
use crate::map::OrderedMap;
#[cfg(feature = "pim")]
use crate::placement::Pim;
#[cfg(feature = "pool")]
use crate::placement::PoolPlacement;
use nearfield_core::{ByteStrings, OperationError, Words};
use nearfield_radix::{EngineOptions, RadixIndex, RadixLoader};
use std::marker::PhantomData;

/// Builder of an [`OrderedMap`] with options other than the defaults.
///
/// ```
/// use nearfield::{EngineOptions, WordMap};
///
/// let map = WordMap::builder()
///     .memory_limit(64 << 20)
///     .engine_options(EngineOptions::operation_centric())
///     .build()?;
/// assert!(map.is_empty());
/// # Ok::<(), nearfield::OperationError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder has no effect until it builds"]
pub struct MapBuilder<F: MapForm> {
    memory_limit: usize,
    engine_options: EngineOptions,
    form: PhantomData<F>,
}

impl<F: MapForm> Default for MapBuilder<F> {
    fn default() -> Self {
        MapBuilder {
            memory_limit: usize::MAX,
            engine_options: EngineOptions::default(),
            form: PhantomData,
        }
    }
}

impl<F: MapForm> MapBuilder<F> {
    /// Sets the greatest number of bytes that nodes, keys and values may take; no limit by default.
    /// Writes that would need more fail with `OutOfMemory` and change nothing.
    ///
    /// ```
    /// use nearfield::{OperationError, WordMap};
    ///
    /// let map = WordMap::builder().memory_limit(1 << 20).build()?;
    /// let error = map.extend((0..1 << 20).map(|n| (n << 20, n))).unwrap_err();
    /// assert!(matches!(error, OperationError::OutOfMemory { .. }));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.memory_limit = bytes;
        self
    }

    /// Sets the techniques by which batches are executed. [`OrderedMap::set_engine_options`]
    /// changes them later.
    ///
    /// ```
    /// use nearfield::{Combine, EngineOptions, WordMap};
    ///
    /// let options = EngineOptions { combine: Combine::Always, ..EngineOptions::default() };
    /// let map = WordMap::builder().engine_options(options).build()?;
    /// assert_eq!(map.engine_options().combine, Combine::Always);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn engine_options(mut self, options: EngineOptions) -> Self {
        self.engine_options = options;
        self
    }

    /// Places the map in the memory of memory nodes, which other threads and processes share.
    /// Options set earlier have no effect. Needs the feature `pool`.
    ///
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// use nearfield::{ByteStrings, OrderedMap, PoolPlacement};
    /// # use nearfield_fabric::{NodeId, transport::shm::ShmNode};
    /// # use std::sync::atomic::{AtomicBool, Ordering};
    /// # let name = format!("builder-{}", std::process::id());
    /// # let node = ShmNode::create(&name, NodeId(0), 64 << 20)?;
    /// # let stop = AtomicBool::new(false);
    /// # std::thread::scope(|scope| {
    /// # scope.spawn(|| node.serve(&stop));
    ///
    /// // `name` is that of a node: `nearfield memory-node --listen shm:NAME --size 1gb`
    /// let map = OrderedMap::<ByteStrings>::builder().pool(PoolPlacement::shm([&name])).build()?;
    /// map.insert(b"ann", b"1")?;
    ///
    /// // Another process would do the same to share the entries.
    /// let same = OrderedMap::<ByteStrings>::builder().pool(PoolPlacement::shm([&name])).build()?;
    /// assert_eq!(same.get(b"ann")?, Some(b"1".to_vec()));
    /// # stop.store(true, Ordering::Relaxed);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "pool")]
    pub fn pool(self, pool: PoolPlacement) -> PoolBuilder<F> {
        // Nodes set the size of their memory, and the engine's options are those of the local tree.
        PoolBuilder::new(pool)
    }

    /// Places the map in modules, each of which owns a part of the keys and executes batches. A
    /// memory limit set earlier applies to all modules together; engine options have no effect.
    /// Needs the feature `pim`.
    ///
    /// ```
    /// use nearfield::{Batch, ByteStrings, OrderedMap, Pim};
    ///
    /// let builder = OrderedMap::<ByteStrings>::builder().memory_limit(64 << 20);
    /// let map = builder.pim(Pim::workers()).build()?;
    /// map.insert(b"ann", b"1")?;
    /// let mut batch = Batch::<ByteStrings>::new();
    /// for name in ["bob", "cid", "dan"] {
    ///     batch.insert(name.as_bytes(), b"2");
    /// }
    /// map.execute(&mut batch)?;
    /// assert_eq!(map.get(b"cid")?, Some(b"2".to_vec()));
    ///
    /// let names = map.range(&b"b"[..]..).map(|entry| Ok(entry?.0));
    /// let names: Vec<_> = names.collect::<Result<_, nearfield::OperationError>>()?;
    /// assert_eq!(names, [b"bob", b"cid", b"dan"]);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    #[cfg(feature = "pim")]
    pub fn pim(self, pim: Pim) -> PimBuilder<F> {
        PimBuilder::new(pim, self.memory_limit)
    }

    /// Creates an empty map.
    ///
    /// # Errors
    /// `OutOfMemory` if the system grants no address space, or the limit is too small for an
    /// empty map.
    ///
    /// ```
    /// use nearfield::{ByteStrings, OrderedMap};
    ///
    /// let map = OrderedMap::<ByteStrings>::builder().build()?;
    /// assert!(map.is_empty());
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn build(self) -> Result<OrderedMap<F>, OperationError> {
        RadixIndex::with_memory_limit(self.memory_limit).map(|radix| self.place(radix))
    }

    fn load(
        self,
        fill: impl FnOnce(&mut RadixLoader<F>) -> Result<(), OperationError>,
    ) -> Result<OrderedMap<F>, OperationError> {
        let mut loader = RadixLoader::new(self.memory_limit)?;
        fill(&mut loader)?;
        loader.finish().map(|radix| self.place(radix))
    }

    fn place(&self, radix: RadixIndex<F>) -> OrderedMap<F> {
        radix.set_options(self.engine_options);
        OrderedMap::of(radix)
    }
}

impl MapBuilder<ByteStrings> {
    /// Places the map in tiers, the fastest first: memory, compressed memory and files, one of each
    /// kind at most. Keys, and the values that are used most, are stored in memory while it has
    /// room. A value of at least 64 bytes moves to another tier as it is used less, or more. A
    /// memory limit set earlier has no effect. Needs the feature `tiers`.
    ///
    /// ```
    /// use nearfield::{ByteStrings, OrderedMap, Tier};
    ///
    /// let folder = std::env::temp_dir();
    /// let map = OrderedMap::<ByteStrings>::builder()
    ///     .tiers([
    ///         Tier::memory(8 << 20),
    ///         Tier::compressed(8 << 20),
    ///         Tier::file(folder, 64 << 20),
    ///     ])
    ///     .build()?;
    /// // More than the memory takes.
    /// for number in 0_u32..16_000 {
    ///     let page = format!("<p>page {number}</p>").repeat(100);
    ///     map.insert(&number.to_be_bytes(), page.as_bytes())?;
    /// }
    /// let first = map.get(&0_u32.to_be_bytes())?;
    /// assert_eq!(first, Some("<p>page 0</p>".repeat(100).into_bytes()));
    /// let cold: u64 = map.tiers()[1..].iter().map(|tier| tier.values).sum();
    /// assert!(cold > 8_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tiers")]
    pub fn tiers(self, tiers: impl IntoIterator<Item = crate::Tier>) -> TieredBuilder {
        // The size of the first tier replaces the memory limit.
        TieredBuilder::new(tiers.into_iter().collect(), self.engine_options)
    }

    /// Creates a map of entries in strictly ascending order; see [`OrderedMap::from_sorted`].
    ///
    /// # Errors
    /// Those of `OrderedMap::from_sorted`.
    ///
    /// ```
    /// use nearfield::{ByteStrings, OrderedMap};
    ///
    /// let builder = OrderedMap::<ByteStrings>::builder().memory_limit(1 << 20);
    /// let map = builder.from_sorted([("ann", "1"), ("bob", "2")])?;
    /// assert_eq!(map.len(), 2);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn from_sorted<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<OrderedMap<ByteStrings>, OperationError> {
        self.load(|loader| {
            let mut entries = entries.into_iter();
            entries.try_for_each(|(key, value)| loader.push(key.as_ref(), value.as_ref()))
        })
    }
}

impl MapBuilder<Words> {
    /// Creates a map of entries in strictly ascending order; see [`OrderedMap::from_sorted`].
    ///
    /// # Errors
    /// Those of `OrderedMap::from_sorted`.
    ///
    /// ```
    /// use nearfield::WordMap;
    ///
    /// let map = WordMap::builder().memory_limit(1 << 20).from_sorted([(1, 10)])?;
    /// assert_eq!(map.get(1), Some(10));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn from_sorted(
        self,
        entries: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<OrderedMap<Words>, OperationError> {
        self.load(|loader| {
            let mut entries = entries.into_iter();
            entries.try_for_each(|(key, value)| loader.push(key, value))
        })
    }
}
