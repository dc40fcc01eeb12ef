//! Ranges agree with those of a `BTreeMap`, from both ends in turn. While others write, they return
//! every entry that stays exactly once.

use crate::ranges::Model;
use nearfield::{ByteStrings, MapForm, OrderedMap, WordMap, Words};
use nearfield_testkit::keys::{self, Random, SampleForm};
use nearfield_testkit::stop::AtEnd;
use rand::RngExt;
use std::sync::atomic::{AtomicBool, Ordering};

fn filled<F: MapForm + SampleForm>(
    kind: F::Kind,
    count: usize,
    random: &mut Random,
) -> (OrderedMap<F>, Model<F>) {
    let map = OrderedMap::new().expect("address space");
    let mut model = Model::<F>::new();
    for key in F::keys(kind, count, random) {
        let value = F::any_value(random);
        map.insert(F::key(&key), F::value(&value)).expect("insert");
        model.insert(key, value);
    }
    (map, model)
}

fn agrees_with_a_btree_map<F: MapForm + SampleForm>() {
    for &kind in F::KINDS {
        for (seed, count) in [1, 3, 15, 16, 17, 200, 3000].into_iter().enumerate() {
            let mut random = keys::random(seed as u64);
            let (map, model) = filled::<F>(kind, count, &mut random);
            let ended =
                crate::ranges::agree::<F, _>(&model, 40, &mut random, |bounds| map.range(bounds));
            let sizes = ended.iter().map(Iterator::size_hint);
            assert!(sizes.eq([(0, Some(0)); 40]), "{kind:?}");
        }
    }
}

#[test]
fn words_agree_with_a_btree_map() {
    agrees_with_a_btree_map::<Words>();
}

#[test]
fn bytes_agree_with_a_btree_map() {
    agrees_with_a_btree_map::<ByteStrings>();
}

/// The values are so large that a chunk holds only a few.
#[test]
fn chunks_of_large_values() {
    let map = OrderedMap::<ByteStrings>::new().expect("address space");
    for key in 0..50_u8 {
        map.insert(&[key], &vec![key; 20_000]).expect("insert");
    }
    let all: Vec<_> = map.range(..).collect();
    assert_eq!(all.len(), 50);
    let all_match = |(key, (found, value)): (u8, &(Vec<u8>, Vec<u8>))| {
        *found == [key] && *value == [key; 20_000]
    };
    assert!((0..50).zip(&all).all(all_match));
    assert!(map.range(..).rev().eq(all.into_iter().rev()));
}

#[test]
fn bounds_longer_than_a_key_can_be() {
    let map = OrderedMap::<ByteStrings>::from_sorted([("a", "1"), ("b", "2")]).expect("load");
    let long = vec![b'a'; nearfield::MAX_KEY_BYTES + 1];
    let keys = |entries: nearfield::MapRange<'_, ByteStrings>| {
        entries.map(|(key, _)| key).collect::<Vec<_>>()
    };
    assert_eq!(keys(map.range(&long[..]..)), [b"b"]);
    assert_eq!(keys(map.range(..&long[..])), [b"a"]);
    let backwards: Vec<_> = map.range(..&long[..]).rev().collect();
    assert_eq!(backwards, [(b"a".to_vec(), b"1".to_vec())]);
}

/// Changes by the caller behind an end are not seen; changes far ahead are.
#[test]
fn the_map_may_change_during_an_iteration() {
    let map = WordMap::from_sorted((0..10_000).map(|n| (n, n))).expect("load");
    let mut range = map.range(..);
    assert_eq!(range.next(), Some((0, 0)));
    assert_eq!(range.next_back(), Some((9_999, 9_999)));
    for key in 1_000..9_000 {
        map.remove(key).expect("remove");
    }
    map.insert(5_000, 7).expect("insert");
    let left: Vec<_> = range.collect();
    assert_eq!(left.len(), 1_998 + 1);
    assert!(left.contains(&(5_000, 7)) && left.is_sorted());
}

/// Inserts and removes every key except the stable ones, while readers iterate from both ends.
fn meets_stable_keys_once<F: MapForm + SampleForm>(kind: F::Kind, count: usize) {
    let mut random = keys::random(7);
    let mut all = F::keys(kind, count, &mut random);
    let stable: Model<F> = all
        .split_off(all.len() / 2)
        .into_iter()
        .enumerate()
        .map(|(number, key)| (key, F::seal(number as u64)))
        .collect();
    let map = OrderedMap::<F>::new().expect("address space");
    for (key, value) in &stable {
        map.insert(F::key(key), F::value(value)).expect("insert");
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (map, all, done) = (&map, &all, &done);
            scope.spawn(move || {
                let mut random = keys::random(writer);
                while !done.load(Ordering::Relaxed) {
                    // Keys change in runs, so that nodes grow and shrink.
                    let start = random.random_range(0..all.len());
                    for key in all[start..].iter().take(100) {
                        let sealed = F::seal(random.random_range(0..1000));
                        map.insert(F::key(key), F::value(&sealed)).expect("insert");
                    }
                    for key in all[start..].iter().take(100) {
                        map.remove(F::key(key)).expect("remove");
                    }
                }
            });
        }
        let _stop = AtEnd(&done);
        for round in 0..60 {
            let (mut front, mut back) = (Vec::new(), Vec::new());
            let mut range = map.range(..);
            let backwards = [0.0, 1.0, 0.5][round % 3];
            loop {
                let is_back = random.random_bool(backwards);
                let next = match is_back {
                    true => range.next_back(),
                    false => range.next(),
                };
                let Some(entry) = next else { break };
                assert!(F::open(F::value(&entry.1)).is_some(), "a torn value");
                if is_back {
                    back.push(entry)
                } else {
                    front.push(entry)
                }
            }
            back.reverse();
            front.extend(back);
            let wrong = front.windows(2).find(|pair| pair[0].0 >= pair[1].0);
            assert!(
                wrong.is_none(),
                "keys out of order or visited twice, {backwards} from the back: {wrong:?}"
            );
            front.retain(|(key, _)| stable.contains_key(key));
            let missed = stable.len() - front.len();
            assert!(
                front.into_iter().eq(stable.clone()),
                "{missed} stable keys missed"
            );
        }
    });
}

#[test]
fn stable_words_are_met_once() {
    for &kind in Words::KINDS {
        meets_stable_keys_once::<Words>(kind, 3000);
    }
}

#[test]
fn stable_bytes_are_met_once() {
    for &kind in ByteStrings::KINDS {
        meets_stable_keys_once::<ByteStrings>(kind, 1000);
    }
}
