//! The costs of PIM-tree, and checks that modules that are full or fail lose no entries.

use nearfield_core::{Batch, OperationError, OperationOutcome, OrderedIndex, ScanDirection, Words};
use nearfield_hardware::modules::ModulePreset;
use nearfield_pim::device::{
    Answered, DeviceCounters, Model, ModuleDevice, ModuleError, ModuleProgram,
};
use nearfield_pim::device::{RoundError, Workers};
use nearfield_pim::testing::full::everything_at_last;
use nearfield_pim_rivals::pim_tree::PimTree;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::ops::Bound;

const MODULES: usize = 64;
const KEYS: u64 = 60_000;
const BATCH: usize = 20_000;
const STEP: u64 = u64::MAX / KEYS;

/// Returns a key for a number. Keys are spread over the whole key space.
fn key(number: u64) -> u64 {
    number * STEP
}

fn loaded() -> PimTree<Model> {
    let model = Model::new(MODULES, ModulePreset::UpmemMeasured.parameters());
    let index = PimTree::new(model);
    let mut batch = Batch::new();
    for number in 0..KEYS {
        batch.insert(key(number), number);
        if batch.len() == BATCH {
            index.execute(&mut batch).expect("executed");
            batch.clear();
        }
    }
    index.check_invariants();
    index
}

/// Returns numbers of keys: uniform, or by Zipf's law over as many segments as modules, and uniform
/// within each.
fn numbers(is_skewed: bool, seed: u64) -> Vec<u64> {
    let random = &mut SmallRng::seed_from_u64(seed);
    let weights: Vec<f64> = (1..=MODULES)
        .map(|rank| (rank as f64).powf(-0.99))
        .collect();
    let all: f64 = weights.iter().sum();
    let mut number = || {
        if !is_skewed {
            return random.random_range(0..KEYS);
        }
        let mut at = random.random_range(0.0..all);
        let segment = weights.iter().position(|weight| {
            at -= weight;
            at < 0.0
        });
        let segment = (segment.unwrap_or(0) * 29 % MODULES) as u64;
        let each = KEYS / MODULES as u64;
        segment * each + random.random_range(0..each)
    };
    (0..BATCH).map(|_| number()).collect()
}

/// Returns the number of rounds, of words sent to the fullest module, and of words sent to a module
/// on average.
fn taken(index: &PimTree<Model>, batch: &mut Batch<Words>) -> (u64, u64, f64) {
    let look = |model: &Model| {
        let counters = model.counters();
        let (most, average) = (counters.fullest_words, counters.average_words);
        (counters.rounds, most, average)
    };
    let before = index.device(look);
    index.execute(batch).expect("executed");
    let after = index.device(look);
    (after.0 - before.0, after.1 - before.1, after.2 - before.2)
}

#[test]
fn operations_take_as_many_rounds_as_published_or_fewer() {
    let index = loaded();
    for is_skewed in [false, true] {
        let numbers = numbers(is_skewed, 1);
        let rounds = |add: &dyn Fn(&mut Batch<Words>, u64)| {
            let mut batch = Batch::new();
            numbers.iter().for_each(|&number| add(&mut batch, number));
            taken(&index, &mut batch).0
        };
        assert_eq!(rounds(&|batch, number| _ = batch.get(key(number))), 1);
        let found = rounds(&|batch, number| _ = batch.predecessor(key(number) + 9));
        assert!((4..=5).contains(&found), "{found} for predecessors");
        let found = rounds(&|batch, number| _ = batch.successor(key(number) + 9));
        assert!((4..=5).contains(&found), "{found} for successors");
        let update = |batch: &mut Batch<Words>, number| {
            batch.update(key(number), Some(number), number);
        };
        let found = rounds(&update);
        // A second round is needed if a key is updated twice, because its value must be known.
        assert!((1..=2).contains(&found), "{found} for updates");
        let scan = |batch: &mut Batch<Words>, number| {
            let high = Bound::Included(key(number).saturating_add(100 * STEP));
            batch.scan(
                Bound::Included(key(number)),
                high,
                u32::MAX,
                ScanDirection::Ascending,
            );
        };
        assert_eq!(rounds(&scan), 5);
        // The published numbers are 7 to 10.
        let found = rounds(&|batch, number| _ = batch.insert(key(number) + 5, number));
        assert!((6..=7).contains(&found), "{found} for inserts");
        let found = rounds(&|batch, number| _ = batch.remove(key(number) + 5));
        assert!((6..=7).contains(&found), "{found} for removes");
        assert_eq!(index.len() as u64, KEYS);
        index.check_invariants();
    }
}

#[test]
fn modules_have_as_much_to_do_as_others_whatever_is_asked_for() {
    let index = loaded();
    for is_skewed in [false, true] {
        for is_insert in [false, true] {
            let mut batch = Batch::new();
            for number in numbers(is_skewed, 2) {
                match is_insert {
                    false => batch.predecessor(key(number) + 9),
                    true => batch.insert(key(number) + 7 + u64::from(is_skewed), number),
                };
            }
            let (_, most, average) = taken(&index, &mut batch);
            let found = most as f64 / average;
            // With ranges of keys the fullest module would have 13 times the average (Zipf over 64
            // segments).
            assert!(found < 2.0, "{found}: {is_skewed}, {is_insert}");
        }
    }
    assert!(index.pulled_nodes() > 0, "no subrange was pulled");
}

#[test]
fn many_keys_at_one_place_are_found_by_the_host() {
    let index = loaded();
    let before = index.pulled_nodes();
    let mut batch = Batch::new();
    let random = &mut SmallRng::seed_from_u64(4);
    // All keys are between two stored ones, in one chunk of each level.
    for _ in 0..BATCH {
        batch.predecessor(key(77) + random.random_range(0..STEP));
    }
    let (rounds, most, average) = taken(&index, &mut batch);
    assert_eq!(rounds, 5);
    assert!((most as f64) < 2.0 * average, "{most}, {average}");
    assert_eq!(index.pulled_nodes() - before, 3);
    for position in 0..BATCH {
        let outcome = batch.outcome(position);
        assert_eq!(outcome, OperationOutcome::Entry(Some((key(77), 77))));
    }
}

#[test]
fn memory_is_what_modules_use() {
    let index = loaded();
    let memory = index.memory_bytes().expect("the modules reply");
    let used = index.device(|model| model.used_bytes());
    assert_eq!(memory.total(), used, "{memory:?}");
    assert_eq!(memory.data, KEYS * 24);
    assert!(memory.upper >= 64 * 288 && memory.shadows > 0, "{memory:?}");
}

/// Scans with a limit that need more than one attempt return the right entries.
#[test]
fn scans_go_on_until_their_limit() {
    let index = loaded();
    for direction in [ScanDirection::Ascending, ScanDirection::Descending] {
        // Few keys are left in the range.
        let mut batch = Batch::new();
        (10_000..30_000)
            .filter(|number| number % 97 != 0)
            .for_each(|number| _ = batch.remove(key(number)));
        index.execute(&mut batch).expect("executed");
        let mut batch = Batch::<Words>::new();
        let position = batch.scan(Bound::Unbounded, Bound::Unbounded, 45_000, direction);
        let few = batch.scan(Bound::Included(key(9_990)), Bound::Unbounded, 40, direction);
        index.execute(&mut batch).expect("executed");
        let there = |number: &u64| !(10_000..30_000).contains(number) || number.is_multiple_of(97);
        let expect = |position: usize, numbers: &mut dyn Iterator<Item = u64>, count| {
            let found: Vec<u64> = batch.entries(position).map(|(_, value)| value).collect();
            assert!(found.into_iter().eq(numbers.filter(there).take(count)));
        };
        match direction {
            ScanDirection::Ascending => {
                expect(position, &mut (0..KEYS), 45_000);
                expect(few, &mut (9_990..KEYS), 40);
            }
            ScanDirection::Descending => {
                expect(position, &mut (0..KEYS).rev(), 45_000);
                expect(few, &mut (0..KEYS).rev(), 40);
            }
        }
    }
}

#[test]
fn modules_that_are_full_keep_what_they_have() {
    let index = PimTree::new(Workers::new(4, 1 << 16, 2));
    let mut map = BTreeMap::new();
    let random = &mut SmallRng::seed_from_u64(5);
    let mut full = 0;
    for _ in 0..200 {
        let mut batch = Batch::<Words>::new();
        let keys: Vec<u64> = (0..200).map(|_| random.random_range(0..100_000)).collect();
        // More keys are inserted than removed, until nothing fits any more.
        let goes = full > 0 && random.random_bool(0.4);
        for &key in &keys {
            match goes {
                true => batch.remove(key),
                false => batch.insert(key, !key),
            };
        }
        index.execute(&mut batch).expect("begun");
        for (position, key) in keys.into_iter().enumerate() {
            match batch.outcome(position) {
                OperationOutcome::Value(before) if goes => assert_eq!(before, map.remove(&key)),
                OperationOutcome::Value(before) => assert_eq!(before, map.insert(key, !key)),
                OperationOutcome::Failed(OperationError::OutOfMemory { what }) => {
                    assert!(!goes && what.contains("no room"), "{what}");
                    full += 1;
                }
                outcome => panic!("{outcome:?}"),
            }
        }
        index.check_invariants();
        assert_eq!(index.len(), map.len());
    }
    assert!(full > 1000, "it never gets full");
    // After any changes of chunks, all keys can be removed and new ones inserted.
    let keys: Vec<u64> = map.keys().copied().collect();
    let count = keys.len().div_ceil(200);
    for first in 0..count {
        let some = || keys.iter().skip(first).step_by(count);
        let mut batch = Batch::<Words>::new();
        for key in some() {
            batch.remove(*key);
        }
        index.execute(&mut batch).expect("executed");
        for (position, key) in some().enumerate() {
            let expected: OperationOutcome<'_, Words> = OperationOutcome::Value(map.remove(key));
            assert_eq!(batch.outcome(position), expected);
        }
    }
    index.check_invariants();
    assert_eq!(index.len(), 0);
    let again = keys.iter().filter(|&&key| index.insert(key, 1) == Ok(None));
    let again = again.count();
    assert!(again * 10 > keys.len() * 8, "{again} of {}", keys.len());
    index.check_invariants();
}

/// A device that occasionally refuses rounds, or loses a module's output after it has executed its
/// tasks.
struct LossyRoundDevice {
    device: Workers,
    random: SmallRng,
    refuses: f64,
    loses: f64,
}

impl ModuleDevice for LossyRoundDevice {
    fn modules(&self) -> usize {
        self.device.modules()
    }

    fn round<P: ModuleProgram>(
        &mut self,
        program: P,
        inputs: Vec<Vec<u64>>,
    ) -> Result<Vec<Answered>, RoundError> {
        if self.random.random_bool(self.refuses) {
            return Err(RoundError::TooLong {
                module: 0,
                bytes: 2,
                limit: 1,
            });
        }
        let mut answered = self.device.round(program, inputs)?;
        if self.random.random_bool(self.loses) {
            let module = self.random.random_range(0..answered.len());
            answered[module] = Err(ModuleError::Gone { module });
        }
        Ok(answered)
    }

    fn counters(&self) -> &DeviceCounters {
        self.device.counters()
    }
}

/// Executes random batches on a faulty device. Operations with an outcome have taken effect
/// accordingly; unknown ones may have taken effect or not.
fn withstand(refuses: f64, loses: f64) {
    for seed in 0..10 {
        let index = PimTree::new(LossyRoundDevice {
            device: Workers::new(4, 1 << 22, 2),
            random: SmallRng::seed_from_u64(seed),
            refuses,
            loses,
        });
        let random = &mut SmallRng::seed_from_u64(!seed);
        // The possible values of each key.
        let mut map: BTreeMap<u64, Vec<Option<u64>>> = BTreeMap::new();
        for _ in 0..60 {
            let goes = random.random_bool(0.4);
            let keys: Vec<u64> = (0..150).map(|_| random.random_range(0..3000)).collect();
            let mut batch = Batch::<Words>::new();
            for &key in &keys {
                match goes {
                    true => batch.remove(key),
                    false => batch.insert(key, key + 1),
                };
            }
            if index.execute(&mut batch).is_err() {
                continue;
            }
            for (position, key) in keys.into_iter().enumerate() {
                let may = map.entry(key).or_insert_with(|| vec![None]);
                let after = (!goes).then_some(key + 1);
                match batch.outcome(position) {
                    OperationOutcome::Value(before) => {
                        assert!(may.contains(&before), "seed {seed}, key {key}: {before:?}");
                        *may = vec![after];
                    }
                    OperationOutcome::Failed(OperationError::Unknown { .. }) => may.push(after),
                    OperationOutcome::Failed(OperationError::OutOfMemory { .. }) => {}
                    outcome => panic!("{outcome:?}"),
                }
            }
        }
        let everything = everything_at_last(&index);
        for (key, may) in &map {
            let has = everything.get(key).copied();
            assert!(
                may.contains(&has),
                "seed {seed}, key {key}: {has:?} of {may:?}"
            );
        }
        assert!(everything.keys().all(|key| map.contains_key(key)));
        assert_eq!(index.len(), everything.len());
    }
}

#[test]
fn a_refused_round_leaves_everything_where_it_was() {
    withstand(0.1, 0.0);
}

#[test]
fn what_a_module_has_not_answered_is_done_in_the_end() {
    withstand(0.0, 0.1);
    withstand(0.05, 0.05);
}
