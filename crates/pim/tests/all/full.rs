//! Modules that are full or fail lose no entries.

use crate::unsteady::UnsteadyDevice;
use nearfield_core::{Batch, OperationError, OperationOutcome, OrderedIndex, Words};
use nearfield_pim::device::{
    Answered, DeviceCounters, ModuleDevice, ModuleError, ModuleProgram, RoundError, Workers,
};
use nearfield_pim::radar::{Radar, RadarOptions};
use nearfield_pim::testing::full::{everything, everything_at_last, fill, refuses_large_batch};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const MODULES: usize = 4;

#[test]
fn radar_is_full_and_keeps_what_it_has() {
    for options in [RadarOptions::radar(MODULES), RadarOptions::nearfield()] {
        let index = Radar::new(Workers::new(MODULES, 1 << 16, 2), options);
        fill(&index);
        index.check_invariants();
    }
}

/// The batch is refused as a whole, and nothing moves, not even the partitions that were planned to
/// move for it.
#[test]
fn a_batch_that_is_too_large_for_a_module_is_refused() {
    for fanout in [2, 16] {
        let options = RadarOptions {
            fanout,
            ..RadarOptions::radar(MODULES)
        };
        let index = Radar::new(Workers::new(MODULES, 1 << 14, 2), options);
        refuses_large_batch(&index);
        index.check_invariants();
        assert_eq!(index.keys_of_host(), 0);
    }
}

/// If any round of a batch is refused, no operation of it is executed, and the partitions that were
/// planned to move stay in their modules.
#[test]
fn a_refused_round_leaves_everything_where_it_was() {
    let mut moved = 0;
    for seed in 0..20 {
        let device = UnsteadyDevice::new(MODULES, seed, 0.2, 0.0);
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
        assert_eq!(everything_at_last(&index), map, "seed {seed}");
    }
    assert!(moved > 0, "no subrange was divided, pulled and returned");
}

/// The possible values of each key. There may be several because some results were lost.
type Possible = BTreeMap<u64, Vec<Option<u64>>>;

/// The keys of a batch: `NUMBERS` from `first` on, of which four from the number `hot` on are used
/// very often.
#[derive(Clone, Copy)]
struct UsedKeys {
    first: u64,
    hot: u64,
    are_written: bool,
}

/// Number of the keys of a batch.
const NUMBERS: u64 = 400;

/// Executes a batch of reads and writes, and checks the results.
fn execute(
    index: &Radar<UnsteadyDevice>,
    possible: &mut Possible,
    random: &mut SmallRng,
    used: UsedKeys,
) {
    let mut batch = Batch::<Words>::new();
    let mut asked = Vec::new();
    for _ in 0..300 {
        let number = match random.random_bool(0.5) {
            true => used.hot + random.random_range(0..4),
            false => random.random_range(0..NUMBERS),
        };
        let key = used.first + (number << 49);
        let value: u64 = random.random();
        let set = match random.random_range(0..4) {
            1 if used.are_written => {
                batch.remove(key);
                Some(None)
            }
            2 | 3 if used.are_written => {
                batch.insert(key, value);
                Some(Some(value))
            }
            _ => {
                batch.get(key);
                None
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
                assert!(may.contains(&met), "{met:?} of {may:?} at {key:#x}");
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
fn no_acknowledged_write_is_lost_whatever_becomes_of_rounds_and_modules() {
    let mut moved = [0; 4];
    let ours = RadarOptions {
        fanout: 4,
        levels: 2,
        cools: Some(2),
        ..RadarOptions::nearfield()
    };
    // Modules search for subranges themselves.
    let searches = RadarOptions {
        sends_lists: false,
        packs: false,
        ..ours
    };
    let all_options = [
        searches,
        RadarOptions {
            combines_reads: false,
            ..searches
        },
        // Hot parts that are only read are copied, because they cannot be divided.
        RadarOptions {
            levels: 0,
            combines_reads: false,
            ..ours
        },
        RadarOptions {
            cools: Some(2),
            ..RadarOptions::radar(MODULES)
        },
    ];
    for seed in 0..24 {
        let modules = [2, 4][seed as usize / 12];
        let (refuses, fails) = (seed as usize % 2, seed as usize % 3);
        let (refuses, fails) = ([0.0, 0.1][refuses], [0.3, 0.1, 0.5][fails]);
        let device = UnsteadyDevice::new(modules, seed, refuses, fails);
        let index = Radar::new(device, all_options[seed as usize % all_options.len()]);
        let random = &mut SmallRng::seed_from_u64(!seed);
        let mut possible = Possible::new();
        for batch in 0..80 {
            // The hot keys change after some batches, so that hot subranges cool down.
            let used = UsedKeys {
                first: (batch / 8 % 2) << 60,
                hot: batch / 8 * 97 % NUMBERS,
                are_written: batch % 8 < 5,
            };
            execute(&index, &mut possible, random, used);
            index.check_invariants();
        }
        let everything = everything_at_last(&index);
        for (key, may) in &possible {
            let found = everything.get(key).copied();
            assert!(
                may.contains(&found),
                "{found:?} of {may:?} at {key:#x}, seed {seed}"
            );
        }
        assert!(everything.keys().all(|key| possible.contains_key(key)));
        let moves = index.moves();
        let some = [moves.divided, moves.merged, moves.copied, moves.returned];
        for (all, some) in moved.iter_mut().zip(some) {
            *all += some;
        }
    }
    assert!(!moved.contains(&0), "{moved:?}");
}

#[test]
fn keys_are_counted_again_once_modules_reply() {
    for options in [RadarOptions::nearfield(), RadarOptions::radar(MODULES)] {
        let device = UnsteadyDevice::new(MODULES, 3, 0.1, 0.5);
        let index = Radar::new(device, options);
        let random = &mut SmallRng::seed_from_u64(4);
        let mut possible = Possible::new();
        for hot in 0..20 {
            let used = UsedKeys {
                first: 0,
                hot,
                are_written: true,
            };
            execute(&index, &mut possible, random, used);
        }
        let mut tries = 0;
        while everything(&index).is_none_or(|all| all.len() != index.len()) {
            tries += 1;
            assert!(tries < 1000, "they are never counted");
        }
        index.check_invariants();
    }
}

/// Modules that do nothing and fail as long as `fails` is true.
struct PausingDevice {
    device: Workers,
    fails: Arc<AtomicBool>,
}

impl ModuleDevice for PausingDevice {
    fn modules(&self) -> usize {
        self.device.modules()
    }

    fn round<P: ModuleProgram>(
        &mut self,
        program: P,
        inputs: Vec<Vec<u64>>,
    ) -> Result<Vec<Answered>, RoundError> {
        if self.fails.load(Ordering::Relaxed) {
            let gone = |module| Err(ModuleError::Gone { module });
            return Ok((0..inputs.len()).map(gone).collect());
        }
        self.device.round(program, inputs)
    }

    fn counters(&self) -> &DeviceCounters {
        self.device.counters()
    }
}

/// A module that has failed may hold subranges that it should have removed. They are within the one
/// that is built for their keys next.
#[test]
fn what_a_failed_module_was_to_remove_is_not_found_again() {
    const REGIONS: u64 = 16;
    let ours = RadarOptions {
        combines_reads: false,
        ..RadarOptions::nearfield()
    };
    // Modules search for subranges themselves.
    let searches = RadarOptions {
        sends_lists: false,
        ..ours
    };
    for options in [ours, searches, RadarOptions::radar(MODULES)] {
        let fails = Arc::new(AtomicBool::new(false));
        let device = PausingDevice {
            device: Workers::new(MODULES, 1 << 20, 2),
            fails: Arc::clone(&fails),
        };
        let index = Radar::new(device, options);
        // Each region is in one subrange initially.
        let keys = |region: u64| (0..256_u64).map(move |number| region << 60 | number << 49);
        let execute = |region: u64, add: &dyn Fn(&mut Batch<Words>, u64)| {
            let mut batch = Batch::<Words>::new();
            keys(region).for_each(|key| add(&mut batch, key));
            index.execute(&mut batch).expect("executed");
        };
        for region in 0..REGIONS {
            // It is divided, because it has all of the load.
            for value in 0..3 {
                execute(region, &|batch, key| {
                    for time in 0..16 {
                        batch.insert(key, value + time);
                    }
                });
            }
        }
        assert!(index.moves().divided >= REGIONS, "{:?}", index.moves());
        for region in 0..REGIONS {
            execute(region, &|batch, key| {
                batch.remove(key);
            });
            // The batch has no other tasks than those of the removals.
            fails.store(true, Ordering::Relaxed);
            assert_eq!(index.get(u64::MAX), Ok(None));
            fails.store(false, Ordering::Relaxed);
        }
        assert_eq!(index.subranges(), 0);
        let mut expected = BTreeMap::new();
        // In another order the subranges are in other modules than before.
        for region in (0..REGIONS).rev() {
            execute(region, &|batch, key| {
                batch.insert(key, !key);
            });
            expected.extend(keys(region).map(|key| (key, !key)));
        }
        assert_eq!(index.subranges() as u64, REGIONS);
        assert!(everything(&index) == Some(expected), "{options:?}");
    }
}
