//! The verbs that a process posts to each memory node.

use super::ledger::{ClientCounters, CounterLedger, LINE_COUNTERS};
use crate::address::NodeId;
use crate::endpoint::Endpoint;
use crate::error::FabricError;
use crate::verb::FabricVerb;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The verbs that a process has posted to a memory node, and the obstacles that they met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeTraffic {
    /// The node's number.
    pub node: NodeId,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes, with or without a wait.
    pub writes: u64,
    /// Number of swaps and additions.
    pub atomics: u64,
    /// Number of calls to the node's processor: allocations, frees and searches of memory.
    pub calls: u64,
    /// Number of bytes that the reads returned.
    pub read_bytes: u64,
    /// Number of bytes of the writes.
    pub written_bytes: u64,
    /// Number of tries to take a lock that another client held. Each takes a round trip.
    pub held_locks: u64,
    /// Number of posts and calls that failed because the node was lost.
    pub lost_posts: u64,
}

// The numbers of a node's counters in its line.
const READS: usize = 0;
const WRITES: usize = 1;
const ATOMICS: usize = 2;
const CALLS: usize = 3;
const READ_BYTES: usize = 4;
const WRITTEN_BYTES: usize = 5;
const HELD_LOCKS: usize = 6;
const LOST_POSTS: usize = 7;

type LostNodes = Mutex<BTreeSet<NodeId>>;

fn locked(lost: &LostNodes) -> MutexGuard<'_, BTreeSet<NodeId>> {
    lost.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The traffic of all clients of a process. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct TrafficLedger {
    /// One line for each number of a node.
    counters: Arc<CounterLedger>,
    /// The nodes that were lost when they were last accessed.
    lost: Arc<LostNodes>,
}

impl TrafficLedger {
    /// Returns the traffic of a new client of these nodes.
    pub fn client(&self, nodes: &[NodeId]) -> ClientTraffic {
        let last = nodes.iter().map(|node| usize::from(node.0)).max();
        let lines = last.map_or(0, |last| last + 1);
        ClientTraffic {
            counters: self.counters.client(lines * LINE_COUNTERS),
            lost: Arc::clone(&self.lost),
        }
    }

    /// Notes which nodes a new client reaches.
    pub fn note_connection(&self, endpoint: &impl Endpoint) {
        let mut lost = locked(&self.lost);
        for node in endpoint.nodes() {
            match endpoint.is_reachable(node) {
                true => lost.remove(&node),
                false => lost.insert(node),
            };
        }
    }

    /// Returns true if a node was lost when a client last accessed it, or connected.
    pub fn is_lost(&self, node: NodeId) -> bool {
        locked(&self.lost).contains(&node)
    }

    /// Returns the traffic of these nodes, in this order.
    pub fn of(&self, nodes: &[NodeId]) -> Vec<NodeTraffic> {
        let sums = self.counters.sums();
        let of = |&node: &NodeId| {
            let line = line_of(node);
            let sum = |counter: usize| sums.get(line + counter).copied().unwrap_or(0);
            NodeTraffic {
                node,
                reads: sum(READS),
                writes: sum(WRITES),
                atomics: sum(ATOMICS),
                calls: sum(CALLS),
                read_bytes: sum(READ_BYTES),
                written_bytes: sum(WRITTEN_BYTES),
                held_locks: sum(HELD_LOCKS),
                lost_posts: sum(LOST_POSTS),
            }
        };
        nodes.iter().map(of).collect()
    }
}

/// The traffic of one client in a [`TrafficLedger`].
#[derive(Debug)]
pub struct ClientTraffic {
    counters: ClientCounters,
    lost: Arc<LostNodes>,
}

/// The adjacent verbs of a post that go to one node.
#[derive(Debug, Default)]
struct VerbRun {
    node: NodeId,
    reads: u64,
    writes: u64,
    atomics: u64,
    read_bytes: u64,
    written_bytes: u64,
    held_locks: u64,
}

impl ClientTraffic {
    /// Counts the verbs of a post that has ended, with this error if it failed. Verbs to a lost
    /// node count, too: they may have been sent.
    pub fn note_post(&self, verbs: &[FabricVerb<'_>], error: Option<&FabricError>) {
        match error {
            None => {}
            Some(FabricError::NodeLost { node }) => self.note_loss(*node),
            Some(_) => return,
        }
        // Most posts go to one node. Its counters are changed once.
        let mut run = VerbRun::default();
        for verb in verbs {
            let node = verb.node();
            if node != run.node {
                self.add(&run);
                run = VerbRun {
                    node,
                    ..VerbRun::default()
                };
            }
            match verb {
                FabricVerb::Read { into, .. } => {
                    run.reads += 1;
                    run.read_bytes += into.len() as u64;
                }
                FabricVerb::Write { bytes, .. } => {
                    run.writes += 1;
                    run.written_bytes += bytes.len() as u64;
                }
                FabricVerb::Swap { swap, found, .. } => {
                    run.atomics += 1;
                    // Only swaps of locks are masked. A post that failed has found nothing.
                    let is_held = error.is_none() && !swap.is_whole() && !swap.succeeds(*found);
                    run.held_locks += u64::from(is_held);
                }
                FabricVerb::Add { .. } => run.atomics += 1,
            }
        }
        self.add(&run);
    }

    /// Counts a call to a node's processor that has ended, with this error if it failed.
    pub fn note_call(&self, node: NodeId, error: Option<&FabricError>) {
        self.counters.add(line_of(node) + CALLS, 1);
        if let Some(FabricError::NodeLost { node }) = error {
            self.note_loss(*node);
        }
    }

    /// Counts a post or a call that failed because a node is lost.
    pub fn note_loss(&self, node: NodeId) {
        self.counters.add(line_of(node) + LOST_POSTS, 1);
        locked(&self.lost).insert(node);
    }

    fn add(&self, run: &VerbRun) {
        let line = line_of(run.node);
        for (counter, count) in [
            (READS, run.reads),
            (WRITES, run.writes),
            (ATOMICS, run.atomics),
            (READ_BYTES, run.read_bytes),
            (WRITTEN_BYTES, run.written_bytes),
            (HELD_LOCKS, run.held_locks),
        ] {
            if count > 0 {
                self.counters.add(line + counter, count);
            }
        }
    }
}

/// Returns the number of the first counter of a node.
fn line_of(node: NodeId) -> usize {
    usize::from(node.0) * LINE_COUNTERS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::GlobalAddress;
    use crate::verb::MaskedSwap;

    fn at(node: u16) -> GlobalAddress {
        GlobalAddress::new(NodeId(node), 4096)
    }

    /// Returns the swap that takes a lock, after it found this word.
    fn lock(node: u16, found: u64) -> FabricVerb<'static> {
        let swap = MaskedSwap {
            expected: 0,
            compare_mask: 1 << 63,
            desired: u64::MAX,
            swap_mask: u64::MAX,
        };
        FabricVerb::Swap {
            at: at(node),
            swap,
            found,
        }
    }

    #[test]
    fn each_verb_counts_at_its_node() {
        let ledger = TrafficLedger::default();
        let nodes = [NodeId(0), NodeId(3)];
        let client = ledger.client(&nodes);
        let (mut short, mut long) = ([0; 8], [0; 100]);
        let verbs = [
            FabricVerb::Read {
                from: at(3),
                into: &mut short,
            },
            lock(3, 7),
            FabricVerb::Write {
                to: at(0),
                bytes: &[1; 20],
            },
            FabricVerb::Read {
                from: at(3),
                into: &mut long,
            },
            // Not the swap of a lock, so no lock was held.
            FabricVerb::compare_swap(at(3), 5, 6),
            FabricVerb::Add {
                at: at(0),
                summand: 1,
                found: 0,
            },
        ];
        client.note_post(&verbs, None);
        client.note_post(&[lock(3, 1 << 63), lock(0, 1 << 63)], None);
        client.note_call(NodeId(0), None);
        let first = NodeTraffic {
            node: NodeId(0),
            writes: 1,
            written_bytes: 20,
            atomics: 2,
            calls: 1,
            held_locks: 1,
            ..NodeTraffic::default()
        };
        let other = NodeTraffic {
            node: NodeId(3),
            reads: 2,
            read_bytes: 108,
            atomics: 3,
            held_locks: 1,
            ..NodeTraffic::default()
        };
        assert_eq!(ledger.of(&nodes), [first, other]);
        drop(client);
        assert_eq!(ledger.of(&nodes), [first, other]);
        let unknown = NodeTraffic {
            node: NodeId(9),
            ..NodeTraffic::default()
        };
        assert_eq!(ledger.of(&[NodeId(9)]), [unknown]);
    }

    #[test]
    fn a_lost_node_is_lost_until_a_client_reaches_it() {
        use crate::transport::sim::{Delivery, FabricSimulation};
        let (simulation, nodes) =
            FabricSimulation::with_nodes(1, Delivery::Whole, [1 << 16, 1 << 16]);
        let ledger = TrafficLedger::default();
        let client = ledger.client(&nodes);
        let lost = FabricError::NodeLost { node: nodes[1] };
        client.note_post(&[lock(1, 1 << 63)], Some(&lost));
        client.note_call(nodes[1], Some(&lost));
        // The post was not made.
        let size = 1 << 16;
        let refused = FabricError::OutOfRange {
            address: at(0),
            bytes: 8,
            size,
        };
        client.note_post(&[lock(0, 0)], Some(&refused));
        let traffic = ledger.of(&nodes);
        assert_eq!(traffic[0], NodeTraffic::default());
        let counted = (traffic[1].atomics, traffic[1].calls, traffic[1].lost_posts);
        assert_eq!((counted, traffic[1].held_locks), ((1, 1, 2), 0));
        let are_lost = || nodes.map(|node| ledger.is_lost(node));
        assert_eq!(are_lost(), [false, true]);
        ledger.note_connection(&simulation.endpoint(0));
        assert_eq!(are_lost(), [false, false]);
    }
}
