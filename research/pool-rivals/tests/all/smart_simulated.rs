//! Tests of SMART over a simulated fabric that tears verbs: its operations are linearizable, it
//! holds the entries of a `BTreeMap`, and its scans miss nothing.

use crate::smart::{SmartEndpointFault, SmartIndexFactory, SmartInterference, SmartTestKeys};
use nearfield_fabric::transport::sim::{Delivery, FabricSimulation, SimEndpoint};
use nearfield_fabric::{Endpoint, NodeId};
use nearfield_fabric_testkit::{FaultySimEndpoint, INDEX_ROOT, RemoteRunPlan, check, run};
use nearfield_pool::{PoolError, PoolIndexClient};
use nearfield_pool_rivals::smart::{
    Smart, SmartComputeNode, SmartOptions, SmartScanGuarantee, SmartUpdate,
};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

fn plan() -> RemoteRunPlan {
    RemoteRunPlan {
        nodes: 2,
        node_bytes: 1 << 20,
        updating: 0.4,
        ..RemoteRunPlan::default()
    }
}

#[test]
fn operations_are_linearizable_while_nodes_grow() {
    let plan = RemoteRunPlan {
        operations: 20,
        keys: 24,
        ..plan()
    };
    check(100, &plan, &SmartIndexFactory::new(SmartTestKeys::Wide));
    let few = RemoteRunPlan { keys: 6, ..plan };
    check(100, &few, &SmartIndexFactory::new(SmartTestKeys::Wide));
}

#[test]
fn operations_are_linearizable_while_prefixes_are_split() {
    let plan = RemoteRunPlan { keys: 8, ..plan() };
    check(100, &plan, &SmartIndexFactory::new(SmartTestKeys::Deep));
    let few = RemoteRunPlan { keys: 3, ..plan };
    check(100, &few, &SmartIndexFactory::new(SmartTestKeys::Deep));
    check(30, &few, &SmartIndexFactory::new(SmartTestKeys::Long));
}

#[test]
fn operations_are_linearizable_whatever_is_cached() {
    let plan = RemoteRunPlan { keys: 8, ..plan() };
    // The cache has no nodes, few, and those that other clients have read.
    for (cache_bytes, is_shared) in [(0, false), (700, false), (1 << 20, true)] {
        let mut trees = SmartIndexFactory::new(SmartTestKeys::Deep);
        trees.options.cache_bytes = cache_bytes;
        trees.is_shared = is_shared;
        check(60, &plan, &trees);
    }
}

/// Returns leaves of several lines, which are read in the middle of writes.
fn large() -> SmartIndexFactory {
    let mut trees = SmartIndexFactory::new(SmartTestKeys::Deep);
    trees.options.value_bytes = 200;
    trees
}

#[test]
fn operations_on_large_leaves_are_linearizable() {
    let plan = RemoteRunPlan { keys: 3, ..plan() };
    check(100, &plan, &large());
}

#[test]
fn faults_are_found() {
    let plan = RemoteRunPlan { keys: 6, ..plan() };
    let faults = [
        SmartEndpointFault::NoChecksums,
        SmartEndpointFault::NoSwaps,
        SmartEndpointFault::NoLocks,
        SmartEndpointFault::StaleSlots,
        SmartEndpointFault::Forgets,
    ];
    for fault in faults {
        let mut trees = large();
        trees.fault = fault;
        let failure = (0..500).find_map(|seed| run(seed, &plan, &trees).err());
        assert!(failure.is_some(), "{fault:?}");
    }
}

/// Returns trees whose leaves are copied, of several lines each.
fn copied(keys: SmartTestKeys) -> SmartIndexFactory {
    let mut trees = SmartIndexFactory::new(keys);
    trees.options.value_bytes = 200;
    trees.options.update = SmartUpdate::Copy;
    trees
}

#[test]
fn copies_are_linearizable_while_nodes_grow_and_prefixes_are_split() {
    for (keys, count) in [
        (SmartTestKeys::Wide, 24),
        (SmartTestKeys::Wide, 6),
        (SmartTestKeys::Deep, 8),
        (SmartTestKeys::Deep, 3),
        (SmartTestKeys::Long, 3),
    ] {
        let plan = RemoteRunPlan {
            keys: count,
            node_bytes: 4 << 20,
            ..plan()
        };
        check(60, &plan, &copied(keys));
    }
}

#[test]
fn copies_are_linearizable_whatever_is_cached() {
    let plan = RemoteRunPlan { keys: 4, ..plan() };
    for (cache_bytes, is_shared) in [(0, false), (700, false), (1 << 20, true)] {
        let mut trees = copied(SmartTestKeys::Deep);
        trees.options.cache_bytes = cache_bytes;
        trees.is_shared = is_shared;
        check(60, &plan, &trees);
    }
}

/// A client that dies between the two swaps of a copy blocks no other, which makes the second.
#[test]
fn copies_outlive_their_clients() {
    for (keys, count) in [(SmartTestKeys::Wide, 6), (SmartTestKeys::Deep, 4)] {
        let plan = RemoteRunPlan {
            keys: count,
            dying: 0.4,
            ..plan()
        };
        check(100, &plan, &copied(keys));
    }
}

#[test]
fn faults_of_copies_are_found() {
    let plan = RemoteRunPlan { keys: 6, ..plan() };
    for fault in [
        SmartEndpointFault::NoSuccessors,
        SmartEndpointFault::NoSwaps,
        SmartEndpointFault::Forgets,
    ] {
        let mut trees = copied(SmartTestKeys::Deep);
        trees.fault = fault;
        let failure = (0..500).find_map(|seed| run(seed, &plan, &trees).err());
        assert!(failure.is_some(), "{fault:?}");
    }
}

/// Creates a simulation of two nodes, without faults.
fn simulation(seed: u64, delivery: Delivery) -> (FabricSimulation, [NodeId; 2]) {
    FabricSimulation::with_nodes(seed, delivery, [64 << 20; 2])
}

fn compute_node(options: &SmartOptions) -> Arc<SmartComputeNode> {
    Arc::new(SmartComputeNode::new(options.clone()).expect("options"))
}

/// Compares random operations of one client with a `BTreeMap`.
fn model(
    seed: u64,
    options: SmartOptions,
    operations: usize,
    key: impl Fn(u64) -> Vec<u8> + 'static,
) {
    // Words are torn from each other, as in shared memory.
    let (mut simulation, nodes) = simulation(seed, Delivery::TornWords);
    let endpoint = simulation.endpoint(0);
    simulation.spawn(0, async move {
        let random = &mut SmallRng::seed_from_u64(seed);
        let node = compute_node(&options);
        let tree = Smart::create(endpoint, &nodes, INDEX_ROOT, node)
            .await
            .expect("a tree");
        let mut model = BTreeMap::new();
        for step in 0..operations {
            let key = key(random.random_range(0..256));
            let value = vec![step as u8; options.value_bytes];
            match random.random_range(0..12) {
                0..4 => {
                    let before = tree.insert(&key, &value).await;
                    assert_eq!(before, Ok(model.insert(key, value)), "seed {seed}");
                }
                4..6 => {
                    let before = tree.update(&key, &value).await;
                    assert_eq!(before, Ok(model.get(&key).cloned()), "seed {seed}");
                    model.entry(key).and_modify(|old| *old = value);
                }
                6..8 => assert_eq!(tree.remove(&key).await, Ok(model.remove(&key))),
                8..9 => {
                    let count = random.random_range(0..40);
                    let found = tree.scan(&key, count).await.expect("entries");
                    let all = model.range(key..).take(count);
                    assert!(
                        found.iter().map(|(key, value)| (key, value)).eq(all),
                        "seed {seed}"
                    );
                }
                _ => assert_eq!(tree.get(&key).await, Ok(model.get(&key).cloned())),
            }
        }
        let from = vec![0; options.key_bytes];
        let found = tree.scan(&from, usize::MAX).await.expect("entries");
        assert_eq!(found, model.into_iter().collect::<Vec<_>>(), "seed {seed}");
    });
    assert_eq!(simulation.run(), 0);
}

#[test]
fn it_holds_what_a_map_holds() {
    // Nine seeds have every length of values with every size of the cache.
    seeds::each(3, |seed| {
        for scan in [SmartScanGuarantee::Complete, SmartScanGuarantee::Cached] {
            for (keys, update) in [
                (SmartTestKeys::Wide, SmartUpdate::InPlace),
                (SmartTestKeys::Deep, SmartUpdate::InPlace),
                (SmartTestKeys::Long, SmartUpdate::InPlace),
                (SmartTestKeys::Wide, SmartUpdate::Copy),
                (SmartTestKeys::Deep, SmartUpdate::Copy),
            ] {
                let options = SmartOptions {
                    key_bytes: keys.bytes(),
                    value_bytes: [0, 8, 100][seed as usize % 3],
                    cache_bytes: [0, 3_000, 1 << 20][(seed + seed / 3) as usize % 3],
                    chunk_bytes: 1 << 16,
                    scan,
                    update,
                    ..SmartOptions::default()
                };
                model(seed, options, 600, move |number| keys.key(number));
            }
        }
    });
}

#[test]
fn keys_of_all_lengths_are_held() {
    for key_bytes in [1, 2, 7, 4096] {
        let options = SmartOptions {
            key_bytes,
            ..SmartOptions::default()
        };
        let key = move |number: u64| {
            // The last byte decides: there are nodes one below the other for all bytes before it.
            let mut key = vec![0xee; key_bytes];
            key[key_bytes - 1] = number as u8;
            if key_bytes == 1 {
                key[0] = key[0].max(1);
            }
            key
        };
        model(7, options, 300, key);
    }
}

/// Checks scans while others insert and remove: they are in order, with all keys that exist the
/// whole time, and with none that never existed.
fn scans(seed: u64, update: SmartUpdate) -> Result<(), String> {
    let (mut simulation, nodes) = simulation(seed, Delivery::Torn);
    let options = SmartOptions {
        cache_bytes: 1 << 20,
        chunk_bytes: 1 << 16,
        scan: SmartScanGuarantee::Complete,
        update,
        ..SmartOptions::default()
    };
    let random = &mut SmallRng::seed_from_u64(seed);
    let mut numbers: Vec<u64> = (0..256).collect();
    numbers.shuffle(random);
    let keys = [SmartTestKeys::Wide, SmartTestKeys::Deep][seed as usize % 2];
    let key = move |number: &u64| keys.key(*number);
    let stay: BTreeSet<Vec<u8>> = numbers[..40].iter().map(key).collect();
    let come: Vec<Vec<u8>> = numbers[40..120].iter().map(key).collect();
    let endpoint = simulation.endpoint(0);
    let (first, made) = (stay.clone(), options.clone());
    simulation.spawn(0, async move {
        let tree = Smart::create(endpoint, &nodes, INDEX_ROOT, compute_node(&made));
        let tree = tree.await.expect("a tree");
        for key in first {
            tree.insert(&key, &[1; 8]).await.expect("room");
        }
    });
    assert_eq!(simulation.run(), 0);
    for client in 1..4 {
        let endpoint = simulation.endpoint(client);
        let (come, options) = (come.clone(), options.clone());
        let mut random = SmallRng::seed_from_u64(seed << 8 | u64::from(client));
        simulation.spawn(client, async move {
            let tree = Smart::open(endpoint, &nodes, INDEX_ROOT, compute_node(&options));
            let tree = tree.expect("a tree");
            for _ in 0..40 {
                let key = &come[random.random_range(0..come.len())];
                if random.random_bool(0.7) {
                    tree.insert(key, &[2; 8]).await.expect("room");
                } else {
                    tree.remove(key).await.expect("a reply");
                }
            }
        });
    }
    let failure = Rc::new(RefCell::new(Ok(())));
    for client in 4..6 {
        let endpoint = simulation.endpoint(client);
        let (stay, options) = (stay.clone(), options.clone());
        let come: BTreeSet<Vec<u8>> = come.iter().cloned().collect();
        let mut random = SmallRng::seed_from_u64(seed << 8 | u64::from(client));
        let failure = Rc::clone(&failure);
        simulation.spawn(client, async move {
            let tree = Smart::open(endpoint, &nodes, INDEX_ROOT, compute_node(&options));
            let tree = tree.expect("a tree");
            for _ in 0..15 {
                let from = keys.key(random.random_range(0..256));
                let count = random.random_range(1..80);
                let found = tree.scan(&from, count).await.expect("entries");
                let said: Vec<&Vec<u8>> = found.iter().map(|(key, _)| key).collect();
                let wrong = if !said.is_sorted_by(|one, other| one < other) {
                    "out of order"
                } else if said.iter().any(|&key| *key < from) || said.len() > count {
                    "more than the limit"
                } else if !said
                    .iter()
                    .all(|&key| stay.contains(key) || come.contains(key))
                {
                    "an entry that never existed"
                } else {
                    let last = said.last().filter(|_| said.len() == count);
                    let mut due = stay.range(from..);
                    let missing =
                        due.any(|key| last.is_none_or(|&last| key <= last) && !said.contains(&key));
                    if missing {
                        "something is missing"
                    } else {
                        continue;
                    }
                };
                *failure.borrow_mut() = Err(format!("{wrong}: {said:?}"));
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
    for update in [SmartUpdate::InPlace, SmartUpdate::Copy] {
        let failure = seeds::first_failure(60, |seed| scans(seed, update));
        assert_eq!(failure, None);
    }
}

/// A scan that trusts its cache finds a leaf that another client put next to a known one only by
/// the reverse pointer of the known one.
#[test]
fn the_reverse_check_tells_of_splits() {
    for (fault, expected) in [
        (SmartEndpointFault::None, 3),
        (SmartEndpointFault::NoReverse, 2),
    ] {
        let (mut simulation, nodes) = simulation(1, Delivery::Torn);
        let options = SmartOptions {
            scan: SmartScanGuarantee::Cached,
            ..SmartOptions::default()
        };
        let [mine, theirs] = [0, 1].map(|client| simulation.endpoint(client));
        let mine = FaultySimEndpoint::new(mine, SmartInterference::new(fault, &options));
        simulation.spawn(0, async move {
            let tree = Smart::create(mine, &nodes, INDEX_ROOT, compute_node(&options)).await;
            let tree = tree.expect("a tree");
            for key in [[1; 8], [2; 8]] {
                tree.insert(&key, &[1; 8]).await.expect("room");
            }
            tree.endpoint().interference().forget_words();
            assert_eq!(tree.scan(&[0; 8], 10).await.expect("entries").len(), 2);
            let other = Smart::open(theirs, &nodes, INDEX_ROOT, compute_node(&options));
            let other: Smart<SimEndpoint> = other.expect("a tree");
            let beside = [1, 1, 1, 9, 1, 1, 1, 1];
            other.insert(&beside, &[2; 8]).await.expect("room");
            // An unsignalled write has arrived when the next verb to that node is done.
            for &node in &nodes {
                let at = nearfield_fabric::GlobalAddress::new(node, 64);
                other
                    .endpoint()
                    .read(at, &mut [0; 8])
                    .await
                    .expect("a node");
            }
            let found = tree.scan(&[0; 8], 10).await.expect("entries");
            assert_eq!(found.len(), expected, "{fault:?}");
        });
        assert_eq!(simulation.run(), 0);
    }
}

#[test]
fn what_is_no_key_is_refused() {
    let (mut simulation, nodes) = simulation(1, Delivery::Whole);
    let endpoint = simulation.endpoint(0);
    simulation.spawn(0, async move {
        let node = compute_node(&SmartOptions::default());
        let open = Smart::open(
            endpoint.clone(),
            &[NodeId(256)],
            INDEX_ROOT,
            Arc::clone(&node),
        );
        assert_eq!(
            open.err().map(|error| error.to_string()),
            Some("invalid number of memory node 256: pointers hold numbers up to 255".into())
        );
        let tree = Smart::create(endpoint, &nodes, INDEX_ROOT, node)
            .await
            .expect("a tree");
        let key = |length| {
            Err(PoolError::Key {
                length,
                expected: 8,
            })
        };
        assert_eq!(tree.get(b"short").await, key(5));
        assert_eq!(tree.insert(&[0; 8], &[1; 8]).await, key(8));
        let refused = tree.scan(&[0; 9], 1).await;
        assert!(matches!(refused, Err(PoolError::Key { length: 9, .. })));
        let value = PoolError::Value {
            length: 9,
            expected: 8,
        };
        assert_eq!(tree.insert(&[1; 8], &[1; 9]).await, Err(value.clone()));
        assert_eq!(tree.update(&[1; 8], &[1; 9]).await, Err(value));
        assert_eq!(tree.get(&[1; 8]).await, Ok(None));
    });
    assert_eq!(simulation.run(), 0);
    for (key_bytes, value_bytes) in [(0, 8), (4097, 8), (8, 65_537)] {
        let options = SmartOptions {
            key_bytes,
            value_bytes,
            ..SmartOptions::default()
        };
        let refused = SmartComputeNode::new(options).map(drop);
        assert!(matches!(refused, Err(PoolError::Sizes { .. })));
    }
}
