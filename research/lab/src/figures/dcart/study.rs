//! The sources of the gain: parts left out, units, memories, and other designs.

use super::designs::{Design, OURS, memories, on_blocks, ours, parts, published, same_area};
use super::modelled::ExecutedWorkload;
use super::rows::{modelled, throughput, workload};
use super::scale::{DcartScale, Figure};
use super::workload::{DcartWorkload, DcartWorkloadKind, ZIPF};
use crate::figures::job::{FigureJob, PointError};
use crate::figures::row::Quantity;
use crate::harness::Interrupt;
use crate::workload::Mix;
use nearfield_hardware::accelerator::dcart::DcartParameters;
use nearfield_hardware::accelerator::dcart::area::{DcartArea, DcartLookupTables};

/// The function that executes the operations of a load on a tree.
type Execute = fn(&DcartWorkload, &Interrupt) -> Result<ExecutedWorkload, PointError>;

/// Creates a job for each workload, which runs all designs on the paper's tree.
fn designs(
    figure: &'static str,
    scale: &DcartScale,
    workloads: &[DcartWorkloadKind],
    designs: Vec<Design>,
) -> Vec<FigureJob> {
    let job = |one: &DcartWorkloadKind| {
        designs_on(
            ExecutedWorkload::new,
            one.name(),
            figure,
            scale,
            *one,
            designs.clone(),
        )
    };
    scale.workloads(workloads).iter().map(job).collect()
}

/// Creates a job that runs designs on one workload.
fn designs_on(
    execute: Execute,
    title: &str,
    figure: &'static str,
    scale: &DcartScale,
    one: DcartWorkloadKind,
    designs: Vec<Design>,
) -> FigureJob {
    let scale = scale.clone();
    FigureJob::new(figure, title, designs.len(), move |job| {
        let load = DcartWorkload::new(one, Mix::DcartC, ZIPF, scale.dcart_operations, &scale)?;
        let executed = execute(&load, job.interrupt)?;
        for (name, parameters) in designs {
            let report = executed.on(parameters, job.interrupt)?;
            let y = throughput(report.rate());
            job.rows.push(modelled(figure, "", name, workload(one), y));
            job.end_phase();
        }
        Ok(())
    })
}

/// Creates jobs of designs that lack one part each.
pub(super) fn parts_left_out(figure: &Figure, scale: &DcartScale) -> Vec<FigureJob> {
    designs(figure.name, scale, &DcartWorkloadKind::ALL, parts(scale))
}

/// Creates jobs with one to 64 units, and as many buckets.
pub(super) fn units(figure: &Figure, scale: &DcartScale) -> Vec<FigureJob> {
    let figure = figure.name;
    let counts = [1, 2, 4, 8, 16, 32, 64];
    let mut jobs = Vec::new();
    for one in scale.workloads(&[DcartWorkloadKind::Ipgeo, DcartWorkloadKind::Rs]) {
        for (name, parameters) in [
            (super::designs::DCART, published(scale)),
            (OURS, ours(scale)),
        ] {
            let scale = scale.clone();
            let title = format!("{}, {name}", one.name());
            jobs.push(FigureJob::new(figure, &title, counts.len(), move |job| {
                let load =
                    DcartWorkload::new(one, Mix::DcartC, ZIPF, scale.dcart_operations, &scale)?;
                let executed = ExecutedWorkload::new(&load, job.interrupt)?;
                for units in counts {
                    let parameters = DcartParameters {
                        units,
                        buckets: units,
                        ..parameters.clone()
                    };
                    let report = executed.on(parameters, job.interrupt)?;
                    let x = Quantity::new("units", "", units as f64);
                    let y = throughput(report.rate());
                    job.rows.push(modelled(figure, one.name(), name, x, y));
                    job.end_phase();
                }
                Ok(())
            }));
        }
    }
    jobs
}

/// Creates jobs with other memories of the card.
pub(super) fn memories_of_the_card(figure: &Figure, scale: &DcartScale) -> Vec<FigureJob> {
    let mut all = Vec::new();
    for (name, memory) in memories(scale) {
        for (design, parameters) in [("", published(scale)), (", interleaved", ours(scale))] {
            let parameters = DcartParameters {
                memory: memory.clone(),
                ..parameters
            };
            all.push((format!("{name}{design}"), parameters));
        }
    }
    let mut jobs = Vec::new();
    for one in scale.workloads(&[DcartWorkloadKind::Ipgeo, DcartWorkloadKind::Rs]) {
        let (figure, scale, all) = (figure.name, scale.clone(), all.clone());
        jobs.push(FigureJob::new(figure, one.name(), all.len(), move |job| {
            let load = DcartWorkload::new(one, Mix::DcartC, ZIPF, scale.dcart_operations, &scale)?;
            let executed = ExecutedWorkload::new(&load, job.interrupt)?;
            for (name, parameters) in all {
                let report = executed.on(parameters, job.interrupt)?;
                let y = throughput(report.rate());
                job.rows.push(modelled(figure, "", &name, workload(one), y));
                job.end_phase();
            }
            Ok(())
        }));
    }
    jobs
}

/// Creates jobs of designs that take at most the paper's area of the card.
pub(super) fn of_the_same_area(figure: &Figure, scale: &DcartScale) -> Vec<FigureJob> {
    let figure = figure.name;
    let mut jobs = designs(figure, scale, &DcartWorkloadKind::ALL, same_area(scale));
    for one in scale.workloads(&DcartWorkloadKind::ALL) {
        let title = format!("{}, blocks", one.name());
        let designs = on_blocks(scale);
        jobs.push(designs_on(
            ExecutedWorkload::on_blocks,
            &title,
            figure,
            scale,
            one,
            designs,
        ));
    }
    let all = same_area(scale);
    jobs.push(FigureJob::count(figure, "area", move || {
        let area = |(name, parameters): Design| {
            let area = DcartArea::of(&parameters, &DcartLookupTables::ASSUMED);
            let x = Quantity::new("workload", "", 0.0);
            let quantities = [
                Quantity::new("lookup tables", "thousand", area.luts / 1e3),
                Quantity::new("block memories", "", area.block_memories),
            ];
            quantities.map(|y| modelled(figure, "area", name, x.clone(), y))
        };
        all.into_iter().flat_map(area).collect()
    }));
    jobs
}
