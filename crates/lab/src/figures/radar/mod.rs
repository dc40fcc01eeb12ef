//! RADAR (TPDS 2024): its figures, from indexes in modules that are modelled.
//!
//! A job loads an index by batches and runs *phases* on it, each of some batches that do not count,
//! as subranges follow the load in them, and some that do. What these add to the counters of the
//! device is a point. Every answer is checked.
//!
//! Time is that of the modelled hardware, of two makings at once where both are shown: rounds are
//! the same, and are accounted for twice.

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
mod skew;
pub mod skip_list;
mod text;
mod work;
mod workloads;

pub use scale::Scale;

use scale::Figure;

use super::job::Job;
use super::paper::{Paper, Title};
use super::row::{Claim, Device, Row};
use nearfield_hardware::modules::Preset;

impl Paper for Scale {
    fn name(&self) -> &'static str {
        "RADAR"
    }

    fn titles(&self) -> Vec<Title> {
        FIGURES.iter().map(Figure::name_and_title).collect()
    }

    fn allowed(&self) -> &'static str {
        "7, 8, 9, 10, 10p, 11, 12, 13, 14, 15, cpu, load, skew, sensitivity"
    }

    fn devices(&self) -> Vec<Device> {
        let presets = Preset::ALL.map(|preset| Device::of(&preset.parameters()));
        presets.to_vec()
    }

    fn jobs(&self, figures: &[&'static str]) -> Vec<Job> {
        let mut jobs = micro::jobs(self, figures);
        jobs.extend(heights::jobs(self, figures));
        let wanted = FIGURES.iter().filter(|one| figures.contains(&one.name));
        jobs.extend(wanted.flat_map(|one| (one.jobs)(one, self)));
        jobs
    }

    fn finish(&self, figure: &str, rows: Vec<Row>) -> Vec<Row> {
        match figure {
            "9" => heights::normalize(rows),
            "11" => overheads::normalize(&rows),
            _ => rows,
        }
    }

    fn claims(&self, rows: &[Row]) -> Vec<Claim> {
        claims::claims(self, rows)
    }

    fn head(&self, commit: &str) -> String {
        head::head(self, commit)
    }
}

/// What has points from the runs that several figures share.
fn shared(_: &Figure, _: &Scale) -> Vec<Job> {
    Vec::new()
}

/// All figures, in the order of the paper; those with words for names are not in it.
const FIGURES: &[Figure] = &[
    Figure {
        name: "7",
        title: "what batches take, and what is done when in a window",
        jobs: workloads::timeline,
    },
    Figure {
        name: "8",
        title: "how often the hotness of subranges is foreseen",
        jobs: shared,
    },
    Figure {
        name: "9",
        title: "what foreseeing the hotness of subranges is worth, and takes",
        jobs: shared,
    },
    Figure {
        name: "10",
        title: "six operations, modules as measured",
        jobs: shared,
    },
    Figure {
        name: "10p",
        title: "six operations, modules by the paper's figures",
        jobs: shared,
    },
    Figure {
        name: "11",
        title: "what it takes to withstand skew",
        jobs: shared,
    },
    Figure {
        name: "12",
        title: "YCSB's workloads",
        jobs: workloads::ycsb,
    },
    Figure {
        name: "13",
        title: "words of documents",
        jobs: workloads::words,
    },
    Figure {
        name: "14",
        title: "words of documents behind the Redis protocol: modules modelled, the way there measured",
        jobs: redis::jobs,
    },
    Figure {
        name: "15",
        title: "memory after all operations",
        jobs: shared,
    },
    Figure {
        name: "cpu",
        title: "six operations on ordered maps of this machine, measured",
        jobs: cpu::jobs,
    },
    Figure {
        name: "load",
        title: "how full the fullest module is",
        jobs: workloads::load,
    },
    Figure {
        name: "skew",
        title: "what is hot, and for how long",
        jobs: workloads::kinds,
    },
    Figure {
        name: "sensitivity",
        title: "what results depend on in the model",
        jobs: shared,
    },
];
