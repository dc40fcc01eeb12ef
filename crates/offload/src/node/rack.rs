//! Several memory nodes with memory that this process can access.

use super::local::{LocalMemory, TenantMemory};
use super::ranges::Tenant;
use crate::traversal::{AccessError, TraversalMemory};

/// The memory of several nodes as a tenant sees it: for programs that run in this process, or for a
/// caller that builds a structure there.
#[derive(Clone, Debug)]
pub struct RackMemory<'m> {
    nodes: Vec<LocalMemory<'m>>,
    tenant: Tenant,
}

impl<'m> RackMemory<'m> {
    /// Combines the memory of nodes that have no address in common.
    pub fn new(nodes: Vec<LocalMemory<'m>>, tenant: Tenant) -> RackMemory<'m> {
        debug_assert!(are_disjoint(&nodes), "two nodes have an address");
        RackMemory { nodes, tenant }
    }

    /// Returns the nodes.
    pub fn nodes(&self) -> &[LocalMemory<'m>] {
        &self.nodes
    }

    fn of(&self, address: u64) -> Result<TenantMemory<'_>, AccessError> {
        let holds = |node: &&LocalMemory<'_>| node.ranges().find(address).is_some();
        let node = self.nodes.iter().find(holds).ok_or(AccessError::Absent)?;
        Ok(node.of(self.tenant))
    }
}

/// Returns true if no address is on two nodes.
fn are_disjoint(nodes: &[LocalMemory<'_>]) -> bool {
    let mut ranges: Vec<_> = nodes.iter().flat_map(|node| node.ranges().iter()).collect();
    ranges.sort_by_key(|range| range.start);
    ranges.is_sorted_by(|one, next| one.start + one.bytes <= next.start)
}

impl TraversalMemory for RackMemory<'_> {
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), AccessError> {
        self.of(address)?.load(address, into)
    }

    fn check_store(&self, address: u64, bytes: usize) -> Result<(), AccessError> {
        self.of(address)?.check_store(address, bytes)
    }

    fn store(&self, address: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.of(address)?.store(address, bytes)
    }
}
