//! The memory nodes of a pool.

use nearfield_fabric::membership::{EtcdMembers, MembershipError, NodeAddress, NodeMembership};
use nearfield_pool::store::StoreOpenError;
use std::time::{Duration, Instant};

/// The longest wait for memory nodes to register in etcd.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time between two checks of the registered nodes.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The source of the addresses of a pool's memory nodes.
#[derive(Clone, Debug)]
pub enum PoolNodeSource {
    /// Nodes at these addresses.
    Listed(Vec<NodeAddress>),
    /// Nodes that are registered in etcd, and their least number.
    Registered(EtcdMembers, usize),
}

impl PoolNodeSource {
    /// Returns the addresses of the nodes. Waits until enough of them are registered.
    pub fn addresses(&self) -> Result<Vec<NodeAddress>, StoreOpenError> {
        let (members, count) = match self {
            PoolNodeSource::Listed(nodes) => return Ok(nodes.clone()),
            PoolNodeSource::Registered(members, count) => (members, *count),
        };
        let failed = |error: MembershipError| StoreOpenError::Connect(error.to_string());
        let membership = NodeMembership::follow(members).map_err(failed)?;
        let began = Instant::now();
        loop {
            let nodes = membership.nodes();
            // Nodes are numbered from 0, and the first one stores the header of the map.
            let is_complete = (0..)
                .zip(&nodes)
                .all(|(expected, node)| node.number.0 == expected);
            if nodes.len() >= count && is_complete {
                return Ok(nodes.into_iter().map(|node| node.address).collect());
            }
            if began.elapsed() > PATIENCE {
                let numbers: Vec<_> = nodes.iter().map(|node| node.number.0).collect();
                return Err(StoreOpenError::Connect(format!(
                    "etcd lists memory nodes {numbers:?}, but the first {count} are needed"
                )));
            }
            // Nodes that start together register one after the other.
            std::thread::sleep(CHECK_INTERVAL);
        }
    }
}
