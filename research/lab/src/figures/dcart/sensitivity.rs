//! Figures 12a and 12b, and the effect of assumed parameters.

use super::designs::{DCART, OURS, ours, published};
use super::measured::DcartContender;
use super::modelled::ExecutedWorkload;
use super::motivation::{MIXES, measured_mixes, share_of_writes};
use super::rows::{modelled, throughput};
use super::scale::{DcartScale, Figure};
use super::workload::{DcartWorkload, DcartWorkloadKind, ZIPF};
use crate::figures::job::FigureJob;
use crate::figures::row::Quantity;
use crate::workload::{Distribution, Mix};
use nearfield_hardware::accelerator::dcart::DcartParameters;

/// Creates the jobs of figure 12a: runs by number of operations, each run as one batch.
pub(super) fn operations(figure: &Figure, scale: &DcartScale) -> Vec<FigureJob> {
    let figure = figure.name;
    // Small scales leave out the longest runs. The shortest is always run.
    let all = [1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18];
    let last = scale.dcart_operations.max(all[0]);
    let counts: Vec<usize> = all.into_iter().filter(|count| *count <= last).collect();
    let designs = [(DCART, published(scale)), (OURS, ours(scale))];
    let job = |(name, parameters): (&'static str, DcartParameters)| {
        let (scale, counts) = (scale.clone(), counts.clone());
        FigureJob::new(figure, name, counts.len(), move |job| {
            for count in counts {
                let load =
                    DcartWorkload::new(DcartWorkloadKind::Ipgeo, Mix::DcartC, ZIPF, count, &scale)?;
                let executed = ExecutedWorkload::new(&load, job.interrupt)?;
                let parameters = DcartParameters {
                    batch: count,
                    ..parameters.clone()
                };
                let report = executed.on(parameters, job.interrupt)?;
                let x = Quantity::new("operations", "thousand", count as f64 / 1e3);
                job.rows
                    .push(modelled(figure, "", name, x, throughput(report.rate())));
                job.end_phase();
            }
            Ok(())
        })
    };
    designs.map(job).into()
}

/// Creates the jobs of figure 12b: from reads alone to writes alone.
pub(super) fn mixes(figure: &Figure, scale: &DcartScale) -> Vec<FigureJob> {
    let mut jobs = Vec::new();
    for (name, parameters) in [(DCART, published(scale)), (OURS, ours(scale))] {
        let (figure, scale) = (figure.name, scale.clone());
        jobs.push(FigureJob::new(figure, name, MIXES.len(), move |job| {
            for (number, mix) in MIXES.into_iter().enumerate() {
                let operations = scale.dcart_operations;
                let load =
                    DcartWorkload::new(DcartWorkloadKind::Ipgeo, mix, ZIPF, operations, &scale)?;
                let executed = ExecutedWorkload::new(&load, job.interrupt)?;
                let report = executed.on(parameters.clone(), job.interrupt)?;
                let (x, y) = (share_of_writes(number), throughput(report.rate()));
                job.rows.push(modelled(figure, "", name, x, y));
                job.end_phase();
            }
            Ok(())
        }));
    }
    let contenders = &DcartContender::ALL;
    jobs.push(measured_mixes(figure, "measured", scale, contenders));
    jobs
}

/// The name of an assumed parameter, and the function that scales it.
type Assumed = (&'static str, fn(&mut DcartParameters, f64));

fn scaled(value: u64, part: f64) -> u64 {
    ((value as f64 * part).round() as u64).max(1)
}

const ASSUMED: &[Assumed] = &[
    ("operations of a batch", |one, part| {
        one.batch = scaled(one.batch as u64, part) as usize;
    }),
    ("cycles of a hash", |one, part| {
        one.hash_cycles = scaled(one.hash_cycles, part)
    }),
    ("cycles of a buffer", |one, part| {
        one.buffer_cycles = scaled(one.buffer_cycles, part)
    }),
    ("cycles of a match", |one, part| {
        one.match_cycles = scaled(one.match_cycles, part)
    }),
    ("cycles of a write", |one, part| {
        one.write_cycles = scaled(one.write_cycles, part)
    }),
    ("cycles to memory and back", |one, part| {
        one.port_cycles = scaled(one.port_cycles, part)
    }),
    ("bytes of a shortcut", |one, part| {
        one.shortcut_bytes = scaled(u64::from(one.shortcut_bytes), part) as u32;
    }),
    ("lines read ahead", |one, part| {
        one.stream_lines = scaled(one.stream_lines as u64, part) as usize;
    }),
    ("lines of a spill", |one, part| {
        one.spill_lines = scaled(one.spill_lines, part)
    }),
];

/// Creates the jobs that halve and double each assumed parameter, and vary the distribution of
/// keys.
pub(super) fn jobs(figure: &Figure, scale: &DcartScale) -> Vec<FigureJob> {
    let figure = figure.name;
    let mut jobs = Vec::new();
    for one in scale.workloads(&[DcartWorkloadKind::Ipgeo, DcartWorkloadKind::Rs]) {
        for (name, parameters) in [(DCART, published(scale)), (OURS, ours(scale))] {
            let scale = scale.clone();
            let title = format!("{}, {name}", one.name());
            // Recorded operations bring their own keys and inserts, so these are not varied.
            let is_recorded = one == DcartWorkloadKind::Trace;
            let others = if is_recorded {
                0
            } else {
                DISTRIBUTIONS.len() + 1
            };
            let phases = 2 * ASSUMED.len() + others;
            jobs.push(FigureJob::new(figure, &title, phases, move |job| {
                let operations = scale.dcart_operations / 3;
                let panel = format!("{}, {name}", one.name());
                for distribution in DISTRIBUTIONS.into_iter().filter(|_| !is_recorded) {
                    let load =
                        DcartWorkload::new(one, Mix::DcartC, distribution, operations, &scale)?;
                    let executed = ExecutedWorkload::new(&load, job.interrupt)?;
                    let report = executed.on(parameters.clone(), job.interrupt)?;
                    let x = Quantity::new("part of its value", "", 1.0);
                    let y = throughput(report.rate());
                    let peer = format!("keys by {distribution}");
                    job.rows.push(modelled(figure, &panel, &peer, x, y));
                    job.end_phase();
                }
                let load = DcartWorkload::new(one, Mix::DcartC, ZIPF, operations, &scale)?;
                let executed = ExecutedWorkload::new(&load, job.interrupt)?;
                if !is_recorded {
                    let inserting = ExecutedWorkload::new(&load.inserting(), job.interrupt)?;
                    let report = inserting.on(parameters.clone(), job.interrupt)?;
                    let x = Quantity::new("part of its value", "", 1.0);
                    let y = throughput(report.rate());
                    let peer = "writes insert keys";
                    job.rows.push(modelled(figure, &panel, peer, x, y));
                    job.end_phase();
                }
                for (peer, set) in ASSUMED {
                    for part in [0.5, 2.0] {
                        let mut parameters = parameters.clone();
                        set(&mut parameters, part);
                        let report = executed.on(parameters, job.interrupt)?;
                        let x = Quantity::new("part of its value", "", part);
                        let y = throughput(report.rate());
                        job.rows.push(modelled(figure, &panel, peer, x, y));
                        job.end_phase();
                    }
                }
                Ok(())
            }));
        }
    }
    jobs
}

const DISTRIBUTIONS: [Distribution; 3] = [ZIPF, Distribution::Uniform, Distribution::Zipf(1.2)];
