//! Tests of batched changes: keys of a leaf that are changed under one lock.

use crate::simulated::{ChimeTreeModel, compare, steps};
use crate::trees::{FaultyTreeEndpoint, SmallTrees, chime, compute_node, key, nearfield};
use nearfield_fabric::count::{CountingEndpoint, VerbCost};
use nearfield_fabric::transport::sim::{Delivery, FabricSimulation, SimEndpoint};
use nearfield_fabric::{Endpoint, FabricError};
use nearfield_fabric_testkit::{
    INDEX_ROOT, RemoteRunFailure, RemoteRunPlan, SimEndpointFault, check, each_seed, run,
};
use nearfield_pool::chime::{ChimeLockKind, ChimeOptions, ChimeTree, KeyChangeDecision};
use nearfield_pool::{Entry, PoolError, PoolIndexClient};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

type Key = [u8; 8];

/// Changes all keys, which ascend, leaf by leaf, and calls `made` with the number of keys that are
/// changed so far. Returns the old values.
async fn alter_all<E: Endpoint>(
    tree: &ChimeTree<E>,
    keys: &[Key],
    decide: impl Fn(usize, Option<&[u8]>) -> KeyChangeDecision,
    made: impl Fn(usize),
) -> Result<Vec<Option<Vec<u8>>>, PoolError> {
    let mut before = Vec::new();
    while before.len() < keys.len() {
        let first = before.len();
        let each = async |number: usize, old: Option<&[u8]>| Ok(decide(first + number, old));
        before.extend(tree.alter_each(&keys[first..], each).await?);
        made(before.len());
    }
    Ok(before)
}

fn put(value: u8) -> KeyChangeDecision {
    KeyChangeDecision::Put(vec![value; 8])
}

/// A client that makes each change together with changes of the keys behind it, which get the
/// values that they have.
struct NeighborBatchClient<E>(ChimeTree<E>);

impl<E: Endpoint> NeighborBatchClient<E> {
    async fn change(
        &self,
        key: &[u8],
        decide: impl Fn(Option<&[u8]>) -> KeyChangeDecision,
    ) -> Result<Option<Vec<u8>>, PoolError> {
        let first = u64::from_be_bytes(key.try_into().expect("eight bytes"));
        let keys: Vec<Key> = (first..first + 6).map(u64::to_be_bytes).collect();
        let each = async |number: usize, before: Option<&[u8]>| {
            Ok(match (number, before) {
                (0, before) => decide(before),
                (_, Some(value)) => KeyChangeDecision::Put(value.to_vec()),
                (_, None) => KeyChangeDecision::Keep,
            })
        };
        let mut before = self.0.alter_each(&keys, each).await?;
        Ok(before.swap_remove(0))
    }
}

impl<E: Endpoint> PoolIndexClient for NeighborBatchClient<E> {
    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.0.get(key).await
    }

    async fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.change(key, |_| KeyChangeDecision::Put(value.to_vec()))
            .await
    }

    async fn update(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.change(key, |before| match before {
            Some(_) => KeyChangeDecision::Put(value.to_vec()),
            None => KeyChangeDecision::Keep,
        })
        .await
    }

    async fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.change(key, |_| KeyChangeDecision::Remove).await
    }

    async fn scan(&self, from: &[u8], count: usize) -> Result<Vec<Entry>, PoolError> {
        self.0.scan(from, count).await
    }
}

/// Returns trees of which each client makes its changes in batches.
fn batched(options: ChimeOptions) -> SmallTrees<NeighborBatchClient<FaultyTreeEndpoint>> {
    SmallTrees::of_clients(options, NeighborBatchClient)
}

fn plan(keys: u64, operations: usize) -> RemoteRunPlan {
    RemoteRunPlan {
        nodes: 2,
        node_bytes: 4 << 20,
        operations,
        keys,
        ..RemoteRunPlan::default()
    }
}

#[test]
fn batches_are_linearizable_while_nodes_are_divided_and_merged() {
    for options in steps() {
        check(13, &plan(6, 20), &batched(options));
        check(13, &plan(40, 40), &batched(options));
    }
    for dying in [0.0, 0.4] {
        let plan = RemoteRunPlan {
            removing: 0.45,
            dying,
            ..plan(60, 60)
        };
        check(20, &plan, &batched(nearfield()));
    }
}

/// Batches on the leaves of other nodes go on, also if they merge these with neighbours.
#[test]
fn batches_outlive_a_lost_node() {
    for (removing, dying) in [(0.1, 0.0), (0.45, 0.0), (0.45, 0.4)] {
        let plan = RemoteRunPlan {
            removing,
            dying,
            losing: Some((1, Duration::from_micros(800))),
            ..plan(60, 60)
        };
        let system = batched(nearfield());
        each_seed(20, |seed| {
            let report = run(seed, &plan, &system)?;
            assert!(report.readable > 0, "seed {seed}: {report:?}");
            Ok::<_, RemoteRunFailure>(report)
        });
    }
}

#[test]
fn batches_whose_words_are_torn_are_noticed() {
    for options in [chime(), nearfield()] {
        let dying = match options.locks {
            ChimeLockKind::Spinning => 0.0,
            ChimeLockKind::Leased(_) => 0.3,
        };
        let plan = RemoteRunPlan {
            delivery: Delivery::TornWords,
            dying,
            ..plan(40, 30)
        };
        check(16, &plan, &batched(options));
    }
}

/// The checks above find a batch that is not protected by its lock, or is lost in part.
#[test]
fn faults_of_batches_are_found() {
    for fault in [SimEndpointFault::NoLocks, SimEndpointFault::Forgets] {
        let system = SmallTrees {
            fault,
            ..batched(chime())
        };
        let failure = (0..300).find_map(|seed| run(seed, &plan(6, 20), &system).err());
        assert!(failure.is_some(), "{fault:?}");
    }
}

/// Compares random batches of one client with a `BTreeMap`.
fn model(seed: u64, options: ChimeOptions) {
    compare(seed, options, 600, async move |tree, mut random| {
        let mut model = ChimeTreeModel::new();
        for step in 0..120_u8 {
            // Batches of adjacent keys fill and empty leaves.
            let (first, count) = (random.random_range(0..300), random.random_range(1..60));
            let gap = random.random_range(1..4);
            let keys: Vec<Key> = (0..count).map(|at| key(first + at * gap)).collect();
            let removes = random.random_range(0..3) == 0;
            let kinds: Vec<u8> = keys.iter().map(|_| random.random_range(0..8)).collect();
            let decide = |at: usize, before: Option<&[u8]>| match (kinds[at], before) {
                (0, _) | (1, None) => KeyChangeDecision::Keep,
                (2, _) => KeyChangeDecision::Remove,
                _ if removes => KeyChangeDecision::Remove,
                _ => put(step),
            };
            let before = alter_all(&tree, &keys, decide, |_| {}).await.expect("done");
            for (at, key) in keys.iter().enumerate() {
                let expected = model.get(key).cloned();
                assert_eq!(before[at], expected, "seed {seed}");
                match decide(at, expected.as_deref()) {
                    KeyChangeDecision::Keep => {}
                    KeyChangeDecision::Put(value) => drop(model.insert(*key, value)),
                    KeyChangeDecision::Remove => drop(model.remove(key)),
                }
            }
        }
        (tree, model)
    });
}

#[test]
fn batches_do_what_a_map_does() {
    for options in steps() {
        seeds::each(3, |seed| model(seed, options));
    }
    // Leaves of many lines, of which a batch writes several pieces.
    for options in [ChimeOptions::chime(), ChimeOptions::nearfield()] {
        model(1, options);
    }
}

/// Returns the value of a key in [`batcher_dies_at`] before its batch, and the one after it.
fn states(number: u64) -> [Option<Vec<u8>>; 2] {
    match number % 4 {
        0 => [Some(vec![1; 8]), Some(vec![2; 8])],
        2 => [Some(vec![1; 8]), None],
        _ => [None, Some(vec![2; 8])],
    }
}

/// Checks a client that dies at each verb of batches that overwrite, remove and insert keys, and so
/// divide and merge leaves: acknowledged changes stay, and each other is made or not.
fn batcher_dies_at(verb: u64, delivery: Delivery) {
    const KEYS: u64 = 96;
    let (mut simulation, nodes) = FabricSimulation::with_nodes(verb, delivery, [2 << 20]);
    let endpoint = simulation.endpoint(0);
    simulation.spawn(0, async move {
        let tree = ChimeTree::create(endpoint, &nodes, INDEX_ROOT, compute_node(nearfield()))
            .await
            .expect("a tree");
        for number in (0..KEYS).step_by(2) {
            let before = tree.insert(&key(number), &[1; 8]).await;
            assert_eq!(before, Ok(None));
        }
    });
    assert_eq!(simulation.run(), 0);
    simulation.kill_at_verb(1, verb);
    let acknowledged = Rc::new(Cell::new(0));
    let (endpoint, made) = (simulation.endpoint(1), Rc::clone(&acknowledged));
    simulation.spawn(1, async move {
        let tree = ChimeTree::open(endpoint, &nodes, INDEX_ROOT, compute_node(nearfield()))
            .await
            .expect("a tree");
        let keys: Vec<Key> = (0..KEYS).map(key).collect();
        let decide = |at: usize, _: Option<&[u8]>| match states(at as u64)[1] {
            Some(_) => put(2),
            None => KeyChangeDecision::Remove,
        };
        let before = alter_all(&tree, &keys, decide, |count| made.set(count)).await;
        let expected = (0..KEYS).map(|number| states(number)[0].clone());
        assert_eq!(before, Ok(expected.collect()), "verb {verb}");
    });
    assert_eq!(simulation.run(), 0, "verb {verb}");
    let (endpoint, acknowledged) = (simulation.endpoint(2), acknowledged.get());
    simulation.spawn(2, async move {
        let tree = ChimeTree::open(endpoint, &nodes, INDEX_ROOT, compute_node(nearfield()))
            .await
            .expect("a tree");
        for number in 0..KEYS {
            let found = tree.get(&key(number)).await.expect("done");
            let [before, after] = states(number);
            let may_be_before = number as usize >= acknowledged;
            assert!(
                found == after || may_be_before && found == before,
                "verb {verb}, key {number} of {acknowledged}: {found:?}"
            );
        }
        let keys: Vec<Key> = (0..KEYS).map(key).collect();
        let done = alter_all(&tree, &keys, |_, _| put(9), |_| {}).await;
        assert!(done.is_ok(), "verb {verb}: {done:?}");
        let found = tree.scan(&key(0), 100).await.expect("done");
        let expected = keys.iter().map(|key| (key.to_vec(), vec![9; 8]));
        assert!(found.into_iter().eq(expected), "verb {verb}");
    });
    assert_eq!(simulation.run(), 0, "verb {verb}");
}

/// Each seed checks a third of the verbs, so that three in a row check all.
#[test]
fn the_client_of_a_batch_may_die_at_any_verb() {
    seeds::each(1, |seed| {
        for verb in (seed % 3..300).step_by(3) {
            let torn = [Delivery::Torn, Delivery::TornWords];
            batcher_dies_at(verb, torn[verb as usize / 2 % 2]);
        }
    });
}

/// Both leaves of a tree are emptied by a batch each, and the root is a leaf again.
#[test]
fn leaves_that_batches_empty_are_merged() {
    let (mut simulation, nodes) = FabricSimulation::with_nodes(7, Delivery::Whole, [32 << 20]);
    let (endpoint, other) = (simulation.endpoint(0), simulation.endpoint(1));
    simulation.spawn(0, async move {
        let tree = ChimeTree::create(endpoint, &nodes, INDEX_ROOT, compute_node(nearfield()))
            .await
            .expect("a tree");
        let level = async || {
            let mut word = [0; 8];
            other.read(INDEX_ROOT, &mut word).await.expect("a root");
            u64::from_le_bytes(word) >> 56
        };
        // A leaf has eight slots.
        let keys: Vec<Key> = (0..9).map(key).collect();
        for round in 0..3 {
            let inserted = alter_all(&tree, &keys, |_, _| put(round), |_| {}).await;
            assert_eq!(inserted, Ok(vec![None; keys.len()]));
            assert_eq!(level().await, 2, "round {round}");
            let removed = alter_all(&tree, &keys, |_, _| KeyChangeDecision::Remove, |_| {}).await;
            assert_eq!(removed, Ok(vec![Some(vec![round; 8]); keys.len()]));
            assert_eq!(level().await, 1, "round {round}");
            assert_eq!(tree.scan(&[0; 8], 10).await, Ok(Vec::new()));
        }
    });
    assert_eq!(simulation.run(), 0);
}

/// A division without memory leaves the leaf as it was, with the changes before it, and its lock
/// free.
#[test]
fn batches_without_room_change_nothing() {
    let (mut simulation, nodes) = FabricSimulation::with_nodes(3, Delivery::Whole, [2 << 20]);
    let endpoint = simulation.endpoint(0);
    simulation.spawn(0, async move {
        let clock = endpoint.clone();
        let tree = ChimeTree::create(endpoint, &nodes, INDEX_ROOT, compute_node(nearfield()))
            .await
            .expect("a tree");
        let keys: Vec<Key> = (0..100_000).map(key).collect();
        let mut made = 0;
        let error = loop {
            let insert = async |number: usize, _: Option<&[u8]>| Ok(put(number as u8));
            match tree.alter_each(&keys[made..made + 16], insert).await {
                Ok(before) => made += before.len(),
                Err(error) => break error,
            }
        };
        for key in &keys[..made] {
            assert!(matches!(tree.get(key).await, Ok(Some(_))), "{key:?}");
        }
        let PoolError::Fabric(FabricError::OutOfMemory { .. }) = error else {
            // The leaf was divided, and its parent has no room.
            assert!(matches!(error, PoolError::Undetermined(_)), "{error}");
            return;
        };
        for key in &keys[made..made + 16] {
            assert_eq!(tree.get(key).await, Ok(None), "{key:?}");
        }
        let (last, began) = (&keys[made - 1..made], clock.now());
        let overwrite = async |_: usize, _: Option<&[u8]>| Ok(put(7));
        tree.alter_each(last, overwrite).await.expect("done");
        assert!(clock.now() - began < Duration::from_micros(100));
        assert_eq!(tree.get(&last[0]).await, Ok(Some(vec![7; 8])));
    });
    assert_eq!(simulation.run(), 0);
}

/// A key may be in its divided leaf when there is no memory for a parent. `OutOfMemory` means that
/// it was not inserted.
#[test]
fn keys_that_lack_room_in_a_parent_may_be_inserted() {
    const CHUNK_BYTES: u64 = 1 << 16;
    let undetermined = Rc::new(Cell::new(0));
    for seed in 0..24 {
        let (mut simulation, nodes) =
            FabricSimulation::with_nodes(seed, Delivery::Whole, [2 << 20]);
        let (endpoint, memory) = (simulation.endpoint(0), simulation.endpoint(1));
        let counted = Rc::clone(&undetermined);
        simulation.spawn(0, async move {
            let random = &mut SmallRng::seed_from_u64(seed);
            let tree = ChimeTree::create(endpoint, &nodes, INDEX_ROOT, compute_node(nearfield()))
                .await
                .expect("a tree");
            assert_eq!(tree.insert(&key(0), &[1; 8]).await, Ok(None));
            // The tree gets one more chunk.
            let mut last = None;
            while let Ok(chunk) = memory.allocate(nodes[0], CHUNK_BYTES).await {
                last = Some(chunk);
            }
            let chunk = last.expect("a chunk");
            memory.free(chunk, CHUNK_BYTES).await.expect("a chunk");
            let (key, error) = loop {
                let key = key(random.random_range(1..1_u64 << 40));
                if let Err(error) = tree.insert(&key, &[1; 8]).await {
                    break (key, error);
                }
            };
            match error {
                PoolError::Fabric(FabricError::OutOfMemory { .. }) => {
                    assert_eq!(tree.get(&key).await, Ok(None), "seed {seed}");
                }
                PoolError::Undetermined(_) => counted.set(counted.get() + 1),
                other => panic!("seed {seed}: {other}"),
            }
        });
        assert_eq!(simulation.run(), 0, "seed {seed}");
    }
    assert!(undetermined.get() > 0, "no parent was full");
}

/// Returns the cost of changes of one key each, and of the same changes of other keys in a batch.
async fn costs(
    tree: &ChimeTree<CountingEndpoint<SimEndpoint>>,
    [single, batched]: [Vec<Key>; 2],
    is_new: bool,
) -> [VerbCost; 2] {
    tree.endpoint().take();
    for key in &single {
        let before = tree.alter(key, async |_: Option<&[u8]>| Ok(put(3))).await;
        assert_eq!(before.expect("done").is_none(), is_new);
    }
    let one_by_one = tree.endpoint().take();
    let before = alter_all(tree, &batched, |_, _| put(3), |_| {}).await;
    assert!(
        before
            .expect("done")
            .iter()
            .all(|before| before.is_none() == is_new)
    );
    [one_by_one, tree.endpoint().take()]
}

/// All keys of a leaf take the two round trips of one, in CHIME, which reads after it has the lock,
/// three.
#[test]
fn a_batch_on_few_leaves_takes_few_round_trips() {
    for (options, of_a_leaf) in [(ChimeOptions::chime(), 3), (ChimeOptions::nearfield(), 2)] {
        let options = ChimeOptions {
            hotspot_bytes: 0,
            ..options
        };
        let (mut simulation, nodes) = FabricSimulation::with_nodes(1, Delivery::Whole, [64 << 20]);
        let endpoint = CountingEndpoint::new(simulation.endpoint(0));
        simulation.spawn(0, async move {
            let tree = ChimeTree::create(endpoint, &nodes, INDEX_ROOT, compute_node(options))
                .await
                .expect("a tree");
            let of_range = |range: std::ops::Range<u64>, step: usize| -> Vec<Key> {
                range.step_by(step).map(|number| key(4 * number)).collect()
            };
            let loaded = of_range(0..4000, 1);
            let before = alter_all(&tree, &loaded, |_, _| put(1), |_| {}).await;
            assert_eq!(before, Ok(vec![None; loaded.len()]));
            for key in &loaded {
                assert_eq!(tree.get(key).await, Ok(Some(vec![1; 8])));
            }
            // Leaves that were filled in ascending order are half full: 64 keys are in three or
            // four.
            let existing = [of_range(500..564, 1), of_range(1500..1564, 1)];
            let [single, batched] = costs(&tree, existing, false).await;
            assert!(single.round_trips >= 64 * of_a_leaf, "{single:?}");
            assert!(batched.round_trips <= 5 * of_a_leaf, "{batched:?}");
            assert!(batched.messages * 4 <= single.messages, "{batched:?}");
            // A third more entries divide no leaf.
            let between = |keys: Vec<Key>| -> Vec<Key> {
                let next = |key: Key| (u64::from_be_bytes(key) + 1).to_be_bytes();
                keys.into_iter().map(next).collect()
            };
            let new = [2000..2064, 3000..3064].map(|range| between(of_range(range, 3)));
            let [single, batched] = costs(&tree, new, true).await;
            assert!(batched.round_trips * 4 <= single.round_trips, "{batched:?}");
        });
        assert_eq!(simulation.run(), 0);
    }
}
