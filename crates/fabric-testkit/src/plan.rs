//! The plan of a run.

use nearfield_fabric::transport::sim::Delivery;
use std::time::Duration;

/// The size of runs. The events of each are drawn from its seed.
#[derive(Clone, Debug)]
pub struct RemoteRunPlan {
    /// Number of memory nodes.
    pub nodes: usize,
    /// The memory of each node, in bytes.
    pub node_bytes: usize,
    /// Number of clients that work at the same time.
    pub clients: u32,
    /// Number of operations of each client.
    pub operations: usize,
    /// Number of keys, from 0 on, that the clients share: few, so that their operations collide.
    pub keys: u64,
    /// Share of the clients that die, each at any of its verbs.
    pub dying: f64,
    /// The number of a memory node that is lost, and the latest time of its loss after the index is
    /// created. It is lost after half of that time, when clients have opened the index.
    pub losing: Option<(u16, Duration)>,
    /// Share of the operations that remove a key; of the others half read one.
    pub removing: f64,
    /// Share of the updates among the operations that neither remove nor read; the others insert
    /// the key.
    pub updating: f64,
    /// Share of the updates that do not request the value before.
    pub overwriting: f64,
    /// The tearing of verbs.
    pub delivery: Delivery,
    /// Virtual time after which a client that has not finished its operations counts as hanging.
    pub patience: Duration,
}

impl Default for RemoteRunPlan {
    fn default() -> RemoteRunPlan {
        RemoteRunPlan {
            nodes: 1,
            node_bytes: 1 << 20,
            clients: 6,
            operations: 12,
            keys: 4,
            dying: 0.0,
            losing: None,
            removing: 0.2,
            updating: 0.0,
            overwriting: 0.0,
            delivery: Delivery::Torn,
            patience: Duration::from_secs(1),
        }
    }
}
