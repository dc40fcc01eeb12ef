use super::*;
use crate::object::testing::{bytes, for_each_seed};
use nearfield_tiers::AccountedHeap;
use rand::rngs::SmallRng;
use std::collections::BTreeSet;

fn member(random: &mut SmallRng, kind: u32) -> Vec<u8> {
    let integer: i64 = match random.random_range(0..30) {
        0 => random.random(),
        1 => random.random::<i32>().into(),
        _ => random.random_range(-400..400),
    };
    match kind {
        0 => integer.to_string().into_bytes(),
        1 if random.random_range(0..60) > 0 => integer.to_string().into_bytes(),
        2 => bytes(random, 70),
        _ => bytes(random, 6),
    }
}

#[test]
fn behaves_like_a_set() {
    for_each_seed(100, |random| {
        let (heap, limits) = (AccountedHeap::new(), ObjectLimits::default());
        let mut set = Set::new_in(heap.clone());
        let mut model = BTreeSet::new();
        let kind = random.random_range(0..4);
        let mut removes = 3;
        for step in 0..1500 {
            if step % 300 == 0 {
                removes = random.random_range(1..9);
            }
            let other = member(random, kind);
            if random.random_range(0..10) < removes {
                assert_eq!(set.remove(&other), model.remove(&other));
            } else {
                assert_eq!(set.add(&limits, &other), model.insert(other));
            }
            let other = member(random, kind);
            assert_eq!(set.contains(&other), model.contains(&other));
            assert_eq!(set.len(), model.len());
            assert_eq!(set.memory_bytes(), heap.used_bytes());
            let one = set.random(random).map(|member| member.to_vec());
            assert_eq!(one.is_none(), model.is_empty());
            assert!(one.is_none_or(|one| model.contains(&one)));
            if step % 100 == 0 {
                let popped = set.pop_random(random);
                assert!(popped.is_none_or(|popped| model.remove(&popped)));
                set.check_invariants();
                let mut scanned = BTreeSet::new();
                let mut visit = |member: &[u8]| {
                    scanned.insert(member.to_vec());
                };
                let mut cursor = set.scan(0, 10, &mut visit);
                while cursor != 0 {
                    cursor = set.scan(cursor, 10, &mut visit);
                }
                assert_eq!(scanned, model);
                set = set.rebuild_in(heap.clone());
                let members: BTreeSet<_> = set.iter().map(|member| member.to_vec()).collect();
                assert_eq!(members, model);
            }
        }
        drop(set);
        assert_eq!(heap.used_bytes(), 0);
    });
}

#[test]
fn the_form_changes_where_the_limits_say() {
    let limits = ObjectLimits::default();
    let with = |count: i64| {
        let mut set = Set::new_in(AccountedHeap::new());
        for integer in 0..count {
            set.add(&limits, integer.to_string().as_bytes());
        }
        set
    };
    let after = |mut set: Set<AccountedHeap>, member: &[u8]| {
        assert!(set.add(&limits, member));
        set.encoding()
    };
    assert_eq!(with(0).encoding(), "intset");
    assert_eq!(with(512).encoding(), "intset");
    assert_eq!(with(513).encoding(), "hashtable");
    assert_eq!(after(with(127), b"a"), "listpack");
    assert_eq!(after(with(128), b"a"), "hashtable");
    assert_eq!(after(with(0), &[b'a'; 64]), "listpack");
    assert_eq!(after(with(0), &[b'a'; 65]), "hashtable");
}

#[test]
fn every_member_is_as_likely_as_another() {
    let limits = ObjectLimits::default();
    for count in [20, 300, 600] {
        let mut set = Set::new_in(AccountedHeap::new());
        for integer in 0..3 * count {
            set.add(&limits, integer.to_string().as_bytes());
        }
        for integer in 0..3 * count {
            if integer % 3 > 0 {
                set.remove(integer.to_string().as_bytes());
            }
        }
        for_each_seed(1, |random| {
            let mut drawn = vec![0; count];
            for _ in 0..1000 * count {
                let member = set.random(random).unwrap().to_vec();
                let integer: usize = String::from_utf8(member).unwrap().parse().unwrap();
                drawn[integer / 3] += 1;
            }
            // Six standard deviations of a binomial distribution with a mean of 1000.
            assert!(
                drawn.iter().all(|times| (810..1190).contains(times)),
                "{drawn:?}"
            );
        });
    }
}
