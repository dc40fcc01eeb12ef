//! Maps in modules behave like a `BTreeMap`: batches, single operations and ranges from both ends,
//! from one thread and from many.

use crate::ranges::Model;
use nearfield::{
    Batch, ByteStrings, ComparisonResult, MapForm, OperationError, OperationOutcome, OrderedIndex,
    OrderedMap, Pim, PointResult, ScanDirection, UpdateOutcome, WordMap, Words,
};
use nearfield_testkit::concurrent::{self, ConcurrentTestConfig};
use nearfield_testkit::keys::{self, SampleForm};
use nearfield_testkit::model;
use std::ops::Bound;

/// A map that is also checked by operations outside batches.
struct PointCheckedMap<F: MapForm>(OrderedMap<F, Pim>);

fn new<F: MapForm>(seed: u64) -> OrderedMap<F, Pim> {
    let pim = Pim::workers().threads(1 + seed as usize % 3);
    let pim = pim.modules_per_thread([1, 4, 9][seed as usize % 3]);
    let map = OrderedMap::<F>::builder().memory_limit(256 << 20).pim(pim);
    map.build().expect("threads")
}

impl<F: MapForm + SampleForm> OrderedIndex<F> for PointCheckedMap<F> {
    fn execute(&self, batch: &mut Batch<F>) -> Result<(), OperationError> {
        self.0.execute(batch)
    }

    fn len(&self) -> usize {
        OrderedIndex::len(&self.0)
    }

    fn check_invariants(&self) {
        self.0.check_invariants();
        let mut batch = Batch::<F>::new();
        let all = (Bound::Unbounded, Bound::Unbounded);
        batch.scan(all.0, all.1, u32::MAX, ScanDirection::Ascending);
        self.0.execute(&mut batch).expect("executed");
        let entries = batch.entries(0);
        let entries = entries.map(|(key, value)| (F::own_key(key), F::own_value(value)));
        let model: Model<F> = entries.collect();
        let end = |entry: Option<(&F::OwnedKey, &F::OwnedValue)>| {
            Ok(entry.map(|(key, value)| (key.clone(), value.clone())))
        };
        assert_eq!(self.0.first(), end(model.first_key_value()));
        assert_eq!(self.0.last(), end(model.last_key_value()));
        let keys: Vec<F::Key<'_>> = model.keys().map(F::key).collect();
        let values = model.values().cloned().map(Some).collect();
        assert_eq!(self.0.get_many(&keys), Ok(values));
        assert_eq!(self.0.is_empty(), Ok(model.is_empty()));
        if !model.is_empty() {
            let random = &mut keys::random(model.len() as u64);
            crate::ranges::agree::<F, _>(&model, 4, random, |bounds| {
                let range = self.0.range(bounds);
                range.map(|entry| entry.expect("no module fails"))
            });
        }
    }

    fn get(&self, key: F::Key<'_>) -> PointResult<F> {
        self.0.get(key)
    }

    fn insert(&self, key: F::Key<'_>, value: F::Value<'_>) -> PointResult<F> {
        self.0.insert(key, value)
    }

    fn update(
        &self,
        key: F::Key<'_>,
        previous: Option<F::Value<'_>>,
        value: F::Value<'_>,
    ) -> ComparisonResult<F> {
        Ok(match self.0.update(key, previous, value)? {
            UpdateOutcome::Applied => (true, previous.map(F::own_value)),
            UpdateOutcome::Differs { current } => (false, current),
        })
    }

    fn remove(&self, key: F::Key<'_>) -> PointResult<F> {
        self.0.remove(key)
    }
}

#[test]
fn words_agree_with_a_btree_map() {
    model::check::<Words, _>(24, |seed| PointCheckedMap(new(seed)));
}

#[test]
fn bytes_agree_with_a_btree_map() {
    model::check::<ByteStrings, _>(24, |seed| PointCheckedMap(new(seed)));
}

#[test]
fn callers_at_once_can_be_ordered() {
    let config = ConcurrentTestConfig {
        operations: 2_000,
        ..ConcurrentTestConfig::default()
    };
    concurrent::check::<Words, _>(3, &config, new);
    concurrent::check::<ByteStrings, _>(3, &config, new);
}

#[test]
fn entries_without_room_are_refused_and_others_stay() {
    let pim = Pim::workers().threads(2).modules_per_thread(1);
    let map = WordMap::builder().memory_limit(1 << 16).pim(pim.clone());
    let map = map.build().expect("threads");
    let entries: Vec<(u64, u64)> = (0..4000).map(|key| (key << 50, key)).collect();
    let refused = entries
        .chunks(100)
        .find_map(|some| map.insert_many(some).err());
    let error = refused.expect("it is too much");
    assert!(
        matches!(error, OperationError::OutOfMemory { .. }),
        "{error}"
    );
    let len = map.len().expect("modules reply");
    assert!((100..4000).contains(&len), "{len}");
    assert_eq!(map.range(..).count(), len);

    let map = OrderedMap::<ByteStrings>::builder()
        .memory_limit(1 << 20)
        .pim(pim);
    let map = map.build().expect("threads");
    assert_eq!(map.insert(b"short", b"value"), Ok(None));
    let error = map.insert(b"long", &[7; 1 << 20]).expect_err("too long");
    assert!(
        matches!(&error, OperationError::ValueTooLong { key, .. } if key == "long"),
        "{error}"
    );
    let error = map.get(&[b'k'; 1 << 17]).expect_err("too long");
    assert!(
        matches!(error, OperationError::KeyTooLong { .. }),
        "{error}"
    );
    let mut batch = Batch::<ByteStrings>::new();
    let refused = batch.insert(b"long", &[7; 1 << 20]);
    let taken = batch.insert(b"other", &[7; 1000]);
    map.execute(&mut batch).expect("executed");
    assert!(matches!(
        batch.outcome(refused),
        OperationOutcome::Failed(_)
    ));
    assert_eq!(batch.outcome(taken), OperationOutcome::Value(None));
    assert_eq!(map.len(), Ok(2));
}

#[test]
#[cfg(target_os = "linux")]
fn threads_end_with_their_map() {
    let named = || {
        let tasks = std::fs::read_dir("/proc/self/task").expect("tasks");
        let names =
            tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name.trim() == "module-77").count()
    };
    let pim = Pim::workers().threads(78).modules_per_thread(1);
    let map = WordMap::builder().memory_limit(1 << 20).pim(pim);
    let map = map.build().expect("threads");
    assert_eq!(map.insert(1, 2), Ok(None));
    assert_eq!(named(), 1);
    drop(map);
    assert_eq!(named(), 0);
}
