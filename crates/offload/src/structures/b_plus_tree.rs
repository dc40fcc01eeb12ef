//! The B+ tree of the paper's ordered table and time series: nodes of 256 bytes, nine keys, ten
//! children, and leaves linked to the next. Lookups, scans and aggregates are programs.

use super::entry::StructureEntry;
use super::heap::{HeapError, NodeHeap};
use super::layout::b_plus::{COUNT, IS_LEAF, NEXT, PREVIOUS};
use super::programs::{
    AGGREGATE_COUNT, AGGREGATE_MAX, AGGREGATE_MIN, AGGREGATE_SUM, ENTRIES_MAX, PUT_DONE,
    PUT_IS_NEW, PUT_VALUE, SCAN_COUNT, SCAN_ENTRIES, SCAN_MAX, b_plus_aggregate,
    b_plus_lower_bound, b_plus_put, b_plus_scan,
};
use super::wide_node::{NODE_BYTES, WideNode};
use crate::program::TraversalProgram;
use crate::traversal::{TraversalOutcome, TraversalQuery, TraversalStatus};
use std::sync::Arc;

/// A B+ tree of words. A leaf that becomes empty remains in the tree.
#[derive(Clone, Debug)]
pub struct BPlusTree {
    lower_bound: Arc<TraversalProgram>,
    put: Arc<TraversalProgram>,
    scan: Arc<TraversalProgram>,
    aggregate: Arc<TraversalProgram>,
    root: u64,
}

/// The aggregates of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffloadAggregates {
    /// Number of values.
    pub count: u64,
    /// Their sum, which wraps around.
    pub sum: u64,
    /// The smallest value, if there is one.
    pub min: Option<u64>,
    /// The largest value, if there is one.
    pub max: Option<u64>,
}

impl BPlusTree {
    /// Creates a tree without entries.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn new(heap: &mut impl NodeHeap) -> Result<BPlusTree, HeapError> {
        let root = heap.allocate(NODE_BYTES)?;
        write(heap, root, &WideNode::default())?;
        Ok(BPlusTree::at(root))
    }

    /// Opens the tree whose root has the address that [`root`](BPlusTree::root) returned.
    pub fn at(root: u64) -> BPlusTree {
        BPlusTree {
            lower_bound: b_plus_lower_bound(),
            put: b_plus_put(),
            scan: b_plus_scan(),
            aggregate: b_plus_aggregate(),
            root,
        }
    }

    /// Returns the address of the root. An insertion may change it.
    pub fn root(&self) -> u64 {
        self.root
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
        let (is_new, divided) = insert(heap, self.root, StructureEntry { key, value })?;
        if let Some((key, right)) = divided {
            let root = WideNode {
                entries: vec![StructureEntry { key, value: 0 }],
                children: vec![self.root, right],
            };
            self.root = heap.allocate(NODE_BYTES)?;
            write(heap, self.root, &root)?;
        }
        Ok(is_new)
    }

    /// Removes a key. Returns false if it is not there.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn remove(&mut self, heap: &mut impl NodeHeap, key: u64) -> Result<bool, HeapError> {
        let mut at = self.root;
        loop {
            let mut node = read(heap, at)?;
            if let Some(&child) = node.children.get(child_position(&node, key)) {
                at = child;
                continue;
            }
            let position = node.position(key);
            let is_here = node
                .entries
                .get(position)
                .is_some_and(|entry| entry.key == key);
            if is_here {
                node.entries.remove(position);
                write(heap, at, &node)?;
            }
            return Ok(is_here);
        }
    }

    /// Returns the query for the first entry at or above a key.
    pub fn lower_bound(&self, key: u64) -> TraversalQuery {
        TraversalQuery::new(&self.lower_bound, self.root, &[key])
    }

    /// Returns the query that sets the value of a key at the memory node, unless the key is new and
    /// its leaf has no room: [`insert`](BPlusTree::insert) divides it. [`was_put`] reads its
    /// outcome. The caller holds the tree's lock, as for every change.
    pub fn put(&self, key: u64, value: u64) -> TraversalQuery {
        let mut words = [0; PUT_VALUE + 1];
        words[0] = key;
        words[PUT_VALUE] = value;
        TraversalQuery::new(&self.put, self.root, &words)
    }

    /// Returns the query for the first entries at or above a key, at most [`SCAN_MAX`].
    pub fn scan(&self, key: u64, count: usize) -> TraversalQuery {
        let count = count.min(SCAN_MAX) as u64;
        TraversalQuery::new(&self.scan, self.root, &[key, count])
    }

    /// Returns the query for the aggregates of the values with keys from `start` to below `end`.
    pub fn aggregate(&self, start: u64, end: u64) -> TraversalQuery {
        TraversalQuery::new(&self.aggregate, self.root, &[start, end, 0, 0, u64::MAX, 0])
    }
}

/// Returns true if the key in the outcome of [`BPlusTree::put`] was new, and false if it had a
/// value, which was replaced. Returns `None`, and nothing has changed, if the leaf has no room.
pub fn was_put(outcome: &TraversalOutcome) -> Option<bool> {
    let is_done = outcome.status == TraversalStatus::Done && outcome.word(PUT_DONE) == 1;
    is_done.then(|| outcome.word(PUT_IS_NEW) == 1)
}

/// Returns the entries in the outcome of a scan.
pub fn scanned(outcome: &TraversalOutcome) -> impl Iterator<Item = StructureEntry> + '_ {
    let count = outcome.word(SCAN_COUNT).min(SCAN_MAX as u64) as usize;
    (0..count).map(|index| StructureEntry {
        key: outcome.word(SCAN_ENTRIES + 2 * index),
        value: outcome.word(SCAN_ENTRIES + 2 * index + 1),
    })
}

/// Returns the aggregates in an outcome.
pub fn aggregated(outcome: &TraversalOutcome) -> OffloadAggregates {
    let count = outcome.word(AGGREGATE_COUNT);
    let of_some = |word| (count > 0).then(|| outcome.word(word));
    OffloadAggregates {
        count,
        sum: outcome.word(AGGREGATE_SUM),
        min: of_some(AGGREGATE_MIN),
        max: of_some(AGGREGATE_MAX),
    }
}

fn read(heap: &impl NodeHeap, node: u64) -> Result<WideNode, HeapError> {
    let count = heap.read(node + COUNT)?.min(ENTRIES_MAX as u64);
    let is_leaf = heap.read(node + IS_LEAF)? != 0;
    WideNode::read(heap, node, count, is_leaf)
}

fn write(heap: &mut impl NodeHeap, at: u64, node: &WideNode) -> Result<(), HeapError> {
    debug_assert!(node.entries.len() <= ENTRIES_MAX);
    node.write(heap, at)?;
    heap.write(at + IS_LEAF, node.is_leaf().into())?;
    heap.write(at + COUNT, node.entries.len() as u64)
}

/// Returns the position of the child of a key. The key of a separator itself belongs to the right.
fn child_position(node: &WideNode, key: u64) -> usize {
    node.entries.partition_point(|entry| entry.key <= key)
}

/// Inserts into a subtree. Returns true if the key is new, and the smallest key and the address of
/// a node that was split off.
fn insert(
    heap: &mut impl NodeHeap,
    at: u64,
    entry: StructureEntry,
) -> Result<(bool, Option<(u64, u64)>), HeapError> {
    let mut node = read(heap, at)?;
    if node.is_leaf() {
        let position = node.position(entry.key);
        if let Some(there) = node.entries.get_mut(position)
            && there.key == entry.key
        {
            there.value = entry.value;
            write(heap, at, &node)?;
            return Ok((false, None));
        }
        node.entries.insert(position, entry);
        if node.entries.len() <= ENTRIES_MAX {
            write(heap, at, &node)?;
            return Ok((true, None));
        }
        return Ok((true, Some(divide_leaf(heap, at, node)?)));
    }
    let position = child_position(&node, entry.key);
    let child = node.children.get(position).copied().unwrap_or_default();
    let (is_new, divided) = insert(heap, child, entry)?;
    // A value below an inner node has changed, so this node is as before.
    let Some((key, right)) = divided else {
        return Ok((is_new, None));
    };
    // Inner nodes have the layout of leaves, with values that nothing uses.
    node.entries
        .insert(position, StructureEntry { key, value: 0 });
    node.children.insert(position + 1, right);
    let mut up = None;
    if node.entries.len() > ENTRIES_MAX
        && let Some((between, right)) = node.split()
    {
        let right_at = heap.allocate(NODE_BYTES)?;
        write(heap, right_at, &right)?;
        up = Some((between.key, right_at));
    }
    write(heap, at, &node)?;
    Ok((is_new, up))
}

/// Moves the upper half of a leaf to a new one after it.
fn divide_leaf(
    heap: &mut impl NodeHeap,
    at: u64,
    mut node: WideNode,
) -> Result<(u64, u64), HeapError> {
    let right = WideNode {
        entries: node.entries.split_off(node.entries.len() / 2),
        children: Vec::new(),
    };
    let right_at = heap.allocate(NODE_BYTES)?;
    let behind = heap.read(at + NEXT)?;
    write(heap, right_at, &right)?;
    heap.write(right_at + NEXT, behind)?;
    // The new leaf is complete before another one links to it.
    heap.write(right_at + PREVIOUS, at)?;
    if behind != 0 {
        heap.write(behind + PREVIOUS, right_at)?;
    }
    write(heap, at, &node)?;
    heap.write(at + NEXT, right_at)?;
    let least = right.entries.first().map_or(0, |entry| entry.key);
    Ok((least, right_at))
}
