//! Structures hold what the collections of Rust's library hold, and look-ups find it by programs.

use crate::network::world::{Faults, World};
use crate::rack::{arena, rack, words};
use nearfield_offload::node::Rack;
use nearfield_offload::structures::programs::FIND_ALL_MAX;
use nearfield_offload::structures::{
    Aggregates, Arena, BPlusTree, BTree, Balance, Bimap, Entry, HashTable, Keys, List, ListKind,
    SearchTree, aggregated, entry, found_all, scanned,
};
use nearfield_offload::traversal::{InMemory, Outcome, Query, Runner, Status};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, HashMap, VecDeque};

const STEPS: usize = 600;
/// Few, so that operations meet.
const KEYS: u64 = 150;

/// Runs queries by the fastest engine, by the interpreter, and at memory nodes behind a network
/// with faults, which have to agree.
struct Runners<'r, 'w> {
    fast: InMemory<Rack<'w>>,
    slow: InMemory<Rack<'w>>,
    network: World<'r, 'w>,
}

impl<'r, 'w> Runners<'r, 'w> {
    fn new(rack: &'r Rack<'w>, seed: u64) -> Runners<'r, 'w> {
        Runners {
            fast: InMemory::new(rack.clone()),
            slow: InMemory::interpreting(rack.clone()),
            network: World::new(rack, seed, Faults::USUAL),
        }
    }

    fn run(&mut self, query: &Query) -> Outcome {
        let Ok(fast) = self.fast.run(query, 100_000);
        let Ok(slow) = self.slow.run(query, 100_000);
        assert_eq!(fast, slow);
        assert_eq!(self.network.run(query, 100_000).unwrap(), fast);
        assert_eq!(fast.status, Status::Done);
        fast
    }

    fn entry(&mut self, query: Option<Query>) -> Option<Entry> {
        query.and_then(|query| entry(&self.run(&query)))
    }
}

/// Runs a test on one and on four nodes, with each seed.
fn each(test: impl Fn(&mut SmallRng, &mut Arena<Rack<'_>>, &mut Runners<'_, '_>)) {
    seeds::each(3, |seed| {
        for nodes in [1, 4] {
            let words = words(nodes);
            let rack = rack(&words);
            let mut random = SmallRng::seed_from_u64(seed);
            let mut runners = Runners::new(&rack, seed);
            test(&mut random, &mut arena(&rack), &mut runners);
        }
    });
}

fn list(kind: ListKind) {
    each(|random, arena, runners| {
        let mut list = List::new(kind, arena).unwrap();
        let mut model = VecDeque::new();
        for _ in 0..STEPS {
            let value = random.random_range(0..KEYS);
            match random.random_range(0..3) {
                0 => {
                    list.push_front(arena, value).unwrap();
                    model.push_front(value);
                }
                1 => {
                    let at = model.iter().position(|&there| there == value);
                    assert_eq!(list.remove(arena, value).unwrap(), at.is_some());
                    at.map(|at| model.remove(at));
                }
                _ => {
                    let found = runners.entry(list.find(value));
                    let expected = model.contains(&value).then_some(value);
                    assert_eq!(found.map(|entry| entry.key), expected);
                }
            }
        }
    });
}

#[test]
fn lists_find_values() {
    list(ListKind::Doubly);
}

#[test]
fn forward_lists_find_values() {
    list(ListKind::Forward);
}

#[test]
fn hash_maps_and_sets_find_keys() {
    each(|random, arena, runners| {
        // Few buckets, so that chains are long.
        let mut map = HashTable::new(arena, 20).unwrap();
        let mut model = HashMap::new();
        for _ in 0..STEPS {
            let (key, value) = (random.random_range(0..KEYS), random.random());
            match random.random_range(0..4) {
                0 => {
                    let is_new = model.insert(key, value).is_none();
                    assert_eq!(map.insert(arena, key, value).unwrap(), is_new);
                }
                1 => {
                    let removed = model.remove(&key).is_some();
                    assert_eq!(map.remove(arena, key).unwrap(), removed);
                }
                2 => {
                    let count = random.random_range(1..=FIND_ALL_MAX);
                    let keys: Vec<u64> = (0..count).map(|_| random.random_range(0..KEYS)).collect();
                    let found = found_all(&runners.run(&map.find_all(&keys)));
                    let expected = keys.iter().map(|key| model.get(key).copied());
                    assert_eq!(found, expected.collect::<Vec<_>>());
                }
                _ => {
                    let found = runners.entry(Some(map.find(key)));
                    assert_eq!(found.map(|entry| entry.value), model.get(&key).copied());
                }
            }
        }
    });
}

#[test]
fn bimaps_find_both_sides() {
    each(|random, arena, runners| {
        let mut map = Bimap::new(arena, 30).unwrap();
        let mut model: HashMap<u64, u64> = HashMap::new();
        for _ in 0..STEPS {
            let (left, right) = (random.random_range(0..KEYS), random.random_range(0..KEYS));
            let there = |right| model.iter().find(|pair| *pair.1 == right);
            match random.random_range(0..4) {
                0 => {
                    let is_new = !model.contains_key(&left) && there(right).is_none();
                    assert_eq!(map.insert(arena, left, right).unwrap(), is_new);
                    if is_new {
                        model.insert(left, right);
                    }
                }
                1 => {
                    let removed = model.remove(&left).is_some();
                    assert_eq!(map.remove_left(arena, left).unwrap(), removed);
                }
                2 => {
                    let found = runners.entry(Some(map.find_left(left)));
                    assert_eq!(found.map(|entry| entry.value), model.get(&left).copied());
                }
                _ => {
                    let found = runners.entry(Some(map.find_right(right)));
                    let expected = there(right).map(|pair| *pair.0);
                    assert_eq!(found.map(|entry| entry.value), expected);
                }
            }
        }
    });
}

fn first(model: &BTreeMap<u64, VecDeque<u64>>, key: u64) -> Option<Entry> {
    let (&key, values) = model.range(key..).next()?;
    let value = *values.front()?;
    Some(Entry { key, value })
}

fn tree(balance: Balance, keys: Keys) {
    each(|random, arena, runners| {
        let mut tree = SearchTree::new(balance, keys);
        let mut model: BTreeMap<u64, VecDeque<u64>> = BTreeMap::new();
        for step in 0..STEPS {
            let (key, value) = (random.random_range(0..KEYS), random.random());
            // It grows first, and shrinks then.
            let inserts = if step < STEPS / 2 { 5 } else { 2 };
            match random.random_range(0..10) {
                kind if kind < inserts => {
                    let values = model.entry(key).or_default();
                    let is_new = values.is_empty() || keys == Keys::Multiple;
                    if !is_new {
                        values.clear();
                    }
                    values.push_back(value);
                    assert_eq!(tree.insert(arena, key, value).unwrap(), is_new);
                }
                5..7 => {
                    let removed = model.get_mut(&key).and_then(VecDeque::pop_front);
                    model.retain(|_, values| !values.is_empty());
                    assert_eq!(tree.remove(arena, key).unwrap(), removed.is_some());
                }
                _ => {
                    let found = runners.entry(tree.lower_bound(key));
                    assert_eq!(found, first(&model, key), "{key}");
                }
            }
        }
        for key in 0..=KEYS {
            assert_eq!(
                runners.entry(tree.lower_bound(key)),
                first(&model, key),
                "{key}"
            );
        }
    });
}

#[test]
fn maps_and_sets_find_lower_bounds() {
    tree(Balance::RedBlack, Keys::Unique);
}

#[test]
fn multimaps_and_multisets_find_lower_bounds() {
    tree(Balance::RedBlack, Keys::Multiple);
}

#[test]
fn avl_trees_find_lower_bounds() {
    tree(Balance::Avl, Keys::Unique);
    tree(Balance::Avl, Keys::Multiple);
}

#[test]
fn splay_trees_find_lower_bounds() {
    tree(Balance::Splay, Keys::Unique);
    tree(Balance::Splay, Keys::Multiple);
}

#[test]
fn scapegoat_trees_find_lower_bounds() {
    tree(Balance::Scapegoat, Keys::Unique);
    tree(Balance::Scapegoat, Keys::Multiple);
}

/// The iterations of a look-up are the depth, in trees whose keys arrive in order, too.
#[test]
fn trees_stay_balanced() {
    let words = words(1);
    let rack = rack(&words);
    for (balance, depth_max) in [
        (Balance::RedBlack, 24),
        (Balance::Avl, 18),
        (Balance::Scapegoat, 28),
    ] {
        let mut arena = arena(&rack);
        let mut tree = SearchTree::new(balance, Keys::Unique);
        for key in 0..4000 {
            tree.insert(&mut arena, key, key).unwrap();
        }
        for key in (0..4000).filter(|key| key % 4 != 0) {
            tree.remove(&mut arena, key).unwrap();
        }
        let mut runners = Runners::new(&rack, 0);
        for key in 0..1000 {
            let outcome = runners.run(&tree.lower_bound(key).unwrap());
            assert!(
                outcome.iterations <= depth_max,
                "{balance:?} {}",
                outcome.iterations
            );
        }
    }
}

#[test]
fn b_trees_find_lower_bounds() {
    each(|random, arena, runners| {
        let mut tree = BTree::new(arena).unwrap();
        let mut model = BTreeMap::new();
        for step in 0..3 * STEPS {
            let (key, value) = (random.random_range(0..4 * KEYS), random.random());
            let inserts = if step < STEPS { 6 } else { 2 };
            match random.random_range(0..10) {
                kind if kind < inserts => {
                    let is_new = model.insert(key, value).is_none();
                    assert_eq!(tree.insert(arena, key, value).unwrap(), is_new);
                }
                6..9 => {
                    let removed = model.remove(&key).is_some();
                    assert_eq!(tree.remove(arena, key).unwrap(), removed);
                }
                _ => {
                    let found = runners.entry(Some(tree.lower_bound(key)));
                    assert_eq!(found, above(&model, key));
                }
            }
        }
    });
}

fn above(model: &BTreeMap<u64, u64>, key: u64) -> Option<Entry> {
    let found = model.range(key..).next();
    found.map(|(&key, &value)| Entry { key, value })
}

#[test]
fn b_plus_trees_find_scan_and_aggregate() {
    each(|random, arena, runners| {
        let mut tree = BPlusTree::new(arena).unwrap();
        let mut model = BTreeMap::new();
        for step in 0..2 * STEPS {
            let (key, value) = (random.random_range(0..4 * KEYS), random.random());
            let inserts = if step < STEPS { 6 } else { 2 };
            match random.random_range(0..12) {
                kind if kind < inserts => {
                    let is_new = model.insert(key, value).is_none();
                    assert_eq!(tree.insert(arena, key, value).unwrap(), is_new);
                }
                6..9 => {
                    let removed = model.remove(&key).is_some();
                    assert_eq!(tree.remove(arena, key).unwrap(), removed);
                }
                9 => {
                    let found = runners.entry(Some(tree.lower_bound(key)));
                    assert_eq!(found, above(&model, key));
                }
                10 => {
                    let count = random.random_range(0..140usize);
                    let outcome = runners.run(&tree.scan(key, count));
                    let entries = model.range(key..).take(count.min(128));
                    let expected: Vec<Entry> =
                        entries.map(|(&key, &value)| Entry { key, value }).collect();
                    assert_eq!(scanned(&outcome).collect::<Vec<_>>(), expected);
                }
                _ => {
                    let end = key + random.random_range(0..KEYS);
                    let outcome = runners.run(&tree.aggregate(key, end));
                    let values = || model.range(key..end).map(|(_, &value)| value);
                    let expected = Aggregates {
                        count: values().count() as u64,
                        sum: values().fold(0, u64::wrapping_add),
                        min: values().min(),
                        max: values().max(),
                    };
                    assert_eq!(aggregated(&outcome), expected);
                }
            }
        }
    });
}
