//! Memory nodes in this process, with addresses one behind the other.

use nearfield_offload::node::{LocalMemory, Range, Ranges, Tenant};
use nearfield_offload::structures::Arena;
use nearfield_offload::traversal::{AccessError, NodeMemory};
use std::sync::atomic::AtomicU64;

pub const NODE_BYTES: u64 = 1 << 20;
pub const TENANT: Tenant = Tenant(7);

/// The words of some nodes.
pub fn words(nodes: usize) -> Vec<Vec<AtomicU64>> {
    let node = || (0..NODE_BYTES / 8).map(|_| AtomicU64::new(0)).collect();
    (0..nodes).map(|_| node()).collect()
}

/// The first address of a node.
pub fn start(node: usize) -> u64 {
    (node as u64 + 1) << 32
}

pub fn range(node: usize) -> Range {
    Range::whole(start(node), NODE_BYTES, TENANT)
}

/// Nodes that one runner sees.
#[derive(Clone)]
pub struct Rack<'w>(pub Vec<LocalMemory<'w>>);

impl<'w> Rack<'w> {
    pub fn new(words: &'w [Vec<AtomicU64>]) -> Rack<'w> {
        let node = |(node, words): (usize, &'w Vec<AtomicU64>)| {
            LocalMemory::new(words, Ranges::new(vec![range(node)]).unwrap()).unwrap()
        };
        Rack(words.iter().enumerate().map(node).collect())
    }

    pub fn arena(&self) -> Arena<Rack<'w>> {
        let parts = (0..self.0.len()).map(|node| start(node)..start(node) + NODE_BYTES);
        Arena::new(self.clone(), parts.collect())
    }

    fn node(&self, address: u64) -> Result<&LocalMemory<'w>, AccessError> {
        let holds = |node: &&LocalMemory<'_>| node.ranges().find(address).is_some();
        self.0.iter().find(holds).ok_or(AccessError::Absent)
    }
}

impl NodeMemory for Rack<'_> {
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), AccessError> {
        self.node(address)?.of(TENANT).load(address, into)
    }

    fn check_store(&self, address: u64, bytes: usize) -> Result<(), AccessError> {
        self.node(address)?.of(TENANT).check_store(address, bytes)
    }

    fn store(&self, address: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.node(address)?.of(TENANT).store(address, bytes)
    }
}
