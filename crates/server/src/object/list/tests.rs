use super::*;
use crate::object::node::{Met, ObjectPart, TieredObject};
use crate::object::testing::{bytes, cold, for_each_seed, shuffle};
use nearfield_tiers::AccountedHeap;
use rand::RngExt;
use std::collections::VecDeque;

fn remove(model: &mut VecDeque<Vec<u8>>, count: i64, element: &[u8]) -> usize {
    let before = model.len();
    let mut left = match count {
        0 => usize::MAX,
        _ => count.unsigned_abs() as usize,
    };
    let mut keep = |other: &Vec<u8>| {
        let is_removed = other == element && left > 0;
        left -= usize::from(is_removed);
        !is_removed
    };
    if count < 0 {
        let kept: Vec<_> = model.drain(..).rev().filter(|other| keep(other)).collect();
        model.extend(kept.into_iter().rev());
    } else {
        model.retain(keep);
    }
    before - model.len()
}

#[test]
fn behaves_like_a_deque() {
    for_each_seed(80, |random| {
        let heap = AccountedHeap::new();
        let limits = ObjectLimits {
            list_chunk: ChunkLimit::from_setting([-2, -1, 4, 100][random.random_range(0..4)]),
            ..ObjectLimits::default()
        };
        let mut list = ListObject::new_in(heap.clone());
        let mut model = VecDeque::new();
        let length_max = [2, 100, 2000, 10_000][random.random_range(0..4)];
        let mut pushes = 4;
        for step in 0..800 {
            if step % 100 == 0 {
                pushes = random.random_range(0..12);
            }
            let element = bytes(random, length_max);
            let index = random.random_range(0..=model.len());
            match random.random_range(0..8 + pushes) {
                0 => assert_eq!(list.pop_front(), model.pop_front()),
                1 => assert_eq!(list.pop_back(), model.pop_back()),
                2 => {
                    let is_there = index < model.len();
                    assert_eq!(list.set(&limits, index, &element), is_there);
                    if is_there {
                        model[index] = element;
                    }
                }
                3 => {
                    list.insert(&limits, index, &element);
                    model.insert(index, element);
                }
                4 => {
                    let pivot = bytes(random, 2);
                    let found = model.iter().position(|other| *other == pivot);
                    let is_after = random.random_bool(0.5);
                    let inserted = if is_after {
                        list.insert_after(&limits, &pivot, &element)
                    } else {
                        list.insert_before(&limits, &pivot, &element)
                    };
                    assert_eq!(inserted, found.is_some());
                    if let Some(found) = found {
                        model.insert(found + usize::from(is_after), element);
                    }
                }
                5 => {
                    let count = random.random_range(-3..4);
                    let element = bytes(random, 1);
                    let removed = list.remove(&limits, count, &element);
                    assert_eq!(removed, remove(&mut model, count, &element));
                }
                6 if random.random_range(0..4) == 0 => {
                    let end = random.random_range(0..=model.len() + 3);
                    let index = index.saturating_sub(model.len() / 2);
                    list.trim(index, end);
                    model.truncate(end);
                    model.drain(..index.min(model.len()));
                }
                draw if draw % 2 == 0 => {
                    list.push_front(&limits, &element);
                    model.push_front(element);
                }
                _ => {
                    list.push_back(&limits, &element);
                    model.push_back(element);
                }
            }
            assert_eq!(list.len(), model.len());
            assert_eq!(list.memory_bytes(), heap.used_bytes());
            list.check_invariants();
            let index = random.random_range(0..=model.len());
            assert_eq!(
                list.get(index),
                model.get(index).map(|element| &element[..])
            );
            assert!(list.iter_from(index).eq(model.iter().skip(index)));
            let back = model.iter().take(index + 1).rev();
            if index < model.len() {
                assert!(list.iter_back_from(index).eq(back));
            } else {
                assert_eq!(list.iter_back_from(index).count(), 0);
            }
        }
        let other = AccountedHeap::new();
        let copy = list.rebuild_in(other.clone());
        copy.check_invariants();
        assert!(copy.iter().eq(model.iter()));
        assert_eq!(copy.memory_bytes(), other.used_bytes());
        drop(list);
        assert_eq!(heap.used_bytes(), 0);
    });
}

#[test]
fn the_form_changes_where_the_limits_say() {
    let limits = ObjectLimits::default();
    let mut list = ListObject::new_in(AccountedHeap::new());
    // Each takes 103 bytes.
    for _ in 0..8192 / 103 {
        list.push_front(&limits, &[0; 101]);
    }
    assert_eq!(list.encoding(&limits), "listpack");
    list.push_front(&limits, &[0; 101]);
    assert_eq!(list.encoding(&limits), "quicklist");
    list.trim(5, 15);
    assert_eq!(list.encoding(&limits), "listpack");
    let mut large = ListObject::new_in(AccountedHeap::new());
    large.push_back(&limits, &[0; 10_000]);
    assert_eq!(large.encoding(&limits), "quicklist");
}

/// Returns the number of chunks in a cold tier.
fn cold_nodes(list: &ListObject<AccountedHeap>) -> usize {
    list.nodes().iter().filter(|node| node.1.is_some()).count()
}

/// Returns what must be equal in two lists of which one has chunks in cold tiers, including the
/// sizes of the chunks.
fn form(list: &ListObject<AccountedHeap>) -> Vec<(usize, usize)> {
    let chunks = list.chunks.iter();
    chunks
        .map(|chunk| (chunk.len(), chunk.byte_len()))
        .collect()
}

#[test]
fn chunks_in_cold_tiers_change_nothing_and_only_those_of_the_part_are_read() {
    for_each_seed(60, |random| {
        let (heap, cold) = (AccountedHeap::new(), cold());
        let limits = ObjectLimits {
            list_chunk: ChunkLimit::from_setting([3, 8, -1][random.random_range(0..3)]),
            ..ObjectLimits::default()
        };
        let mut list = ListObject::new_in(heap.clone());
        let mut plain = ListObject::new_in(AccountedHeap::new());
        for _ in 0..300 {
            shuffle(&mut list, 0.6, &cold, random);
            let element = bytes(random, 1000);
            let pivot = bytes(random, 1);
            let index = random.random_range(0..=plain.len());
            let (first, last) = (index as i64, random.random_range(0..=plain.len() as i64));
            let draw = random.random_range(0..14);
            let part = match draw {
                0 => ObjectPart::Ends { front: 1, back: 0 },
                1 => ObjectPart::Ends { front: 0, back: 5 },
                2 => ObjectPart::Around(first),
                3 => ObjectPart::First(&pivot),
                4 => ObjectPart::Each(last % 4 - 2, &pivot),
                5 => ObjectPart::Cuts(first, last),
                6 => ObjectPart::Range(first, last),
                _ => ObjectPart::Ends { front: 1, back: 1 },
            };
            if draw == 6 {
                let mut met = Met::new();
                list.lend(&part, true, &mut met).unwrap();
                let count = (last + 1 - first).max(0) as usize;
                if count > 0 {
                    let lent = list.iter_from(index).take(count);
                    assert!(lent.eq(plain.iter_from(index).take(count)));
                }
                assert!(met.len() <= cold_nodes(&list));
                list.end_loan();
            } else {
                list.warm(&part, &limits, &mut |_, _| ()).unwrap();
            }
            for list in [&mut list, &mut plain] {
                match draw {
                    0 => _ = list.pop_front(),
                    1 => list.remove_back(5),
                    2 => _ = list.set(&limits, index, &element),
                    3 if index % 2 == 0 => _ = list.insert_before(&limits, &pivot, &element),
                    3 => _ = list.insert_after(&limits, &pivot, &element),
                    4 => _ = list.remove(&limits, last % 4 - 2, &pivot),
                    5 if first % 8 == 0 => list.trim(index, last as usize + 1),
                    5 | 6 => {}
                    draw if draw % 2 == 0 => list.push_front(&limits, &element),
                    _ => list.push_back(&limits, &element),
                }
            }
            list.check_invariants();
            assert_eq!(form(&list), form(&plain));
            assert_eq!(list.memory_bytes(), heap.used_bytes());
            let usage = cold.tiers().unwrap().usage(1).unwrap();
            assert_eq!(usage.values as usize, cold_nodes(&list));
            assert_eq!(usage.value_bytes as usize, list.cold_bytes());
            let mut elements = plain.iter();
            let visited = list.visit(
                |unread| unread,
                |element| {
                    assert_eq!(Some(element), elements.next());
                    Ok(())
                },
            );
            visited.unwrap();
            assert_eq!(elements.next(), None);
        }
        drop(list);
        assert_eq!(heap.used_bytes(), 0);
        assert_eq!(cold.tiers().unwrap().usage(1).unwrap().values, 0);
    });
}

#[test]
fn a_chunk_that_was_changed_meanwhile_does_not_move() {
    let (limits, cold) = (ObjectLimits::default(), cold());
    let mut list = ListObject::new_in(AccountedHeap::new());
    (0..3).for_each(|_| list.push_back(&limits, &[b'x'; 6000]));
    let numbers: Vec<u64> = list.nodes().into_iter().map(|(number, _)| number).collect();
    let copy = |list: &ListObject<AccountedHeap>, number| {
        let mut frozen = Vec::new();
        let copied = list.copy_node(number, 0, &mut frozen).unwrap();
        (copied, cold.put(1, &[&frozen]).unwrap()[0], frozen)
    };
    let (copied, place, frozen) = copy(&list, numbers[1]);
    list.set(&limits, 1, &[b'y'; 6000]);
    let moved = list.move_node(&copied, Some(place), &cold, &frozen);
    assert!(!moved.unwrap());
    cold.release(place);
    let (copied, place, frozen) = copy(&list, numbers[1]);
    // Others may change, even so that this one moves.
    list.pop_front();
    list.set(&limits, 1, &[b'z'; 6000]);
    let moved = list.move_node(&copied, Some(place), &cold, &frozen);
    assert!(moved.unwrap());
    assert_eq!(cold_nodes(&list), 1);
    let (copied, place, frozen) = copy(&list, numbers[2]);
    list.pop_back();
    let moved = list.move_node(&copied, Some(place), &cold, &frozen);
    assert!(!moved.unwrap());
    cold.release(place);
    assert_eq!(cold.tiers().unwrap().usage(1).unwrap().values, 1);
}
