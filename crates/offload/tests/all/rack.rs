//! Memory nodes in this process, with consecutive addresses.

use nearfield_offload::node::{LocalMemory, Rack, Range, Ranges, Tenant};
use nearfield_offload::structures::Arena;
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

pub fn range(node: usize) -> Range {
    Range::whole(start(node), NODE_BYTES, TENANT)
}

/// Creates the nodes of these words.
pub fn rack(words: &[Vec<AtomicU64>]) -> Rack<'_> {
    let node =
        |(node, words)| LocalMemory::new(words, Ranges::new(vec![range(node)]).unwrap()).unwrap();
    let words = words.iter().map(Vec::as_slice).enumerate();
    Rack::new(words.map(node).collect(), TENANT)
}

/// Creates a heap that spreads allocations over all nodes.
pub fn arena<'w>(rack: &Rack<'w>) -> Arena<Rack<'w>> {
    let parts = (0..rack.nodes().len()).map(|node| start(node)..start(node) + NODE_BYTES);
    Arena::new(rack.clone(), parts.collect())
}
