//! Transports to memory nodes.

use super::{PoolMapIndex, PoolNodeEntry, ProgramNodes};
use crate::form::MapForm;
use nearfield_fabric::membership::NodeAddress;
use nearfield_fabric::transport::shm::ShmEndpoint;
use nearfield_fabric::transport::ucx::UcxEndpoint;
use nearfield_fabric::{
    ClientProcessorWork, Endpoint, FabricError, FabricVerb, GlobalAddress, NodeId,
};
use nearfield_pool::store::{PoolStore, StoreOpenError, StoreOptions};
use std::time::Duration;

/// An endpoint of either transport.
///
/// The store is compiled once for both: it is large, and a branch for each post costs little beside
/// the post.
#[derive(Debug)]
enum PoolEndpoint {
    Shm(ShmEndpoint),
    Ucx(UcxEndpoint),
}

/// Evaluates an expression on the endpoint of either transport.
macro_rules! on_either {
    ($endpoint:expr, $each:ident => $call:expr) => {
        match $endpoint {
            PoolEndpoint::Shm($each) => $call,
            PoolEndpoint::Ucx($each) => $call,
        }
    };
}

// Each method with a body of its own in a transport is passed on: the body in the trait is a slower
// or weaker one.
impl Endpoint for PoolEndpoint {
    fn nodes(&self) -> Vec<NodeId> {
        on_either!(self, it => it.nodes())
    }

    fn atomic_bytes(&self) -> u64 {
        on_either!(self, it => it.atomic_bytes())
    }

    async fn post(&self, verbs: &mut [FabricVerb<'_>]) -> Result<(), FabricError> {
        on_either!(self, it => it.post(verbs).await)
    }

    async fn post_by(
        &self,
        deadline: Duration,
        verbs: &mut [FabricVerb<'_>],
    ) -> Result<bool, FabricError> {
        on_either!(self, it => it.post_by(deadline, verbs).await)
    }

    fn write_unsignalled(&self, to: GlobalAddress, bytes: &[u8]) -> Result<(), FabricError> {
        on_either!(self, it => it.write_unsignalled(to, bytes))
    }

    fn write_unsignalled_by(
        &self,
        deadline: Duration,
        to: GlobalAddress,
        bytes: &[u8],
    ) -> Result<bool, FabricError> {
        on_either!(self, it => it.write_unsignalled_by(deadline, to, bytes))
    }

    async fn settle(&self) -> Result<(), FabricError> {
        on_either!(self, it => it.settle().await)
    }

    async fn allocate(&self, node: NodeId, bytes: u64) -> Result<GlobalAddress, FabricError> {
        on_either!(self, it => it.allocate(node, bytes).await)
    }

    async fn free(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        on_either!(self, it => it.free(address, bytes).await)
    }

    async fn charge(&self, work: ClientProcessorWork) {
        on_either!(self, it => it.charge(work).await);
    }

    fn now(&self) -> Duration {
        on_either!(self, it => it.now())
    }

    async fn sleep(&self, time: Duration) {
        on_either!(self, it => it.sleep(time).await);
    }
}

/// Returns the addresses without the names of their transports.
fn bare_addresses(nodes: &[PoolNodeEntry]) -> Vec<String> {
    let bare = |node: &PoolNodeEntry| {
        let address = node.address.to_string();
        match address.split_once(':') {
            Some((_, bare)) => bare.to_owned(),
            None => address,
        }
    };
    nodes.iter().map(bare).collect()
}

/// Opens the index on nodes of one transport. All threads share the nodes in shared memory; each
/// thread has its own UCX connections.
pub fn open<F: MapForm>(
    nodes: &[PoolNodeEntry],
    options: &StoreOptions,
    programs: Option<ProgramNodes>,
) -> Result<PoolMapIndex<F>, StoreOpenError> {
    let addresses = bare_addresses(nodes);
    let shared = match nodes.first().map(|node| &node.address) {
        Some(NodeAddress::Shm { .. }) => {
            let endpoint = ShmEndpoint::attach(&addresses);
            let endpoint = endpoint.map_err(|error| StoreOpenError::Connect(error.to_string()))?;
            // Single operations lose little by prefetching.
            Some(endpoint.prefetching())
        }
        _ => None,
    };
    let nodes = nodes.to_vec();
    let connect = move || -> Result<PoolEndpoint, String> {
        let endpoint = match &shared {
            Some(endpoint) => PoolEndpoint::Shm(endpoint.clone()),
            None => UcxEndpoint::connect(&addresses)
                .map(PoolEndpoint::Ucx)
                .map_err(|error| error.to_string())?,
        };
        for (node, address) in nodes.iter().zip(&addresses) {
            let number = on_either!(&endpoint, it => it.number_of(address));
            node.check(number).map_err(|error| error.to_string())?;
        }
        Ok(endpoint)
    };
    let store = PoolStore::open(connect, options)?;
    Ok(PoolMapIndex::new(store, programs))
}
