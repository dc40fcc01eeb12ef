//! Tests of the tree on pairs of memory nodes with the same content, which lose nodes.

use crate::trees::{compute_node, key, nearfield};
use nearfield_fabric::mirror::{MirroredEndpoint, NodePair};
use nearfield_fabric::transport::sim::{Delivery, FabricSimulation, SimEndpoint};
use nearfield_fabric::{Endpoint, FabricError, FabricVerb, GlobalAddress, NodeId};
use nearfield_fabric_testkit::{
    INDEX_ROOT, NumberKeyIndex, RemoteIndex, RemoteIndexFactory, RemoteRunFailure, RemoteRunPlan,
    each_seed, fabric_error, run,
};
use nearfield_pool::chime::{ChimeLockKind, ChimeOptions, ChimeTree};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// The lease of locks and views. A change has more round trips than without a mirror.
const LEASE: Duration = Duration::from_millis(1);
const PAIRS: [NodePair; 2] = [
    NodePair {
        number: NodeId(0),
        primary: NodeId(0),
        backup: NodeId(1),
    },
    NodePair {
        number: NodeId(1),
        primary: NodeId(2),
        backup: NodeId(3),
    },
];

fn options() -> ChimeOptions {
    ChimeOptions {
        locks: ChimeLockKind::Leased(LEASE),
        ..nearfield()
    }
}

fn numbers() -> [NodeId; 2] {
    PAIRS.map(|pair| pair.number)
}

fn mirrored(endpoint: SimEndpoint) -> MirroredEndpoint<SimEndpoint> {
    MirroredEndpoint::new(endpoint, &PAIRS, LEASE)
}

async fn create(endpoint: impl Endpoint) -> Result<(), FabricError> {
    let node = compute_node(options());
    let made = ChimeTree::create(endpoint, &numbers(), INDEX_ROOT, node).await;
    made.map(drop).map_err(fabric_error)
}

async fn open<E: Endpoint>(endpoint: E) -> Result<NumberKeyIndex<ChimeTree<E>>, FabricError> {
    let options = options();
    let node = compute_node(options);
    let tree = ChimeTree::open(endpoint, &numbers(), INDEX_ROOT, node).await;
    let tree = tree.map_err(fabric_error)?;
    let key = |number| key(number).to_vec();
    let value_bytes = options.shape.value_bytes;
    Ok(NumberKeyIndex::new(tree, value_bytes, key, fabric_error))
}

/// Trees of which each client has its own compute node.
struct MirroredTrees;

impl RemoteIndexFactory for MirroredTrees {
    type Index = NumberKeyIndex<ChimeTree<MirroredEndpoint<SimEndpoint>>>;

    fn create(
        &self,
        endpoint: SimEndpoint,
        _nodes: Vec<NodeId>,
    ) -> impl Future<Output = Result<(), FabricError>> + 'static {
        create(mirrored(endpoint))
    }

    fn open(
        &self,
        endpoint: SimEndpoint,
    ) -> impl Future<Output = Result<Self::Index, FabricError>> + 'static {
        open(mirrored(endpoint))
    }
}

/// Operations before and after the loss of a node agree, and a later client can read every key.
#[test]
fn every_key_outlives_a_node_of_its_pair() {
    for (lost, removing, dying, delivery) in [
        (0, 0.1, 0.0, Delivery::Torn),
        (0, 0.45, 0.4, Delivery::Torn),
        (1, 0.45, 0.4, Delivery::Torn),
        (2, 0.1, 0.4, Delivery::Torn),
        (2, 0.45, 0.0, Delivery::Torn),
        (0, 0.2, 0.3, Delivery::TornWords),
        (2, 0.2, 0.3, Delivery::TornWords),
    ] {
        let plan = RemoteRunPlan {
            nodes: 4,
            node_bytes: 4 << 20,
            operations: 60,
            keys: 60,
            removing,
            dying,
            losing: Some((lost, Duration::from_millis(4))),
            delivery,
            ..RemoteRunPlan::default()
        };
        each_seed(40, |seed| {
            let report = run(seed, &plan, &MirroredTrees)?;
            let keys = plan.keys as usize;
            assert_eq!(
                report.readable, keys,
                "node {lost}, seed {seed}: {report:?}"
            );
            Ok::<_, RemoteRunFailure>(report)
        });
    }
}

/// An endpoint that does not pass on that replicas must be made equal.
struct UnalignedEndpoint(MirroredEndpoint<SimEndpoint>);

impl Endpoint for UnalignedEndpoint {
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
        self.0.post(verbs).await
    }

    async fn post_by(
        &self,
        deadline: Duration,
        verbs: &mut [FabricVerb<'_>],
    ) -> Result<bool, FabricError> {
        self.0.post_by(deadline, verbs).await
    }

    fn write_unsignalled(&self, to: GlobalAddress, bytes: &[u8]) -> Result<(), FabricError> {
        self.0.write_unsignalled(to, bytes)
    }

    fn write_unsignalled_by(
        &self,
        deadline: Duration,
        to: GlobalAddress,
        bytes: &[u8],
    ) -> Result<bool, FabricError> {
        self.0.write_unsignalled_by(deadline, to, bytes)
    }

    async fn flush(&self) -> Result<(), FabricError> {
        self.0.flush().await
    }

    async fn read_backup(&self, from: GlobalAddress, into: &mut [u8]) -> Result<bool, FabricError> {
        self.0.read_backup(from, into).await
    }

    async fn allocate(&self, node: NodeId, bytes: u64) -> Result<GlobalAddress, FabricError> {
        self.0.allocate(node, bytes).await
    }

    async fn free(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        self.0.free(address, bytes).await
    }

    fn now(&self) -> Duration {
        self.0.now()
    }

    async fn sleep(&self, time: Duration) {
        self.0.sleep(time).await;
    }
}

/// Number of keys that the first client inserts unless it dies before.
const INSERTED: u64 = 30;
/// Divisor of the keys that the first client removes afterwards. A removal that only the backup has
/// loses the next update there, which writes the value alone.
const REMOVED: u64 = 3;

/// Lets a client insert keys, remove some, and die at a verb. Another one updates or inserts the
/// keys that were there, then both primaries are lost, and a third client reads the keys. Returns
/// the number of changes that are lost, or that fail.
fn lost_changes<E: Endpoint + 'static>(
    wrap: fn(MirroredEndpoint<SimEndpoint>) -> E,
    verb: u64,
) -> usize {
    let (mut simulation, _) = FabricSimulation::with_nodes(verb, Delivery::Torn, [1 << 20; 4]);
    let endpoint = wrap(mirrored(simulation.endpoint(0)));
    simulation.spawn(0, async move { create(endpoint).await.expect("a tree") });
    assert_eq!(simulation.run(), 0);
    // The possible values of each key that was inserted.
    let values = Rc::new(RefCell::new(Vec::new()));
    let endpoint = wrap(mirrored(simulation.endpoint(1)));
    let noted = Rc::clone(&values);
    simulation.kill_at_verb(1, verb);
    simulation.spawn(1, async move {
        let tree = open(endpoint).await.expect("a tree");
        for number in 0..INSERTED {
            let found = tree.insert(number, 1000 + number).await;
            assert_eq!(found, Ok(None));
            noted.borrow_mut().push(vec![Some(1000 + number)]);
        }
        for number in (0..INSERTED).step_by(REMOVED as usize) {
            noted.borrow_mut()[number as usize].push(None);
            let found = tree.remove(number).await;
            assert_eq!(found, Ok(Some(1000 + number)));
            noted.borrow_mut()[number as usize] = vec![None];
        }
    });
    assert_eq!(simulation.run(), 0);

    let lost = Rc::new(Cell::new(0));
    let endpoint = wrap(mirrored(simulation.endpoint(2)));
    let (blamed, values) = (Rc::clone(&lost), values.take());
    let keys = values.len() as u64;
    simulation.spawn(2, async move {
        let tree = open(endpoint).await.expect("a tree");
        for (number, possible) in (0..).zip(values) {
            let found = tree.insert(number, 2000 + number).await;
            if !found.is_ok_and(|found| possible.contains(&found)) {
                blamed.set(blamed.get() + 1);
            }
        }
    });
    assert_eq!(simulation.run(), 0);
    for pair in PAIRS {
        simulation.lose_node(pair.primary, simulation.now());
    }
    let endpoint = wrap(mirrored(simulation.endpoint(3)));
    let blamed = Rc::clone(&lost);
    simulation.spawn(3, async move {
        endpoint.sleep(LEASE).await;
        let tree = open(endpoint).await.expect("a tree");
        for number in 0..keys {
            if tree.get(number).await != Ok(Some(2000 + number)) {
                blamed.set(blamed.get() + 1);
            }
        }
    });
    assert_eq!(simulation.run(), 0);
    lost.get()
}

/// The verbs at which the first client dies: some while it opens the tree, and those of insertions,
/// of divisions of leaves and inner nodes, and of removals.
const DEATHS: std::ops::Range<u64> = 0..600;

#[test]
fn changes_after_a_death_at_any_verb_outlive_the_primaries() {
    for verb in DEATHS {
        assert_eq!(lost_changes(std::convert::identity, verb), 0, "verb {verb}");
    }
}

#[test]
fn trees_whose_replicas_stay_unequal_are_found() {
    let is_found = |verb| lost_changes(UnalignedEndpoint, verb) > 0;
    let mut deaths = DEATHS;
    assert!(deaths.any(is_found));
}
