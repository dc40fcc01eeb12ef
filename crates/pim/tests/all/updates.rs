//! Updates of one key in a batch, some of which expect the value of the one before. Our variant
//! executes such updates as one task, so all other operations are put between them.

use nearfield_core::{Batch, OperationOutcome, OrderedIndex, ScanDirection, Words};
use nearfield_hardware::modules::ModulePreset;
use nearfield_pim::device::{Model, ModuleDevice, Workers};
use nearfield_pim::radar::{Price, Radar, RadarOptions};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::ops::Bound;

const KEYS: u64 = 5;
const MODULES: usize = 4;

/// Values are few, so that an update may also expect one that the key had before.
fn value(random: &mut SmallRng) -> u64 {
    random.random_range(0..4)
}

/// An outcome without a batch's lifetime.
type Expected = OperationOutcome<'static, Words>;

/// Adds an operation, executes it on the map, and returns the expected outcome.
fn add(batch: &mut Batch<Words>, map: &mut BTreeMap<u64, u64>, random: &mut SmallRng) -> Expected {
    let key = random.random_range(0..KEYS) << 61;
    let before = map.get(&key).copied();
    match random.random_range(0..40) {
        0 => {
            batch.get(key);
            OperationOutcome::Value(before)
        }
        1 => {
            let value = value(random);
            batch.insert(key, value);
            OperationOutcome::Value(map.insert(key, value))
        }
        2 => {
            batch.remove(key);
            OperationOutcome::Value(map.remove(&key))
        }
        3 => {
            batch.predecessor(key);
            let entry = map.range(..=key).next_back();
            OperationOutcome::Entry(entry.map(|(key, value)| (*key, *value)))
        }
        4 => {
            let (low, high) = (Bound::Included(0), Bound::Unbounded);
            batch.scan(low, high, u32::MAX, ScanDirection::Ascending);
            OperationOutcome::Entries(map.iter().map(|(key, value)| (*key, *value)).collect())
        }
        of => {
            // Most updates expect the current value.
            let previous = if of < 34 { before } else { Some(value(random)) };
            let value = value(random);
            batch.update(key, previous, value);
            let applied = previous == before;
            if applied {
                map.insert(key, value);
            }
            OperationOutcome::Updated { applied, before }
        }
    }
}

fn check<D: ModuleDevice + Send>(device: impl Fn() -> D, options: RadarOptions) {
    seeds::each(60, |seed| {
        let random = &mut SmallRng::seed_from_u64(seed);
        let index = Radar::new(device(), options);
        let mut map = BTreeMap::new();
        for _ in 0..8 {
            let mut batch = Batch::new();
            let count = random.random_range(1..120);
            let expected: Vec<_> = (0..count)
                .map(|_| add(&mut batch, &mut map, random))
                .collect();
            index.execute(&mut batch).expect("executed");
            for (position, outcome) in expected.into_iter().enumerate() {
                let found = format!("{:?}", batch.outcome(position));
                assert_eq!(found, format!("{outcome:?}"), "seed {seed}, {position}");
            }
        }
        assert_eq!(index.len(), map.len());
        index.check_invariants();
    });
}

fn model() -> Model {
    Model::new(MODULES, ModulePreset::UpmemMeasured.parameters())
}

#[test]
fn updates_that_follow_each_other_do_what_they_do_one_by_one() {
    check(model, RadarOptions::nearfield());
    check(
        || Workers::new(MODULES, 1 << 20, 2),
        RadarOptions::on_workers(),
    );
    // Keys move to the host, and are copied, too.
    let moves_all = RadarOptions {
        tolerance: 0.0,
        price: Price::Transfer { per_key: 0.0 },
        levels: 30,
        ..RadarOptions::nearfield()
    };
    check(model, moves_all);
}
