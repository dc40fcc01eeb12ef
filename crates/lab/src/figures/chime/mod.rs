//! CHIME (SOSP 2024): its figures, from indexes of the pool over a simulated fabric, in virtual
//! time.
//!
//! A job loads an index once, warms the caches of its compute nodes, and lets clients work on it in
//! *phases*, each of which is a point of a figure or several. Loading and warming take no virtual
//! time.
//!
//! What a compute node itself takes is not modelled, nor what its own network interface does: only
//! the way to the memory nodes, and their ports (`nearfield_hardware::network`).

mod cache;
mod claims;
mod contender;
mod factors;
mod hashing;
mod head;
mod indexes;
mod indirect;
mod keys;
mod leaves;
mod metadata;
mod meter;
mod point;
mod scale;
mod sensitivity;
mod simulate;
mod system;
mod throughput;
mod verbs;

pub use scale::Scale;

use scale::Figure;

use super::job::Job;
use super::paper::{Paper, Title};
use super::row::{Claim, Network, Row};
use nearfield_hardware::network::Preset;

impl Paper for Scale {
    fn name(&self) -> &'static str {
        "CHIME"
    }

    fn titles(&self) -> Vec<Title> {
        FIGURES.iter().map(Figure::name_and_title).collect()
    }

    fn allowed(&self) -> &'static str {
        "3a to 3d, 4a to 4c, 12, 13, 14, 15a, 15b, 16, 17, 18a to 18f, 19a to 19c, cxl; 3 for 3a \
         to 3d and so on"
    }

    fn jobs(&self, figures: &[&'static str]) -> Vec<Job> {
        let wanted = FIGURES.iter().filter(|one| figures.contains(&one.name));
        wanted.flat_map(|one| (one.jobs)(one, self)).collect()
    }

    fn networks(&self) -> Vec<Network> {
        let presets = Preset::ALL.map(|preset| Network::of(preset.parameters()));
        presets.to_vec()
    }

    fn claims(&self, rows: &[Row]) -> Vec<Claim> {
        claims::claims(rows)
    }

    fn head(&self, commit: &str) -> String {
        head::head(self, commit)
    }
}

/// All figures, in the order of the paper; the last is not in it.
const FIGURES: &[Figure] = &[
    Figure {
        name: "3a",
        title: "what is read for an entry, and what is kept to find it",
        jobs: cache::amplification,
    },
    Figure {
        name: "3b",
        title: "reads where the link of the memory node is narrow",
        jobs: throughput::narrow_link,
    },
    Figure {
        name: "3c",
        title: "reads where caches are small",
        jobs: throughput::small_caches,
    },
    Figure {
        name: "3d",
        title: "how full tables of 128 slots get, by hashing scheme",
        jobs: hashing::schemes,
    },
    Figure {
        name: "4a",
        title: "hop ranges with and without reading the vacancy bitmap before",
        jobs: verbs::vacancy,
    },
    Figure {
        name: "4b",
        title: "neighborhoods with and without reading the leaf's metadata",
        jobs: verbs::metadata,
    },
    Figure {
        name: "4c",
        title: "neighborhoods of one, four and eight entries",
        jobs: verbs::neighborhoods,
    },
    Figure {
        name: "12",
        title: "throughput and latency of six workloads",
        jobs: throughput::workloads,
    },
    Figure {
        name: "13",
        title: "keys and values of any length",
        jobs: throughput::variable_length,
    },
    Figure {
        name: "14",
        title: "what is kept, by number of keys",
        jobs: cache::keys,
    },
    Figure {
        name: "15a",
        title: "one technique after the other, from Sherman on",
        jobs: factors::from_sherman,
    },
    Figure {
        name: "15b",
        title: "one technique after the other, from ROLEX on",
        jobs: factors::from_rolex,
    },
    Figure {
        name: "16",
        title: "metadata of leaves, by length of keys",
        jobs: metadata::metadata,
    },
    Figure {
        name: "17",
        title: "reads with and without speculation",
        jobs: throughput::speculation,
    },
    Figure {
        name: "18a",
        title: "skew",
        jobs: sensitivity::skew,
    },
    Figure {
        name: "18b",
        title: "size of caches",
        jobs: sensitivity::cache,
    },
    Figure {
        name: "18c",
        title: "length of values in leaves",
        jobs: sensitivity::values,
    },
    Figure {
        name: "18d",
        title: "length of values beside leaves",
        jobs: sensitivity::indirect_values,
    },
    Figure {
        name: "18e",
        title: "entries of a leaf",
        jobs: sensitivity::span,
    },
    Figure {
        name: "18f",
        title: "slots of a neighborhood",
        jobs: sensitivity::neighborhood,
    },
    Figure {
        name: "19a",
        title: "entries of a leaf: what is kept, and how full leaves get",
        jobs: cache::span,
    },
    Figure {
        name: "19b",
        title: "slots of a neighborhood: how full leaves get",
        jobs: hashing::neighborhoods,
    },
    Figure {
        name: "19c",
        title: "size of the hotspot buffer",
        jobs: sensitivity::hotspots,
    },
    Figure {
        name: "cxl",
        title: "memory that is attached by CXL",
        jobs: throughput::cxl,
    },
];
