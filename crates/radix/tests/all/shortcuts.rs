//! Shortcuts lead to the right place after any changes around hot keys: they are removed and
//! inserted again, and their nodes grow, shrink and become dense, by one thread or by several.

use nearfield_core::{Batch, OrderedIndex, Words};
use nearfield_radix::{EngineOptions, RadixCounters, RadixIndex};
use std::collections::BTreeMap;

/// Returns keys that differ in the last byte, so that their node may become dense, or in the one
/// before.
fn key(number: u64, dense: bool) -> u64 {
    if dense {
        0x0102_0304_0506_0700 | number
    } else {
        0x0102_0304_0506_0000 | number << 8
    }
}

const HOT: std::ops::Range<u64> = 100..104;

/// Reads, writes, removes and inserts hot keys in one batch, and compares with the model.
fn check_hot(
    index: &RadixIndex<Words>,
    model: &mut BTreeMap<u64, u64>,
    round: u64,
    dense: bool,
) -> RadixCounters {
    let mut batch = Batch::new();
    let mut expected = Vec::new();
    for number in HOT {
        let key = key(number, dense);
        expected.push((batch.get(key), model.get(&key).copied()));
        match (round + number) % 5 {
            0 => expected.push((batch.remove(key), model.remove(&key))),
            1 | 2 => expected.push((batch.insert(key, round), model.insert(key, round))),
            _ => {}
        }
        expected.push((batch.get(key), model.get(&key).copied()));
    }
    let mut counters = RadixCounters::default();
    index
        .execute_counted(&mut batch, &mut counters)
        .expect("batch");
    for (handle, value) in expected {
        assert_eq!(batch.value(handle), value, "round {round}");
    }
    counters
}

#[test]
fn hot_keys_are_found_while_their_nodes_change() {
    for options in [
        EngineOptions::data_centric(1 << 12),
        EngineOptions {
            shortcut_bytes: 1 << 12,
            ..EngineOptions::default()
        },
    ] {
        for dense in [false, true] {
            let index = RadixIndex::<Words>::new().expect("address space");
            index.set_options(options);
            let mut model = BTreeMap::new();
            let mut hits = 0;
            for (round, width) in [0, 3, 12, 40, 100, 200, 100, 30, 10, 2]
                .iter()
                .cycle()
                .take(100)
                .enumerate()
            {
                let round = round as u64;
                let mut batch = Batch::new();
                for number in (0..256).filter(|number| !HOT.contains(number)) {
                    let key = key(number, dense);
                    if number < *width {
                        batch.insert(key, round);
                        model.insert(key, round);
                    } else {
                        batch.remove(key);
                        model.remove(&key);
                    }
                }
                index.execute(&mut batch).expect("batch");
                for step in 0..6 {
                    hits += check_hot(&index, &mut model, round + step, dense).shortcut_hits;
                }
                assert_eq!(index.len(), model.len());
                index.check_invariants();
            }
            assert!(hits > 100, "{hits} shortcuts hit");
        }
    }
}

/// Each thread has its own hot keys, in nodes that it shares with the others, and removes and
/// inserts neighbours.
#[test]
fn threads_find_their_hot_keys() {
    for dense in [false, true] {
        let index = &RadixIndex::<Words>::new().expect("address space");
        index.set_options(EngineOptions::data_centric(1 << 12));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || own_keys_stay_right(index, thread, dense));
            }
            for round in 0..50 {
                index.set_options(EngineOptions::data_centric(1 << (10 + round % 3)));
                std::thread::yield_now();
            }
        });
        index.check_invariants();
    }
}

fn own_keys_stay_right(index: &RadixIndex<Words>, thread: u64, dense: bool) {
    let mut model = BTreeMap::new();
    for round in 0..1500 {
        let mut batch = Batch::new();
        let mut expected = Vec::new();
        for number in (thread..256).step_by(4) {
            let key = key(number, dense);
            let hot = number < 16;
            match (hot, (round / 8 + number / 4) % 16) {
                (true, 0) | (false, 0..8) => {
                    expected.push((batch.remove(key), model.remove(&key)));
                }
                (true, _) => {
                    expected.push((batch.get(key), model.get(&key).copied()));
                    expected.push((batch.insert(key, round), model.insert(key, round)));
                }
                (false, _) if round % 8 == 0 => {
                    expected.push((batch.insert(key, round), model.insert(key, round)));
                }
                _ => {}
            }
        }
        index.execute(&mut batch).expect("batch");
        for (handle, value) in expected {
            assert_eq!(batch.value(handle), value, "thread {thread}, round {round}");
        }
    }
}

#[test]
fn a_hot_set_is_found_by_shortcuts() {
    let index = RadixIndex::<Words>::new().expect("address space");
    for number in 0..10_000u64 {
        index
            .insert(number.wrapping_mul(0x9e37_79b9_7f4a_7c15), number)
            .expect("insert");
    }
    index.set_options(EngineOptions::data_centric(1 << 16));
    assert!(index.memory().shortcut_bytes > 0);
    let mut last = RadixCounters::default();
    for _ in 0..3 {
        let mut batch = Batch::new();
        for number in 0..1000u64 {
            batch.get(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
        last = RadixCounters::default();
        index.execute_counted(&mut batch, &mut last).expect("batch");
    }
    assert!(last.shortcut_hits > 950, "{last:?}");
    assert_eq!(last.shortcut_hits + last.shortcut_misses, 1000);
    index.set_options(EngineOptions::default());
    wait_for_the_table_to_go(&index);
}

/// Waits until an unwanted table is dropped, once no thread can be using it.
fn wait_for_the_table_to_go(index: &RadixIndex<Words>) {
    for _ in 0..100_000 {
        if index.memory().shortcut_bytes == 0 {
            return;
        }
        index.get(0).expect("get");
        std::thread::yield_now();
    }
    panic!("the table is still there");
}
