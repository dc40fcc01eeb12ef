//! An index with values stored outside it, each in a block of its own that an entry points to. The
//! paper's figures 13 and 18d store values of any length like this.
//!
//! ```text
//! block | length of the rest of the key 8 | length of the value 8 | value |
//! ```
//!
//! A read takes one more round trip, with a message of 16 bytes and the value. A write first puts
//! the value into a new block, with one more round trip, too. Blocks are not reused.

use super::system::{EntryValueForm, IndexLoadEntries, PoolIndexSystem};
use nearfield_fabric::transport::sim::SimEndpoint;
use nearfield_fabric::{Endpoint, FabricArena, FabricVerb, GlobalAddress, NodeId};
use nearfield_pool::{Entry, PoolError, PoolIndexClient};
use std::sync::Arc;

/// Bytes of a pointer, which the index stores as the value.
pub(super) const POINTER_BYTES: usize = 8;
/// Bytes of the lengths at the beginning of a block.
const HEADER_BYTES: usize = 16;
/// Bytes that a client allocates from a node at once.
const CHUNK_BYTES: u64 = 1 << 16;

/// An index of pointers, and the length of values.
pub(super) struct Indirect<S> {
    pub index: S,
    pub value_bytes: usize,
}

/// The state that the clients of a compute node share.
pub(super) struct IndirectNode<N> {
    node: Arc<N>,
    value_bytes: usize,
}

/// One client's view of the index.
pub(super) struct IndirectIndex<I> {
    index: I,
    endpoint: SimEndpoint,
    arena: FabricArena,
    value_bytes: usize,
}

impl<S: PoolIndexSystem + 'static> PoolIndexSystem for Indirect<S> {
    type ComputeNode = IndirectNode<S::ComputeNode>;
    type Index = IndirectIndex<S::Index>;

    fn tree(&self) -> String {
        let (index, value_bytes) = (self.index.tree(), self.value_bytes);
        format!("{index} of values of {value_bytes} bytes")
    }

    fn compute_node(&self) -> Result<Arc<Self::ComputeNode>, PoolError> {
        let value_bytes = self.value_bytes;
        let node = self.index.compute_node()?;
        Ok(Arc::new(IndirectNode { node, value_bytes }))
    }

    fn cache_bytes(node: &Self::ComputeNode) -> usize {
        S::cache_bytes(&node.node)
    }

    fn guesses(node: &Self::ComputeNode) -> Option<[u64; 2]> {
        S::guesses(&node.node)
    }

    fn learn_from(node: &Self::ComputeNode, other: &Self::ComputeNode) {
        S::learn_from(&node.node, &other.node);
    }

    async fn load(
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
        node: Arc<Self::ComputeNode>,
        entries: IndexLoadEntries,
    ) -> Result<(), PoolError> {
        let stride = (HEADER_BYTES + node.value_bytes).next_multiple_of(64) as u64;
        let bytes = entries.count as u64 * stride;
        let first = endpoint.allocate(nodes[0], bytes).await?;
        for position in 0..entries.count {
            let at = first.plus(position as u64 * stride);
            let value = entries.keys.value(position, 0);
            debug_assert_eq!(value.len(), node.value_bytes, "blocks have one length");
            endpoint.write(at, &block(&value)).await?;
            if entries.interrupt.is_raised() {
                return Ok(());
            }
        }
        let values = EntryValueForm::At { first, stride };
        let entries = IndexLoadEntries { values, ..entries };
        S::load(endpoint, nodes, Arc::clone(&node.node), entries).await
    }

    async fn open(
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
        node: Arc<Self::ComputeNode>,
    ) -> Result<Self::Index, PoolError> {
        let arena = FabricArena::new(&nodes, CHUNK_BYTES);
        let index = S::open(endpoint.clone(), nodes, Arc::clone(&node.node)).await?;
        Ok(IndirectIndex {
            index,
            endpoint,
            arena,
            value_bytes: node.value_bytes,
        })
    }
}

fn block(value: &[u8]) -> Vec<u8> {
    // Keys are whole in their entries, so the block has no rest of one.
    let lengths = [0, value.len() as u64].map(u64::to_le_bytes);
    [lengths.as_flattened(), value].concat()
}

/// Decodes the address of a value from the index; returns `None` if it is no pointer.
fn pointer(value: &[u8]) -> Option<GlobalAddress> {
    let bits = value.first_chunk()?;
    Some(GlobalAddress::from_bits(u64::from_le_bytes(*bits)))
}

impl<I> IndirectIndex<I> {
    async fn store_value(&self, value: &[u8]) -> Result<[u8; POINTER_BYTES], PoolError> {
        debug_assert_eq!(value.len(), self.value_bytes, "readers fetch this length");
        let block = block(value);
        let length = block.len() as u64;
        let at = self.arena.allocate(&self.endpoint, length).await?;
        self.endpoint.write(at, &block).await?;
        Ok(at.to_bits().to_le_bytes())
    }

    /// Reads the blocks that pointers point to, in one round trip.
    async fn follow<'v>(
        &self,
        pointers: impl Iterator<Item = &'v [u8]>,
    ) -> Result<Vec<Vec<u8>>, PoolError> {
        let length = HEADER_BYTES + self.value_bytes;
        let blocks = pointers.filter_map(pointer).map(|at| (at, vec![0; length]));
        let mut blocks: Vec<(GlobalAddress, Vec<u8>)> = blocks.collect();
        let reads = blocks.iter_mut();
        let mut reads: Vec<FabricVerb<'_>> = reads
            .map(|(from, into)| FabricVerb::Read { from: *from, into })
            .collect();
        if !reads.is_empty() {
            self.endpoint.post(&mut reads).await?;
        }
        drop(reads);
        let values = blocks.into_iter();
        Ok(values
            .map(|(_, mut block)| block.split_off(HEADER_BYTES))
            .collect())
    }
}

/// Writes return the previous pointer instead of the previous value.
impl<I: PoolIndexClient> PoolIndexClient for IndirectIndex<I> {
    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        let found = self.index.get(key).await?;
        let values = self.follow(found.iter().map(|value| &value[..])).await?;
        Ok(values.into_iter().next())
    }

    async fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        // Before the index takes a lock, so that no other client waits for this round trip.
        let pointer = self.store_value(value).await?;
        // The previous pointer is returned as it is: reading its block would be a round trip that
        // none of the paper's indexes takes.
        self.index.insert(key, &pointer).await
    }

    async fn update(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        let pointer = self.store_value(value).await?;
        self.index.update(key, &pointer).await
    }

    async fn overwrite(&self, key: &[u8], value: &[u8]) -> Result<bool, PoolError> {
        let pointer = self.store_value(value).await?;
        self.index.overwrite(key, &pointer).await
    }

    async fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.index.remove(key).await
    }

    async fn scan(&self, from: &[u8], count: usize) -> Result<Vec<Entry>, PoolError> {
        let mut entries = self.index.scan(from, count).await?;
        let pointers = entries.iter().map(|(_, value)| &value[..]);
        let values = self.follow(pointers).await?;
        debug_assert_eq!(entries.len(), values.len(), "each entry has a pointer");
        for (entry, value) in entries.iter_mut().zip(values) {
            entry.1 = value;
        }
        Ok(entries)
    }
}
