//! Runs of clients of the same compute node, which may read, write and lock for each other.

mod slow;

pub use slow::{SlowEndpoint, SlowInterference};

use crate::faulty::SimEndpointFault;
use crate::index::{RemoteIndex, RemoteIndexFactory};
use crate::numbers::{NumberKeyIndex, fabric_error};
use crate::plan::RemoteRunPlan;
use crate::run::{RemoteRunFailure, run};
use nearfield_fabric::transport::sim::{Delivery, FabricSimulation, SimEndpoint};
use nearfield_fabric::{Endpoint, FabricError, NodeId};
use nearfield_hardware::network::NetworkPreset;
use nearfield_pool::{PoolError, PoolIndexClient};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Number of bytes of a value.
const VALUE_BYTES: usize = 8;

/// The key of number 0. A learned index may be loaded with keys below it.
const FIRST_KEY: u64 = 2001;

/// Returns the key that a number stands for.
fn key(number: u64) -> Vec<u8> {
    (FIRST_KEY + number).to_be_bytes().to_vec()
}

/// An index whose clients share the state of their compute node. It has keys and values of 8 bytes.
pub trait SharedIndexKind: Clone + 'static {
    /// The state of a compute node.
    type Node: 'static;
    /// One client's view of the index.
    type Index: PoolIndexClient + 'static;

    /// Creates the state of a compute node.
    fn compute_node(&self) -> Arc<Self::Node>;

    /// Creates the index at [`INDEX_ROOT`](crate::INDEX_ROOT).
    fn create(
        &self,
        endpoint: SlowEndpoint,
        nodes: &[NodeId],
        node: Arc<Self::Node>,
    ) -> impl Future<Output = Result<Self::Index, PoolError>>;

    /// Opens the index that was created.
    fn open(
        &self,
        endpoint: SlowEndpoint,
        nodes: &[NodeId],
        node: Arc<Self::Node>,
    ) -> impl Future<Output = Result<Self::Index, PoolError>>;
}

/// The creation and opening of an index by clients that are on several compute nodes, by turns.
pub struct SharedNodeFactory<K: SharedIndexKind> {
    kind: K,
    /// Number of compute nodes.
    pub count: u32,
    /// The fault of each client's endpoint.
    pub fault: SimEndpointFault,
    /// True if clients pause after a read: then there is time for others to write and to arrive.
    pub is_slow: bool,
    /// True if clients give operations up now and then.
    pub gives_up: bool,
    compute_nodes: RefCell<Vec<Arc<K::Node>>>,
}

impl<K: SharedIndexKind> SharedNodeFactory<K> {
    /// Creates an index for slow clients on two compute nodes, without a fault.
    pub fn new(kind: K) -> SharedNodeFactory<K> {
        SharedNodeFactory {
            kind,
            count: 2,
            fault: SimEndpointFault::None,
            is_slow: true,
            gives_up: false,
            compute_nodes: RefCell::default(),
        }
    }
}

/// A client of an index on a compute node that it shares.
pub struct SharedNodeClient<I> {
    index: NumberKeyIndex<I>,
    endpoint: SimEndpoint,
    gives_up: bool,
    operations: Cell<u32>,
}

/// The error of an operation that may have been done or not.
const UNKNOWN: FabricError = FabricError::NodeLost { node: NodeId(0) };

/// Converts an error. The outcome is also unknown if another client of the compute node led the
/// write and was dropped.
fn convert(error: PoolError) -> FabricError {
    match error {
        PoolError::Interrupted => UNKNOWN,
        other => fabric_error(other),
    }
}

impl<I> SharedNodeClient<I> {
    /// Returns the result, unless the operation is dropped.
    async fn answer(
        &self,
        operation: impl Future<Output = Result<Option<u64>, FabricError>>,
    ) -> Result<Option<u64>, FabricError> {
        let number = self.operations.get() + 1;
        self.operations.set(number);
        let gives_up = self.gives_up && number.is_multiple_of(5);
        // Differs from one operation to the next, and is the same whenever a seed is run.
        let patience = (self.endpoint.client() * 31 + number * 17) % 40;
        let mut alarm = pin!(self.endpoint.sleep(Duration::from_micros(patience.into())));
        let mut operation = pin!(operation);
        let answer = poll_fn(|context| {
            // The alarm comes first, so that an operation may be dropped at any of its steps.
            if gives_up && alarm.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(UNKNOWN));
            }
            operation.as_mut().poll(context)
        });
        answer.await
    }
}

impl<I: PoolIndexClient> RemoteIndex for SharedNodeClient<I> {
    async fn get(&self, key: u64) -> Result<Option<u64>, FabricError> {
        self.answer(self.index.get(key)).await
    }

    async fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, FabricError> {
        self.answer(self.index.insert(key, value)).await
    }

    async fn update(&self, key: u64, value: u64) -> Result<Option<u64>, FabricError> {
        self.answer(self.index.update(key, value)).await
    }

    async fn overwrite(&self, key: u64, value: u64) -> Result<bool, FabricError> {
        let overwrite = async {
            // Any value stands for presence, so that `answer` serves this operation, too.
            let was_there = self.index.overwrite(key, value).await?;
            Ok(was_there.then_some(value))
        };
        Ok(self.answer(overwrite).await?.is_some())
    }

    async fn remove(&self, key: u64) -> Result<Option<u64>, FabricError> {
        self.answer(self.index.remove(key)).await
    }
}

impl<K: SharedIndexKind> RemoteIndexFactory for SharedNodeFactory<K> {
    type Index = SharedNodeClient<K::Index>;

    fn create(
        &self,
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
    ) -> impl Future<Output = Result<(), FabricError>> + 'static {
        let compute_nodes = (0..self.count).map(|_| self.kind.compute_node());
        self.compute_nodes.replace(compute_nodes.collect());
        // The creator has a compute node of its own: clients begin with an empty cache.
        let (kind, node) = (self.kind.clone(), self.kind.compute_node());
        async move {
            // Without the fault, which would break the index before there is anything to find.
            let interference = SlowInterference::new(false, SimEndpointFault::None);
            let endpoint = SlowEndpoint::new(endpoint, interference);
            let made = kind.create(endpoint, &nodes, node).await;
            made.map(drop).map_err(fabric_error)
        }
    }

    fn open(
        &self,
        endpoint: SimEndpoint,
    ) -> impl Future<Output = Result<Self::Index, FabricError>> + 'static {
        debug_assert!(
            self.count as usize == self.compute_nodes.borrow().len(),
            "it was created before"
        );
        let number = endpoint.client() % self.count;
        let node = Arc::clone(&self.compute_nodes.borrow()[number as usize]);
        let (kind, gives_up) = (self.kind.clone(), self.gives_up);
        let interference = SlowInterference::new(self.is_slow, self.fault);
        let slow = SlowEndpoint::new(endpoint.clone(), interference);
        async move {
            let nodes = endpoint.nodes();
            let index = kind.open(slow, &nodes, node).await.map_err(fabric_error)?;
            Ok(SharedNodeClient {
                index: NumberKeyIndex::new(index, VALUE_BYTES, key, convert),
                endpoint,
                gives_up,
                operations: Cell::new(0),
            })
        }
    }
}

/// Returns a plan of many clients on few keys.
pub fn few_keys() -> RemoteRunPlan {
    RemoteRunPlan {
        node_bytes: 4 << 20,
        clients: 8,
        keys: 2,
        updating: 0.3,
        ..RemoteRunPlan::default()
    }
}

/// Returns a plan with one key that is inserted, removed, and mostly updated: it may exist soon
/// after updates have found it absent.
pub fn one_key() -> RemoteRunPlan {
    RemoteRunPlan {
        clients: 10,
        operations: 16,
        keys: 1,
        removing: 0.25,
        updating: 0.7,
        ..few_keys()
    }
}

/// Returns a plan with enough keys for nodes to be divided.
pub fn many_keys() -> RemoteRunPlan {
    RemoteRunPlan {
        nodes: 2,
        node_bytes: 4 << 20,
        operations: 30,
        keys: 30,
        removing: 0.1,
        ..few_keys()
    }
}

/// Returns true if runs of clients that share compute nodes find a fault of their endpoints.
pub fn is_fault_found<K: SharedIndexKind>(kind: K, fault: SimEndpointFault) -> bool {
    let mut factory = SharedNodeFactory::new(kind);
    factory.fault = fault;
    // A fault shows only in some of the seeds.
    let failure = (0..300).find_map(|seed| run(seed, &few_keys(), &factory).err());
    matches!(failure, Some(RemoteRunFailure::NotLinearizable { .. }))
}

/// Returns the verbs of each operation of sixteen clients, on `count` compute nodes, which each do
/// 200 operations on one key.
///
/// # Panics
/// If an operation fails.
pub fn verbs_per_operation<K: SharedIndexKind>(kind: K, count: u32, writes: bool) -> f64 {
    const CLIENTS: u32 = 16;
    const OPERATIONS: u32 = 200;
    let mut factory = SharedNodeFactory::new(kind);
    factory.count = count;
    // Pauses are for races between clients, and these runs count verbs.
    factory.is_slow = false;
    let network = NetworkPreset::ConnectX6.parameters();
    let mut simulation = FabricSimulation::new(1, network, Delivery::Whole);
    let nodes = vec![simulation.add_node(8 << 20)];
    let created = factory.create(simulation.endpoint(0), nodes);
    simulation.spawn(0, async { created.await.expect("made") });
    assert_eq!(simulation.run(), 0);
    // The caches are filled first.
    let opened = factory.open(simulation.endpoint(0));
    simulation.spawn(0, async move {
        let client = opened.await.expect("opened");
        client.insert(0, 1).await.expect("written");
    });
    assert_eq!(simulation.run(), 0);
    for client in 1..=CLIENTS {
        let opened = factory.open(simulation.endpoint(client));
        simulation.spawn(client, async move {
            let client = opened.await.expect("opened");
            for number in 1..=OPERATIONS {
                if writes {
                    client.update(0, number.into()).await.expect("written");
                } else {
                    client.get(0).await.expect("read");
                }
            }
        });
    }
    assert_eq!(simulation.run(), 0);
    let verbs: u64 = (1..=CLIENTS)
        .map(|client| simulation.verbs_of(client))
        .sum();
    verbs as f64 / f64::from(CLIENTS * OPERATIONS)
}

/// Checks that of sixteen clients of one compute node, about one in a round does the operations of
/// all. `kind` returns an index whose clients share their operations if its argument is true.
///
/// # Panics
/// If they post more than a sixth of the verbs that they post apart.
pub fn check_sharing<K: SharedIndexKind>(name: &str, kind: impl Fn(bool) -> K) {
    for writes in [false, true] {
        let apart = verbs_per_operation(kind(false), 1, writes);
        let together = verbs_per_operation(kind(true), 1, writes);
        eprintln!("{name}, writes {writes}: {apart:.2} verbs an operation, {together:.2} together");
        assert!(together < apart / 6.0, "{name}: {together} of {apart}");
    }
}
