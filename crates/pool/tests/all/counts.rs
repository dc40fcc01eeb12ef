//! Tests that a compute node counts the lookups in its cache, and the reads that were repeated.

use crate::trees::{chime, compute_node, key, small};
use nearfield_fabric::Endpoint;
use nearfield_fabric::transport::sim::{Delivery, FabricSimulation, SimEndpoint};
use nearfield_fabric_testkit::INDEX_ROOT;
use nearfield_pool::PoolIndexClient;
use nearfield_pool::chime::{CacheLookups, ChimeComputeNode, ChimeOptions, ChimeTree};
use nearfield_pool::layout::PoolIndexShape;
use std::sync::Arc;

const KEYS: u64 = 200;
/// The distance of keys, between which others are inserted.
const STEP: u64 = 1000;

/// Returns CHIME without speculation, so that each get reads a neighborhood.
fn options() -> ChimeOptions {
    ChimeOptions {
        hotspot_bytes: 0,
        ..chime()
    }
}

/// A client with a compute node of its own.
struct CountedClient {
    tree: ChimeTree<SimEndpoint>,
    node: Arc<ChimeComputeNode>,
}

impl CountedClient {
    async fn get(&self, number: u64) {
        let found = self.tree.get(&key(number)).await;
        assert_eq!(found, Ok(Some(vec![1; 8])));
    }

    async fn insert(&self, number: u64) {
        let inserted = self.tree.insert(&key(number), &[1; 8]).await;
        assert_eq!(inserted, Ok(None));
    }

    async fn get_all(&self) {
        for number in 0..KEYS {
            self.get(number * STEP).await;
        }
    }

    /// Inserts the keys besides the first one.
    async fn fill(&self) {
        for number in 1..KEYS {
            self.insert(number * STEP).await;
        }
    }

    /// Returns the hits and the misses.
    fn lookups(&self) -> (u64, u64) {
        let CacheLookups { hits, misses, .. } = self.node.cache_lookups();
        (hits, misses)
    }

    /// Returns the torn reads, and the stale routes, of all memory nodes.
    fn retries(&self) -> (u64, u64) {
        let retries = self.node.retries(&self.tree.endpoint().nodes());
        assert_eq!(retries.len(), 2);
        let torn = retries.iter().map(|of_node| of_node.torn_reads).sum();
        let stale = retries.iter().map(|of_node| of_node.stale_routes).sum();
        (torn, stale)
    }
}

/// Runs the clients in a tree that the first has created. It has the first key.
fn run<F: Future<Output = ()> + 'static>(
    work: impl FnOnce(CountedClient, CountedClient) -> F + 'static,
) {
    let (mut simulation, nodes) =
        FabricSimulation::with_nodes(1, Delivery::Whole, [4 << 20, 4 << 20]);
    let [first, second] = [0, 1].map(|client| simulation.endpoint(client));
    simulation.spawn(0, async move {
        let node = compute_node(options());
        let tree = ChimeTree::create(first, &nodes, INDEX_ROOT, Arc::clone(&node)).await;
        let tree = tree.expect("a tree");
        let one = CountedClient { tree, node };
        one.insert(0).await;
        let node = compute_node(options());
        let tree = ChimeTree::open(second, &nodes, INDEX_ROOT, Arc::clone(&node)).await;
        let tree = tree.expect("a tree");
        work(one, CountedClient { tree, node }).await;
    });
    assert_eq!(simulation.run(), 0);
}

#[test]
fn each_get_is_a_hit_or_a_miss() {
    run(|one, other| async move {
        one.get(0).await;
        assert_eq!(one.lookups(), (0, 0), "the root is a leaf");
        one.fill().await;
        // The first rounds find the cached nodes that were divided since.
        for _ in 0..3 {
            one.get_all().await;
        }
        let ((hits, misses), repeated) = (one.lookups(), one.retries());
        one.get_all().await;
        assert_eq!(one.lookups(), (hits + KEYS, misses));
        assert_eq!(one.retries(), repeated);
        for after in [(0, 1), (1, 1), (2, 1)] {
            other.get(0).await;
            assert_eq!(other.lookups(), after);
        }
        assert_eq!(other.retries(), (0, 0));
    });
}

#[test]
fn a_route_to_a_divided_leaf_counts_until_it_is_replaced() {
    run(|one, other| async move {
        one.fill().await;
        other.get(0).await;
        let mut noticed = 0;
        // Descending, so that all go to the leaf of the first key.
        for number in (1..100).rev() {
            one.insert(number).await;
            let (_, before) = other.retries();
            other.get(0).await;
            let (_, after) = other.retries();
            noticed += u64::from(after > before);
            other.get(0).await;
            assert_eq!(other.retries(), (0, after), "the new route is right");
        }
        // A leaf has eight keys at most, and about half of them after a division.
        assert!((5..=70).contains(&noticed), "{noticed}");
    });
}

/// Entries of several lines, so that their writes are torn.
#[test]
fn reads_beside_writes_are_torn_and_others_are_not() {
    let options = ChimeOptions {
        shape: PoolIndexShape {
            value_bytes: 80,
            ..small()
        },
        ..options()
    };
    let (mut simulation, nodes) = FabricSimulation::with_nodes(1, Delivery::Torn, [4 << 20]);
    let node = compute_node(options);
    let (endpoint, own) = (simulation.endpoint(0), Arc::clone(&node));
    simulation.spawn(0, async move {
        let tree = ChimeTree::create(endpoint, &nodes, INDEX_ROOT, own).await;
        let tree = tree.expect("a tree");
        for round in 0..200 {
            for number in 0..4 {
                let inserted = tree.insert(&key(number), &[round; 80]).await;
                assert!(inserted.is_ok(), "{inserted:?}");
                assert!(matches!(tree.get(&key(number)).await, Ok(Some(_))));
            }
        }
    });
    assert_eq!(simulation.run(), 0);
    assert_eq!(node.retries(&nodes)[0].torn_reads, 0, "one client alone");
    for client in 1..3 {
        let (endpoint, own) = (simulation.endpoint(client), Arc::clone(&node));
        simulation.spawn(client, async move {
            let tree = ChimeTree::open(endpoint, &nodes, INDEX_ROOT, own).await;
            let tree = tree.expect("a tree");
            for round in 0..1000_u32 {
                if client == 1 {
                    let updated = tree.update(&key(0), &[round as u8; 80]).await;
                    assert!(matches!(updated, Ok(Some(_))), "{updated:?}");
                } else {
                    let found = tree.get(&key(0)).await.expect("it lives");
                    let value = found.expect("it was inserted");
                    assert!(value.iter().all(|byte| *byte == value[0]), "{value:?}");
                }
            }
        });
    }
    assert_eq!(simulation.run(), 0);
    let torn = node.retries(&nodes)[0].torn_reads;
    assert!(torn > 0);
}
