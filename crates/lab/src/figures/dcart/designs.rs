//! Designs of the accelerator.

use nearfield_hardware::accelerator::dcart::{Parameters, Pipeline, Policy};
use nearfield_hardware::dram;

/// A design and its name.
pub(super) type Design = (&'static str, Parameters);

/// The paper's name of its accelerator, in all figures.
pub(super) const DCART: &str = "DCART, modelled";
/// Ours.
pub(super) const OURS: &str = "interleaved units, modelled";

/// Ours on Nearfield's tree.
pub(super) const BLOCKS: &str = "interleaved units on blocks, modelled";

/// The paper's.
pub(super) fn published() -> Parameters {
    Parameters::published()
}

/// Ours: units have 16 operations under way each. A quarter of the units, and three quarters of
/// the buffer of the tree, pay for their state. The memory latency that a unit hides, a buffer need
/// not avoid.
pub(super) fn ours() -> Parameters {
    interleaved(16, 12)
}

/// Units with so many operations each, with a quarter of the paper's buffer of the tree.
fn interleaved(operations: usize, units: usize) -> Parameters {
    Parameters {
        pipeline: Pipeline::Interleaved { operations },
        tree_buffer: 1 << 20,
        units,
        buckets: units,
        ..published()
    }
}

/// The paper's with each part left out.
pub(super) fn parts() -> Vec<Design> {
    let with = |change: fn(&mut Parameters)| {
        let mut parameters = published();
        change(&mut parameters);
        parameters
    };
    vec![
        ("whole", published()),
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
pub(super) fn same_area() -> Vec<Design> {
    vec![
        (DCART, published()),
        (OURS, ours()),
        ("4 operations, 16 units", interleaved(4, 16)),
        ("8 operations, 16 units", interleaved(8, 16)),
        ("32 operations, 8 units", interleaved(32, 8)),
    ]
}

/// Of these, those that walk Nearfield's tree, too.
pub(super) fn on_blocks() -> Vec<Design> {
    vec![("DCART's units on blocks", published()), (BLOCKS, ours())]
}

/// Memories of the card.
pub(super) fn memories() -> [(&'static str, dram::Parameters); 3] {
    [
        ("DDR4-3200, 2 channels", dram::Preset::Ddr4X8.parameters()),
        ("HBM2, 16 channels", published().memory),
        ("HBM3, 32 channels", dram::Preset::Hbm3.parameters()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_hardware::accelerator::dcart::area::{Area, Logic};

    #[test]
    fn designs_of_the_same_area_take_no_more_than_the_papers() {
        let budget = Area::of(&published(), &Logic::ASSUMED);
        for (name, parameters) in same_area() {
            let area = Area::of(&parameters, &Logic::ASSUMED);
            assert!(area.fits(&budget), "{name}: {area:?} beside {budget:?}");
        }
    }
}
