//! An endpoint on which the tasks of a thread take turns, although it executes posts immediately.

use nearfield_fabric::{
    ClientProcessorWork, Endpoint, FabricError, FabricVerb, GlobalAddress, NodeId,
};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

#[derive(Clone)]
pub struct YieldingEndpoint<E>(pub E);

/// Lets the other tasks continue.
async fn pass() {
    let mut passed = false;
    poll_fn(|_| {
        if std::mem::replace(&mut passed, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// Returns the error of a verb. A node of the run that was lost before is not known here.
fn lost(error: FabricError) -> FabricError {
    match error {
        FabricError::NoSuchNode { node } => FabricError::NodeLost { node },
        error => error,
    }
}

impl<E: Endpoint> Endpoint for YieldingEndpoint<E> {
    fn nodes(&self) -> Vec<NodeId> {
        self.0.nodes()
    }

    fn is_reachable(&self, node: NodeId) -> bool {
        self.0.is_reachable(node)
    }

    fn atomic_bytes(&self) -> u64 {
        self.0.atomic_bytes()
    }

    async fn post(&self, verbs: &mut [FabricVerb<'_>]) -> Result<(), FabricError> {
        let done = self.0.post(verbs).await;
        pass().await;
        done.map_err(lost)
    }

    fn write_unsignalled(&self, to: GlobalAddress, bytes: &[u8]) -> Result<(), FabricError> {
        self.0.write_unsignalled(to, bytes)
    }

    async fn post_by(
        &self,
        deadline: Duration,
        verbs: &mut [FabricVerb<'_>],
    ) -> Result<bool, FabricError> {
        let done = self.0.post_by(deadline, verbs).await;
        pass().await;
        done.map_err(lost)
    }

    fn write_unsignalled_by(
        &self,
        deadline: Duration,
        to: GlobalAddress,
        bytes: &[u8],
    ) -> Result<bool, FabricError> {
        self.0.write_unsignalled_by(deadline, to, bytes)
    }

    async fn settle(&self) -> Result<(), FabricError> {
        self.0.settle().await
    }

    async fn allocate(&self, node: NodeId, bytes: u64) -> Result<GlobalAddress, FabricError> {
        self.0.allocate(node, bytes).await
    }

    async fn allocate_at(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        self.0.allocate_at(address, bytes).await
    }

    async fn find_memory(
        &self,
        from: GlobalAddress,
        is_allocated: bool,
    ) -> Result<Option<GlobalAddress>, FabricError> {
        self.0.find_memory(from, is_allocated).await
    }

    async fn free(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        self.0.free(address, bytes).await
    }

    async fn charge(&self, work: ClientProcessorWork) {
        self.0.charge(work).await;
    }

    fn now(&self) -> Duration {
        self.0.now()
    }

    async fn sleep(&self, time: Duration) {
        self.0.sleep(time).await;
    }
}
