//! RADAR (TPDS 2024): its figures, from indexes in modelled modules.
//!
//! A job loads an index by batches and runs *phases* on it. In each phase some batches do not
//! count, during which subranges follow the load, and then some do. The increase of the device's
//! counters over those is a point. Every outcome is checked.
//!
//! Time is that of the modelled hardware. If two sets of its parameters are shown, they come from
//! one run: rounds are the same, and are accounted for twice.

mod bench;
mod claims;
mod contender;
mod cpu;
mod data;
mod front;
mod head;
mod heights;
mod micro;
mod overheads;
mod peers;
mod redis;
mod scale;
mod sensitivity;
mod skew;
pub mod skip_list;
mod text;
mod work;
mod workloads;

#[cfg(test)]
pub(super) use micro::{pinned, pinned_scale};
pub use scale::RadarScale;

use scale::Figure;

use super::job::FigureJob;
use super::paper::{ScaledFigure, ScaledPaper, at_scale, figures, shared};
use super::row::{ModuleSystemModel, PaperClaim, Row};
use nearfield_hardware::modules::ModulePreset;

impl ScaledPaper for RadarScale {
    fn name(&self) -> &'static str {
        "RADAR"
    }

    fn figures(&self) -> Vec<ScaledFigure<'_>> {
        at_scale(FIGURES, self)
    }

    fn allowed(&self) -> &'static str {
        "7, 8, 9, 10, 10p, 11, 12, 13, 14, 15, cpu, load, skew, sensitivity"
    }

    fn devices(&self) -> Vec<ModuleSystemModel> {
        let presets = ModulePreset::ALL.map(|preset| ModuleSystemModel::of(&preset.parameters()));
        presets.to_vec()
    }

    fn shared_jobs(&self, figures: &[&'static str]) -> Vec<FigureJob> {
        let mut jobs = micro::jobs(self, figures);
        jobs.extend(heights::jobs(self, figures));
        jobs
    }

    fn finish(&self, figure: &str, rows: Vec<Row>) -> Vec<Row> {
        match figure {
            "9" => heights::normalize(rows),
            "11" => overheads::normalize(&rows),
            "sensitivity" => sensitivity::headlines(&rows),
            _ => rows,
        }
    }

    fn claims(&self, rows: &[Row]) -> Vec<PaperClaim> {
        claims::claims(rows)
    }

    fn description(&self) -> String {
        head::description(self)
    }
}

/// All figures, in the order of the paper; those with words for names are not in it.
const FIGURES: &[Figure] = figures! {
    "7" workloads::timeline => "duration of batches, and steps of a window in time";
    "8" shared => "accuracy of predictions of hotness";
    "9" shared => "gain and cost of predictions of hotness";
    "10" shared => "six operations, modules as measured";
    "10p" shared => "six operations, modules with the paper's parameters";
    "11" shared => "cost of withstanding skew";
    "12" workloads::ycsb => "YCSB's workloads";
    "13" workloads::words => "words of documents";
    "14" redis::jobs =>
        "words of documents behind the Redis protocol: modules modelled, protocol measured";
    "15" shared => "memory after all operations";
    "cpu" cpu::jobs => "six operations on ordered maps of this machine, measured";
    "load" workloads::load => "load of the fullest module";
    "skew" workloads::kinds => "kinds of skew, constant and changing";
    "sensitivity" shared => "influence of the model's parameters";
};
