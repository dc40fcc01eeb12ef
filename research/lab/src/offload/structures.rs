//! A hash table and a binary tree with nodes that are spread over memory.

use super::by_hand::{self, LookupWalk};
use nearfield_offload::node::{NodeRange, NodeRanges, RangeError, Tenant, TenantPermission};
use nearfield_offload::program::TraversalProgram;
use nearfield_offload::structures::programs::{chain_find, tree_lower_bound};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a node, as in the paper; a lookup loads 32 or 48 of them.
const NODE_BYTES: u64 = 256;
/// The first address of the data; the bytes before belong to the node.
pub const FIRST: u64 = 4096;

/// Returns the key of a number. No two numbers have the same key.
pub fn key(number: u64) -> u64 {
    // The finalizer of MurmurHash3, which is a bijection.
    let mut mixed = number + 1;
    mixed = (mixed ^ mixed >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed = (mixed ^ mixed >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ mixed >> 33
}

/// Returns the value of a key.
pub fn value(key: u64) -> u64 {
    key.rotate_left(17) ^ 0x5555
}

/// A structure, described by its size. Everything else is computed from that.
pub struct LookupStructure {
    kind: LookupStructureKind,
    nodes: u64,
    /// Number of places for nodes; a power of two.
    places: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LookupStructureKind {
    /// A hash table. Places in the first half are buckets, which hold the first entry of their
    /// chain.
    HashTable,
    Tree,
}

/// Offsets of the fields of an entry of a chain.
mod chain {
    pub const NEXT: usize = 0;
    pub const KEY: usize = 8;
    pub const VALUE: usize = 16;
    pub const USED: usize = 24;
}

/// Offsets of the fields of a node of the tree: those of a red-black tree of the C++ library.
mod tree {
    pub const LEFT: usize = 16;
    pub const RIGHT: usize = 24;
    pub const KEY: usize = 32;
    pub const VALUE: usize = 40;
}

impl LookupStructure {
    /// Creates a hash table.
    pub fn hash_table(bytes: u64) -> LookupStructure {
        let places = places(bytes);
        LookupStructure {
            kind: LookupStructureKind::HashTable,
            // 1.49 entries for each bucket, as in the paper's artifact.
            nodes: places / 2 * 149 / 100,
            places,
        }
    }

    pub fn tree(bytes: u64) -> LookupStructure {
        let places = places(bytes);
        LookupStructure {
            kind: LookupStructureKind::Tree,
            nodes: places / 4 * 3,
            places,
        }
    }

    pub fn name(&self) -> &'static str {
        match self.kind {
            LookupStructureKind::HashTable => "hash table",
            LookupStructureKind::Tree => "tree",
        }
    }

    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    pub fn program(&self) -> Arc<TraversalProgram> {
        match self.kind {
            LookupStructureKind::HashTable => {
                chain_find(chain::NEXT, chain::KEY, chain::VALUE, chain::USED)
            }
            LookupStructureKind::Tree => {
                tree_lower_bound(tree::LEFT, tree::RIGHT, tree::KEY, tree::VALUE)
            }
        }
    }

    pub fn ranges(&self) -> Result<NodeRanges, RangeError> {
        NodeRanges::new(vec![NodeRange {
            start: FIRST,
            bytes: self.places * NODE_BYTES,
            offset: FIRST,
            tenant: Tenant::default(),
            permission: TenantPermission::Read,
        }])
    }

    /// Returns the address at which the lookup of a key begins.
    pub fn start(&self, key: u64) -> u64 {
        match self.kind {
            LookupStructureKind::HashTable => address(key % (self.places / 2)),
            LookupStructureKind::Tree => self.tree_node(0, self.nodes),
        }
    }

    /// Writes all nodes.
    pub fn fill(&self, words: &[AtomicU64]) {
        for word in words {
            word.store(0, Ordering::Relaxed);
        }
        match self.kind {
            LookupStructureKind::HashTable => self.fill_table(words),
            LookupStructureKind::Tree => self.fill_tree(words),
        }
    }

    fn fill_table(&self, words: &[AtomicU64]) {
        let mut overflow = 0;
        for number in 0..self.nodes {
            let key = key(number);
            let bucket = self.start(key);
            let node = if get(words, bucket, chain::USED) == 0 {
                bucket
            } else {
                // If its bucket is taken, an entry goes to the second half. The order there differs
                // from that of the buckets.
                let half = self.places / 2;
                debug_assert!(overflow < half, "no place is left for an entry");
                let node = address(half + spread(overflow, half));
                overflow += 1;
                set(words, node, chain::NEXT, get(words, bucket, chain::NEXT));
                set(words, bucket, chain::NEXT, node);
                node
            };
            set(words, node, chain::KEY, key);
            set(words, node, chain::VALUE, value(key));
            set(words, node, chain::USED, 1);
        }
    }

    /// Writes a balanced tree of the sorted keys: the root of each range of keys is its middle.
    fn fill_tree(&self, words: &[AtomicU64]) {
        let mut keys: Vec<u64> = (0..self.nodes).map(key).collect();
        keys.sort_unstable();
        let mut ranges = vec![(0, self.nodes)];
        while let Some((start, end)) = ranges.pop() {
            debug_assert!(start < end);
            let middle = start + (end - start) / 2;
            let node = self.tree_node(start, end);
            let key = keys[middle as usize];
            set(words, node, tree::KEY, key);
            set(words, node, tree::VALUE, value(key));
            for (place, start, end) in [(tree::LEFT, start, middle), (tree::RIGHT, middle + 1, end)]
            {
                if start < end {
                    set(words, node, place, self.tree_node(start, end));
                    ranges.push((start, end));
                }
            }
        }
    }

    fn tree_node(&self, start: u64, end: u64) -> u64 {
        address(spread(start + (end - start) / 2, self.places))
    }

    /// Looks keys up by code that knows the structure; returns false if a result is wrong.
    pub fn by_hand(&self, words: &[AtomicU64], keys: &[u64], slots: usize) -> bool {
        let start = |key| self.start(key);
        match self.kind {
            LookupStructureKind::HashTable => {
                by_hand::interleaved(words, keys, slots, start, 32, |walk| {
                    let node = walk.node;
                    if get(words, node, chain::USED) == 1
                        && get(words, node, chain::KEY) == walk.key
                    {
                        walk.found = get(words, node, chain::VALUE);
                        return 0;
                    }
                    get(words, node, chain::NEXT)
                })
            }
            LookupStructureKind::Tree => {
                by_hand::interleaved(words, keys, slots, start, 48, |walk: &mut LookupWalk| {
                    let node = walk.node;
                    if get(words, node, tree::KEY) < walk.key {
                        return get(words, node, tree::RIGHT);
                    }
                    // The last node at which the walk turns left has the least key from here on.
                    walk.found = get(words, node, tree::VALUE);
                    get(words, node, tree::LEFT)
                })
            }
        }
    }

    /// Damages the value of a key.
    #[cfg(test)]
    pub fn spoil(&self, words: &[AtomicU64], key: u64) {
        let mut node = self.start(key);
        while get(words, node, chain::KEY) != key {
            node = get(words, node, chain::NEXT);
        }
        set(words, node, chain::VALUE, 0);
    }
}

fn places(bytes: u64) -> u64 {
    1 << (bytes / NODE_BYTES).max(16).ilog2()
}

fn address(place: u64) -> u64 {
    FIRST + place * NODE_BYTES
}

/// Permutes the numbers below a power of two: an odd factor has an inverse.
fn spread(number: u64, places: u64) -> u64 {
    debug_assert!(places.is_power_of_two());
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & (places - 1)
}

#[inline]
fn get(words: &[AtomicU64], node: u64, field: usize) -> u64 {
    words[(node as usize + field) / 8].load(Ordering::Relaxed)
}

fn set(words: &[AtomicU64], node: u64, field: usize, value: u64) {
    words[(node as usize + field) / 8].store(value, Ordering::Relaxed);
}
