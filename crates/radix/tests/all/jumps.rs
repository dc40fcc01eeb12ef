//! Walks that jump, over keys that begin alike.

use nearfield_core::{Batch, ByteStrings, OrderedIndex};
use nearfield_radix::{Combine, EngineOptions, RadixCounters, RadixIndex};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

const BATCH: usize = 64;

/// Returns the number of nodes that a get passes, on average.
fn nodes_of_a_get(index: &RadixIndex<ByteStrings>, keys: &[Vec<u8>]) -> f64 {
    let mut counters = RadixCounters::default();
    for keys in keys.chunks(BATCH) {
        let mut batch = Batch::<ByteStrings>::new();
        for key in keys {
            batch.get(key);
        }
        index
            .execute_counted(&mut batch, &mut counters)
            .expect("gets");
        assert!((0..keys.len()).all(|position| batch.value(position) == Some(b"value")));
    }
    counters.partial_key_matches as f64 / keys.len() as f64
}

/// Keys of a service begin alike, and then have numbers. Walks jump past both.
#[test]
fn gets_of_keys_that_begin_alike_pass_few_nodes() {
    type Form = fn(u64) -> String;
    let forms: [(&str, Form); 4] = [
        ("padded", |i| format!("key:{i:012}")),
        ("plain", |i| format!("user:{i}:profile")),
        ("hexadecimal", |i| format!("session:{i:05x}:token")),
        ("several", |i| {
            format!("{}:{:08}", ["cart", "order", "user"][i as usize % 3], i / 3)
        }),
    ];
    for (name, form) in forms {
        let mut keys: Vec<_> = (0..100_000).map(|i| form(i).into_bytes()).collect();
        let sorted = {
            let mut sorted = keys.clone();
            sorted.sort();
            sorted
        };
        keys.shuffle(&mut SmallRng::seed_from_u64(1));
        let index = RadixIndex::<ByteStrings>::new().expect("address space");
        let mut batch = Batch::<ByteStrings>::new();
        for keys in keys.chunks(BATCH) {
            batch.clear();
            for key in keys {
                batch.insert(key, b"value");
            }
            index.execute(&mut batch).expect("inserts");
        }
        index.check_invariants();
        let in_order = RadixIndex::<ByteStrings>::new().expect("address space");
        for key in &sorted {
            in_order.insert(key, b"value").expect("insert");
        }
        in_order.check_invariants();
        let built = RadixIndex::<ByteStrings>::from_sorted(
            sorted.iter().map(|key| (&key[..], &b"value"[..])),
        );
        let built = built.expect("keys in order");
        built.check_invariants();
        for (how, index) in [
            ("random", &index),
            ("in order", &in_order),
            ("built", &built),
        ] {
            let nodes = nodes_of_a_get(index, &keys);
            assert!(nodes < 1.8, "{name}, {how}: {nodes}");
        }
    }
}

/// Returns a key of one of some families, which differ in early and late bytes.
fn some_key(rng: &mut SmallRng, families: &[&str]) -> Vec<u8> {
    let family = families[rng.random_range(0..families.len())];
    let number: u32 = rng.random_range(0..3000);
    match rng.random_range(0..8) {
        0 => format!("{family}{}", number % 30).into_bytes(),
        1 => family.as_bytes()[..number as usize % (family.len() + 1)].to_vec(),
        _ => format!("{family}{number:06}").into_bytes(),
    }
}

/// Families of keys are added and removed, so that nodes above the others are, too.
#[test]
fn jumps_follow_changes_of_how_keys_begin() {
    const FAMILIES: [&str; 8] = [
        "user:",
        "users:",
        "user-name:",
        "usual",
        "use",
        "session:00000000",
        "session:00010000",
        "sesame",
    ];
    for seed in 0..6 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let index = RadixIndex::<ByteStrings>::new().expect("address space");
        if seed % 2 == 1 {
            index.set_options(EngineOptions {
                combine: Combine::Always,
                ..EngineOptions::default()
            });
        }
        let mut model = BTreeMap::new();
        let mut batch = Batch::<ByteStrings>::new();
        for round in 0..120_u32 {
            let mut families = FAMILIES.to_vec();
            families.shuffle(&mut rng);
            families.truncate(rng.random_range(1..=FAMILIES.len()));
            let removes = rng.random_range(0..3) == 0;
            batch.clear();
            let mut expected = Vec::new();
            for _ in 0..rng.random_range(1..600) {
                let key = some_key(&mut rng, &families);
                match removes || rng.random_range(0..4) == 0 {
                    true => {
                        batch.remove(&key);
                        expected.push(model.remove(&key));
                    }
                    false => {
                        let value = round.to_le_bytes().to_vec();
                        batch.insert(&key, &value);
                        expected.push(model.insert(key, value));
                    }
                }
            }
            if rng.random_range(0..20) == 0 {
                // All keys of a family in one batch.
                let family = families[0].as_bytes();
                let gone = |key: &Vec<u8>| key.starts_with(family);
                let keys: Vec<_> = model.keys().filter(|key| gone(key)).cloned().collect();
                for key in keys {
                    batch.remove(&key);
                    expected.push(model.remove(&key));
                }
            }
            eprintln!(
                "seed {seed} round {round} removes {removes} {families:?} {}",
                expected.len()
            );
            index.execute(&mut batch).expect("changes");
            for (position, before) in expected.iter().enumerate() {
                assert_eq!(batch.value(position), before.as_deref(), "seed {seed}");
            }
            index.check_invariants();
            batch.clear();
            let keys: Vec<_> = (0..500).map(|_| some_key(&mut rng, &FAMILIES)).collect();
            for key in &keys {
                batch.get(key);
            }
            index.execute(&mut batch).expect("gets");
            for (position, key) in keys.iter().enumerate() {
                let expected = model.get(key).map(|value| &value[..]);
                assert_eq!(batch.value(position), expected, "seed {seed}, {key:?}");
            }
        }
    }
}
