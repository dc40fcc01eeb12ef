//! Modules that are full lose no entries, and scans of all entries.

use nearfield_core::{Batch, OperationError, OperationOutcome, OrderedIndex, ScanDirection, Words};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Returns all entries; `None` if a round or a module has failed.
pub fn everything(index: &impl OrderedIndex<Words>) -> Option<BTreeMap<u64, u64>> {
    let mut batch = Batch::<Words>::new();
    let all = (Bound::Unbounded, Bound::Unbounded);
    batch.scan(all.0, all.1, u32::MAX, ScanDirection::Ascending);
    index.execute(&mut batch).ok()?;
    let is_done = matches!(batch.outcome(0), OperationOutcome::Entries(_));
    is_done.then(|| batch.entries(0).collect())
}

/// Returns all entries, after as many attempts as it takes.
pub fn everything_at_last(index: &impl OrderedIndex<Words>) -> BTreeMap<u64, u64> {
    loop {
        if let Some(everything) = everything(index) {
            return everything;
        }
    }
}

/// Inserts keys from the whole key space, and then keys from a small part of it, until nothing fits
/// any more.
pub fn fill(index: &impl OrderedIndex<Words>) {
    let mut map = BTreeMap::new();
    let (mut full, mut number) = (0, 0_u64);
    while full < 200 {
        let mut batch = Batch::<Words>::new();
        let keys: Vec<u64> = (0..300)
            .map(|position| {
                number += 1;
                let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                // A third of the keys are close to each other.
                if position % 3 == 0 { key >> 20 } else { key }
            })
            .collect();
        for &key in &keys {
            batch.insert(key, !key);
        }
        index.execute(&mut batch).expect("begun");
        for (position, &key) in keys.iter().enumerate() {
            match batch.outcome(position) {
                OperationOutcome::Value(None) => assert_eq!(map.insert(key, !key), None),
                OperationOutcome::Failed(OperationError::OutOfMemory { what }) => {
                    assert!(what.contains("no room"), "{what}");
                    full += 1;
                }
                outcome => panic!("{outcome:?}"),
            }
        }
        assert_eq!(index.len(), map.len());
        assert!(number < 1_000_000, "it never gets full");
    }
    // Keys of a batch are far apart, so that all modules have some.
    let count = map.len().div_ceil(300);
    for first in 0..count {
        let some = || map.iter().skip(first).step_by(count);
        let mut batch = Batch::<Words>::new();
        for (key, _) in some() {
            batch.get(*key);
        }
        index.execute(&mut batch).expect("executed");
        for (position, (_, value)) in some().enumerate() {
            let expected: OperationOutcome<'_, Words> = OperationOutcome::Value(Some(*value));
            assert_eq!(batch.outcome(position), expected);
        }
    }
    // A removal makes room in its module.
    let some = map.keys().copied().step_by(map.len() / 500);
    let some: Vec<u64> = some.collect();
    for key in &some {
        assert_eq!(index.remove(*key), Ok(map.remove(key)));
    }
    // Some keys may not fit again, because merged blocks also make room for keys of other lists.
    let again = some.iter().filter(|key| match index.insert(**key, 1) {
        Ok(None) => true,
        Err(OperationError::OutOfMemory { .. }) => false,
        outcome => panic!("{outcome:?}"),
    });
    let (again, all) = (again.count(), some.len());
    assert!(again >= all * 49 / 50, "{again} of {all}");
}

/// Executes a batch that is too large for a module with a bank of 16 KiB. It is refused as a whole.
pub fn refuses_large_batch(index: &impl OrderedIndex<Words>) {
    let key = |number: u64| number * 1000;
    let mut batch = Batch::<Words>::new();
    for number in 0..60 {
        batch.insert(key(number), number);
    }
    index.execute(&mut batch).expect("executed");
    let mut batch = Batch::<Words>::new();
    for number in 0..20_000 {
        batch.get(key(number % 60));
    }
    let error = index.execute(&mut batch).expect_err("too large");
    assert!(error.to_string().contains("bytes for module"), "{error}");
    assert_eq!(index.len(), 60);
    for number in 0..60 {
        assert_eq!(index.get(key(number)), Ok(Some(number)));
    }
}
