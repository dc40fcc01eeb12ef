//! Claims of the paper and our results. The paper's text lost its numbers; those here are from its
//! tables, from a summary of it and from its artifact.

use super::cxl::FOUR;
use super::systems::{CACHE_BASED, applications};
use crate::figures::claim::{ClaimTemplate, of, stated};
use crate::figures::row::{PaperClaim, Row};
use crate::report::NumberOrigin;
use PulseClaimSource::*;

/// The source of our number.
#[derive(Clone, Copy)]
enum PulseClaimSource {
    /// The least or the greatest ratio of a quantity of the cache-based system and pulse, or its
    /// inverse, over applications on one node.
    CacheBased(&'static str, PulseExtreme),
    /// The least or the greatest ratio of the energies of RPC and pulse.
    Energy(PulseExtreme),
    /// The throughput of one logic with four memory pipelines relative to that of four coupled
    /// cores.
    Matches,
    /// The latency of pulse-acc relative to pulse's on two nodes, for an application.
    Distributed(&'static str),
    /// The factor by which pulse reduces the slowdown by CXL on four nodes.
    Cxl(&'static str),
    /// Crossings of an application in slabs of this many KiB.
    Crossings(&'static str, f64),
    /// Requests that cross, likewise.
    Crossing(&'static str, f64),
}

#[derive(Clone, Copy)]
enum PulseExtreme {
    Least,
    Most,
}

const STATED: &[ClaimTemplate<PulseClaimSource>] = stated! {
    "pulse.latency.cache-based" (Some(9.0), "x") CacheBased("latency", PulseExtreme::Least) =>
        "9 to 34 times lower latency than the cache-based system: the least";
    "pulse.latency.cache-based.most" (Some(34.0), "x") CacheBased("latency", PulseExtreme::Most) =>
        "the same: the most";
    "pulse.throughput.cache-based" (Some(28.0), "x")
        CacheBased("throughput", PulseExtreme::Least) =>
        "28 to 171 times the throughput of the cache-based system: the least";
    "pulse.throughput.cache-based.most" (Some(171.0), "x")
        CacheBased("throughput", PulseExtreme::Most) =>
        "the same: the most";
    "pulse.energy.rpc" (Some(4.5), "x") Energy(PulseExtreme::Least) =>
        "energy of a request with RPC over that with pulse, 4.5 to 5: the least";
    "pulse.energy.rpc.most" (Some(5.0), "x") Energy(PulseExtreme::Most) =>
        "the same: the most";
    "pulse.table4.matches" (Some(1.24 / 1.20), "x") Matches =>
        "1 logic and 4 memory pipelines have the throughput of 4 coupled cores";
    "pulse.distributed.latency" (None, "x") Distributed("WiredTiger") =>
        "returning to the caller costs latency on two nodes: pulse-acc relative to pulse";
    "pulse.cxl.webservice" (Some(4.7), "x") Cxl("WebService") =>
        "with CXL on four nodes, the factor by which pulse reduces the slowdown";
    "pulse.cxl.wiredtiger" (Some(3.0), "x") Cxl("WiredTiger") =>
        "the same for the ordered table";
    "pulse.crossings.wiredtiger" (Some(13.3), "a request") Crossings("WiredTiger", 1048576.0) =>
        "crossings between four memory nodes in slabs of 1 GiB";
    "pulse.crossings.btrdb" (Some(1.15), "a request") Crossings("BTrDB 1 s", 1048576.0) =>
        "the same for the time series";
    "pulse.crossings.btrdb.2m" (Some(3.71), "a request") Crossings("BTrDB 1 s", 2048.0) =>
        "the same in slabs of 2 MiB";
    "pulse.crossings.btrdb.4k" (Some(9.5), "a request") Crossings("BTrDB 1 s", 4.0) =>
        "the same in slabs of 4 KiB";
    "pulse.crossing.wiredtiger" (Some(97.0), "%") Crossing("WiredTiger", 1048576.0) =>
        "more than 97 % of the requests cross nodes, in slabs of 1 GiB";
    "pulse.crossing.btrdb" (Some(75.0), "%") Crossing("BTrDB 1 s", 1048576.0) =>
        "more than 75 % for the time series";
};

pub(super) fn claims(rows: &[Row]) -> Vec<PaperClaim> {
    let claim = |stated: &ClaimTemplate<PulseClaimSource>| {
        stated.claim(ours(rows, stated.source), NumberOrigin::Modelled)
    };
    STATED.iter().map(claim).collect()
}

fn ours(rows: &[Row], source: PulseClaimSource) -> Option<f64> {
    match source {
        CacheBased(quantity, pick) => {
            let ratio = |panel: &str| {
                let number = |peer| value(rows, ("7", panel, peer), 1.0, quantity);
                let (pulse, cached) = (number("pulse")?, number(CACHE_BASED)?);
                // Of latencies the lower one is better, so pulse divides.
                Some(match quantity {
                    "latency" => cached / pulse,
                    _ => pulse / cached,
                })
            };
            pick.of(applications()
                .iter()
                .map(|application| ratio(&application.name())))
        }
        Energy(pick) => {
            let ratio = |row: &Row| {
                let (panel, x) = (&*row.detail.panel, row.detail.x.value);
                let number = |peer| value(rows, ("8", panel, peer), x, "energy of a request");
                Some(number("RPC")? / number("pulse")?)
            };
            pick.of(of(rows, "8", "pulse").map(ratio))
        }
        Matches => {
            let rate = |peer| value(rows, ("table4", "", peer), 4.0, "throughput");
            Some(rate("1 logic")? / rate("coupled")?)
        }
        Distributed(panel) => {
            let latency = |peer| value(rows, ("9", panel, peer), 2.0, "latency");
            Some(latency("pulse-acc")? / latency("pulse")?)
        }
        Cxl(name) => {
            let slowdown = |suffix: &str| {
                let peer = format!("{name}, {suffix}");
                let mut rows = of(rows, "12", &peer);
                rows.find(|row| row.detail.panel == FOUR)
                    .map(|row| row.detail.y.value)
            };
            Some(slowdown("CXL")? / slowdown("CXL and pulse")?)
        }
        Crossings(name, slab) => value(rows, ("2b", "", name), slab, "crossings"),
        Crossing(name, slab) => value(rows, ("2b", "", name), slab, "requests that cross"),
    }
}

/// Returns the height of a point, by its figure, panel and peer.
fn value(rows: &[Row], place: (&str, &str, &str), x: f64, quantity: &str) -> Option<f64> {
    let (figure, panel, peer) = place;
    let mut rows = of(rows, figure, peer);
    let row = rows.find(|row| {
        let detail = &row.detail;
        detail.panel == panel && detail.x.value == x && detail.y.name == quantity
    });
    row.map(|row| row.detail.y.value)
}

impl PulseExtreme {
    /// Picks from all numbers; returns `None` if one is missing.
    fn of(self, numbers: impl Iterator<Item = Option<f64>>) -> Option<f64> {
        let numbers: Vec<f64> = numbers.collect::<Option<_>>()?;
        let numbers = numbers.into_iter();
        match self {
            PulseExtreme::Least => numbers.min_by(f64::total_cmp),
            PulseExtreme::Most => numbers.max_by(f64::total_cmp),
        }
    }
}
