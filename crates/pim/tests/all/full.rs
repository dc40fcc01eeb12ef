//! Modules that are full or fail lose no entries.

use nearfield_core::{Batch, OrderedIndex, ScanDirection, Words};
use nearfield_pim::device::{
    Answered, DeviceCounters, ModuleDevice, ModuleProgram, RoundError, Workers,
};
use nearfield_pim::radar::{Radar, RadarOptions};
use nearfield_pim::testing::full::{fill, refuses_large_batch};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::ops::Bound;

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
    assert!(moved > 0, "no subrange was divided, pulled and returned");
}
