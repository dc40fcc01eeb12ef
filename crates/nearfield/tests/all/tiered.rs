//! Maps in tiers behave like a `BTreeMap` while values move between all tiers at every step.

use nearfield::{
    Batch, ByteStrings, EntryForm, OperationError, OperationOutcome, OrderedIndex, OrderedMap,
    Tier, TierUse, TieredPlacement, UpdateOutcome,
};
use nearfield_testkit::concurrent::{self, ConcurrentTestConfig};
use nearfield_testkit::model;
use nearfield_testkit::stop::AtEnd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn map(
    folder: &tempfile::TempDir,
    memory_bytes: u64,
    file_bytes: u64,
) -> OrderedMap<ByteStrings, TieredPlacement> {
    let tiers = [
        Tier::memory(memory_bytes),
        Tier::compressed(4 << 20),
        Tier::file(folder.path(), file_bytes),
    ];
    OrderedMap::<ByteStrings>::builder()
        .tiers(tiers)
        .build()
        .expect("a map")
}

/// A map whose values move before and after each operation on them.
struct Shaken {
    map: OrderedMap<ByteStrings, TieredPlacement>,
    state: AtomicU64,
    _folder: tempfile::TempDir,
}

impl Shaken {
    fn new(seed: u64) -> Shaken {
        let folder = tempfile::tempdir().expect("a folder");
        Shaken {
            map: map(&folder, 256 << 20, 64 << 20),
            state: AtomicU64::new(seed),
            _folder: folder,
        }
    }

    /// Moves the value of a key, or that of the next key, to one of the tiers.
    fn shake(&self, key: &[u8]) {
        let state = self.state.fetch_add(1, Ordering::Relaxed);
        let drawn = state.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        match self.map.move_to(key, (drawn % 4) as usize) {
            Ok(_) | Err(OperationError::KeyTooLong { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn shake_all(&self, batch: &Batch<ByteStrings>) -> Result<(), OperationError> {
        let input = batch.input()?;
        let keys = input.operations().iter();
        keys.filter_map(|operation| operation.point_key())
            .for_each(|key| self.shake(input.key(key)));
        Ok(())
    }
}

impl OrderedIndex<ByteStrings> for Shaken {
    fn execute(&self, batch: &mut Batch<ByteStrings>) -> Result<(), OperationError> {
        self.shake_all(batch)?;
        self.map.execute(batch)?;
        self.shake_all(batch)
    }

    fn len(&self) -> usize {
        OrderedIndex::len(&self.map)
    }

    fn check_invariants(&self) {
        self.map.check_invariants();
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, OperationError> {
        self.shake(key);
        self.map.get(key)
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, OperationError> {
        self.shake(key);
        let before = self.map.insert(key, value);
        self.shake(key);
        before
    }

    fn update(
        &self,
        key: &[u8],
        previous: Option<&[u8]>,
        value: &[u8],
    ) -> Result<(bool, Option<Vec<u8>>), OperationError> {
        self.shake(key);
        let updated = OrderedIndex::update(&self.map, key, previous, value);
        self.shake(key);
        updated
    }

    fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, OperationError> {
        self.shake(key);
        self.map.remove(key)
    }

    fn remove_if(
        &self,
        key: &[u8],
        expected: &[u8],
    ) -> Result<(bool, Option<Vec<u8>>), OperationError> {
        self.shake(key);
        OrderedIndex::remove_if(&self.map, key, expected)
    }
}

/// Checks that values have moved into and out of each tier.
fn assert_moved(tiers: &[TierUse]) {
    for tier in tiers {
        assert!(tier.moved_in > 0 && tier.moved_out > 0, "{tiers:?}");
    }
}

#[test]
fn bytes_agree_with_a_btree_map_while_values_move_at_every_step() {
    model::check::<ByteStrings, _>(24, Shaken::new);
    let shaken = Shaken::new(1);
    for number in 0..1000_u32 {
        let key = (number % 50).to_be_bytes();
        shaken.insert(&key, &[b'x'; 100]).expect("inserted");
    }
    assert_moved(&shaken.map.tiers());
}

#[test]
fn callers_at_once_can_be_ordered_while_values_move() {
    let config = ConcurrentTestConfig {
        operations: 2_000,
        ..ConcurrentTestConfig::default()
    };
    concurrent::check::<ByteStrings, _>(3, &config, Shaken::new);
}

/// A comparison that fails although no thread changed the value would show here.
#[test]
fn comparisons_in_batches_hold_while_values_move() {
    let shaken = Shaken::new(7);
    let map = &shaken.map;
    let value = |version: u32| version.to_le_bytes().repeat(20);
    map.insert(b"key", &value(0)).expect("inserted");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                shaken.shake(b"key");
            }
        });
        let _stop = AtEnd(&stop);
        for version in 0..3_000 {
            let mut batch = Batch::<ByteStrings>::new();
            let first = batch.update(b"key", Some(&value(version)), b"between");
            let second = batch.update(b"key", Some(b"between"), &value(version + 1));
            let other = batch.remove_if(b"key", b"between");
            map.execute(&mut batch).expect("executed");
            for (position, expected) in [(first, true), (second, true), (other, false)] {
                let OperationOutcome::Updated { applied, before } = batch.outcome(position) else {
                    panic!("{:?}", batch.outcome(position));
                };
                assert_eq!(applied, expected, "{version} {position}: {before:?}");
            }
            let next = value(version + 1);
            let updated = map.update(b"key", Some(&next), &next);
            assert_eq!(updated, Ok(UpdateOutcome::Applied));
        }
    });
    assert_moved(&map.tiers());
    map.check_invariants();
}

#[test]
fn more_than_the_memory_takes_lies_in_the_other_tiers_and_nothing_is_lost() {
    const KEYS: u32 = 14_000;
    let folder = tempfile::tempdir().expect("a folder");
    let map = map(&folder, 2 << 20, 64 << 20);
    let noise = |number: u32| -> Vec<u8> {
        let mut state = u64::from(number) + 1;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as u8
        };
        (0..1000).map(|_| next()).collect()
    };
    for number in 0..KEYS {
        map.insert(&number.to_be_bytes(), &noise(number))
            .expect("inserted");
        let memory = &map.tiers()[0];
        // One insert exceeds the limit by at most one block of the index.
        let limit = memory.capacity_bytes + (128 << 10);
        assert!(memory.used_bytes <= limit, "{number}: {memory:?}");
    }
    assert!(
        map.tiers()[2].values > u64::from(KEYS / 2),
        "{:?}",
        map.tiers()
    );
    let keys: Vec<[u8; 4]> = (0..KEYS).map(u32::to_be_bytes).collect();
    let lent: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let values = map.get_many(&lent).expect("read");
    for (number, value) in (0..).zip(values) {
        assert_eq!(value, Some(noise(number)));
    }
    let read = map.range(..).map(|entry| entry.expect("read"));
    let expected = (0..KEYS).map(|number| (number.to_be_bytes().to_vec(), noise(number)));
    assert!(read.eq(expected));
    map.check_invariants();
    map.clear().expect("cleared");
    assert_eq!(map.len(), Ok(0));
    map.check_invariants();
}

#[test]
fn full_tiers_refuse_writes_until_removes_make_room() {
    let tiers = [Tier::memory(1 << 20), Tier::compressed(1 << 20)];
    let map = OrderedMap::<ByteStrings>::builder()
        .tiers(tiers)
        .build()
        .expect("a map");
    let error = (0_u32..100_000)
        .find_map(|number| map.insert(&number.to_be_bytes(), &[number as u8; 50]).err())
        .expect("short values do not move");
    assert!(
        matches!(error, OperationError::OutOfMemory { .. }),
        "{error}"
    );
    map.clear().expect("cleared");
    let inserted = (0..10_000).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        map.insert(b"key", b"value").ok()
    });
    assert_eq!(inserted, Some(None));
}

#[test]
fn the_most_used_values_are_promoted_to_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let map = map(&folder, 2 << 20, 64 << 20);
    let key = |number: u32| number.to_be_bytes();
    let value = |number: u32| [number.to_le_bytes(), [7; 4]].concat().repeat(60);
    for number in 0..20_000 {
        map.insert(&key(number), &value(number)).expect("inserted");
    }
    let hot = || 0..500_u32;
    let in_memory = || {
        hot()
            .filter(|&it| map.tier_of(&key(it)) == Ok(Some(0)))
            .count()
    };
    let began = std::time::Instant::now();
    while in_memory() < 450 && began.elapsed().as_secs() < 60 {
        for number in hot() {
            assert_eq!(map.get(&key(number)), Ok(Some(value(number))));
        }
    }
    assert!(in_memory() >= 450, "{} of 500 hot values", in_memory());
}

#[test]
fn values_and_keys_that_are_too_long_are_refused_by_name() {
    let tiers = [Tier::memory(8 << 20), Tier::compressed(1 << 20)];
    let map = OrderedMap::<ByteStrings>::builder()
        .tiers(tiers)
        .build()
        .expect("a map");
    let error = map.get(&[b'k'; 1 << 17]).expect_err("too long");
    assert!(
        matches!(error, OperationError::KeyTooLong { .. }),
        "{error}"
    );
    let error = map.insert(&[b'k'; 1 << 17], b"").expect_err("too long");
    assert!(
        matches!(error, OperationError::KeyTooLong { .. }),
        "{error}"
    );
    assert_eq!(ByteStrings::check(b"", None), Ok(()));
    assert_eq!(map.len(), Ok(0));
}
