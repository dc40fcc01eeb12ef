//! Tests of stores whose slots do not hold all keys: the rest of a long key is in a block.
#![cfg(target_os = "linux")]

use crate::store::PostCountEndpoint;
use nearfield_core::{
    Batch, ByteStrings, OperationError, OperationOutcome, OrderedIndex, ScanDirection,
};
use nearfield_fabric::transport::shm::ShmEndpoint;
use nearfield_fabric_testkit::ShmNodes;
use nearfield_pool::PoolError;
use nearfield_pool::store::{PoolStore, StoreOpenError, StoreOptions};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

type LongKeyStore = PoolStore<ByteStrings, ShmEndpoint>;

fn served() -> ShmNodes {
    ShmNodes::serve(1, 64 << 20).expect("a node")
}

/// Returns options for keys of up to 300 bytes, of which slots hold `key_slot_bytes`.
fn options(key_slot_bytes: usize, key_hash_bytes: usize) -> StoreOptions {
    let mut options = StoreOptions {
        key_bytes_max: 300,
        key_slot_bytes: Some(key_slot_bytes),
        key_hash_bytes,
        ..StoreOptions::default()
    };
    (
        options.tree.shape.leaf_span,
        options.tree.shape.internal_span,
    ) = (16, 8);
    options.tree.hotspot_bytes = 0;
    options
}

fn open(nodes: &ShmNodes, options: &StoreOptions) -> Result<LongKeyStore, StoreOpenError> {
    let endpoint = ShmEndpoint::attach(nodes.names()).expect("the nodes are served");
    PoolStore::open(move || Ok(endpoint.clone()), options)
}

/// Returns a key of one of three families, in no order of its number.
fn key(number: usize) -> Vec<u8> {
    let mixed = number * 7919 % 100_003;
    match number % 4 {
        // A whole key, between the others.
        0 => format!("key{mixed:05}").into_bytes(),
        1 => format!("https://example.com/{mixed:05}").into_bytes(),
        2 => format!("https://example.com/{mixed:05}/{}", "x".repeat(mixed % 90)).into_bytes(),
        _ => format!("https://example.org/{mixed:05}").into_bytes(),
    }
}

fn scan(
    store: &LongKeyStore,
    (low, high): (Bound<&[u8]>, Bound<&[u8]>),
    limit: u32,
    direction: ScanDirection,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut batch = Batch::<ByteStrings>::new();
    batch.scan(low, high, limit, direction);
    store.execute(&mut batch).expect("a batch");
    let entries = batch.entries(0);
    entries
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

/// Hundreds of keys with one beginning are returned in the order of keys, from any bound, in both
/// directions, and by limits that end among them.
#[test]
fn ranges_are_in_order_within_one_beginning() {
    for hash in [0, 1, 4] {
        let nodes = served();
        let store = open(&nodes, &options(12, hash)).expect("a store");
        let mut map = BTreeMap::new();
        for number in 0..800 {
            let value = vec![number as u8; number % 40];
            assert_eq!(store.insert(&key(number), &value), Ok(None));
            map.insert(key(number), value);
        }
        let bounds: Vec<Vec<u8>> = vec![
            key(2),
            b"https://exam".to_vec(),
            b"https://example.com/5".to_vec(),
            b"https://example.com/\xff".to_vec(),
            b"https://fxample.com/5".to_vec(),
            vec![b'h'; 400],
        ];
        for low in &bounds {
            for high in &bounds {
                for (low, high) in [
                    (Bound::Included(&low[..]), Bound::Excluded(&high[..])),
                    (Bound::Excluded(&low[..]), Bound::Included(&high[..])),
                    (Bound::Unbounded, Bound::Included(&high[..])),
                    (Bound::Excluded(&low[..]), Bound::Unbounded),
                ] {
                    let is_in = |key: &&Vec<u8>| {
                        let key = &key[..];
                        (match low {
                            Bound::Included(low) => key >= low,
                            Bound::Excluded(low) => key > low,
                            Bound::Unbounded => true,
                        }) && match high {
                            Bound::Included(high) => key <= high,
                            Bound::Excluded(high) => key < high,
                            Bound::Unbounded => true,
                        }
                    };
                    let expected: Vec<&Vec<u8>> = map.keys().filter(is_in).collect();
                    for limit in [1, 70, 1000] {
                        let up = scan(&store, (low, high), limit, ScanDirection::Ascending);
                        let first = expected.iter().take(limit as usize);
                        assert!(up.iter().map(|(key, _)| key).eq(first.copied()));
                        assert!(up.iter().all(|(key, value)| map[key] == *value));
                        let down = scan(&store, (low, high), limit, ScanDirection::Descending);
                        let last = expected.iter().rev().take(limit as usize);
                        assert!(down.iter().map(|(key, _)| key).eq(last.copied()));
                    }
                }
            }
        }
        assert_eq!(store.count(), Ok(map.len()));
        let mut batch = Batch::<ByteStrings>::new();
        batch.successor(b"https://example.com/");
        batch.predecessor(b"https://example.com/\xff");
        store.execute(&mut batch).expect("a batch");
        let inside = |key: &&Vec<u8>| key.starts_with(b"https://example.com/");
        let (least, greatest) = (map.keys().find(inside), map.keys().rev().find(inside));
        for (position, expected) in [least, greatest].into_iter().enumerate() {
            let expected = expected.expect("some");
            let entry = Some((&expected[..], &map[expected][..]));
            assert_eq!(batch.outcome(position), OperationOutcome::Entry(entry));
        }
        // Removing every other key leaves the others, although they share blocks.
        for number in (0..800).step_by(2) {
            let removed = map.remove(&key(number));
            assert_eq!(store.remove(&key(number)), Ok(removed));
        }
        for number in 0..800 {
            assert_eq!(store.get(&key(number)), Ok(map.get(&key(number)).cloned()));
        }
        assert_eq!(store.count(), Ok(map.len()));
    }
}

/// Keys with one beginning and one hash share a block: the first two that are found by search.
#[test]
fn keys_of_one_hash_are_distinct() {
    let mut found = BTreeMap::new();
    let (one, other) = (0_u64..)
        .find_map(|number| {
            let hash = xxhash_rust::xxh3::xxh3_64(&number.to_be_bytes()) as u32;
            Some((found.insert(hash, number)?, number))
        })
        .expect("2^32 hashes, and more numbers");
    let [one, other] = [one, other].map(|number| [&b"begin"[..], &number.to_be_bytes()].concat());
    let nodes = served();
    let store = open(&nodes, &options(5, 4)).expect("a store");
    assert_eq!(store.insert(&one, b"1"), Ok(None));
    assert_eq!(store.get(&other), Ok(None));
    assert_eq!(store.remove(&other), Ok(None));
    assert_eq!(store.insert(&other, b"2"), Ok(None));
    assert_eq!(store.count(), Ok(2));
    assert_eq!(store.put(&one, &[3; 100]), Ok(()));
    let mut batch = Batch::<ByteStrings>::new();
    batch.get(&one);
    batch.get(&other);
    store.execute(&mut batch).expect("a batch");
    assert_eq!(batch.value(0), Some(&[3; 100][..]));
    assert_eq!(batch.value(1), Some(&b"2"[..]));
    assert_eq!(store.remove(&one), Ok(Some(vec![3; 100])));
    assert_eq!(store.get(&one), Ok(None));
    assert_eq!(store.get(&other), Ok(Some(b"2".to_vec())));
    assert_eq!(store.remove(&other), Ok(Some(b"2".to_vec())));
    assert_eq!(store.count(), Ok(0));
}

/// Short keys take a third of the memory that they take if each slot has room for the longest key.
#[test]
fn short_keys_take_little_memory_beside_long_ones() {
    let allocated = |options: &StoreOptions| {
        let nodes = served();
        let store = open(&nodes, options).expect("a store");
        let empty = nodes.allocated_bytes();
        let mut batch = Batch::<ByteStrings>::new();
        for number in 0..20_000 {
            // One key of a hundred is long.
            let key = match number % 100 {
                0 => [&key(number)[..], &[b'y'; 200]].concat(),
                _ => format!("user:{number:06}").into_bytes(),
            };
            batch.insert(&key, b"value");
        }
        store.execute(&mut batch).expect("a batch");
        assert_eq!(store.count(), Ok(20_000));
        nodes.allocated_bytes() - empty
    };
    let indirect = options(24, 4);
    let whole = StoreOptions {
        key_slot_bytes: None,
        ..indirect
    };
    let (indirect, whole) = (allocated(&indirect), allocated(&whole));
    println!("{indirect} bytes, {whole} with room for all keys");
    assert!(indirect * 3 < whole, "{indirect} of {whole}");
}

/// A key that its slot holds takes one round trip to read, and another key two.
#[test]
fn a_long_key_takes_one_round_trip_more() {
    let nodes = served();
    let posts = Arc::new(AtomicU64::new(0));
    let (endpoint, counted) = (
        ShmEndpoint::attach(nodes.names()).expect("the nodes are served"),
        Arc::clone(&posts),
    );
    let connect = move || {
        Ok(PostCountEndpoint {
            endpoint: endpoint.clone(),
            posts: Arc::clone(&counted),
        })
    };
    let mut options = options(24, 4);
    options.tree.shape.leaf_span = 64;
    let store: PoolStore<ByteStrings, PostCountEndpoint> =
        PoolStore::open(connect, &options).expect("a store");
    let keys = |length: usize| (0..200).map(move |number| format!("{number:0length$}"));
    for length in [20, 60] {
        for key in keys(length) {
            store.put(key.as_bytes(), b"value").expect("a put");
        }
    }
    for (length, round_trips) in [(20, 1), (60, 2)] {
        // The first reads find the leaves that were divided.
        for counts in [false, true] {
            posts.store(0, Relaxed);
            for key in keys(length) {
                assert_eq!(store.get(key.as_bytes()), Ok(Some(b"value".to_vec())));
            }
            let posts = posts.load(Relaxed);
            // Leases are renewed now and then.
            let expected = 200 * round_trips..200 * round_trips + 40;
            assert!(!counts || expected.contains(&posts), "{length}: {posts}");
        }
    }
}

/// A store is opened with the form of keys that its creator chose. The slots of the third have the
/// same length as those of the first.
#[test]
fn another_form_of_keys_is_refused() {
    let nodes = served();
    let first = options(24, 4);
    let store = open(&nodes, &first).expect("a store");
    store.insert(&[7; 40], b"long").expect("an insert");
    let others = [
        options(25, 4),
        options(26, 2),
        StoreOptions {
            key_bytes_max: 28,
            key_slot_bytes: None,
            ..first
        },
    ];
    for other in others {
        let refused = open(&nodes, &other).map(drop);
        assert!(
            matches!(
                refused,
                Err(StoreOpenError::Pool(PoolError::NoIndex { .. }))
            ),
            "{refused:?}"
        );
    }
    // The longest key is not part of the form.
    let shorter = StoreOptions {
        key_bytes_max: 30,
        ..first
    };
    let store = open(&nodes, &shorter).expect("the store");
    assert_eq!(store.count(), Ok(1));
    let too_long = store.get(&[7; 40]);
    assert!(
        matches!(too_long, Err(OperationError::KeyTooLong { limit: 30, .. })),
        "{too_long:?}"
    );
}

/// A value that no node has room for is refused, and the operations around it are done.
#[test]
fn long_keys_without_room_are_refused_alone() {
    let nodes = served();
    let store = open(&nodes, &options(4, 0)).expect("a store");
    let huge = vec![7; 100 << 20];
    let mut batch = Batch::<ByteStrings>::new();
    batch.insert(b"a long key", b"1");
    batch.insert(b"a long key", &huge);
    batch.get(b"a long key");
    batch.insert(b"a longer key", b"2");
    store.execute(&mut batch).expect("a batch");
    assert_eq!(batch.outcome(0), OperationOutcome::Value(None));
    match batch.outcome(1) {
        OperationOutcome::Failed(OperationError::OutOfMemory { what }) => {
            assert!(what.starts_with("entry of key \"a long key\""), "{what}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(batch.value(2), Some(&b"1"[..]));
    assert_eq!(batch.outcome(3), OperationOutcome::Value(None));
    assert!(matches!(
        store.put(b"a long key", &huge),
        Err(OperationError::OutOfMemory { .. })
    ));
    assert_eq!(store.get(b"a longer key"), Ok(Some(b"2".to_vec())));
    assert_eq!(store.get(b"a long key"), Ok(Some(b"1".to_vec())));
    // Blocks that are replaced are used again.
    let before = nodes.allocated_bytes();
    for round in 0..20_000_u32 {
        let value = vec![round as u8; 1000];
        assert_eq!(store.put(b"a long key", &value), Ok(()));
    }
    let added = nodes.allocated_bytes().saturating_sub(before);
    assert!(added < 12 << 20, "{added} bytes for 20 MB of values");
}
