use super::*;
use crate::object::testing::{bytes, for_each_seed};
use nearfield_tiers::AccountedHeap;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn behaves_like_a_map() {
    for_each_seed(60, |random| {
        let heap = AccountedHeap::new();
        let mut table = ByteStringTable::new_in(heap.clone());
        let mut model = BTreeMap::new();
        let lengths = [3, 8, 40, 20_000];
        let key_max = lengths[random.random_range(0..3)];
        let value_max = lengths[random.random_range(0..4)];
        let mut inserts = 5;
        for step in 0..3000 {
            if step % 500 == 0 {
                inserts = random.random_range(0..10);
            }
            let key = bytes(random, key_max);
            if random.random_range(0..10) < inserts {
                let value = bytes(random, value_max);
                let (id, existed) = table.insert(&key, &value);
                assert_eq!(table.pair(id), (&key[..], &value[..]));
                assert_eq!(model.insert(key, value).is_some(), existed);
            } else {
                assert_eq!(table.remove(&key), model.remove(&key).is_some());
            }
            let key = bytes(random, key_max);
            assert_eq!(table.get(&key), model.get(&key).map(|value| &value[..]));
            assert_eq!(table.len(), model.len());
            assert_eq!(table.memory_bytes(), heap.used_bytes());
            let is_live = |id| model.contains_key(table.key(id));
            assert_eq!(
                table.random(random).map_or(!model.is_empty(), is_live),
                !model.is_empty()
            );
            if step % 100 == 0 {
                table.check_invariants();
            }
        }
        let other = AccountedHeap::new();
        let copy = table.rebuild_in(other.clone());
        copy.check_invariants();
        assert_eq!(copy.memory_bytes(), other.used_bytes());
        assert!(
            copy.iter()
                .map(|id| copy.key(id))
                .eq(table.iter().map(|id| table.key(id)))
        );
        drop(table);
        assert_eq!(heap.used_bytes(), 0);
    });
}

#[test]
fn a_scan_misses_nothing_that_stays() {
    for_each_seed(100, |random| {
        let mut table = ByteStringTable::new_in(AccountedHeap::new());
        let stay: BTreeSet<u32> = (0..random.random_range(1..300)).map(|i| i * 7).collect();
        let mut others: u32 = random.random_range(0..3000);
        for key in 0..others.max(2100) {
            if key < others || stay.contains(&key) {
                table.insert(&key.to_le_bytes(), b"");
            }
        }
        let mut missing = stay.clone();
        let mut cursor = 0;
        loop {
            cursor = table.scan(cursor, random.random_range(1..20), |id| {
                let key = table.key(id);
                missing.remove(&u32::from_le_bytes(key.try_into().unwrap()));
            });
            if cursor == 0 {
                break;
            }
            for _ in 0..random.random_range(0..300) {
                if random.random_bool(0.9) {
                    others = others.saturating_sub(1);
                    if !stay.contains(&others) {
                        table.remove(&others.to_le_bytes());
                    }
                } else {
                    table.insert(&(10_000 + others).to_le_bytes(), b"");
                }
            }
            if random.random_range(0..10) == 0 {
                table = table.rebuild_in(AccountedHeap::new());
            }
        }
        assert_eq!(missing, BTreeSet::new());
    });
}

#[test]
fn dead_bytes_do_not_pile_up() {
    let mut table = ByteStringTable::new_in(AccountedHeap::new());
    for round in 0..200_usize {
        for key in 0..100_u32 {
            table.insert(
                &key.to_le_bytes(),
                &vec![0; 1 + (round * 37 + key as usize) % 100],
            );
        }
        assert!(table.memory_bytes() < 40_000, "{}", table.memory_bytes());
    }
    for key in 0..100_000_u32 {
        table.insert(&key.to_le_bytes(), &[0; 20]);
    }
    for key in 10..100_000_u32 {
        table.remove(&key.to_le_bytes());
    }
    table.check_invariants();
    assert!(table.memory_bytes() < 100_000, "{}", table.memory_bytes());
}

/// With a zero seed, all keys that begin with eight zeros had one hash.
#[test]
fn keys_that_begin_alike_do_not_collide() {
    let starts: [&[u8]; 4] = [&[0; 8], &[0; 4], &[0xff; 8], b"constant"];
    for start in starts {
        let key = |number: u32| [start, &number.to_be_bytes()].concat();
        let tags: BTreeSet<u64> = (0..2000).map(|number| tag_of(&key(number))).collect();
        assert!(tags.len() > 1990, "{} of {start:?}", tags.len());
    }
    let zeros = (0..40).map(|length| tag_of(&vec![0; length]));
    assert!(zeros.collect::<BTreeSet<u64>>().len() > 38);
}
