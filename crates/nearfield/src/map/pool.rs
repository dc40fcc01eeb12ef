//! Methods of maps in a pool.

use super::OrderedMap;
use crate::form::MapForm;
use crate::placement::{PoolPlacement, PoolUse};
use nearfield_core::OperationError;
use nearfield_pool::chime::LeafReads;

impl<F: MapForm> OrderedMap<F, PoolPlacement> {
    /// Sets the value of a key, present or not, without returning the old one. This is cheaper than
    /// [`insert`](OrderedMap::insert): an old value outside its leaf is not read, nor is a word
    /// that this process has put recently.
    ///
    /// # Errors
    /// `KeyTooLong`, `OutOfMemory`, `Unreachable` if nothing was changed, and `Unknown` if a memory
    /// node was lost meanwhile.
    ///
    /// ```no_run
    /// use nearfield::{PoolPlacement, WordMap};
    ///
    /// let map = WordMap::builder().pool(PoolPlacement::shm(["left"])).build()?;
    /// map.put(7, 1)?;
    /// map.put(7, 2)?;
    /// assert_eq!(map.get(7)?, Some(2));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn put(&self, key: F::Key<'_>, value: F::Value<'_>) -> Result<(), OperationError> {
        self.index.put(key, value)
    }

    /// Returns the number of bytes of inner nodes in this process's cache.
    pub fn cache_bytes(&self) -> usize {
        self.index.cache_bytes()
    }

    /// Returns the use of the pool by this process: the state of each memory node, as operations
    /// have found it, and the memory of its cache. No round trip.
    ///
    /// ```no_run
    /// use nearfield::{PoolPlacement, WordMap};
    ///
    /// let map = WordMap::builder().pool(PoolPlacement::shm(["left", "right"])).build()?;
    /// assert!(map.pool_use().nodes.iter().all(|node| node.is_served));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn pool_use(&self) -> PoolUse {
        self.index.pool_use()
    }

    /// Returns the numbers of leaves that ranges of this process have read: in this process, and by
    /// programs at the memory nodes.
    ///
    /// ```no_run
    /// use nearfield::{PoolPlacement, WordMap};
    ///
    /// let map = WordMap::builder().pool(PoolPlacement::shm(["left"])).build()?;
    /// map.range(..).aggregate()?;
    /// assert_eq!(map.leaf_reads().at_nodes, 0, "it was built without programs");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn leaf_reads(&self) -> LeafReads {
        self.index.leaf_reads()
    }
}
