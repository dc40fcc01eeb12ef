//! Concurrent threads on one tree: their outcomes are linearizable, scans are complete, and, under
//! AddressSanitizer, no freed memory is used.
#![cfg(not(loom))]

use nearfield_core::{Batch, ByteStrings, OrderedIndex, ScanDirection, Words};
use nearfield_radix::{EngineOptions, RadixForm, RadixIndex};
use nearfield_testkit::concurrent::{self, ConcurrentTestConfig};
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicUsize, Ordering};

fn new<F: RadixForm>(seed: u64) -> RadixIndex<F> {
    let index = RadixIndex::new().expect("address space");
    index.set_options(match seed % 3 {
        0 => EngineOptions::default(),
        1 => EngineOptions::data_centric(1 << 12),
        _ => EngineOptions::operation_centric(),
    });
    index
}

#[test]
fn words_are_linearizable() {
    concurrent::check::<Words, _>(9, &ConcurrentTestConfig::default(), new);
}

#[test]
fn bytes_are_linearizable() {
    concurrent::check::<ByteStrings, _>(9, &ConcurrentTestConfig::default(), new);
}

/// Threads change blocks of byte strings in place: they overwrite values with others of the same
/// length, and insert and remove keys between those that stay. Readers find each key that stays, by
/// each method of reading, and in each value the bytes of one write.
#[test]
fn readers_see_whole_values_and_all_keys_that_stay() {
    check_whole_values([16, 13, 9, 16, 15, 20]);
}

/// The test above, with values that readers do not copy into registers.
#[test]
fn readers_see_whole_long_values() {
    check_whole_values([300, 17, 100, 257, 20, 600]);
}

/// Runs the test with values of these lengths for the keys that stay.
fn check_whole_values(lengths: [usize; 6]) {
    const KEYS: u8 = 40;
    const ROUNDS: usize = 400_000;
    const LENGTH_MAX: usize = 600;
    let index = RadixIndex::<ByteStrings>::new().expect("address space");
    let length = |key: u8| lengths[usize::from(key) / 2 % 6];
    for key in (0..KEYS).step_by(2) {
        index.insert(&[key], &vec![1; length(key)]).expect("insert");
    }
    let writers_left = AtomicUsize::new(2);
    let check = |key: u8, value: &[u8]| {
        let whole = value.iter().all(|&byte| byte == value[0]);
        assert!(whole && value.len() == length(key), "{key}: {value:?}");
    };
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (index, writers_left) = (&index, &writers_left);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let key = (round * 7 + thread) as u8 % KEYS;
                    if key % 2 == 1 && round / 40 % 2 == 0 {
                        index.remove(&[key]).expect("remove");
                    } else {
                        let value = [round as u8; LENGTH_MAX];
                        index.insert(&[key], &value[..length(key)]).expect("insert");
                    }
                }
                writers_left.fetch_sub(1, Ordering::Release);
            });
        }
        for reader in 0..2 {
            let (index, writers_left, check) = (&index, &writers_left, &check);
            scope.spawn(move || {
                let mut batch = Batch::<ByteStrings>::new();
                let mut round = reader;
                while writers_left.load(Ordering::Acquire) > 0 {
                    round += 1;
                    let stays = (round * 2) as u8 % KEYS;
                    assert!(index.read(&[stays], |value| check(stays, value)).is_some());
                    let lent = ByteStrings::lend(index, &[stays]).expect("a key");
                    check(stays, &lent.expect("a stable key"));
                    batch.clear();
                    for key in (0..KEYS).step_by(2) {
                        batch.get(&[key]);
                    }
                    let scan = batch.scan(
                        Bound::Unbounded,
                        Bound::Unbounded,
                        1000,
                        ScanDirection::Ascending,
                    );
                    index.execute(&mut batch).expect("a batch");
                    for (position, key) in (0..KEYS).step_by(2).enumerate() {
                        check(key, batch.value(position).expect("a stable key"));
                    }
                    let mut stay = 0;
                    let mut last = None;
                    for (key, value) in batch.entries(scan) {
                        check(key[0], value);
                        assert!(last < Some(key[0]), "{last:?} before {key:?}");
                        last = Some(key[0]);
                        stay += u8::from(key[0] % 2 == 0);
                    }
                    assert_eq!(stay, KEYS / 2);
                    stay = 0;
                    index.scan(
                        Bound::Unbounded,
                        ScanDirection::Descending,
                        64,
                        |key, value| {
                            check(key[0], value);
                            stay += u8::from(key[0] % 2 == 0);
                            ControlFlow::Continue(())
                        },
                    );
                    assert_eq!(stay, KEYS / 2);
                }
            });
        }
    });
    index.check_invariants();
}

/// Threads insert and remove the same dense runs, so that nodes of all kinds grow and shrink
/// concurrently; the final tree must be valid.
#[test]
fn nodes_grow_and_shrink_under_each_other() {
    let index = RadixIndex::<Words>::new().expect("address space");
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let index = &index;
            scope.spawn(move || {
                for round in 0..60 {
                    let start = (round + thread) % 3 * 100;
                    for key in start..start + 200 {
                        index.insert(key * 7 % 400, key).expect("insert");
                    }
                    for key in start..start + 200 {
                        index.remove(key * 11 % 400).expect("remove");
                    }
                }
            });
        }
    });
    index.check_invariants();
}

/// Regression test: a failed attempt to take a lock once released the lock of its holder, so that
/// two threads that made neighbouring nodes grow lost entries. Threads insert disjoint keys, next
/// to each other in the same nodes; all keys must be there.
#[test]
fn neighbours_do_not_lose_each_others_inserts() {
    const KEYS: u64 = 300_000;
    const THREADS: u64 = 4;
    for round in 0..6u64 {
        let index = RadixIndex::<Words>::new().expect("address space");
        let place = |number: u64| match round % 2 {
            0 => number,
            _ => number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        let start = std::sync::Barrier::new(THREADS as usize);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (index, start) = (&index, &start);
                scope.spawn(move || {
                    start.wait();
                    for number in (thread..KEYS).step_by(THREADS as usize) {
                        index.insert(place(number), number).expect("insert");
                    }
                });
            }
        });
        index.check_invariants();
        assert_eq!(index.len() as u64, KEYS);
        for number in 0..KEYS {
            assert_eq!(index.get(place(number)), Ok(Some(number)));
        }
    }
}

/// A thread inserts and removes keys that leave the path to all others early, so that walks of
/// other threads may jump past other bytes each time. Others insert and remove keys after these.
/// Readers find each key that stays.
#[test]
fn readers_find_all_keys_while_jumps_change() {
    const KEYS: u32 = 4000;
    const ROUNDS: u32 = 13_000;
    let index = RadixIndex::<ByteStrings>::new().expect("address space");
    let key = |number: u32| format!("user:{number:08}").into_bytes();
    for number in (0..KEYS).step_by(2) {
        index.insert(&key(number), b"stays").expect("insert");
    }
    let writers_left = AtomicUsize::new(2);
    std::thread::scope(|scope| {
        let (index, writers_left) = (&index, &writers_left);
        scope.spawn(move || {
            for round in 0..ROUNDS {
                let round = round as usize;
                // The numbers of the others begin with four zeros.
                let within_numbers = [&key(0)[..5 + round / 3 % 4], b"x"].concat();
                let before_numbers = [&b"users"[..3 + round % 3], b"y"].concat();
                for early in [within_numbers, before_numbers] {
                    index.insert(&early, b"goes").expect("insert");
                    assert!(index.remove(&early).expect("remove").is_some());
                }
            }
            writers_left.fetch_sub(1, Ordering::Release);
        });
        scope.spawn(move || {
            let mut batch = Batch::<ByteStrings>::new();
            for round in 0..ROUNDS / 20 {
                // Enough keys after each other that nodes divide, and are replaced by others.
                for removes in [false, true] {
                    batch.clear();
                    for number in 0..400 {
                        let long =
                            [&key(round % KEYS)[..], format!("{number:03}").as_bytes()].concat();
                        match removes {
                            true => batch.remove(&long),
                            false => batch.insert(&long, b"goes"),
                        };
                    }
                    index.execute(&mut batch).expect("changes");
                }
            }
            writers_left.fetch_sub(1, Ordering::Release);
        });
        for reader in 0..2 {
            scope.spawn(move || {
                let mut batch = Batch::<ByteStrings>::new();
                let mut next = reader;
                while writers_left.load(Ordering::Acquire) > 0 {
                    batch.clear();
                    let numbers = (0..64).map(|step| (next + 2 * 97 * step) % KEYS / 2 * 2);
                    let keys: Vec<_> = numbers.map(key).collect();
                    for key in &keys {
                        batch.get(key);
                    }
                    index.execute(&mut batch).expect("gets");
                    for (position, key) in keys.iter().enumerate() {
                        assert_eq!(batch.value(position), Some(&b"stays"[..]), "{key:?}");
                    }
                    next += 2 * 31;
                }
            });
        }
    });
    index.check_invariants();
}
