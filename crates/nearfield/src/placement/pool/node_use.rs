//! The use of each memory node of a pool by this process.

use nearfield_fabric::NodeId;
use nearfield_fabric::count::{NodeTraffic, TrafficLedger};
use nearfield_fabric::mirror::NodePair;
use nearfield_pool::store::PoolNodeState;

/// The use of a memory node by one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolNodeUse {
    /// The state of the node, as operations have found it. In a pool with two replicas, the
    /// failures and the repeated reads of a pair are those of its first node.
    pub state: PoolNodeState,
    /// The verbs that the process has posted to the node.
    pub traffic: NodeTraffic,
}

/// The traffic of a process with the nodes of a pool.
#[derive(Debug)]
pub struct PoolTrafficSource {
    pub ledger: TrafficLedger,
    /// The pairs of nodes; none if the pool has one replica.
    pub pairs: Vec<NodePair>,
}

impl PoolTrafficSource {
    /// Returns the use of each node, in the order of their numbers, by the states of the nodes or
    /// pairs of the store.
    pub fn node_uses(&self, mut states: Vec<PoolNodeState>) -> Vec<PoolNodeUse> {
        for pair in &self.pairs {
            let of_pair = states.iter().find(|state| state.node == pair.number);
            let Some(mut backup) = of_pair.copied() else {
                continue;
            };
            backup.node = pair.backup;
            backup.failures = 0;
            backup.torn_reads = 0;
            backup.stale_routes = 0;
            states.push(backup);
        }
        states.sort_by_key(|state| state.node);
        let nodes: Vec<NodeId> = states.iter().map(|state| state.node).collect();
        let uses = states.into_iter().zip(self.ledger.of(&nodes));
        let uses = uses.map(|(mut state, traffic)| {
            // A pair is served as long as one node of it is.
            if !self.pairs.is_empty() {
                state.is_served = !self.ledger.is_lost(state.node);
            }
            PoolNodeUse { state, traffic }
        });
        uses.collect()
    }
}
