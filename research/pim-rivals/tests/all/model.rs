//! Every rival behaves like a `BTreeMap`, on both devices.

use nearfield_core::{OrderedIndex, Words};
use nearfield_pim::testing::devices::{modelled, workers};
use nearfield_pim_rivals::jump_push::{self, JumpPush};
use nearfield_pim_rivals::pim_tree::PimTree;
use nearfield_pim_rivals::range_partition::{RangePartition, RangePartitionLookup};
use nearfield_testkit::model;

fn check<I: OrderedIndex<Words>>(seeds: u64, build: impl FnMut(u64) -> I) {
    model::check::<Words, I>(seeds, build);
}

#[test]
fn range_partition_does_what_a_map_does() {
    check(60, |seed| RangePartition::new(modelled(seed)));
    check(20, |seed| RangePartition::new(workers(seed)));
    check(20, |seed| {
        RangePartition::with_gets(modelled(seed), RangePartitionLookup::Tree)
    });
}

fn check_jump_push(options: jump_push::JumpPushOptions) {
    check(15, |seed| JumpPush::new(modelled(seed), options));
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
    check(5, |seed| {
        JumpPush::new(workers(seed), jump_push::JumpPushOptions::default())
    });
}

#[test]
fn pim_tree_does_what_a_map_does() {
    check(60, |seed| PimTree::new(modelled(seed)));
}

#[test]
fn pim_tree_on_workers_does_what_a_map_does() {
    check(6, |seed| PimTree::new(workers(seed)));
}
