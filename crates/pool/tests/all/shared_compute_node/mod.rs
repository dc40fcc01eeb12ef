//! Tests of clients of the same compute node that read, write and lock for each other, in every
//! index: their outcomes are linearizable, also when clients die and operations are dropped, and
//! they post fewer verbs.

mod kinds;
mod slow;

use self::kinds::{SharedChimeIndex, SharedIndexKind, SharedRolexIndex, SharedSmartIndex};
use self::slow::{Slow, Slowness};
use crate::numbers::{NumberKeyIndex, ROOT, fabric};
use nearfield_fabric::transport::sim::{Delivery, FabricSimulation, SimEndpoint};
use nearfield_fabric::{Endpoint, FabricError, GlobalAddress, NodeId};
use nearfield_fabric_testkit::{
    RemoteIndex, RemoteIndexFactory, RemoteRunFailure, RemoteRunPlan, SimEndpointFault, check, run,
};
use nearfield_hardware::network::NetworkPreset;
use nearfield_pool::chime::ChimeOptions;
use nearfield_pool::layout::{Geometry, LockWord, LockWordLayout, PoolLeaf, PoolLeafLayout};
use nearfield_pool::{PoolError, PoolIndexClient};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Number of bytes of a value by default.
const VALUE_BYTES: usize = 8;

/// Clients on several compute nodes, by turns.
struct Together<K: SharedIndexKind> {
    kind: K,
    count: u32,
    fault: SimEndpointFault,
    /// True if clients pause after a read: then there is time for others to write and to arrive.
    is_slow: bool,
    /// True if clients give operations up now and then.
    gives_up: bool,
    compute_nodes: RefCell<Vec<Arc<K::Node>>>,
}

impl<K: SharedIndexKind> Together<K> {
    fn new(kind: K) -> Together<K> {
        Together {
            kind,
            count: 2,
            fault: SimEndpointFault::None,
            is_slow: true,
            gives_up: false,
            compute_nodes: RefCell::default(),
        }
    }
}

struct SharedNodeClient<I> {
    index: NumberKeyIndex<I>,
    endpoint: SimEndpoint,
    gives_up: bool,
    operations: Cell<u32>,
}

/// Converts an error. The outcome is also unknown if another client of the compute node led the
/// write and was dropped.
fn told(error: PoolError) -> FabricError {
    match error {
        PoolError::Interrupted => UNKNOWN,
        other => fabric(other),
    }
}

/// The error of an operation that may have been done or not.
const UNKNOWN: FabricError = FabricError::NodeLost { node: NodeId(0) };

impl<I> SharedNodeClient<I> {
    /// Returns the result, unless the operation is dropped.
    async fn answer(
        &self,
        operation: impl Future<Output = Result<Option<u64>, FabricError>>,
    ) -> Result<Option<u64>, FabricError> {
        let number = self.operations.get() + 1;
        self.operations.set(number);
        let gives_up = self.gives_up && number.is_multiple_of(5);
        let patience = (self.endpoint.client() * 31 + number * 17) % 40;
        let mut alarm = pin!(self.endpoint.sleep(Duration::from_micros(patience.into())));
        let mut operation = pin!(operation);
        let answer = poll_fn(|context| {
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
            let was_there = self.index.overwrite(key, value).await?;
            Ok(was_there.then_some(value))
        };
        Ok(self.answer(overwrite).await?.is_some())
    }

    async fn remove(&self, key: u64) -> Result<Option<u64>, FabricError> {
        self.answer(self.index.remove(key)).await
    }
}

impl<K: SharedIndexKind> RemoteIndexFactory for Together<K> {
    type Index = SharedNodeClient<K::Index>;

    fn create(
        &self,
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
    ) -> impl Future<Output = Result<(), FabricError>> + 'static {
        let compute_nodes = (0..self.count).map(|_| self.kind.compute_node());
        self.compute_nodes.replace(compute_nodes.collect());
        let (kind, node) = (self.kind.clone(), self.kind.compute_node());
        async move {
            let endpoint = Slow::new(endpoint, Slowness::new(false, SimEndpointFault::None));
            let made = kind.create(endpoint, &nodes, node).await;
            made.map(drop).map_err(fabric)
        }
    }

    fn open(
        &self,
        endpoint: SimEndpoint,
    ) -> impl Future<Output = Result<Self::Index, FabricError>> + 'static {
        let number = endpoint.client() % self.count;
        let node = Arc::clone(&self.compute_nodes.borrow()[number as usize]);
        let (kind, gives_up) = (self.kind.clone(), self.gives_up);
        let slow = Slow::new(endpoint.clone(), Slowness::new(self.is_slow, self.fault));
        async move {
            let nodes = endpoint.nodes();
            let index = kind.open(slow, &nodes, node).await.map_err(fabric)?;
            let key = |number| kinds::key(number).to_vec();
            Ok(SharedNodeClient {
                index: NumberKeyIndex::new(index, VALUE_BYTES, key, told),
                endpoint,
                gives_up,
                operations: Cell::new(0),
            })
        }
    }
}

/// Returns a plan of many clients on few keys.
fn few() -> RemoteRunPlan {
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
fn one() -> RemoteRunPlan {
    RemoteRunPlan {
        clients: 10,
        operations: 16,
        keys: 1,
        removing: 0.25,
        updating: 0.7,
        ..few()
    }
}

/// Returns a plan with enough keys for nodes to be divided.
fn many() -> RemoteRunPlan {
    RemoteRunPlan {
        nodes: 2,
        node_bytes: 4 << 20,
        operations: 30,
        keys: 30,
        removing: 0.1,
        ..few()
    }
}

#[test]
fn trees_are_linearizable() {
    for kind in SharedChimeIndex::all() {
        let system = Together::new(kind);
        check(40, &few(), &system);
        check(10, &many(), &system);
    }
}

#[test]
fn keys_that_are_overwritten_together_hold_the_last_value() {
    for kind in SharedChimeIndex::leased() {
        let system = Together::new(kind);
        for plan in [few(), one(), many()] {
            let plan = RemoteRunPlan {
                removing: 0.1,
                updating: 0.8,
                overwriting: 0.7,
                ..plan
            };
            check(40, &plan, &system);
            let dying = RemoteRunPlan { dying: 0.4, ..plan };
            check(40, &dying, &system);
        }
    }
}

#[test]
fn ours_is_linearizable_whoever_dies() {
    for kind in SharedChimeIndex::leased() {
        let system = Together::new(kind);
        check(
            60,
            &RemoteRunPlan {
                dying: 0.5,
                ..few()
            },
            &system,
        );
        check(
            20,
            &RemoteRunPlan {
                dying: 0.5,
                ..many()
            },
            &system,
        );
    }
}

#[test]
fn ours_is_linearizable_whatever_is_given_up() {
    for kind in SharedChimeIndex::leased() {
        let system = Together {
            gives_up: true,
            ..Together::new(kind)
        };
        check(40, &few(), &system);
        check(
            20,
            &RemoteRunPlan {
                dying: 0.3,
                ..few()
            },
            &system,
        );
    }
}

#[test]
fn smart_is_linearizable() {
    let system = Together::new(SharedSmartIndex::new(true));
    check(100, &few(), &system);
    check(300, &one(), &system);
    check(30, &many(), &system);
}

#[test]
fn rolex_is_linearizable() {
    for kind in SharedRolexIndex::all() {
        let system = Together::new(kind);
        check(60, &few(), &system);
        check(150, &one(), &system);
        check(20, &many(), &system);
    }
}

fn is_found<K: SharedIndexKind>(kind: K, fault: SimEndpointFault) -> bool {
    let system = Together {
        fault,
        ..Together::new(kind)
    };
    let failure = (0..300).find_map(|seed| run(seed, &few(), &system).err());
    matches!(failure, Some(RemoteRunFailure::NotLinearizable { .. }))
}

/// Combining hides no fault between compute nodes.
#[test]
fn faults_are_found() {
    assert!(is_found(
        SharedChimeIndex::chime(),
        SimEndpointFault::NoLocks
    ));
    assert!(is_found(
        SharedChimeIndex::chime(),
        SimEndpointFault::LastFirst
    ));
    assert!(is_found(
        SharedRolexIndex::arrays(),
        SimEndpointFault::NoLocks
    ));
}

/// Runs sixteen clients that do 200 operations each on one key; returns the verbs of each
/// operation.
fn verbs<K: SharedIndexKind>(kind: K, count: u32, writes: bool) -> f64 {
    const CLIENTS: u32 = 16;
    const OPERATIONS: u32 = 200;
    let system = Together {
        count,
        is_slow: false,
        ..Together::new(kind)
    };
    let network = NetworkPreset::ConnectX6.parameters();
    let mut simulation = FabricSimulation::new(1, network, Delivery::Whole);
    let nodes = vec![simulation.add_node(8 << 20)];
    let created = system.create(simulation.endpoint(0), nodes);
    simulation.spawn(0, async { created.await.expect("made") });
    assert_eq!(simulation.run(), 0);
    // The caches are filled first.
    let opened = system.open(simulation.endpoint(0));
    simulation.spawn(0, async move {
        let client = opened.await.expect("opened");
        client.insert(0, 1).await.expect("written");
    });
    assert_eq!(simulation.run(), 0);
    for client in 1..=CLIENTS {
        let opened = system.open(simulation.endpoint(client));
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
/// all.
fn pays<K: SharedIndexKind>(name: &str, kind: impl Fn(bool) -> K) {
    for writes in [false, true] {
        let apart = verbs(kind(false), 1, writes);
        let together = verbs(kind(true), 1, writes);
        eprintln!("{name}, writes {writes}: {apart:.2} verbs an operation, {together:.2} together");
        assert!(together < apart / 6.0, "{name}: {together} of {apart}");
    }
}

#[test]
fn clients_that_share_post_a_fraction_of_the_verbs() {
    pays("CHIME", |shares| {
        SharedChimeIndex::sharing(SharedChimeIndex::chime(), shares)
    });
    pays("Nearfield", |shares| {
        SharedChimeIndex::sharing(SharedChimeIndex::nearfield(), shares)
    });
    pays("SMART", SharedSmartIndex::new);
    pays("ROLEX", |shares| {
        SharedRolexIndex::sharing(SharedRolexIndex::arrays(), shares)
    });
}

/// Clients of one compute node without combining compete for a lock one at a time, so that no swap
/// fails. If a lock is passed on, eight of nine neither take nor release it. Our clients that do
/// not queue back off for longer, so less is saved.
#[test]
fn clients_that_queue_take_locks_once_or_not_at_all() {
    let kinds = [
        ("CHIME", SharedChimeIndex::chime(), 3.0, 16.0 / 9.0),
        ("Sherman", SharedChimeIndex::sherman(), 3.0, 16.0 / 9.0),
        ("Nearfield", SharedChimeIndex::nearfield(), 1.5, 0.0),
    ];
    for (name, kind, fewer, saved) in kinds {
        let hand_overs = [None, Some(0), Some(8)];
        let [apart, queued, passed] =
            hand_overs.map(|times| verbs(SharedChimeIndex::queueing(kind.clone(), times), 1, true));
        eprintln!("{name}: {apart:.2} verbs an update, {queued:.2} queued, {passed:.2} passed on");
        assert!(queued < apart / fewer, "{name}: {queued} of {apart}");
        let found = queued - passed;
        assert!((found - saved).abs() < 0.02, "{name}: {found}, not {saved}");
    }
}

/// The word of a lock that is passed on describes the leaf as well as one that every client takes.
#[test]
fn a_lock_that_is_passed_on_says_what_is_there() {
    for hand_overs in [None, Some(8)] {
        let system = Together {
            count: 1,
            is_slow: false,
            ..Together::new(SharedChimeIndex(ChimeOptions {
                hand_overs,
                ..ChimeOptions::chime()
            }))
        };
        let network = NetworkPreset::ConnectX6.parameters();
        let mut simulation = FabricSimulation::new(1, network, Delivery::Whole);
        let nodes = vec![simulation.add_node(8 << 20)];
        let created = system.create(simulation.endpoint(0), nodes);
        simulation.spawn(0, async { created.await.expect("made") });
        assert_eq!(simulation.run(), 0);
        for client in 1..=16 {
            let opened = system.open(simulation.endpoint(client));
            simulation.spawn(client, async move {
                let client = opened.await.expect("opened");
                for number in [0, 16] {
                    let key = u64::from(client.endpoint.client()) + number;
                    client.insert(key, 1).await.expect("written");
                }
            });
        }
        assert_eq!(simulation.run(), 0);
        let endpoint = simulation.endpoint(0);
        simulation.spawn(0, async move {
            let geometry = Geometry::new(ChimeOptions::chime().shape).expect("sizes");
            let layout = PoolLeafLayout::new(geometry);
            let word = async |from| {
                let mut word = [0; 8];
                endpoint.read(from, &mut word).await.expect("read");
                u64::from_le_bytes(word)
            };
            // The root is still a leaf, of the first level.
            let root = word(ROOT).await;
            assert_eq!(root >> 56, 1);
            let at = GlobalAddress::new(NodeId(0), root & ((1 << 48) - 1));
            let mut wire = vec![0; layout.wire_bytes()];
            endpoint.read(at, &mut wire).await.expect("read");
            let mut leaf = PoolLeaf::new(layout);
            leaf.decode(&layout.whole(), &[&wire]).expect("whole");
            assert_eq!(leaf.occupied().count(), 32);
            let found = word(at.plus(layout.lock_offset() as u64)).await;
            let words = LockWordLayout::new(layout.span());
            // A bucket that was known only in part may be shown as full, and is now and then.
            let full = |word| words.with_max_slot(word, 0).to_bits();
            let found = full(LockWord::from_bits(found));
            let differ = (found ^ full(words.of_leaf(&leaf))).count_ones();
            assert!(differ <= 1, "{hand_overs:?}: {differ} buckets");
        });
        assert_eq!(simulation.run(), 0);
    }
}
