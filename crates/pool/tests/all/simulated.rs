//! Tests of the tree over a simulated fabric that tears verbs: its operations are linearizable, and
//! it holds the entries of a `BTreeMap`.

use crate::trees::{SmallTrees, chime, compute_node, key, nearfield, small};
use nearfield_fabric::Endpoint;
use nearfield_fabric::transport::sim::{Delivery, FabricSimulation, SimEndpoint};
use nearfield_fabric_testkit::{
    INDEX_ROOT, RemoteRunFailure, RemoteRunPlan, RemoteRunReport, SimEndpointFault, check,
    each_seed, run,
};
use nearfield_hardware::network::NetworkPreset;
use nearfield_pool::chime::{ChimeLockKind, ChimeOptions, ChimeTree};
use nearfield_pool::layout::{Arrangement, LeafMetadataPosition, PoolIndexShape, Validation};
use nearfield_pool::{PoolError, PoolIndexClient};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Returns all steps from Sherman to CHIME, and ours.
pub fn steps() -> Vec<ChimeOptions> {
    let (sherman, chime) = (ChimeOptions::sherman(), chime());
    let fences = |metadata, vacancy_bitmap| ChimeOptions {
        shape: PoolIndexShape {
            metadata,
            validation: Validation::Fences,
            ..small()
        },
        hotspot_bytes: 0,
        vacancy_bitmap,
        ..chime
    };
    vec![
        ChimeOptions {
            shape: PoolIndexShape {
                arrangement: Arrangement::Unordered,
                ..small()
            },
            cache_bytes: 1 << 20,
            ..sherman
        },
        fences(LeafMetadataPosition::Single, false),
        fences(LeafMetadataPosition::Single, true),
        fences(LeafMetadataPosition::Replicated, true),
        ChimeOptions {
            hotspot_bytes: 0,
            ..chime
        },
        chime,
        nearfield(),
    ]
}

#[test]
fn operations_are_linearizable_while_nodes_are_divided() {
    let plan = RemoteRunPlan {
        nodes: 2,
        node_bytes: 4 << 20,
        operations: 30,
        keys: 40,
        ..RemoteRunPlan::default()
    };
    for options in steps() {
        check(30, &plan, &SmallTrees::new(options));
    }
    // The cache has room for no node, or for few.
    for cache_bytes in [0, 2000] {
        let options = ChimeOptions {
            cache_bytes,
            hotspot_bytes: 0,
            ..chime()
        };
        check(15, &plan, &SmallTrees::new(options));
    }
}

#[test]
fn operations_on_few_keys_are_linearizable() {
    let plan = RemoteRunPlan {
        node_bytes: 4 << 20,
        keys: 3,
        ..RemoteRunPlan::default()
    };
    for options in steps() {
        check(30, &plan, &SmallTrees::new(options));
    }
}

/// Some of the overwritten keys are removed, moved, divided and merged meanwhile, by clients that
/// know their slots, and some of these die.
#[test]
fn keys_that_are_overwritten_without_being_read_are_the_right_ones() {
    for (keys, operations, removing, dying) in [
        (3, 20, 0.1, 0.0),
        (6, 30, 0.2, 0.0),
        (40, 40, 0.2, 0.0),
        (60, 60, 0.4, 0.0),
        (6, 30, 0.2, 0.5),
        (60, 60, 0.4, 0.4),
    ] {
        let plan = RemoteRunPlan {
            nodes: 2,
            node_bytes: 4 << 20,
            keys,
            operations,
            removing,
            updating: 0.7,
            overwriting: 0.8,
            dying,
            ..RemoteRunPlan::default()
        };
        check(30, &plan, &SmallTrees::new(nearfield()));
        // Checks leaves of many lines.
        let shape = PoolIndexShape {
            leaf_span: 64,
            neighborhood: 8,
            ..nearfield().shape
        };
        let options = ChimeOptions {
            shape,
            ..nearfield()
        };
        check(10, &plan, &SmallTrees::new(options));
    }
}

/// No value is in one line, so that entries are torn wherever they are.
#[test]
fn operations_on_long_values_are_linearizable() {
    let plan = RemoteRunPlan {
        node_bytes: 4 << 20,
        keys: 3,
        updating: 0.5,
        ..RemoteRunPlan::default()
    };
    for options in [chime(), nearfield()] {
        let shape = PoolIndexShape {
            value_bytes: 80,
            ..options.shape
        };
        check(
            50,
            &plan,
            &SmallTrees::new(ChimeOptions { shape, ..options }),
        );
    }
}

#[test]
fn the_dead_block_nobody_and_leave_nothing_half_done() {
    for (keys, operations) in [(3, 12), (40, 30)] {
        let plan = RemoteRunPlan {
            nodes: 2,
            node_bytes: 4 << 20,
            operations,
            keys,
            dying: 0.5,
            ..RemoteRunPlan::default()
        };
        check(30, &plan, &SmallTrees::new(nearfield()));
    }
}

#[test]
fn operations_are_linearizable_while_nodes_are_merged() {
    for (dying, nodes) in [(0.0, 1), (0.4, 1), (0.0, 2), (0.4, 2)] {
        let plan = RemoteRunPlan {
            nodes,
            node_bytes: 4 << 20,
            operations: 60,
            keys: 60,
            removing: 0.45,
            dying,
            ..RemoteRunPlan::default()
        };
        check(20, &plan, &SmallTrees::new(nearfield()));
    }
}

/// Reads after the loss of a node agree with the writes before, the loss keeps nobody waiting, and
/// some keys can be read: the inner nodes and the first leaf are elsewhere.
#[test]
fn keys_of_other_nodes_outlive_a_lost_node() {
    for (removing, dying) in [(0.1, 0.0), (0.45, 0.0), (0.1, 0.4), (0.45, 0.4)] {
        let plan = RemoteRunPlan {
            nodes: 2,
            node_bytes: 4 << 20,
            operations: 60,
            keys: 60,
            removing,
            dying,
            losing: Some((1, Duration::from_micros(800))),
            ..RemoteRunPlan::default()
        };
        let system = SmallTrees::new(nearfield());
        each_seed(20, |seed| {
            let report = run(seed, &plan, &system)?;
            assert!(report.readable > 0, "seed {seed}: {report:?}");
            Ok::<_, RemoteRunFailure>(report)
        });
        // A tree without its root is lost as a whole.
        let losing = Some((0, Duration::from_micros(800)));
        let failure = run(0, &RemoteRunPlan { losing, ..plan }, &system);
        assert!(
            matches!(failure, Err(RemoteRunFailure::Refused(_))),
            "{failure:?}"
        );
    }
}

#[test]
fn words_that_are_torn_are_noticed() {
    for options in [chime(), nearfield()] {
        for (keys, operations) in [(3, 12), (40, 30)] {
            let plan = RemoteRunPlan {
                node_bytes: 4 << 20,
                operations,
                keys,
                delivery: Delivery::TornWords,
                dying: if options.locks == ChimeLockKind::Spinning {
                    0.0
                } else {
                    0.3
                },
                ..RemoteRunPlan::default()
            };
            check(16, &plan, &SmallTrees::new(options));
        }
    }
}

#[test]
fn faults_are_found() {
    let plan = RemoteRunPlan {
        keys: 6,
        ..RemoteRunPlan::default()
    };
    for fault in [
        SimEndpointFault::NoLocks,
        SimEndpointFault::LastFirst,
        SimEndpointFault::Forgets,
    ] {
        let system = SmallTrees {
            fault,
            ..SmallTrees::new(chime())
        };
        let failure = (0..300).find_map(|seed| run(seed, &plan, &system).err());
        assert!(failure.is_some(), "{fault:?}");
    }
}

/// The word of the root has eight bits for the number of a node.
#[test]
fn nodes_that_the_root_cannot_name_are_refused() {
    let network = NetworkPreset::ConnectX6.parameters();
    let mut simulation = FabricSimulation::new(1, network, Delivery::Whole);
    let nodes: Vec<_> = (0..257).map(|_| simulation.add_node(1 << 18)).collect();
    let endpoint = simulation.endpoint(0);
    simulation.spawn(0, async move {
        let create = async |count: usize| {
            let node = compute_node(nearfield());
            let tree = ChimeTree::create(endpoint.clone(), &nodes[..count], INDEX_ROOT, node);
            tree.await.map(drop)
        };
        let refused = PoolError::Node {
            node: nodes[256],
            max: 255,
        };
        assert_eq!(create(257).await, Err(refused));
        assert_eq!(create(256).await, Ok(()));
    });
    assert_eq!(simulation.run(), 0);
}

/// The entries that a tree must have.
pub type ChimeTreeModel = BTreeMap<[u8; 8], Vec<u8>>;

/// Checks that a tree holds what a `BTreeMap` holds after `change` has changed both. The numbers of
/// its keys are below `keys`.
pub fn compare<F>(
    seed: u64,
    options: ChimeOptions,
    keys: u64,
    change: impl FnOnce(ChimeTree<SimEndpoint>, SmallRng) -> F + 'static,
) where
    F: Future<Output = (ChimeTree<SimEndpoint>, ChimeTreeModel)> + 'static,
{
    let (mut simulation, nodes) =
        FabricSimulation::with_nodes(seed, Delivery::Whole, [32 << 20; 2]);
    let endpoint = simulation.endpoint(0);
    let node = compute_node(options);
    simulation.spawn(0, async move {
        let tree = ChimeTree::create(endpoint, &nodes, INDEX_ROOT, node)
            .await
            .expect("a tree");
        let (tree, model) = change(tree, SmallRng::seed_from_u64(seed)).await;
        for number in 0..keys {
            let key = key(number);
            assert_eq!(
                tree.get(&key).await,
                Ok(model.get(&key).cloned()),
                "seed {seed}"
            );
        }
        let all = tree.scan(&[0; 8], model.len() + 1).await.expect("a scan");
        let expected = model
            .iter()
            .map(|(key, value)| (key.to_vec(), value.clone()));
        assert!(all.into_iter().eq(expected), "seed {seed}");
    });
    assert_eq!(simulation.run(), 0);
}

/// Compares random operations of one client with a `BTreeMap`.
fn model(seed: u64, options: ChimeOptions, keys: u64, operations: usize) {
    let value_bytes = options.shape.value_bytes;
    compare(seed, options, keys, async move |tree, mut random| {
        let mut model = ChimeTreeModel::new();
        for step in 0..operations {
            let key = key(random.random_range(0..keys));
            let value = vec![step as u8; value_bytes];
            match random.random_range(0..20) {
                0..2 => {
                    let before = tree.update(&key, &value).await;
                    let there = model.get_mut(&key);
                    let replaced = there.map(|there| std::mem::replace(there, value));
                    assert_eq!(before, Ok(replaced), "seed {seed}");
                }
                2..3 => {
                    let count = random.random_range(0..100);
                    let there = model.range(key..).take(count);
                    let there: Vec<_> = there.map(|(k, v)| (k.to_vec(), v.clone())).collect();
                    assert_eq!(tree.scan(&key, count).await, Ok(there), "seed {seed}");
                    let there = model.range(..=key).rev().take(count);
                    let there: Vec<_> = there.map(|(k, v)| (k.to_vec(), v.clone())).collect();
                    assert_eq!(tree.scan_back(&key, count).await, Ok(there), "seed {seed}");
                }
                3..10 => {
                    let before = tree.insert(&key, &value).await;
                    assert_eq!(before, Ok(model.insert(key, value)), "seed {seed}");
                }
                10..14 => assert_eq!(tree.remove(&key).await, Ok(model.remove(&key))),
                _ => assert_eq!(tree.get(&key).await, Ok(model.get(&key).cloned())),
            }
        }
        (tree, model)
    });
}

#[test]
fn it_holds_what_a_map_holds() {
    for options in steps() {
        seeds::each(3, |seed| model(seed, options, 400, 2000));
    }
    let shape = PoolIndexShape {
        value_bytes: 32,
        ..PoolIndexShape::default()
    };
    let large = ChimeOptions {
        shape,
        cache_bytes: 24_000,
        hotspot_bytes: 8_000,
        ..chime()
    };
    model(1, large, 8_000, 16_000);
}

/// Checks scans: even keys always exist; odd ones come and go, while clients scan in both
/// directions.
///
/// # Panics
/// If a scan is wrong.
fn scans_while_others_write(seed: u64, options: ChimeOptions) -> RemoteRunReport {
    const KEYS: u64 = 120;
    let (mut simulation, nodes) = FabricSimulation::with_nodes(seed, Delivery::Torn, [4 << 20; 2]);
    let endpoint = simulation.endpoint(0);
    simulation.spawn(0, async move {
        let node = compute_node(options);
        let tree = ChimeTree::create(endpoint, &nodes, INDEX_ROOT, node)
            .await
            .expect("a tree");
        for number in (0..KEYS).step_by(2) {
            let done = tree.insert(&key(number), &[1; 8]).await;
            assert_eq!(done, Ok(None));
        }
    });
    assert_eq!(simulation.run(), 0);
    let answered = Rc::new(Cell::new(0));
    for client in 1..=4 {
        let (endpoint, answered) = (simulation.endpoint(client), Rc::clone(&answered));
        simulation.spawn(client, async move {
            let random = &mut SmallRng::seed_from_u64(seed * 10 + u64::from(client));
            let tree = ChimeTree::open(endpoint, &nodes, INDEX_ROOT, compute_node(options))
                .await
                .expect("a tree");
            for _ in 0..60 {
                let odd = key(random.random_range(0..KEYS / 2) * 2 + 1);
                if client <= 2 {
                    // All keys of a stretch are changed, so that leaves are merged.
                    for number in 0..20_u64 {
                        let near = u64::from_be_bytes(odd) - 1 + 2 * number;
                        let near = key((near % KEYS) | 1);
                        let done = if random.random_bool(0.5) {
                            tree.insert(&near, &[2; 8]).await
                        } else {
                            tree.remove(&near).await
                        };
                        done.expect("done");
                    }
                    answered.update(|answered| answered + 20);
                    continue;
                }
                let from = random.random_range(0..KEYS);
                let count = random.random_range(1..60);
                let up = tree.scan(&key(from), count).await.expect("a scan");
                complete(&up, from, count, seed);
                let mut down = tree.scan_back(&key(from), count).await.expect("a scan");
                down.reverse();
                complete_to(&down, from, count, seed);
                answered.update(|answered| answered + 2);
            }
        });
    }
    assert_eq!(simulation.run(), 0, "seed {seed}");
    return RemoteRunReport {
        answered: answered.get(),
        ..RemoteRunReport::default()
    };

    fn numbers(entries: &[(Vec<u8>, Vec<u8>)], seed: u64) -> Vec<u64> {
        let number = |key: &Vec<u8>| u64::from_be_bytes(key[..].try_into().expect("a key")) - 1;
        let numbers: Vec<u64> = entries.iter().map(|(key, _)| number(key)).collect();
        assert!(
            numbers.is_sorted_by(|one, other| one < other),
            "seed {seed}"
        );
        numbers
    }

    fn complete(entries: &[(Vec<u8>, Vec<u8>)], from: u64, count: usize, seed: u64) {
        let numbers = numbers(entries, seed);
        assert!(numbers.iter().all(|&number| number >= from));
        let end = match numbers.last() {
            Some(&last) if numbers.len() == count => last,
            _ => KEYS,
        };
        let even = (from..end).filter(|number| number % 2 == 0);
        for number in even {
            assert!(
                numbers.contains(&number),
                "seed {seed}: {number} is not in {numbers:?}"
            );
        }
    }

    fn complete_to(entries: &[(Vec<u8>, Vec<u8>)], to: u64, count: usize, seed: u64) {
        let numbers = numbers(entries, seed);
        assert!(numbers.iter().all(|&number| number <= to));
        let start = match numbers.first() {
            Some(&first) if numbers.len() == count => first,
            _ => 0,
        };
        let even = (start..=to).filter(|number| number % 2 == 0);
        for number in even {
            assert!(
                numbers.contains(&number),
                "seed {seed}: {number} is not in {numbers:?}"
            );
        }
    }
}

#[test]
fn scans_leave_nothing_out_and_answer_nothing_twice() {
    // Without the count, scans may miss a key that is moved.
    for options in steps() {
        let moves = options.shape.arrangement != Arrangement::Unordered;
        let options = ChimeOptions {
            counts_moves: moves,
            ..options
        };
        each_seed(5, |seed| {
            Ok::<RemoteRunReport, Infallible>(scans_while_others_write(seed, options))
        });
    }
}

#[test]
fn what_is_deleted_takes_no_levels() {
    let (mut simulation, nodes) = FabricSimulation::with_nodes(7, Delivery::Whole, [32 << 20; 2]);
    let (endpoint, other) = (simulation.endpoint(0), simulation.endpoint(1));
    simulation.spawn(0, async move {
        let random = &mut SmallRng::seed_from_u64(7);
        let node = compute_node(nearfield());
        let tree = ChimeTree::create(endpoint, &nodes, INDEX_ROOT, node)
            .await
            .expect("a tree");
        let level = async || {
            let mut word = [0; 8];
            other.read(INDEX_ROOT, &mut word).await.expect("a root");
            u64::from_le_bytes(word) >> 56
        };
        let mut keys: Vec<u64> = (0..2000).collect();
        for round in 0..6 {
            for &number in &keys {
                let value = number.to_le_bytes();
                assert_eq!(tree.insert(&key(number), &value).await, Ok(None));
            }
            assert!(level().await >= 5, "round {round}");
            keys.shuffle(random);
            for &number in &keys {
                let value = number.to_le_bytes().to_vec();
                assert_eq!(tree.remove(&key(number)).await, Ok(Some(value)));
            }
            assert!(level().await <= 2, "round {round}: {}", level().await);
            assert_eq!(tree.scan(&[0; 8], 10).await, Ok(Vec::new()));
        }
    });
    assert_eq!(simulation.run(), 0);
    // Two thousand entries of 19 bytes in leaves that are half full and use whole lines, their
    // parents, and as much memory that waits for reuse; not six times as much.
    let allocated: u64 = nodes
        .iter()
        .map(|&node| simulation.allocated_bytes(node))
        .sum();
    assert!(allocated < 700_000, "{allocated} bytes");
}

/// The record of a merge has two nodes and their parent.
#[test]
fn records_have_room_for_mergers_in_trees_of_all_sizes() {
    for (leaf_span, internal_span, value_bytes, validation, leaves) in [
        (64, 64, 8, Validation::Sibling, 50),
        (64, 64, 100, Validation::Fences, 50),
        (16, 64, 8, Validation::Fences, 50),
        (128, 8, 1, Validation::Sibling, 12),
    ] {
        let shape = PoolIndexShape {
            leaf_span,
            internal_span,
            value_bytes,
            validation,
            ..PoolIndexShape::default()
        };
        let options = ChimeOptions {
            shape,
            ..nearfield()
        };
        let (mut simulation, nodes) =
            FabricSimulation::with_nodes(1, Delivery::TornWords, [32 << 20]);
        let endpoint = simulation.endpoint(0);
        simulation.spawn(0, async move {
            let tree = ChimeTree::create(endpoint, &nodes, INDEX_ROOT, compute_node(options))
                .await
                .expect("a tree");
            let keys = 0..leaves * leaf_span as u64;
            for number in keys.clone() {
                let before = tree.insert(&key(number), &vec![1; value_bytes]).await;
                assert_eq!(before, Ok(None));
            }
            for number in keys {
                let before = tree.remove(&key(number)).await;
                assert_eq!(before, Ok(Some(vec![1; value_bytes])));
            }
        });
        assert_eq!(simulation.run(), 0);
    }
}

/// Checks a client that dies at each of the verbs of removals that merge nodes. Others write at
/// once to the merged node, and then to all nodes above: acknowledged writes stay.
fn merger_dies_at(verb: u64, delivery: Delivery) {
    const KEYS: u64 = 48;
    let (mut simulation, nodes) = FabricSimulation::with_nodes(verb, delivery, [2 << 20]);
    let endpoint = simulation.endpoint(0);
    simulation.spawn(0, async move {
        let tree = ChimeTree::create(endpoint, &nodes, INDEX_ROOT, compute_node(nearfield()))
            .await
            .expect("a tree");
        for number in 0..KEYS {
            let before = tree.insert(&key(number), &[1; 8]).await;
            assert_eq!(before, Ok(None));
        }
    });
    assert_eq!(simulation.run(), 0);
    simulation.kill_at_verb(1, verb);
    let endpoint = simulation.endpoint(1);
    simulation.spawn(1, async move {
        let tree = ChimeTree::open(endpoint, &nodes, INDEX_ROOT, compute_node(nearfield()))
            .await
            .expect("a tree");
        for number in (0..KEYS).filter(|number| number % 8 != 0) {
            tree.remove(&key(number)).await.expect("done");
        }
    });
    let endpoint = simulation.endpoint(2);
    simulation.spawn(2, async move {
        let tree = ChimeTree::open(endpoint, &nodes, INDEX_ROOT, compute_node(nearfield()))
            .await
            .expect("a tree");
        // The other client works meanwhile, and a little longer.
        for round in 2..8 {
            for number in (0..KEYS).step_by(8) {
                let before = tree.insert(&key(number), &[round; 8]).await;
                assert_eq!(before, Ok(Some(vec![round - 1; 8])), "verb {verb}");
            }
        }
    });
    assert_eq!(simulation.run(), 0, "verb {verb}");
    let endpoint = simulation.endpoint(3);
    simulation.spawn(3, async move {
        let tree = ChimeTree::open(endpoint, &nodes, INDEX_ROOT, compute_node(nearfield()))
            .await
            .expect("a tree");
        let found = tree.scan(&key(0), 100).await.expect("done");
        let stays = (0..KEYS).step_by(8).map(|number| key(number).to_vec());
        for key in stays {
            assert!(found.contains(&(key, vec![7; 8])), "verb {verb}");
        }
        for number in (0..KEYS).rev() {
            tree.remove(&key(number)).await.expect("done");
            let before = tree.insert(&key(number), &[9; 8]).await;
            assert_eq!(before, Ok(None), "verb {verb}");
        }
        let found = tree.scan(&key(0), 100).await.expect("done");
        let expected = (0..KEYS).map(|number| (key(number).to_vec(), vec![9; 8]));
        assert!(found.into_iter().eq(expected), "verb {verb}");
    });
    assert_eq!(simulation.run(), 0, "verb {verb}");
}

/// Each seed checks a third of the verbs, so that three in a row check all.
#[test]
fn who_merges_may_die_at_any_verb() {
    seeds::each(1, |seed| {
        for verb in (seed % 3..400).step_by(3) {
            let torn = [Delivery::Torn, Delivery::TornWords];
            merger_dies_at(verb, torn[verb as usize / 2 % 2]);
        }
    });
}

/// A client dies at each of its verbs while it inserts ascending keys. Another one inserts the next
/// keys: all to the right of a root that the first one may have divided.
#[test]
fn a_client_that_divides_the_root_may_die_at_any_verb() {
    const KEYS: u64 = 60;
    for verb in 0..500 {
        let torn = [Delivery::Torn, Delivery::TornWords];
        let delivery = torn[verb as usize % 2];
        let (mut simulation, nodes) = FabricSimulation::with_nodes(verb, delivery, [1 << 20]);
        let endpoint = simulation.endpoint(0);
        simulation.spawn(0, async move {
            let node = compute_node(nearfield());
            let tree = ChimeTree::create(endpoint, &nodes, INDEX_ROOT, node).await;
            tree.map(drop).expect("a tree");
        });
        assert_eq!(simulation.run(), 0);
        simulation.kill_at_verb(1, verb);
        let next = Rc::new(Cell::new(0));
        for client in 1..3 {
            let (endpoint, next) = (simulation.endpoint(client), Rc::clone(&next));
            simulation.spawn(client, async move {
                let node = compute_node(nearfield());
                let tree = ChimeTree::open(endpoint, &nodes, INDEX_ROOT, node).await;
                let tree = tree.expect("a tree");
                for _ in 0..KEYS {
                    // The key at which the first client has died is left out.
                    let number = next.replace(next.get() + 1);
                    let before = tree.insert(&key(number), &[1; 8]).await;
                    assert_eq!(before, Ok(None), "verb {verb}, key {number}");
                }
            });
            assert_eq!(simulation.run(), 0, "verb {verb}");
        }
    }
}

/// Waits for a future for at most this number of polls.
async fn for_steps<T>(steps: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = steps;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

fn number(value: Option<Vec<u8>>) -> Option<u64> {
    value.map(|value| u64::from_le_bytes(value.try_into().expect("eight bytes")))
}

/// More clients than an index has numbers for come one after the other, and each dies in the middle
/// of an operation. The numbers of dead clients are reused, and their changes are finished.
#[test]
fn numbers_of_clients_are_used_again() {
    const CLIENTS: u64 = 4200;
    const KEYS: u64 = 60;
    let (mut simulation, nodes) = FabricSimulation::with_nodes(11, Delivery::Whole, [256 << 20]);
    let endpoint = simulation.endpoint(0);
    let endpoints: Vec<SimEndpoint> = (1..=CLIENTS)
        .map(|client| simulation.endpoint(client as u32))
        .collect();
    simulation.spawn(0, async move {
        let random = &mut SmallRng::seed_from_u64(11);
        ChimeTree::create(
            endpoint.clone(),
            &nodes,
            INDEX_ROOT,
            compute_node(nearfield()),
        )
        .await
        .expect("a tree");
        // The possible values of each key.
        let mut possible: Vec<Vec<Option<u64>>> = vec![vec![None]; KEYS as usize];
        for (client, endpoint) in (1..).zip(endpoints) {
            let tree = ChimeTree::open(endpoint, &nodes, INDEX_ROOT, compute_node(nearfield()))
                .await
                .expect("a number");
            let at = random.random_range(0..KEYS);
            let key = key(at);
            let possible = &mut possible[at as usize];
            let steps = random.random_range(0..12);
            let (written, before) = if random.random_bool(0.3) {
                (None, for_steps(steps, tree.remove(&key)).await)
            } else {
                let value = u64::to_le_bytes(client);
                (
                    Some(client),
                    for_steps(steps, tree.insert(&key, &value)).await,
                )
            };
            match before {
                Some(before) => {
                    let before = number(before.expect("done"));
                    assert!(possible.contains(&before), "{before:?}: {possible:?}");
                    *possible = vec![written];
                }
                None => possible.push(written),
            }
        }
        let tree = ChimeTree::open(endpoint, &nodes, INDEX_ROOT, compute_node(nearfield()))
            .await
            .expect("a number");
        for (at, possible) in (0..).zip(possible) {
            let found = number(tree.get(&key(at)).await.expect("done"));
            assert!(possible.contains(&found), "{found:?}: {possible:?}");
        }
    });
    assert_eq!(simulation.run(), 0);
}

/// A client that was silent for so long that another has its number continues with a new one.
#[test]
fn clients_that_were_stopped_go_on() {
    let (mut simulation, nodes) = FabricSimulation::with_nodes(5, Delivery::Torn, [256 << 20]);
    let (one, other) = (simulation.endpoint(0), simulation.endpoint(1));
    simulation.spawn(0, async move {
        let lease = match nearfield().locks {
            ChimeLockKind::Leased(lease) => lease,
            ChimeLockKind::Spinning => panic!("locks have leases"),
        };
        let stopped = ChimeTree::create(one.clone(), &nodes, INDEX_ROOT, compute_node(nearfield()))
            .await
            .expect("a tree");
        assert_eq!(stopped.insert(&key(1), &[1; 8]).await, Ok(None));
        // All other numbers are taken, and then this client's as well.
        let node = compute_node(nearfield());
        for _ in 0..1024 {
            ChimeTree::open(other.clone(), &nodes, INDEX_ROOT, Arc::clone(&node))
                .await
                .expect("a number");
        }
        one.sleep(lease * 100).await;
        for value in 2..4 {
            let before = stopped.insert(&key(1), &[value; 8]).await;
            assert_eq!(before, Ok(Some(vec![value - 1; 8])));
        }
        assert_eq!(stopped.get(&key(1)).await, Ok(Some(vec![3; 8])));
    });
    assert_eq!(simulation.run(), 0);
}

#[test]
fn what_is_no_key_is_refused() {
    let (mut simulation, nodes) = FabricSimulation::with_nodes(1, Delivery::Whole, [1 << 20]);
    let endpoint = simulation.endpoint(0);
    simulation.spawn(0, async move {
        let tree = ChimeTree::create(endpoint, &nodes, INDEX_ROOT, compute_node(chime()))
            .await
            .expect("a tree");
        let error = tree.get(b"short").await.expect_err("no key");
        assert_eq!(
            error.to_string(),
            "invalid key of 5 bytes: keys have 8 bytes and are not all zero"
        );
        assert!(tree.insert(&[0; 8], &[1; 8]).await.is_err());
        let error = tree.insert(&[1; 8], &[1; 9]).await.expect_err("no value");
        assert!(matches!(
            error,
            PoolError::Value {
                length: 9,
                expected: 8
            }
        ));
        assert_eq!(tree.get(&[1; 8]).await, Ok(None));
    });
    assert_eq!(simulation.run(), 0);
}
