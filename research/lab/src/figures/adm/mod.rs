//! ADM (Micromachines 2022): its figures, from policies on objects without contents and from
//! modelled memories.
//!
//! A job plays one load on all placements. It finds out which objects are in the fast memory, which
//! requests that memory serves, and which bytes move. In windows over the whole run, the lines of
//! requests and copies also go through the model of DRAM (`nearfield_hardware::dram`), for two sets
//! of timings and two address maps at once. All of it is modelled, except the shares of figure
//! `server`, which a real server measures.

mod addresses;
mod bench;
mod claims;
mod commands;
mod head;
mod hybrid;
mod jobs;
mod load;
mod placement;
mod run;
mod scale;
mod served;
mod study;
mod traced_server;
mod varied;

pub use commands::AdmCommands;
pub use scale::AdmScale;

use super::claim::evaluate;
use super::job::FigureJob;
use super::paper::{ScaledFigure, ScaledPaper, at_scale, figures, shared};
use super::row::{PaperClaim, Row};
use scale::Figure;

impl ScaledPaper for AdmScale {
    fn name(&self) -> &'static str {
        "ADM"
    }

    fn figures(&self) -> Vec<ScaledFigure<'_>> {
        at_scale(FIGURES, self)
    }

    fn allowed(&self) -> &'static str {
        "1b, 6a, 6b, 6c, 6d, 7, 8, 9, memories, moved, moving, capacity, thresholds, sets, \
         server"
    }

    fn shared_jobs(&self, figures: &[&'static str]) -> Vec<FigureJob> {
        jobs::jobs(self, figures)
    }

    fn claims(&self, rows: &[Row]) -> Vec<PaperClaim> {
        evaluate(claims::CLAIMS, rows)
    }

    fn description(&self) -> String {
        head::description(self)
    }
}

/// All figures, in the order of the paper; those with words for names are not in it.
const FIGURES: &[Figure] = figures! {
    "1b" study::jobs => "share of requests to the hottest objects";
    "6a" shared => "share of requests served by HBM, after policies have found the hot objects";
    "6b" shared => "memory latency relative to DRAM";
    "6c" shared => "energy of reads relative to DRAM";
    "6d" shared => "energy of writes relative to DRAM";
    "7" jobs::sizes => "larger values with a fast memory of unchanged size";
    "8" shared => "share of lines read and written in the fast memory";
    "9" shared => "larger shares of SETs";
    "memories" shared => "the paper's HBM and HBM2 as sold, with two address maps each";
    "moved" shared => "migrated bytes relative to the bytes that requests read and write";
    "moving" jobs::moving => "a hot set that moves every minute";
    "capacity" varied::capacities => "memory latency relative to DRAM, by the size of HBM";
    "thresholds" varied::thresholds => "ADM's thresholds";
    "sets" varied::sets => "energy of writes relative to DRAM, if a set writes the whole value";
    "server" served::jobs => "the benches on the real server, and models that replay its trace";
};
