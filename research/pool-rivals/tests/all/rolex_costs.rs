//! Tests that ROLEX has the costs published of the one in CHIME's figures: bytes of leaves, round
//! trips, bytes and atomics of each operation.

use nearfield_fabric::count::{CountingEndpoint, VerbCost};
use nearfield_fabric::transport::sim::{Delivery, FabricSimulation, SimEndpoint};
use nearfield_fabric::{GlobalAddress, NodeId};
use nearfield_pool::PoolIndexClient;
use nearfield_pool::layout::versions::Objects;
use nearfield_pool::layout::{Geometry, LeafMetadataPosition, PoolIndexShape, Validation};
use nearfield_pool_rivals::rolex::{
    Rolex, RolexComputeNode, RolexLeafKind, RolexLeafLayout, RolexOptions,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const ROOT: GlobalAddress = GlobalAddress::new(NodeId(0), 64);
const LOADED: usize = 50_000;
/// The wire bytes of a leaf.
const LEAF: u64 = 285;

#[test]
fn leaves_have_the_published_sizes() {
    let leaf = RolexLeafLayout::new(RolexOptions::default().geometry);
    assert_eq!(
        (leaf.header_bytes(), leaf.entry_bytes(), leaf.span()),
        (9, 17, 16)
    );
    assert_eq!(
        (leaf.decoded_bytes(), leaf.wire_bytes()),
        (281, LEAF as usize)
    );
    assert_eq!((leaf.lock_offset(), leaf.stride_bytes()), (288, 320));
    // Key, value, span, entry, decoded, wire.
    let table = [
        (8, 8, 64, 17, 1097, 1114),
        (16, 8, 16, 25, 409, 415),
        (8, 64, 16, 73, 1177, 1195),
        (32, 128, 4, 161, 653, 663),
    ];
    for (key_bytes, value_bytes, leaf_span, entry, decoded, wire) in table {
        let shape = PoolIndexShape {
            key_bytes,
            value_bytes,
            leaf_span,
            neighborhood: 4,
            ..PoolIndexShape::default()
        };
        let leaf = RolexLeafLayout::new(Geometry::new(shape).expect("sizes"));
        assert_eq!((leaf.entry_bytes(), leaf.decoded_bytes()), (entry, decoded));
        assert_eq!(leaf.wire_bytes(), wire);
    }
}

type Client = Rolex<CountingEndpoint<SimEndpoint>>;

/// Returns keys at a distance from each other, so that there are others between them.
fn keys() -> Vec<u64> {
    let mut random = SmallRng::seed_from_u64(7);
    let mut keys: Vec<u64> = (0..LOADED).map(|_| random.random::<u64>() | 0xff).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Runs clients of two compute nodes: the one that has loaded the keys and another.
fn run<F: Future<Output = ()> + 'static>(
    work: impl FnOnce(Vec<u64>, Client, Client) -> F + 'static,
) {
    run_with(RolexOptions::default(), work);
}

fn run_with<F: Future<Output = ()> + 'static>(
    options: RolexOptions,
    work: impl FnOnce(Vec<u64>, Client, Client) -> F + 'static,
) {
    let (mut simulation, nodes) = FabricSimulation::with_nodes(1, Delivery::Whole, [32 << 20]);
    let [one, other] = [0, 1].map(|client| CountingEndpoint::new(simulation.endpoint(client)));
    let compute_node = || Arc::new(RolexComputeNode::new(options.clone()));
    let (node, other_node) = (compute_node(), compute_node());
    simulation.spawn(0, async move {
        let keys = keys();
        let entries = keys.iter().map(|key| (key.to_be_bytes(), [1; 8]));
        let one = Rolex::load(one, &nodes, ROOT, node, entries)
            .await
            .expect("loaded");
        let other = Rolex::open(other, &nodes, ROOT, other_node).expect("opened");
        for client in [&one, &other] {
            client.get(&[1; 8]).await.expect("the models are read");
            client.endpoint().take();
        }
        work(keys, one, other).await;
    });
    assert_eq!(simulation.run(), 0);
}

/// Checks that all reads were of leaves, and returns their number.
fn leaves(cost: &VerbCost) -> u64 {
    assert!(cost.reads.iter().all(|&read| read == LEAF), "{cost:?}");
    cost.reads.len() as u64
}

#[test]
fn a_search_reads_three_or_four_leaves_in_one_round_trip() {
    run(async |keys, client, _| {
        let mut histogram = BTreeMap::new();
        for key in &keys {
            let value = client.get(&key.to_be_bytes()).await;
            assert_eq!(value, Ok(Some(vec![1; 8])));
            let cost = client.endpoint().take();
            assert_eq!(
                (cost.round_trips, cost.written_bytes, cost.atomics),
                (1, 0, 0)
            );
            *histogram.entry(leaves(&cost)).or_insert(0) += 1;
        }
        // Fewer are read only at the ends.
        let ends = histogram.remove(&1).unwrap_or(0) + histogram.remove(&2).unwrap_or(0);
        assert!(ends < 100, "{ends}");
        assert_eq!(histogram.keys().copied().collect::<Vec<_>>(), [3, 4]);
        let mean = (3 * histogram[&3] + 4 * histogram[&4]) as f64 / (keys.len() - ends) as f64;
        assert!((mean - 3.125).abs() < 0.01, "{mean}");
        println!("leaves: {histogram:?}, {:.1} bytes", mean * LEAF as f64);
        // An absent key takes one round trip, too.
        assert_eq!(client.get(&(keys[77] - 1).to_be_bytes()).await, Ok(None));
        assert_eq!(client.endpoint().take().round_trips, 1);
    });
}

#[test]
fn an_update_takes_four_round_trips_and_writes_the_leaf() {
    run(async |keys, client, _| {
        for key in keys.iter().step_by(97) {
            let before = client.update(&key.to_be_bytes(), &[2; 8]).await;
            assert_eq!(before, Ok(Some(vec![1; 8])));
            let cost = client.endpoint().take();
            assert_eq!((cost.round_trips, cost.atomics), (4, 1));
            assert!((2..=5).contains(&leaves(&cost)));
            assert_eq!(cost.written_bytes, LEAF + 8);
        }
        // An absent key costs a search.
        let before = client.update(&(keys[77] - 1).to_be_bytes(), &[2; 8]).await;
        assert_eq!(before, Ok(None));
        let cost = client.endpoint().take();
        assert_eq!(
            (cost.round_trips, cost.written_bytes, cost.atomics),
            (1, 0, 0)
        );
        // A removal costs as much as an update.
        let before = client.remove(&keys[77].to_be_bytes()).await;
        assert_eq!(before, Ok(Some(vec![1; 8])));
        let cost = client.endpoint().take();
        assert_eq!((cost.round_trips, cost.atomics), (4, 1));
        assert_eq!(cost.written_bytes, LEAF + 8);
    });
}

#[test]
fn an_insert_takes_four_round_trips_or_five_and_a_synonym_is_met_once() {
    run(async |keys, client, other| {
        let base = keys[LOADED / 2];
        let key = |number: u64| (base - number).to_be_bytes();
        let search = {
            client.get(&key(1)).await.expect("a node");
            leaves(&client.endpoint().take())
        };
        // The leaf is full: a synonym is added.
        assert_eq!(client.insert(&key(1), &[3; 8]).await, Ok(None));
        let cost = client.endpoint().take();
        assert_eq!((cost.round_trips, cost.atomics, cost.calls), (4, 1, 1));
        assert_eq!(
            (leaves(&cost), cost.written_bytes),
            (search + 1, 2 * LEAF + 8)
        );
        // Its client knows the synonym: it is read with the others.
        assert_eq!(client.insert(&key(2), &[3; 8]).await, Ok(None));
        let cost = client.endpoint().take();
        assert_eq!((cost.round_trips, cost.atomics, cost.calls), (4, 1, 0));
        assert_eq!((leaves(&cost), cost.written_bytes), (search + 3, LEAF + 8));
        client.get(&key(1)).await.expect("a node");
        let cost = client.endpoint().take();
        assert_eq!((cost.round_trips, leaves(&cost)), (1, search + 1));
        // Another compute node finds the synonym.
        assert_eq!(other.insert(&key(3), &[3; 8]).await, Ok(None));
        let cost = other.endpoint().take();
        assert_eq!((cost.round_trips, cost.atomics), (5, 1));
        assert_eq!((leaves(&cost), cost.written_bytes), (search + 2, LEAF + 8));
        assert_eq!(other.get(&key(1)).await, Ok(Some(vec![3; 8])));
        let cost = other.endpoint().take();
        assert_eq!((cost.round_trips, leaves(&cost)), (1, search + 1));
    });
}

#[test]
fn a_reader_meets_a_synonym_by_one_more_round_trip() {
    run(async |keys, client, other| {
        let key = (keys[LOADED / 2] - 1).to_be_bytes();
        client.insert(&key, &[3; 8]).await.expect("a node");
        for round_trips in [2, 1] {
            assert_eq!(other.get(&key).await, Ok(Some(vec![3; 8])));
            assert_eq!(other.endpoint().take().round_trips, round_trips);
        }
    });
}

#[test]
fn a_long_scan_reads_each_leaf_once() {
    run(async |keys, client, _| {
        let from = keys[1000].to_be_bytes();
        let found = client.scan(&from, 100).await.expect("a node");
        let expected = keys[1000..1100]
            .iter()
            .map(|key| key.to_be_bytes().to_vec());
        assert!(found.into_iter().map(|(key, _)| key).eq(expected));
        let cost = client.endpoint().take();
        assert_eq!((cost.round_trips, cost.atomics), (2, 0));
        // 100 keys are in 7 or 8 leaves, and up to 2 before them are read.
        assert!((7..=10).contains(&leaves(&cost)), "{cost:?}");
    });
}

#[test]
fn all_that_a_compute_node_keeps_counts() {
    run(async |keys, client, other| {
        let node = client.compute_node();
        let models = node.model_bytes();
        // The models have lines of 24 bytes and addresses of extents, for 50,000 keys.
        let for_each_key = models as f64 / keys.len() as f64;
        println!("{models} bytes of models, {for_each_key:.3} for each key");
        assert!((0.01..0.5).contains(&for_each_key), "{for_each_key}");
        let kept = node.cache_bytes();
        assert!(kept >= models && kept < models + 1000);
        for number in 0..100 {
            let key = (keys[number * 100 + 50] - 1).to_be_bytes();
            client.insert(&key, &[1; 8]).await.expect("a node");
        }
        let synonyms = node.cache_bytes() - kept;
        // A leaf with a synonym needs its bound and the address, and the memory of their order.
        assert!((100 * 16..100 * 128).contains(&synonyms), "{synonyms}");
        assert_eq!(other.compute_node().model_bytes(), models);
    });
}

/// The steps of CHIME's figure 15b, leaves of 64 entries, read less and less: in a search, and
/// under the lock and in writes of updates and inserts.
#[test]
fn each_step_from_rolex_to_chime_reads_less_of_a_leaf() {
    let step = |leaves, metadata| {
        let shape = PoolIndexShape {
            metadata,
            validation: Validation::Fences,
            ..PoolIndexShape::default()
        };
        let geometry = Geometry::new(shape).expect("sizes");
        RolexOptions {
            geometry,
            leaves,
            ..RolexOptions::default()
        }
    };
    let tables = |vacancy_piggyback| RolexLeafKind::Hopscotch { vacancy_piggyback };
    let steps = [
        (
            "ROLEX",
            step(RolexLeafKind::Arrays, LeafMetadataPosition::Single),
        ),
        (
            "+ hopscotch leaf",
            step(tables(false), LeafMetadataPosition::Single),
        ),
        (
            "+ vacancy piggyback",
            step(tables(true), LeafMetadataPosition::Single),
        ),
        (
            "+ replicated metadata",
            step(tables(true), LeafMetadataPosition::Replicated),
        ),
    ];
    for (name, options) in steps {
        let layout = nearfield_pool::layout::PoolLeafLayout::new(options.geometry);
        let leaves = options.leaves;
        run_with(options, async move |keys, client, _| {
            let cost = mean_costs(&keys, &client).await;
            println!("{name}: {cost:.1?}");
            let homes = (0..64).map(|home| layout.neighborhood(home).wire_bytes());
            let neighborhood = homes.sum::<usize>() as f64 / 64.0;
            // 35 ranks are in this many leaves, full ones or three quarters full.
            let (leaf, entry, count) = match leaves {
                RolexLeafKind::Arrays => (1114.0, 1114.0, 1.0 + 34.0 / 64.0),
                RolexLeafKind::Hopscotch { .. } => (neighborhood, 19.0, 1.0 + 34.0 / 48.0),
            };
            assert!(near(cost.search_read, count * leaf), "{name}");
            assert!(near(cost.update_read, count * leaf + leaf), "{name}");
            assert!(
                (entry..entry + 10.0).contains(&(cost.update_written - 8.0)),
                "{name}"
            );
            // It takes more if there is no room.
            assert!((4.0..4.2).contains(&cost.insert_round_trips), "{name}");
            // The bytes besides the search.
            let insert = cost.insert_read - cost.search_read;
            match leaves {
                RolexLeafKind::Arrays => {}
                RolexLeafKind::Hopscotch {
                    vacancy_piggyback: false,
                } => {
                    let whole = layout.whole().wire_bytes() as f64;
                    assert!((whole..whole * 1.05).contains(&insert), "{name}");
                }
                RolexLeafKind::Hopscotch { .. } => {
                    assert!((leaf..leaf * 1.6).contains(&insert), "{name}: {insert}");
                }
            }
        });
    }
}

/// The last step: a key that was found before is read alone.
#[test]
fn a_right_guess_reads_one_entry() {
    let shape = PoolIndexShape {
        metadata: LeafMetadataPosition::Replicated,
        validation: Validation::Fences,
        ..PoolIndexShape::default()
    };
    let geometry = Geometry::new(shape).expect("sizes");
    let layout = nearfield_pool::layout::PoolLeafLayout::new(geometry);
    let lengths = (0..64).map(|slot| layout.single_entry(slot).wire_bytes() as u64);
    let lengths: BTreeSet<u64> = lengths.collect();
    let options = RolexOptions {
        geometry,
        leaves: RolexLeafKind::Hopscotch {
            vacancy_piggyback: true,
        },
        hotspot_bytes: 1 << 16,
        ..RolexOptions::default()
    };
    run_with(options, async move |keys, client, other| {
        let sampled: Vec<u64> = keys.iter().copied().step_by(67).collect();
        for key in &sampled {
            client.get(&key.to_be_bytes()).await.expect("a node");
        }
        client.endpoint().take();
        let mut alone = 0;
        for key in &sampled {
            let found = client.get(&key.to_be_bytes()).await;
            assert_eq!(found, Ok(Some(vec![1; 8])));
            let cost = client.endpoint().take();
            assert!(cost.round_trips <= 2 && cost.atomics == 0);
            let is_alone = cost.reads.len() == 1 && lengths.contains(&cost.read_bytes);
            alone += u64::from(is_alone);
        }
        let [right, _] = client.compute_node().guesses();
        println!("{right} of {} guesses were right", sampled.len());
        assert_eq!(right, alone);
        // Two keys of a neighborhood may have the same tag.
        assert!(right * 100 > sampled.len() as u64 * 98);
        // An update takes the lock, reads the entry, and writes it.
        let mut short = 0;
        for key in &sampled {
            let before = client.update(&key.to_be_bytes(), &[1; 8]).await;
            assert_eq!(before, Ok(Some(vec![1; 8])));
            let cost = client.endpoint().take();
            let is_alone = cost.reads.len() == 1 && lengths.contains(&cost.read_bytes);
            short += u64::from(is_alone && (cost.round_trips, cost.atomics) == (3, 1));
        }
        println!("{short} of {} updates read one entry", sampled.len());
        // A few keys were loaded into synonyms, whose lock is another leaf's.
        assert!(short * 100 > sampled.len() as u64 * 80);
        let [right, _] = client.compute_node().guesses();
        // A guess is wrong once, after its key was removed.
        let key = sampled[100].to_be_bytes();
        other.remove(&key).await.expect("a node");
        assert_eq!(client.get(&key).await, Ok(None));
        let [_, wrong] = client.compute_node().guesses();
        assert_eq!(client.get(&key).await, Ok(None));
        assert_eq!(client.compute_node().guesses(), [right, wrong]);
    });
}

fn near(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() < 0.03
}

/// Means, of bytes unless named otherwise.
#[derive(Debug, Default)]
struct Means {
    search_read: f64,
    update_read: f64,
    update_written: f64,
    insert_round_trips: f64,
    insert_read: f64,
    insert_written: f64,
}

/// Returns the costs of operations on some keys, and on others between them.
async fn mean_costs(keys: &[u64], client: &Client) -> Means {
    let mut means = Means::default();
    // No two of them are in one leaf.
    let sampled: Vec<u64> = keys.iter().copied().step_by(67).collect();
    let share = 1.0 / sampled.len() as f64;
    for key in &sampled {
        let found = client.get(&key.to_be_bytes()).await;
        assert_eq!(found, Ok(Some(vec![1; 8])));
        let cost = client.endpoint().take();
        // A few keys without room were loaded into a synonym, which the client finds here.
        assert!(cost.round_trips <= 2);
        means.search_read += cost.read_bytes as f64 * share;
    }
    for key in &sampled {
        let before = client.update(&key.to_be_bytes(), &[2; 8]).await;
        assert_eq!(before, Ok(Some(vec![1; 8])));
        let cost = client.endpoint().take();
        assert_eq!((cost.round_trips, cost.atomics), (4, 1));
        means.update_read += cost.read_bytes as f64 * share;
        means.update_written += cost.written_bytes as f64 * share;
    }
    for key in &sampled {
        let other = (key - 1).to_be_bytes();
        assert_eq!(client.insert(&other, &[3; 8]).await, Ok(None));
        let cost = client.endpoint().take();
        assert!(cost.round_trips >= 4 && cost.atomics == 1);
        means.insert_round_trips += cost.round_trips as f64 * share;
        means.insert_read += cost.read_bytes as f64 * share;
        means.insert_written += cost.written_bytes as f64 * share;
    }
    means
}
