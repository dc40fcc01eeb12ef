//! Methods of maps in a pool.

use super::Map;
use crate::form::MapForm;
use crate::placement::Pool;
use nearfield_pool::chime::LeafReads;

impl<F: MapForm> Map<F, Pool> {
    /// The bytes of inner nodes in this process's cache.
    pub fn cache_bytes(&self) -> usize {
        self.index.cache_bytes()
    }

    /// The leaves that ranges of this process have read, and where: in this process, or by programs
    /// at the memory nodes.
    ///
    /// ```no_run
    /// use nearfield::{Pool, WordMap};
    ///
    /// let map = WordMap::builder().pool(Pool::shm(["left"])).build()?;
    /// map.range(..).aggregate()?;
    /// assert_eq!(map.leaf_reads().at_nodes, 0, "it was built without programs");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn leaf_reads(&self) -> LeafReads {
        self.index.leaf_reads()
    }
}
