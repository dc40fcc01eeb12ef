//! Structures hold the same entries as the collections of Rust's library, and lookups by programs
//! find them.

use crate::network::world::{DatagramFaults, World};
use crate::rack::{arena, rack, words};
use BalanceAlgorithm::{Avl, RedBlack, Scapegoat, Splay};
use DuplicateKeyRule::{Multiple, Unique};
use nearfield_offload::node::RackMemory;
use nearfield_offload::structures::programs::FIND_ALL_MAX;
use nearfield_offload::structures::{
    BPlusTree, BTree, BalanceAlgorithm, Bimap, DuplicateKeyRule, ListKind, NodeArena,
    OffloadAggregates, OffloadHashTable, OffloadList, SearchTree, StructureEntry, aggregated,
    entry, found_all, scanned, was_put,
};
use nearfield_offload::traversal::{
    InMemory, QueryRunner, TraversalOutcome, TraversalQuery, TraversalStatus,
};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Number of operations of most tests, in which lookups through the network take no time.
const STEPS: usize = 600;
/// Number of keys: few, so that operations collide.
const KEYS: u64 = 150;

/// The runners: the fastest engine, the interpreter, and memory nodes over a network, which must
/// agree.
struct Runners<'r, 'w> {
    fast: InMemory<RackMemory<'w>>,
    slow: InMemory<RackMemory<'w>>,
    afar: Box<dyn FnMut(&TraversalQuery) -> TraversalOutcome + 'r>,
    /// Number of queries that may have stored.
    stored: u64,
}

impl Runners<'_, '_> {
    fn run(&mut self, query: &TraversalQuery) -> TraversalOutcome {
        let Ok(fast) = self.fast.run(query, ITERATIONS);
        let Ok(slow) = self.slow.run(query, ITERATIONS);
        assert_eq!(fast, slow);
        assert_eq!((self.afar)(query), fast);
        assert_eq!(fast.status, TraversalStatus::Done);
        fast
    }

    /// Runs a query that stores, by one of the runners in turn.
    fn run_once(&mut self, query: &TraversalQuery) -> TraversalOutcome {
        self.stored += 1;
        let outcome = match self.stored % 3 {
            0 => self.fast.run(query, ITERATIONS).unwrap(),
            1 => self.slow.run(query, ITERATIONS).unwrap(),
            _ => (self.afar)(query),
        };
        assert_eq!(outcome.status, TraversalStatus::Done);
        outcome
    }

    fn entry(&mut self, query: Option<TraversalQuery>) -> Option<StructureEntry> {
        query.and_then(|query| entry(&self.run(&query)))
    }
}

/// A limit above the iterations of any lookup.
pub const ITERATIONS: u64 = 100_000;

/// The environment of a test of a structure.
pub struct StructureFixture<'r, 'w> {
    steps: usize,
    random: SmallRng,
    arena: NodeArena<RackMemory<'w>>,
    runners: Runners<'r, 'w>,
}

/// The number of operations, and the parts that they use.
type FixtureParts<'s, 'r, 'w> = (
    usize,
    &'s mut SmallRng,
    &'s mut NodeArena<RackMemory<'w>>,
    &'s mut Runners<'r, 'w>,
);

impl<'r, 'w> StructureFixture<'r, 'w> {
    /// Creates an environment on the nodes of a rack; `afar` runs queries over a network.
    pub fn new(
        rack: &RackMemory<'w>,
        seed: u64,
        afar: impl FnMut(&TraversalQuery) -> TraversalOutcome + 'r,
    ) -> StructureFixture<'r, 'w> {
        StructureFixture {
            steps: STEPS,
            random: SmallRng::seed_from_u64(seed),
            arena: arena(rack),
            runners: Runners {
                fast: InMemory::new(rack.clone()),
                slow: InMemory::interpreting(rack.clone()),
                afar: Box::new(afar),
                stored: 0,
            },
        }
    }

    /// Reduces the operations to a quarter, because a lost datagram takes milliseconds there.
    pub fn with_fewer_steps(mut self) -> Self {
        self.steps = STEPS / 4;
        self
    }

    fn parts(&mut self) -> FixtureParts<'_, 'r, 'w> {
        let (random, arena) = (&mut self.random, &mut self.arena);
        (self.steps, random, arena, &mut self.runners)
    }
}

/// A test: random operations on a structure and on its model.
pub type Test = fn(&mut StructureFixture<'_, '_>);

/// Runs a test on one and on four nodes of a simulated network with faults, with each seed.
fn each(test: Test) {
    seeds::each(3, |seed| {
        for nodes in [1, 4] {
            let words = words(nodes);
            let rack = rack(&words);
            let mut world = World::new(&rack, seed, DatagramFaults::USUAL);
            let afar = |query: &TraversalQuery| world.run(query, ITERATIONS).unwrap();
            test(&mut StructureFixture::new(&rack, seed, afar));
        }
    });
}

/// The tests of all structures: the paper's, of which map and set are the same table or tree, and
/// the B+ tree of its applications.
pub const ALL: [Test; 14] = [
    LIST,
    FORWARD_LIST,
    hash_table,
    bimap,
    b_tree,
    b_plus_tree,
    MAP,
    MULTIMAP,
    AVL,
    AVL_MULTIPLE,
    SPLAY,
    SPLAY_MULTIPLE,
    SCAPEGOAT,
    SCAPEGOAT_MULTIPLE,
];

const LIST: Test = |setting| list(ListKind::Doubly, setting);
const FORWARD_LIST: Test = |setting| list(ListKind::Forward, setting);
const MAP: Test = |setting| tree((RedBlack, Unique), setting);
const MULTIMAP: Test = |setting| tree((RedBlack, Multiple), setting);
const AVL: Test = |setting| tree((Avl, Unique), setting);
const AVL_MULTIPLE: Test = |setting| tree((Avl, Multiple), setting);
const SPLAY: Test = |setting| tree((Splay, Unique), setting);
const SPLAY_MULTIPLE: Test = |setting| tree((Splay, Multiple), setting);
const SCAPEGOAT: Test = |setting| tree((Scapegoat, Unique), setting);
const SCAPEGOAT_MULTIPLE: Test = |setting| tree((Scapegoat, Multiple), setting);

fn list(kind: ListKind, setting: &mut StructureFixture<'_, '_>) {
    let (steps, random, arena, runners) = setting.parts();
    let mut list = OffloadList::new(kind, arena).unwrap();
    let mut model = VecDeque::new();
    for _ in 0..steps {
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
}

#[test]
fn lists_find_values() {
    each(LIST);
}

#[test]
fn forward_lists_find_values() {
    each(FORWARD_LIST);
}

#[test]
fn hash_maps_and_sets_find_keys() {
    each(hash_table);
}

fn hash_table(setting: &mut StructureFixture<'_, '_>) {
    let (steps, random, arena, runners) = setting.parts();
    // Few buckets make long chains.
    let mut map = OffloadHashTable::new(arena, 20).unwrap();
    let mut model = HashMap::new();
    for _ in 0..steps {
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
}

#[test]
fn bimaps_find_both_sides() {
    each(bimap);
}

fn bimap(setting: &mut StructureFixture<'_, '_>) {
    let (steps, random, arena, runners) = setting.parts();
    let mut map = Bimap::new(arena, 30).unwrap();
    let mut model: HashMap<u64, u64> = HashMap::new();
    for _ in 0..steps {
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
}

fn first(model: &BTreeMap<u64, VecDeque<u64>>, key: u64) -> Option<StructureEntry> {
    let (&key, values) = model.range(key..).next()?;
    let value = *values.front()?;
    Some(StructureEntry { key, value })
}

fn tree(
    (balance, keys): (BalanceAlgorithm, DuplicateKeyRule),
    setting: &mut StructureFixture<'_, '_>,
) {
    let (steps, random, arena, runners) = setting.parts();
    let mut tree = SearchTree::new(balance, keys);
    let mut model: BTreeMap<u64, VecDeque<u64>> = BTreeMap::new();
    for step in 0..steps {
        let (key, value) = (random.random_range(0..KEYS), random.random());
        // The tree grows in the first half, and shrinks in the second.
        let inserts = if step < steps / 2 { 5 } else { 2 };
        match random.random_range(0..10) {
            kind if kind < inserts => {
                let values = model.entry(key).or_default();
                let is_new = values.is_empty() || keys == Multiple;
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
    for key in (0..=KEYS).step_by(STEPS / steps) {
        assert_eq!(
            runners.entry(tree.lower_bound(key)),
            first(&model, key),
            "{key}"
        );
    }
}

#[test]
fn maps_and_sets_find_lower_bounds() {
    each(MAP);
}

#[test]
fn multimaps_and_multisets_find_lower_bounds() {
    each(MULTIMAP);
}

#[test]
fn avl_trees_find_lower_bounds() {
    each(AVL);
    each(AVL_MULTIPLE);
}

#[test]
fn splay_trees_find_lower_bounds() {
    each(SPLAY);
    each(SPLAY_MULTIPLE);
}

#[test]
fn scapegoat_trees_find_lower_bounds() {
    each(SCAPEGOAT);
    each(SCAPEGOAT_MULTIPLE);
}

/// The iterations of a lookup are at most the depth, even in trees whose keys arrive in order.
#[test]
fn trees_stay_balanced() {
    let words = words(1);
    let rack = rack(&words);
    for (balance, depth_max) in [(RedBlack, 24), (Avl, 18), (Scapegoat, 28)] {
        let mut arena = arena(&rack);
        let mut tree = SearchTree::new(balance, Unique);
        for key in 0..4000 {
            tree.insert(&mut arena, key, key).unwrap();
        }
        for key in (0..4000).filter(|key| key % 4 != 0) {
            tree.remove(&mut arena, key).unwrap();
        }
        let mut runner = InMemory::new(rack.clone());
        for key in 0..1000 {
            let Ok(outcome) = runner.run(&tree.lower_bound(key).unwrap(), ITERATIONS);
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
    each(b_tree);
}

fn b_tree(setting: &mut StructureFixture<'_, '_>) {
    let (steps, random, arena, runners) = setting.parts();
    let mut tree = BTree::new(arena).unwrap();
    let mut model = BTreeMap::new();
    for step in 0..3 * steps {
        let (key, value) = (random.random_range(0..4 * KEYS), random.random());
        let inserts = if step < steps { 6 } else { 2 };
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
}

fn above(model: &BTreeMap<u64, u64>, key: u64) -> Option<StructureEntry> {
    let found = model.range(key..).next();
    found.map(|(&key, &value)| StructureEntry { key, value })
}

#[test]
fn b_plus_trees_find_scan_and_aggregate() {
    each(b_plus_tree);
}

fn b_plus_tree(setting: &mut StructureFixture<'_, '_>) {
    let (steps, random, arena, runners) = setting.parts();
    let mut tree = BPlusTree::new(arena).unwrap();
    let mut model = BTreeMap::new();
    // Number of insertions by a program.
    let mut puts = 0;
    for step in 0..2 * steps {
        let (key, value) = (random.random_range(0..4 * KEYS), random.random());
        let inserts = if step < steps { 6 } else { 2 };
        match random.random_range(0..12) {
            kind if kind < inserts => {
                let is_new = model.insert(key, value).is_none();
                let mut put = None;
                if step % 4 == 0 {
                    put = was_put(&runners.run_once(&tree.put(key, value)));
                    puts += u64::from(put.is_some());
                }
                let inserted = match put {
                    Some(inserted) => inserted,
                    None => tree.insert(arena, key, value).unwrap(),
                };
                assert_eq!(inserted, is_new);
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
                let expected: Vec<StructureEntry> = entries
                    .map(|(&key, &value)| StructureEntry { key, value })
                    .collect();
                assert_eq!(scanned(&outcome).collect::<Vec<_>>(), expected);
            }
            _ => {
                let end = key + random.random_range(0..KEYS);
                let outcome = runners.run(&tree.aggregate(key, end));
                let values = || model.range(key..end).map(|(_, &value)| value);
                let expected = OffloadAggregates {
                    count: values().count() as u64,
                    sum: values().fold(0, u64::wrapping_add),
                    min: values().min(),
                    max: values().max(),
                };
                assert_eq!(aggregated(&outcome), expected);
            }
        }
    }
    assert!(puts > 0);
}
