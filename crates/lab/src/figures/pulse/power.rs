//! Energy of requests at full memory bandwidth: figure 8.

use super::applications::Application;
use super::measure::{Outcome, PULSE, Setup, System, measure};
use super::rows::row;
use super::scale::{Figure, Scale};
use super::studies::of_energy;
use crate::figures::job::{Job, PointError};
use crate::figures::row::Quantity;
use crate::harness::Interrupt;
use nearfield_hardware::accelerator::cores::Parameters;
use nearfield_hardware::accelerator::pulse::Design;
use nearfield_hardware::accelerator::pulse::energy::{
    AcceleratorPower, ProcessorPower, microjoules,
};

/// Numbers of cores of the processors: a Xeon Gold 6240, and a BlueField-2.
const XEON_CORES: usize = 18;
const ARM_CORES: usize = 8;

/// The part of the greatest rate from which on a rate counts as the greatest.
const ENOUGH: f64 = 0.95;

/// Finds the smallest number of cores that is about as fast as all cores, as the paper counts them
/// (section 6), and its outcome.
pub(super) fn fewest(
    application: Application,
    parameters: Parameters,
    most: usize,
    scale: &Scale,
    interrupt: &Interrupt,
) -> Result<(usize, Outcome), PointError> {
    let run = |cores| {
        let system = System::Cores(Parameters {
            cores,
            ..parameters
        });
        measure(
            &Setup::new(application, system).saturated(),
            scale,
            interrupt,
        )
    };
    let best = run(most)?;
    let (mut low, mut high, mut found) = (1, most, best.clone());
    while low < high {
        let middle = low + (high - low) / 2;
        let outcome = run(middle)?;
        if outcome.mops >= ENOUGH * best.mops {
            (high, found) = (middle, outcome);
        } else {
            low = middle + 1;
        }
    }
    Ok((high, found))
}

pub(super) fn jobs(figure: &Figure, scale: &Scale) -> Vec<Job> {
    let figure = figure.name;
    let job = |(number, application): (usize, Application)| {
        let scale = scale.clone();
        Job::new(figure, &application.name(), 3, move |run| {
            let panel = application.name();
            let x = || Quantity::new("application", "", number as f64 + 1.0);
            let mut rows = Vec::new();
            let mut add = |peer: &str, watts: f64, outcome: &Outcome, cores: Option<usize>| {
                let rate = outcome.mops * 1e6;
                let energy = microjoules(watts, rate, outcome.memory_bytes);
                let y = Quantity::new("energy of a request", "µJ", energy);
                rows.push(row(figure, &panel, peer, x(), y));
                rows.push(row(
                    figure,
                    &panel,
                    peer,
                    x(),
                    Quantity::new("power", "W", watts),
                ));
                if let Some(cores) = cores {
                    let y = Quantity::new("cores in use", "", cores as f64);
                    rows.push(row(figure, &panel, peer, x(), y));
                }
            };
            let power = AcceleratorPower::PAPER;
            let design = Design::PROTOTYPE;
            let pulse = measure(
                &Setup::new(application, PULSE).saturated(),
                &scale,
                run.interrupt,
            )?;
            add("pulse", power.watts(design), &pulse, None);
            add("pulse-ASIC", power.watts_as_asic(design), &pulse, None);
            run.end_phase();
            for (peer, parameters, most, power) in [
                ("RPC", Parameters::XEON, XEON_CORES, ProcessorPower::XEON),
                ("RPC-ARM", Parameters::ARM, ARM_CORES, ProcessorPower::ARM),
            ] {
                let found = fewest(application, parameters, most, &scale, run.interrupt)?;
                let (cores, outcome) = found;
                add(peer, power.watts(cores), &outcome, Some(cores));
                run.end_phase();
            }
            run.rows = rows;
            Ok(())
        })
    };
    of_energy().into_iter().enumerate().map(job).collect()
}
