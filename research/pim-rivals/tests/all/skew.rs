//! The loads of modules when operations go to few keys.

use nearfield_pim::testing::skew::{imbalance, load, model, words_sent};
use nearfield_pim_rivals::range_partition::RangePartition;

#[test]
fn ranges_that_are_fixed_have_one_module_do_everything() {
    let index = RangePartition::new(model());
    load(&index);
    let found = imbalance(&index, || index.device(words_sent), 500);
    assert!(found > 15.0, "{found}");
}
