//! Every index behaves like a `BTreeMap`, on both devices.

use nearfield_core::{ByteStrings, OrderedIndex, Words};
use nearfield_hardware::modules::ModulePreset;
use nearfield_pim::device::{Model, ModuleDevice, Workers};
use nearfield_pim::radar::{Price, Radar, RadarOptions};
use nearfield_pim::rivals::jump_push::{self, JumpPush};
use nearfield_pim::rivals::pim_tree::PimTree;
use nearfield_pim::rivals::range_partition::{RangePartition, RangePartitionLookup};
use nearfield_pim::strings::{self, PimStrings};
use nearfield_testkit::model;

const BANK_BYTES: u64 = 1 << 22;

/// Returns a small number of modules, possibly one.
fn modules(seed: u64) -> usize {
    [1, 2, 3, 8, 64][seed as usize % 5]
}

fn check<I: OrderedIndex<Words>>(seeds: u64, build: impl FnMut(u64) -> I) {
    model::check::<Words, I>(seeds, build);
}

fn device(seed: u64) -> impl ModuleDevice + Send {
    Model::new(modules(seed), ModulePreset::UpmemMeasured.parameters())
}

fn workers(seed: u64) -> impl ModuleDevice + Send {
    Workers::new(modules(seed), BANK_BYTES, 2)
}

#[test]
fn range_partition_does_what_a_map_does() {
    check(60, |seed| RangePartition::new(device(seed)));
    check(20, |seed| RangePartition::new(workers(seed)));
    check(20, |seed| {
        RangePartition::with_gets(device(seed), RangePartitionLookup::Tree)
    });
}

/// Runs the model test of a variant of RADAR. Variants are separate tests because each takes long
/// with many seeds.
fn check_radar(options: impl Fn(usize) -> RadarOptions) {
    check(40, |seed| {
        let modules = modules(seed);
        Radar::new(device(seed), options(modules))
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

fn check_jump_push(options: jump_push::JumpPushOptions) {
    check(15, |seed| JumpPush::new(device(seed), options));
}

#[test]
fn jump_push_does_what_a_map_does() {
    check_jump_push(jump_push::JumpPushOptions::default());
}

#[test]
fn jump_push_that_pulls_does_what_a_map_does() {
    check_jump_push(jump_push::JumpPushOptions::push_pull());
}

#[test]
fn jump_push_that_descends_does_what_a_map_does() {
    check_jump_push(jump_push::JumpPushOptions {
        descends: true,
        ..jump_push::JumpPushOptions::default()
    });
}

#[test]
fn jump_push_on_workers_does_what_a_map_does() {
    check(10, |seed| {
        JumpPush::new(workers(seed), jump_push::JumpPushOptions::default())
    });
}

#[test]
fn pim_tree_does_what_a_map_does() {
    check(60, |seed| PimTree::new(device(seed)));
}

#[test]
fn pim_tree_on_workers_does_what_a_map_does() {
    check(20, |seed| PimTree::new(workers(seed)));
}

#[test]
fn strings_do_what_a_map_does() {
    // Partitions have few keys, so that there is something to divide and to merge.
    let options = |seed| strings::PimStringsOptions {
        partition_keys: [4, 30, 4096][seed as usize % 3],
        cools: 2,
        ..strings::PimStringsOptions::default()
    };
    model::check::<ByteStrings, _>(120, |seed| PimStrings::new(device(seed), options(seed)));
    // A batch with many of the longest keys takes more than the banks that words have.
    let workers = |seed| Workers::new(modules(seed), 1 << 28, 2);
    model::check::<ByteStrings, _>(60, |seed| PimStrings::new(workers(seed), options(seed)));
}
