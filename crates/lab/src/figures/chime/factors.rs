//! The factor analysis: techniques are added one after the other.

use super::contender::{Contender, Sizes};
use super::point::{Point, load_phase, load_setup, warming};
use super::scale::{Figure, Scale};
use super::simulate::{Phase, Setup, Warming};
use crate::figures::job::Job;
use crate::figures::row::Quantity;
use crate::workload::Mix;

/// Number of clients of the paper.
const CLIENTS: usize = 320;
/// The workloads on keys that are loaded.
const WORKLOADS: [Mix; 4] = [Mix::YcsbC, Mix::YcsbB, Mix::YcsbA, Mix::YcsbD];

fn steps(figure: &Figure, scale: &Scale, sizes: &Sizes, contenders: Vec<Contender>) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (number, contender) in contenders.into_iter().enumerate() {
        let step = || Quantity::new("step", "", number as f64);
        let point = |(place, &mix): (usize, &Mix)| {
            let warming = match (place, mix) {
                (0, _) => warming(&contender, scale, scale.keys / 2),
                (_, Mix::YcsbD) => Warming::Operations(scale.keys / 8),
                _ => Warming::None,
            };
            let phase = Phase::of(scale, mix, CLIENTS).warmed(warming);
            Point::rate(mix.name(), step(), phase)
        };
        let points = WORKLOADS.iter().enumerate().map(point).collect();
        let setup = Setup::of_paper(scale, sizes);
        jobs.push(Job::simulate(
            figure.name,
            scale,
            contender.clone(),
            setup,
            points,
        ));
        if contender.cannot_load() {
            continue;
        }
        let setup = load_setup(scale, sizes);
        let warming = Warming::Operations(setup.loaded);
        let phase = load_phase(scale, CLIENTS, 4).warmed(warming);
        let points = vec![Point::rate(Mix::Load.name(), step(), phase)];
        jobs.push(Job::simulate(figure.name, scale, contender, setup, points));
    }
    jobs
}

/// Creates the jobs of figure 15a.
pub(super) fn from_sherman(figure: &Figure, scale: &Scale) -> Vec<Job> {
    let sizes = Sizes::of_paper(scale);
    steps(figure, scale, &sizes, Contender::steps_from_sherman(&sizes))
}

/// Creates the jobs of figure 15b.
pub(super) fn from_rolex(figure: &Figure, scale: &Scale) -> Vec<Job> {
    let sizes = Sizes::of_paper(scale);
    steps(figure, scale, &sizes, Contender::steps_from_rolex(&sizes))
}
