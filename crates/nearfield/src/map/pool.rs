//! Methods of maps in a pool.

use super::Map;
use crate::form::MapForm;
use crate::placement::Pool;

impl<F: MapForm> Map<F, Pool> {
    /// The bytes of inner nodes in this process's cache.
    pub fn cache_bytes(&self) -> usize {
        self.index.cache_bytes()
    }
}
