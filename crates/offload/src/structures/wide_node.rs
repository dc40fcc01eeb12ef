//! Nodes of several entries, which the caller reads and writes as a whole.

use super::entry::StructureEntry;
use super::heap::{HeapError, NodeHeap};
use super::programs::ENTRIES_MAX;
use crate::program::NODE_BYTES_MAX;

/// The offset of the entries; each is a key and a value.
pub const ENTRIES: u64 = 16;
/// The offset of the children.
pub const CHILDREN: u64 = 160;
/// The size of a node: one load of an iteration.
pub const NODE_BYTES: u64 = 256;
// The programs load whole nodes.
const _: () = assert!(NODE_BYTES == NODE_BYTES_MAX as u64);
const _: () = assert!(CHILDREN == ENTRIES + 16 * ENTRIES_MAX as u64);

/// A node's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WideNode {
    pub entries: Vec<StructureEntry>,
    /// The children; empty in a leaf.
    pub children: Vec<u64>,
}

impl WideNode {
    pub fn is_leaf(&self) -> bool {
        self.children.is_empty()
    }

    /// Returns the number of entries below a key.
    pub fn position(&self, key: u64) -> usize {
        self.entries.partition_point(|entry| entry.key < key)
    }

    pub fn read(
        heap: &impl NodeHeap,
        node: u64,
        count: u64,
        is_leaf: bool,
    ) -> Result<WideNode, HeapError> {
        let entry = |index: u64| {
            let at = node + ENTRIES + 16 * index;
            Ok(StructureEntry {
                key: heap.read(at)?,
                value: heap.read(at + 8)?,
            })
        };
        let child = |index: u64| heap.read(node + CHILDREN + 8 * index);
        Ok(WideNode {
            entries: (0..count).map(entry).collect::<Result<_, _>>()?,
            children: match is_leaf {
                true => Vec::new(),
                false => (0..=count).map(child).collect::<Result<_, _>>()?,
            },
        })
    }

    pub fn write(&self, heap: &mut impl NodeHeap, node: u64) -> Result<(), HeapError> {
        debug_assert!(self.is_leaf() || self.children.len() == self.entries.len() + 1);
        for (entry, at) in self.entries.iter().zip((node + ENTRIES..).step_by(16)) {
            heap.write(at, entry.key)?;
            heap.write(at + 8, entry.value)?;
        }
        for (child, at) in self.children.iter().zip((node + CHILDREN..).step_by(8)) {
            heap.write(at, *child)?;
        }
        Ok(())
    }

    /// Takes the entries and children from the middle on, and the entry before them.
    pub fn split(&mut self) -> Option<(StructureEntry, WideNode)> {
        let middle = self.entries.len() / 2;
        let right = WideNode {
            entries: self.entries.split_off(middle + 1),
            children: match self.is_leaf() {
                true => Vec::new(),
                false => self.children.split_off(middle + 1),
            },
        };
        self.entries.pop().map(|entry| (entry, right))
    }
}
