//! A tree with keys of many lengths, of which the long ones are stored apart, as maps in a pool do:
//! a slot has the beginning of a long key and a hash, and refers to a block with its rest and its
//! value.
//!
//! ```text
//! block | number of keys 4 | length of rest 2 | length of value 4 | rest | value |
//! ```
//!
//! A long key takes one round trip more to read. A change of it reads the block and writes another
//! one under the lock of the leaf: other keys might share the block. None do here, because the
//! first word of a key identifies it. Blocks are not reused.

use super::system::{IndexLoadEntries, PoolIndexSystem, ROOT};
use nearfield_fabric::transport::sim::SimEndpoint;
use nearfield_fabric::{Endpoint, FabricArena, FabricVerb, GlobalAddress, NodeId};
use nearfield_pool::chime::{ChimeComputeNode, ChimeOptions, ChimeTree, KeyChangeDecision};
use nearfield_pool::{Entry, PoolError, PoolIndexClient};
use std::sync::Arc;

/// Bytes of a value, and of the beginning that identifies a key.
const WORD_BYTES: usize = 8;
/// Bytes of a slot's key behind the key or its beginning: a length, and a hash.
const SUFFIX_BYTES: usize = 1 + 4;
/// Bytes of a slot's value: the length and the address of a block, or a word and zeros.
const SLOT_VALUE_BYTES: usize = 4 + 8;
/// Bytes of the fields of a block.
const FIELD_BYTES: usize = 4 + 2 + 4;
/// Bytes that a client allocates from a node at once.
const CHUNK_BYTES: u64 = 1 << 16;

/// A tree whose slots hold keys of up to some bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct LongKeyTree {
    options: ChimeOptions,
    kept: usize,
}

impl LongKeyTree {
    /// Changes a tree for keys of one length so that its slots hold keys of up to `kept` bytes.
    pub(super) fn new(mut options: ChimeOptions, kept: usize) -> LongKeyTree {
        debug_assert!((WORD_BYTES..250).contains(&kept), "the length is one byte");
        options.shape.key_bytes = kept + SUFFIX_BYTES;
        options.shape.value_bytes = SLOT_VALUE_BYTES;
        LongKeyTree { options, kept }
    }

    /// Sets the number of entries of a leaf, and no more slots of a neighborhood.
    pub(super) fn set_span(&mut self, span: usize) {
        let shape = &mut self.options.shape;
        shape.leaf_span = span;
        shape.neighborhood = shape.neighborhood.min(span);
    }

    /// Returns true if its clients look up the last known position of a key.
    pub(super) fn speculates(&self) -> bool {
        self.options.hotspot_bytes > 0
    }
}

/// The state that the clients of a compute node share.
pub(super) struct LongKeyNode {
    node: Arc<ChimeComputeNode>,
    kept: usize,
}

/// One client's view of the tree.
pub(super) struct LongKeyIndex {
    tree: ChimeTree<SimEndpoint>,
    endpoint: SimEndpoint,
    arena: FabricArena,
    kept: usize,
}

impl PoolIndexSystem for LongKeyTree {
    type ComputeNode = LongKeyNode;
    type Index = LongKeyIndex;

    fn tree(&self) -> String {
        let tree = PoolIndexSystem::tree(&self.options);
        format!("{tree} of keys of up to {} bytes", self.kept)
    }

    fn compute_node(&self) -> Result<Arc<LongKeyNode>, PoolError> {
        let node = self.options.compute_node()?;
        let kept = self.kept;
        Ok(Arc::new(LongKeyNode { node, kept }))
    }

    fn cache_bytes(node: &LongKeyNode) -> usize {
        <ChimeOptions as PoolIndexSystem>::cache_bytes(&node.node)
    }

    fn guesses(node: &LongKeyNode) -> Option<[u64; 2]> {
        <ChimeOptions as PoolIndexSystem>::guesses(&node.node)
    }

    fn learn_from(node: &LongKeyNode, other: &LongKeyNode) {
        node.node.learn_from(&other.node);
    }

    async fn load(
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
        node: Arc<LongKeyNode>,
        entries: IndexLoadEntries,
    ) -> Result<(), PoolError> {
        let (of_tree, kept) = (Arc::clone(&node.node), node.kept);
        let tree = ChimeTree::create(endpoint.clone(), &nodes, ROOT, of_tree).await?;
        let index = LongKeyIndex::new(tree, endpoint, &nodes, kept);
        entries.insert(&index).await
    }

    async fn open(
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
        node: Arc<LongKeyNode>,
    ) -> Result<LongKeyIndex, PoolError> {
        let (of_tree, kept) = (Arc::clone(&node.node), node.kept);
        let tree = ChimeTree::open(endpoint.clone(), &nodes, ROOT, of_tree).await?;
        Ok(LongKeyIndex::new(tree, endpoint, &nodes, kept))
    }
}

/// Returns the part of a workload's key that is stored. Its length follows from the first word, and
/// has a uniform distribution from that word to the whole key.
fn stored(key: &[u8]) -> &[u8] {
    let word = key.first_chunk::<WORD_BYTES>();
    let word = word.map_or(0, |word| u64::from_be_bytes(*word));
    let lengths = key.len().saturating_sub(WORD_BYTES) as u64 + 1;
    // The upper bits of a product depend on all bits of the word.
    let more = (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % lengths;
    &key[..key.len().min(WORD_BYTES + more as usize)]
}

/// Returns the value of a slot of a key that the slot holds.
fn in_slot(value: &[u8]) -> Vec<u8> {
    let mut slot = value.to_vec();
    slot.resize(SLOT_VALUE_BYTES, 0);
    slot
}

/// Decodes the value of a slot as the address and the length of a block.
fn block_of(held: &[u8]) -> Option<(GlobalAddress, usize)> {
    let (length, held) = held.split_first_chunk::<4>()?;
    let address = held.first_chunk::<8>()?;
    let address = GlobalAddress::from_bits(u64::from_le_bytes(*address));
    Some((address, u32::from_le_bytes(*length) as usize))
}

/// Returns the rest of the key and the value in a block.
fn parts(block: &[u8]) -> Option<(&[u8], &[u8])> {
    let (fields, bytes) = block.split_first_chunk::<FIELD_BYTES>()?;
    let rest = u16::from_le_bytes([fields[4], fields[5]]);
    bytes.split_at_checked(usize::from(rest))
}

impl LongKeyIndex {
    fn new(
        tree: ChimeTree<SimEndpoint>,
        endpoint: SimEndpoint,
        nodes: &[NodeId],
        kept: usize,
    ) -> LongKeyIndex {
        LongKeyIndex {
            tree,
            endpoint,
            arena: FabricArena::new(nodes, CHUNK_BYTES),
            kept,
        }
    }

    /// Returns the rest of a stored key, if it is long.
    fn rest<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        key.get(self.kept..).filter(|rest| !rest.is_empty())
    }

    /// Returns the slot's key of a stored key.
    fn slot(&self, key: &[u8]) -> Vec<u8> {
        let kept = key.len().min(self.kept);
        let mut slot = key[..kept].to_vec();
        slot.resize(self.kept, 0);
        slot.push(key.len().min(self.kept + 1) as u8 + 1);
        let rest = self.rest(key).unwrap_or_default();
        // Any hash will do, because the beginnings of keys differ.
        let mix = |hash: u32, &byte: &u8| hash.wrapping_mul(31) ^ u32::from(byte);
        let hash = rest.iter().fold(rest.len() as u32, mix);
        slot.extend_from_slice(&hash.to_be_bytes());
        slot
    }

    /// Reads the blocks that slots refer to, in one round trip.
    async fn read(&self, held: &[&[u8]]) -> Result<Vec<Vec<u8>>, PoolError> {
        let blocks = held.iter().filter_map(|held| block_of(held));
        let blocks = blocks.map(|(at, length)| (at, vec![0; length]));
        let mut blocks: Vec<(GlobalAddress, Vec<u8>)> = blocks.collect();
        let reads = blocks.iter_mut();
        let mut reads: Vec<FabricVerb<'_>> = reads
            .map(|(from, into)| FabricVerb::Read { from: *from, into })
            .collect();
        if !reads.is_empty() {
            self.endpoint.post(&mut reads).await?;
        }
        drop(reads);
        Ok(blocks.into_iter().map(|(_, block)| block).collect())
    }

    /// Writes a block, and returns the value of the slot that refers to it.
    async fn write(&self, rest: &[u8], value: &[u8]) -> Result<Vec<u8>, PoolError> {
        let mut block = 1_u32.to_le_bytes().to_vec();
        block.extend_from_slice(&(rest.len() as u16).to_le_bytes());
        block.extend_from_slice(&(value.len() as u32).to_le_bytes());
        block.extend_from_slice(rest);
        block.extend_from_slice(value);
        let length = block.len();
        let at = self.arena.allocate(&self.endpoint, length as u64).await?;
        self.endpoint.write(at, &block).await?;
        let mut slot = (length as u32).to_le_bytes().to_vec();
        slot.extend_from_slice(&at.to_bits().to_le_bytes());
        Ok(slot)
    }

    /// Decides a change of a long key, under the lock of its slot's leaf.
    async fn decide(
        &self,
        held: Option<&[u8]>,
        (rest, value): (&[u8], &[u8]),
        may_insert: bool,
    ) -> Result<KeyChangeDecision, PoolError> {
        match held {
            Some(held) => drop(self.read(&[held]).await?),
            None if !may_insert => return Ok(KeyChangeDecision::Keep),
            None => {}
        }
        Ok(KeyChangeDecision::Put(self.write(rest, value).await?))
    }

    /// Sets the value of a key. Returns the former value of its slot.
    async fn change(
        &self,
        key: &[u8],
        value: &[u8],
        may_insert: bool,
    ) -> Result<Option<Vec<u8>>, PoolError> {
        let key = stored(key);
        let slot = self.slot(key);
        let Some(rest) = self.rest(key) else {
            let value = in_slot(value);
            return match may_insert {
                true => self.tree.insert(&slot, &value).await,
                false => self.tree.update(&slot, &value).await,
            };
        };
        let decide = async |held: Option<&[u8]>| self.decide(held, (rest, value), may_insert).await;
        self.tree.alter(&slot, decide).await
    }
}

/// Writes return the former value of the slot.
impl PoolIndexClient for LongKeyIndex {
    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        let key = stored(key);
        let Some(mut held) = self.tree.get(&self.slot(key)).await? else {
            return Ok(None);
        };
        let Some(rest) = self.rest(key) else {
            held.truncate(WORD_BYTES);
            return Ok(Some(held));
        };
        let blocks = self.read(&[&held[..]]).await?;
        let found = blocks.first().and_then(|block| parts(block));
        let value = found.filter(|(found, _)| *found == rest);
        Ok(value.map(|(_, value)| value.to_vec()))
    }

    async fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.change(key, value, true).await
    }

    async fn update(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.change(key, value, false).await
    }

    async fn overwrite(&self, key: &[u8], value: &[u8]) -> Result<bool, PoolError> {
        let whole = stored(key);
        match self.rest(whole) {
            None => {
                let slot = self.slot(whole);
                self.tree.overwrite(&slot, &in_slot(value)).await
            }
            Some(_) => Ok(self.change(key, value, false).await?.is_some()),
        }
    }

    async fn put(&self, key: &[u8], value: &[u8]) -> Result<(), PoolError> {
        let whole = stored(key);
        match self.rest(whole) {
            None => {
                let slot = self.slot(whole);
                self.tree.put(&slot, &in_slot(value)).await
            }
            Some(_) => self.change(key, value, true).await.map(drop),
        }
    }

    async fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.tree.remove(&self.slot(stored(key))).await
    }

    async fn scan(&self, from: &[u8], count: usize) -> Result<Vec<Entry>, PoolError> {
        let mut entries = self.tree.scan(&self.slot(stored(from)), count).await?;
        let length = |slot: &[u8]| usize::from(slot[self.kept]).saturating_sub(1);
        let is_long = |entry: &Entry| length(&entry.0) > self.kept;
        let long = entries.iter().filter(|entry| is_long(entry));
        let held: Vec<&[u8]> = long.map(|(_, held)| &held[..]).collect();
        let mut blocks = self.read(&held).await?.into_iter();
        for entry in &mut entries {
            if is_long(entry) {
                let block = blocks.next().unwrap_or_default();
                let (rest, value) = parts(&block).unwrap_or_default();
                entry.0.truncate(self.kept);
                entry.0.extend_from_slice(rest);
                entry.1 = value.to_vec();
            } else {
                let whole = length(&entry.0);
                entry.0.truncate(whole);
                entry.1.truncate(WORD_BYTES);
            }
            // Keys of the workload have one length.
            entry.0.resize(from.len(), 0);
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::chime::keys::PermutedKeys;
    use std::collections::BTreeSet;

    /// Stored keys have all lengths, and each of a thousand is another key.
    #[test]
    fn lengths_are_spread_over_all() {
        let keys = PermutedKeys::new(7, 40, WORD_BYTES);
        let all: Vec<Vec<u8>> = (0..1000).map(|position| keys.key(position)).collect();
        let distinct: BTreeSet<&[u8]> = all.iter().map(|key| stored(key)).collect();
        assert_eq!(distinct.len(), all.len());
        let lengths: BTreeSet<usize> = distinct.iter().map(|key| key.len()).collect();
        assert!(lengths.into_iter().eq(WORD_BYTES..=40));
        assert_eq!(stored(&all[0][..WORD_BYTES]), &all[0][..WORD_BYTES]);
    }
}
