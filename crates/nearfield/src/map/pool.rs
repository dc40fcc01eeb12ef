//! What a map in a pool has of its own.

use super::Map;
use crate::form::MapForm;
use crate::placement::Pool;

impl<F: MapForm> Map<F, Pool> {
    /// The bytes that this process keeps of the map's inner nodes.
    pub fn cache_bytes(&self) -> usize {
        self.index.cache_bytes()
    }
}
