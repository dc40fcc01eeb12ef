//! Memory nodes of this process, which store trees and run programs.

use nearfield_fabric::transport::shm::ShmEndpoint;
use nearfield_fabric::{GlobalAddress, NodeId};
use nearfield_fabric_testkit::ShmNodes;
use nearfield_offload::node::{
    LocalMemory, NodeRange, NodeRanges, RackMemory, Tenant, TenantPermission,
};

pub const TENANT: Tenant = Tenant(3);

/// The address of the header of a tree.
pub const ROOT: GlobalAddress = GlobalAddress::new(NodeId(0), 64);

pub fn served(nodes: u16) -> (ShmNodes, ShmEndpoint) {
    let nodes = ShmNodes::serve(nodes, 16 << 20).expect("nodes");
    let endpoint = ShmEndpoint::attach(nodes.names()).expect("they are served");
    (nodes, endpoint)
}

/// Returns the memory of all nodes, which programs only read.
pub fn rack(nodes: &ShmNodes) -> RackMemory<'_> {
    let memories = nodes.words().enumerate().map(|(number, words)| {
        let start = GlobalAddress::new(NodeId(number as u16), 4096).to_bits();
        let range = NodeRange {
            offset: 4096,
            permission: TenantPermission::Read,
            ..NodeRange::whole(start, size_of_val(words) as u64 - 4096, TENANT)
        };
        let ranges = NodeRanges::new(vec![range]).expect("one range");
        LocalMemory::new(words, ranges).expect("it is in memory")
    });
    RackMemory::new(memories.collect(), TENANT)
}
