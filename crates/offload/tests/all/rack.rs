//! Memory nodes in this process, with consecutive addresses.

use nearfield_offload::node::{LocalMemory, NodeRange, NodeRanges, RackMemory, Tenant};
use nearfield_offload::structures::NodeArena;
use std::sync::atomic::AtomicU64;

pub const NODE_BYTES: u64 = 1 << 20;
pub const TENANT: Tenant = Tenant(7);

/// Creates the words of some nodes.
pub fn words(nodes: usize) -> Vec<Vec<AtomicU64>> {
    let node = || (0..NODE_BYTES / 8).map(|_| AtomicU64::new(0)).collect();
    (0..nodes).map(|_| node()).collect()
}

/// Returns the first address of a node.
pub fn start(node: usize) -> u64 {
    (node as u64 + 1) << 32
}

pub fn range(node: usize) -> NodeRange {
    NodeRange::whole(start(node), NODE_BYTES, TENANT)
}

/// Creates the nodes of these words.
pub fn rack(words: &[Vec<AtomicU64>]) -> RackMemory<'_> {
    let node = |(node, words)| {
        LocalMemory::new(words, NodeRanges::new(vec![range(node)]).unwrap()).unwrap()
    };
    let words = words.iter().map(Vec::as_slice).enumerate();
    RackMemory::new(words.map(node).collect(), TENANT)
}

/// Creates a heap that spreads allocations over all nodes.
pub fn arena<'w>(rack: &RackMemory<'w>) -> NodeArena<RackMemory<'w>> {
    let parts = (0..rack.nodes().len()).map(|node| start(node)..start(node) + NODE_BYTES);
    NodeArena::new(rack.clone(), parts.collect())
}
