//! Tests of Marlin over a simulated fabric that tears verbs: its operations are linearizable, also
//! if clients die, it holds the entries of a `BTreeMap`, and the tests find faults of endpoints.

use nearfield_fabric::count::{CountingEndpoint, VerbCost};
use nearfield_fabric::transport::sim::{Delivery, FabricSimulation, SimEndpoint};
use nearfield_fabric::{Endpoint, FabricError, FabricVerb, NodeId};
use nearfield_fabric_testkit::{
    FaultySimEndpoint, INDEX_ROOT, Interference, NumberKeyIndex, RemoteIndexFactory, RemoteRunPlan,
    check, fabric_error, run,
};
use nearfield_pool::PoolIndexClient;
use nearfield_pool::chime::{ChimeLockKind, ChimeOptions};
use nearfield_pool_rivals::marlin::{Marlin, MarlinComputeNode, MarlinOptions};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Returns leaves that are so small that a few keys need several.
pub fn small(value_bytes: usize) -> MarlinOptions {
    MarlinOptions {
        value_bytes,
        leaf_span: 4,
        cache_bytes: 1 << 20,
        inner: ChimeOptions {
            locks: ChimeLockKind::Leased(Duration::from_micros(300)),
            ..ChimeOptions::nearfield()
        },
        ..MarlinOptions::default()
    }
}

fn key(number: u64) -> [u8; 8] {
    // A key of zeros is invalid.
    (number + 1).to_be_bytes()
}

fn compute_node(options: &MarlinOptions) -> Arc<MarlinComputeNode> {
    Arc::new(MarlinComputeNode::new(options.clone()).expect("sizes"))
}

/// A fault of the endpoint with which the index must fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarlinEndpointFault {
    None,
    /// Slots are not frozen before a leaf is divided.
    NoFreeze,
    /// Leaves seem not to be divided.
    NoSuccessors,
    /// Writes of blocks are lost now and then, with the swaps behind them.
    Forgets,
}

struct MarlinInterference {
    fault: MarlinEndpointFault,
    leaf_bytes: usize,
    block_bytes: usize,
    span: usize,
    writes: Cell<u32>,
}

impl MarlinInterference {
    fn new(fault: MarlinEndpointFault, options: &MarlinOptions) -> MarlinInterference {
        MarlinInterference {
            fault,
            leaf_bytes: options.layout().leaf_bytes(),
            block_bytes: options.layout().block_bytes(),
            span: options.layout().span(),
            writes: Cell::new(0),
        }
    }

    /// Returns true if the verbs freeze the slots of a leaf.
    fn is_freeze(&self, verbs: &[FabricVerb<'_>]) -> bool {
        let is_blind = |verb: &FabricVerb<'_>| match verb {
            FabricVerb::Swap { swap, .. } => swap.compare_mask == 0,
            _ => false,
        };
        verbs.len() == self.span && verbs.iter().all(is_blind)
    }
}

impl Interference for MarlinInterference {
    async fn post(
        &self,
        endpoint: &SimEndpoint,
        verbs: &mut [FabricVerb<'_>],
    ) -> Result<(), FabricError> {
        if self.fault == MarlinEndpointFault::NoFreeze && self.is_freeze(verbs) {
            for verb in verbs {
                if let FabricVerb::Swap { at, found, .. } = verb {
                    let mut word = [0; 8];
                    endpoint.read(*at, &mut word).await?;
                    *found = u64::from_le_bytes(word);
                }
            }
            return Ok(());
        }
        if self.fault == MarlinEndpointFault::Forgets
            && let [
                FabricVerb::Write { bytes, .. },
                FabricVerb::Swap { swap, found, .. },
            ] = verbs
            && bytes.len() == self.block_bytes
        {
            let count = self.writes.replace(self.writes.get() + 1);
            if count % 4 == 3 {
                *found = swap.expected;
                return Ok(());
            }
        }
        endpoint.post(verbs).await?;
        if self.fault == MarlinEndpointFault::NoSuccessors {
            for verb in verbs {
                if let FabricVerb::Read { into, .. } = verb
                    && into.len() == self.leaf_bytes
                {
                    into[..8].fill(0);
                }
            }
        }
        Ok(())
    }
}

struct MarlinIndexFactory {
    options: MarlinOptions,
    fault: MarlinEndpointFault,
}

impl MarlinIndexFactory {
    fn new(options: MarlinOptions) -> MarlinIndexFactory {
        MarlinIndexFactory {
            options,
            fault: MarlinEndpointFault::None,
        }
    }
}

impl RemoteIndexFactory for MarlinIndexFactory {
    type Index = NumberKeyIndex<Marlin<FaultySimEndpoint<MarlinInterference>>>;

    fn create(
        &self,
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
    ) -> impl Future<Output = Result<(), FabricError>> + 'static {
        let node = compute_node(&self.options);
        async move {
            let made = Marlin::create(endpoint, &nodes, INDEX_ROOT, node).await;
            made.map(drop).map_err(fabric_error)
        }
    }

    fn open(
        &self,
        endpoint: SimEndpoint,
    ) -> impl Future<Output = Result<Self::Index, FabricError>> + 'static {
        let nodes = endpoint.nodes();
        let node = compute_node(&self.options);
        let interference = MarlinInterference::new(self.fault, &self.options);
        let endpoint = FaultySimEndpoint::new(endpoint, interference);
        let value_bytes = self.options.value_bytes;
        async move {
            let index = Marlin::open(endpoint, &nodes, INDEX_ROOT, node).await;
            let index = index.map_err(fabric_error)?;
            let key = |number| key(number).to_vec();
            Ok(NumberKeyIndex::new(index, value_bytes, key, fabric_error))
        }
    }
}

fn plan(keys: u64, operations: usize) -> RemoteRunPlan {
    RemoteRunPlan {
        nodes: 2,
        node_bytes: 8 << 20,
        keys,
        operations,
        updating: 0.3,
        ..RemoteRunPlan::default()
    }
}

#[test]
fn operations_are_linearizable_while_leaves_are_divided() {
    for options in [small(8), small(200)] {
        for (keys, operations) in [(2, 12), (6, 20), (24, 30)] {
            let plan = plan(keys, operations);
            check(8, &plan, &MarlinIndexFactory::new(options.clone()));
            let torn = RemoteRunPlan {
                delivery: Delivery::TornWords,
                ..plan
            };
            check(2, &torn, &MarlinIndexFactory::new(options.clone()));
        }
    }
}

#[test]
fn operations_are_linearizable_whatever_is_cached() {
    for cache_bytes in [0, 150] {
        let options = MarlinOptions {
            cache_bytes,
            ..small(8)
        };
        check(10, &plan(12, 20), &MarlinIndexFactory::new(options));
    }
}

#[test]
fn the_dead_block_nobody() {
    for keys in [3, 24] {
        let plan = RemoteRunPlan {
            dying: 0.4,
            ..plan(keys, 30)
        };
        check(13, &plan, &MarlinIndexFactory::new(small(8)));
    }
}

#[test]
fn faults_are_found() {
    for fault in [
        MarlinEndpointFault::NoFreeze,
        MarlinEndpointFault::NoSuccessors,
        MarlinEndpointFault::Forgets,
    ] {
        let options = MarlinOptions {
            // No read of an inner node is as long as that of a leaf then.
            leaf_span: 6,
            ..small(8)
        };
        let system = MarlinIndexFactory {
            fault,
            ..MarlinIndexFactory::new(options)
        };
        let plan = plan(10, 30);
        let failure = (0..500).find_map(|seed| run(seed, &plan, &system).err());
        assert!(failure.is_some(), "{fault:?}");
    }
}

/// Compares random operations of one client with a `BTreeMap`.
fn model(seed: u64, options: MarlinOptions, keys: u64) {
    let (mut simulation, nodes) =
        FabricSimulation::with_nodes(seed, Delivery::TornWords, [64 << 20; 2]);
    let endpoint = simulation.endpoint(0);
    simulation.spawn(0, async move {
        let random = &mut SmallRng::seed_from_u64(seed);
        let node = compute_node(&options);
        let index = Marlin::create(endpoint, &nodes, INDEX_ROOT, node).await;
        let index = index.expect("an index");
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for step in 0..600 {
            let key = key(random.random_range(0..keys)).to_vec();
            let value = vec![step as u8; options.value_bytes];
            match random.random_range(0..12) {
                0..4 => {
                    let before = index.insert(&key, &value).await;
                    assert_eq!(before, Ok(model.insert(key, value)), "seed {seed}");
                }
                4..6 => {
                    let before = index.update(&key, &value).await;
                    assert_eq!(before, Ok(model.get(&key).cloned()), "seed {seed}");
                    model.entry(key).and_modify(|old| *old = value);
                }
                6..9 => {
                    let before = index.remove(&key).await;
                    assert_eq!(before, Ok(model.remove(&key)), "seed {seed}");
                }
                9 => {
                    let count = random.random_range(0..60);
                    let found = index.scan(&key, count).await.expect("entries");
                    let all = model.range(key..).take(count);
                    let all = all.map(|(key, value)| (key.clone(), value.clone()));
                    assert_eq!(found, all.collect::<Vec<_>>(), "seed {seed}");
                }
                _ => assert_eq!(index.get(&key).await, Ok(model.get(&key).cloned())),
            }
        }
        let found = index.scan(&[0; 8], usize::MAX).await.expect("entries");
        assert_eq!(found, model.into_iter().collect::<Vec<_>>(), "seed {seed}");
    });
    assert_eq!(simulation.run(), 0);
}

#[test]
fn it_holds_what_a_map_holds() {
    seeds::each(3, |seed| {
        for cache_bytes in [0, 200, 1 << 20] {
            let options = MarlinOptions {
                cache_bytes,
                ..small([0, 8, 100][seed as usize % 3])
            };
            model(seed, options, 300);
        }
        model(seed, MarlinOptions::default(), 1000);
    });
}

/// Checks scans while others insert and remove: they are in order, with all even numbers, which
/// stay, up to their last entry.
fn scans(seed: u64) -> Result<(), String> {
    const KEYS: u64 = 60;
    let (mut simulation, nodes) = FabricSimulation::with_nodes(seed, Delivery::Torn, [16 << 20; 2]);
    let endpoint = simulation.endpoint(0);
    simulation.spawn(0, async move {
        let node = compute_node(&small(8));
        let index = Marlin::create(endpoint, &nodes, INDEX_ROOT, node).await;
        let index = index.expect("an index");
        for number in (0..KEYS).step_by(2) {
            assert_eq!(index.insert(&key(number), &[1; 8]).await, Ok(None));
        }
    });
    assert_eq!(simulation.run(), 0);
    let failure = Rc::new(RefCell::new(Ok(())));
    for client in 1..5 {
        let (endpoint, failure) = (simulation.endpoint(client), Rc::clone(&failure));
        simulation.spawn(client, async move {
            let random = &mut SmallRng::seed_from_u64(seed << 8 | u64::from(client));
            let index = Marlin::open(endpoint, &nodes, INDEX_ROOT, compute_node(&small(8))).await;
            let index = index.expect("an index");
            for _ in 0..20 {
                if client < 3 {
                    let odd = key(random.random_range(0..KEYS / 2) * 2 + 1);
                    let done = match random.random_bool(0.6) {
                        true => index.insert(&odd, &[2; 8]).await,
                        false => index.remove(&odd).await,
                    };
                    done.expect("done");
                    continue;
                }
                let (from, count) = (random.random_range(0..KEYS), random.random_range(1..40));
                let found = index.scan(&key(from), count).await.expect("entries");
                let found: Vec<Vec<u8>> = found.into_iter().map(|(key, _)| key).collect();
                let last = found.last().filter(|_| found.len() == count);
                let mut stay = (from..KEYS)
                    .filter(|number| number % 2 == 0)
                    .map(|number| key(number).to_vec())
                    .filter(|key| last.is_none_or(|last| key <= last));
                let is_sorted = found.is_sorted_by(|one, other| one < other);
                if !is_sorted || found.len() > count || !stay.all(|key| found.contains(&key)) {
                    *failure.borrow_mut() = Err(format!("from {from}: {found:?}"));
                }
            }
        });
    }
    assert_eq!(simulation.run(), 0);
    Rc::into_inner(failure)
        .expect("all have ended")
        .into_inner()
}

#[test]
fn scans_are_complete_and_in_order_while_others_write() {
    assert_eq!(seeds::first_failure(10, scans), None);
}

/// The round trips, bytes read, bytes written and atomics.
type MarlinCostRow = (u64, u64, u64, u64);

fn row(cost: &VerbCost) -> MarlinCostRow {
    (
        cost.round_trips,
        cost.read_bytes,
        cost.written_bytes,
        cost.atomics,
    )
}

/// A leaf of 64 slots has 544 bytes, a block of a key and a value of 8 bytes has 32.
#[test]
fn each_write_swaps_one_slot() {
    let (mut simulation, nodes) = FabricSimulation::with_nodes(1, Delivery::Torn, [64 << 20]);
    let endpoint = CountingEndpoint::new(simulation.endpoint(0));
    simulation.spawn(0, async move {
        let node = compute_node(&MarlinOptions::default());
        let index = Marlin::create(endpoint, &nodes, INDEX_ROOT, node).await;
        let index = index.expect("an index");
        let taken = || row(&index.endpoint().take());
        index.insert(&key(1), &[1; 8]).await.expect("room");
        taken();
        assert_eq!(index.insert(&key(2), &[2; 8]).await, Ok(None));
        assert_eq!(taken(), (2, 544, 32, 1));
        assert_eq!(index.get(&key(2)).await, Ok(Some(vec![2; 8])));
        assert_eq!(taken(), (2, 544 + 32, 0, 0));
        assert_eq!(index.get(&key(3)).await, Ok(None));
        assert_eq!(taken(), (1, 544, 0, 0));
        assert_eq!(index.update(&key(2), &[3; 8]).await, Ok(Some(vec![2; 8])));
        assert_eq!(taken(), (3, 544 + 32, 32, 1));
        assert_eq!(index.update(&key(3), &[3; 8]).await, Ok(None));
        assert_eq!(taken(), (1, 544, 0, 0));
        assert_eq!(index.scan(&key(1), 10).await.expect("entries").len(), 2);
        assert_eq!(taken(), (2, 544 + 2 * 32, 0, 0));
        assert_eq!(index.remove(&key(2)).await, Ok(Some(vec![3; 8])));
        assert_eq!(taken(), (3, 544 + 32, 0, 1));
        assert_eq!(index.get(&key(2)).await, Ok(None));
        assert_eq!(taken(), (2, 544 + 32, 0, 0));
    });
    assert_eq!(simulation.run(), 0);
}
