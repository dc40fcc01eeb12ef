//! Energy of requests at full memory bandwidth: figure 8.

use super::applications::PulseApplication;
use super::measure::{MemoryNodeHardware, PULSE, PulseOutcome, PulseSetup, measure};
use super::rows::row;
use super::scale::{Figure, PulseScale};
use super::studies::of_energy;
use crate::figures::job::{FigureJob, PointError};
use crate::figures::row::Quantity;
use crate::harness::Interrupt;
use nearfield_hardware::accelerator::cores::CoresParameters;
use nearfield_hardware::accelerator::pulse::PulseDesign;
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
    application: PulseApplication,
    parameters: CoresParameters,
    most: usize,
    scale: &PulseScale,
    interrupt: &Interrupt,
) -> Result<(usize, PulseOutcome), PointError> {
    let run = |cores| {
        let system = MemoryNodeHardware::Cores(CoresParameters {
            cores,
            ..parameters
        });
        measure(
            &PulseSetup::new(application, system).saturated(),
            scale,
            interrupt,
        )
    };
    debug_assert!(most > 0);
    let best = run(most)?;
    // Rates grow with the number of cores, so halving finds the least number.
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

pub(super) fn jobs(figure: &Figure, scale: &PulseScale) -> Vec<FigureJob> {
    let figure = figure.name;
    let job = |(number, application): (usize, PulseApplication)| {
        let scale = scale.clone();
        FigureJob::new(figure, &application.name(), 3, move |run| {
            let panel = application.name();
            let x = || Quantity::new("application", "", number as f64 + 1.0);
            let mut rows = Vec::new();
            let mut add = |peer: &str, watts: f64, outcome: &PulseOutcome, cores: Option<usize>| {
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
            let design = PulseDesign::PROTOTYPE;
            let pulse = measure(
                &PulseSetup::new(application, PULSE).saturated(),
                &scale,
                run.interrupt,
            )?;
            add("pulse", power.watts(design), &pulse, None);
            add("pulse-ASIC", power.watts_as_asic(design), &pulse, None);
            run.end_phase();
            for (peer, parameters, most, power) in [
                (
                    "RPC",
                    CoresParameters::XEON,
                    XEON_CORES,
                    ProcessorPower::XEON,
                ),
                (
                    "RPC-ARM",
                    CoresParameters::ARM,
                    ARM_CORES,
                    ProcessorPower::ARM,
                ),
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
