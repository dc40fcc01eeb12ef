//! Modules that are full lose no entries.

use nearfield_core::OrderedIndex;
use nearfield_pim::device::Workers;
use nearfield_pim::testing::full::{fill, refuses_large_batch};
use nearfield_pim_rivals::jump_push::{self, JumpPush};
use nearfield_pim_rivals::range_partition::RangePartition;

const MODULES: usize = 4;

#[test]
fn range_partition_is_full_and_keeps_what_it_has() {
    let index = RangePartition::new(Workers::new(MODULES, 1 << 16, 2));
    fill(&index);
}

#[test]
fn jump_push_is_full_and_keeps_what_it_has() {
    let workers = Workers::new(MODULES, 1 << 16, 2);
    let index = JumpPush::new(workers, jump_push::JumpPushOptions::default());
    fill(&index);
    index.check_invariants();
}

/// The batch is refused as a whole, and nothing moves.
#[test]
fn a_batch_that_is_too_large_for_a_module_is_refused() {
    refuses_large_batch(&RangePartition::new(Workers::new(MODULES, 1 << 14, 2)));
    let workers = Workers::new(MODULES, 1 << 14, 2);
    let index = JumpPush::new(workers, jump_push::JumpPushOptions::default());
    refuses_large_batch(&index);
    index.check_invariants();
}
