//! The distribution of data over memory nodes.

use nearfield_offload::node::RackMemory;
use nearfield_offload::structures::{HeapError, NodeArena, NodeHeap};
use std::ops::Range;

/// A heap over all memory nodes. It allocates at a node until a slab is full there, then at the
/// next one, as in the paper's artifact.
#[derive(Debug)]
pub(super) struct RackSlabHeap<'m> {
    nodes: Vec<NodeArena<RackMemory<'m>>>,
    present: usize,
    slab: u64,
    left: u64,
}

/// Number of slabs of each memory node.
const EACH: u64 = 16;
/// The longest allocation, in bytes.
const LONGEST: u64 = 8192;

/// Returns the bytes of a slab.
pub(super) fn slab_bytes(data_bytes: u64, nodes: usize) -> u64 {
    // The data has some slabs at each node, as in slabs of 1 GiB in the artifact.
    let slabs = EACH * nodes as u64;
    data_bytes.div_ceil(slabs.max(1)).next_multiple_of(LONGEST)
}

impl<'m> RackSlabHeap<'m> {
    /// Creates an empty heap in the parts of all memory nodes, at least one.
    pub(super) fn new(rack: &RackMemory<'m>, parts: &[Range<u64>], slab: u64) -> RackSlabHeap<'m> {
        debug_assert!(!parts.is_empty());
        let arena = |part: &Range<u64>| NodeArena::new(rack.clone(), vec![part.clone()]);
        RackSlabHeap {
            nodes: parts.iter().map(arena).collect(),
            present: 0,
            slab,
            left: slab,
        }
    }
}

impl<'m> RackSlabHeap<'m> {
    /// Returns the number of memory nodes.
    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the memory of one node, for data that must stay at that node.
    pub(super) fn at(&mut self, node: usize) -> &mut NodeArena<RackMemory<'m>> {
        &mut self.nodes[node]
    }
}

impl NodeHeap for RackSlabHeap<'_> {
    // All arenas reach all memory.
    fn read(&self, address: u64) -> Result<u64, HeapError> {
        self.nodes[self.present].read(address)
    }

    fn write(&mut self, address: u64, word: u64) -> Result<(), HeapError> {
        self.nodes[self.present].write(address, word)
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, HeapError> {
        if self.left < bytes {
            self.present = (self.present + 1) % self.nodes.len();
            self.left = self.slab;
        }
        self.left = self.left.saturating_sub(bytes);
        self.nodes[self.present].allocate(bytes)
    }

    fn free(&mut self, address: u64, bytes: u64) {
        self.nodes[self.present].free(address, bytes);
    }
}
