//! The factor analysis: techniques are added one after the other.

use super::contender::{ChimeContender, ContenderSizes};
use super::point::{FigurePhase, load_phase, load_setup, warming};
use super::scale::{ChimeScale, Figure};
use super::simulate::{CacheWarming, ChimePhase, ChimeSetup};
use crate::figures::job::FigureJob;
use crate::figures::row::Quantity;
use crate::workload::Mix;

/// Number of clients of the paper.
const CLIENTS: usize = 320;
/// The workloads on keys that are loaded.
const WORKLOADS: [Mix; 4] = [Mix::YcsbC, Mix::YcsbB, Mix::YcsbA, Mix::YcsbD];

fn steps(
    figure: &Figure,
    scale: &ChimeScale,
    sizes: &ContenderSizes,
    contenders: Vec<ChimeContender>,
) -> Vec<FigureJob> {
    let simulate = |contender, setup, points| {
        FigureJob::simulate(figure.name, scale, contender, setup, points)
    };
    let mut jobs = Vec::new();
    for (number, contender) in contenders.into_iter().enumerate() {
        let step = || Quantity::new("step", "", number as f64);
        let point = |(place, &mix): (usize, &Mix)| {
            let warming = match (place, mix) {
                (0, _) => warming(&contender, scale, scale.keys / 2),
                // Only D has other hot keys than the workloads before it.
                (_, Mix::YcsbD) => CacheWarming::Operations(scale.keys / 8),
                _ => CacheWarming::None,
            };
            let phase = ChimePhase::of(scale, mix, CLIENTS).warmed(warming);
            FigurePhase::rate(mix.name(), step(), phase)
        };
        let points = WORKLOADS.iter().enumerate().map(point).collect();
        let setup = ChimeSetup::of_paper(scale, sizes);
        jobs.push(simulate(contender.clone(), setup, points));
        if contender.cannot_load() {
            continue;
        }
        let setup = load_setup(scale, sizes);
        let warming = CacheWarming::Operations(setup.loaded);
        let phase = load_phase(scale, CLIENTS, 4).warmed(warming);
        let points = vec![FigurePhase::rate(Mix::Load.name(), step(), phase)];
        jobs.push(simulate(contender, setup, points));
    }
    jobs
}

/// Creates the jobs of figure 15a.
pub(super) fn from_sherman(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    let sizes = ContenderSizes::of_paper(scale);
    steps(
        figure,
        scale,
        &sizes,
        ChimeContender::steps_from_sherman(&sizes),
    )
}

/// Creates the jobs of figure 15b.
pub(super) fn from_rolex(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    let sizes = ContenderSizes::of_paper(scale);
    steps(
        figure,
        scale,
        &sizes,
        ChimeContender::steps_from_rolex(&sizes),
    )
}
