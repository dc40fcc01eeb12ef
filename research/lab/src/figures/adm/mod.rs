//! ADM (Micromachines 2022): its figures, from policies on objects without contents and from
//! modelled memories.
//!
//! A job plays one load on all placements. It finds out which objects are in the fast memory, which
//! requests that memory serves, and which bytes move. In windows over the whole run, the lines of
//! requests and copies also go through the model of DRAM (`nearfield_hardware::dram`), for two sets
//! of timings and two address maps at once. All of it is modelled.

mod addresses;
mod bench;
mod claims;
mod head;
mod hybrid;
mod jobs;
mod load;
mod placement;
mod run;
mod scale;
mod study;

pub use scale::AdmScale;

use super::job::FigureJob;
use super::paper::{ScaledPaper, Title, figures, shared};
use super::row::{PaperClaim, Row};
use scale::Figure;

impl ScaledPaper for AdmScale {
    fn name(&self) -> &'static str {
        "ADM"
    }

    fn titles(&self) -> Vec<Title> {
        FIGURES.iter().map(Figure::name_and_title).collect()
    }

    fn allowed(&self) -> &'static str {
        "1b, 6a, 6b, 6c, 6d, 7, 8, 9, memories, moved, moving"
    }

    fn jobs(&self, figures: &[&'static str]) -> Vec<FigureJob> {
        let mut jobs = jobs::jobs(self, figures);
        let wanted = FIGURES.iter().filter(|one| figures.contains(&one.name));
        jobs.extend(wanted.flat_map(|one| (one.jobs)(one, self)));
        jobs
    }

    fn claims(&self, rows: &[Row]) -> Vec<PaperClaim> {
        claims::claims(rows)
    }

    fn head(&self, commit: &str) -> String {
        head::head(self, commit)
    }
}

/// All figures, in the order of the paper; those with words for names are not in it.
const FIGURES: &[Figure] = figures! {
    "1b" study::jobs => "requests that the hottest objects get";
    "6a" shared => "requests that the fast memory serves, once policies have found the hot objects";
    "6b" shared => "latency of memory, as a part of DRAM's";
    "6c" shared => "energy of reads, as a part of DRAM's";
    "6d" shared => "energy of writes, as a part of DRAM's";
    "7" jobs::sizes => "larger values, and a fast memory that stays as large";
    "8" shared => "lines of memory that the fast memory reads and writes";
    "9" shared => "more sets";
    "memories" shared => "the paper's HBM and HBM2 as sold, lines of rows together and apart";
    "moved" shared => "bytes that move, as a part of those that requests read and write";
    "moving" jobs::moving => "a hot set that moves every minute";
};
