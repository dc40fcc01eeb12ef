use super::*;
use crate::object::testing::{bytes, for_each_seed};
use nearfield_tiers::AccountedHeap;
use rand::rngs::SmallRng;
use std::cmp::Ordering;

type Model = Vec<(Vec<u8>, f64)>;

fn order(a: &(Vec<u8>, f64), b: &(Vec<u8>, f64)) -> Ordering {
    a.1.partial_cmp(&b.1).unwrap().then_with(|| a.0.cmp(&b.0))
}

fn bound<T>(random: &mut SmallRng, at: T) -> Bound<T> {
    match random.random_range(0..5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Excluded(at),
        _ => Bound::Included(at),
    }
}

fn score(random: &mut SmallRng, distinct: i32) -> f64 {
    match random.random_range(0..40) {
        0 => f64::INFINITY,
        1 => f64::NEG_INFINITY,
        2 => -0.0,
        _ => f64::from(random.random_range(0..distinct)),
    }
}

fn insert(model: &mut Model, member: &[u8], score: f64) -> Option<f64> {
    let old = remove(model, member);
    let entry = (member.to_vec(), score);
    let rank = model.partition_point(|other| order(other, &entry).is_lt());
    model.insert(rank, entry);
    old
}

fn remove(model: &mut Model, member: &[u8]) -> Option<f64> {
    let rank = model.iter().position(|(other, _)| other == member)?;
    Some(model.remove(rank).1)
}

fn pop(set: &mut SortedSet<AccountedHeap>, rank: usize) -> Option<(Vec<u8>, f64)> {
    let mut popped = None;
    set.remove_ranks(rank..rank + 1, |member, score| {
        popped = Some((member.to_vec(), score));
    });
    popped
}

fn ranks_where(model: &Model, is_within: impl Fn(&(Vec<u8>, f64)) -> bool) -> Range<usize> {
    let first = model.iter().position(&is_within);
    let start = first.unwrap_or(0);
    start..start + model.iter().filter(|entry| is_within(entry)).count()
}

fn check_ranges(
    set: &SortedSet<AccountedHeap>,
    model: &Model,
    random: &mut SmallRng,
    distinct: i32,
) {
    let (min, max) = (score(random, distinct), score(random, distinct));
    let (min, max) = (bound(random, min), bound(random, max));
    let found = set.score_ranks(min, max);
    let wanted = ranks_where(model, |(_, score)| {
        std::ops::RangeBounds::contains(&(min, max), score)
    });
    assert_eq!(found.len(), wanted.len(), "{min:?} {max:?}");
    let reverse = random.random_bool(0.5);
    let mut entries: Model = model[wanted].to_vec();
    if reverse {
        entries.reverse();
    }
    let ranged = set.range(found, reverse);
    assert!(ranged.eq(entries.iter().map(|(member, score)| (&member[..], *score))));
    if distinct == 1 && model.iter().all(|(_, score)| *score == 0.0) {
        let (min, max) = (bytes(random, 8), bytes(random, 8));
        let (min, max) = (bound(random, &min[..]), bound(random, &max[..]));
        let wanted = ranks_where(model, |(member, _)| {
            std::ops::RangeBounds::<[u8]>::contains(&(min, max), &member[..])
        });
        let found = set.lex_ranks(min, max, reverse);
        assert_eq!(found.len(), wanted.len());
        assert!(found.is_empty() || found == wanted);
    }
}

#[test]
fn behaves_like_a_sorted_vector() {
    for_each_seed(60, |random| {
        let heap = AccountedHeap::new();
        let limits = ObjectLimits::default();
        let mut set = SortedSet::new_in(heap.clone());
        let mut model = Model::new();
        let distinct = [1, 5, 100_000][random.random_range(0..3)];
        let length_max = [4, 8, 70][random.random_range(0..3)];
        let mut inserts = 7;
        for step in 0..1500 {
            if step % 300 == 0 {
                inserts = random.random_range(0..10);
            }
            let member = bytes(random, length_max);
            match random.random_range(0..12) {
                draw if draw < inserts => {
                    let score = match distinct {
                        1 => 0.0,
                        _ => score(random, distinct),
                    };
                    let old = insert(&mut model, &member, score);
                    assert_eq!(set.insert(&limits, &member, score), old);
                }
                10 => {
                    let start = random.random_range(0..=model.len());
                    let end = (start + random.random_range(0..10)).min(model.len());
                    let mut removed = Model::new();
                    let count = set.remove_ranks(start..end, |member, score| {
                        removed.push((member.to_vec(), score));
                    });
                    assert_eq!(count, end - start);
                    assert_eq!(removed, model.drain(start..end).collect::<Vec<_>>());
                }
                11 => {
                    let first = (!model.is_empty()).then(|| model.remove(0));
                    assert_eq!(pop(&mut set, 0), first);
                    let last = set.len().saturating_sub(1);
                    assert_eq!(pop(&mut set, last), model.pop());
                }
                _ => {
                    let old = remove(&mut model, &member);
                    assert_eq!(set.remove(&member), old);
                }
            }
            assert_eq!(set.len(), model.len());
            assert_eq!(set.memory_bytes(), heap.used_bytes());
            let member = bytes(random, length_max);
            let rank = model.iter().position(|(other, _)| *other == member);
            assert_eq!(set.rank(&member, false), rank);
            let reverse = rank.map(|rank| model.len() - 1 - rank);
            assert_eq!(set.rank(&member, true), reverse);
            assert_eq!(set.score(&member), rank.map(|rank| model[rank].1));
            check_ranges(&set, &model, random, distinct);
            if step % 50 == 0 {
                set.check_invariants();
            }
            if step % 500 == 250 {
                let other = AccountedHeap::new();
                let copy = set.rebuild_in(other.clone());
                copy.check_invariants();
                assert_eq!(copy.memory_bytes(), other.used_bytes());
                assert!(copy.iter().eq(set.iter()));
                set = copy.rebuild_in(heap.clone());
            }
        }
        drop(set);
        assert_eq!(heap.used_bytes(), 0);
    });
}

#[test]
fn a_drained_set_gives_its_memory_back() {
    let limits = ObjectLimits::default();
    let mut set = SortedSet::new_in(AccountedHeap::new());
    for member in 0..100_000_u32 {
        let score = f64::from(member.wrapping_mul(0x9e37_79b9));
        set.insert(&limits, &member.to_le_bytes(), score);
    }
    set.check_invariants();
    assert!(
        set.memory_bytes() < 85 * set.len(),
        "{}",
        set.memory_bytes()
    );
    // Removes a part from the middle, and some members everywhere, before the ends.
    assert_eq!(set.remove_ranks(20_000..60_000, |_, _| ()), 40_000);
    for member in 0..20_000_u32 {
        set.remove(&member.to_le_bytes());
    }
    set.check_invariants();
    while set.len() > 1000 {
        set.remove_ranks(0..1, |_, _| ());
        let last = set.len() - 1;
        set.remove_ranks(last..last + 1, |_, _| ());
    }
    set.check_invariants();
    assert!(set.memory_bytes() < 400_000, "{}", set.memory_bytes());
}
