//! Modules that are full or fail lose no entries.

use nearfield_core::{Batch, OperationError, OperationOutcome, OrderedIndex, ScanDirection, Words};
use nearfield_pim::device::{
    Answered, DeviceCounters, ModuleDevice, ModuleProgram, RoundError, Workers,
};
use nearfield_pim::radar::{Radar, RadarOptions};
use nearfield_pim::rivals::jump_push::{self, JumpPush};
use nearfield_pim::rivals::range_partition::RangePartition;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::ops::Bound;

const MODULES: usize = 4;

/// Inserts keys from the whole key space, and then keys from a small part of it, until nothing fits
/// any more.
fn fill(index: &impl OrderedIndex<Words>, len: impl Fn() -> usize) {
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
        assert_eq!(len(), map.len());
        assert!(number < 1_000_000, "it never gets full");
    }
    for (key, value) in &map {
        assert_eq!(index.get(*key), Ok(Some(*value)));
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

#[test]
fn range_partition_is_full_and_keeps_what_it_has() {
    let index = RangePartition::new(Workers::new(MODULES, 1 << 16, 2));
    fill(&index, || index.len());
}

#[test]
fn radar_is_full_and_keeps_what_it_has() {
    for options in [RadarOptions::radar(MODULES), RadarOptions::nearfield()] {
        let index = Radar::new(Workers::new(MODULES, 1 << 16, 2), options);
        fill(&index, || index.len());
        index.check_invariants();
    }
}

#[test]
fn jump_push_is_full_and_keeps_what_it_has() {
    let workers = Workers::new(MODULES, 1 << 16, 2);
    let index = JumpPush::new(workers, jump_push::JumpPushOptions::default());
    fill(&index, || index.len());
    index.check_invariants();
}

/// The batch is refused as a whole, and nothing moves, not even the partitions that were planned to
/// move for it.
#[test]
fn a_batch_that_is_too_large_for_a_module_is_refused() {
    let key = |number: u64| number * 1000;
    let few = |index: &dyn OrderedIndex<Words>| {
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
    };
    few(&RangePartition::new(Workers::new(MODULES, 1 << 14, 2)));
    let workers = Workers::new(MODULES, 1 << 14, 2);
    let index = JumpPush::new(workers, jump_push::JumpPushOptions::default());
    few(&index);
    index.check_invariants();
    for fanout in [2, 16] {
        let options = RadarOptions {
            fanout,
            ..RadarOptions::radar(MODULES)
        };
        let index = Radar::new(Workers::new(MODULES, 1 << 14, 2), options);
        few(&index);
        index.check_invariants();
        assert_eq!(index.keys_of_host(), 0);
    }
}

/// A device that occasionally refuses a round.
struct RoundRefusingDevice {
    device: Workers,
    random: SmallRng,
}

impl ModuleDevice for RoundRefusingDevice {
    fn modules(&self) -> usize {
        self.device.modules()
    }

    fn round<P: ModuleProgram>(
        &mut self,
        program: P,
        inputs: Vec<Vec<u64>>,
    ) -> Result<Vec<Answered>, RoundError> {
        if self.random.random_bool(0.2) {
            return Err(RoundError::TooLong {
                module: 0,
                bytes: 2,
                limit: 1,
            });
        }
        self.device.round(program, inputs)
    }

    fn counters(&self) -> &DeviceCounters {
        self.device.counters()
    }
}

/// If any round of a batch is refused, no operation of it is executed, and the partitions that were
/// planned to move stay in their modules.
#[test]
fn a_refused_round_leaves_everything_where_it_was() {
    let mut moved = 0;
    for seed in 0..20 {
        let device = RoundRefusingDevice {
            device: Workers::new(MODULES, 1 << 20, 2),
            random: SmallRng::seed_from_u64(seed),
        };
        let options = RadarOptions {
            fanout: 4,
            levels: 1,
            cools: Some(1),
            combines_reads: false,
            ..RadarOptions::nearfield()
        };
        let index = Radar::new(device, options);
        let random = &mut SmallRng::seed_from_u64(!seed);
        let mut map = BTreeMap::new();
        for batch in 0..80_u64 {
            // The hot keys change after some batches, so that hot subranges cool down.
            let hot = (batch / 6 % 3) << 58;
            let writes: Vec<(u64, u64)> = (0..300)
                .map(|_| {
                    // One of these keys is too hot for any module.
                    let number = match random.random_bool(0.5) {
                        true => 7,
                        false => random.random_range(0..64_u64),
                    };
                    (hot + (number << 52), random.random())
                })
                .collect();
            let mut batch = Batch::<Words>::new();
            for &(key, value) in &writes {
                batch.insert(key, value);
            }
            if index.execute(&mut batch).is_ok() {
                map.extend(writes);
            }
            index.check_invariants();
            assert_eq!(index.len(), map.len());
        }
        let moves = index.moves();
        moved += moves.divided.min(moves.pulled).min(moves.returned);
        let everything = loop {
            let mut batch = Batch::<Words>::new();
            let all = (Bound::Unbounded, Bound::Unbounded);
            batch.scan(all.0, all.1, u32::MAX, ScanDirection::Ascending);
            if index.execute(&mut batch).is_ok() {
                break batch.entries(0).collect::<BTreeMap<u64, u64>>();
            }
        };
        assert_eq!(everything, map, "seed {seed}");
    }
    assert!(moved > 0, "nothing was divided, pulled and returned");
}
