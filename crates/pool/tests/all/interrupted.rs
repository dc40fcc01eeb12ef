//! Stores whose posts fail although the node serves, as after the loss of one node of a pair.
#![cfg(target_os = "linux")]

use nearfield_core::{OperationError, OrderedIndex, Words};
use nearfield_fabric::transport::shm::ShmEndpoint;
use nearfield_fabric::{
    ClientProcessorWork, Endpoint, FabricError, FabricVerb, GlobalAddress, NodeId,
};
use nearfield_fabric_testkit::ShmNodes;
use nearfield_pool::store::{PoolStore, StoreOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// An endpoint whose posts fail while a flag is set. Its node stays reachable.
struct InterruptedEndpoint {
    endpoint: ShmEndpoint,
    fails: Arc<AtomicBool>,
}

impl Endpoint for InterruptedEndpoint {
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
        if self.fails.load(Relaxed) {
            return Err(FabricError::NodeLost { node: NodeId(0) });
        }
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

/// A regression: each thread connected again, and waited for the lost node, which may take seconds.
#[test]
fn a_client_whose_pair_serves_goes_on_without_connecting_again() {
    let nodes = ShmNodes::serve(1, 64 << 20).expect("a node");
    let endpoint = ShmEndpoint::attach(nodes.names()).expect("the node is served");
    let (fails, connects) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let (flag, count) = (Arc::clone(&fails), Arc::clone(&connects));
    let connect = move || {
        count.fetch_add(1, Relaxed);
        Ok(InterruptedEndpoint {
            endpoint: endpoint.clone(),
            fails: Arc::clone(&flag),
        })
    };
    let store: PoolStore<Words, InterruptedEndpoint> =
        PoolStore::open(connect, &StoreOptions::default()).expect("a store");
    store.put(1, 1).expect("a put");
    let before = connects.load(Relaxed);
    fails.store(true, Relaxed);
    let failed = store.get(1);
    fails.store(false, Relaxed);
    assert!(
        matches!(failed, Err(OperationError::Unreachable { .. })),
        "{failed:?}"
    );
    for key in 1..20 {
        store.put(key, key).expect("a put");
        assert_eq!(store.get(key), Ok(Some(key)));
        // A search for lost nodes would connect in a thread of its own.
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(connects.load(Relaxed), before);
    let states = store.node_states();
    assert!(states[0].is_served && states[0].failures > 0, "{states:?}");
}
