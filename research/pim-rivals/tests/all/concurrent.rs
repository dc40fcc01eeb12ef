//! Concurrent callers: the outcomes of a rival are linearizable, with and without batching of
//! single operations.

use nearfield_core::{OrderedIndex, Words};
use nearfield_pim::call_batcher::CallBatcher;
use nearfield_pim::device::Workers;
use nearfield_pim_rivals::range_partition::RangePartition;
use nearfield_testkit::concurrent::{self, ConcurrentTestConfig};

const CONFIG: ConcurrentTestConfig = ConcurrentTestConfig {
    threads: 4,
    operations: 700,
    keys_max: 200,
    batch_size_max: 64,
};

fn workers(seed: u64) -> Workers {
    Workers::new([1, 2, 8][seed as usize % 3], 1 << 22, 2)
}

fn check<I: OrderedIndex<Words>>(build: impl Fn(u64) -> I) {
    // One seed for each number of modules.
    concurrent::check::<Words, I>(3, &CONFIG, build);
}

#[test]
fn range_partition_is_linearizable() {
    check(|seed| RangePartition::new(workers(seed)));
    check(|seed| CallBatcher::new(RangePartition::new(workers(seed))));
}
