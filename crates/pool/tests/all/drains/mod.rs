//! Tests of drains of a memory node, and of moves to one that was added.

mod scenario;

use crate::trees::{chime, compute_node, key, nearfield};
use nearfield_fabric::transport::sim::{Delivery, FabricSimulation};
use nearfield_fabric::{FabricError, NodeId};
use nearfield_fabric_testkit::INDEX_ROOT;
use nearfield_hardware::network::NetworkPreset;
use nearfield_pool::chime::{ChimeOptions, ChimeTree, EvenShare};
use nearfield_pool::layout::{PoolIndexShape, Validation};
use nearfield_pool::{PoolError, PoolIndexClient};
use nearfield_testkit::seeds;
use scenario::{DrainPlan, DyingClient, run, run_after_death, run_growing};
use std::cell::Cell;

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

/// Clients work before, while and after three others drain a node; some of both die. The node is
/// lost then, and nobody notices.
#[test]
fn no_operation_needs_a_node_that_was_drained() {
    for delivery in [Delivery::Torn, Delivery::TornWords] {
        for dying in [0.0, 0.4] {
            for options in trees() {
                let plan = DrainPlan {
                    options,
                    delivery,
                    dying,
                };
                let mut moved = 0;
                let failure = seeds::first_failure(40, |seed| {
                    moved += run(seed, &plan)?;
                    Ok::<(), String>(())
                });
                assert_eq!(failure, None, "{plan:?}");
                assert!(moved > 0, "{plan:?}: no leaf was moved");
            }
        }
    }
}

/// A drainer dies at every other verb, and another continues. So each step of a move is the last
/// one of some run.
#[test]
fn a_drainer_that_died_at_any_verb_leaves_nothing_that_another_misses() {
    for (delivery, step) in [(Delivery::Torn, 2), (Delivery::TornWords, 5)] {
        for options in trees() {
            let mut moved = 0;
            for verb in (0..600).step_by(step) {
                match run_after_death(DyingClient::Drainer, verb, options, delivery) {
                    Ok(count) => moved += count,
                    Err(failure) => panic!("death at verb {verb}, {delivery:?}: {failure}"),
                }
            }
            assert!(moved > 0, "no leaf was moved");
        }
    }
}

/// Clients work before, while and after three others move leaves to a node that was added; some of
/// both die.
#[test]
fn operations_go_on_while_leaves_are_moved_to_an_added_node() {
    for delivery in [Delivery::Torn, Delivery::TornWords] {
        for dying in [0.0, 0.4] {
            for options in trees() {
                let plan = DrainPlan {
                    options,
                    delivery,
                    dying,
                };
                let mut moved = 0;
                let failure = seeds::first_failure(25, |seed| {
                    moved += run_growing(seed, &plan)?;
                    Ok::<(), String>(())
                });
                assert_eq!(failure, None, "{plan:?}");
                assert!(moved > 0, "{plan:?}: no leaf was moved");
            }
        }
    }
}

/// A client that moves leaves to an added node dies at each of its verbs, and another continues.
#[test]
fn a_mover_that_died_at_any_verb_leaves_every_key() {
    for (delivery, step) in [(Delivery::Torn, 1), (Delivery::TornWords, 3)] {
        let mut moved = 0;
        for verb in (0..250).step_by(step) {
            match run_after_death(DyingClient::Mover, verb, nearfield(), delivery) {
                Ok(count) => moved += count,
                Err(failure) => panic!("death at verb {verb}, {delivery:?}: {failure}"),
            }
        }
        assert!(moved > 0, "no leaf was moved");
    }
}

/// Half of the moves are left undone, and the repair completes what was recorded.
#[test]
fn a_tree_is_repaired_after_a_drainer_that_died_at_any_verb() {
    let dying = DyingClient::DrainerBeforeLoss;
    for (delivery, step) in [(Delivery::Torn, 2), (Delivery::TornWords, 5)] {
        for verb in (0..600).step_by(step) {
            if let Err(failure) = run_after_death(dying, verb, nearfield(), delivery) {
                panic!("death at verb {verb}, {delivery:?}: {failure}");
            }
        }
    }
}

/// The only writer dies at each of its verbs. So each step of a division into the node is the last
/// one of some run, also between its record and its first write.
#[test]
fn a_writer_that_died_at_any_verb_leaves_nothing_that_a_drain_misses() {
    for (delivery, step) in [(Delivery::Torn, 1), (Delivery::TornWords, 3)] {
        let mut moved = 0;
        for verb in (0..400).step_by(step) {
            match run_after_death(DyingClient::Writer, verb, nearfield(), delivery) {
                Ok(count) => moved += count,
                Err(failure) => panic!("death at verb {verb}, {delivery:?}: {failure}"),
            }
        }
        assert!(moved > 0, "no leaf was moved");
    }
}

/// Without leases a drain could not know if the holder of a lock is alive. The first node has all
/// inner nodes.
#[test]
fn some_nodes_are_not_drained() {
    let network = NetworkPreset::ConnectX6.parameters();
    let mut simulation = FabricSimulation::new(1, network, Delivery::Whole);
    let nodes: Vec<NodeId> = (0..2).map(|_| simulation.add_node(4 << 20)).collect();
    for (options, node, refusal) in [
        (chime(), NodeId(1), PoolError::Leaseless),
        (
            nearfield(),
            NodeId(0),
            PoolError::FirstNode { node: NodeId(0) },
        ),
    ] {
        let (endpoint, nodes) = (simulation.endpoint(0), nodes.clone());
        simulation.spawn(0, async move {
            let compute_node = compute_node(options);
            let tree = ChimeTree::create(endpoint, &nodes, INDEX_ROOT, compute_node).await;
            let tree = tree.expect("a tree");
            assert_eq!(tree.drain_leaves(node).await, Err(refusal));
        });
        assert_eq!(simulation.run(), 0);
    }
}

/// About a third of the leaves is moved, and nothing more by a second call that finds the share
/// there. A call ends when it is told to.
#[test]
fn an_added_node_gets_its_share_of_leaves() {
    let network = NetworkPreset::ConnectX6.parameters();
    let mut simulation = FabricSimulation::new(1, network, Delivery::Torn);
    let nodes: Vec<NodeId> = (0..3).map(|_| simulation.add_node(4 << 20)).collect();
    let creator = simulation.endpoint(0);
    let opener = creator.clone();
    simulation.spawn(0, async move {
        let (first, added) = (&nodes[..2], nodes[2]);
        let node = compute_node(nearfield());
        let tree = ChimeTree::create(creator, first, INDEX_ROOT, node).await;
        let tree = tree.expect("a tree");
        for number in 0..400 {
            let inserted = tree.insert(&key(number), &number.to_le_bytes()).await;
            assert_eq!(inserted, Ok(None));
        }
        assert_eq!(tree.add_node(added).await, Ok(()));
        assert_eq!(tree.notices().await, Ok(0));
        assert_eq!(tree.notify().await, Ok(()));
        assert_eq!(tree.notices().await, Ok(1));
        let node = compute_node(nearfield());
        let tree = ChimeTree::open(opener, &nodes, INDEX_ROOT, node).await;
        let tree = tree.expect("a tree");
        assert_eq!(tree.notices().await, Ok(1));
        let share = EvenShare::new(1, 3);
        let calls = Cell::new(0);
        let stops = async |_: usize| {
            calls.set(calls.get() + 1);
            false
        };
        let stopped = tree.move_leaves(first, added, share, stops).await;
        assert!(stopped.expect("moves") <= 1 && calls.get() == 1);
        let moved = tree.move_leaves(first, added, share, async |_| true).await;
        let moved = moved.expect("moves");
        assert!((5..60).contains(&moved), "{moved} leaves");
        let nothing = EvenShare::new(0, 3);
        let more = tree
            .move_leaves(first, added, nothing, async |_| true)
            .await;
        assert_eq!(more, Ok(0));
        assert!(tree.drain_leaves(added).await.expect("a drain") >= moved);
        let again = tree.move_leaves(first, added, share, async |_| true).await;
        assert_eq!(again, Err(PoolError::Closed { node: added }));
        for number in 0..400 {
            let found = tree.get(&key(number)).await;
            assert_eq!(found, Ok(Some(number.to_le_bytes().to_vec())));
        }
    });
    assert_eq!(simulation.run(), 0);
}

/// A regression: a repairer that had connected before a node was added took its leaves for lost.
#[test]
fn leaves_on_a_node_that_a_repairer_does_not_know_are_left_alone() {
    let network = NetworkPreset::ConnectX6.parameters();
    let mut simulation = FabricSimulation::new(1, network, Delivery::Torn);
    let nodes: Vec<NodeId> = (0..3).map(|_| simulation.add_node(4 << 20)).collect();
    let added = nodes[2];
    let (creator, all) = (simulation.endpoint(0), nodes.clone());
    let opener = creator.clone();
    simulation.spawn(0, async move {
        let node = compute_node(nearfield());
        let tree = ChimeTree::create(creator, &all[..2], INDEX_ROOT, node).await;
        let tree = tree.expect("a tree");
        for number in 0..200 {
            let inserted = tree.insert(&key(number), &number.to_le_bytes()).await;
            assert_eq!(inserted, Ok(None));
        }
        assert_eq!(tree.add_node(added).await, Ok(()));
        let node = compute_node(nearfield());
        let tree = ChimeTree::open(opener, &all, INDEX_ROOT, node).await;
        let tree = tree.expect("a tree");
        let share = EvenShare::new(1, 3);
        let moved = tree
            .move_leaves(&all[..2], added, share, async |_| true)
            .await;
        assert!(moved.expect("moves") > 2);
    });
    assert_eq!(simulation.run(), 0);
    let now = simulation.now();
    simulation.lose_node(added, now);
    let (endpoint, founders) = (simulation.endpoint(1), nodes[..2].to_vec());
    simulation.spawn(1, async move {
        let node = compute_node(nearfield());
        let tree = ChimeTree::open(endpoint, &founders, INDEX_ROOT, node).await;
        let tree = tree.expect("a tree");
        let lost = PoolError::Fabric(FabricError::NodeLost { node: added });
        // The first one notices the loss.
        for _ in 0..2 {
            assert_eq!(tree.replace_lost_leaves().await, Err(lost.clone()));
        }
    });
    assert_eq!(simulation.run(), 0);
    let now = simulation.now();
    simulation.restore_node(added, now, false);
    let endpoint = simulation.endpoint(2);
    simulation.spawn(2, async move {
        let node = compute_node(nearfield());
        let tree = ChimeTree::open(endpoint, &nodes, INDEX_ROOT, node).await;
        let tree = tree.expect("a tree");
        for number in 0..200 {
            let found = tree.get(&key(number)).await;
            assert_eq!(found, Ok(Some(number.to_le_bytes().to_vec())));
        }
    });
    assert_eq!(simulation.run(), 0);
}

/// A closed node gets no leaves, also if it was drained before there were any, and one that is
/// opened again does.
#[test]
fn a_closed_node_gets_no_leaves() {
    let network = NetworkPreset::ConnectX6.parameters();
    let mut simulation = FabricSimulation::new(1, network, Delivery::Torn);
    let nodes: Vec<NodeId> = (0..2).map(|_| simulation.add_node(4 << 20)).collect();
    let (endpoint, second) = (simulation.endpoint(0), nodes[1]);
    simulation.spawn(0, async move {
        let node = compute_node(nearfield());
        let tree = ChimeTree::create(endpoint, &nodes, INDEX_ROOT, node).await;
        let tree = tree.expect("a tree");
        // The root is a leaf, which may be on either node.
        assert!(tree.drain_leaves(second).await.expect("a drain") <= 1);
        for number in 0..100 {
            let inserted = tree.insert(&key(number), &number.to_le_bytes()).await;
            assert_eq!(inserted, Ok(None));
        }
        assert_eq!(tree.drain_leaves(second).await, Ok(0));
        assert_eq!(tree.close_node(second, false).await, Ok(()));
        for number in 100..200 {
            let inserted = tree.insert(&key(number), &number.to_le_bytes()).await;
            assert_eq!(inserted, Ok(None));
        }
        assert!(tree.drain_leaves(second).await.expect("a drain") > 2);
        for number in 0..200 {
            let found = tree.get(&key(number)).await;
            assert_eq!(found, Ok(Some(number.to_le_bytes().to_vec())));
        }
    });
    assert_eq!(simulation.run(), 0);
}
