//! Memory nodes of this process, on which trees lie and programs run.

use nearfield_fabric::transport::shm::ShmEndpoint;
use nearfield_fabric::{GlobalAddress, NodeId};
use nearfield_fabric_testkit::ShmNodes;
use nearfield_offload::node::{LocalMemory, Range, Ranges, Tenant};
use nearfield_offload::traversal::{AccessError, NodeMemory};

pub const TENANT: Tenant = Tenant(3);

/// A place of the header of a tree.
pub const ROOT: GlobalAddress = GlobalAddress::new(NodeId(0), 64);

pub fn served(nodes: u16) -> (ShmNodes, ShmEndpoint) {
    let nodes = ShmNodes::serve(nodes, 16 << 20).expect("nodes");
    let endpoint = ShmEndpoint::attach(nodes.names()).expect("they are served");
    (nodes, endpoint)
}

/// The memory of all nodes.
pub struct Rack<'n>(pub Vec<LocalMemory<'n>>);

impl<'n> Rack<'n> {
    pub fn new(nodes: &'n ShmNodes) -> Rack<'n> {
        let memories = nodes.words().enumerate().map(|(number, words)| {
            let start = GlobalAddress::new(NodeId(number as u16), 4096).to_bits();
            let range = Range {
                offset: 4096,
                ..Range::whole(start, size_of_val(words) as u64 - 4096, TENANT)
            };
            let ranges = Ranges::new(vec![range]).expect("one range");
            LocalMemory::new(words, ranges).expect("it lies in memory")
        });
        Rack(memories.collect())
    }

    fn node(&self, address: u64) -> Result<&LocalMemory<'n>, AccessError> {
        let holds = |node: &&LocalMemory<'_>| node.ranges().find(address).is_some();
        self.0.iter().find(holds).ok_or(AccessError::Absent)
    }
}

impl NodeMemory for Rack<'_> {
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), AccessError> {
        self.node(address)?.of(TENANT).load(address, into)
    }

    fn check_store(&self, _: u64, _: usize) -> Result<(), AccessError> {
        Err(AccessError::Denied)
    }

    fn store(&self, _: u64, _: &[u8]) -> Result<(), AccessError> {
        Err(AccessError::Denied)
    }
}
