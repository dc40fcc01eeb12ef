//! Division, joining and removal of blocks.

use nearfield_core::{Batch, ByteStrings, OrderedIndex, ScanDirection, Words};
use nearfield_radix::{Combine, EngineOptions, RadixIndex};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::{Duration, Instant};

/// An index and its expected content, checked after every step.
#[derive(Default)]
struct Both {
    index: Option<RadixIndex<Words>>,
    model: BTreeMap<u64, u64>,
}

impl Both {
    fn index(&mut self) -> &RadixIndex<Words> {
        self.index
            .get_or_insert_with(|| RadixIndex::new().expect("address space"))
    }

    fn insert(&mut self, key: u64) {
        let before = self.model.insert(key, !key);
        assert_eq!(self.index().insert(key, !key), Ok(before));
        self.check();
    }

    fn remove(&mut self, key: u64) {
        let before = self.model.remove(&key);
        assert_eq!(self.index().remove(key), Ok(before));
        self.check();
    }

    fn check(&mut self) {
        let len = self.model.len();
        let index = self.index();
        index.check_invariants();
        assert_eq!(index.len(), len);
    }
}

/// A gap that a neighbouring block takes over is one range less: a node16 may then have too few.
#[test]
fn a_node_may_shrink_by_an_insert() {
    let mut both = Both::default();
    for low in [
        0x8580_0000,
        0x8582_0000,
        0,
        0xd000_0000,
        0x8580_c000,
        0x85a0_0000,
        0x8580_8000,
        0x8580_e000,
        0xc000_0000,
        0x8500_0000,
        0x8580_f000,
    ] {
        both.insert(0x3f84_9673 << 32 | low);
    }
    both.remove(0x3f84_9673 << 32 | 0xd000_0000);
    both.insert(0x3f84_9673 << 32 | 0xd000_0000);
    both.insert(0x3f84_9673 << 32 | 0xa000_0000);
}

/// Blocks on both sides of every byte of a node, filled up and emptied again from either end.
#[test]
fn ranges_grow_and_shrink_at_every_byte() {
    for byte in [0, 1, 127, 254, 255_u64] {
        let key = |i: u64| 5 << 40 | byte << 32 | (i * 0x0101_0101) & 0xffff_ffff;
        let mut both = Both::default();
        both.insert(5 << 40);
        both.insert(6 << 40);
        (0..60).for_each(|i| both.insert(key(i)));
        (0..256)
            .step_by(17)
            .for_each(|byte| both.insert(5 << 40 | byte << 32 | 7));
        (0..30).for_each(|i| both.remove(key(i)));
        (30..60).rev().for_each(|i| both.remove(key(i)));
        (0..256)
            .step_by(17)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .for_each(|byte| both.remove(5 << 40 | byte << 32 | 7));
        assert!(both.model.len() <= 2);
    }
}

/// Keys in ascending order leave full blocks behind.
#[test]
fn ascending_keys_fill_their_blocks() {
    let index = RadixIndex::<Words>::new().expect("address space");
    let keys = 70_000;
    for i in 0..keys {
        index.insert(i << 16, i).expect("insert");
    }
    let per_key = || index.memory().leaf_bytes as f64 / keys as f64;
    let is_full = || per_key() < 128.0 / 6.0;
    // Replaced blocks are freed once no other test of the process is pinned.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_full() && Instant::now() < deadline {
        crossbeam_epoch::pin().flush();
        std::thread::yield_now();
    }
    assert!(is_full(), "{} bytes of blocks a key", per_key());
    index.check_invariants();
}

/// Byte strings that are prefixes and continuations of each other, and values that fit into a block
/// by the dozen, in twos, or not at all: inserted, overwritten with other lengths, removed.
#[test]
fn strings_of_all_lengths_divide_and_join() {
    let index = RadixIndex::<ByteStrings>::new().expect("address space");
    let mut model = BTreeMap::new();
    let mut batch = Batch::new();
    let lengths = [0, 3, 8, 60, 254, 255, 256, 500, 900, 1000, 1020, 3000];
    for round in 0..4usize {
        for i in 0..600usize {
            let number = i * 7919 % 600;
            let mut key = b"prefix/".repeat(1 + number % 3);
            key.extend((0..number % 5).map(|at| ((number >> at) as u8).wrapping_mul(17)));
            if number % 11 == 0 {
                key.extend([b'k'; 300]);
            }
            let before = if (round + i) % 4 == 3 {
                assert_eq!(index.remove(&key), Ok(model.get(&key).cloned()));
                model.remove(&key)
            } else {
                let value = vec![i as u8; lengths[(number + round * 5) % lengths.len()]];
                assert_eq!(index.insert(&key, &value), Ok(model.get(&key).cloned()));
                model.insert(key.clone(), value)
            };
            drop(before);
            if i % 50 == 0 {
                index.check_invariants();
            }
        }
        for (key, value) in &model {
            assert_eq!(index.get(key).as_ref(), Ok(&Some(value.clone())));
        }
        for direction in [ScanDirection::Ascending, ScanDirection::Descending] {
            batch.clear();
            batch.scan(Bound::Unbounded, Bound::Unbounded, u32::MAX, direction);
            index.execute(&mut batch).expect("scan");
            let scanned = batch.entries(0);
            let expected = model.iter().map(|(key, value)| (&key[..], &value[..]));
            match direction {
                ScanDirection::Ascending => assert!(scanned.eq(expected)),
                ScanDirection::Descending => assert!(scanned.eq(expected.rev())),
            }
        }
    }
    for key in model.keys() {
        assert!(index.remove(key).expect("remove").is_some());
    }
    index.check_invariants();
    assert!(index.is_empty());
}

/// One batch removes all keys below a node to which walks jump, so that no key with the node's
/// prefix is left. Keys with the prefix are inserted again afterwards.
#[test]
fn a_batch_empties_a_node_behind_a_prefix() {
    let (done, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let index = RadixIndex::<ByteStrings>::new().expect("address space");
        index.set_options(EngineOptions {
            combine: Combine::Always,
            ..EngineOptions::default()
        });
        // No two of these keys fit into a block.
        let keys: Vec<_> = (0..4_u8).map(|i| [&[7; 2000][..], &[i]].concat()).collect();
        for count in 1..=keys.len() {
            for _ in 0..2 {
                for key in &keys[..count] {
                    index.insert(key, b"value").expect("insert");
                }
                index.check_invariants();
                let mut batch = Batch::<ByteStrings>::new();
                for key in &keys[..count] {
                    batch.remove(key);
                }
                index.execute(&mut batch).expect("remove");
                assert_eq!(index.len(), 0, "{count} keys");
                index.check_invariants();
            }
        }
        done.send(()).expect("the test waits");
    });
    wait.recv_timeout(Duration::from_secs(50))
        .expect("batches that end");
}

/// Batches empty the nodes below a node one after another. When the last one is gone, the node
/// itself is removed: keys are inserted at its place again.
#[test]
fn a_node_goes_when_all_nodes_below_it_have_gone() {
    let (done, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let index = RadixIndex::<ByteStrings>::new().expect("address space");
        index.set_options(EngineOptions {
            combine: Combine::Always,
            ..EngineOptions::default()
        });
        index.insert(b"key", b"value").expect("insert");
        for count in 1..=40 {
            for _ in 0..2 {
                let keys: Vec<_> = (0..200 * count)
                    .map(|i| format!("user{}:{i:04}", (b'!' + 2 * (i % count) as u8) as char))
                    .collect();
                for key in &keys {
                    index.insert(key.as_bytes(), b"value").expect("insert");
                }
                index.check_invariants();
                let mut batch = Batch::<ByteStrings>::new();
                for key in &keys {
                    batch.remove(key.as_bytes());
                }
                index.execute(&mut batch).expect("remove");
                index.check_invariants();
                assert_eq!(index.len(), 1);
            }
        }
        done.send(()).expect("the test waits");
    });
    wait.recv_timeout(Duration::from_secs(50))
        .expect("inserts that end");
}

#[test]
fn what_is_replaced_is_copied_in_part_if_that_is_asked_for() {
    let index = RadixIndex::<ByteStrings>::new().unwrap();
    let long = |number: u8| vec![number; 100];
    for number in 0..200 {
        index.insert(&[number], &long(number)).unwrap();
    }
    let mut batch = Batch::<ByteStrings>::new();
    batch.cut_replaced(3);
    for number in 0..200 {
        // The same key again, so that some batches are combined by keys.
        for number in [number, number / 64] {
            batch.insert(&[number], &long(number));
            batch.get(&[number]);
        }
    }
    let removed = batch.remove(&[7]);
    let absent = batch.remove(&[7]);
    index.execute(&mut batch).unwrap();
    for position in (0..removed).step_by(2) {
        let number = batch.value(position).unwrap()[0];
        assert_eq!(batch.value(position), Some(&[number; 3][..]));
        assert_eq!(batch.value(position + 1), Some(&long(number)[..]));
    }
    assert_eq!(batch.value(removed), Some(&[7; 3][..]));
    assert_eq!(batch.value(absent), None);
    assert_eq!(index.get(&[8]).unwrap(), Some(long(8)));
}
