//! Designs of the accelerator.

use super::scale::DcartScale;
use nearfield_hardware::accelerator::dcart::{
    DcartError, DcartParameters, LineBufferPolicy, Pipeline,
};
use nearfield_hardware::dram;

/// A design and its name.
pub(super) type Design = (&'static str, DcartParameters);

/// The paper's name of its accelerator, in all figures.
pub(super) const DCART: &str = "DCART, modelled";
/// The name of our design.
pub(super) const OURS: &str = "interleaved units, modelled";

/// The name of our design on Nearfield's tree.
pub(super) const BLOCKS: &str = "interleaved units on blocks, modelled";

/// Returns the paper's design, with the user's changes.
pub(super) fn published(scale: &DcartScale) -> DcartParameters {
    let mut parameters = DcartParameters::published();
    // `check` has accepted the parameters of a scale.
    let accepted = parameters.set_all(&scale.parameters);
    debug_assert!(accepted.is_ok(), "{accepted:?}");
    parameters
}

/// Checks that all designs can be built.
pub(super) fn check(scale: &DcartScale) -> Result<(), DcartError> {
    DcartParameters::published().set_all(&scale.parameters)?;
    let all = [parts(scale), same_area(scale), on_blocks(scale)];
    all.iter().flatten().try_for_each(|(_, one)| one.check())
}

/// Returns our design. Each unit has 16 operations in flight. A quarter of the paper's units and
/// three quarters of its buffer of the tree are given up for their state.
pub(super) fn ours(scale: &DcartScale) -> DcartParameters {
    interleaved(16, 12, scale)
}

/// Returns units with this number of operations each, with a quarter of the paper's buffer of the
/// tree.
fn interleaved(operations: usize, units: usize, scale: &DcartScale) -> DcartParameters {
    DcartParameters {
        pipeline: Pipeline::Interleaved { operations },
        // A small buffer suffices, because the units hide the latency of memory.
        tree_buffer: 1 << 20,
        units,
        buckets: units,
        ..published(scale)
    }
}

/// Returns the paper's design without each of its parts in turn.
pub(super) fn parts(scale: &DcartScale) -> Vec<Design> {
    let with = |change: fn(&mut DcartParameters)| {
        let mut parameters = published(scale);
        change(&mut parameters);
        parameters
    };
    vec![
        ("whole", published(scale)),
        ("without combining", with(|one| one.combines = false)),
        ("without shortcuts", with(|one| one.shortcuts = false)),
        (
            "tree buffer by LRU",
            with(|one| one.tree_policy = LineBufferPolicy::Lru),
        ),
        ("without overlap", with(|one| one.overlaps = false)),
        (
            "without all of these",
            with(|one| {
                one.combines = false;
                one.shortcuts = false;
                one.overlaps = false;
                one.tree_policy = LineBufferPolicy::Lru;
            }),
        ),
    ]
}

/// Returns designs that take at most as many lookup tables and block memories as the paper's.
pub(super) fn same_area(scale: &DcartScale) -> Vec<Design> {
    vec![
        (DCART, published(scale)),
        (OURS, ours(scale)),
        ("4 operations, 16 units", interleaved(4, 16, scale)),
        ("8 operations, 16 units", interleaved(8, 16, scale)),
        ("32 operations, 8 units", interleaved(32, 8, scale)),
    ]
}

/// Returns the designs among these that also walk Nearfield's tree.
pub(super) fn on_blocks(scale: &DcartScale) -> Vec<Design> {
    vec![
        ("DCART's units on blocks", published(scale)),
        (BLOCKS, ours(scale)),
    ]
}

/// Returns memories of the card.
pub(super) fn memories(scale: &DcartScale) -> [(&'static str, dram::DramParameters); 3] {
    [
        (
            "DDR4-3200, 2 channels",
            dram::DramPreset::Ddr4X8.parameters(),
        ),
        ("HBM2, 16 channels", published(scale).memory),
        ("HBM3, 32 channels", dram::DramPreset::Hbm3.parameters()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_hardware::accelerator::dcart::area::{DcartArea, DcartLookupTables};

    #[test]
    fn designs_of_the_same_area_take_no_more_than_the_papers() {
        let scale = DcartScale::tiny();
        let budget = DcartArea::of(&published(&scale), &DcartLookupTables::ASSUMED);
        for (name, parameters) in same_area(&scale) {
            let area = DcartArea::of(&parameters, &DcartLookupTables::ASSUMED);
            assert!(area.fits(&budget), "{name}: {area:?} beside {budget:?}");
        }
    }
}
