use super::*;
use nearfield_core::packed::Packed;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

fn memory() -> Memory {
    Memory::new(usize::MAX, GRANULE_BYTES, GRANULES_MAX).expect("address space")
}

#[test]
fn every_entry_is_found_and_no_other() {
    let memory = memory();
    let guard = crossbeam_epoch::pin();
    let keys: Vec<String> = (0..STRINGS_MAX).map(|i| format!("key {i:02}")).collect();
    let entries: Vec<Entry<'_>> = keys
        .iter()
        .map(|key| (key.as_bytes(), &key.as_bytes()[4..]))
        .collect();
    for count in 1..=STRINGS_MAX {
        let leaf = create(&memory, &entries[..count]).expect("memory");
        let block = Strings::at(&memory, leaf, &guard);
        assert_eq!(block.count(), count);
        for (i, (key, value)) in entries.iter().enumerate() {
            assert_eq!(block.find(key), (i < count).then_some((i, *value)));
            assert_eq!(block.rank(key), i.min(count));
        }
        assert!(block.entries().eq(entries[..count].iter().copied()));
        assert!(block.find(b"").is_none() && block.find(b"key 00 ").is_none());
        // SAFETY: no other thread knows the block.
        unsafe { free(&memory, leaf) };
    }
    assert_eq!(memory.bytes().leaf_bytes, 0);
}

#[test]
fn a_removed_entry_is_not_found_and_its_neighbours_are() {
    let memory = memory();
    let guard = crossbeam_epoch::pin();
    let entries: [Entry<'_>; 3] = [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")];
    let leaf = create(&memory, &entries).expect("memory");
    remove(&memory, leaf, 1);
    let block = Strings::at(&memory, leaf, &guard);
    assert_eq!((block.find(b"b"), block.count()), (None, 2));
    assert!(block.entries().map(|entry| entry.0).eq([b"a", b"c"]));
    assert!(!block.is_dead());
    mark_dead(&memory, leaf);
    let block = Strings::at(&memory, leaf, &guard);
    assert!(block.is_dead() && block.find(b"c").is_some());
}

#[test]
fn an_edited_copy_equals_a_new_block() {
    let memory = memory();
    let guard = crossbeam_epoch::pin();
    let keys: Vec<String> = (0..=STRINGS_MAX).map(|i| format!("{i:03}")).collect();
    let values = ["", "1", &"long".repeat(100)];
    for count in 1..=STRINGS_MAX {
        for position in 0..=count {
            for (i, value) in values.iter().enumerate() {
                let entry = |key: usize, value| (keys[key].as_bytes(), value);
                let mut all: Vec<_> = (0..=count).map(|key| entry(key, &b"old"[..])).collect();
                all[position].1 = value.as_bytes();
                let mut others = all.clone();
                let replaced = match i == 1 && position < count {
                    true => {
                        others.pop();
                        all.pop();
                        others[position].1 = b"old";
                        Some(position)
                    }
                    false => {
                        others.remove(position);
                        None
                    }
                };
                let old = create(&memory, &others).expect("memory");
                let block = Strings::at(&memory, old, &guard);
                let edited = create_edited(&memory, block, replaced, all[position]);
                assert_eq!(edited.is_some(), fits(&all));
                let Some(Ok(edited)) = edited else { continue };
                let block = Strings::at(&memory, edited, &guard);
                assert!(block.entries().eq(all.iter().copied()));
                for (i, (key, value)) in all.iter().enumerate() {
                    assert_eq!(block.find(key), Some((i, *value)));
                }
            }
        }
    }
}

#[test]
fn a_long_entry_is_kept_outside() {
    let memory = memory();
    let guard = crossbeam_epoch::pin();
    let value = vec![7; 100_000];
    let leaf = create(&memory, &[(b"long", &value)]).expect("memory");
    assert!(memory.has_outside());
    assert!(!fits(&[(b"long", &value), (b"other", b"")]));
    let block = Strings::at(&memory, leaf, &guard);
    assert_eq!(block.find(b"long"), Some((0, &value[..])));
    // SAFETY: no other thread knows the block.
    unsafe { free(&memory, leaf) };
    assert!(!memory.has_outside());
}

/// Works at grace periods for a while, or until those have passed that a ticket asks for.
fn pass(memory: &Arc<Memory>, ticket: u32, tries: usize) {
    for _ in 0..tries {
        if memory.grace.has_passed(ticket) {
            return;
        }
        let guard = crossbeam_epoch::pin();
        memory.begin_grace(&guard);
        guard.flush();
    }
}

/// Random changes, in place where there is room, against a `BTreeMap`.
#[test]
fn a_block_that_is_changed_in_place_equals_a_map() {
    let memory = Arc::new(memory());
    let mut rng = SmallRng::seed_from_u64(7);
    let (mut set_in_place, mut inserted, mut copied) = (0, 0, 0);
    for round in 0..300 {
        let first = format!("{:03}", rng.random_range(0..1000)).into_bytes();
        let mut leaf = create(&memory, &[(&first, b"first")]).expect("memory");
        let mut map = BTreeMap::from([(first, b"first".to_vec())]);
        for _ in 0..100 {
            let guard = crossbeam_epoch::pin();
            let block = Strings::at(&memory, leaf, &guard);
            let known = map.keys().nth(rng.random_range(0..map.len()));
            let key = match rng.random_range(0..3) {
                0 if map.len() < 25 => format!("{:03}", rng.random_range(0..1000)).into_bytes(),
                _ => known.expect("a key").clone(),
            };
            let found = block.find(&key);
            assert_eq!(
                found.map(|found| found.1),
                map.get(&key).map(|value| &value[..])
            );
            if let Some((slot, _)) = found
                && map.len() > 1
                && rng.random_range(0..4) == 0
            {
                remove(&memory, leaf, slot);
                map.remove(&key);
            } else {
                let value = vec![rng.random(); rng.random_range(0..20)];
                let slot = found.map(|found| found.0);
                let changed = match slot {
                    Some(slot) => set(&memory, leaf, block, slot, &value, &guard),
                    None if block.has_room_for_key(&key, &value) => {
                        insert(&memory, leaf, block, (&key, &value));
                        inserted += 1;
                        true
                    }
                    None => false,
                };
                set_in_place += usize::from(changed);
                if !changed {
                    let copy = create_edited(&memory, block, slot, (&key, &value));
                    leaf = copy.expect("room").expect("memory");
                    copied += 1;
                }
                map.insert(key, value);
            }
            let block = Strings::at(&memory, leaf, &guard);
            let entries = map.iter().map(|(key, value)| (&key[..], &value[..]));
            assert!(block.entries().eq(entries.clone()), "round {round}");
            let (mut packed, mut count) = (Vec::new(), 0);
            let snapshot = block.snapshot();
            let _ = snapshot.runs(0..snapshot.count(), |bytes, entries| {
                packed.extend_from_slice(bytes);
                count += entries;
                ControlFlow::Continue(())
            });
            let bytes = &packed[..];
            assert!(Packed { bytes, count }.eq(entries), "round {round}");
            drop(guard);
            if rng.random_range(0..3) == 0 {
                let ticket = memory.grace.ticket(&crossbeam_epoch::pin());
                pass(&memory, ticket, 20);
            }
        }
    }
    assert!(
        set_in_place > copied && inserted > 0,
        "{set_in_place} {inserted} {copied}"
    );
}

/// A change while a snapshot is taken is noticed, whatever it changes.
#[test]
fn a_snapshot_is_of_one_instant() {
    let memory = memory();
    let guard = crossbeam_epoch::pin();
    let keys: Vec<[u8; 1]> = (b'b'..=b'm').map(|key| [key]).collect();
    let entries: Vec<Entry<'_>> = keys.iter().map(|key| (&key[..], &b"old"[..])).collect();
    let old = create(&memory, &entries).expect("memory");
    let old = Strings::at(&memory, old, &guard);
    let leaf = create_edited(&memory, old, Some(0), entries[0]);
    let leaf = leaf.expect("room").expect("memory");
    let block = || Strings::at(&memory, leaf, &guard);
    let taken_while = |change: &dyn Fn()| {
        let mut calls = 0;
        let snapshot = block().snapshot_while(|| {
            calls += 1;
            if calls == 1 {
                change();
            }
        });
        assert_eq!(calls, 2, "the change was not noticed");
        let entries = (0..snapshot.count()).map(|position| snapshot.entry(position));
        assert!(entries.eq(block().entries()));
    };
    taken_while(&|| assert!(set(&memory, leaf, block(), 3, b"new", &guard)));
    taken_while(&|| insert(&memory, leaf, block(), (b"a", b"new")));
    taken_while(&|| remove(&memory, leaf, 5));
    let dies = block().snapshot_while(|| mark_dead(&memory, leaf));
    assert_eq!(dies.count(), entries.len());
}

/// A value that a thread may still read is not overwritten.
#[test]
fn a_hole_waits_for_its_readers() {
    let memory = Arc::new(memory());
    let entries: Vec<[u8; 1]> = (0..8).map(|i| [i]).collect();
    let entries: Vec<Entry<'_>> = entries.iter().map(|key| (&key[..], &b"old"[..])).collect();
    let guard = crossbeam_epoch::pin();
    let leaf = create(&memory, &entries).expect("memory");
    let block = || Strings::at(&memory, leaf, &guard);
    let room = create_edited(&memory, block(), Some(0), (&[0], b"one"));
    let leaf = room.expect("room").expect("memory");
    let block = || Strings::at(&memory, leaf, &guard);
    let lent = block().find(&[0]).expect("a key").1;
    let sets = (0..100).take_while(|_| set(&memory, leaf, block(), 0, b"two", &guard));
    assert!(sets.count() < 100, "there is no such room");
    assert_eq!(lent, b"one");
    let ticket = memory.grace.ticket(&guard);
    pass(&memory, ticket, 100);
    assert!(!set(&memory, leaf, block(), 0, b"two", &guard));
    drop(guard);
    pass(&memory, ticket, usize::MAX);
    let guard = crossbeam_epoch::pin();
    let block = Strings::at(&memory, leaf, &guard);
    assert!(set(&memory, leaf, block, 0, b"two", &guard));
}
