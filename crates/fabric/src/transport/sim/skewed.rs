//! Clocks with a wrong rate.

use crate::address::{GlobalAddress, NodeId};
use crate::endpoint::{Endpoint, Work};
use crate::error::FabricError;
use crate::verb::Verb;
use std::time::Duration;

/// An endpoint whose clock runs too fast or too slowly. It measures leases, too.
#[derive(Clone, Debug)]
pub struct Skewed<E> {
    endpoint: E,
    percent: u32,
}

impl<E: Endpoint> Skewed<E> {
    /// Makes the clock of `endpoint` advance by `percent` hundredths of a second per second.
    ///
    /// # Panics
    /// `percent` is 0: the clock would stand still.
    pub fn new(endpoint: E, percent: u32) -> Skewed<E> {
        assert!(percent > 0, "clocks go on");
        Skewed { endpoint, percent }
    }
}

impl<E: Endpoint> Endpoint for Skewed<E> {
    fn nodes(&self) -> Vec<NodeId> {
        self.endpoint.nodes()
    }

    fn atomic_bytes(&self) -> u64 {
        self.endpoint.atomic_bytes()
    }

    async fn post(&self, verbs: &mut [Verb<'_>]) -> Result<(), FabricError> {
        self.endpoint.post(verbs).await
    }

    fn write_unsignalled(&self, to: GlobalAddress, bytes: &[u8]) -> Result<(), FabricError> {
        self.endpoint.write_unsignalled(to, bytes)
    }

    async fn settle(&self) -> Result<(), FabricError> {
        self.endpoint.settle().await
    }

    async fn allocate(&self, node: NodeId, bytes: u64) -> Result<GlobalAddress, FabricError> {
        self.endpoint.allocate(node, bytes).await
    }

    async fn free(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        self.endpoint.free(address, bytes).await
    }

    async fn charge(&self, work: Work) {
        self.endpoint.charge(work).await;
    }

    fn now(&self) -> Duration {
        self.endpoint.now() * self.percent / 100
    }

    async fn sleep(&self, time: Duration) {
        self.endpoint.sleep(time * 100 / self.percent).await;
    }
}
