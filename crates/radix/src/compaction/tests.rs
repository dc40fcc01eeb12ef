use super::*;
use crate::engine::{Combine, EngineOptions};
use crate::radix::RadixIndex;
use nearfield_core::{Batch, OrderedIndex, ScanDirection};
use nearfield_testkit::concurrent::{self, ConcurrentTestConfig};
use nearfield_testkit::model;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

/// Moves all blocks, as a round moves those of its memory. Returns their number.
fn move_all(index: &RadixIndex<ByteStrings>) -> usize {
    let tree = &index.tree;
    let mut keys = Vec::new();
    index.scan(Bound::Unbounded, ScanDirection::Ascending, 0, |key, _| {
        keys.push(key.to_vec());
        ControlFlow::Continue(())
    });
    let guard = tree.writer();
    let mut leaves: Vec<Ref> = keys
        .iter()
        .map(|key| tree.descend(key, usize::MAX, &mut Off).child)
        .filter(|child| child.is_leaf())
        .collect();
    leaves.dedup();
    for &leaf in &leaves {
        tree.move_block(leaf, &guard).expect("memory");
    }
    leaves.len()
}

/// A map whose blocks move after every operation.
struct BlockMovingIndex(RadixIndex<ByteStrings>);

impl OrderedIndex<ByteStrings> for BlockMovingIndex {
    fn execute(&self, batch: &mut Batch<ByteStrings>) -> Result<(), OperationError> {
        self.0.execute(batch)?;
        move_all(&self.0);
        Ok(())
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn check_invariants(&self) {
        self.0.check_invariants();
    }
}

fn new() -> RadixIndex<ByteStrings> {
    RadixIndex::new().expect("address space")
}

#[test]
fn answers_are_the_models_while_blocks_move() {
    let mut moved = 0;
    model::check_with::<ByteStrings, _>(
        30,
        |_| new(),
        |index, random| {
            index.set_options(EngineOptions {
                combine: match random & 1 {
                    0 => Combine::Never,
                    _ => Combine::Always,
                },
                shortcut_bytes: if random & 2 == 0 { 0 } else { 1 << 12 },
                ..EngineOptions::default()
            });
            moved += move_all(index);
        },
    );
    assert!(moved > 1_000, "{moved} blocks moved");
}

#[test]
fn operations_are_linearizable_while_blocks_move() {
    concurrent::check::<ByteStrings, _>(2, &ConcurrentTestConfig::default(), |_| {
        BlockMovingIndex(new())
    });
}

/// Loads keys in random order, which leaves free memory in all spans.
fn load(keys: &mut [u32], rng: &mut SmallRng) -> RadixIndex<ByteStrings> {
    let index = new();
    keys.shuffle(rng);
    let mut batch = Batch::<ByteStrings>::new();
    for part in keys.chunks(64) {
        part.iter().for_each(|key| {
            let value = vec![*key as u8; 20 + *key as usize % 7];
            batch.insert(key_of(*key).as_bytes(), &value);
        });
        index.execute(&mut batch).expect("memory");
        batch.clear();
    }
    index
}

fn key_of(key: u32) -> String {
    format!("key:{key:012}")
}

/// Compacts until there is no more to do.
fn compact(index: &RadixIndex<ByteStrings>) {
    let begun = Instant::now();
    while index.compact(256) {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not end");
    }
}

#[test]
fn memory_is_given_back_and_all_entries_stay() {
    let mut keys: Vec<u32> = (0..600_000).collect();
    let index = load(&mut keys, &mut SmallRng::seed_from_u64(1));
    let lent = <ByteStrings as crate::radix::RadixForm>::lend(&index, key_of(7).as_bytes());
    let lent = lent.expect("a short key").expect("it exists");
    let before = index.memory();
    assert!(
        before.taken_bytes > before.total_bytes() / 8 * 9,
        "there is no work: {before:?}"
    );
    // Its reader may still read the block, so compaction neither gives back this memory nor waits
    // for it.
    (0..1_000).for_each(|_| assert!(index.compact(256), "there is more to do"));
    assert_eq!(&*lent, &[7; 20]);
    drop(lent);
    let begun = Instant::now();
    let after = loop {
        compact(&index);
        let after = index.memory();
        if after.taken_bytes < after.total_bytes() / 100 * 112 {
            break after;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{before:?}, then {after:?}"
        );
        // Readers of other tests may hold back memory that a round would have given back. Then the
        // round seemed useless.
        index.tree.rounds.try_lock().unwrap().useless_at = None;
        std::thread::yield_now();
    };
    assert!(after.total_bytes() <= before.total_bytes(), "{after:?}");
    index.check_invariants();
    for &key in &keys {
        let value = index.read(key_of(key).as_bytes(), |value| {
            value.len() == 20 + key as usize % 7 && value.iter().all(|&byte| byte == key as u8)
        });
        assert_eq!(value, Some(true), "{key}");
    }
}

/// Four threads each write their own keys and read all, while a fifth moves blocks.
#[test]
fn other_threads_write_while_memory_is_given_back() {
    const THREADS: u32 = 4;
    const KEYS: u32 = 400_000;
    let mut keys: Vec<u32> = (0..KEYS).collect();
    let index = load(&mut keys, &mut SmallRng::seed_from_u64(2));
    let left = AtomicUsize::new(THREADS as usize);
    let moved = std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (index, left) = (&index, &left);
            scope.spawn(move || {
                let mut rng = SmallRng::seed_from_u64(u64::from(thread));
                let mut own = vec![None; (KEYS / THREADS) as usize];
                let mut batch = Batch::<ByteStrings>::new();
                for _ in 0..4_000 {
                    for _ in 0..16 {
                        let place = rng.random_range(0..KEYS / THREADS);
                        let key = key_of(place * THREADS + thread);
                        let length: usize = rng.random_range(0..=40);
                        own[place as usize] = Some(length.checked_sub(1));
                        match length {
                            0 => batch.remove(key.as_bytes()),
                            _ => batch.insert(key.as_bytes(), &vec![length as u8; length - 1]),
                        };
                        let other = key_of(rng.random_range(0..KEYS));
                        index.read(other.as_bytes(), |value| {
                            assert!(value.windows(2).all(|pair| pair[0] == pair[1]));
                        });
                    }
                    index.execute(&mut batch).expect("memory");
                    batch.clear();
                }
                for (place, length) in own.iter().enumerate() {
                    let key = key_of(place as u32 * THREADS + thread);
                    let found = index.read(key.as_bytes(), <[u8]>::len);
                    if let Some(length) = *length {
                        assert_eq!(found, length, "{key}");
                    }
                }
                left.fetch_sub(1, Ordering::Release);
            });
        }
        let mut moved = 0;
        while left.load(Ordering::Acquire) > 0 {
            moved += usize::from(index.compact(64));
        }
        moved
    });
    assert!(moved > 100, "{moved} calls moved blocks");
    compact(&index);
    index.check_invariants();
}
