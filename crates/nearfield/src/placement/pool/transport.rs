//! Transports to memory nodes.

use super::status::FoundPoolNode;
use super::{KnownPoolNodes, PoolMapIndex, PoolNodeEntry, ProgramNodes};
use crate::form::MapForm;
use nearfield_fabric::membership::NodeAddress;
use nearfield_fabric::transport::shm::ShmEndpoint;
use nearfield_fabric::transport::ucx::UcxEndpoint;
use nearfield_fabric::{
    ClientProcessorWork, Endpoint, FabricError, FabricVerb, GlobalAddress, NodeId,
};
use nearfield_pool::PoolError;
use nearfield_pool::store::{PoolStore, StoreOpenError, StoreOptions, empty_nodes, pool_member};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A client's access to the nodes of a pool, on either transport.
///
/// The store is compiled once for both: it is large, and a branch for each post costs little beside
/// the post.
#[derive(Debug)]
struct PoolEndpoint {
    transport: PoolTransport,
    /// The nodes of the pool that were not served, or had lost their memory, when this client
    /// connected. They count as lost.
    absent: Vec<NodeId>,
}

#[derive(Debug)]
enum PoolTransport {
    Shm(ShmEndpoint),
    Ucx(UcxEndpoint),
}

/// Evaluates an expression on the endpoint of either transport.
macro_rules! on_either {
    ($transport:expr, $each:ident => $call:expr) => {
        match $transport {
            PoolTransport::Shm($each) => $call,
            PoolTransport::Ucx($each) => $call,
        }
    };
}

impl PoolEndpoint {
    fn check(&self, node: NodeId) -> Result<(), FabricError> {
        if self.absent.contains(&node) {
            return Err(FabricError::NodeLost { node });
        }
        Ok(())
    }

    fn check_all(&self, verbs: &[FabricVerb<'_>]) -> Result<(), FabricError> {
        // Usually all nodes are served.
        if self.absent.is_empty() {
            return Ok(());
        }
        verbs.iter().try_for_each(|verb| self.check(verb.node()))
    }
}

// Each method with a body of its own in a transport is passed on: the body in the trait is a slower
// or weaker one.
impl Endpoint for PoolEndpoint {
    fn nodes(&self) -> Vec<NodeId> {
        let mut nodes = on_either!(&self.transport, it => it.nodes());
        nodes.extend(&self.absent);
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    fn is_reachable(&self, node: NodeId) -> bool {
        !self.absent.contains(&node) && on_either!(&self.transport, it => it.is_reachable(node))
    }

    fn atomic_bytes(&self) -> u64 {
        on_either!(&self.transport, it => it.atomic_bytes())
    }

    async fn post(&self, verbs: &mut [FabricVerb<'_>]) -> Result<(), FabricError> {
        self.check_all(verbs)?;
        on_either!(&self.transport, it => it.post(verbs).await)
    }

    async fn post_by(
        &self,
        deadline: Duration,
        verbs: &mut [FabricVerb<'_>],
    ) -> Result<bool, FabricError> {
        self.check_all(verbs)?;
        on_either!(&self.transport, it => it.post_by(deadline, verbs).await)
    }

    fn write_unsignalled(&self, to: GlobalAddress, bytes: &[u8]) -> Result<(), FabricError> {
        self.check(to.node())?;
        on_either!(&self.transport, it => it.write_unsignalled(to, bytes))
    }

    fn write_unsignalled_by(
        &self,
        deadline: Duration,
        to: GlobalAddress,
        bytes: &[u8],
    ) -> Result<bool, FabricError> {
        self.check(to.node())?;
        on_either!(&self.transport, it => it.write_unsignalled_by(deadline, to, bytes))
    }

    async fn settle(&self) -> Result<(), FabricError> {
        on_either!(&self.transport, it => it.settle().await)
    }

    async fn allocate(&self, node: NodeId, bytes: u64) -> Result<GlobalAddress, FabricError> {
        self.check(node)?;
        on_either!(&self.transport, it => it.allocate(node, bytes).await)
    }

    async fn free(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        self.check(address.node())?;
        on_either!(&self.transport, it => it.free(address, bytes).await)
    }

    async fn charge(&self, work: ClientProcessorWork) {
        on_either!(&self.transport, it => it.charge(work).await);
    }

    fn now(&self) -> Duration {
        on_either!(&self.transport, it => it.now())
    }

    async fn sleep(&self, time: Duration) {
        on_either!(&self.transport, it => it.sleep(time).await);
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

/// The connections of a process to the nodes of one transport.
#[derive(Debug)]
struct PoolConnector {
    nodes: KnownPoolNodes,
    /// The addresses of the nodes without the names of their transports.
    addresses: Vec<String>,
    is_shm: bool,
    /// The endpoint that all threads share, in shared memory.
    shared: Mutex<Option<ShmEndpoint>>,
    /// True once the index is open. From then on a node that has lost its memory counts as lost.
    /// Before, its name may be wrong, so it is refused.
    is_open: AtomicBool,
}

impl PoolConnector {
    fn new(nodes: KnownPoolNodes) -> PoolConnector {
        let first = nodes.entries.first().map(|node| &node.address);
        let is_shm = matches!(first, Some(NodeAddress::Shm { .. }));
        PoolConnector {
            addresses: bare_addresses(&nodes.entries),
            nodes,
            is_shm,
            shared: Mutex::default(),
            is_open: AtomicBool::new(false),
        }
    }

    /// Connects a thread to the nodes that are served, at least to one.
    fn connect(&self) -> Result<PoolEndpoint, String> {
        let transport = if self.is_shm {
            PoolTransport::Shm(self.attach()?)
        } else {
            let connected = UcxEndpoint::connect_reachable(&self.addresses);
            PoolTransport::Ucx(connected.map_err(|error| error.to_string())?)
        };
        let reached = on_either!(&transport, it => it.nodes());
        let mut absent = self.nodes.missing.clone();
        for (node, address) in self.nodes.entries.iter().zip(&self.addresses) {
            match on_either!(&transport, it => it.number_of(address)) {
                Some(number) => node.check(number).map_err(|error| error.to_string())?,
                // Without a number in the list, another node may have this one.
                None if reached.contains(&node.number) => {}
                None => absent.push(node.number),
            }
        }
        let mut endpoint = PoolEndpoint { transport, absent };
        if self.is_open.load(Ordering::Acquire) {
            let empty = empty_nodes(&endpoint);
            endpoint.absent.extend(empty);
        }
        Ok(endpoint)
    }

    /// Returns the endpoint of all threads: a new one if a node was lost, because the memory of a
    /// node that is served again is another.
    fn attach(&self) -> Result<ShmEndpoint, String> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(endpoint) = &*shared {
            let nodes = endpoint.nodes();
            let are_served = nodes.iter().all(|&node| endpoint.is_reachable(node));
            if nodes.len() == self.addresses.len() && are_served {
                return Ok(endpoint.clone());
            }
        }
        let attached = ShmEndpoint::attach_reachable(&self.addresses);
        let attached = attached.map_err(|error| error.to_string())?;
        // Single operations lose little by prefetching.
        let attached = attached.prefetching();
        *shared = Some(attached.clone());
        Ok(attached)
    }
}

/// Looks at one node. Returns the reason if it cannot be reached.
pub fn look(node: &PoolNodeEntry) -> Result<FoundPoolNode, String> {
    let nodes = KnownPoolNodes {
        entries: vec![node.clone()],
        missing: Vec::new(),
    };
    let endpoint = PoolConnector::new(nodes).connect()?;
    let number = endpoint.nodes().first().copied().unwrap_or(node.number);
    let member = pool_member(&endpoint, number).map_err(|error| error.to_string())?;
    Ok(FoundPoolNode {
        number,
        memory: on_either!(&endpoint.transport, it => it.memory_of(number)),
        member,
    })
}

/// Opens the index on nodes of one transport. All threads share the nodes in shared memory; each
/// thread has its own UCX connections.
pub fn open<F: MapForm>(
    nodes: &KnownPoolNodes,
    options: &StoreOptions,
    programs: Option<ProgramNodes>,
) -> Result<PoolMapIndex<F>, StoreOpenError> {
    let connector = Arc::new(PoolConnector::new(nodes.clone()));
    let connects = Arc::clone(&connector);
    let store = match PoolStore::open(move || connects.connect(), options) {
        Err(StoreOpenError::Pool(PoolError::Fabric(error @ FabricError::NodeLost { .. }))) => {
            return Err(StoreOpenError::Connect(format!(
                "{error}: the first node of a pool must be served, and all of them when the pool \
                 is created"
            )));
        }
        opened => opened?,
    };
    connector.is_open.store(true, Ordering::Release);
    Ok(PoolMapIndex::new(store, programs))
}
