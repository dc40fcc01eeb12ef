//! Endpoints with faults. With these, an index must fail the tests.

use nearfield_fabric::transport::sim::SimEndpoint;
use nearfield_fabric::{Endpoint, FabricError, GlobalAddress, NodeId, Verb, Work};
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
        verbs: &mut [Verb<'_>],
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
pub struct Faulty<I> {
    endpoint: SimEndpoint,
    interference: I,
}

impl<I> Faulty<I> {
    /// Creates an endpoint with an interference.
    pub fn new(endpoint: SimEndpoint, interference: I) -> Faulty<I> {
        Faulty {
            endpoint,
            interference,
        }
    }

    /// Returns the interference.
    pub fn interference(&self) -> &I {
        &self.interference
    }
}

impl<I: Interference> Endpoint for Faulty<I> {
    fn atomic_bytes(&self) -> u64 {
        self.endpoint.atomic_bytes()
    }

    fn nodes(&self) -> Vec<NodeId> {
        self.endpoint.nodes()
    }

    async fn post(&self, verbs: &mut [Verb<'_>]) -> Result<(), FabricError> {
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

    async fn charge(&self, work: Work) {
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
pub enum Fault {
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

/// A [`Fault`] in the posts of one client.
#[derive(Debug)]
pub struct Planted {
    fault: Fault,
    writes: Cell<u32>,
}

impl Planted {
    /// Creates the interference of a fault, which begins at once.
    pub fn new(fault: Fault) -> Planted {
        Planted {
            fault,
            writes: Cell::new(0),
        }
    }

    /// Returns true for one in eight posts that begin with a write.
    fn is_forgotten(&self, verbs: &[Verb<'_>]) -> bool {
        let [Verb::Write { .. }, ..] = verbs else {
            return false;
        };
        let count = self.writes.replace(self.writes.get() + 1);
        count % 8 == 7
    }
}

impl Interference for Planted {
    async fn post(
        &self,
        endpoint: &SimEndpoint,
        verbs: &mut [Verb<'_>],
    ) -> Result<(), FabricError> {
        match self.fault {
            Fault::NoLocks => {
                if let [Verb::Swap { found, .. }] = verbs {
                    *found = 0;
                    return Ok(());
                }
            }
            Fault::LastFirst => verbs.rotate_right(1),
            Fault::Forgets if self.is_forgotten(verbs) => {
                let last = verbs.len() - 1;
                return endpoint.post(&mut verbs[last..]).await;
            }
            Fault::None | Fault::Forgets => {}
        }
        endpoint.post(verbs).await
    }
}
