//! pulse (ASPLOS 2025): its figures and tables, from a model of its accelerator, of its rivals and
//! of the network between them.
//!
//! A load creates queries of an application. The application's data are generated when they are
//! read (`data/`). Each query is a traversal of a verified program (`programs.rs`), which the
//! models of `nearfield_hardware::accelerator` carry out (`nearfield_offload::modelled`). Every
//! result is checked. All of it is modelled.

mod applications;
mod claims;
mod clock;
mod crossings;
mod cxl;
mod data;
mod head;
mod measure;
mod paged;
mod pipelines;
mod power;
mod programs;
mod rows;
mod scale;
mod sensitivity;
mod studies;
mod swap;
mod systems;
#[cfg(test)]
mod tests;

pub use scale::PulseScale;

use super::claim::evaluate;
use super::job::FigureJob;
use super::paper::{ScaledFigure, ScaledPaper, at_scale, figures, shared};
use super::row::{PaperClaim, Row};
use scale::Figure;

impl ScaledPaper for PulseScale {
    fn name(&self) -> &'static str {
        "pulse"
    }

    fn figures(&self) -> Vec<ScaledFigure<'_>> {
        at_scale(FIGURES, self)
    }

    fn allowed(&self) -> &'static str {
        "2a, 2b, 2c, 4, table3, 7, 8, 9, 10, table4, 11, 12, a2, a3a, a3b, a4a, a4b, a5, a6, \
         sensitivity"
    }

    fn shared_jobs(&self, figures: &[&'static str]) -> Vec<FigureJob> {
        systems::jobs(self, figures)
    }

    fn claims(&self, rows: &[Row]) -> Vec<PaperClaim> {
        evaluate(claims::CLAIMS, rows)
    }

    fn description(&self) -> String {
        head::description(self)
    }
}

/// All figures, in the order of the paper; `a` are those of its appendix.
const FIGURES: &[Figure] = figures! {
    "2a" swap::jobs => "time in traversals over swapped memory, by the memory at the caller";
    "2b" crossings::jobs => "crossings between four memory nodes, by the slabs of the allocator";
    "2c" crossings::jobs => "requests by their crossings between four memory nodes";
    "4" pipelines::schedule => "three traversals on one logic and two memory pipelines";
    "table3" pipelines::ratios => "applications: iterations, and ratio of logic to fetch time";
    "7" shared => "latency alone and throughput of all systems, on one to four memory nodes";
    "8" power::jobs => "energy of a request, with memory at its full rate";
    "9" shared => "pulse, and pulse that returns to its caller between memory nodes";
    "10" pipelines::breakdown => "time of WebService in the accelerator, by component";
    "table4" pipelines::designs => "area and performance of designs, WebService";
    "11" pipelines::designs => "throughput per watt, by logic pipelines for each memory pipeline";
    "12" cxl::jobs => "memory attached by CXL relative to local DRAM";
    "a2" shared => "bandwidth in use";
    "a3a" studies::patterns => "Zipf's and the uniform distribution, with a cache at the caller";
    "a3b" studies::changes => "requests that write, with and without regions for new nodes";
    "a4a" pipelines::lengths => "latency by the length of a list";
    "a4b" pipelines::bandwidth => "memory bandwidth by memory pipelines";
    "a5" studies::allocations => "allocation on two memory nodes";
    "a6" systems::uniform => "figure 7 with uniform keys";
    "sensitivity" sensitivity::jobs => "assumed parameters halved and doubled, each alone";
};
