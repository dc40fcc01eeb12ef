//! Tests of stores over shared memory, each with a memory node in a thread of this process: the
//! tests of every index of Nearfield, and the limits of stores.
#![cfg(target_os = "linux")]

use nearfield_core::{
    Batch, ByteStrings, OperationError, OperationOutcome, OrderedIndex, ScanDirection, Words,
};
use nearfield_fabric::transport::shm::ShmEndpoint;
use nearfield_fabric::{
    ClientProcessorWork, Endpoint, FabricError, FabricVerb, GlobalAddress, NodeId,
};
use nearfield_fabric_testkit::ShmNodes;
use nearfield_pool::PoolError;
use nearfield_pool::chime;
use nearfield_pool::store::{
    PoolEntryForm, PoolRepairError, PoolStore, StoreOpenError, StoreOptions,
};
use nearfield_testkit::concurrent::{self, ConcurrentTestConfig};
use nearfield_testkit::model;
use nearfield_testkit::stop::AtEnd;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

fn served(nodes: u16, bytes: u64) -> ShmNodes {
    ShmNodes::serve(nodes, bytes).expect("nodes")
}

/// Opens the store on some nodes.
fn open<F: PoolEntryForm>(
    nodes: &ShmNodes,
    options: &StoreOptions,
) -> Result<PoolStore<F, ShmEndpoint>, StoreOpenError> {
    let endpoint = ShmEndpoint::attach(nodes.names()).expect("the nodes are served");
    PoolStore::open(move || Ok(endpoint.clone()), options)
}

/// A store with its nodes.
struct StoreWithNodes<F> {
    store: PoolStore<F, ShmEndpoint>,
    _nodes: ShmNodes,
}

impl<F: PoolEntryForm> OrderedIndex<F> for StoreWithNodes<F> {
    fn execute(&self, batch: &mut Batch<F>) -> Result<(), OperationError> {
        self.store.execute(batch)
    }

    fn len(&self) -> usize {
        self.store.count().expect("the nodes are served")
    }
}

/// Returns small nodes, so that there are many; both trees, and one operation at a time, too.
fn options(seed: u64, key_bytes_max: usize) -> StoreOptions {
    let mut tree = match seed % 3 {
        0 => chime::ChimeOptions::chime(),
        _ => chime::ChimeOptions::nearfield(),
    };
    if !seed.is_multiple_of(5) {
        (tree.shape.leaf_span, tree.shape.internal_span) = (16, 8);
    }
    tree.hotspot_bytes = 1 << 16;
    tree.fills_last = !seed.is_multiple_of(2);
    tree.cache_bytes = if seed.is_multiple_of(4) {
        1 << 18
    } else {
        1 << 22
    };
    StoreOptions {
        key_bytes_max,
        key_slot_bytes: None,
        key_hash_bytes: 4,
        inline_bytes_max: 12 + seed as usize % 20,
        in_flight: [1, 8, 64][seed as usize % 3],
        tree,
    }
}

fn own<F: PoolEntryForm>(seed: u64, key_bytes_max: usize) -> StoreWithNodes<F> {
    own_with(seed, &options(seed, key_bytes_max))
}

/// Returns a store whose slots hold few bytes of keys, and in which many keys share a block.
fn own_long(seed: u64, key_bytes_max: usize) -> StoreWithNodes<ByteStrings> {
    let options = StoreOptions {
        key_slot_bytes: Some([1, 2, 5, 16][seed as usize % 4]),
        key_hash_bytes: [0, 1, 4][seed as usize % 3],
        ..options(seed, key_bytes_max)
    };
    own_with(seed, &options)
}

fn own_with<F: PoolEntryForm>(seed: u64, options: &StoreOptions) -> StoreWithNodes<F> {
    let nodes = served(1 + seed as u16 % 2, 256 << 20);
    let store = open(&nodes, options).expect("a store");
    StoreWithNodes {
        store,
        _nodes: nodes,
    }
}

#[test]
fn words_do_what_a_map_does() {
    model::check::<Words, _>(12, |seed| own(seed, 8));
}

#[test]
fn bytes_do_what_a_map_does() {
    model::check_short(10, 24, |seed| own(seed, 24));
}

#[test]
fn long_bytes_do_what_a_map_does() {
    model::check_short(4, 300, |seed| own(seed, 300));
}

#[test]
fn bytes_that_slots_do_not_hold_do_what_a_map_does() {
    model::check_short(12, 300, |seed| own_long(seed, 300));
}

const CONFIG: ConcurrentTestConfig = ConcurrentTestConfig {
    threads: 3,
    operations: 2_000,
    keys_max: 60,
    batch_size_max: 32,
};

#[test]
fn words_are_linearizable() {
    concurrent::check::<Words, _>(4, &CONFIG, |seed| own(seed, 8));
}

#[test]
fn bytes_are_linearizable() {
    concurrent::check::<ByteStrings, _>(4, &CONFIG, |seed| own(seed, 400));
}

#[test]
fn bytes_that_slots_do_not_hold_are_linearizable() {
    concurrent::check::<ByteStrings, _>(6, &CONFIG, |seed| own_long(seed, 400));
}

/// Keys that are too long, and values that no node has room for, are refused by name, and leave
/// everything unchanged.
#[test]
fn what_is_too_long_is_refused_and_changes_nothing() {
    let nodes = served(1, 64 << 20);
    let store: PoolStore<ByteStrings, _> = open(&nodes, &options(1, 5)).expect("a store");
    store
        .insert(b"abcde", b"1")
        .expect("as long as keys may be");
    let too_long = |result: Result<Option<Vec<u8>>, OperationError>| match result {
        Err(OperationError::KeyTooLong {
            start,
            length,
            limit,
        }) => {
            assert_eq!((&start[..], length, limit), ("abcdef", 6, 5));
        }
        other => panic!("{other:?}"),
    };
    too_long(store.get(b"abcdef"));
    too_long(store.insert(b"abcdef", b"2"));
    too_long(store.remove(b"abcdef"));
    too_long(
        store
            .update(b"abcdef", None, b"2")
            .map(|(_, before)| before),
    );
    let limit = nearfield_core::MAX_VALUE_BYTES;
    match store.put(b"abcde", &vec![0; limit + 1]) {
        Err(OperationError::ValueTooLong { length, .. }) => assert_eq!(length, limit + 1),
        other => panic!("{other:?}"),
    }
    let huge = vec![7; 100 << 20];
    match store.insert(b"abcde", &huge) {
        Err(OperationError::OutOfMemory { what }) => {
            assert!(what.starts_with("entry of key \"abcde\": memory"), "{what}");
        }
        other => panic!("{other:?}"),
    }
    // The operations around a refused one are done.
    let mut batch = Batch::<ByteStrings>::new();
    batch.get(b"abcde");
    batch.insert(b"abcde", &huge);
    batch.update(b"abcde", Some(b"1"), b"2");
    batch.insert(b"abcdef", b"3");
    batch.get(b"abcde");
    store.execute(&mut batch).expect("a batch");
    assert_eq!(batch.outcome(0), OperationOutcome::Value(Some(&b"1"[..])));
    assert!(matches!(
        batch.outcome(1),
        OperationOutcome::Failed(OperationError::OutOfMemory { .. })
    ));
    let updated = OperationOutcome::Updated {
        applied: true,
        before: Some(&b"1"[..]),
    };
    assert_eq!(batch.outcome(2), updated);
    assert!(matches!(
        batch.outcome(3),
        OperationOutcome::Failed(OperationError::KeyTooLong { .. })
    ));
    assert_eq!(batch.outcome(4), OperationOutcome::Value(Some(&b"2"[..])));
    assert_eq!(store.count(), Ok(1));
}

/// Bounds are not keys, and may be longer.
#[test]
fn bounds_may_be_longer_than_keys() {
    let nodes = served(1, 64 << 20);
    let store: PoolStore<ByteStrings, _> = open(&nodes, &options(1, 3)).expect("a store");
    for key in [&b""[..], b"aab", b"abc", b"abd"] {
        store.insert(key, key).expect("an insert");
    }
    let mut batch = Batch::<ByteStrings>::new();
    let mut scan = |low, high| batch.scan(low, high, 9, ScanDirection::Ascending);
    scan(Bound::Included(&b"abcd"[..]), Bound::Unbounded);
    scan(Bound::Excluded(&b"abc\0"[..]), Bound::Unbounded);
    scan(Bound::Unbounded, Bound::Included(&b"abcd"[..]));
    scan(Bound::Unbounded, Bound::Excluded(&b"abc\0"[..]));
    scan(Bound::Included(&b"abc"[..]), Bound::Excluded(&b"abc"[..]));
    batch.predecessor(b"abcd");
    batch.successor(b"abcd");
    batch.successor(b"\xff\xff\xff\xff");
    store.execute(&mut batch).expect("a batch");
    let keys = |position| {
        batch
            .entries(position)
            .map(|(key, _)| key)
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(0), [b"abd"]);
    assert_eq!(keys(1), [b"abd"]);
    assert_eq!(keys(2), [&b""[..], b"aab", b"abc"]);
    assert_eq!(keys(3), [&b""[..], b"aab", b"abc"]);
    assert!(keys(4).is_empty());
    let entry = |key: &'static [u8]| OperationOutcome::Entry(Some((key, key)));
    assert_eq!(batch.outcome(5), entry(b"abc"));
    assert_eq!(batch.outcome(6), entry(b"abd"));
    assert_eq!(batch.outcome(7), OperationOutcome::Entry(None));
}

/// Threads that open at the same time create one store, and one of other lengths is not opened.
#[test]
fn who_comes_first_makes_the_store() {
    let nodes = served(2, 64 << 20);
    let options = options(1, 16);
    std::thread::scope(|scope| {
        for name in 0..4_u8 {
            let (nodes, options) = (&nodes, &options);
            scope.spawn(move || {
                let store: PoolStore<ByteStrings, _> = open(nodes, options).expect("a store");
                store.insert(&[name], b"here").expect("an insert");
            });
        }
    });
    let store: PoolStore<ByteStrings, _> = open(&nodes, &options).expect("the store");
    assert_eq!(store.count(), Ok(4));
    let longer = StoreOptions {
        key_bytes_max: 17,
        ..options
    };
    let refused = open::<ByteStrings>(&nodes, &longer).map(drop);
    assert!(
        matches!(
            refused,
            Err(StoreOpenError::Pool(PoolError::NoIndex { .. }))
        ),
        "{refused:?}"
    );
    let refused = open::<Words>(&nodes, &options).map(drop);
    assert!(
        matches!(
            refused,
            Err(StoreOpenError::Pool(PoolError::NoIndex { .. }))
        ),
        "{refused:?}"
    );
    let found = 4095;
    let longer = StoreOptions {
        key_bytes_max: found,
        ..options
    };
    assert_eq!(
        open::<ByteStrings>(&nodes, &longer).map(drop),
        Err(StoreOpenError::KeyBytes { found })
    );
}

/// Once the node is gone, every operation reports it.
#[test]
fn a_lost_node_is_told() {
    let nodes = served(1, 64 << 20);
    let store: PoolStore<ByteStrings, _> = open(&nodes, &options(1, 16)).expect("a store");
    store.insert(b"a", b"1").expect("an insert");
    drop(nodes);
    let mut batch = Batch::<ByteStrings>::new();
    batch.get(b"a");
    batch.insert(b"b", b"2");
    batch.successor(b"a");
    store
        .execute(&mut batch)
        .expect("operations fail on their own");
    let is_unreachable = |at| {
        matches!(
            batch.outcome(at),
            OperationOutcome::Failed(OperationError::Unreachable { .. })
        )
    };
    assert!(is_unreachable(0) && is_unreachable(2));
    assert!(matches!(
        batch.outcome(1),
        OperationOutcome::Failed(OperationError::Unknown { .. })
    ));
    assert!(store.count().is_err());
    // So does a thread that has no client yet.
    let other = std::thread::scope(|scope| scope.spawn(|| store.get(b"a")).join());
    assert!(matches!(
        other.expect("no panic"),
        Err(OperationError::Unreachable { .. })
    ));
}

/// Half of the leaves are on each node. A long value may be elsewhere than its key.
#[test]
fn a_census_finds_the_keys_and_values_of_each_node() {
    let mut nodes = served(2, 64 << 20);
    let store: PoolStore<ByteStrings, _> = open(&nodes, &options(1, 16)).expect("a store");
    for number in 0..2000 {
        let inserted = store.insert(format!("key{number:04}").as_bytes(), &value_of(number));
        assert_eq!(inserted, Ok(None));
    }
    let [first, second] = store.census().expect("a census")[..] else {
        panic!("there are two nodes");
    };
    assert_eq!((first.node, second.node), (NodeId(0), NodeId(1)));
    assert_eq!(first.keys + second.keys, 2000);
    assert_eq!(first.long_values + second.long_values, 1000);
    assert_eq!(first.long_value_bytes + second.long_value_bytes, 100_000);
    for part in [first, second] {
        assert!(part.keys > 300 && part.long_values > 100, "{part:?}");
        assert!(part.leaves > 30 && part.leaves < part.keys, "{part:?}");
    }
    nodes.end(1);
    let [left, lost] = store.census().expect("a census")[..] else {
        panic!("there are two nodes");
    };
    assert_eq!((left.leaves, left.keys), (first.leaves, first.keys));
    assert_eq!((lost.leaves, lost.keys), (second.leaves, 0));
    let long_values = left.long_values + lost.long_values;
    assert!(long_values > 0 && long_values < 1000, "{left:?}, {lost:?}");
}

/// Once a lost node is excluded, all keys can be read and written again, also by processes that
/// have met the loss, or have cached the way to the lost leaves.
#[test]
fn a_repair_makes_keys_absent_that_failed() {
    let mut nodes = served(2, 64 << 20);
    let open = || open::<ByteStrings>(&nodes, &options(1, 16)).expect("a store");
    let [store, early, late] = [open(), open(), open()];
    let keys: Vec<String> = (0..2000).map(|number| format!("key{number:04}")).collect();
    for (number, key) in keys.iter().enumerate() {
        let inserted = store.insert(key.as_bytes(), &value_of(number));
        assert_eq!(inserted, Ok(None));
    }
    for key in &keys {
        assert!(late.get(key.as_bytes()).is_ok());
    }
    nodes.end(1);
    let found: Vec<_> = keys.iter().map(|key| early.get(key.as_bytes())).collect();
    let kept = found.iter().filter(|found| found.is_ok()).count();
    assert!(kept > 300 && kept < 1700, "{kept}");

    let (first, lost) = (NodeId(0), NodeId(1));
    let refused = [
        (vec![], PoolRepairError::Away { node: lost }),
        (vec![first, lost], PoolRepairError::Served { node: first }),
        (
            vec![NodeId(7)],
            PoolRepairError::Foreign { node: NodeId(7) },
        ),
    ];
    for (named, error) in refused {
        assert_eq!(store.repair(&named, true), Err(error));
    }
    let repaired = store.repair(&[lost], false).expect("a repair");
    assert!(repaired.leaves > 30 && repaired.links > 0, "{repaired:?}");
    assert!(repaired.lost_values > 100, "{repaired:?}");
    assert_eq!(repaired.forgotten, 0);
    let forgetting = store.repair(&[lost], true).expect("a repair");
    assert_eq!((forgetting.leaves, forgetting.links), (0, 0));
    assert_eq!(forgetting.lost_values, repaired.lost_values);
    assert_eq!(forgetting.forgotten, repaired.lost_values);

    for store in [&store, &early, &late] {
        let began = Instant::now();
        // Only processes that have met the loss look for a repair, each second.
        while keys.iter().any(|key| store.get(key.as_bytes()).is_err()) {
            assert!(began.elapsed() < Duration::from_secs(30), "keys still fail");
            std::thread::sleep(Duration::from_millis(50));
        }
        for (key, found) in keys.iter().zip(&found) {
            let expected = found.as_ref().ok().cloned().flatten();
            assert_eq!(store.get(key.as_bytes()), Ok(expected));
        }
        assert_eq!(store.count(), Ok(kept));
    }
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(store.put(key.as_bytes(), &value_of(number)), Ok(()));
    }
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(early.get(key.as_bytes()), Ok(Some(value_of(number))));
    }
    assert_eq!(late.count(), Ok(keys.len()));
}

/// Returns a value that is stored beside its key if `number` is even, else elsewhere.
fn value_of(number: usize) -> Vec<u8> {
    let length = if number.is_multiple_of(2) { 5 } else { 100 };
    vec![number as u8; length]
}

/// The loss of a node other than the first concerns the keys that it holds, and no others.
#[test]
fn keys_of_other_nodes_outlive_a_lost_node() {
    let mut nodes = served(2, 64 << 20);
    let store: PoolStore<ByteStrings, _> = open(&nodes, &options(1, 16)).expect("a store");
    let keys: Vec<String> = (0..2000).map(|number| format!("key{number:04}")).collect();
    for (number, key) in keys.iter().enumerate() {
        let inserted = store.insert(key.as_bytes(), &value_of(number));
        assert_eq!(inserted, Ok(None));
    }
    let are_served = || {
        let states = store.node_states().into_iter();
        states.map(|state| state.is_served).collect::<Vec<_>>()
    };
    assert_eq!(are_served(), [true, true]);
    nodes.end(1);
    let names_the_node = |error: OperationError| {
        assert!(error.to_string().contains("memory node 1"), "{error}");
    };
    let (mut kept, mut lost) = (Vec::new(), 0);
    for (number, key) in keys.iter().enumerate() {
        match store.get(key.as_bytes()) {
            Ok(value) => {
                assert_eq!(value, Some(value_of(number)));
                kept.push(key.as_bytes());
            }
            Err(error) => {
                names_the_node(error);
                lost += 1;
            }
        }
    }
    // Half of the leaves are on each node, and half of the values elsewhere.
    assert!(kept.len() > 300 && lost > 300, "{} {lost}", kept.len());
    assert_eq!(are_served(), [true, false]);
    let failures = store.node_states().into_iter().map(|state| state.failures);
    assert_eq!(failures.collect::<Vec<_>>(), [0, lost]);
    // A batch with both kinds of keys returns the same.
    let mut batch = Batch::<ByteStrings>::new();
    for key in &keys {
        batch.get(key.as_bytes());
    }
    store
        .execute(&mut batch)
        .expect("operations fail on their own");
    let is_there = |at: &usize| matches!(batch.outcome(*at), OperationOutcome::Value(Some(_)));
    assert_eq!((0..keys.len()).filter(is_there).count(), kept.len());
    // Leaves on the node that is left take values and keys.
    let mut added = 0;
    for &key in &kept {
        assert_eq!(store.put(key, &[7; 200]), Ok(()));
        assert_eq!(store.get(key), Ok(Some(vec![7; 200])));
        match store.insert(&[key, b"x"].concat(), &[8; 200]) {
            Ok(before) => {
                assert_eq!(before, None);
                added += 1;
            }
            Err(error) => names_the_node(error),
        }
    }
    assert!(added * 4 >= kept.len() * 3, "{added} of {}", kept.len());
    // Neighbours of leaves that become empty may be lost.
    for &key in &kept {
        assert_eq!(store.remove(key), Ok(Some(vec![7; 200])));
    }
    names_the_node(store.count().expect_err("some leaves are lost"));
}

/// A batch changes all keys of the leaves that are left, although old values of some of them are
/// lost, and retires the old values. Changes of other keys leave no memory behind.
#[test]
fn a_batch_changes_the_keys_that_a_lost_node_leaves() {
    const NEW: &[u8] = &[9; 200];
    let mut nodes = served(2, 64 << 20);
    let store: PoolStore<ByteStrings, _> = open(&nodes, &options(1, 16)).expect("a store");
    let keys: Vec<String> = (0..2000).map(|number| format!("key{number:04}")).collect();
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(store.insert(key.as_bytes(), &value_of(number)), Ok(None));
    }
    nodes.end(1);
    let is_readable = |key: &String| store.get(key.as_bytes()).is_ok();
    let readable: Vec<bool> = keys.iter().map(is_readable).collect();
    let mut batch = Batch::<ByteStrings>::new();
    for key in &keys {
        batch.insert(key.as_bytes(), NEW);
    }
    store
        .execute(&mut batch)
        .expect("operations fail on their own");
    let (mut replaced, mut retired, mut lost) = (0, 0, None);
    for (number, key) in keys.iter().enumerate() {
        let has_new = match store.get(key.as_bytes()) {
            Ok(found) => {
                assert_eq!(found.as_deref(), Some(NEW), "{key}");
                true
            }
            Err(_) => false,
        };
        match batch.outcome(number) {
            OperationOutcome::Value(before) => {
                assert_eq!(before, Some(&value_of(number)[..]), "{key}");
                assert!(readable[number] && has_new, "{key}");
            }
            OperationOutcome::Failed(OperationError::Unknown { what }) => {
                assert!(what.contains("memory node 1"), "{what}");
                assert!(!readable[number], "{key}");
                replaced += usize::from(has_new);
                if !has_new {
                    lost = Some(key.as_bytes());
                }
            }
            other => panic!("{key}: {other:?}"),
        }
        if has_new && value_of(number).len() > 16 {
            retired += 128;
        }
    }
    // Half of the leaves are left, half of their values are long, and half of these are lost.
    assert!(replaced > 100, "{replaced}");
    assert!(store.retired_bytes() >= retired, "{retired}");
    // Otherwise the last node would soon be full.
    let (lost, long) = (lost.expect("a lost leaf"), vec![7; 40_000]);
    for _ in 0..2000 {
        for done in [store.put(lost, &long), store.insert(lost, &long).map(drop)] {
            let is_unknown = matches!(done, Err(OperationError::Unknown { .. }));
            assert!(is_unknown, "{done:?}");
        }
    }
}

/// Long values that are replaced are counted until their memory is reused.
#[test]
fn long_values_are_whole_and_what_they_leave_behind_is_counted() {
    let nodes = served(1, 128 << 20);
    let store: PoolStore<ByteStrings, _> = open(&nodes, &options(1, 16)).expect("a store");
    let lengths = [0, 1, 12, 13, 14, 200, 255, 256, 5_000, 70_000, 300_000];
    for (round, &length) in lengths.iter().enumerate() {
        let before = store
            .insert(b"key", &vec![round as u8; length])
            .expect("an insert");
        let former = round
            .checked_sub(1)
            .map(|former| vec![former as u8; lengths[former]]);
        assert_eq!(before, former);
    }
    let outside: usize = lengths.iter().filter(|&&length| length > 13).sum();
    let replaced = (outside - 300_000) as u64;
    let whole = replaced..replaced * 9 / 8 + 7 * 64;
    assert!(
        whole.contains(&store.retired_bytes()),
        "{}",
        store.retired_bytes()
    );
    // The memory of a value that is not put after all serves the next one.
    let long = vec![1; 1000];
    for _ in 0..1000 {
        let (applied, _) = store
            .update(b"key", Some(b"other"), &long)
            .expect("an update");
        assert!(!applied);
    }
    let found = store.get(b"key").expect("a get");
    assert_eq!(found, Some(vec![lengths.len() as u8 - 1; 300_000]));
    assert_eq!(store.remove(b"key").expect("a remove"), found);
    assert!(store.retired_bytes() >= outside as u64);
}

/// A put value can be read, whatever was before, and the put does not return the old value.
#[test]
fn puts_do_what_inserts_do() {
    let nodes = served(1, 64 << 20);
    let store: PoolStore<ByteStrings, _> = open(&nodes, &options(1, 16)).expect("a store");
    for (round, length) in [3, 1000, 5, 40_000, 1000, 0].into_iter().enumerate() {
        let value = vec![round as u8; length];
        store.put(b"key", &value).expect("a put");
        assert_eq!(store.get(b"key"), Ok(Some(value)));
    }
    // 1000, 40,000 and 1000 bytes were replaced, and the memory of the first was not free yet.
    assert!(store.retired_bytes() >= 42_000, "{}", store.retired_bytes());
    assert!(matches!(
        store.put(&[7; 17], b""),
        Err(OperationError::KeyTooLong { length: 17, .. })
    ));
    let huge = vec![7; 100 << 20];
    assert!(matches!(
        store.put(b"key", &huge),
        Err(OperationError::OutOfMemory { .. })
    ));
    assert_eq!(store.get(b"key"), Ok(Some(Vec::new())));
    assert_eq!(store.count(), Ok(1));

    let nodes = served(1, 64 << 20);
    let mut options = options(1, 8);
    options.tree.hotspot_bytes = 1 << 16;
    let store: PoolStore<Words, _> = open(&nodes, &options).expect("a store");
    for round in 0..3_u64 {
        for key in 0..500 {
            store.put(key, key + round).expect("a put");
        }
        for key in 0..500 {
            assert_eq!(store.get(key), Ok(Some(key + round)));
        }
    }
    drop(nodes);
    assert!(matches!(
        store.put(1, 1),
        Err(OperationError::Unknown { .. })
    ));
}

const OVERWRITTEN: u32 = 400;

/// Returns the value of a key in a round: of lengths that differ by key, and little by round.
fn long_value(key: u32, round: u32) -> Vec<u8> {
    let length = 15_000 + 25 * (key as usize) + (key + round) as usize % 7;
    vec![(key * 31 + round) as u8; length]
}

fn put_all(store: &PoolStore<ByteStrings, ShmEndpoint>, round: u32) {
    let mut batch = Batch::<ByteStrings>::new();
    for key in 0..OVERWRITTEN {
        batch.insert(&key.to_be_bytes(), &long_value(key, round));
    }
    store.execute(&mut batch).expect("a batch");
    for key in 0..OVERWRITTEN {
        let before = round.checked_sub(1).map(|round| long_value(key, round));
        assert_eq!(
            batch.outcome(key as usize),
            OperationOutcome::Value(before.as_deref())
        );
    }
}

/// Values that are replaced leave no memory allocated.
#[test]
fn overwriting_long_values_takes_no_more_memory() {
    let nodes = served(2, 64 << 20);
    let store: PoolStore<ByteStrings, _> = open(&nodes, &StoreOptions::default()).expect("a store");
    put_all(&store, 0);
    let first = nodes.allocated_bytes();
    for round in 1..=100 {
        put_all(&store, round);
    }
    // Blocks that were retired while this thread was suspended go back to the nodes.
    let until = Instant::now() + Duration::from_millis(500);
    while Instant::now() < until {
        store.get(&0_u32.to_be_bytes()).expect("a get");
    }
    let last = nodes.allocated_bytes();
    println!("{} KiB initially, {} KiB finally", first >> 10, last >> 10);
    assert!(
        last * 2 <= first * 3,
        "{first} bytes initially, {last} finally"
    );
}

/// Memory that is reused is never read as its former value.
#[test]
fn values_are_whole_while_others_replace_them() {
    let nodes = served(2, 64 << 20);
    let store: PoolStore<ByteStrings, _> = open(&nodes, &StoreOptions::default()).expect("a store");
    put_all(&store, 0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut key = 0;
            while !done.load(Relaxed) {
                let found = store.get(&u32::to_be_bytes(key)).expect("a get");
                let found = found.expect("it exists");
                let round = found[0].wrapping_sub((key * 31) as u8);
                assert_eq!(found, long_value(key, u32::from(round)), "key {key}");
                key = (key + 1) % OVERWRITTEN;
            }
        });
        let _stop = AtEnd(&done);
        for round in 1..=20 {
            put_all(&store, round);
        }
    });
    assert!(nodes.allocated_bytes() < 64 << 20, "memory was used again");
}

/// A process that does nothing delays the reclamation of memory for a while; a value that finds
/// none waits.
#[test]
fn values_wait_for_memory_that_a_silent_process_holds_up() {
    let nodes = served(1, 40 << 20);
    let options = StoreOptions::default();
    let store: PoolStore<ByteStrings, _> = open(&nodes, &options).expect("a store");
    let silent: PoolStore<ByteStrings, _> = open(&nodes, &options).expect("the store");
    for round in 0..6 {
        put_all(&store, round);
    }
    for key in [0, OVERWRITTEN - 1] {
        // The process takes part again.
        let found = silent.get(&key.to_be_bytes());
        assert_eq!(found, Ok(Some(long_value(key, 5))));
    }
}

/// A regression: the removal of a key whose slot was guessed once did not know the slots between
/// the key and its home, and emptied them.
#[test]
fn removing_a_hot_key_leaves_its_neighbours_alone() {
    let nodes = served(1, 64 << 20);
    let mut options = options(0, 8);
    options.tree = chime::ChimeOptions::chime();
    let store: PoolStore<Words, _> = open(&nodes, &options).expect("a store");
    for key in 0..500 {
        store.insert(key, key).expect("an insert");
    }
    for key in 0..500 {
        // Now the slot of the key is known.
        assert_eq!(store.get(key), Ok(Some(key)));
    }
    for key in (0..500).step_by(2) {
        assert_eq!(store.remove(key), Ok(Some(key)));
    }
    for key in 0..500 {
        let left = (key % 2 == 1).then_some(key);
        assert_eq!(store.get(key), Ok(left));
    }
    assert_eq!(store.count(), Ok(250));
}

/// An endpoint that counts its posts, each of which is a round trip.
pub struct PostCountEndpoint {
    pub endpoint: ShmEndpoint,
    pub posts: Arc<AtomicU64>,
}

impl Endpoint for PostCountEndpoint {
    fn nodes(&self) -> Vec<NodeId> {
        self.endpoint.nodes()
    }

    fn atomic_bytes(&self) -> u64 {
        self.endpoint.atomic_bytes()
    }

    async fn post(&self, verbs: &mut [FabricVerb<'_>]) -> Result<(), FabricError> {
        self.posts.fetch_add(1, Relaxed);
        self.endpoint.post(verbs).await
    }

    fn write_unsignalled(&self, to: GlobalAddress, bytes: &[u8]) -> Result<(), FabricError> {
        self.endpoint.write_unsignalled(to, bytes)
    }

    async fn settle(&self) -> Result<(), FabricError> {
        self.endpoint.settle().await
    }

    async fn allocate(&self, node: NodeId, bytes: u64) -> Result<GlobalAddress, FabricError> {
        self.endpoint.allocate(node, bytes).await
    }

    async fn free(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        self.endpoint.free(address, bytes).await
    }

    async fn charge(&self, work: ClientProcessorWork) {
        self.endpoint.charge(work).await;
    }

    fn now(&self) -> Duration {
        self.endpoint.now()
    }

    async fn sleep(&self, time: Duration) {
        self.endpoint.sleep(time).await;
    }
}

/// The keys of a leaf share its lock, whatever the operations on them are.
#[test]
fn a_batch_on_few_leaves_takes_a_quarter_of_the_round_trips() {
    let nodes = served(1, 64 << 20);
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
    let mut options = StoreOptions::default();
    // Half full leaves have room for the new keys.
    options.tree.fills_last = false;
    let store: PoolStore<Words, PostCountEndpoint> =
        PoolStore::open(connect, &options).expect("a store");
    let mut batch = Batch::<Words>::new();
    for key in 0..2000 {
        batch.insert(2 * key, key);
    }
    store.execute(&mut batch).expect("a batch");
    // 48 keys in ascending order, of which a third is new, a third is removed and a third changes.
    let operations = |first: u64| (0..48).map(move |at| (2 * (first + at), at % 3));
    posts.store(0, Relaxed);
    for (key, kind) in operations(500) {
        let done = match kind {
            0 => store.insert(key, 1),
            1 => store.remove(key),
            _ => store.insert(key + 1, 1),
        };
        assert_eq!(done.expect("done").is_none(), kind == 2);
    }
    let single = posts.swap(0, Relaxed);
    let mut batch = Batch::<Words>::new();
    for (key, kind) in operations(1500) {
        match kind {
            0 => batch.insert(key, 1),
            1 => batch.remove(key),
            _ => batch.insert(key + 1, 1),
        };
    }
    store.execute(&mut batch).expect("a batch");
    let batched = posts.load(Relaxed);
    for (position, (_, kind)) in operations(1500).enumerate() {
        assert_eq!(batch.value(position).is_none(), kind == 2, "{position}");
    }
    assert!(batched * 4 <= single, "{batched} for {single}");
    assert_eq!(store.count(), Ok(2000));
}
