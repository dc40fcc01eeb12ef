//! The model test of the tree, with engine options switched at random between batches.

use nearfield_core::{ByteStrings, Words};
use nearfield_radix::{Combine, EngineOptions, RadixForm, RadixIndex};
use nearfield_testkit::model;

/// Options drawn from a random number: each technique on or off.
fn options(random: u64) -> EngineOptions {
    let bit = |i: u32| random >> i & 1 != 0;
    EngineOptions {
        combine: match random >> 8 & 3 {
            0 => Combine::Never,
            1 => Combine::Always,
            _ => Combine::Adaptive,
        },
        interleave: bit(0),
        share_paths: bit(1),
        trigger_together: bit(2),
        shortcut_bytes: if bit(3) { 1 << 12 } else { 0 },
        keep_hot_close: bit(4),
    }
}

fn new<F: RadixForm>(_seed: u64) -> RadixIndex<F> {
    RadixIndex::new().expect("address space")
}

#[test]
fn words() {
    model::check_with::<Words, _>(50, new, |index, random| index.set_options(options(random)));
}

#[test]
fn bytes() {
    model::check_with::<ByteStrings, _>(50, new, |index, random| {
        index.set_options(options(random))
    });
}
