//! A way to the nodes that takes a while to go on, and may be wrong.

use nearfield_fabric::sim::SimEndpoint;
use nearfield_fabric::{Endpoint, FabricError, GlobalAddress, NodeId, Verb};
use std::cell::Cell;
use std::time::Duration;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Locks are taken whoever holds them.
    NoLocks,
    /// Of verbs that are posted together the last is done first.
    LastFirst,
}

#[derive(Debug)]
pub struct Slow {
    endpoint: SimEndpoint,
    is_slow: bool,
    fault: Fault,
    posts: Cell<u32>,
}

impl Slow {
    pub fn new(endpoint: SimEndpoint, is_slow: bool, fault: Fault) -> Slow {
        Slow {
            endpoint,
            is_slow,
            fault,
            posts: Cell::new(0),
        }
    }
}

impl Endpoint for Slow {
    fn atomic_bytes(&self) -> u64 {
        self.endpoint.atomic_bytes()
    }

    fn nodes(&self) -> Vec<NodeId> {
        self.endpoint.nodes()
    }

    async fn post(&self, verbs: &mut [Verb<'_>]) -> Result<(), FabricError> {
        if self.fault == Fault::NoLocks
            && let [Verb::Swap { found, .. }] = verbs
        {
            *found = 0;
            return Ok(());
        }
        if self.fault == Fault::LastFirst {
            verbs.rotate_right(1);
        }
        self.endpoint.post(verbs).await?;
        if self.is_slow {
            // From next to nothing to some round trips.
            let number = self.posts.get() + 1;
            self.posts.set(number);
            let time = (self.endpoint.client() * 31 + number * 17) % 20;
            self.endpoint
                .sleep(Duration::from_micros(time.into()))
                .await;
        }
        Ok(())
    }

    fn write_unsignalled(&self, to: GlobalAddress, bytes: &[u8]) -> Result<(), FabricError> {
        self.endpoint.write_unsignalled(to, bytes)
    }

    async fn allocate(&self, node: NodeId, bytes: u64) -> Result<GlobalAddress, FabricError> {
        self.endpoint.allocate(node, bytes).await
    }

    async fn free(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        self.endpoint.free(address, bytes).await
    }

    fn now(&self) -> Duration {
        self.endpoint.now()
    }

    async fn sleep(&self, time: Duration) {
        self.endpoint.sleep(time).await;
    }
}
