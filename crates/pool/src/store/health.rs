//! The state of memory nodes, as operations find it.

use crate::chime::NodeRetries;
use nearfield_fabric::{Endpoint, NodeId};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// The state of a memory node, as operations of this process have found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolNodeState {
    /// The node's number.
    pub node: NodeId,
    /// True unless the node was lost when it was last accessed.
    pub is_served: bool,
    /// True if a repair or a drain has excluded the node, as far as this process has noticed.
    pub is_excluded: bool,
    /// The number of operations that failed because it was lost.
    pub failures: u64,
    /// The number of reads there that met a concurrent write, and were repeated.
    pub torn_reads: u64,
    /// The number of routes to leaves and inner nodes there that were outdated, so that another one
    /// was searched.
    pub stale_routes: u64,
}

/// The states of a store's nodes, which all its clients share.
#[derive(Debug)]
pub(super) struct NodeHealth(RwLock<Vec<NodeHealthEntry>>);

#[derive(Debug)]
struct NodeHealthEntry {
    node: NodeId,
    is_lost: AtomicBool,
    is_excluded: AtomicBool,
    failures: AtomicU64,
}

impl NodeHealth {
    pub fn new(nodes: &[NodeId]) -> Arc<NodeHealth> {
        let health = NodeHealth(RwLock::default());
        health.extend(nodes);
        Arc::new(health)
    }

    /// Adds the nodes that are not known yet. Those that are known come first.
    pub fn extend(&self, nodes: &[NodeId]) {
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for &node in nodes {
            if entries.iter().all(|entry| entry.node != node) {
                entries.push(NodeHealthEntry {
                    node,
                    is_lost: AtomicBool::new(false),
                    is_excluded: AtomicBool::new(false),
                    failures: AtomicU64::new(0),
                });
            }
        }
    }

    fn entries(&self) -> RwLockReadGuard<'_, Vec<NodeHealthEntry>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes which nodes a new client reaches. Returns true if the loss of one is news.
    pub fn note_connection(&self, endpoint: &impl Endpoint) -> bool {
        let mut has_news = false;
        for entry in &*self.entries() {
            let is_lost = !endpoint.is_reachable(entry.node);
            let was_lost = entry.is_lost.swap(is_lost, Ordering::Relaxed);
            has_news |= is_lost && !was_lost;
        }
        has_news
    }

    /// Notes that all nodes were found again.
    pub fn note_return(&self) {
        for entry in &*self.entries() {
            entry.is_lost.store(false, Ordering::Relaxed);
        }
    }

    /// Notes which nodes repairs have excluded. A node stays excluded.
    pub fn note_excluded(&self, is_excluded: impl Fn(NodeId) -> bool) {
        let entries = self.entries();
        for entry in entries.iter().filter(|entry| is_excluded(entry.node)) {
            entry.is_excluded.store(true, Ordering::Relaxed);
        }
    }

    /// Returns true if one of the nodes that are meant is lost.
    pub fn has_lost(&self, is_meant: impl Fn(NodeId) -> bool) -> bool {
        let entries = self.entries();
        let mut lost = entries.iter();
        lost.any(|entry| entry.is_lost.load(Ordering::Relaxed) && is_meant(entry.node))
    }

    /// Notes that an operation failed because one node of a pair was lost, whose number this is.
    pub fn note_interruption(&self, node: NodeId) {
        let entries = self.entries();
        if let Some(entry) = entries.iter().find(|entry| entry.node == node) {
            entry.failures.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that an operation failed because a node is lost. Returns true if that is news.
    pub fn note_loss(&self, node: NodeId) -> bool {
        let entries = self.entries();
        let Some(entry) = entries.iter().find(|entry| entry.node == node) else {
            return false;
        };
        entry.failures.fetch_add(1, Ordering::Relaxed);
        !entry.is_lost.swap(true, Ordering::Relaxed)
    }

    /// Returns the state of each node, with the repeated reads that `retries` returns.
    pub fn states(
        &self,
        retries: impl FnOnce(&[NodeId]) -> Vec<NodeRetries>,
    ) -> Vec<PoolNodeState> {
        let entries = self.entries();
        let nodes: Vec<NodeId> = entries.iter().map(|entry| entry.node).collect();
        let state = |(entry, of_node): (&NodeHealthEntry, NodeRetries)| PoolNodeState {
            node: entry.node,
            is_served: !entry.is_lost.load(Ordering::Relaxed),
            is_excluded: entry.is_excluded.load(Ordering::Relaxed),
            failures: entry.failures.load(Ordering::Relaxed),
            torn_reads: of_node.torn_reads,
            stale_routes: of_node.stale_routes,
        };
        entries.iter().zip(retries(&nodes)).map(state).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_news_until_the_node_returns() {
        let health = NodeHealth::new(&[NodeId(0), NodeId(7)]);
        let states = || health.states(|nodes| vec![NodeRetries::default(); nodes.len()]);
        let lost = || {
            let states = states().into_iter().filter(|state| !state.is_served);
            states
                .map(|state| (state.node.0, state.failures))
                .collect::<Vec<_>>()
        };
        assert!(lost().is_empty());
        assert!(health.note_loss(NodeId(7)) && !health.note_loss(NodeId(7)));
        assert!(!health.note_loss(NodeId(3)), "no node of the store");
        assert_eq!(lost(), [(7, 2)]);
        assert!(health.has_lost(|node| node.0 == 7) && !health.has_lost(|node| node.0 != 7));
        health.note_return();
        assert!(lost().is_empty());
        assert!(health.note_loss(NodeId(7)));
        assert_eq!(lost(), [(7, 3)]);
        health.note_excluded(|node| node.0 == 7);
        health.note_excluded(|_| false);
        let found = states().into_iter();
        let excluded: Vec<bool> = found.map(|state| state.is_excluded).collect();
        assert_eq!(excluded, [false, true]);
        health.extend(&[NodeId(0), NodeId(7), NodeId(9)]);
        let found = states().into_iter();
        let failures: Vec<_> = found.map(|state| (state.node.0, state.failures)).collect();
        assert_eq!(failures, [(0, 0), (7, 3), (9, 0)]);
    }
}
