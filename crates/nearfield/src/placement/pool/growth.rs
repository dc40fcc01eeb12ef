//! The way to memory nodes that are about to be added to a pool.

use nearfield_fabric::NodeId;
use nearfield_fabric::membership::NodeAddress;
use std::fmt;

/// A function that makes connections reach a node from then on, and returns its number.
type Reach = dyn Fn(&NodeAddress) -> Result<NodeId, String> + Send + Sync;

/// The way to a node that is about to be added.
pub(super) struct PoolNodeReach(Box<Reach>);

impl PoolNodeReach {
    pub fn new(
        reach: impl Fn(&NodeAddress) -> Result<NodeId, String> + Send + Sync + 'static,
    ) -> PoolNodeReach {
        PoolNodeReach(Box::new(reach))
    }

    /// Makes connections reach a node from here on, and returns its number.
    pub fn reach(&self, address: &NodeAddress) -> Result<NodeId, String> {
        (self.0)(address)
    }
}

impl fmt::Debug for PoolNodeReach {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PoolNodeReach")
    }
}
