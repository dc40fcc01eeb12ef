//! Insertions in ascending order: many at once, at the right end and between other keys.

use nearfield_core::{Batch, ByteStrings, OrderedIndex, Words};
use nearfield_radix::{RadixForm, RadixIndex};
use std::collections::BTreeMap;

/// Inserts numbers in ascending order, in batches, among existing keys. Then all entries equal
/// those of a `BTreeMap`, and so do the values that each insertion has replaced.
fn check<F: RadixForm>(
    before: &[u64],
    batches: impl Iterator<Item = Vec<u64>>,
    key: impl Fn(u64) -> F::OwnedKey,
    value: impl Fn(u64) -> F::OwnedValue,
) -> RadixIndex<F>
where
    F::OwnedKey: Clone,
{
    let index = RadixIndex::<F>::new().expect("address space");
    let mut model = BTreeMap::new();
    for &number in before {
        let (key, value) = (key(number), value(number));
        index
            .insert(F::key(&key), F::value(&value))
            .expect("insert");
        model.insert(key, value);
    }
    let mut batch = Batch::<F>::new();
    for (round, numbers) in batches.enumerate() {
        batch.clear();
        let entries: Vec<_> = numbers
            .iter()
            .map(|&number| (key(number), value(number + round as u64)))
            .collect();
        for (key, value) in &entries {
            batch.insert(F::key(key), F::value(value));
        }
        index.execute(&mut batch).expect("execute");
        for (position, (key, value)) in entries.into_iter().enumerate() {
            let met = batch.value(position).map(F::own_value);
            assert_eq!(met, model.insert(key, value), "position {position}");
        }
        index.check_invariants();
    }
    assert_eq!(index.len(), model.len());
    for (key, value) in &model {
        let found = index.get(F::key(key)).expect("get");
        assert_eq!(found.as_ref(), Some(value));
    }
    index
}

/// Returns batches of `size` of the numbers below `count`, `apart` from each other.
fn batches(count: u64, size: usize, apart: u64) -> impl Iterator<Item = Vec<u64>> {
    let numbers: Vec<u64> = (0..count).map(|number| number * apart).collect();
    let batches: Vec<_> = numbers.chunks(size).map(<[u64]>::to_vec).collect();
    batches.into_iter()
}

/// Returns the count of numbers for batches of `size`. A check of the whole index follows each
/// batch, so there are at most 500.
fn count_of(size: usize) -> u64 {
    (500 * size as u64).min(10_000)
}

fn digits(number: u64) -> Vec<u8> {
    format!("{number:016}").into_bytes()
}

fn short(number: u64) -> Vec<u8> {
    number.to_le_bytes()[..(number % 9) as usize].to_vec()
}

#[test]
fn words_at_the_right_end() {
    for (size, apart) in [(4, 1), (300, 1), (4096, 1), (1000, 1000), (1000, 1 << 40)] {
        check::<Words>(
            &[],
            batches(count_of(size), size, apart),
            |number| number,
            |number| number,
        );
    }
}

#[test]
fn byte_strings_at_the_right_end() {
    for (size, apart) in [(4, 1), (300, 1), (4096, 1), (1000, 1000)] {
        check::<ByteStrings>(&[], batches(count_of(size), size, apart), digits, short);
    }
}

#[test]
fn runs_among_other_keys() {
    let before: Vec<u64> = (0..3000).map(|number| number * 7919 % 30_011).collect();
    for size in [10, 500, 5000] {
        check::<Words>(
            &before,
            batches(count_of(size), size, 3),
            |number| number,
            |number| number,
        );
        check::<ByteStrings>(&before, batches(count_of(size), size, 3), digits, short);
        // Repeated: all keys exist the second time.
        let twice = batches(5000, size, 2).chain(batches(5000, size, 2));
        check::<ByteStrings>(&before, twice, digits, short);
    }
}

#[test]
fn keys_that_begin_others() {
    let key = |number: u64| vec![b'a'; number as usize];
    check::<ByteStrings>(&[], batches(200, 50, 1), key, short);
    check::<ByteStrings>(&[3, 60, 199], batches(200, 200, 1), key, short);
}

#[test]
fn large_values_and_a_path_that_forks() {
    let value = |number: u64| vec![7; (number % 5 * 400) as usize];
    check::<ByteStrings>(&[], batches(2000, 300, 1), digits, value);
    // Keys that differ from the run's in bytes that the path to it skips.
    let key = |number: u64| match number % 1000 {
        0 => format!("0000{number:016}x").into_bytes(),
        _ => format!("00000000{number:012}").into_bytes(),
    };
    let run = (5001..5600).collect::<Vec<_>>();
    check::<ByteStrings>(&[1000, 5001, 5002, 7000], [run].into_iter(), key, value);
}

/// Ascending keys fill their leaves.
#[test]
fn leaves_are_full() {
    let ascending = check::<ByteStrings>(&[], batches(20_000, 1000, 1), digits, |_| vec![0; 8]);
    let per_key = ascending.memory().total_bytes() as f64 / 20_000.0;
    assert!(per_key < 32.0, "{per_key} bytes a key");
    let dense = check::<Words>(
        &[],
        batches(20_000, 1000, 1),
        |number| number,
        |number| number,
    );
    assert!(dense.memory().dense_bytes > 0);
}
