//! Access to a pool with one replica or two.

use super::transport::PoolEndpoint;
use nearfield_fabric::mirror::MirroredEndpoint;
use nearfield_fabric::{
    ClientProcessorWork, Endpoint, FabricError, FabricVerb, GlobalAddress, NodeId,
};
use std::time::Duration;

/// A client's access to single nodes, or to pairs of them.
///
/// The store is compiled once for both, for the reason that [`PoolEndpoint`] gives.
#[derive(Debug)]
pub(super) enum PlacedEndpoint {
    Nodes(PoolEndpoint),
    Pairs(Box<MirroredEndpoint<PoolEndpoint>>),
}

/// Evaluates an expression on either endpoint.
macro_rules! on_placed {
    ($endpoint:expr, $each:ident => $call:expr) => {
        match $endpoint {
            PlacedEndpoint::Nodes($each) => $call,
            PlacedEndpoint::Pairs($each) => $call,
        }
    };
}

// Each method with a body of its own in an endpoint is passed on: the body in the trait is a slower
// or weaker one.
impl Endpoint for PlacedEndpoint {
    fn nodes(&self) -> Vec<NodeId> {
        on_placed!(self, it => it.nodes())
    }

    fn is_reachable(&self, node: NodeId) -> bool {
        on_placed!(self, it => it.is_reachable(node))
    }

    fn atomic_bytes(&self) -> u64 {
        on_placed!(self, it => it.atomic_bytes())
    }

    async fn post(&self, verbs: &mut [FabricVerb<'_>]) -> Result<(), FabricError> {
        on_placed!(self, it => it.post(verbs).await)
    }

    async fn post_by(
        &self,
        deadline: Duration,
        verbs: &mut [FabricVerb<'_>],
    ) -> Result<bool, FabricError> {
        on_placed!(self, it => it.post_by(deadline, verbs).await)
    }

    fn write_unsignalled(&self, to: GlobalAddress, bytes: &[u8]) -> Result<(), FabricError> {
        on_placed!(self, it => it.write_unsignalled(to, bytes))
    }

    fn write_unsignalled_by(
        &self,
        deadline: Duration,
        to: GlobalAddress,
        bytes: &[u8],
    ) -> Result<bool, FabricError> {
        on_placed!(self, it => it.write_unsignalled_by(deadline, to, bytes))
    }

    async fn flush(&self) -> Result<(), FabricError> {
        on_placed!(self, it => it.flush().await)
    }

    async fn settle(&self) -> Result<(), FabricError> {
        on_placed!(self, it => it.settle().await)
    }

    async fn align_replicas(
        &self,
        deadline: Duration,
        lock: GlobalAddress,
        ranges: &[(GlobalAddress, u64)],
    ) -> Result<bool, FabricError> {
        on_placed!(self, it => it.align_replicas(deadline, lock, ranges).await)
    }

    async fn read_backup(&self, from: GlobalAddress, into: &mut [u8]) -> Result<bool, FabricError> {
        on_placed!(self, it => it.read_backup(from, into).await)
    }

    async fn allocate(&self, node: NodeId, bytes: u64) -> Result<GlobalAddress, FabricError> {
        on_placed!(self, it => it.allocate(node, bytes).await)
    }

    async fn allocate_at(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        on_placed!(self, it => it.allocate_at(address, bytes).await)
    }

    async fn find_memory(
        &self,
        from: GlobalAddress,
        is_allocated: bool,
    ) -> Result<Option<GlobalAddress>, FabricError> {
        on_placed!(self, it => it.find_memory(from, is_allocated).await)
    }

    async fn free(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        on_placed!(self, it => it.free(address, bytes).await)
    }

    async fn charge(&self, work: ClientProcessorWork) {
        on_placed!(self, it => it.charge(work).await);
    }

    fn now(&self) -> Duration {
        on_placed!(self, it => it.now())
    }

    async fn sleep(&self, time: Duration) {
        on_placed!(self, it => it.sleep(time).await);
    }
}
