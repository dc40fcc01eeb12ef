use super::*;
use crate::object::frozen::FrozenReader;
use crate::object::node::{Met, ObjectPart, TieredObject};
use crate::object::testing::{bytes, cold, for_each_seed, shuffle};
use nearfield_tiers::AccountedHeap;
use nearfield_tiers::cold::ColdTiers;
use rand::rngs::SmallRng;
use std::collections::BTreeMap;
use std::sync::Arc;

#[test]
fn behaves_like_a_map() {
    for_each_seed(60, |random| {
        let (heap, limits) = (AccountedHeap::new(), ObjectLimits::default());
        let mut hash = Hash::new_in(heap.clone());
        let mut model = BTreeMap::new();
        let length_max = [3, 8, 70][random.random_range(0..3)];
        let removes = random.random_range(1..7);
        for step in 0..1500 {
            let (field, value) = (bytes(random, length_max), bytes(random, length_max));
            if random.random_range(0..10) < removes {
                assert_eq!(hash.remove(&field), model.remove(&field).is_some());
            } else {
                let created = hash.set(&limits, &field, &value);
                assert_eq!(created, model.insert(field, value).is_none());
            }
            let field = bytes(random, length_max);
            let value = model.get(&field).map(|value| &value[..]);
            assert_eq!(hash.get(&field), value);
            assert_eq!(hash.contains(&field), value.is_some());
            assert_eq!(hash.value_len(&field), value.map(<[u8]>::len));
            assert_eq!(hash.len(), model.len());
            assert_eq!(hash.memory_bytes(), heap.used_bytes());
            let (field, value) = hash.random(random).unzip();
            assert_eq!(field.is_none(), model.is_empty());
            assert_eq!(field.and_then(|field| hash.get(field)), value);
            if step % 100 == 0 {
                hash.check_invariants();
                let mut scanned = BTreeMap::new();
                let mut visit = |field: &[u8], value: &[u8]| {
                    scanned.insert(field.to_vec(), value.to_vec());
                };
                let mut cursor = hash.scan(0, 10, &mut visit);
                while cursor != 0 {
                    cursor = hash.scan(cursor, 10, &mut visit);
                }
                assert_eq!(scanned, model);
                hash = hash.rebuild_in(heap.clone());
                let mut fields: Vec<_> = hash.iter().collect();
                fields.sort_unstable();
                assert!(
                    fields
                        .into_iter()
                        .eq(model.iter().map(|(f, v)| (&f[..], &v[..])))
                );
            }
        }
        drop(hash);
        assert_eq!(heap.used_bytes(), 0);
    });
}

#[test]
fn the_form_changes_where_the_limits_say() {
    let limits = ObjectLimits {
        hash_entries_max: 128,
        ..ObjectLimits::default()
    };
    let mut hash = Hash::new_in(AccountedHeap::new());
    for field in 0..128_u8 {
        hash.set(&limits, &[field], &[0; 64]);
    }
    hash.set(&limits, &[0], &[1; 64]);
    assert_eq!(hash.encoding(), "listpack");
    let mut other = hash.rebuild_in(AccountedHeap::new());
    hash.set(&limits, &[128], b"");
    assert_eq!((hash.encoding(), hash.len()), ("hashtable", 129));
    other.set(&limits, &[0], &[1; 65]);
    assert_eq!((other.encoding(), other.len()), ("hashtable", 128));
}

/// Returns a long text that can be compressed, or a short one.
fn text(random: &mut SmallRng) -> Vec<u8> {
    let length = [10, 63, 64, 200, 1000][random.random_range(0..5)];
    let word = bytes(random, 30);
    let letters = word.iter().chain(b" ").cycle();
    letters.take(length).copied().collect()
}

#[test]
fn values_in_cold_tiers_change_nothing_and_only_those_of_the_part_are_read() {
    for_each_seed(60, |random| {
        let (heap, cold) = (AccountedHeap::new(), cold());
        let limits = ObjectLimits {
            hash_entries_max: 4,
            ..ObjectLimits::default()
        };
        let mut hash = Hash::new_in(heap.clone());
        let mut plain = Hash::new_in(AccountedHeap::new());
        let removes = [0.1, 0.5, 0.9][random.random_range(0..3)];
        let length_max = [2, 4][random.random_range(0..2)];
        for step in 0..400 {
            shuffle(&mut hash, 0.7, &cold, random);
            let fields: Vec<Vec<u8>> = (0..3).map(|_| bytes(random, length_max)).collect();
            let some = || fields.iter().map(Vec::as_slice).collect();
            let field = fields[0].as_slice();
            let mut met = Met::new();
            let counts = |hash: &Hash<AccountedHeap>| {
                let len = |field: &Vec<u8>| (hash.contains(field), hash.value_len(field));
                let lens: Vec<_> = fields.iter().map(len).collect();
                (hash.len(), hash.encoding(), lens)
            };
            // These need no value.
            assert_eq!(counts(&hash), counts(&plain));
            assert!(hash.fields().eq(plain.fields()));
            match random.random_range(0..6) {
                0 => {
                    let is_lent = hash
                        .lend(&ObjectPart::Fields(some()), true, &mut met)
                        .unwrap();
                    for field in &fields {
                        assert_eq!(hash.get(field), plain.get(field));
                    }
                    assert_eq!(is_lent, !met.is_empty());
                    hash.end_loan();
                }
                1 => {
                    let part = ObjectPart::Step {
                        cursor: step,
                        count: 3,
                    };
                    hash.lend(&part, true, &mut met).unwrap();
                    let scan = |hash: &Hash<AccountedHeap>| {
                        let mut seen = Vec::new();
                        let next = hash.scan(step, 3, |field, value| {
                            seen.push((field.to_vec(), value.to_vec()));
                        });
                        (next, seen)
                    };
                    assert_eq!(scan(&hash), scan(&plain));
                    assert!(met.is_empty());
                    hash.end_loan();
                }
                2 => {
                    hash.lend(&ObjectPart::All, false, &mut met).unwrap();
                    assert!(hash.iter().eq(plain.iter()));
                    let other = AccountedHeap::new();
                    let copy = hash.rebuild_in(other.clone());
                    assert!(copy.iter().eq(plain.iter()) && !copy.is_parted());
                    assert_eq!(copy.memory_bytes(), other.used_bytes());
                    hash.end_loan();
                }
                3 => {
                    hash.warm(&ObjectPart::Fields(some()), &limits, &mut |_, _| ())
                        .unwrap();
                    for field in &fields {
                        assert_eq!(hash.get(field), plain.get(field));
                    }
                }
                _ if random.random_bool(removes) => {
                    for hash in [&mut hash, &mut plain] {
                        fields.iter().for_each(|field| _ = hash.remove(field));
                    }
                }
                _ => {
                    let value = text(random);
                    for hash in [&mut hash, &mut plain] {
                        hash.set(&limits, field, &value);
                    }
                }
            }
            if random.random_bool(0.1) {
                let mut seen = 0;
                while let Some(next) = hash.see(seen, 5, &mut |_| ()) {
                    seen = next;
                }
            }
            hash.check_invariants();
            assert_eq!(hash.memory_bytes(), heap.used_bytes());
            let cold_nodes = hash.nodes().iter().filter(|node| node.1.is_some()).count();
            let usage = cold.tiers().unwrap().usage(1).unwrap();
            assert_eq!(usage.values as usize, cold_nodes);
            assert_eq!(usage.value_bytes as usize, hash.cold_bytes());
            assert_eq!(hash.is_parted(), cold_nodes > 0);
            let mut all = plain.iter();
            let visited = hash.visit(
                |unread| unread,
                |field, value, _| {
                    assert_eq!(Some((field, value)), all.next());
                    Ok(())
                },
            );
            visited.unwrap();
            assert_eq!(all.next(), None);
        }
        drop(hash);
        assert_eq!(heap.used_bytes(), 0);
        assert_eq!(cold.tiers().unwrap().usage(1).unwrap().values, 0);
    });
}

/// Creates a hash of large values, each in the cold tier if `is_cold` returns true for its number.
fn hash_of(
    count: u32,
    cold: &Arc<ColdTiers>,
    is_cold: impl Fn(u32) -> bool,
) -> Hash<AccountedHeap> {
    let limits = ObjectLimits::default();
    let mut hash = Hash::new_in(AccountedHeap::new());
    for number in 0..count {
        hash.set(&limits, &number.to_le_bytes(), &[number as u8; 1000]);
    }
    for (number, (node, _)) in (0..).zip(hash.nodes()) {
        if is_cold(number) {
            let mut value = Vec::new();
            let copied = hash.copy_node(node, 0, &mut value).unwrap();
            let place = cold.put(1, &[&value]).unwrap()[0];
            let moved = hash.move_node(&copied, Some(place), cold, &value);
            assert!(moved.unwrap());
        }
    }
    hash
}

#[test]
fn a_value_that_was_changed_meanwhile_does_not_move() {
    let (limits, cold) = (ObjectLimits::default(), cold());
    let mut hash = hash_of(1000, &cold, |number| number == 1);
    let nodes: Vec<u64> = hash.nodes().into_iter().map(|(number, _)| number).collect();
    let copy = |hash: &Hash<AccountedHeap>, node| {
        let mut value = Vec::new();
        let copied = hash.copy_node(node, 0, &mut value).unwrap();
        if let Some(place) = copied.place() {
            cold.read(place, &mut value).unwrap();
        }
        (copied, cold.put(1, &[&value]).unwrap()[0], value)
    };
    for number in 0..2_u32 {
        let field = number.to_le_bytes();
        let (copied, place, value) = copy(&hash, nodes[number as usize]);
        hash.set(&limits, &field, b"changed");
        let moved = hash.move_node(&copied, Some(place), &cold, &value);
        assert!(!moved.unwrap());
        hash.remove(&field);
        let moved = hash.move_node(&copied, Some(place), &cold, &value);
        assert!(!moved.unwrap());
        cold.release(place);
    }
    // Others may change, even so that this one moves in memory and gets another id.
    let (copied, place, value) = copy(&hash, nodes[999]);
    (2..990_u32).for_each(|number| _ = hash.remove(&number.to_le_bytes()));
    let moved = hash.move_node(&copied, Some(place), &cold, &value);
    assert!(moved.unwrap());
    assert_eq!(hash.cold_bytes(), 1000);
    hash.check_invariants();
}

/// A page of which a quarter is dead is swept, so that moves free memory.
#[test]
fn memory_is_freed_as_values_move() {
    let cold = cold();
    let full = hash_of(2000, &cold, |_| false).memory_bytes();
    for part in [3, 2, 1] {
        let hash = hash_of(2000, &cold, |number| number % 4 >= part);
        let left = full * part as usize / 4;
        let bytes = hash.memory_bytes();
        assert!(
            bytes < left * 4 / 3 + full / 8,
            "{bytes} of {full}, {part}/4"
        );
        hash.check_invariants();
    }
}

#[test]
fn the_walk_is_told_how_often_values_were_used() {
    let cold = cold();
    let mut hash = hash_of(100, &cold, |number| number % 2 == 0);
    let uses = |hash: &mut Hash<AccountedHeap>| {
        let mut uses = Vec::new();
        let mut next = Some(0);
        while let Some(from) = next {
            next = hash.see(from, 7, &mut |seen| uses.push(seen.uses));
        }
        uses
    };
    let use_fields = |hash: &mut Hash<AccountedHeap>| {
        for number in [3_u32, 4, 4] {
            let field = number.to_le_bytes();
            let part = ObjectPart::Fields([field.as_slice()].into_iter().collect());
            hash.lend(&part, true, &mut Met::new()).unwrap();
            hash.end_loan();
        }
        let field = 5_u32.to_le_bytes();
        let part = ObjectPart::Replaced([field.as_slice()].into_iter().collect());
        hash.warm(&part, &ObjectLimits::default(), &mut |_, _| ())
            .unwrap();
    };
    uses(&mut hash);
    use_fields(&mut hash);
    let counted = uses(&mut hash);
    assert_eq!(counted[2..7], [0, 1, 2, 1, 0]);
    assert_eq!(uses(&mut hash), [0; 100]);
    assert!(hash.moves_by_nodes() && hash.is_attended());
}

/// The expected content of a hash: the value of each field, and when it expires.
type Timed = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

/// Compares everything that can be seen of a hash at a time.
fn check_timed(hash: &mut Hash<AccountedHeap>, model: &Timed, now_ms: u64, random: &mut SmallRng) {
    hash.at(now_ms);
    hash.check_invariants();
    let seen = model
        .iter()
        .filter(|(_, (_, time_ms))| time_ms.is_none_or(|time_ms| time_ms > now_ms));
    let seen: BTreeMap<&[u8], &[u8]> = seen.map(|(f, (v, _))| (&f[..], &v[..])).collect();
    assert_eq!(
        (hash.len(), hash.visible_count()),
        (model.len(), seen.len())
    );
    assert_eq!(hash.is_empty(), model.is_empty());
    assert_eq!(hash.iter().collect::<BTreeMap<_, _>>(), seen);
    assert!(hash.fields().eq(hash.iter().map(|(field, _)| field)));
    let mut scanned = Vec::new();
    let mut cursor = hash.scan(0, 7, |field, _| scanned.push(field.to_vec()));
    while cursor != 0 {
        cursor = hash.scan_fields(cursor, 7, |field| scanned.push(field.to_vec()));
    }
    scanned.sort();
    scanned.dedup();
    assert!(scanned.iter().eq(seen.keys()));
    let soonest = model.values().filter_map(|(_, time_ms)| *time_ms).min();
    assert_eq!(
        (hash.soonest_ms(), hash.has_times()),
        (soonest, soonest.is_some())
    );
    match (hash.random(random), hash.random_field(random)) {
        (Some((field, value)), Some(other)) => {
            assert_eq!(seen.get(field), Some(&value));
            assert!(seen.contains_key(other));
        }
        drawn => assert!(drawn == (None, None) && seen.is_empty()),
    }
    let mut visited = Timed::new();
    let visit = hash.visit(
        |unread| unread,
        |field, value, time_ms| {
            visited.insert(field.to_vec(), (value.to_vec(), time_ms));
            Ok(())
        },
    );
    assert!(visit.is_ok());
    assert_eq!(&visited, model);
}

#[test]
fn fields_expire_as_in_a_map_with_times() {
    for_each_seed(60, |random| {
        let (heap, limits) = (
            AccountedHeap::new(),
            ObjectLimits {
                hash_entries_max: 20,
                sorted_set_entries_max: 10,
                ..ObjectLimits::default()
            },
        );
        let notes = Arc::new(FieldNotes::default());
        let mut hash = Hash::new_in(heap.clone());
        let mut model = Timed::new();
        let (mut now_ms, length_max) = (1000, [1, 2, 70][random.random_range(0..3)]);
        for step in 0..600 {
            now_ms += random.random_range(0..3);
            hash.at(now_ms);
            let (field, value) = (bytes(random, length_max), bytes(random, length_max));
            let is_seen = |entry: Option<&(Vec<u8>, Option<u64>)>| {
                entry.is_some_and(|(_, time_ms)| time_ms.is_none_or(|it| it > now_ms))
            };
            let known = is_seen(model.get(&field));
            assert_eq!(hash.contains(&field), known);
            match random.random_range(0..8) {
                0..3 => {
                    hash.set(&limits, &field, &value);
                    model.insert(field, (value, None));
                }
                3 => {
                    hash.set_value(&limits, &field, &value);
                    let time_ms = model.get(&field).and_then(|(_, time_ms)| *time_ms);
                    model.insert(field, (value, time_ms));
                }
                4 | 5 if known => {
                    let time_ms = random
                        .random_bool(0.8)
                        .then(|| now_ms + random.random_range(1..60));
                    hash.set_time(&limits, &field, time_ms);
                    if let Some(entry) = model.get_mut(&field) {
                        entry.1 = time_ms;
                    }
                }
                6 => assert_eq!(hash.remove(&field), model.remove(&field).is_some()),
                _ if random.random_bool(0.3) => {
                    let limit = random.random_range(0..5);
                    let due = hash.take_due(now_ms, limit);
                    for field in &due {
                        let (_, time_ms) = model.remove(field).unwrap();
                        assert!(time_ms.unwrap() <= now_ms);
                    }
                    let is_due = |(_, time_ms): &(Vec<u8>, Option<u64>)| {
                        time_ms.is_some_and(|time_ms| time_ms <= now_ms)
                    };
                    assert!(due.len() == limit || !model.values().any(is_due));
                }
                _ => {}
            }
            hash.note_in(&notes, b"key");
            assert_eq!(notes.len(), usize::from(hash.has_times()));
            assert!(
                hash.soonest_ms()
                    .is_none_or(|soonest| notes.are_due(soonest))
            );
            assert_eq!(hash.memory_bytes(), heap.used_bytes());
            if step % 20 == 0 {
                check_timed(&mut hash, &model, now_ms, random);
                let mut frozen = Vec::new();
                hash.freeze(&mut frozen);
                let other = AccountedHeap::new();
                let thawed = Hash::thaw(&mut FrozenReader::new(&frozen), other.clone());
                check_timed(&mut thawed.unwrap(), &model, now_ms, random);
                check_timed(&mut hash.rebuild_in(other.clone()), &model, now_ms, random);
                assert_eq!(
                    (other.used_bytes(), notes.len()),
                    (0, usize::from(hash.has_times()))
                );
            }
        }
        drop(hash);
        assert_eq!((heap.used_bytes(), notes.len()), (0, 0));
    });
}

#[test]
fn a_hash_without_times_takes_no_more_memory() {
    let (heap, limits) = (AccountedHeap::new(), ObjectLimits::default());
    let mut hash = Hash::new_in(heap.clone());
    hash.set(&limits, b"field", b"value");
    let before = hash.memory_bytes();
    hash.set_time(&limits, b"field", Some(7));
    assert!(hash.memory_bytes() > before && hash.encoding() == "listpackex");
    hash.set_time(&limits, b"field", None);
    assert_eq!((hash.memory_bytes(), hash.encoding()), (before, "listpack"));
}
