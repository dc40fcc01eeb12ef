//! Loading sorted entries gives the tree that inserts give.

use nearfield_core::{ByteStrings, OperationError, OrderedIndex, ScanDirection, Words};
use nearfield_radix::{Entry, RadixForm, RadixIndex, RadixLoader};
use nearfield_testkit::keys::{self, SampleForm};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

fn all<F: RadixForm>(index: &RadixIndex<F>) -> Vec<Entry<F>> {
    let mut entries = Vec::new();
    index.scan(
        Bound::Unbounded,
        ScanDirection::Ascending,
        512,
        |key, value| {
            entries.push((F::own_key(key), F::own_value(value)));
            ControlFlow::Continue(())
        },
    );
    entries
}

fn load<F: RadixForm>(entries: &BTreeMap<F::OwnedKey, F::OwnedValue>) -> RadixIndex<F> {
    let entries = entries.iter();
    RadixIndex::from_sorted(entries.map(|(key, value)| (F::key(key), F::value(value))))
        .expect("load")
}

fn insert<F: RadixForm>(entries: &BTreeMap<F::OwnedKey, F::OwnedValue>) -> RadixIndex<F> {
    let index = RadixIndex::new().expect("address space");
    for (key, value) in entries {
        index.insert(F::key(key), F::value(value)).expect("insert");
    }
    index
}

/// Returns the bytes of nodes and leaves in use once all replaced ones are free. The tables of
/// jumps are not included: they grow when they encounter a full bucket, which depends on the order
/// of the keys.
fn settled_bytes<F: RadixForm>(index: &RadixIndex<F>) -> usize {
    for _ in 0..64 {
        crossbeam_epoch::pin().flush();
    }
    let memory = index.memory();
    memory.total_bytes() - memory.jump_bytes
}

fn equals_inserts<F: SampleForm + RadixForm>() {
    for &kind in F::KINDS {
        for (seed, count) in [0, 1, 2, 5, 17, 49, 60, 300, 5000].into_iter().enumerate() {
            let mut random = keys::random(seed as u64);
            let entries: BTreeMap<_, _> = F::keys(kind, count, &mut random)
                .into_iter()
                .map(|key| (key, F::any_value(&mut random)))
                .collect();
            let (loaded, inserted) = (load::<F>(&entries), insert::<F>(&entries));
            loaded.check_invariants();
            assert_eq!(loaded.len(), entries.len(), "{kind:?}, {count} keys");
            assert!(
                all(&loaded).into_iter().eq(entries.clone()),
                "{kind:?}, {count} keys"
            );

            // A loader fills leaves better than inserts do.
            let (loaded_bytes, inserted_bytes) = (settled_bytes(&loaded), settled_bytes(&inserted));
            assert!(
                loaded_bytes <= inserted_bytes,
                "{kind:?}, {count} keys: {loaded_bytes} bytes, {inserted_bytes} by inserts"
            );

            // The tree can be changed like any other.
            for (at, key) in entries.keys().enumerate() {
                match at % 3 {
                    0 => assert!(loaded.remove(F::key(key)).expect("remove").is_some()),
                    _ => {
                        let near = F::near(F::key(key), &mut random);
                        if F::check(F::key(&near), None).is_err() {
                            continue;
                        }
                        let value = F::any_value(&mut random);
                        loaded
                            .insert(F::key(&near), F::value(&value))
                            .expect("insert");
                    }
                }
            }
            loaded.check_invariants();
        }
    }
}

#[test]
fn words_equal_inserts() {
    equals_inserts::<Words>();
}

#[test]
fn bytes_equal_inserts() {
    equals_inserts::<ByteStrings>();
}

/// Nodes are built with each number of children up to all 256, at the last byte, where nodes may be
/// dense, and above.
#[test]
fn nodes_of_every_size() {
    for shift in [0, 8] {
        for children in 1..=256 {
            let entries = (0..children)
                .map(|byte| (7 << 32 | byte << shift, byte))
                .collect();
            let loaded = load::<Words>(&entries);
            loaded.check_invariants();
            let memory = loaded.memory();
            let ranges = (children as usize).div_ceil(7);
            assert_eq!(memory.dense_bytes > 0, shift == 0 && children > 105);
            if memory.dense_bytes == 0 {
                assert_eq!(memory.leaf_bytes, ranges * 128, "full blocks");
            }
            let inserted = insert::<Words>(&entries);
            assert!(
                memory.total_bytes() <= settled_bytes(&inserted),
                "{children} children: {memory:?}, by inserts {:?}",
                inserted.memory()
            );
        }
    }
}

#[test]
fn unsorted_input_is_refused_with_its_position() {
    let error = RadixIndex::<Words>::from_sorted([(1, 0), (5, 0), (5, 0)]).expect_err("equal keys");
    let (position, key) = (2, "5".to_owned());
    assert_eq!(error, OperationError::NotSorted { position, key });
    let entries: [(&[u8], &[u8]); 3] = [(b"b", b""), (b"bb", b""), (b"a\xff", b"")];
    let error = RadixIndex::<ByteStrings>::from_sorted(entries).expect_err("descending keys");
    let (position, key) = (2, "a\\xff".to_owned());
    assert_eq!(error, OperationError::NotSorted { position, key });
    assert!(error.to_string().contains("at position 2"), "{error}");
}

/// A refused entry leaves the loader as it was.
#[test]
fn others_may_follow_a_refused_entry() {
    let mut loader = RadixLoader::<ByteStrings>::new(usize::MAX).expect("address space");
    loader.push(b"b", b"1").expect("push");
    assert!(matches!(
        loader.push(b"a", b"2"),
        Err(OperationError::NotSorted { position: 1, .. })
    ));
    assert!(matches!(
        loader.push(b"b", b"2"),
        Err(OperationError::NotSorted { position: 1, .. })
    ));
    let long = vec![b'c'; nearfield_core::MAX_KEY_BYTES + 1];
    assert!(matches!(
        loader.push(&long, b"2"),
        Err(OperationError::KeyTooLong { .. })
    ));
    loader.push(b"c", b"3").expect("push");
    let index = loader.finish().expect("finish");
    index.check_invariants();
    let entry = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
    assert_eq!(all(&index), [entry(b"b", b"1"), entry(b"c", b"3")]);
}

/// Under AddressSanitizer with leak detection, this shows entries outside the region that a loader
/// does not free; in any case it must end with the error.
#[test]
fn a_load_past_the_memory_limit_fails() {
    let mut loader = RadixLoader::<ByteStrings>::new(1 << 20).expect("address space");
    let error = (0..10_000u32)
        .find_map(|i| loader.push(&i.to_be_bytes(), &[7; 2000]).err())
        .expect("10,000 values of 2,000 bytes do not fit into 1 MiB");
    assert!(
        matches!(error, OperationError::OutOfMemory { .. }),
        "{error}"
    );
    let mut loader = RadixLoader::<Words>::new(1 << 20).expect("address space");
    let error = (0..1_000_000).find_map(|i| loader.push(i << 20, i).err());
    assert!(
        matches!(error, Some(OperationError::OutOfMemory { .. })),
        "{error:?}"
    );
}
