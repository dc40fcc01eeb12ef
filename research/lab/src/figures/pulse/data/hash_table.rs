//! WebService's hash table: chains of nodes, and objects of 8 KiB.
//!
//! Every bucket has a chain of two, so that a key is found after 1.5 nodes on average and 32 keys
//! after the paper's 48. (The artifact's load is 1.49.) A node has 24 bytes: key, value, next. That
//! is the form of the artifact's accelerator. Nodes are 256 bytes apart, as those of its servers
//! are. The value is the number of an object.

use super::{Image, NODE_BYTES, NodeImageSource, hash, put};
use crate::workload::Permutation;

const NEXT: u64 = 16;
/// Bytes of an object.
pub(in super::super) const OBJECT_BYTES: u64 = 8192;
const CHAIN: u64 = 2;
/// Number of objects for each key: 12.8 GiB for 100 million keys.
const OBJECTS: f64 = 1_677_721.0 / 100e6;
/// The first address of a memory node. The next constant is their distance.
const FIRST: u64 = 1 << 44;
const DISTANCE: u64 = 1 << 44;

/// Tables of the same size on each memory node. All keys of a request are on one of them.
#[derive(Clone, Debug)]
pub(in super::super) struct PulseHashTable {
    keys: u64,
    objects: u64,
    memory_nodes: u64,
    slots: Permutation,
}

impl PulseHashTable {
    /// Creates tables with this number of keys on each memory node.
    pub(in super::super) fn new(keys: u64, memory_nodes: usize, seed: u64) -> PulseHashTable {
        let keys = keys.next_multiple_of(CHAIN);
        PulseHashTable {
            keys,
            objects: ((keys as f64 * OBJECTS) as u64).max(1),
            memory_nodes: memory_nodes as u64,
            slots: Permutation::new(keys, seed),
        }
    }

    pub(in super::super) fn keys(&self) -> u64 {
        self.keys
    }

    fn base(&self, memory_node: u64) -> u64 {
        FIRST + memory_node * DISTANCE
    }

    /// Returns the first node of the chain that has a key, as `init` computes it from the key's
    /// hash.
    pub(in super::super) fn bucket(&self, memory_node: u64, key: u64) -> u64 {
        self.node(memory_node, key % self.buckets() * CHAIN)
    }

    fn buckets(&self) -> u64 {
        self.keys / CHAIN
    }

    fn node(&self, memory_node: u64, entry: u64) -> u64 {
        self.base(memory_node) + self.slots.at(entry) * NODE_BYTES
    }

    pub(in super::super) fn value(&self, key: u64) -> u64 {
        hash(key) % self.objects
    }

    /// Returns the address of a value's object.
    pub(in super::super) fn object(&self, memory_node: u64, value: u64) -> u64 {
        let objects = self.base(memory_node) + self.keys * NODE_BYTES;
        objects.next_multiple_of(OBJECT_BYTES) + value % self.objects * OBJECT_BYTES
    }
}

impl NodeImageSource for PulseHashTable {
    fn image(&self, address: u64) -> Option<Image> {
        let offset = address.checked_sub(FIRST)?;
        let (memory_node, slot) = (offset / DISTANCE, offset % DISTANCE / NODE_BYTES);
        if memory_node >= self.memory_nodes || slot >= self.keys {
            return None;
        }
        let entry = self.slots.position_of(slot);
        let (bucket, place) = (entry / CHAIN, entry % CHAIN);
        let key = bucket + place * self.buckets();
        let mut image = [0; NODE_BYTES as usize];
        put(&mut image, 0, key);
        put(&mut image, 8, self.value(key));
        if place + 1 < CHAIN {
            put(&mut image, NEXT, self.node(memory_node, entry + 1));
        }
        Some(image)
    }

    fn ranges(&self) -> Vec<std::ops::Range<u64>> {
        let range = |memory_node| {
            let objects = self.object(memory_node, 0);
            self.base(memory_node)..objects + self.objects * OBJECT_BYTES
        };
        (0..self.memory_nodes).map(range).collect()
    }
}
