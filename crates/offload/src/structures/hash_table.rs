//! Hash tables with chains: `boost::unordered_map`, `unordered_set`, and `bimap`, which has two.

use super::heap::{Heap, HeapError};
use super::programs::chain_find;
use crate::program::Program;
use crate::traversal::Query;
use std::sync::Arc;

/// A hash table of words. Each bucket holds the first entry of its chain, so that a look-up begins
/// at an address that the caller computes, and reads nothing before.
///
/// A set keeps its keys as values, too.
#[derive(Clone, Debug)]
pub struct HashTable {
    find: Arc<Program>,
    buckets: u64,
    /// The address of each slab of buckets.
    slabs: Vec<u64>,
}

const NEXT: u64 = 0;
const KEY: u64 = 8;
const VALUE: u64 = 16;
const USED: u64 = 24;
const ENTRY_BYTES: u64 = 32;
/// The buckets of one allocation.
const SLAB_BUCKETS: u64 = 8;

impl HashTable {
    /// An empty table of a fixed number of buckets, at least one.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn new(heap: &mut impl Heap, buckets: u64) -> Result<HashTable, HeapError> {
        let buckets = buckets.max(1);
        let slabs = (0..buckets.div_ceil(SLAB_BUCKETS))
            .map(|_| heap.allocate(SLAB_BUCKETS * ENTRY_BYTES))
            .collect::<Result<_, _>>()?;
        Ok(HashTable {
            find: chain_find(NEXT as usize, KEY as usize, VALUE as usize, USED as usize),
            buckets,
            slabs,
        })
    }

    /// Sets the value of a key; false if it has one already, which is replaced.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn insert(
        &mut self,
        heap: &mut impl Heap,
        key: u64,
        value: u64,
    ) -> Result<bool, HeapError> {
        let bucket = self.bucket(key);
        if let Some((_, node)) = self.search(heap, key)? {
            heap.write(node + VALUE, value)?;
            return Ok(false);
        }
        let mut node = bucket;
        if heap.read(bucket + USED)? == 1 {
            node = heap.allocate(ENTRY_BYTES)?;
            let next = heap.read(bucket + NEXT)?;
            heap.write(node + NEXT, next)?;
        }
        heap.write(node + KEY, key)?;
        heap.write(node + VALUE, value)?;
        heap.write(node + USED, 1)?;
        if node != bucket {
            heap.write(bucket + NEXT, node)?;
        }
        Ok(true)
    }

    /// Removes a key; false if it is not there.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn remove(&mut self, heap: &mut impl Heap, key: u64) -> Result<bool, HeapError> {
        let Some((before, node)) = self.search(heap, key)? else {
            return Ok(false);
        };
        match before {
            // The chain goes on behind a bucket without an entry of its own.
            None => heap.write(node + USED, 0)?,
            Some(before) => {
                let next = heap.read(node + NEXT)?;
                heap.write(before + NEXT, next)?;
                heap.free(node, ENTRY_BYTES);
            }
        }
        Ok(true)
    }

    /// The search for a key.
    pub fn find(&self, key: u64) -> Query {
        Query::new(&self.find, self.bucket(key), &[key])
    }

    /// The node of a key, and the node before it, unless it is the bucket.
    fn search(&self, heap: &impl Heap, key: u64) -> Result<Option<(Option<u64>, u64)>, HeapError> {
        let (mut before, mut node) = (None, self.bucket(key));
        while node != 0 {
            if heap.read(node + USED)? == 1 && heap.read(node + KEY)? == key {
                return Ok(Some((before, node)));
            }
            before = Some(node);
            node = heap.read(node + NEXT)?;
        }
        Ok(None)
    }

    fn bucket(&self, key: u64) -> u64 {
        // The multiplier of SplitMix64; the upper bits of the product depend on all of the key's.
        let hash = (key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let bucket = hash % self.buckets;
        let slab = self.slabs.get((bucket / SLAB_BUCKETS) as usize);
        slab.map_or(0, |slab| slab + bucket % SLAB_BUCKETS * ENTRY_BYTES)
    }
}

/// `boost::bimap`: pairs of words, each of which is found by either. No two pairs share a word on
/// the same side.
#[derive(Clone, Debug)]
pub struct Bimap {
    by_left: HashTable,
    by_right: HashTable,
}

impl Bimap {
    /// No pairs.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn new(heap: &mut impl Heap, buckets: u64) -> Result<Bimap, HeapError> {
        Ok(Bimap {
            by_left: HashTable::new(heap, buckets)?,
            by_right: HashTable::new(heap, buckets)?,
        })
    }

    /// Adds a pair; false if one of its words has a pair.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn insert(
        &mut self,
        heap: &mut impl Heap,
        left: u64,
        right: u64,
    ) -> Result<bool, HeapError> {
        let left_is_there = self.by_left.search(heap, left)?.is_some();
        if left_is_there || self.by_right.search(heap, right)?.is_some() {
            return Ok(false);
        }
        self.by_left.insert(heap, left, right)?;
        self.by_right.insert(heap, right, left)
    }

    /// Removes the pair of a left word; false if there is none.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn remove_left(&mut self, heap: &mut impl Heap, left: u64) -> Result<bool, HeapError> {
        let Some((_, node)) = self.by_left.search(heap, left)? else {
            return Ok(false);
        };
        let right = heap.read(node + VALUE)?;
        self.by_right.remove(heap, right)?;
        self.by_left.remove(heap, left)
    }

    /// The search for the right word of a left one.
    pub fn find_left(&self, left: u64) -> Query {
        self.by_left.find(left)
    }

    /// The search for the left word of a right one.
    pub fn find_right(&self, right: u64) -> Query {
        self.by_right.find(right)
    }
}
