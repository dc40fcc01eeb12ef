//! Claims of the paper and our results. The paper's text lost its numbers; those here are from its
//! tables, from a summary of it and from its artifact.

use super::cxl::FOUR;
use super::systems::CACHE_BASED;
use crate::figures::claim::ClaimQuery::{Greatest, Least};
use crate::figures::claim::{ClaimTemplate, PanelFilter, PointQuery, claims, heights};

/// The names of applications, which are panels and contenders of figures.
const WIRED_TIGER: &str = "WiredTiger";
const BTRDB: &str = "BTrDB 1 s";
const APPLICATIONS: &[&str] = &[
    "WebService",
    WIRED_TIGER,
    BTRDB,
    "BTrDB 2 s",
    "BTrDB 4 s",
    "BTrDB 8 s",
];

/// Returns the ratio of a quantity of one system to another's for each application on one node.
const fn on_one_node(
    quantity: &'static str,
    one: &'static str,
    others: &'static [&'static str],
) -> PointQuery {
    let mut ratios = heights("7", one, others).quantity(quantity).at(1.0);
    ratios.panels = PanelFilter::Each(APPLICATIONS);
    ratios
}

// Of latencies the lower one is better, so pulse divides.
const LATENCY: PointQuery = on_one_node("latency", CACHE_BASED, &["pulse"]);
const THROUGHPUT: PointQuery = on_one_node("throughput", "pulse", &[CACHE_BASED]);
const ENERGY: PointQuery = heights("8", "RPC", &["pulse"]).quantity("energy of a request");

/// The latency of pulse that returns to its caller, relative to pulse's on two nodes.
const RETURNING: PointQuery = heights("9", "pulse-acc", &["pulse"])
    .quantity("latency")
    .in_panel(WIRED_TIGER)
    .at(2.0);

/// Returns the factor by which pulse reduces the slowdown by CXL on four nodes.
const fn cxl(alone: &'static str, with_pulse: &'static [&'static str]) -> PointQuery {
    heights("12", alone, with_pulse).in_panel(FOUR)
}

/// Returns the crossings of an application in slabs of this many KiB.
const fn crossings(application: &'static str, slab: f64) -> PointQuery {
    let counts = heights("2b", application, &[]);
    counts.quantity("crossings").at(slab)
}

pub(super) const CLAIMS: &[ClaimTemplate] = claims! {
    "pulse.latency.cache-based" (Some(9.0), "x") Least(LATENCY) =>
        "9 to 34 times lower latency than the cache-based system: the least";
    "pulse.latency.cache-based.most" (Some(34.0), "x") Greatest(LATENCY) =>
        "the same: the most";
    "pulse.throughput.cache-based" (Some(28.0), "x") Least(THROUGHPUT) =>
        "28 to 171 times the throughput of the cache-based system: the least";
    "pulse.throughput.cache-based.most" (Some(171.0), "x") Greatest(THROUGHPUT) =>
        "the same: the most";
    "pulse.energy.rpc" (Some(4.5), "x") Least(ENERGY) =>
        "energy of a request with RPC over that with pulse, 4.5 to 5: the least";
    "pulse.energy.rpc.most" (Some(5.0), "x") Greatest(ENERGY) =>
        "the same: the most";
    "pulse.table4.matches" (Some(1.24 / 1.20), "x")
        Least(heights("table4", "1 logic", &["coupled"]).quantity("throughput").at(4.0)) =>
        "1 logic and 4 memory pipelines have the throughput of 4 coupled cores";
    "pulse.distributed.latency" (None, "x") Least(RETURNING) =>
        "returning to the caller costs latency on two nodes: pulse-acc relative to pulse";
    "pulse.cxl.webservice" (Some(4.7), "x")
        Least(cxl("WebService, CXL", &["WebService, CXL and pulse"])) =>
        "with CXL on four nodes, the factor by which pulse reduces the slowdown";
    "pulse.cxl.wiredtiger" (Some(3.0), "x")
        Least(cxl("WiredTiger, CXL", &["WiredTiger, CXL and pulse"])) =>
        "the same for the ordered table";
    "pulse.crossings.wiredtiger" (Some(13.3), "a request")
        Least(crossings(WIRED_TIGER, 1048576.0)) =>
        "crossings between four memory nodes in slabs of 1 GiB";
    "pulse.crossings.btrdb" (Some(1.15), "a request") Least(crossings(BTRDB, 1048576.0)) =>
        "the same for the time series";
    "pulse.crossings.btrdb.2m" (Some(3.71), "a request") Least(crossings(BTRDB, 2048.0)) =>
        "the same in slabs of 2 MiB";
    "pulse.crossings.btrdb.4k" (Some(9.5), "a request") Least(crossings(BTRDB, 4.0)) =>
        "the same in slabs of 4 KiB";
    "pulse.crossing.wiredtiger" (Some(97.0), "%")
        Least(heights("2b", WIRED_TIGER, &[]).quantity("requests that cross").at(1048576.0)) =>
        "more than 97 % of the requests cross nodes, in slabs of 1 GiB";
    "pulse.crossing.btrdb" (Some(75.0), "%")
        Least(heights("2b", BTRDB, &[]).quantity("requests that cross").at(1048576.0)) =>
        "more than 75 % for the time series";
};
