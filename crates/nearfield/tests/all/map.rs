//! The facade's additions: references to values, typed maps, many operations at once, and errors
//! passed through unchanged.

use nearfield::{
    ByteStrings, Combine, EngineOptions, MAX_KEY_BYTES, OperationError, OrderedMap, TypedMap,
    UpdateOutcome, WordMap,
};
use nearfield_testkit::keys::{self, ByteKeys, SampleForm};
use nearfield_testkit::stop::AtEnd;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// A value is overwritten and removed, and other writes try to reuse its memory, while a reader
/// holds it.
#[test]
fn a_value_stays_while_it_is_held() {
    for length in [0, 5, 1000, 3 << 20] {
        let map = OrderedMap::<ByteStrings>::new().expect("address space");
        let old = vec![7; length];
        map.insert(b"key", &old).expect("insert");
        let held = map.get(b"key").expect("short key").expect("present");
        std::thread::scope(|scope| {
            let map = &map;
            scope.spawn(move || {
                for round in 0..1000_u32 {
                    let new = vec![round as u8; length % 4096];
                    map.insert(b"key", &new).expect("insert");
                    map.insert(&round.to_be_bytes(), &new).expect("insert");
                    map.remove(&round.to_be_bytes()).expect("remove");
                }
                map.remove(b"key").expect("remove");
            });
        });
        assert!(map.get(b"key").expect("short key").is_none());
        assert_eq!(*held, old);
        assert_eq!(held.as_ref(), &old[..]);
    }
}

/// Readers check that a value stays intact while they hold it, although it is overwritten.
#[test]
fn held_values_stay_whole_during_writes() {
    let map = OrderedMap::<ByteStrings>::new().expect("address space");
    let keys = ByteStrings::keys(ByteKeys::Words, 50, &mut keys::random(1));
    let done = AtomicBool::new(false);
    let (map, keys, done) = (&map, &keys, &done);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let held = keys
                        .iter()
                        .filter_map(|key| map.get(key).expect("short key"));
                    for value in held.collect::<Vec<_>>() {
                        assert!(ByteStrings::open(&value).is_some(), "a torn value");
                    }
                }
            });
        }
        let _stop = AtEnd(done);
        for number in 0..20_000 {
            let key = &keys[number as usize * 7 % keys.len()];
            map.insert(key, &ByteStrings::seal(number)).expect("insert");
            if number % 5 == 0 {
                map.remove(key).expect("remove");
            }
        }
    });
}

#[test]
fn a_value_shows_as_bytes() {
    let map = OrderedMap::<ByteStrings>::from_sorted([("key", "a\0b")]).expect("load");
    let value = map.get(b"key").expect("short key");
    assert_eq!(format!("{value:?}"), r#"Some(b"a\x00b")"#);
}

#[test]
fn keys_that_are_too_long_are_refused_everywhere() {
    let map = OrderedMap::<ByteStrings>::new().expect("address space");
    let long = vec![b'k'; MAX_KEY_BYTES + 1];
    let error = OperationError::KeyTooLong {
        start: OperationError::shorten(&long),
        length: MAX_KEY_BYTES + 1,
        limit: MAX_KEY_BYTES,
    };
    assert_eq!(map.insert(&long, b"").unwrap_err(), error);
    assert_eq!(map.update(&long, None, b"").unwrap_err(), error);
    assert_eq!(map.remove(&long).unwrap_err(), error);
    assert_eq!(map.get(&long).map(|_| ()).unwrap_err(), error);
    assert_eq!(map.contains_key(&long).unwrap_err(), error);
    assert_eq!(map.predecessor(&long).unwrap_err(), error);
    assert_eq!(map.successor(&long).unwrap_err(), error);
    assert_eq!(map.get_many(&[b"a", &long]).unwrap_err(), error);
    assert_eq!(
        map.insert_many(&[(b"a", b"1"), (&long, b"2"), (b"b", b"3")])
            .unwrap_err(),
        error
    );
    assert_eq!(
        OrderedMap::<ByteStrings>::from_sorted([(&long, b"")])
            .map(|_| ())
            .unwrap_err(),
        error
    );
    // As documented, others of the batch may have been inserted.
    assert_eq!(map.len(), 2);
}

#[test]
fn methods_for_many_keys_equal_single_calls() {
    let mut random = keys::random(3);
    let keys = ByteStrings::keys(ByteKeys::Random, 10_000, &mut random);
    let values: Vec<_> = keys
        .iter()
        .map(|_| ByteStrings::any_value(&mut random))
        .collect();
    // Every third key is inserted twice, the second time with another value.
    let twice = keys.iter().zip(values.iter().rev()).step_by(3);
    let entries: Vec<(&[u8], &[u8])> = (keys.iter().zip(&values).chain(twice))
        .map(|(key, value)| (&key[..], &value[..]))
        .collect();
    let map = OrderedMap::<ByteStrings>::new().expect("address space");
    assert_eq!(map.insert_many(&entries), Ok(keys.len()));
    assert_eq!(map.insert_many(&entries), Ok(0));
    let model: BTreeMap<_, _> = entries.iter().copied().collect();
    let lookups: Vec<&[u8]> = keys
        .iter()
        .map(|key| &key[..])
        .chain([&b"absent here"[..]])
        .collect();
    let expected: Vec<_> = lookups
        .iter()
        .map(|key| model.get(key).map(|value| value.to_vec()))
        .collect();
    assert_eq!(map.get_many(&lookups), Ok(expected));
}

#[test]
fn an_update_returns_the_differing_value() {
    let map = OrderedMap::<ByteStrings>::new().expect("address space");
    let current = |value: &[u8]| UpdateOutcome::Differs {
        current: Some(value.to_vec()),
    };
    assert_eq!(
        map.update(b"k", Some(b"1"), b"2"),
        Ok(UpdateOutcome::Differs { current: None })
    );
    assert!(map.is_empty());
    assert_eq!(map.update(b"k", None, b"1"), Ok(UpdateOutcome::Applied));
    assert_eq!(map.update(b"k", None, b"2"), Ok(current(b"1")));
    assert_eq!(
        map.update(b"k", Some(b"1"), b"2"),
        Ok(UpdateOutcome::Applied)
    );
    assert_eq!(map.last(), Some((b"k".to_vec(), b"2".to_vec())));
}

#[test]
fn a_builder_applies_its_limit_and_options() {
    let options = EngineOptions {
        combine: Combine::Never,
        ..EngineOptions::default()
    };
    let builder = WordMap::builder()
        .memory_limit(1 << 20)
        .engine_options(options);
    let maps = [
        builder.clone().build().expect("an empty map fits"),
        builder
            .clone()
            .from_sorted([(1, 1)])
            .expect("an entry fits"),
    ];
    for map in maps {
        assert_eq!(map.engine_options(), options);
        let full = (0..1 << 20).find_map(|key| map.insert(key << 20, key).err());
        assert!(
            matches!(full, Some(OperationError::OutOfMemory { .. })),
            "{full:?}"
        );
        map.set_engine_options(EngineOptions::default());
        assert_eq!(map.engine_options(), EngineOptions::default());
    }
    let full = builder.from_sorted((0..1 << 20).map(|key| (key << 20, key)));
    assert!(matches!(full, Err(OperationError::OutOfMemory { .. })));
}

/// Floats and signed integers are returned in numeric order, not in that of their bit patterns.
#[test]
fn a_typed_map_is_ordered_as_its_keys() {
    let floats = [
        f64::NEG_INFINITY,
        -2.5,
        -0.0,
        0.0,
        1e-300,
        7.0,
        f64::INFINITY,
    ];
    let map = TypedMap::<f64, i16>::new().expect("address space");
    for (rank, float) in (-3..).zip(floats).collect::<Vec<_>>().into_iter().rev() {
        assert_eq!(map.insert(float, rank), Ok(None));
    }
    let entries: Vec<_> = floats.into_iter().zip(-3_i16..).collect();
    assert!(map.range(..).eq(entries.clone()));
    assert!(map.range(-0.0..7.0).map(|(_, rank)| rank).eq(-1..2));
    assert!(
        map.range(..)
            .rev()
            .map(|(_, rank)| Reverse(rank))
            .is_sorted()
    );
    assert_eq!(
        (map.predecessor(-1.0), map.successor(7.5)),
        (Some(entries[1]), Some(entries[6]))
    );
    assert_eq!(
        (map.first(), map.last()),
        (Some(entries[0]), Some(entries[6]))
    );
    assert_eq!(map.remove(-0.0), Ok(Some(-1)));
    assert!(!map.contains_key(-0.0) && map.contains_key(0.0));
    let loaded = TypedMap::from_sorted(map.range(..)).expect("load");
    assert!(loaded.range(..).eq(map.range(..)) && loaded.len() == 6);
}

/// There are more entries than fit in one batch. Some keys are negative, which sort after positive
/// ones as words unless they are encoded.
#[test]
fn typed_maps_read_insert_and_retain_many_entries() {
    let map = TypedMap::<i32, f64>::new().expect("address space");
    let entry = |key: i32| (key, f64::from(key) / 2.0);
    let entries: Vec<_> = (-5000..5000).rev().map(entry).collect();
    assert_eq!(map.insert_many(&[]), Ok(0));
    assert_eq!(map.insert_many(&entries), Ok(10_000));
    assert_eq!(map.insert_many(&[(-1, 7.0), (6000, 1.0), (-1, 8.0)]), Ok(1));

    assert_eq!(map.get_many(&[]), Ok(vec![]));
    let keys: Vec<i32> = (-6000..6000).collect();
    let model = |&key: &i32| match key {
        -1 => Some(8.0),
        -5000..5000 => Some(entry(key).1),
        _ => None,
    };
    assert_eq!(
        map.get_many(&keys),
        Ok(keys.iter().map(model).collect::<Vec<_>>())
    );

    let mut seen = Vec::new();
    let removed = map.retain(-4500..=4499, |key, value| {
        seen.push((key, value));
        key % 2 == 0
    });
    assert_eq!(removed, Ok(4500));
    assert!(
        seen.into_iter()
            .eq((-4500..4500).map(|key| (key, model(&key).expect("present"))))
    );
    let is_kept = |key: &i32| !(-4500..4500).contains(key) || key % 2 == 0;
    let kept = (-5000..5000).filter(is_kept).chain([6000]);
    assert!(map.range(..).map(|(key, _)| key).eq(kept));
}

#[test]
#[should_panic(expected = "a typed map holds a foreign word")]
fn a_foreign_word_in_a_typed_map_is_noticed() {
    let map = TypedMap::<u8, u8>::new().expect("address space");
    map.words().insert(256, 0).expect("insert");
    map.first();
}
