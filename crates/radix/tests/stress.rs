//! Concurrent threads on one tree: their outcomes are linearizable, scans are complete, and, under
//! AddressSanitizer, no freed memory is used.
#![cfg(not(loom))]

use nearfield_core::{Bytes, OrderedIndex, Words};
use nearfield_radix::{EngineOptions, Radix, RadixForm};
use nearfield_testkit::concurrent::{self, Config};

fn new<F: RadixForm>(seed: u64) -> Radix<F> {
    let index = Radix::new().expect("address space");
    index.set_options(match seed % 3 {
        0 => EngineOptions::default(),
        1 => EngineOptions::data_centric(1 << 12),
        _ => EngineOptions::operation_centric(),
    });
    index
}

#[test]
fn words_are_linearizable() {
    concurrent::check::<Words, _>(30, &Config::default(), new);
}

#[test]
fn bytes_are_linearizable() {
    concurrent::check::<Bytes, _>(30, &Config::default(), new);
}

/// Threads insert and remove the same dense runs, so that nodes of all kinds grow and shrink
/// concurrently; the final tree must be valid.
#[test]
fn nodes_grow_and_shrink_under_each_other() {
    let index = Radix::<Words>::new().expect("address space");
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

/// A failed attempt to take a lock once released the lock of its holder, so that two threads that
/// made neighbouring nodes grow lost entries. Threads insert disjoint keys, side by side in the
/// same nodes; all keys must be there.
#[test]
fn neighbours_do_not_lose_each_others_inserts() {
    const KEYS: u64 = 300_000;
    const THREADS: u64 = 4;
    for round in 0..6u64 {
        let index = Radix::<Words>::new().expect("address space");
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
