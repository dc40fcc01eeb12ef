use super::*;
use crate::object::testing::{bytes, for_each_seed};
use nearfield_tiers::Heap;
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
        let heap = Heap::new();
        let limits = Limits {
            list_chunk: ChunkLimit::from_setting([-2, -1, 4, 100][random.random_range(0..4)]),
            ..Limits::default()
        };
        let mut list = List::new_in(heap.clone());
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
        let other = Heap::new();
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
    let limits = Limits::default();
    let mut list = List::new_in(Heap::new());
    // Each takes 103 bytes.
    for _ in 0..8192 / 103 {
        list.push_front(&limits, &[0; 101]);
    }
    assert_eq!(list.encoding(&limits), "listpack");
    list.push_front(&limits, &[0; 101]);
    assert_eq!(list.encoding(&limits), "quicklist");
    list.trim(5, 15);
    assert_eq!(list.encoding(&limits), "listpack");
    let mut large = List::new_in(Heap::new());
    large.push_back(&limits, &[0; 10_000]);
    assert_eq!(large.encoding(&limits), "quicklist");
}
