//! Tests of trees that are loaded with sorted entries.

use crate::simulated::steps;
use crate::trees::{SmallTrees, compute_node, key, nearfield};
use nearfield_fabric::transport::sim::{Delivery, FabricSimulation};
use nearfield_fabric_testkit::{INDEX_ROOT, RemoteRunPlan, check};
use nearfield_pool::chime::{ChimeOptions, ChimeTree};
use nearfield_pool::{PoolError, PoolIndexClient};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

type Key = [u8; 8];

/// Returns this number of random entries.
fn entries(seed: u64, count: usize) -> BTreeMap<Key, Vec<u8>> {
    let random = &mut SmallRng::seed_from_u64(seed);
    let mut entries = BTreeMap::new();
    while entries.len() < count {
        entries.insert(key(random.random_range(0..1 << 40)), vec![1; 8]);
    }
    entries
}

/// Compares a tree with the entries that it was loaded with, and then with random changes of them.
fn holds_what_was_loaded(options: ChimeOptions, count: usize, percent: usize) {
    let (mut simulation, nodes) = FabricSimulation::with_nodes(1, Delivery::Whole, [32 << 20; 2]);
    let (loader, endpoint) = (simulation.endpoint(0), simulation.endpoint(1));
    simulation.spawn(0, async move {
        let mut model = entries(count as u64, count);
        let node = compute_node(options);
        let loaded = ChimeTree::load(loader, &nodes, INDEX_ROOT, node, &model, percent).await;
        drop(loaded.expect("a tree"));
        let tree = ChimeTree::open(endpoint, &nodes, INDEX_ROOT, compute_node(options))
            .await
            .expect("the tree");
        let is_equal = async |model: &BTreeMap<Key, Vec<u8>>| {
            let all = tree.scan(&[0; 8], model.len() + 1).await.expect("a scan");
            let expected = model
                .iter()
                .map(|(key, value)| (key.to_vec(), value.clone()));
            assert!(
                all.iter().cloned().eq(expected.clone()),
                "{count}, {percent} %"
            );
            let all = tree.scan_back(&[0xff; 8], model.len() + 1).await;
            let all = all.expect("a scan");
            assert!(all.into_iter().eq(expected.rev()), "{count}, {percent} %");
        };
        is_equal(&model).await;
        let random = &mut SmallRng::seed_from_u64(7);
        let keys: Vec<Key> = model.keys().copied().collect();
        for key in &keys {
            assert_eq!(tree.get(key).await, Ok(Some(vec![1; 8])));
            let number = u64::from_be_bytes(*key) + random.random_range(0..3);
            let near = number.to_be_bytes();
            match random.random_bool(0.6) {
                true => {
                    let before = tree.insert(&near, &[2; 8]).await;
                    assert_eq!(before, Ok(model.insert(near, vec![2; 8])));
                }
                false => assert_eq!(tree.remove(&near).await, Ok(model.remove(&near))),
            }
        }
        is_equal(&model).await;
    });
    assert_eq!(simulation.run(), 0, "{count}, {percent} %");
}

#[test]
fn a_loaded_tree_holds_its_entries_and_grows() {
    for options in steps() {
        for count in [0, 1, 8, 9, 10, 37, 700] {
            for percent in [1, 60, 80, 100] {
                holds_what_was_loaded(options, count, percent);
            }
        }
    }
    for options in [ChimeOptions::sherman(), ChimeOptions::nearfield()] {
        holds_what_was_loaded(options, 6_000, 80);
    }
}

/// Returns the bytes that a tree of this number of entries takes, loaded in order or inserted in a
/// random one.
fn tree_bytes(count: usize, percent: Option<usize>) -> u64 {
    let (mut simulation, nodes) = FabricSimulation::with_nodes(1, Delivery::Whole, [64 << 20]);
    let endpoint = simulation.endpoint(0);
    simulation.spawn(0, async move {
        let node = compute_node(ChimeOptions::chime());
        let model = entries(3, count);
        if let Some(percent) = percent {
            let tree = ChimeTree::load(endpoint, &nodes, INDEX_ROOT, node, &model, percent);
            drop(tree.await.expect("a tree"));
            return;
        }
        let tree = ChimeTree::create(endpoint, &nodes, INDEX_ROOT, node).await;
        let tree = tree.expect("a tree");
        let hash = |key: &Key| u64::from_be_bytes(*key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut keys: Vec<Key> = model.into_keys().collect();
        keys.sort_unstable_by_key(hash);
        for key in keys {
            tree.insert(&key, &[1; 8]).await.expect("inserted");
        }
    });
    assert_eq!(simulation.run(), 0);
    simulation.allocated_bytes(nodes[0])
}

/// Four fifths of each leaf are in use, where random inserts use three fifths.
#[test]
fn loaded_leaves_are_fuller_than_grown_ones() {
    const COUNT: usize = 40_000;
    let of_entries = |percent| tree_bytes(COUNT, percent) - tree_bytes(0, percent);
    let (grown, loaded) = (of_entries(None), of_entries(Some(80)));
    assert!(loaded * 100 < grown * 82, "{loaded} for {grown}");
    let same = of_entries(Some(59));
    assert!(same * 100 > grown * 92, "{same} for {grown}");
}

/// Returns the bytes that a tree of keys in ascending order takes.
fn ascending_bytes(fills_last: bool) -> u64 {
    let (mut simulation, nodes) = FabricSimulation::with_nodes(1, Delivery::Whole, [64 << 20]);
    let endpoint = simulation.endpoint(0);
    let options = ChimeOptions {
        fills_last,
        ..ChimeOptions::chime()
    };
    simulation.spawn(0, async move {
        let tree = ChimeTree::create(endpoint, &nodes, INDEX_ROOT, compute_node(options)).await;
        let tree = tree.expect("a tree");
        let model = entries(3, 40_000);
        for (key, value) in &model {
            assert_eq!(tree.insert(key, value).await, Ok(None));
        }
        let all = tree.scan(&[0; 8], model.len() + 1).await.expect("a scan");
        let expected = model
            .iter()
            .map(|(key, value)| (key.to_vec(), value.clone()));
        assert!(all.into_iter().eq(expected));
    });
    assert_eq!(simulation.run(), 0);
    simulation.allocated_bytes(nodes[0])
}

#[test]
fn keys_in_ascending_order_fill_leaves_if_the_last_one_keeps_its_keys() {
    let (halved, filled) = (ascending_bytes(false), ascending_bytes(true));
    assert!(filled * 100 < halved * 70, "{filled} for {halved}");
}

#[test]
fn trees_whose_last_leaf_keeps_its_keys_are_linearizable() {
    for (removing, dying) in [(0.1, 0.0), (0.4, 0.4)] {
        let plan = RemoteRunPlan {
            nodes: 2,
            node_bytes: 4 << 20,
            operations: 40,
            keys: 60,
            removing,
            dying,
            ..RemoteRunPlan::default()
        };
        let options = ChimeOptions {
            fills_last: true,
            ..nearfield()
        };
        check(20, &plan, &SmallTrees::new(options));
    }
}

#[test]
fn entries_that_do_not_ascend_are_refused() {
    let (mut simulation, nodes) = FabricSimulation::with_nodes(1, Delivery::Whole, [4 << 20]);
    let endpoints = [0, 1, 2].map(|client| simulation.endpoint(client));
    simulation.spawn(0, async move {
        let unsorted: Result<(), PoolError> = Err(PoolError::Unsorted { position: 2 });
        let no_value = Err(PoolError::Value {
            length: 7,
            expected: 8,
        });
        let of = |number: u64, length: usize| (key(number), vec![1_u8; length]);
        let lists = [
            ([of(1, 8), of(4, 8), of(3, 8)], unsorted.clone()),
            ([of(1, 8), of(3, 8), of(3, 8)], unsorted),
            ([of(1, 8), of(3, 7), of(4, 8)], no_value),
        ];
        for (endpoint, (list, expected)) in endpoints.into_iter().zip(lists) {
            let node = compute_node(ChimeOptions::chime());
            let loaded = ChimeTree::load(endpoint, &nodes, INDEX_ROOT, node, list, 80).await;
            assert_eq!(loaded.map(drop), expected);
        }
    });
    assert_eq!(simulation.run(), 0);
}
