//! Figures 7, 8, 9 and 11: all designs on all workloads, from the same runs.

use super::designs::{BLOCKS, DCART, OURS, ours, published};
use super::measured::{DcartContender, threads};
use super::modelled::ExecutedWorkload;
use super::rows::{modelled, of_kind, throughput, workload};
use super::scale::DcartScale;
use super::workload::{DcartWorkload, DcartWorkloadKind, ZIPF};
use crate::figures::job::FigureJob;
use crate::figures::row::{Quantity, Row};
use crate::report::NumberOrigin;
use crate::workload::Mix;
use nearfield_hardware::accelerator::dcart::DcartReport;
use nearfield_hardware::accelerator::dcart::energy::{
    GPU, HOST, HOST_CORES, Power, Range, of_card, of_machine,
};

/// The figures that share these runs.
const SHARED: [&str; 4] = ["7", "8", "9", "11"];

/// CuART's name in figures.
pub(super) const CUART: &str = "CuART, modelled";

/// Lookups a second of CuART: twice those of GRT, which are 106 to 130 million (abstracts of both,
/// on the GPUs of 2021 and 2016). It is *assumed* that updates take as long.
const CUART_RATE: f64 = 2.0 * 118e6;

/// Names of quantities.
pub(super) const LOCKS: &str = "contended locks";
pub(super) const MATCHES: &str = "partial key matches";
pub(super) const ENERGY: &str = "energy";

pub(super) fn contentions(each: f64) -> Quantity {
    Quantity::new(LOCKS, "of 1000 operations", 1e3 * each)
}

pub(super) fn matches(each: f64) -> Quantity {
    Quantity::new(MATCHES, "an operation", each)
}

/// Returns rows of the likely energy of an operation, and of the range that the powers leave.
fn energies(kind: NumberOrigin, peer: &str, x: &Quantity, range: Range) -> Vec<Row> {
    let names = ["energy, least", ENERGY, "energy, most"];
    let row = |(name, nanojoules): (&str, f64)| {
        let y = Quantity::new(name, "nJ", nanojoules);
        of_kind(kind, "11", "", peer, x.clone(), y)
    };
    names.into_iter().zip(range).map(row).collect()
}

/// Creates the jobs for the runs.
pub(super) fn jobs(scale: &DcartScale, figures: &[&'static str]) -> Vec<FigureJob> {
    let wanted: Vec<_> = SHARED
        .into_iter()
        .filter(|name| figures.contains(name))
        .collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut jobs = Vec::new();
    for one in scale.workloads(&DcartWorkloadKind::ALL) {
        let both = [modelled_job(one, scale), measured_job(one, scale)];
        for mut job in both {
            job.figures = wanted.clone();
            let (work, wanted) = (job.work, wanted.clone());
            job.work = Box::new(move |run| {
                let done = work(run);
                run.rows.retain(|row| wanted.contains(&&*row.detail.figure));
                done
            });
            jobs.push(job);
        }
    }
    jobs
}

/// Returns the points of a run of the model, in all figures.
fn rows_of(name: &str, x: &Quantity, report: &DcartReport) -> Vec<Row> {
    let each = |count: u64| count as f64 / report.operations as f64;
    let contended = contentions(each(report.locks.contended));
    let matched = matches(each(report.matches));
    let rate = throughput(report.rate());
    let mut rows = vec![
        modelled("7", "", name, x.clone(), contended),
        modelled("8", "", name, x.clone(), matched),
        Row {
            rate_mops: Some(report.rate() / 1e6),
            ..modelled("9", "", name, x.clone(), rate)
        },
    ];
    rows.extend(energies(NumberOrigin::Modelled, name, x, of_card(report)));
    rows
}

fn modelled_job(one: DcartWorkloadKind, scale: &DcartScale) -> FigureJob {
    let scale = scale.clone();
    FigureJob::new("", &format!("{}, modelled", one.name()), 3, move |job| {
        let load = DcartWorkload::new(one, Mix::DcartC, ZIPF, scale.dcart_operations, &scale)?;
        let executed = ExecutedWorkload::new(&load, job.interrupt)?;
        for (name, parameters) in [(DCART, published(&scale)), (OURS, ours(&scale))] {
            let report = executed.on(parameters, job.interrupt)?;
            job.rows.extend(rows_of(name, &workload(one), &report));
            job.end_phase();
        }
        // The next tree needs as much memory for its recording.
        drop(executed);
        let report =
            ExecutedWorkload::on_blocks(&load, job.interrupt)?.on(ours(&scale), job.interrupt)?;
        job.rows.extend(rows_of(BLOCKS, &workload(one), &report));
        job.end_phase();
        let x = workload(one);
        job.rows
            .push(modelled("9", "", CUART, x.clone(), throughput(CUART_RATE)));
        let energy = of_machine(&GPU, CUART_RATE);
        job.rows
            .extend(energies(NumberOrigin::Modelled, CUART, &x, energy));
        Ok(())
    })
}

fn measured_job(one: DcartWorkloadKind, scale: &DcartScale) -> FigureJob {
    let scale = scale.clone();
    let phases = DcartContender::ALL.len();
    let title = format!("{}, measured", one.name());
    let mut job = FigureJob::new("", &title, phases, move |job| {
        let load = DcartWorkload::new(one, Mix::DcartC, ZIPF, scale.timed_operations, &scale)?;
        let threads = threads();
        // The measured cores are this part of the paper's machine.
        let part = threads as f64 / HOST_CORES;
        let power = Power {
            watts: HOST.watts.map(|watts| watts * part),
            ..HOST
        };
        for contender in DcartContender::ALL {
            let measured = contender.measure(&load, threads, job.interrupt)?;
            let (x, name) = (workload(one), contender.name());
            let mut push = |kind, figure, y| {
                job.rows.push(of_kind(kind, figure, "", name, x.clone(), y));
            };
            push(
                NumberOrigin::Measured,
                "7",
                contentions(measured.contentions),
            );
            push(NumberOrigin::Counted, "8", matches(measured.matches));
            push(NumberOrigin::Measured, "9", throughput(measured.rate));
            let energy = of_machine(&power, measured.rate);
            // The rate is measured, but the power is assumed.
            job.rows
                .extend(energies(NumberOrigin::Modelled, name, &x, energy));
            job.end_phase();
        }
        Ok(())
    });
    job.alone = true;
    job
}
