//! Which memory nodes there are.

use nearfield_fabric::membership::{EtcdMembers, Membership, MembershipError, NodeAddress};
use nearfield_pool::store::OpenError;
use std::time::{Duration, Instant};

/// How long memory nodes that are not registered in etcd are waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(100);

/// How the memory nodes of a pool are known.
#[derive(Clone, Debug)]
pub enum Nodes {
    /// At these addresses.
    Listed(Vec<NodeAddress>),
    /// By etcd, and how many there are at least.
    Registered(EtcdMembers, usize),
}

impl Nodes {
    /// The addresses of the nodes. Waits until enough of them are registered.
    pub fn addresses(&self) -> Result<Vec<NodeAddress>, OpenError> {
        let (members, count) = match self {
            Nodes::Listed(nodes) => return Ok(nodes.clone()),
            Nodes::Registered(members, count) => (members, *count),
        };
        let failed = |error: MembershipError| OpenError::Connect(error.to_string());
        let membership = Membership::follow(members).map_err(failed)?;
        let began = Instant::now();
        loop {
            let nodes = membership.nodes();
            // Nodes are numbered from 0 on, and the first one has the header of the map.
            let is_complete = (0..)
                .zip(&nodes)
                .all(|(place, node)| node.number.0 == place);
            if nodes.len() >= count && is_complete {
                return Ok(nodes.into_iter().map(|node| node.address).collect());
            }
            if began.elapsed() > PATIENCE {
                let numbers: Vec<_> = nodes.iter().map(|node| node.number.0).collect();
                return Err(OpenError::Connect(format!(
                    "etcd knows the memory nodes of the numbers {numbers:?}, and not all of the \
                     first {count}"
                )));
            }
            std::thread::sleep(LOOK);
        }
    }
}
