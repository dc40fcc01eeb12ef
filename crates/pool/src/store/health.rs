//! The state of memory nodes, as operations find it.

use nearfield_fabric::{Endpoint, NodeId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The state of a memory node, as operations of this process have found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolNodeState {
    /// The node's number.
    pub node: NodeId,
    /// True unless the node was lost when it was last accessed.
    pub is_served: bool,
    /// The number of operations that failed because it was lost.
    pub failures: u64,
}

/// The states of a store's nodes, which all its clients share.
#[derive(Debug)]
pub(super) struct NodeHealth(Vec<NodeHealthEntry>);

#[derive(Debug)]
struct NodeHealthEntry {
    node: NodeId,
    is_lost: AtomicBool,
    failures: AtomicU64,
}

impl NodeHealth {
    pub fn new(nodes: &[NodeId]) -> Arc<NodeHealth> {
        let entry = |&node: &NodeId| NodeHealthEntry {
            node,
            is_lost: AtomicBool::new(false),
            failures: AtomicU64::new(0),
        };
        Arc::new(NodeHealth(nodes.iter().map(entry).collect()))
    }

    /// Notes which nodes a new client reaches.
    pub fn note_connection(&self, endpoint: &impl Endpoint) {
        for entry in &self.0 {
            let is_lost = !endpoint.is_reachable(entry.node);
            entry.is_lost.store(is_lost, Ordering::Relaxed);
        }
    }

    /// Notes that all nodes were found again.
    pub fn note_return(&self) {
        for entry in &self.0 {
            entry.is_lost.store(false, Ordering::Relaxed);
        }
    }

    /// Notes that an operation failed because a node is lost.
    pub fn note_loss(&self, node: NodeId) {
        if let Some(entry) = self.0.iter().find(|entry| entry.node == node) {
            entry.is_lost.store(true, Ordering::Relaxed);
            entry.failures.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn states(&self) -> Vec<PoolNodeState> {
        let state = |entry: &NodeHealthEntry| PoolNodeState {
            node: entry.node,
            is_served: !entry.is_lost.load(Ordering::Relaxed),
            failures: entry.failures.load(Ordering::Relaxed),
        };
        self.0.iter().map(state).collect()
    }
}
