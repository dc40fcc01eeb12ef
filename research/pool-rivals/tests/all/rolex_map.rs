//! Tests that ROLEX holds the entries of a `BTreeMap` after any load, and that its scans return
//! them.

use nearfield_fabric::transport::sim::{Delivery, FabricSimulation, SimEndpoint};
use nearfield_fabric::{GlobalAddress, NodeId};
use nearfield_pool::layout::{Geometry, LeafMetadataPosition, PoolIndexShape};
use nearfield_pool::{Entry, PoolError, PoolIndexClient};
use nearfield_pool_rivals::rolex::{Rolex, RolexComputeNode, RolexLeafKind, RolexOptions};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

const ROOT: GlobalAddress = GlobalAddress::new(NodeId(0), 64);

fn options(change: impl Fn(&mut PoolIndexShape), error: u32) -> RolexOptions {
    let mut shape = PoolIndexShape {
        leaf_span: 16,
        ..PoolIndexShape::default()
    };
    change(&mut shape);
    RolexOptions {
        geometry: Geometry::new(shape).expect("sizes"),
        error,
        ..RolexOptions::default()
    }
}

/// Returns the same with leaves that are hash tables.
fn tables(options: RolexOptions, vacancy_piggyback: bool) -> RolexOptions {
    let leaves = RolexLeafKind::Hopscotch { vacancy_piggyback };
    RolexOptions { leaves, ..options }
}

fn compute_node(options: &RolexOptions) -> Arc<RolexComputeNode> {
    Arc::new(RolexComputeNode::new(options.clone()))
}

fn simulation(seed: u64, delivery: Delivery) -> (FabricSimulation, [NodeId; 2]) {
    FabricSimulation::with_nodes(seed, delivery, [32 << 20; 2])
}

/// Returns the key of a number: of 8 bytes or more, its last ones, behind zeros or `common`.
fn key(number: u64, options: &RolexOptions, common: u8) -> Vec<u8> {
    let length = options.geometry.shape().key_bytes;
    let mut key = vec![common; length];
    let number = (number + 1).to_be_bytes();
    let used = length.min(8);
    key[length - used..].copy_from_slice(&number[8 - used..]);
    key
}

/// Compares random operations of one client with a `BTreeMap`, after some of the keys were loaded:
/// those from `loaded` that are divisible by 3.
fn model(seed: u64, options: RolexOptions, common: u8, keys: u64, loaded: std::ops::Range<u64>) {
    let (mut simulation, nodes) = simulation(seed, Delivery::Whole);
    let endpoint = simulation.endpoint(0);
    let value_bytes = options.geometry.shape().value_bytes;
    simulation.spawn(0, async move {
        let random = &mut SmallRng::seed_from_u64(seed);
        let entries = loaded.filter(|number| number % 3 == 0);
        let entries = entries.map(|number| (key(number, &options, common), vec![9; value_bytes]));
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = entries.collect();
        let node = compute_node(&options);
        let rolex = Rolex::load(endpoint, &nodes, ROOT, node, &model).await;
        let rolex = rolex.expect("an index");
        for step in 0..3000 {
            let key = key(random.random_range(0..keys), &options, common);
            let value = vec![step as u8; value_bytes];
            match random.random_range(0..12) {
                0..3 => {
                    let before = rolex.insert(&key, &value).await;
                    assert_eq!(before, Ok(model.insert(key, value)), "seed {seed}");
                }
                3..5 => {
                    let before = rolex.update(&key, &value).await;
                    let expected = model.get_mut(&key).map(|old| std::mem::replace(old, value));
                    assert_eq!(before, Ok(expected), "seed {seed}");
                }
                5..7 => assert_eq!(rolex.remove(&key).await, Ok(model.remove(&key))),
                7 => {
                    let count = random.random_range(0..120);
                    let found = rolex.scan(&key, count).await;
                    assert_eq!(found, Ok(first(&model, &key, count)), "seed {seed}");
                }
                _ => assert_eq!(rolex.get(&key).await, Ok(model.get(&key).cloned())),
            }
        }
        let zeros = vec![0; options.geometry.shape().key_bytes];
        let all = rolex.scan(&zeros, usize::MAX).await;
        assert_eq!(all, Ok(first(&model, &zeros, usize::MAX)), "seed {seed}");
        assert!(rolex.compute_node().cache_bytes() > rolex.compute_node().model_bytes());
    });
    assert_eq!(simulation.run(), 0);
}

fn first(model: &BTreeMap<Vec<u8>, Vec<u8>>, from: &[u8], count: usize) -> Vec<Entry> {
    let entries = model.range(from.to_vec()..).take(count);
    entries
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

#[test]
fn it_holds_what_a_map_holds() {
    seeds::each(3, |seed| {
        // All used keys were loaded in part, or the middle of them, or none.
        for loaded in [0..400, 130..170, 0..0] {
            model(seed, options(|_| {}, 16), 0, 400, loaded.clone());
            let small = options(|shape| (shape.leaf_span, shape.neighborhood) = (2, 2), 0);
            model(seed, small, 0, 200, loaded);
        }
    });
}

#[test]
fn hash_tables_hold_what_a_map_holds() {
    let figure = |metadata| {
        let change =
            |shape: &mut PoolIndexShape| (shape.leaf_span, shape.metadata) = (64, metadata);
        options(change, 16)
    };
    let small = |shape: &mut PoolIndexShape| (shape.leaf_span, shape.neighborhood) = (5, 3);
    seeds::each(1, |seed| {
        for loaded in [0..400, 130..170, 0..0] {
            let single = figure(LeafMetadataPosition::Single);
            model(seed, tables(single.clone(), false), 0, 400, loaded.clone());
            model(seed, tables(single, true), 0, 400, loaded.clone());
            let replicated = figure(LeafMetadataPosition::Replicated);
            model(
                seed,
                tables(replicated.clone(), true),
                0,
                400,
                loaded.clone(),
            );
            let speculating = RolexOptions {
                hotspot_bytes: 1 << 12,
                ..tables(replicated, true)
            };
            model(seed, speculating, 0, 400, loaded.clone());
            model(seed, tables(options(small, 1), true), 0, 200, loaded);
        }
        let long = |shape: &mut PoolIndexShape| (shape.key_bytes, shape.value_bytes) = (20, 40);
        model(seed, tables(options(long, 4), true), 7, 1000, 0..1000);
    });
}

#[test]
fn keys_of_other_lengths_are_told_apart_by_bytes_that_models_do_not_know() {
    seeds::each(3, |seed| {
        let long = |shape: &mut PoolIndexShape| (shape.key_bytes, shape.value_bytes) = (20, 40);
        // All keys have one prefix: one vertical line.
        model(seed, options(long, 4), 7, 1000, 0..1000);
        // Some keys have one prefix: the last two bytes are no part of it.
        let longer = |shape: &mut PoolIndexShape| shape.key_bytes = 10;
        let spread = options(longer, 16);
        model(seed, spread, 0, 1000, 0..1000);
        let short = |shape: &mut PoolIndexShape| (shape.key_bytes, shape.value_bytes) = (3, 0);
        model(seed, options(short, 16), 0, 1000, 0..1000);
    });
}

#[test]
fn a_key_among_many_of_its_prefix_is_found_by_bisection() {
    let (mut simulation, nodes) = simulation(1, Delivery::Whole);
    let endpoint = nearfield_fabric::count::CountingEndpoint::new(simulation.endpoint(0));
    simulation.spawn(0, async move {
        let options = options(|shape| shape.key_bytes = 16, 16);
        let entries = (0..16_000).map(|number| (key(2 * number, &options, 1), [5; 8]));
        let node = compute_node(&options);
        let rolex = Rolex::load(endpoint, &nodes, ROOT, node, entries)
            .await
            .expect("an index");
        rolex.get(&[1; 16]).await.expect("the models are read");
        rolex.endpoint().take();
        for number in (0..32_000).step_by(501) {
            let found = rolex.get(&key(number, &options, 1)).await;
            assert_eq!(
                found,
                Ok(number.is_multiple_of(2).then(|| vec![5; 8])),
                "{number}"
            );
            // 1,000 leaves are 8 halvings, until few enough are left.
            assert!((8..=10).contains(&rolex.endpoint().take().round_trips));
        }
    });
    assert_eq!(simulation.run(), 0);
}

#[test]
fn what_is_no_entry_or_no_index_is_refused() {
    let (mut simulation, nodes) = simulation(1, Delivery::Whole);
    let endpoint = simulation.endpoint(0);
    simulation.spawn(0, async move {
        let options = options(|_| {}, 16);
        let load = |entries: Vec<([u8; 8], Vec<u8>)>| {
            let endpoint = endpoint.clone();
            Rolex::load(endpoint, &nodes, ROOT, compute_node(&options), entries)
        };
        let value = || vec![1; 8];
        let error = load(vec![
            ([1; 8], value()),
            ([3; 8], value()),
            ([3; 8], value()),
        ])
        .await;
        let error = error.expect_err("twice");
        assert_eq!(error, PoolError::Unsorted { position: 2 });
        let text = "entry 2 to load is not greater than the one before it";
        assert_eq!(error.to_string(), text);
        let error = load(vec![([1; 8], vec![1; 7])])
            .await
            .expect_err("a short value");
        assert!(matches!(
            error,
            PoolError::Value {
                length: 7,
                expected: 8
            }
        ));
        assert!(load(vec![([0; 8], value())]).await.is_err());

        // None of these has created an index.
        let open = |options: &RolexOptions| {
            let node = compute_node(options);
            Rolex::open(endpoint.clone(), &nodes, ROOT, node).expect("opened")
        };
        let none = PoolError::NoIndex { root: ROOT };
        assert_eq!(open(&options).get(&[1; 8]).await, Err(none.clone()));
        let rolex = load(vec![([1; 8], value())]).await.expect("one entry");
        assert_eq!(open(&options).get(&[1; 8]).await, Ok(Some(value())));
        let other = RolexOptions {
            error: 8,
            ..options.clone()
        };
        assert_eq!(open(&other).get(&[1; 8]).await, Err(none));

        let error = rolex.get(b"short").await.expect_err("no key");
        assert!(matches!(
            error,
            PoolError::Key {
                length: 5,
                expected: 8
            }
        ));
        assert!(rolex.insert(&[0; 8], &[1; 8]).await.is_err());
        assert!(rolex.insert(&[1; 8], &[1; 9]).await.is_err());
        assert!(rolex.scan(&[0; 7], 1).await.is_err());
        assert_eq!(
            rolex.scan(&[0; 8], 5).await,
            Ok(vec![(vec![1; 8], value())])
        );
    });
    assert_eq!(simulation.run(), 0);
}

#[test]
fn a_node_without_memory_refuses_a_synonym_and_keeps_what_is_there() {
    let (mut simulation, nodes) = FabricSimulation::with_nodes(1, Delivery::Whole, [1 << 16]);
    let endpoint = simulation.endpoint(0);
    simulation.spawn(0, async move {
        let options = options(|_| {}, 16);
        let rolex = Rolex::create(endpoint, &nodes, ROOT, compute_node(&options)).await;
        let rolex = rolex.expect("an index");
        let mut number = 0;
        let error = loop {
            match rolex.insert(&key(number, &options, 0), &[1; 8]).await {
                Ok(_) => number += 1,
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("memory"), "{error}");
        assert!(number > 500);
        // The lock was released.
        assert!(
            rolex
                .insert(&key(number, &options, 0), &[1; 8])
                .await
                .is_err()
        );
        let removed = rolex.remove(&key(3, &options, 0)).await;
        assert_eq!(removed, Ok(Some(vec![1; 8])));
        let inserted = rolex.insert(&key(number, &options, 0), &[1; 8]).await;
        assert_eq!(inserted, Ok(None));
        let found = rolex.scan(&[0; 8], usize::MAX).await.expect("a node");
        assert_eq!(found.len(), number as usize);
    });
    assert_eq!(simulation.run(), 0);
}

/// Each scan returns the permanent keys, in order and once, during inserts and removals of other
/// keys.
#[test]
fn scans_are_complete_while_others_insert_and_remove() {
    seeds::each(60, |seed| {
        let (mut simulation, nodes) = simulation(seed, Delivery::Torn);
        let options = match seed % 3 {
            0 => options(|shape| (shape.leaf_span, shape.neighborhood) = (4, 4), 2),
            1 => tables(options(|shape| shape.leaf_span = 16, 2), true),
            _ => {
                let small =
                    |shape: &mut PoolIndexShape| (shape.leaf_span, shape.neighborhood) = (8, 3);
                tables(options(small, 2), true)
            }
        };
        let endpoint = simulation.endpoint(0);
        let loading = options.clone();
        // The permanent keys are divisible by 10; every other one of them is inserted.
        simulation.spawn(0, async move {
            let entries = (0..40).map(|number| (key(20 * number, &loading, 0), [1; 8]));
            let node = compute_node(&loading);
            let rolex = Rolex::load(endpoint, &nodes, ROOT, node, entries).await;
            let rolex = rolex.expect("an index");
            for number in 0..40 {
                let key = key(20 * number + 10, &loading, 0);
                rolex.insert(&key, &[1; 8]).await.expect("inserted");
            }
        });
        assert_eq!(simulation.run(), 0);
        let writers = Rc::new(Cell::new(3));
        for client in 1..=3 {
            let rolex = open(&simulation, client, &nodes, &options);
            let (options, writers) = (options.clone(), Rc::clone(&writers));
            simulation.spawn(client, async move {
                let random = &mut SmallRng::seed_from_u64(seed + u64::from(client));
                for _ in 0..120 {
                    let number = random.random_range(0..80) * 10 + random.random_range(1..10);
                    let key = key(number, &options, 0);
                    if random.random() {
                        rolex.insert(&key, &[2; 8]).await.expect("inserted");
                    } else {
                        rolex.remove(&key).await.expect("removed");
                    }
                }
                writers.set(writers.get() - 1);
            });
        }
        let rolex = open(&simulation, 4, &nodes, &options);
        simulation.spawn(4, async move {
            let mut scans = 0;
            while writers.get() > 0 {
                let found = rolex
                    .scan(&key(95, &options, 0), 400)
                    .await
                    .expect("a scan");
                assert!(
                    found.windows(2).all(|pair| pair[0].0 < pair[1].0),
                    "seed {seed}"
                );
                let stay = found.iter().filter(|(_, value)| *value == [1; 8]);
                let stay: Vec<_> = stay.map(|(key, _)| key.clone()).collect();
                let expected = (10..80).map(|number| key(10 * number, &options, 0));
                assert!(stay.into_iter().eq(expected), "seed {seed}");
                scans += 1;
            }
            assert!(scans > 3, "seed {seed}: {scans} scans");
        });
        assert_eq!(simulation.run(), 0);
    });
}

fn open(
    simulation: &FabricSimulation,
    client: u32,
    nodes: &[NodeId],
    options: &RolexOptions,
) -> Rolex<SimEndpoint> {
    let endpoint = simulation.endpoint(client);
    Rolex::open(endpoint, nodes, ROOT, compute_node(options)).expect("opened")
}
