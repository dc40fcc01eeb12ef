//! Tests that an index with heights from the unit returns the same as one without.

use nearfield_core::Words;
use nearfield_hardware::modules::ModulePreset;
use nearfield_learned::Gru;
use nearfield_pim::device::{Model, ModuleDevice, Workers};
use nearfield_pim::radar::heights::LearningWindow;
use nearfield_pim::radar::{Radar, RadarOptions};
use nearfield_testkit::model;

const MODULES: usize = 8;

fn index<D: ModuleDevice + Send>(device: D, seed: u64) -> Radar<D> {
    let options = RadarOptions {
        sends_lists: false,
        cools: Some(1),
        ..RadarOptions::nearfield()
    };
    let window = LearningWindow {
        samples: 64,
        batches: 2,
        falls_back: false,
    };
    let gru = Gru::new(seed).expect("a model");
    Radar::with_predictor(device, options, window, Box::new(gru))
}

#[test]
fn an_index_with_learned_heights_does_what_a_map_does() {
    let modelled = |seed| {
        index(
            Model::new(MODULES, ModulePreset::RadarPaper.parameters()),
            seed,
        )
    };
    model::check::<Words, _>(2, modelled);
    let real = |seed| index(Workers::new(MODULES, 1 << 22, 2), seed);
    model::check::<Words, _>(1, real);
}
