//! DCART (DAC 2025): its figures, from a model of its accelerator and from rivals that are
//! measured.
//!
//! A workload is a set of keys and a stream of reads and updates. A real tree executes it, and
//! records the bytes that each operation reads and writes (`walker/`); the model of the accelerator
//! (`nearfield_hardware::accelerator::dcart`) computes the time of that (`modelled.rs`). Rivals and
//! Nearfield's engine execute the same operations on this machine, and are timed (`measured.rs`).
//! Every outcome is checked.

mod claims;
mod curves;
mod designs;
mod entries;
mod head;
mod measured;
mod modelled;
mod motivation;
mod overall;
mod rows;
mod scale;
mod sensitivity;
mod study;
#[cfg(test)]
mod tests;
mod trace;
mod walked;
mod walker;
mod workload;

pub use scale::DcartScale;

use super::claim::evaluate;
use super::job::FigureJob;
use super::paper::{ScaledFigure, ScaledPaper, at_scale, figures, shared};
use super::row::{PaperClaim, Row};
use scale::Figure;

impl ScaledPaper for DcartScale {
    fn name(&self) -> &'static str {
        "DCART"
    }

    fn figures(&self) -> Vec<ScaledFigure<'_>> {
        let mut figures = at_scale(FIGURES, self);
        figures.retain(|figure| self.trace().is_none() || !OF_MIXES.contains(&figure.title.name));
        figures
    }

    fn allowed(&self) -> &'static str {
        match self.trace().is_some() {
            true => {
                "2b, 2c, 3, 3b, 7, 8, 9, 10, 11, parts, units, memories, ours, sensitivity; a \
                 trace has no others"
            }
            false => {
                "2a, 2b, 2c, 2d, 2e, 3, 3b, 7, 8, 9, 10, 11, 12a, 12b, parts, units, memories, \
                 ours, sensitivity"
            }
        }
    }

    fn shared_jobs(&self, figures: &[&'static str]) -> Vec<FigureJob> {
        overall::jobs(self, figures)
    }

    fn finish(&self, _: &str, mut rows: Vec<Row>) -> Vec<Row> {
        // Rows name the source of their keys, whichever figure they belong to.
        for row in &mut rows {
            let workload = rows::workload_of(row);
            row.detail.key_source = workload.map(|workload| workload.source(self));
        }
        rows
    }

    fn claims(&self, rows: &[Row]) -> Vec<PaperClaim> {
        evaluate(claims::CLAIMS, rows)
    }

    fn description(&self) -> String {
        head::description(self)
    }
}

/// Figures that vary the number of operations or the mix of the paper's workload. A trace has its
/// own, so it cannot be used there.
const OF_MIXES: [&str; 5] = ["2a", "2d", "2e", "12a", "12b"];

/// All figures, in the order of the paper; those with words for names are not in it.
const FIGURES: &[Figure] = figures! {
    "2a" motivation::times => "time of an operation on rivals, and its parts, measured";
    "2b" motivation::redundant => "node visits that repeat visits of earlier operations";
    "2c" motivation::useful => "used bytes of the cache lines that are read";
    "2d" motivation::times_by_threads => "time for writes and other threads, IPGEO, measured";
    "2e" motivation::mixes => "throughput of rivals by the share of writes, measured";
    "3" motivation::prefixes => "operations by the first byte of their key";
    "3b" motivation::hottest => "share of visits to the hottest nodes";
    "7" shared => "contended locks";
    "8" shared => "partial key matches of an operation";
    "9" shared => "throughput of all designs";
    "10" curves::jobs => "throughput and latency by the operations of a batch";
    "11" shared => "energy of an operation";
    "12a" sensitivity::operations => "throughput by the number of operations, IPGEO";
    "12b" sensitivity::mixes => "throughput by the share of writes, IPGEO";
    "parts" study::parts_left_out => "the design without one of its parts at a time";
    "units" study::units => "operating units";
    "memories" study::memories_of_the_card => "memories of the card";
    "ours" study::of_the_same_area => "other designs of the same area";
    "sensitivity" sensitivity::jobs => "assumed parameters halved and doubled, each alone";
};
