//! Designs of the accelerator.

use super::scale::Scale;
use nearfield_hardware::accelerator::dcart::{Error, Parameters, Pipeline, Policy};
use nearfield_hardware::dram;

/// A design and its name.
pub(super) type Design = (&'static str, Parameters);

/// The paper's name of its accelerator, in all figures.
pub(super) const DCART: &str = "DCART, modelled";
/// Ours.
pub(super) const OURS: &str = "interleaved units, modelled";

/// Ours on Nearfield's tree.
pub(super) const BLOCKS: &str = "interleaved units on blocks, modelled";

/// The paper's, with what the user has changed.
pub(super) fn published(scale: &Scale) -> Parameters {
    let mut parameters = Parameters::published();
    // A scale has no others than those that were accepted, see `check`.
    let accepted = parameters.set_all(&scale.parameters);
    debug_assert!(accepted.is_ok(), "{accepted:?}");
    parameters
}

/// Whether all designs can be built.
pub(super) fn check(scale: &Scale) -> Result<(), Error> {
    Parameters::published().set_all(&scale.parameters)?;
    let all = [parts(scale), same_area(scale), on_blocks(scale)];
    all.iter().flatten().try_for_each(|(_, one)| one.check())
}

/// Ours: units have 16 operations under way each. A quarter of the units, and three quarters of
/// the buffer of the tree, pay for their state. The memory latency that a unit hides, a buffer need
/// not avoid.
pub(super) fn ours(scale: &Scale) -> Parameters {
    interleaved(16, 12, scale)
}

/// Units with so many operations each, with a quarter of the paper's buffer of the tree.
fn interleaved(operations: usize, units: usize, scale: &Scale) -> Parameters {
    Parameters {
        pipeline: Pipeline::Interleaved { operations },
        tree_buffer: 1 << 20,
        units,
        buckets: units,
        ..published(scale)
    }
}

/// The paper's with each part left out.
pub(super) fn parts(scale: &Scale) -> Vec<Design> {
    let with = |change: fn(&mut Parameters)| {
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
            with(|one| one.tree_policy = Policy::Lru),
        ),
        ("without overlap", with(|one| one.overlaps = false)),
        (
            "without all of these",
            with(|one| {
                one.combines = false;
                one.shortcuts = false;
                one.overlaps = false;
                one.tree_policy = Policy::Lru;
            }),
        ),
    ]
}

/// Designs that take no more look-up tables and block memories than the paper's.
pub(super) fn same_area(scale: &Scale) -> Vec<Design> {
    vec![
        (DCART, published(scale)),
        (OURS, ours(scale)),
        ("4 operations, 16 units", interleaved(4, 16, scale)),
        ("8 operations, 16 units", interleaved(8, 16, scale)),
        ("32 operations, 8 units", interleaved(32, 8, scale)),
    ]
}

/// Of these, those that walk Nearfield's tree, too.
pub(super) fn on_blocks(scale: &Scale) -> Vec<Design> {
    vec![
        ("DCART's units on blocks", published(scale)),
        (BLOCKS, ours(scale)),
    ]
}

/// Memories of the card.
pub(super) fn memories(scale: &Scale) -> [(&'static str, dram::Parameters); 3] {
    [
        ("DDR4-3200, 2 channels", dram::Preset::Ddr4X8.parameters()),
        ("HBM2, 16 channels", published(scale).memory),
        ("HBM3, 32 channels", dram::Preset::Hbm3.parameters()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_hardware::accelerator::dcart::area::{Area, Logic};

    #[test]
    fn designs_of_the_same_area_take_no_more_than_the_papers() {
        let scale = Scale::tiny();
        let budget = Area::of(&published(&scale), &Logic::ASSUMED);
        for (name, parameters) in same_area(&scale) {
            let area = Area::of(&parameters, &Logic::ASSUMED);
            assert!(area.fits(&budget), "{name}: {area:?} beside {budget:?}");
        }
    }
}
