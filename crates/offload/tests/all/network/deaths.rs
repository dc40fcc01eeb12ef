//! Memory nodes that die in the middle of traversals, and come back without their memory.

use super::world::{Faults, Planted, World};
use crate::rack::{arena, rack, words};
use nearfield_offload::structures::{Balance, Keys, SearchTree, entry};
use nearfield_offload::traversal::Status;
use nearfield_testkit::seeds;
use rand::RngExt;
use std::collections::BTreeMap;

const NODES: usize = 4;

/// What callers were told.
#[derive(Default)]
struct Told {
    right: u64,
    unanswered: u64,
    lost: u64,
}

/// Looks keys of a tree up while a node dies and comes back: answers are right, or say that there
/// is none. An error is a wrong one.
fn look_up(seed: u64, planted: Planted, told: &mut Told) -> Result<(), String> {
    let words = words(NODES);
    let rack = rack(&words);
    let mut arena = arena(&rack);
    let mut tree = SearchTree::new(Balance::RedBlack, Keys::Unique);
    let mut model = BTreeMap::new();
    for key in 0..60 {
        tree.insert(&mut arena, key * 2, key).unwrap();
        model.insert(key * 2, key);
    }
    let mut world = World::new(&rack, seed, Faults::USUAL);
    world.plant(planted);
    let victim = world.random().random_range(0..NODES);
    let (death, life) = (
        world.random().random_range(3..10),
        world.random().random_range(11..20),
    );
    for round in 0..30 {
        let key = world.random().random_range(0..125);
        let query = tree.lower_bound(key).unwrap();
        let counter = world.ask(0, &query, 1000);
        if round == death {
            // In the middle of the traversal.
            for _ in 0..world.random().random_range(0..40) {
                world.step();
            }
            world.kill(victim);
        }
        if round == life {
            world.revive(victim);
        }
        let outcome = loop {
            if let Some(outcome) = world.answer(0, counter) {
                break outcome;
            }
            assert!(world.step(), "nothing happens any more");
        };
        match outcome {
            Err(_) => told.unanswered += 1,
            Ok(outcome) if outcome.status == Status::MemoryLost => told.lost += 1,
            Ok(outcome) if outcome.status == Status::Done => {
                let found = entry(&outcome).map(|entry| (entry.key, entry.value));
                let expected = model.range(key..).next().map(|(&key, &value)| (key, value));
                if found != expected {
                    return Err(format!("{found:?} instead of {expected:?}"));
                }
                told.right += 1;
            }
            Ok(outcome) => return Err(format!("{:?}", outcome.status)),
        }
        let may_fail = round >= death;
        if !may_fail && told.unanswered + told.lost > 0 {
            return Err("no answer while all nodes lived".to_owned());
        }
    }
    Ok(())
}

#[test]
fn answers_are_right_or_missing_while_nodes_die() {
    let mut all = Told::default();
    seeds::each(40, |seed| {
        let mut told = Told::default();
        look_up(seed, Planted::Nothing, &mut told).unwrap();
        all.right += told.right;
        all.unanswered += told.unanswered;
        all.lost += told.lost;
    });
    assert!(all.right > 0 && all.unanswered + all.lost > 0);
}

/// A canary: without epochs, the empty memory of a node that came back is taken for an answer.
#[test]
fn a_node_that_hides_its_loss_is_found() {
    let mut told = Told::default();
    let found = (0..40).find_map(|seed| look_up(seed, Planted::SameEpoch, &mut told).err());
    assert!(found.is_some());
}
