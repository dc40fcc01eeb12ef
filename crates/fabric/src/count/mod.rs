//! Counting of the cost of operations on any transport: round trips, messages, bytes and atomics.
//!
//! [`CountingEndpoint`] counts the verbs of one client, for tests and measurements. A
//! [`TrafficLedger`] counts those of all clients of a process by memory node, at a cost that is
//! negligible beside a post.

mod ledger;
mod traffic;

use crate::address::{GlobalAddress, NodeId};
use crate::endpoint::{ClientProcessorWork, Endpoint};
use crate::error::FabricError;
use crate::verb::FabricVerb;
pub use ledger::{ClientCounters, CounterLedger};
use std::cell::RefCell;
use std::time::Duration;
pub use traffic::{ClientTraffic, NodeTraffic, TrafficLedger};

/// The cost since counting began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerbCost {
    /// Number of posts that wait for their completion. Concurrent posts count one each.
    pub round_trips: u64,
    /// Number of verbs, with or without a wait.
    pub messages: u64,
    /// Number of bytes that reads returned.
    pub read_bytes: u64,
    /// Number of bytes written, with or without a wait.
    pub written_bytes: u64,
    /// Number of swaps and additions.
    pub atomics: u64,
    /// Number of calls to processors of nodes.
    pub calls: u64,
    /// The length of each read, in the order of the posts.
    pub reads: Vec<u64>,
}

/// An endpoint that counts the cost of its verbs.
#[derive(Debug, Default)]
pub struct CountingEndpoint<E> {
    endpoint: E,
    cost: RefCell<VerbCost>,
}

impl<E: Endpoint> CountingEndpoint<E> {
    /// Creates an endpoint that counts the cost on `endpoint` from now on.
    pub fn new(endpoint: E) -> CountingEndpoint<E> {
        CountingEndpoint {
            endpoint,
            cost: RefCell::default(),
        }
    }

    /// Returns the cost since the last call.
    pub fn take(&self) -> VerbCost {
        self.cost.take()
    }

    fn note(&self, note: impl FnOnce(&mut VerbCost)) {
        note(&mut self.cost.borrow_mut());
    }

    fn note_unsignalled(&self, bytes: &[u8]) {
        self.note(|cost| {
            cost.messages += 1;
            cost.written_bytes += bytes.len() as u64;
        });
    }

    fn note_post(&self, verbs: &[FabricVerb<'_>]) {
        self.note(|cost| {
            cost.round_trips += 1;
            cost.messages += verbs.len() as u64;
            for verb in verbs {
                match verb {
                    FabricVerb::Read { into, .. } => {
                        cost.read_bytes += into.len() as u64;
                        cost.reads.push(into.len() as u64);
                    }
                    FabricVerb::Write { bytes, .. } => cost.written_bytes += bytes.len() as u64,
                    FabricVerb::Swap { .. } | FabricVerb::Add { .. } => cost.atomics += 1,
                }
            }
        });
    }
}

impl<E: Endpoint> Endpoint for CountingEndpoint<E> {
    fn nodes(&self) -> Vec<NodeId> {
        self.endpoint.nodes()
    }

    fn is_reachable(&self, node: NodeId) -> bool {
        self.endpoint.is_reachable(node)
    }

    fn atomic_bytes(&self) -> u64 {
        self.endpoint.atomic_bytes()
    }

    async fn post(&self, verbs: &mut [FabricVerb<'_>]) -> Result<(), FabricError> {
        // Counted before it is made: a post that fails has been sent as well.
        self.note_post(verbs);
        self.endpoint.post(verbs).await
    }

    async fn post_by(
        &self,
        deadline: Duration,
        verbs: &mut [FabricVerb<'_>],
    ) -> Result<bool, FabricError> {
        self.note_post(verbs);
        self.endpoint.post_by(deadline, verbs).await
    }

    fn write_unsignalled(&self, to: GlobalAddress, bytes: &[u8]) -> Result<(), FabricError> {
        self.note_unsignalled(bytes);
        self.endpoint.write_unsignalled(to, bytes)
    }

    fn write_unsignalled_by(
        &self,
        deadline: Duration,
        to: GlobalAddress,
        bytes: &[u8],
    ) -> Result<bool, FabricError> {
        self.note_unsignalled(bytes);
        self.endpoint.write_unsignalled_by(deadline, to, bytes)
    }

    async fn flush(&self) -> Result<(), FabricError> {
        self.endpoint.flush().await
    }

    async fn settle(&self) -> Result<(), FabricError> {
        self.endpoint.settle().await
    }

    async fn align_replicas(
        &self,
        deadline: Duration,
        lock: GlobalAddress,
        ranges: &[(GlobalAddress, u64)],
    ) -> Result<bool, FabricError> {
        self.endpoint.align_replicas(deadline, lock, ranges).await
    }

    async fn read_backup(&self, from: GlobalAddress, into: &mut [u8]) -> Result<bool, FabricError> {
        self.endpoint.read_backup(from, into).await
    }

    async fn allocate(&self, node: NodeId, bytes: u64) -> Result<GlobalAddress, FabricError> {
        self.note(|cost| cost.calls += 1);
        self.endpoint.allocate(node, bytes).await
    }

    async fn allocate_at(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        self.note(|cost| cost.calls += 1);
        self.endpoint.allocate_at(address, bytes).await
    }

    async fn find_memory(
        &self,
        from: GlobalAddress,
        is_allocated: bool,
    ) -> Result<Option<GlobalAddress>, FabricError> {
        self.note(|cost| cost.calls += 1);
        self.endpoint.find_memory(from, is_allocated).await
    }

    async fn free(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        self.note(|cost| cost.calls += 1);
        self.endpoint.free(address, bytes).await
    }

    async fn charge(&self, work: ClientProcessorWork) {
        self.endpoint.charge(work).await;
    }

    fn now(&self) -> Duration {
        self.endpoint.now()
    }

    async fn sleep(&self, time: Duration) {
        self.endpoint.sleep(time).await;
    }
}
