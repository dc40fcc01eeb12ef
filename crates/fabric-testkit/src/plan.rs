//! The plan of a run.

use nearfield_fabric::transport::sim::Delivery;
use std::time::Duration;

/// The size of runs. The events of each are drawn from its seed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Memory nodes, and the bytes of each.
    pub nodes: usize,
    /// The memory of each node, in bytes.
    pub node_bytes: usize,
    /// Clients that work at the same time.
    pub clients: u32,
    /// Operations of each.
    pub operations: usize,
    /// Keys from 0 on that they share: few, so that they meet.
    pub keys: u64,
    /// The part of the clients that die, each at any of its verbs.
    pub dying: f64,
    /// The part of the operations that remove a key; of the others half read one.
    pub removing: f64,
    /// The part of the operations that neither remove nor read that update a key; the others insert
    /// it.
    pub updating: f64,
    /// The part of the updates that do not ask for the value before.
    pub overwriting: f64,
    /// How verbs are torn.
    pub delivery: Delivery,
    /// A client that has not done its operations in this virtual time counts as hanging.
    pub patience: Duration,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            nodes: 1,
            node_bytes: 1 << 20,
            clients: 6,
            operations: 12,
            keys: 4,
            dying: 0.0,
            removing: 0.2,
            updating: 0.0,
            overwriting: 0.0,
            delivery: Delivery::Torn,
            patience: Duration::from_secs(1),
        }
    }
}
