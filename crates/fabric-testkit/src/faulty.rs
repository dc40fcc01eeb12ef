//! Endpoints with faults. With these, an index must fail the tests.

use nearfield_fabric::transport::sim::SimEndpoint;
use nearfield_fabric::{
    ClientProcessorWork, Endpoint, FabricError, FabricVerb, GlobalAddress, NodeId,
};
use std::cell::Cell;
use std::future::Future;
use std::time::Duration;

/// A modification of a client's posts.
pub trait Interference {
    /// Executes verbs, or does not.
    ///
    /// # Errors
    /// As [`Endpoint::post`].
    fn post(
        &self,
        endpoint: &SimEndpoint,
        verbs: &mut [FabricVerb<'_>],
    ) -> impl Future<Output = Result<(), FabricError>>;

    /// Makes a node allocate memory.
    ///
    /// # Errors
    /// As [`Endpoint::allocate`].
    fn allocate(
        &self,
        endpoint: &SimEndpoint,
        node: NodeId,
        bytes: u64,
    ) -> impl Future<Output = Result<GlobalAddress, FabricError>> {
        endpoint.allocate(node, bytes)
    }
}

/// A client's endpoint for simulated memory nodes, with an interference.
#[derive(Debug)]
pub struct FaultySimEndpoint<I> {
    endpoint: SimEndpoint,
    interference: I,
}

impl<I> FaultySimEndpoint<I> {
    /// Creates an endpoint with an interference.
    pub fn new(endpoint: SimEndpoint, interference: I) -> FaultySimEndpoint<I> {
        FaultySimEndpoint {
            endpoint,
            interference,
        }
    }

    /// Returns the interference.
    pub fn interference(&self) -> &I {
        &self.interference
    }
}

impl<I: Interference> Endpoint for FaultySimEndpoint<I> {
    fn atomic_bytes(&self) -> u64 {
        self.endpoint.atomic_bytes()
    }

    fn nodes(&self) -> Vec<NodeId> {
        self.endpoint.nodes()
    }

    fn is_reachable(&self, node: NodeId) -> bool {
        self.endpoint.is_reachable(node)
    }

    async fn post(&self, verbs: &mut [FabricVerb<'_>]) -> Result<(), FabricError> {
        self.interference.post(&self.endpoint, verbs).await
    }

    fn write_unsignalled(&self, to: GlobalAddress, bytes: &[u8]) -> Result<(), FabricError> {
        self.endpoint.write_unsignalled(to, bytes)
    }

    async fn allocate(&self, node: NodeId, bytes: u64) -> Result<GlobalAddress, FabricError> {
        let (endpoint, interference) = (&self.endpoint, &self.interference);
        interference.allocate(endpoint, node, bytes).await
    }

    async fn free(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
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

/// A fault for any index that writes under locks, which are free when their word is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimEndpointFault {
    /// No fault.
    None,
    /// Locks are taken even if they are held.
    NoLocks,
    /// The last verb of a post is executed first: a lock is released before the guarded data are
    /// written.
    LastFirst,
    /// One in eight posts of writes is lost, except for its last write, which releases a lock.
    Forgets,
}

/// A [`SimEndpointFault`] in the posts of one client.
#[derive(Debug)]
pub struct FaultInterference {
    fault: SimEndpointFault,
    writes: Cell<u32>,
}

impl FaultInterference {
    /// Creates the interference of a fault, which begins at once.
    pub fn new(fault: SimEndpointFault) -> FaultInterference {
        FaultInterference {
            fault,
            writes: Cell::new(0),
        }
    }

    /// Returns true for one in eight posts that begin with a write.
    fn is_forgotten(&self, verbs: &[FabricVerb<'_>]) -> bool {
        let [FabricVerb::Write { .. }, ..] = verbs else {
            return false;
        };
        let count = self.writes.replace(self.writes.get() + 1);
        count % 8 == 7
    }
}

impl Interference for FaultInterference {
    async fn post(
        &self,
        endpoint: &SimEndpoint,
        verbs: &mut [FabricVerb<'_>],
    ) -> Result<(), FabricError> {
        match self.fault {
            SimEndpointFault::NoLocks => {
                if let [FabricVerb::Swap { found, .. }] = verbs {
                    // Reports the lock as free without a swap, so that all clients take it.
                    *found = 0;
                    return Ok(());
                }
            }
            // The verb that releases a lock comes last in its post.
            SimEndpointFault::LastFirst => verbs.rotate_right(1),
            SimEndpointFault::Forgets if self.is_forgotten(verbs) => {
                // Without the last write the lock would stay held, and the run would show only that
                // clients hang.
                let last = verbs.len() - 1;
                return endpoint.post(&mut verbs[last..]).await;
            }
            SimEndpointFault::None | SimEndpointFault::Forgets => {}
        }
        endpoint.post(verbs).await
    }
}
