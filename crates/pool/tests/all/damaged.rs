//! Tests of all indexes on damaged memory: operations fail or return wrong values, but they neither
//! panic nor hang.

use crate::simulated::steps;
use crate::trees::{compute_node, key};
use nearfield_core::{Batch, ByteStrings, OrderedIndex, ScanDirection, Words};
use nearfield_fabric::Endpoint;
use nearfield_fabric::transport::sim::Delivery;
use nearfield_fabric_testkit::{
    DamagePlan, DamagedEndpoint, DamagedMemory, INDEX_ROOT, check_damage, operate,
};
use nearfield_offload::traversal::{TraversalOutcome, TraversalQuery, TraversalStatus};
use nearfield_pool::chime::{ChimeLockKind, ChimeOptions, ChimeTree, KeyChangeDecision};
use nearfield_pool::filtered::{PoolProgramExecutor, PoolScanRange, ValueFilter};
use nearfield_pool::store::{PoolEntryForm, PoolStore, StoreOptions};
use nearfield_pool::{PoolError, PoolIndexClient};
use rand::RngExt;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::Duration;

const KEYS: u64 = 120;
const OPERATIONS: usize = 60;

/// A lease of locks for the clock of [`DamagedEndpoint`], on which each post takes a millisecond.
const LEASE: ChimeLockKind = ChimeLockKind::Leased(Duration::from_millis(100));

/// Memory nodes whose programs report random numbers.
struct LyingPrograms(SmallRng);

impl PoolProgramExecutor for LyingPrograms {
    fn run(&mut self, query: &TraversalQuery, _: u64) -> Result<TraversalOutcome, String> {
        let random = &mut self.0;
        let mut scratchpad = query.scratchpad.clone();
        let (words, _) = scratchpad.as_chunks_mut::<8>();
        for word in words {
            let number = match random.random_range(0..6) {
                0 => random.random(),
                1 => u64::MAX,
                2 => random.random_range(0..4),
                3 => query.start,
                _ => continue,
            };
            *word = number.to_le_bytes();
        }
        Ok(TraversalOutcome {
            status: match random.random_range(0..8) {
                0 => TraversalStatus::Denied,
                1..4 => TraversalStatus::IterationLimit,
                _ => TraversalStatus::Done,
            },
            address: random.random::<u64>() >> random.random_range(0..64),
            scratchpad,
            iterations: random.random(),
        })
    }
}

/// Executes an operation that only trees have.
async fn operate_on_tree(
    tree: &ChimeTree<DamagedEndpoint>,
    random: &mut SmallRng,
    programs: &mut LyingPrograms,
    value_bytes: usize,
) -> Result<(), PoolError> {
    let from = key(random.random_range(0..KEYS));
    let filter = ValueFilter::at_least(random.random::<u64>() >> random.random_range(0..64));
    let range = PoolScanRange::new(&from, &[0xff; 8]);
    let is_asked = random.random_bool(0.5);
    let programs = is_asked.then_some(programs as &mut dyn PoolProgramExecutor);
    match random.random_range(0..4) {
        0 => {
            let count = [1, 10, 1000][random.random_range(0..3)];
            tree.scan_back(&from, count).await.map(drop)
        }
        1 => {
            let decision = match random.random_bool(0.5) {
                true => KeyChangeDecision::Put(vec![random.random(); value_bytes]),
                false => KeyChangeDecision::Remove,
            };
            let decide = async |_: Option<&[u8]>| Ok(decision.clone());
            tree.alter(&from, decide).await.map(drop)
        }
        2 => tree.aggregate(&range, &filter, programs).await.map(drop),
        _ => tree.select(&range, &filter, programs).await.map(drop),
    }
}

/// Executes operations of two clients, of which the second opens the tree when memory is damaged.
fn use_tree(memory: &DamagedMemory, options: ChimeOptions) {
    let random = &mut memory.random();
    let programs = &mut LyingPrograms(memory.random());
    let value_bytes = options.shape.value_bytes;
    let open = |node| ChimeTree::open(memory.endpoint(), memory.nodes(), INDEX_ROOT, node);
    let create = async {
        let endpoint = memory.endpoint();
        let node = compute_node(options);
        let tree = ChimeTree::create(endpoint, memory.nodes(), INDEX_ROOT, node).await?;
        let mut numbers: Vec<u64> = (0..KEYS).collect();
        numbers.shuffle(&mut memory.random());
        for number in numbers {
            let value = vec![number as u8; value_bytes];
            tree.insert(&key(number), &value).await?;
        }
        Ok::<_, PoolError>(tree)
    };
    let first = memory.finish(create).expect("memory is not damaged yet");
    memory.begin();
    let second = memory.finish(open(compute_node(options)));
    for _ in 0..OPERATIONS {
        let tree = match &second {
            Ok(second) if random.random_bool(0.5) => second,
            _ => &first,
        };
        // Errors are what a client should meet.
        let _ = memory.finish(async {
            if random.random_bool(0.3) {
                operate_on_tree(tree, random, programs, value_bytes).await
            } else {
                let key = |number| key(number).to_vec();
                operate(tree, random, KEYS, key, value_bytes).await
            }
        });
    }
}

#[test]
fn trees_neither_panic_nor_hang() {
    for options in steps() {
        for delivery in [Delivery::Torn, Delivery::TornWords] {
            let plan = DamagePlan {
                delivery,
                ..DamagePlan::default()
            };
            let locks = match options.locks {
                ChimeLockKind::Leased(_) => LEASE,
                spinning => spinning,
            };
            let options = ChimeOptions { locks, ..options };
            check_damage(6, &plan, |memory| use_tree(memory, options));
        }
    }
}

/// The header has a root word, formats and tables, of which none may be what it should be.
#[test]
fn damaged_headers_are_refused_or_found_out() {
    let options = ChimeOptions {
        locks: LEASE,
        ..crate::trees::nearfield()
    };
    let plan = DamagePlan::default();
    check_damage(60, &plan, |memory| {
        let node = compute_node(options);
        let endpoint = memory.endpoint();
        let create = ChimeTree::create(memory.endpoint(), memory.nodes(), INDEX_ROOT, node);
        memory.finish(create).map(drop).expect("memory");
        let random = &mut memory.random();
        let at = INDEX_ROOT.plus(random.random_range(0..48));
        let word = random.random::<u64>() >> random.random_range(0..64);
        let word = word.to_le_bytes();
        memory.finish(endpoint.write(at, &word)).expect("memory");
        let open = ChimeTree::open(endpoint, memory.nodes(), INDEX_ROOT, compute_node(options));
        let Ok(tree) = memory.finish(open) else {
            return;
        };
        for _ in 0..5 {
            let key = |number| key(number).to_vec();
            let _ = memory.finish(operate(&tree, random, KEYS, key, 8));
        }
    });
}

thread_local! {
    static ENDPOINT: RefCell<Option<DamagedEndpoint>> = const { RefCell::new(None) };
}

/// Executes operations of a store.
fn use_store<F: PoolEntryForm>(
    memory: &DamagedMemory,
    options: &StoreOptions,
    entry: impl Fn(&mut SmallRng) -> (F::OwnedKey, F::OwnedValue),
) {
    let random = &mut memory.random();
    ENDPOINT.set(Some(memory.endpoint()));
    let connect = || ENDPOINT.with_borrow(Clone::clone).ok_or_else(String::new);
    let store: PoolStore<F, DamagedEndpoint> =
        PoolStore::open(connect, options).expect("memory is not damaged yet");
    let keys: BTreeSet<_> = (0..100)
        .map(|_| entry(random))
        .map(|(key, _)| key)
        .collect();
    for key in &keys {
        let (_, value) = entry(random);
        memory.begin_operation();
        let inserted = store.insert(F::key(key), F::value(&value));
        inserted.map(drop).expect("memory is not damaged yet");
    }
    memory.begin();
    for _ in 0..OPERATIONS {
        memory.begin_operation();
        let (key, value) = entry(random);
        let (key, value) = (F::key(&key), F::value(&value));
        match random.random_range(0..10) {
            0 => drop(store.get(key)),
            1 => drop(store.insert(key, value)),
            2 => drop(store.put(key, value)),
            3 => drop(store.remove(key)),
            4 => drop(store.count()),
            5 => {
                let filter = ValueFilter::at_most(random.random());
                let range = (Bound::Included(key), Bound::Unbounded);
                let mut selection = store.selection(range, filter);
                let _ = store.aggregate(&selection);
                while let Ok(Some(_)) = store.select(&mut selection) {}
            }
            _ => {
                let mut batch = Batch::<F>::new();
                for other in &keys {
                    match random.random_range(0..20) {
                        0 => batch.predecessor(F::key(other)),
                        1 => batch.successor(F::key(other)),
                        2 => batch.update(F::key(other), Some(value), value),
                        3 => batch.remove(F::key(other)),
                        4 => batch.insert(F::key(other), value),
                        _ => batch.get(F::key(other)),
                    };
                }
                let (low, high) = (Bound::Excluded(key), Bound::Unbounded);
                let limit = [1, 10, 1000][random.random_range(0..3)];
                batch.scan(low, high, limit, ScanDirection::Ascending);
                batch.scan(high, Bound::Included(key), limit, ScanDirection::Descending);
                let _ = store.execute(&mut batch);
            }
        }
    }
    ENDPOINT.take();
}

#[test]
fn stores_neither_panic_nor_hang() {
    let options = StoreOptions::default();
    let plan = DamagePlan {
        node_bytes: 32 << 20,
        ..DamagePlan::default()
    };
    check_damage(4, &plan, |memory| {
        use_store::<Words>(memory, &options, |random| {
            (random.random_range(0..200), random.random())
        });
    });
    // In the others slots do not hold all keys, and keys share blocks.
    for (key_slot_bytes, key_hash_bytes) in [(None, 0), (Some(3), 0), (Some(1), 4)] {
        let options = StoreOptions {
            key_slot_bytes,
            key_hash_bytes,
            ..options
        };
        check_damage(3, &plan, |memory| {
            use_store::<ByteStrings>(memory, &options, |random| {
                let length = random.random_range(0..8);
                let long = if random.random_bool(0.2) { 5000 } else { 30 };
                let value = vec![7; random.random_range(0..long)];
                let key = (0..length).map(|_| random.random_range(0..3)).collect();
                (key, value)
            });
        });
    }
}
