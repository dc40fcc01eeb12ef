//! Hash tables with chains: `boost::unordered_map`, `unordered_set`, and `bimap`, which has two.

use super::heap::{HeapError, NodeHeap};
use super::layout::chain::{BYTES as ENTRY_BYTES, KEY, NEXT, USED, VALUE};
use super::programs::{FIND_ALL_BYTES, FIND_ALL_MAX, FIND_ALL_PAIRS, chain_find, chain_find_all};
use crate::program::TraversalProgram;
use crate::traversal::{TraversalOutcome, TraversalQuery, TraversalStatus};
use std::sync::Arc;

/// A hash table of words. Each bucket holds the first entry of its chain, so a lookup begins at an
/// address that the caller computes, without a read before.
///
/// A set stores each key as the value, too.
#[derive(Clone, Debug)]
pub struct OffloadHashTable {
    find: Arc<TraversalProgram>,
    find_all: Arc<TraversalProgram>,
    buckets: u64,
    /// The address of each slab of buckets.
    slabs: Vec<u64>,
}

/// Number of buckets of one allocation.
const SLAB_BUCKETS: u64 = 8;

impl OffloadHashTable {
    /// Creates an empty table with a fixed number of buckets, at least one.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn new(heap: &mut impl NodeHeap, buckets: u64) -> Result<OffloadHashTable, HeapError> {
        let buckets = buckets.max(1);
        let slabs = (0..buckets.div_ceil(SLAB_BUCKETS))
            .map(|_| heap.allocate(SLAB_BUCKETS * ENTRY_BYTES))
            .collect::<Result<_, _>>()?;
        let [next, key, value, used] = [NEXT, KEY, VALUE, USED].map(|place| place as usize);
        Ok(OffloadHashTable {
            find: chain_find(next, key, value, used),
            find_all: chain_find_all(next, key, value, used),
            buckets,
            slabs,
        })
    }

    /// Sets the value of a key. Returns false if the key had a value, which is replaced.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn insert(
        &mut self,
        heap: &mut impl NodeHeap,
        key: u64,
        value: u64,
    ) -> Result<bool, HeapError> {
        let bucket = self.bucket(key);
        if let Some((_, node)) = self.search(heap, key)? {
            heap.write(node + VALUE, value)?;
            return Ok(false);
        }
        let mut node = bucket;
        // A bucket without an entry of its own may have a chain, if that entry was removed.
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

    /// Removes a key. Returns false if it is not there.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn remove(&mut self, heap: &mut impl NodeHeap, key: u64) -> Result<bool, HeapError> {
        let Some((before, node)) = self.search(heap, key)? else {
            return Ok(false);
        };
        match before {
            // The first entry is in the bucket itself, from which the chain continues, so only mark
            // it unused.
            None => heap.write(node + USED, 0)?,
            Some(before) => {
                let next = heap.read(node + NEXT)?;
                heap.write(before + NEXT, next)?;
                heap.free(node, ENTRY_BYTES);
            }
        }
        Ok(true)
    }

    /// Returns the query for a key.
    pub fn find(&self, key: u64) -> TraversalQuery {
        TraversalQuery::new(&self.find, self.bucket(key), &[key])
    }

    /// Returns the query for several keys in one traversal, at most [`FIND_ALL_MAX`] of them and at
    /// least one. [`found_all`] reads its outcome.
    pub fn find_all(&self, keys: &[u64]) -> TraversalQuery {
        let keys = keys.get(..FIND_ALL_MAX).unwrap_or(keys);
        // The scratchpad begins with two counters, which the program compares.
        let mut words = vec![0; FIND_ALL_PAIRS];
        if let Some(bytes) = words.get_mut(FIND_ALL_BYTES) {
            *bytes = 16 * keys.len() as u64;
        }
        words.extend(keys.iter().flat_map(|&key| [self.bucket(key), key]));
        let first = keys.first().map_or(0, |&key| self.bucket(key));
        TraversalQuery::new(&self.find_all, first, &words)
    }

    /// Finds the node of a key, and the node before it, unless it is the bucket.
    fn search(
        &self,
        heap: &impl NodeHeap,
        key: u64,
    ) -> Result<Option<(Option<u64>, u64)>, HeapError> {
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
        // The multiplier of SplitMix64; the upper bits of the product depend on all bits of the
        // key.
        let hash = (key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let bucket = hash % self.buckets;
        let slab = self.slabs.get((bucket / SLAB_BUCKETS) as usize);
        debug_assert!(slab.is_some(), "no slab for bucket {bucket}");
        slab.map_or(0, |slab| slab + bucket % SLAB_BUCKETS * ENTRY_BYTES)
    }
}

/// Returns the values in the outcome of [`OffloadHashTable::find_all`], in the order of the keys,
/// with `None` for a key that is not there. The list is empty if the traversal is not done.
pub fn found_all(outcome: &TraversalOutcome) -> Vec<Option<u64>> {
    if outcome.status != TraversalStatus::Done {
        return Vec::new();
    }
    let count = (outcome.word(FIND_ALL_BYTES) / 16).min(FIND_ALL_MAX as u64) as usize;
    let value = |number: usize| {
        let pair = FIND_ALL_PAIRS + 2 * number;
        (outcome.word(pair + 1) == 1).then(|| outcome.word(pair))
    };
    (0..count).map(value).collect()
}

/// A `boost::bimap`: pairs of words, each of which is found by either word. No two pairs share a
/// word on the same side.
#[derive(Clone, Debug)]
pub struct Bimap {
    by_left: OffloadHashTable,
    by_right: OffloadHashTable,
}

impl Bimap {
    /// Creates a map without pairs.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn new(heap: &mut impl NodeHeap, buckets: u64) -> Result<Bimap, HeapError> {
        Ok(Bimap {
            by_left: OffloadHashTable::new(heap, buckets)?,
            by_right: OffloadHashTable::new(heap, buckets)?,
        })
    }

    /// Adds a pair. Returns false if one of its words has a pair already.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn insert(
        &mut self,
        heap: &mut impl NodeHeap,
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

    /// Removes the pair of a left word. Returns false if there is none.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn remove_left(&mut self, heap: &mut impl NodeHeap, left: u64) -> Result<bool, HeapError> {
        let Some((_, node)) = self.by_left.search(heap, left)? else {
            return Ok(false);
        };
        let right = heap.read(node + VALUE)?;
        self.by_right.remove(heap, right)?;
        self.by_left.remove(heap, left)
    }

    /// Returns the query for the right word of a left one.
    pub fn find_left(&self, left: u64) -> TraversalQuery {
        self.by_left.find(left)
    }

    /// Returns the query for the left word of a right one.
    pub fn find_right(&self, right: u64) -> TraversalQuery {
        self.by_right.find(right)
    }
}
