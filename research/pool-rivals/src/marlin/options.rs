//! The options, and the state that the clients of a compute node share.

use super::layout::MarlinLayout;
use super::leaf_map::MarlinLeafMap;
use nearfield_pool::PoolError;
use nearfield_pool::chime::{ChimeComputeNode, ChimeOptions};
use nearfield_pool::coordination::ClientCoordination;
use nearfield_pool::layout::PoolIndexShape;
use std::sync::Arc;

/// The part of the cache that is for the inner nodes, which are used only where no leaf is known.
const INNER_PART: usize = 8;
/// Bytes of a cache that has room for some inner nodes.
const INNER_BYTES_MIN: usize = 1 << 13;

/// The options. The default is CHIME's comparison: leaves of 64 slots, and 100 MB for the cache of
/// a compute node.
#[derive(Clone, Debug)]
pub struct MarlinOptions {
    /// The length of every key, in bytes.
    pub key_bytes: usize,
    /// The length of every value, in bytes.
    pub value_bytes: usize,
    /// Number of slots of a leaf, at least 2.
    pub leaf_span: usize,
    /// The budget of a compute node's cache, in bytes.
    pub cache_bytes: usize,
    /// The techniques of the inner nodes. Their sizes of keys, values and caches are ignored.
    pub inner: ChimeOptions,
    /// True if one client of a compute node reads a key for all clients that want it (read
    /// delegation: SMART).
    pub delegates_reads: bool,
    /// True if one client of a compute node writes a key for all concurrent writers, except for
    /// removals (write combining: SMART).
    pub combines_writes: bool,
}

impl Default for MarlinOptions {
    fn default() -> MarlinOptions {
        MarlinOptions {
            key_bytes: 8,
            value_bytes: 8,
            leaf_span: 64,
            cache_bytes: 100 << 20,
            inner: ChimeOptions::nearfield(),
            delegates_reads: true,
            combines_writes: true,
        }
    }
}

impl MarlinOptions {
    /// Returns the layout of leaves and blocks.
    pub fn layout(&self) -> MarlinLayout {
        MarlinLayout::new(self.key_bytes, self.value_bytes, self.leaf_span.max(2))
    }

    fn inner(&self) -> ChimeOptions {
        let cache_bytes = match self.cache_bytes / INNER_PART {
            bytes if bytes >= INNER_BYTES_MIN => bytes,
            _ => 0,
        };
        ChimeOptions {
            shape: PoolIndexShape {
                key_bytes: self.key_bytes,
                // The address of a leaf.
                value_bytes: 8,
                ..self.inner.shape
            },
            cache_bytes,
            hotspot_bytes: 0,
            ..self.inner
        }
    }
}

/// The state that the clients of one compute node share: known leaves, inner nodes, and their
/// coordination.
#[derive(Debug)]
pub struct MarlinComputeNode {
    pub(super) options: MarlinOptions,
    pub(super) leaves: MarlinLeafMap,
    pub(super) inner: Arc<ChimeComputeNode>,
    pub(super) delegation: ClientCoordination,
}

impl MarlinComputeNode {
    /// Creates a compute node that knows nothing yet.
    ///
    /// # Errors
    /// `Geometry` if the sizes are invalid.
    pub fn new(options: MarlinOptions) -> Result<MarlinComputeNode, PoolError> {
        let inner = options.inner();
        Ok(MarlinComputeNode {
            leaves: MarlinLeafMap::new(options.cache_bytes - inner.cache_bytes),
            inner: Arc::new(ChimeComputeNode::new(inner)?),
            delegation: ClientCoordination::new(options.delegates_reads, options.combines_writes),
            options,
        })
    }

    /// Copies the cache of another compute node of the same index and options.
    pub fn learn_from(&self, other: &MarlinComputeNode) {
        self.leaves.learn_from(&other.leaves);
        self.inner.learn_from(&other.inner);
    }

    /// Returns the bytes of the cache with its content.
    pub fn cache_bytes(&self) -> usize {
        size_of::<MarlinComputeNode>() + self.leaves.bytes() + self.inner.cache_bytes()
    }
}
