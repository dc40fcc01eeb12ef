//! Clocks with a wrong rate.

use crate::address::{GlobalAddress, NodeId};
use crate::endpoint::{ClientProcessorWork, Endpoint};
use crate::error::FabricError;
use crate::verb::FabricVerb;
use std::time::Duration;

/// An endpoint whose clock runs too fast or too slowly. It measures leases, too.
#[derive(Clone, Debug)]
pub struct SkewedClockEndpoint<E> {
    endpoint: E,
    percent: u32,
}

impl<E: Endpoint> SkewedClockEndpoint<E> {
    /// Makes the clock of `endpoint` advance by `percent` hundredths of a second per second.
    ///
    /// # Panics
    /// `percent` is 0: the clock would stand still.
    pub fn new(endpoint: E, percent: u32) -> SkewedClockEndpoint<E> {
        assert!(percent > 0, "clocks continue");
        SkewedClockEndpoint { endpoint, percent }
    }
}

impl<E: Endpoint> Endpoint for SkewedClockEndpoint<E> {
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
        self.endpoint.post(verbs).await
    }

    fn write_unsignalled(&self, to: GlobalAddress, bytes: &[u8]) -> Result<(), FabricError> {
        self.endpoint.write_unsignalled(to, bytes)
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
        self.endpoint.allocate(node, bytes).await
    }

    async fn allocate_at(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        self.endpoint.allocate_at(address, bytes).await
    }

    async fn find_memory(
        &self,
        from: GlobalAddress,
        is_allocated: bool,
    ) -> Result<Option<GlobalAddress>, FabricError> {
        self.endpoint.find_memory(from, is_allocated).await
    }

    async fn free(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        self.endpoint.free(address, bytes).await
    }

    async fn charge(&self, work: ClientProcessorWork) {
        self.endpoint.charge(work).await;
    }

    fn now(&self) -> Duration {
        self.endpoint.now() * self.percent / 100
    }

    async fn sleep(&self, time: Duration) {
        self.endpoint.sleep(time * 100 / self.percent).await;
    }
}
