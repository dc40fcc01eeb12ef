//! The B-tree of Google's cpp-btree, with nodes of 256 bytes: nine entries of 16 bytes and ten
//! children. Inner nodes hold entries, too. The fields of the parent and of the position in it stay
//! zero, because no lookup reads them.

use super::entry::StructureEntry;
use super::heap::{HeapError, NodeHeap};
use super::programs::{ENTRIES_MAX, b_tree_lower_bound};
use super::wide_node::{NODE_BYTES, WideNode};
use crate::program::TraversalProgram;
use crate::traversal::TraversalQuery;
use std::sync::Arc;

/// Smallest number of entries of a node other than the root.
const ENTRIES_MIN: usize = ENTRIES_MAX / 2;

/// A B-tree of words.
#[derive(Clone, Debug)]
pub struct BTree {
    lower_bound: Arc<TraversalProgram>,
    root: u64,
}

/// The entry that moves up after a split, with the new node to its right.
type Divided = Option<(StructureEntry, u64)>;

impl BTree {
    /// Creates a tree without entries.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn new(heap: &mut impl NodeHeap) -> Result<BTree, HeapError> {
        Ok(BTree {
            lower_bound: b_tree_lower_bound(),
            root: create(heap, &WideNode::default())?,
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
        let (is_new, divided) = insert(heap, self.root, StructureEntry { key, value })?;
        if let Some((entry, right)) = divided {
            let root = WideNode {
                entries: vec![entry],
                children: vec![self.root, right],
            };
            self.root = create(heap, &root)?;
        }
        Ok(is_new)
    }

    /// Removes a key. Returns false if it is not there.
    ///
    /// # Errors
    /// See [`HeapError`].
    pub fn remove(&mut self, heap: &mut impl NodeHeap, key: u64) -> Result<bool, HeapError> {
        let removed = remove(heap, self.root, key)?;
        let root = read(heap, self.root)?;
        // Merging may take the last entry of the root. The tree then loses a level.
        if let ([], [child]) = (root.entries.as_slice(), root.children.as_slice()) {
            heap.free(self.root, NODE_BYTES);
            self.root = *child;
        }
        Ok(removed)
    }

    /// Returns the query for the first entry at or above a key.
    pub fn lower_bound(&self, key: u64) -> TraversalQuery {
        TraversalQuery::new(&self.lower_bound, self.root, &[key])
    }
}

fn read(heap: &impl NodeHeap, node: u64) -> Result<WideNode, HeapError> {
    let head = heap.read(node)?;
    WideNode::read(heap, node, head >> 24 & 0xff, head & 0xff != 0)
}

fn write(heap: &mut impl NodeHeap, at: u64, node: &WideNode) -> Result<(), HeapError> {
    node.write(heap, at)?;
    let (count, max) = (node.entries.len() as u64, ENTRIES_MAX as u64);
    heap.write(at, u64::from(node.is_leaf()) | max << 16 | count << 24)
}

fn create(heap: &mut impl NodeHeap, node: &WideNode) -> Result<u64, HeapError> {
    let at = heap.allocate(NODE_BYTES)?;
    write(heap, at, node)?;
    Ok(at)
}

fn insert(
    heap: &mut impl NodeHeap,
    at: u64,
    entry: StructureEntry,
) -> Result<(bool, Divided), HeapError> {
    let mut node = read(heap, at)?;
    let position = node.position(entry.key);
    if let Some(there) = node.entries.get_mut(position)
        && there.key == entry.key
    {
        there.value = entry.value;
        write(heap, at, &node)?;
        return Ok((false, None));
    }
    let mut is_new = true;
    match node.children.get(position) {
        None => node.entries.insert(position, entry),
        Some(&child) => {
            let divided;
            (is_new, divided) = insert(heap, child, entry)?;
            let Some((entry, right)) = divided else {
                return Ok((is_new, None));
            };
            node.entries.insert(position, entry);
            node.children.insert(position + 1, right);
        }
    }
    let mut divided = None;
    if node.entries.len() > ENTRIES_MAX
        && let Some((entry, right)) = node.split()
    {
        divided = Some((entry, create(heap, &right)?));
    }
    write(heap, at, &node)?;
    Ok((is_new, divided))
}

fn remove(heap: &mut impl NodeHeap, at: u64, key: u64) -> Result<bool, HeapError> {
    let mut node = read(heap, at)?;
    let position = node.position(key);
    let is_here = node
        .entries
        .get(position)
        .is_some_and(|entry| entry.key == key);
    let Some(&child) = node.children.get(position) else {
        if is_here {
            node.entries.remove(position);
            write(heap, at, &node)?;
        }
        return Ok(is_here);
    };
    let removed = if is_here {
        // The entry of an inner node is replaced by its predecessor, which is removed from the
        // child.
        let last = remove_last(heap, child)?;
        if let (Some(last), Some(entry)) = (last, node.entries.get_mut(position)) {
            *entry = last;
            write(heap, at, &node)?;
        }
        true
    } else {
        remove(heap, child, key)?
    };
    // The removal, or a merge below, may have left the child with too few entries.
    refill(heap, at, position)?;
    Ok(removed)
}

fn remove_last(heap: &mut impl NodeHeap, at: u64) -> Result<Option<StructureEntry>, HeapError> {
    let mut node = read(heap, at)?;
    let Some(&child) = node.children.last() else {
        let last = node.entries.pop();
        write(heap, at, &node)?;
        return Ok(last);
    };
    let last = remove_last(heap, child)?;
    refill(heap, at, node.children.len() - 1)?;
    Ok(last)
}

/// Moves an entry of a sibling to a child with too few entries, or merges the child with a sibling.
fn refill(heap: &mut impl NodeHeap, at: u64, position: usize) -> Result<(), HeapError> {
    let mut node = read(heap, at)?;
    let Some(&child_at) = node.children.get(position) else {
        return Ok(());
    };
    if read(heap, child_at)?.entries.len() >= ENTRIES_MIN {
        return Ok(());
    }
    // The child and its sibling, in order, around the entry at `left`.
    let left = position.saturating_sub(1);
    let (Some(&left_at), Some(&right_at)) = (node.children.get(left), node.children.get(left + 1))
    else {
        return Ok(());
    };
    let (mut one, mut other) = (read(heap, left_at)?, read(heap, right_at)?);
    let Some(between) = node.entries.get_mut(left) else {
        return Ok(());
    };
    one.entries.push(*between);
    one.entries.append(&mut other.entries);
    one.children.append(&mut other.children);
    // Both do not fit one node, so the entries are divided evenly instead.
    if one.entries.len() > ENTRIES_MAX
        && let Some((entry, right)) = one.split()
    {
        *between = entry;
        write(heap, right_at, &right)?;
    } else {
        node.entries.remove(left);
        node.children.remove(left + 1);
        heap.free(right_at, NODE_BYTES);
    }
    write(heap, left_at, &one)?;
    write(heap, at, &node)
}
