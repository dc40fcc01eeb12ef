//! Tests of repairs after the loss of a memory node.

mod scenario;

use crate::trees::{chime, compute_node, key, nearfield};
use nearfield_fabric::NodeId;
use nearfield_fabric::transport::sim::{Delivery, FabricSimulation};
use nearfield_fabric_testkit::INDEX_ROOT;
use nearfield_hardware::network::NetworkPreset;
use nearfield_pool::chime::{ChimeOptions, ChimeTree};
use nearfield_pool::layout::{PoolIndexShape, Validation};
use nearfield_pool::{PoolError, PoolIndexClient};
use nearfield_testkit::seeds;
use scenario::{RepairPlan, run, run_after_death};

/// Returns our tree, and one whose leaves have fence keys.
fn trees() -> [ChimeOptions; 2] {
    let fenced = ChimeOptions {
        shape: PoolIndexShape {
            validation: Validation::Fences,
            ..nearfield().shape
        },
        ..nearfield()
    };
    [nearfield(), fenced]
}

/// Clients work while a node is lost, and while two others repair the tree; some of both die.
#[test]
fn all_keys_can_be_used_after_a_repair_and_those_of_other_nodes_are_kept() {
    for delivery in [Delivery::Torn, Delivery::TornWords] {
        for dying in [0.0, 0.4] {
            for options in trees() {
                let plan = RepairPlan {
                    options,
                    delivery,
                    dying,
                };
                let mut forgotten = 0;
                let failure = seeds::first_failure(16, |seed| {
                    forgotten += run(seed, &plan)?;
                    Ok::<(), String>(())
                });
                assert_eq!(failure, None, "{plan:?}");
                assert!(forgotten > 0, "{plan:?}: no key was on a lost node");
            }
        }
    }
}

/// The only writer dies at each of its verbs. So each step of a division into the lost node is the
/// last one of some run, also between its record and its first write.
#[test]
fn a_client_that_died_at_any_verb_leaves_nothing_that_a_repair_misses() {
    for (delivery, step) in [(Delivery::Torn, 1), (Delivery::TornWords, 3)] {
        let mut replaced = 0;
        for verb in (0..400).step_by(step) {
            match run_after_death(verb, nearfield(), delivery) {
                Ok(count) => replaced += count,
                Err(failure) => panic!("death at verb {verb}, {delivery:?}: {failure}"),
            }
        }
        assert!(replaced > 0, "no leaf was replaced");
    }
}

/// Without leases a repair could not know if the holder of a lock is alive.
#[test]
fn a_tree_without_leases_is_not_repaired() {
    let network = NetworkPreset::ConnectX6.parameters();
    let mut simulation = FabricSimulation::new(1, network, Delivery::Whole);
    let nodes: Vec<NodeId> = (0..2).map(|_| simulation.add_node(4 << 20)).collect();
    let endpoint = simulation.endpoint(0);
    simulation.spawn(0, async move {
        let node = compute_node(chime());
        let tree = ChimeTree::create(endpoint, &nodes, INDEX_ROOT, node).await;
        let tree = tree.expect("a tree");
        let refused = tree.replace_lost_leaves().await;
        assert_eq!(refused, Err(PoolError::Leaseless));
    });
    assert_eq!(simulation.run(), 0);
}

/// A repair of a tree that has lost nothing changes nothing.
#[test]
fn a_whole_tree_is_left_alone() {
    let network = NetworkPreset::ConnectX6.parameters();
    let mut simulation = FabricSimulation::new(1, network, Delivery::Torn);
    let nodes: Vec<NodeId> = (0..2).map(|_| simulation.add_node(4 << 20)).collect();
    let endpoint = simulation.endpoint(0);
    simulation.spawn(0, async move {
        let node = compute_node(nearfield());
        let tree = ChimeTree::create(endpoint, &nodes, INDEX_ROOT, node).await;
        let tree = tree.expect("a tree");
        for number in 0..100 {
            // The first repairs are of a root that is a leaf.
            if number == 1 || number == 99 {
                let repaired = tree.replace_lost_leaves().await.expect("a repair");
                assert_eq!((repaired.leaves, repaired.links), (0, 0));
            }
            let inserted = tree.insert(&key(number), &number.to_le_bytes()).await;
            assert_eq!(inserted, Ok(None));
        }
        for number in 0..100 {
            let found = tree.get(&key(number)).await;
            assert_eq!(found, Ok(Some(number.to_le_bytes().to_vec())));
        }
    });
    assert_eq!(simulation.run(), 0);
}
