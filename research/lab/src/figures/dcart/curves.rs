//! Figure 10: throughput and latency.

use super::designs::{DCART, OURS, ours, published};
use super::modelled::ExecutedWorkload;
use super::rows::modelled;
use super::scale::{DcartScale, Figure};
use super::workload::{DcartWorkload, DcartWorkloadKind, ZIPF};
use crate::figures::job::FigureJob;
use crate::figures::row::Quantity;
use crate::workload::Mix;
use nearfield_hardware::accelerator::dcart::DcartParameters;

/// Numbers of operations of a batch.
const BATCHES: [usize; 6] = [1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20];

pub(super) fn jobs(figure: &Figure, scale: &DcartScale) -> Vec<FigureJob> {
    let figure = figure.name;
    let mut jobs = Vec::new();
    for one in scale.workloads(&DcartWorkloadKind::REAL) {
        for (name, parameters) in [(DCART, published(scale)), (OURS, ours(scale))] {
            let scale = scale.clone();
            let title = format!("{}, {name}", one.name());
            jobs.push(FigureJob::new(figure, &title, BATCHES.len(), move |job| {
                let operations = scale.dcart_operations;
                let load = DcartWorkload::new(one, Mix::DcartC, ZIPF, operations, &scale)?;
                let executed = ExecutedWorkload::new(&load, job.interrupt)?;
                // A batch cannot have more operations than the load. The smallest is always run.
                let last = load.operations.len().max(BATCHES[0]);
                for batch in BATCHES.into_iter().filter(|batch| *batch <= last) {
                    let parameters = DcartParameters {
                        batch,
                        ..parameters.clone()
                    };
                    let report = executed.on(parameters, job.interrupt)?;
                    let x = Quantity::new("throughput", "Mops", report.rate() / 1e6);
                    let p99 = report.latency(0.99).as_nanoseconds() / 1e3;
                    let y = Quantity::new("latency, p99", "µs", p99);
                    job.rows.push(modelled(figure, one.name(), name, x, y));
                    job.end_phase();
                }
                Ok(())
            }));
        }
    }
    jobs
}
