//! The memory held per byte in use. In a separate process, because other pinned threads delay
//! frees.
#![cfg(not(loom))]

use nearfield_core::{Batch, ByteStrings, OrderedIndex};
use nearfield_radix::RadixIndex;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::sync::{Mutex, MutexGuard, PoisonError};

const KEYS: usize = 200_000;

/// Lock of the running test: the other test's pinned threads would delay frees as well.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks the memory held for each byte of leaves in use, without a thread's open span and memory
/// that waits for the epochs.
fn assert_held(index: &RadixIndex<ByteStrings>, when: &str) {
    let memory = index.memory();
    let most = memory.total_bytes() / 2 * 3 + (2 << 20);
    assert!(memory.taken_bytes < most, "{when}: {memory:?}");
}

/// Each insertion replaces a block with one that is an entry longer, and all blocks have about the
/// same length at a time: memory for each length must not be held forever. Then the same with
/// entries that become longer and shorter.
#[test]
fn memory_of_byte_strings_is_used_again_for_blocks_of_other_lengths() {
    let _alone = alone();
    for batch_size in [1, 16, 128] {
        let index = RadixIndex::<ByteStrings>::new().expect("address space");
        let mut rng = SmallRng::seed_from_u64(batch_size as u64);
        let mut numbers: Vec<usize> = (0..KEYS).collect();
        numbers.shuffle(&mut rng);
        let mut batch = Batch::<ByteStrings>::new();
        let mut insert = |number: usize, value: &[u8]| {
            let key = format!("k{number}").into_bytes();
            if batch_size == 1 {
                index.insert(&key, value).expect("memory");
                return;
            }
            batch.insert(&key, value);
            if batch.len() == batch_size {
                index.execute(&mut batch).expect("a batch");
                batch.clear();
            }
        };
        for (i, &number) in numbers.iter().enumerate() {
            insert(number, b"12345678");
            if i % 10_000 == 0 {
                assert_held(&index, "loading");
            }
        }
        assert_held(&index, "loaded");
        for i in 0..2 * KEYS {
            let number = rng.random_range(0..KEYS);
            insert(number, &[7; 60][..rng.random_range(10..=60)]);
            if i % 10_000 == 0 {
                assert_held(&index, "overwriting");
            }
        }
        index.check_invariants();
    }
}

/// Values become longer and then as short as they were. Then the blocks in use are as small as
/// before, and most of the memory that they needed meanwhile is given back.
#[test]
fn memory_of_byte_strings_is_small_again_after_values_were_longer_for_a_time() {
    let _alone = alone();
    let index = RadixIndex::<ByteStrings>::new().expect("address space");
    let mut rng = SmallRng::seed_from_u64(3);
    let mut numbers: Vec<usize> = (0..KEYS).collect();
    let mut batch = Batch::<ByteStrings>::new();
    let mut write_all = |lengths: std::ops::RangeInclusive<usize>| {
        numbers.shuffle(&mut rng);
        for &number in &numbers {
            let value = &[7; 100][..rng.random_range(lengths.clone())];
            batch.insert(format!("key:{number:012}").as_bytes(), value);
            if batch.len() == 16 {
                index.execute(&mut batch).expect("a batch");
                batch.clear();
            }
        }
        index.memory()
    };
    let loaded = write_all(8..=8);
    let mut longer = loaded;
    for _ in 0..3 {
        longer = write_all(1..=100);
    }
    let again = write_all(8..=8);
    assert!(
        again.total_bytes() < loaded.total_bytes() / 10 * 11,
        "{again:?} after {loaded:?}"
    );
    let more = longer.taken_bytes - loaded.taken_bytes;
    assert!(
        again.taken_bytes < loaded.taken_bytes + more / 3,
        "{again:?} after {longer:?} and {loaded:?}"
    );
    while index.compact(256) {}
    let compact = index.memory();
    assert!(
        compact.taken_bytes < loaded.taken_bytes / 20 * 21
            && compact.total_bytes() <= again.total_bytes(),
        "{compact:?} after {loaded:?}"
    );
    index.check_invariants();
}
