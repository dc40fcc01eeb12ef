//! CHIME (SOSP 2024): its figures, from indexes of the pool over a simulated fabric, in virtual
//! time.
//!
//! A job loads an index once, warms the caches of its compute nodes, and lets clients work on it in
//! *phases*, each of which is a point of a figure or several. Loading and warming take no virtual
//! time.
//!
//! The model covers the route to the memory nodes, and their ports (`nearfield_hardware::network`).
//! The time of a compute node itself is left out for networks and bounded in figure `sensitivity`;
//! for memory that is attached by CXL it is modelled.

mod cache;
mod claims;
mod constants;
mod contender;
mod factors;
mod hashing;
mod head;
mod in_flight;
mod indexes;
mod indirect;
mod keys;
mod leaves;
mod long_keys;
mod metadata;
mod meter;
#[cfg(test)]
mod pinned;
mod point;
mod scale;
mod sensitivity;
mod simulate;
mod system;
mod throughput;
mod tuning;
mod verbs;

#[cfg(test)]
pub(super) use pinned::{pinned, pinned_scale, reads_at};
pub use scale::ChimeScale;

use scale::Figure;

use super::claim::evaluate;
use super::paper::{ScaledFigure, ScaledPaper, at_scale, figures};
use super::row::{NetworkModel, PaperClaim, Row};
use nearfield_hardware::network::NetworkPreset;

impl ScaledPaper for ChimeScale {
    fn name(&self) -> &'static str {
        "CHIME"
    }

    fn figures(&self) -> Vec<ScaledFigure<'_>> {
        at_scale(FIGURES, self)
    }

    fn allowed(&self) -> &'static str {
        "3a to 3d, 4a to 4c, 12, 13, 14, 15a, 15b, 16, 17, 18a to 18f, 19a to 19c, cxl, keys, \
         tuning, sensitivity, in-flight; 3 for 3a to 3d and so on"
    }

    fn networks(&self) -> Vec<NetworkModel> {
        let presets = NetworkPreset::ALL.map(|preset| NetworkModel::of(preset.parameters()));
        presets.to_vec()
    }

    fn claims(&self, rows: &[Row]) -> Vec<PaperClaim> {
        evaluate(claims::CLAIMS, rows)
    }

    fn description(&self) -> String {
        head::description(self)
    }
}

/// All figures, in the order of the paper; the last four are not in it.
const FIGURES: &[Figure] = figures! {
    "3a" cache::amplification => "bytes read for an entry, and size of the cache";
    "3b" throughput::narrow_link => "reads with a narrow link at the memory node";
    "3c" throughput::small_caches => "reads with small caches";
    "3d" hashing::schemes => "load factor of tables of 128 slots, by hashing scheme";
    "4a" verbs::vacancy => "hop ranges with and without reading the vacancy bitmap before";
    "4b" verbs::metadata => "neighborhoods with and without reading the leaf's metadata";
    "4c" verbs::neighborhoods => "neighborhoods of one, four and eight entries";
    "12" throughput::workloads => "throughput and latency of six workloads";
    "13" throughput::variable_length => "keys and values of any length";
    "14" cache::keys => "size of the cache, by number of keys";
    "15a" factors::from_sherman => "techniques added one by one to Sherman";
    "15b" factors::from_rolex => "techniques added one by one to ROLEX";
    "16" metadata::metadata => "metadata of leaves, by length of keys";
    "17" throughput::speculation => "reads with and without speculation";
    "18a" sensitivity::skew => "skew";
    "18b" sensitivity::cache => "size of caches";
    "18c" sensitivity::values => "length of values in leaves";
    "18d" sensitivity::indirect_values => "length of values outside leaves";
    "18e" sensitivity::span => "entries of a leaf";
    "18f" sensitivity::neighborhood => "slots of a neighborhood";
    "19a" cache::span => "entries of a leaf: size of the cache, and load factor";
    "19b" hashing::neighborhoods => "slots of a neighborhood: load factor";
    "19c" sensitivity::hotspots => "size of the hotspot buffer";
    "cxl" throughput::cxl => "memory that is attached by CXL";
    "keys" sensitivity::key_lengths => "length of the longest key";
    "tuning" tuning::jobs => "sizes of leaves within the budget of caches";
    "sensitivity" constants::jobs => "influence of the constants of the network model";
    "in-flight" in_flight::jobs => "reads by the number in flight, with adapters and without";
};
