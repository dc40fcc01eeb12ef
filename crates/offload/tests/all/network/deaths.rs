//! Memory nodes that die in the middle of traversals, and come back without their memory.

use super::world::{DatagramFaults, PlantedMistake, World};
use crate::rack::{arena, rack, words};
use nearfield_offload::node::RackMemory;
use nearfield_offload::structures::{
    BPlusTree, BTree, BalanceAlgorithm, Bimap, DuplicateKeyRule, ListKind, NodeArena,
    OffloadHashTable, OffloadList, SearchTree, StructureEntry, entry,
};
use nearfield_offload::traversal::{TraversalQuery, TraversalStatus};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

const NODES: usize = 4;

/// The bound of the keys (exclusive).
const KEYS: u64 = 125;

/// A structure of random entries.
struct RandomStructure {
    find: Box<dyn Fn(u64) -> Option<TraversalQuery>>,
    model: BTreeMap<u64, u64>,
    /// True if lookups find the next entry when none has the key.
    is_ordered: bool,
}

impl RandomStructure {
    fn expected(&self, key: u64) -> Option<StructureEntry> {
        let found = match self.is_ordered {
            true => self.model.range(key..).next(),
            false => self.model.get_key_value(&key),
        };
        found.map(|(&key, &value)| StructureEntry { key, value })
    }
}

type Memory<'w> = NodeArena<RackMemory<'w>>;

/// Puts entries into a structure, and removes some of them again.
fn changed<'w, S>(
    mut structure: S,
    arena: &mut Memory<'w>,
    keys: &[u64],
    insert: impl Fn(&mut S, &mut Memory<'w>, u64),
    remove: impl Fn(&mut S, &mut Memory<'w>, u64),
) -> S {
    keys.iter()
        .for_each(|&key| insert(&mut structure, arena, key));
    let gone = &keys[..keys.len() / 4];
    gone.iter()
        .for_each(|&key| remove(&mut structure, arena, key));
    structure
}

/// Number of structures that [`structure`] creates.
const STRUCTURES: u64 = 14;

fn structure(number: u64, random: &mut SmallRng, arena: &mut Memory<'_>) -> RandomStructure {
    let mut keys: Vec<u64> = (0..KEYS).collect();
    keys.shuffle(random);
    keys.truncate(60);
    let value = |key: u64| if number < 2 { key } else { key * 7 + 1 };
    let model = keys[keys.len() / 4..].iter();
    let model = model.map(|&key| (key, value(key))).collect();
    let balances = [
        BalanceAlgorithm::RedBlack,
        BalanceAlgorithm::Avl,
        BalanceAlgorithm::Splay,
        BalanceAlgorithm::Scapegoat,
    ];
    let find: Box<dyn Fn(u64) -> Option<TraversalQuery>> = match number {
        0 | 1 => {
            let kind = [ListKind::Doubly, ListKind::Forward][number as usize];
            let list = changed(
                OffloadList::new(kind, arena).unwrap(),
                arena,
                &keys,
                |list, arena, key| list.push_front(arena, key).unwrap(),
                |list, arena, key| assert!(list.remove(arena, key).unwrap()),
            );
            Box::new(move |key| list.find(key))
        }
        2 => {
            // Few buckets make long chains.
            let table = changed(
                OffloadHashTable::new(arena, 10).unwrap(),
                arena,
                &keys,
                |table, arena, key| assert!(table.insert(arena, key, value(key)).unwrap()),
                |table, arena, key| assert!(table.remove(arena, key).unwrap()),
            );
            Box::new(move |key| Some(table.find(key)))
        }
        3 => {
            let map = changed(
                Bimap::new(arena, 10).unwrap(),
                arena,
                &keys,
                |map, arena, key| assert!(map.insert(arena, key, value(key)).unwrap()),
                |map, arena, key| assert!(map.remove_left(arena, key).unwrap()),
            );
            Box::new(move |key| Some(map.find_left(key)))
        }
        4 => {
            let tree = changed(
                BTree::new(arena).unwrap(),
                arena,
                &keys,
                |tree, arena, key| assert!(tree.insert(arena, key, value(key)).unwrap()),
                |tree, arena, key| assert!(tree.remove(arena, key).unwrap()),
            );
            Box::new(move |key| Some(tree.lower_bound(key)))
        }
        5 => {
            let tree = changed(
                BPlusTree::new(arena).unwrap(),
                arena,
                &keys,
                |tree, arena, key| assert!(tree.insert(arena, key, value(key)).unwrap()),
                |tree, arena, key| assert!(tree.remove(arena, key).unwrap()),
            );
            Box::new(move |key| Some(tree.lower_bound(key)))
        }
        _ => {
            let balance = balances[number as usize / 2 % balances.len()];
            let kind = [DuplicateKeyRule::Unique, DuplicateKeyRule::Multiple][number as usize % 2];
            let tree = changed(
                SearchTree::new(balance, kind),
                arena,
                &keys,
                |tree, arena, key| assert!(tree.insert(arena, key, value(key)).unwrap()),
                |tree, arena, key| assert!(tree.remove(arena, key).unwrap()),
            );
            Box::new(move |key| tree.lower_bound(key))
        }
    };
    RandomStructure {
        find,
        model,
        is_ordered: number >= 4,
    }
}

/// Counts of the results that callers received.
#[derive(Default)]
struct LookupResultCounts {
    right: u64,
    unanswered: u64,
    lost: u64,
}

/// Looks up keys of a structure while a node dies and comes back. Each result must be right, or
/// report that there is none. Returns an error for a wrong result.
fn look_up(
    seed: u64,
    planted: PlantedMistake,
    told: &mut LookupResultCounts,
) -> Result<(), String> {
    let words = words(NODES);
    let rack = rack(&words);
    let mut random = SmallRng::seed_from_u64(seed);
    let structure = structure(seed % STRUCTURES, &mut random, &mut arena(&rack));
    let mut world = World::new(&rack, seed, DatagramFaults::USUAL);
    world.plant(planted);
    let victim = world.random().random_range(0..NODES);
    let (death, life) = (
        world.random().random_range(3..10),
        world.random().random_range(11..20),
    );
    for round in 0..30 {
        let key = world.random().random_range(0..KEYS);
        let query = (structure.find)(key).unwrap();
        let counter = world.ask(0, &query, 1000);
        if round == death {
            // The node dies in the middle of the traversal.
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
            assert!(world.step(), "no event is left");
        };
        match outcome {
            Err(_) => told.unanswered += 1,
            Ok(outcome) if outcome.status == TraversalStatus::MemoryLost => told.lost += 1,
            Ok(outcome) if outcome.status == TraversalStatus::Done => {
                let (found, expected) = (entry(&outcome), structure.expected(key));
                if found != expected {
                    return Err(format!("{found:?} instead of {expected:?}"));
                }
                told.right += 1;
            }
            Ok(outcome) => return Err(format!("{:?}", outcome.status)),
        }
        let may_fail = round >= death;
        if !may_fail && told.unanswered + told.lost > 0 {
            return Err("no reply while all nodes lived".to_owned());
        }
    }
    Ok(())
}

#[test]
fn replies_are_right_or_missing_while_nodes_die() {
    let mut all = LookupResultCounts::default();
    seeds::each(3 * STRUCTURES, |seed| {
        let mut told = LookupResultCounts::default();
        look_up(seed, PlantedMistake::Nothing, &mut told).unwrap();
        all.right += told.right;
        all.unanswered += told.unanswered;
        all.lost += told.lost;
    });
    assert!(all.right > 0 && all.unanswered + all.lost > 0);
}

/// A canary: without epochs, the empty memory of a node that came back causes a wrong result, and
/// the test notices it.
#[test]
fn a_node_that_hides_its_loss_is_found() {
    let mut told = LookupResultCounts::default();
    let found = (0..40).find_map(|seed| look_up(seed, PlantedMistake::SameEpoch, &mut told).err());
    assert!(found.is_some());
}
