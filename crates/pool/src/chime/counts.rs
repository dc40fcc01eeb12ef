//! Counters of a compute node: lookups of leaves in its cache, and reads that were repeated.

use super::ChimeComputeNode;
use super::session::ChimeSession;
use nearfield_fabric::count::ClientCounters;
use nearfield_fabric::{Endpoint, GlobalAddress, NodeId};

/// The lookups of parents of leaves in the cache of a compute node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheLookups {
    /// Number of lookups that found the parent. It may have been outdated.
    pub hits: u64,
    /// Number of lookups that did not, so that internal nodes were read.
    pub misses: u64,
}

/// The reads of a memory node that clients of a compute node have repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeRetries {
    /// The number of the memory node.
    pub node: NodeId,
    /// Number of reads of nodes of the tree that met a concurrent write.
    pub torn_reads: u64,
    /// Number of routes that led to a node of the tree which was divided, merged or moved
    /// meanwhile. Its sibling shows it.
    pub stale_routes: u64,
}

// The numbers of the counters. Those of memory nodes follow, by their numbers.
const HITS: usize = 0;
const MISSES: usize = 1;
const NODES: usize = 2;
const TORN_READS: usize = 0;
const STALE_ROUTES: usize = 1;
/// Number of counters of a memory node.
const NODE_COUNTERS: usize = 2;

/// Returns the number of the first counter of a memory node.
fn first_of(node: NodeId) -> usize {
    NODES + usize::from(node.0) * NODE_COUNTERS
}

impl ChimeComputeNode {
    /// Returns the counters of a new client of these memory nodes.
    pub(super) fn client_counters(&self, nodes: &[NodeId]) -> ClientCounters {
        let ends = nodes.iter().map(|&node| first_of(node) + NODE_COUNTERS);
        self.counters.client(ends.max().unwrap_or(NODES))
    }

    /// Returns the lookups of its clients in its cache so far. There are none while the root is a
    /// leaf.
    pub fn cache_lookups(&self) -> CacheLookups {
        let sums = self.counters.sums();
        let sum = |counter: usize| sums.get(counter).copied().unwrap_or(0);
        CacheLookups {
            hits: sum(HITS),
            misses: sum(MISSES),
        }
    }

    /// Returns the reads that its clients have repeated so far, by memory node, in this order.
    pub fn retries(&self, nodes: &[NodeId]) -> Vec<NodeRetries> {
        let sums = self.counters.sums();
        let of = |&node: &NodeId| {
            let sum = |counter: usize| {
                let found = sums.get(first_of(node) + counter);
                found.copied().unwrap_or(0)
            };
            NodeRetries {
                node,
                torn_reads: sum(TORN_READS),
                stale_routes: sum(STALE_ROUTES),
            }
        };
        nodes.iter().map(of).collect()
    }
}

impl<E: Endpoint> ChimeSession<'_, E> {
    /// Counts lookups that found the parent of a leaf in the cache.
    pub(super) fn note_hits(&self, lookups: usize) {
        self.tree.counters.add(HITS, lookups as u64);
    }

    /// Counts a lookup that did not find the parent of a leaf in the cache.
    pub(super) fn note_miss(&self) {
        self.tree.counters.add(MISSES, 1);
    }

    /// Counts a read at an address that met a concurrent write.
    pub(super) fn note_torn(&self, at: GlobalAddress) {
        let counter = first_of(at.node()) + TORN_READS;
        self.tree.counters.add(counter, 1);
    }

    /// Counts a route that led to an address where the tree has changed meanwhile.
    pub(super) fn note_stale(&self, at: GlobalAddress) {
        let counter = first_of(at.node()) + STALE_ROUTES;
        self.tree.counters.add(counter, 1);
    }
}
