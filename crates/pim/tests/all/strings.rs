//! Byte strings in modules: partitions under load, modules that are full or fail, and keys and
//! values that are too long.

use crate::unsteady::UnsteadyDevice;
use nearfield_core::{
    Batch, ByteStrings, OperationError, OperationOutcome, OrderedIndex, ScanDirection,
};
use nearfield_hardware::modules::ModulePreset;
use nearfield_pim::device::{
    Answered, DeviceCounters, Model, ModuleDevice, ModuleError, ModuleProgram, RoundError, Workers,
};
use nearfield_pim::strings::{PimStrings, PimStringsOptions};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::ops::Bound;

const MODULES: usize = 8;

fn key(number: u64) -> Vec<u8> {
    format!("user:{number:08}:name").into_bytes()
}

fn small() -> PimStringsOptions {
    PimStringsOptions {
        partition_keys: 64,
        cools: 3,
        ..PimStringsOptions::default()
    }
}

/// Returns all entries, in order.
fn everything<D: ModuleDevice + Send>(index: &PimStrings<D>) -> Option<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut batch = Batch::<ByteStrings>::new();
    let all = (Bound::Unbounded, Bound::Unbounded);
    batch.scan(all.0, all.1, u32::MAX, ScanDirection::Ascending);
    index.execute(&mut batch).ok()?;
    if let OperationOutcome::Failed(_) = batch.outcome(0) {
        return None;
    }
    let entries = batch.entries(0);
    Some(
        entries
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect(),
    )
}

fn load(index: &impl OrderedIndex<ByteStrings>, count: u64) {
    let mut batch = Batch::<ByteStrings>::new();
    for number in 0..count {
        batch.insert(&key(number), &number.to_le_bytes());
        if batch.len() == 10_000 || number + 1 == count {
            index.execute(&mut batch).expect("executed");
            batch.clear();
        }
    }
}

/// Returns the words sent to the fullest module divided by the average, for a batch of reads of
/// adjacent keys.
fn imbalance(index: &PimStrings<Model>, first: u64, count: u64) -> f64 {
    let sent = || {
        index.device(|device| {
            let counters = device.counters();
            (counters.fullest_words as f64, counters.average_words)
        })
    };
    let random = &mut SmallRng::seed_from_u64(first);
    let mut found = 0.0;
    for _ in 0..4 {
        let numbers: Vec<u64> = (0..20_000)
            .map(|_| first + random.random_range(0..count))
            .collect();
        let before = sent();
        let mut batch = Batch::<ByteStrings>::new();
        for &number in &numbers {
            batch.get(&key(number));
        }
        index.execute(&mut batch).expect("executed");
        for (position, number) in numbers.iter().enumerate() {
            assert_eq!(batch.value(position), Some(&number.to_le_bytes()[..]));
        }
        let after = sent();
        found = (after.0 - before.0) / (after.1 - before.1);
    }
    found
}

#[test]
fn partitions_follow_the_load_and_cool_again() {
    let model = Model::new(MODULES, ModulePreset::UpmemMeasured.parameters());
    let options = PimStringsOptions {
        cools: 4,
        ..PimStringsOptions::default()
    };
    let index = PimStrings::new(model, options);
    load(&index, 100_000);
    let loaded = index.partitions();
    assert!((25..120).contains(&loaded), "{loaded}");
    let before = index.moves();
    let found = imbalance(&index, 30_000, 3_000);
    assert!(found < 1.6, "{found}");
    let hot = index.moves();
    assert!(hot.divided > before.divided, "{hot:?}");
    assert_eq!(hot.taken, 0);
    // From then on, other keys are hot.
    let random = &mut SmallRng::seed_from_u64(1);
    for _ in 0..40 {
        let rounds = || index.device(|device| device.counters().rounds);
        let before = rounds();
        let mut batch = Batch::<ByteStrings>::new();
        for _ in 0..500 {
            batch.get(&key(random.random_range(60_000..100_000)));
        }
        index.execute(&mut batch).expect("executed");
        assert!(rounds() - before <= 2);
    }
    assert!(index.moves().merged > 0, "{:?}", index.moves());
    index.check_invariants();
    let all = everything(&index).expect("executed");
    assert_eq!(all.len(), 100_000);
    assert_eq!(index.len(), 100_000);
}

#[test]
fn a_key_that_all_read_is_read_once() {
    let model = Model::new(MODULES, ModulePreset::UpmemMeasured.parameters());
    let index = PimStrings::new(model, PimStringsOptions::default());
    load(&index, 1000);
    let sent = || index.device(|device| device.counters().useful_bytes[0]);
    let before = sent();
    let mut batch = Batch::<ByteStrings>::new();
    for number in 0..10_000 {
        match number {
            5_000 => batch.insert(&key(7), b"new"),
            _ => batch.get(&key(7)),
        };
    }
    index.execute(&mut batch).expect("executed");
    assert!(sent() - before < 1000, "{}", sent() - before);
    assert_eq!(batch.value(4_999), Some(&7_u64.to_le_bytes()[..]));
    assert_eq!(batch.value(9_999), Some(&b"new"[..]));
}

#[test]
fn full_modules_keep_what_they_have() {
    let index = PimStrings::new(Workers::new(4, 1 << 16, 2), small());
    let mut map = BTreeMap::new();
    let (mut full, mut number) = (0, 0_u64);
    while full < 300 {
        let entries: Vec<(Vec<u8>, Vec<u8>)> = (0..200)
            .map(|_| {
                number += 1;
                let name = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let value = vec![number as u8; (name % 90) as usize];
                (format!("{name:x}").into_bytes(), value)
            })
            .collect();
        let mut batch = Batch::<ByteStrings>::new();
        for (key, value) in &entries {
            batch.insert(key, value);
        }
        index.execute(&mut batch).expect("begun");
        for (position, (key, value)) in entries.into_iter().enumerate() {
            match batch.outcome(position) {
                OperationOutcome::Value(None) => assert_eq!(map.insert(key, value), None),
                OperationOutcome::Failed(OperationError::OutOfMemory { what }) => {
                    assert!(what.contains("no room"), "{what}");
                    full += 1;
                }
                outcome => panic!("{outcome:?}"),
            }
        }
        assert_eq!(index.len(), map.len());
        assert!(number < 100_000, "it never gets full");
    }
    assert_eq!(everything(&index), Some(map.clone()));
    // A removal makes room.
    let first: Vec<Vec<u8>> = map.keys().take(200).cloned().collect();
    for key in &first {
        assert_eq!(index.remove(key), Ok(map.remove(key)));
    }
    for key in &first {
        assert_eq!(index.insert(key, b""), Ok(None));
    }
}

/// Blocks of one length are replaced with blocks of another, while all fit.
#[test]
fn values_may_change_their_length_again_and_again() {
    let index = PimStrings::new(Workers::new(2, 1 << 20, 2), PimStringsOptions::default());
    let random = &mut SmallRng::seed_from_u64(5);
    let mut map = BTreeMap::new();
    for _ in 0..300 {
        let mut batch = Batch::<ByteStrings>::new();
        for _ in 0..20 {
            let key = key(random.random_range(0..200));
            let value = vec![random.random(); random.random_range(0..5000)];
            batch.insert(&key, &value);
            map.insert(key, value);
        }
        index.execute(&mut batch).expect("executed");
        for position in 0..20 {
            assert!(matches!(
                batch.outcome(position),
                OperationOutcome::Value(_)
            ));
        }
    }
    assert_eq!(everything(&index), Some(map));
}

#[test]
fn what_is_too_long_is_refused_by_itself() {
    let index = PimStrings::new(Workers::new(2, 1 << 16, 1), PimStringsOptions::default());
    let mut batch = Batch::<ByteStrings>::new();
    let long = [b'k'; 10_000];
    let refused = [
        batch.insert(b"value", &[1; 66_000]),
        batch.update(b"value", None, &[1; 66_000]),
        batch.update(b"value", Some(&[1; 40_000]), &[1; 40_000]),
        batch.insert(&long, b""),
        batch.get(&long),
        batch.remove(&long),
    ];
    // Bounds may have any length.
    let none = [batch.predecessor(&long), batch.successor(&long)];
    let taken = batch.insert(b"other", &[2; 30_000]);
    index.execute(&mut batch).expect("executed");
    for position in refused {
        match batch.outcome(position) {
            OperationOutcome::Failed(OperationError::ValueTooLong { key, .. }) => {
                assert_eq!(key, "value")
            }
            OperationOutcome::Failed(OperationError::KeyTooLong {
                start,
                length,
                limit,
            }) => {
                assert!(start.starts_with("kkk") && start.len() < 40);
                assert_eq!((length, limit), (10_000, 1 << 13));
            }
            outcome => panic!("{position}: {outcome:?}"),
        }
    }
    assert_eq!(batch.outcome(taken), OperationOutcome::Value(None));
    for position in none {
        assert_eq!(batch.outcome(position), OperationOutcome::Entry(None));
    }
    assert_eq!(index.len(), 1);
    // A batch that does not fit in a transfer is refused as a whole.
    for number in 0..4 {
        batch.insert(&key(number), &[3; 30_000]);
    }
    let error = index.execute(&mut batch).expect_err("too large");
    assert!(error.to_string().contains("bytes for module"), "{error}");
    assert_eq!(index.get(b"other"), Ok(Some(vec![2; 30_000])));
}

/// The possible values of each key. There may be several because some results were lost.
type Possible = BTreeMap<Vec<u8>, Vec<Option<Vec<u8>>>>;

/// Writes and reads some keys, and checks that no acknowledged write is lost.
fn write(
    index: &PimStrings<UnsteadyDevice>,
    possible: &mut Possible,
    random: &mut SmallRng,
    hot: u64,
) {
    let mut batch = Batch::<ByteStrings>::new();
    let mut asked = Vec::new();
    for _ in 0..300 {
        let key = key(hot + random.random_range(0..400));
        let value: u64 = random.random();
        let value = value.to_le_bytes().to_vec();
        let set = match random.random_range(0..4) {
            0 => {
                batch.get(&key);
                None
            }
            1 => {
                batch.remove(&key);
                Some(None)
            }
            _ => {
                batch.insert(&key, &value);
                Some(Some(value))
            }
        };
        asked.push((key, set));
    }
    if index.execute(&mut batch).is_err() {
        return;
    }
    for (position, (key, set)) in asked.into_iter().enumerate() {
        let may = possible.entry(key).or_insert_with(|| vec![None]);
        match batch.outcome(position) {
            OperationOutcome::Value(met) => {
                let met = met.map(<[u8]>::to_vec);
                assert!(may.contains(&met), "{met:?} of {may:?}");
                *may = vec![set.unwrap_or(met)];
            }
            OperationOutcome::Failed(OperationError::Unknown { what }) => {
                assert!(what.contains("on purpose"), "{what}");
                may.extend(set);
            }
            outcome => panic!("{outcome:?}"),
        }
    }
}

#[test]
fn nothing_is_lost_whatever_becomes_of_rounds_and_modules() {
    let (mut divided, mut merged, mut taken) = (0, 0, 0);
    for seed in 0..30 {
        let (refuses, fails) = (seed as usize % 2, seed as usize % 3);
        let (refuses, fails) = ([0.0, 0.2][refuses], [0.3, 0.0, 0.1][fails]);
        let device = UnsteadyDevice::new(4, seed, refuses, fails);
        let index = PimStrings::new(device, small());
        let random = &mut SmallRng::seed_from_u64(!seed);
        let mut possible = Possible::new();
        for batch in 0..60 {
            // The hot keys change after some batches, so that hot partitions cool down.
            let hot = (batch / 10 % 3) * 10_000;
            write(&index, &mut possible, random, hot);
            index.check_invariants();
        }
        let all = loop {
            if let Some(all) = everything(&index) {
                break all;
            }
        };
        for (key, may) in &possible {
            assert!(may.contains(&all.get(key).cloned()), "seed {seed}");
        }
        assert!(all.keys().all(|key| possible.contains_key(key)));
        let moves = index.moves();
        divided += moves.divided;
        merged += moves.merged;
        taken += moves.taken;
    }
    assert!(divided > 0 && merged > 0 && taken > 0);
}

#[test]
fn keys_are_counted_again_once_modules_answer() {
    let index = PimStrings::new(UnsteadyDevice::new(4, 3, 0.0, 0.5), small());
    let random = &mut SmallRng::seed_from_u64(4);
    let mut possible = Possible::new();
    for _ in 0..20 {
        write(&index, &mut possible, random, 0);
    }
    let mut tries = 0;
    while everything(&index).is_none_or(|all| all.len() != index.len()) {
        tries += 1;
        assert!(tries < 1000, "they are never counted");
    }
}

/// A device whose first module has ended.
struct DeadModuleDevice {
    device: Workers,
    /// Number of words that the last round had for that module.
    words: usize,
}

impl ModuleDevice for DeadModuleDevice {
    fn modules(&self) -> usize {
        self.device.modules()
    }

    fn bank_bytes(&self) -> u64 {
        self.device.bank_bytes()
    }

    fn round<P: ModuleProgram>(
        &mut self,
        program: P,
        mut inputs: Vec<Vec<u64>>,
    ) -> Result<Vec<Answered>, RoundError> {
        self.words = inputs[0].len();
        inputs[0].clear();
        let mut answered = self.device.round(program, inputs)?;
        answered[0] = Err(ModuleError::Gone { module: 0 });
        Ok(answered)
    }

    fn counters(&self) -> &DeviceCounters {
        self.device.counters()
    }
}

#[test]
fn a_module_that_stays_dead_gets_no_more_work_with_time() {
    let device = DeadModuleDevice {
        device: Workers::new(4, 1 << 20, 2),
        words: 0,
    };
    let index = PimStrings::new(device, small());
    for number in 0..2000 {
        // Before its first round it is not known that the module is dead.
        let inserted = index.insert(&key(number), b"value");
        assert!(inserted.is_ok() || number == 0, "{inserted:?}");
    }
    let words = index.device(|device| device.words);
    assert!(words < 64, "{words} words for a dead module");
    assert!(index.moves().taken < 10, "{:?}", index.moves());
    assert!(index.moves().divided > 0);
    assert_eq!(index.get(&key(1999)), Ok(Some(b"value".to_vec())));
    assert!(index.len() >= 1999);
}
