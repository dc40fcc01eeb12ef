//! Every index behaves like a `BTreeMap`, on both devices.

use nearfield_core::{ByteStrings, OrderedIndex, Words};
use nearfield_pim::device::Workers;
use nearfield_pim::radar::{Price, Radar, RadarOptions};
use nearfield_pim::strings::{self, PimStrings};
use nearfield_pim::testing::devices::{modelled, modules, workers};
use nearfield_testkit::model;

fn check<I: OrderedIndex<Words>>(seeds: u64, build: impl FnMut(u64) -> I) {
    model::check::<Words, I>(seeds, build);
}

/// Runs the model test of a variant of RADAR. Variants are separate tests because each takes long
/// with many seeds.
fn check_radar(options: impl Fn(usize) -> RadarOptions) {
    check(40, |seed| {
        let modules = modules(seed);
        Radar::new(modelled(seed), options(modules))
    });
    check(10, |seed| {
        let modules = modules(seed);
        Radar::new(workers(seed), options(modules))
    });
}

#[test]
fn radar_does_what_a_map_does() {
    check_radar(RadarOptions::radar);
}

#[test]
fn radar_by_the_letter_does_what_a_map_does() {
    check_radar(RadarOptions::by_the_letter);
}

#[test]
fn basic_radar_does_what_a_map_does() {
    check_radar(RadarOptions::basic);
}

#[test]
fn ours_does_what_a_map_does() {
    check_radar(|_| RadarOptions::nearfield());
}

#[test]
fn ours_on_workers_does_what_a_map_does() {
    check_radar(|_| RadarOptions::on_workers());
}

#[test]
fn what_cools_does_what_a_map_does() {
    check_radar(|_| RadarOptions {
        cools: Some(1),
        fanout: 4,
        ..RadarOptions::nearfield()
    });
}

#[test]
fn what_moves_all_it_can_does_what_a_map_does() {
    // Everything that can be moved and copied is.
    check_radar(|_| RadarOptions {
        tolerance: 0.0,
        price: Price::Transfer { per_key: 0.0 },
        levels: 30,
        fanout: 4,
        cools: Some(2),
        ..RadarOptions::nearfield()
    });
}

#[test]
fn strings_do_what_a_map_does() {
    // Partitions have few keys, so that there is something to divide and to merge.
    let options = |seed| strings::PimStringsOptions {
        partition_keys: [4, 30, 4096][seed as usize % 3],
        cools: 2,
        ..strings::PimStringsOptions::default()
    };
    model::check::<ByteStrings, _>(36, |seed| PimStrings::new(modelled(seed), options(seed)));
    // A batch with many of the longest keys takes more than the banks that words have.
    let workers = |seed| Workers::new(modules(seed), 1 << 28, 2);
    model::check::<ByteStrings, _>(15, |seed| PimStrings::new(workers(seed), options(seed)));
}
