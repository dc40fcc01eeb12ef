//! The costs of Jump-push for any operations, and its behaviour when modules fail.

use nearfield_core::{Batch, OperationError, OperationOutcome, OrderedIndex, Words};
use nearfield_hardware::modules::ModulePreset;
use nearfield_pim::device::{
    Answered, DeviceCounters, Model, ModuleDevice, ModuleError, ModuleProgram, RoundError, Workers,
};
use nearfield_pim::testing::full::everything;
use nearfield_pim_rivals::jump_push::{JumpPush, JumpPushOptions};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const MODULES: usize = 64;
const KEYS: u64 = 60_000;
const BATCH: usize = 16_000;

/// Returns a key for a number. Keys are spread over the whole key space.
fn key(number: u64) -> u64 {
    number * (u64::MAX / KEYS)
}

fn loaded(options: JumpPushOptions) -> JumpPush<Model> {
    let model = Model::new(MODULES, ModulePreset::UpmemMeasured.parameters());
    let index = JumpPush::new(model, options);
    let mut batch = Batch::new();
    for number in 0..KEYS {
        batch.insert(key(number), number);
    }
    index.execute(&mut batch).expect("executed");
    assert_eq!(index.len() as u64, KEYS);
    index
}

/// The costs of a batch of predecessors of adjacent keys.
struct PredecessorCosts {
    rounds: u64,
    /// Words sent to the module with most words in each round, and the average.
    fullest: f64,
}

fn predecessors(index: &JumpPush<Model>, count: u64) -> PredecessorCosts {
    let random = &mut SmallRng::seed_from_u64(count);
    let mut batch = Batch::<Words>::new();
    let numbers: Vec<u64> = (0..BATCH)
        .map(|_| 20_000 + random.random_range(0..count))
        .collect();
    for &number in &numbers {
        batch.predecessor(key(number) + 5);
    }
    let before = index.device(|device| device.counters().clone());
    index.execute(&mut batch).expect("executed");
    for (position, &number) in numbers.iter().enumerate() {
        let found = OperationOutcome::Entry(Some((key(number), number)));
        assert_eq!(batch.outcome(position), found);
    }
    let after = index.device(|device| device.counters().clone());
    PredecessorCosts {
        rounds: after.rounds - before.rounds,
        fullest: (after.fullest_words - before.fullest_words) as f64
            / (after.average_words - before.average_words),
    }
}

/// The logarithm of the batch's size minus 4 is 10. Queries are begun this many times, and each
/// time the slowest of them takes two rounds for each of 7 levels, or slightly more.
#[test]
fn a_batch_takes_hundreds_of_rounds_and_no_module_much_more_than_others() {
    let index = loaded(JumpPushOptions::default());
    for count in [40_000, 2_000, 100] {
        let taken = predecessors(&index, count);
        let rounds = taken.rounds;
        assert!((60..300).contains(&rounds), "{count}: {rounds} rounds");
        assert!(taken.fullest < 6.0, "{count}: {}", taken.fullest);
    }
    assert_eq!(index.pulled(), 0);
}

#[test]
fn few_operations_take_a_search() {
    let index = loaded(JumpPushOptions::default());
    let before = index.device(|device| device.counters().rounds);
    assert_eq!(index.get(key(7)), Ok(Some(7)));
    let after = index.device(|device| device.counters().rounds);
    assert!((5..50).contains(&(after - before)), "{}", after - before);
}

#[test]
fn nodes_that_several_ask_for_are_pulled_and_who_goes_down_at_once_takes_fewer_rounds() {
    let plain = predecessors(&loaded(JumpPushOptions::default()), 500);
    let pulling = loaded(JumpPushOptions::push_pull());
    let before = pulling.pulled();
    let pulled = predecessors(&pulling, 500);
    assert!(pulling.pulled() > before + 100);
    assert_eq!(pulled.rounds, plain.rounds);
    let descending = loaded(JumpPushOptions {
        descends: true,
        ..JumpPushOptions::default()
    });
    let taken = predecessors(&descending, 500);
    assert!(taken.rounds * 4 < plain.rounds * 3, "{}", taken.rounds);
}

#[test]
fn memory_is_what_modules_have_in_use_and_comes_back() {
    let index = loaded(JumpPushOptions::default());
    // These bytes are the first word of each bank, and the first tower of each copy of the upper
    // part.
    let others = MODULES as u64 * (1 + 13) * 8;
    let used = || index.device(Model::used_bytes);
    assert_eq!(index.memory_bytes() + others, used());
    let per_key = index.memory_bytes() as f64 / KEYS as f64;
    assert!((55.0..75.0).contains(&per_key), "{per_key}");
    let mut batch = Batch::<Words>::new();
    for number in 0..KEYS {
        batch.remove(key(number));
    }
    index.execute(&mut batch).expect("executed");
    assert_eq!(index.len(), 0);
    assert_eq!(index.memory_bytes() + others, used());
    // The first tower has 7 levels.
    assert_eq!(index.memory_bytes(), (2 + 7 * 2) * 8);
    index.check_invariants();
}

/// A device that refuses rounds, and modules that fail before or after they have executed their
/// tasks.
struct FaultyModuleDevice {
    device: Workers,
    random: SmallRng,
    /// Numbers of faults in 10,000 rounds, and of a module in as many; then the number of a module
    /// that always fails, if it exists.
    rates: Arc<[AtomicU64; 3]>,
}

impl ModuleDevice for FaultyModuleDevice {
    fn modules(&self) -> usize {
        self.device.modules()
    }

    fn round<P: ModuleProgram>(
        &mut self,
        program: P,
        mut inputs: Vec<Vec<u64>>,
    ) -> Result<Vec<Answered>, RoundError> {
        let [refused, lost, gone] = [0, 1, 2].map(|rate| self.rates[rate].load(Ordering::Relaxed));
        let random = &mut self.random;
        let mut hits = |rate: u64| random.random_range(0..10_000) < rate;
        if hits(refused) {
            let (found, modules) = (0, inputs.len());
            return Err(RoundError::Inputs { found, modules });
        }
        let mut modules: Vec<usize> = (0..inputs.len()).filter(|_| hits(lost)).collect();
        for &module in &modules {
            if hits(5_000) {
                inputs[module].clear();
            }
        }
        let gone = gone as usize;
        if let Some(input) = inputs.get_mut(gone) {
            input.clear();
            modules.push(gone);
        }
        let mut answered = self.device.round(program, inputs)?;
        for module in modules {
            answered[module] = Err(ModuleError::Gone { module });
        }
        Ok(answered)
    }

    fn counters(&self) -> &DeviceCounters {
        self.device.counters()
    }
}

fn faulty(seed: u64) -> (JumpPush<FaultyModuleDevice>, Arc<[AtomicU64; 3]>) {
    let rates = Arc::new([0, 0, u64::MAX].map(AtomicU64::new));
    let device = FaultyModuleDevice {
        device: Workers::new(4, 1 << 20, 2),
        random: SmallRng::seed_from_u64(seed),
        rates: Arc::clone(&rates),
    };
    let options = [JumpPushOptions::default(), JumpPushOptions::push_pull()][seed as usize % 2];
    (JumpPush::new(device, options), rates)
}

/// Executes writes. Records in `map` the entries that are certainly stored, and in `unknown` the
/// keys with unknown state.
fn write(
    index: &JumpPush<FaultyModuleDevice>,
    random: &mut SmallRng,
    map: &mut BTreeMap<u64, u64>,
    unknown: &mut BTreeSet<u64>,
) -> usize {
    let mut batch = Batch::<Words>::new();
    let writes: Vec<(u64, Option<u64>)> = (0..60)
        .map(|_| {
            let value = random.random_bool(0.7).then(|| random.random());
            (random.random_range(0..500) * 1_000_003, value)
        })
        .collect();
    for &(key, value) in &writes {
        match value {
            Some(value) => batch.insert(key, value),
            None => batch.remove(key),
        };
    }
    if index.execute(&mut batch).is_err() {
        return writes.len();
    }
    let mut failed = 0;
    for (position, &(key, value)) in writes.iter().enumerate() {
        match batch.outcome(position) {
            OperationOutcome::Value(before) => {
                if !unknown.remove(&key) {
                    assert_eq!(before, map.get(&key).copied(), "{key:#x}");
                }
                match value {
                    Some(value) => map.insert(key, value),
                    None => map.remove(&key),
                };
            }
            OperationOutcome::Failed(OperationError::Unknown { .. }) => {
                failed += 1;
                unknown.insert(key);
            }
            OperationOutcome::Failed(
                OperationError::OutOfMemory { .. } | OperationError::Unreachable { .. },
            ) => failed += 1,
            outcome => panic!("{outcome:?}"),
        }
    }
    failed
}

#[test]
fn modules_that_come_to_nothing_fail_what_they_were_asked_and_no_more() {
    let (mut failed, mut runs) = (0, 0);
    // Both kinds of options, twice.
    seeds::each(4, |seed| {
        runs += 1;
        let (index, rates) = faulty(seed);
        let random = &mut SmallRng::seed_from_u64(!seed);
        let (mut map, mut unknown) = (BTreeMap::new(), BTreeSet::new());
        write(&index, random, &mut map, &mut unknown);
        for _ in 0..40 {
            rates[0].store(30, Ordering::Relaxed);
            rates[1].store(100, Ordering::Relaxed);
            failed += write(&index, random, &mut map, &mut unknown);
            rates[0].store(0, Ordering::Relaxed);
            rates[1].store(0, Ordering::Relaxed);
            index.check_invariants();
            let mut found = everything(&index).expect("executed");
            let mut expected = map.clone();
            for key in &unknown {
                found.remove(key);
                expected.remove(key);
            }
            assert_eq!(found, expected, "seed {seed}");
        }
    });
    assert!(failed > 50 * runs, "{failed} operations have failed");
}

#[test]
fn a_module_that_is_gone_is_named_and_what_others_have_is_read() {
    let (index, rates) = faulty(0);
    let mut batch = Batch::<Words>::new();
    for number in 0..400 {
        batch.insert(key(number), number);
    }
    index.execute(&mut batch).expect("executed");
    rates[2].store(3, Ordering::Relaxed);
    let (mut read, mut failed) = (0, 0);
    for number in 0..400 {
        match index.get(key(number)) {
            Ok(found) => {
                assert_eq!(found, Some(number));
                read += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains("module 3"), "{error}");
                failed += 1;
            }
        }
        // The write fails, or is not even tried any more.
        assert_ne!(index.insert(key(number) + 1, 1), Ok(Some(1)));
    }
    assert!(read > 20 && failed > 100, "{read} and {failed}");
    // The module works again: nothing that was stored is lost.
    rates[2].store(u64::MAX, Ordering::Relaxed);
    for number in 0..400 {
        assert_eq!(index.get(key(number)), Ok(Some(number)));
    }
    // Writes are refused if a copy of the upper part could not be changed.
    let refused = index.insert(5, 5);
    assert!(
        matches!(refused, Err(OperationError::Unreachable { .. })),
        "{refused:?}"
    );
}
