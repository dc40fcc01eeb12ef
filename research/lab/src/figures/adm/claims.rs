//! Claims of the paper and goals of our policy, compared with the results.

use super::bench::Type;
use super::hybrid::{HybridVariant, VARIANTS};
use super::jobs::{LATENCY, READS, TIME, WRITES};
use super::placement::AdmPlacement;
use super::served::SERVED;
use crate::figures::claim::ClaimQuery::{Computed, Least, Mean};
use crate::figures::claim::{ClaimTemplate, PanelFilter, PointQuery, claims, heights, mean, of};
use crate::figures::row::Row;

const ADM: &str = AdmPlacement::Adm.name();
const OURS: &str = AdmPlacement::Ours.name();
const FIRST: &str = AdmPlacement::FirstCome.name();
const DRAM: &str = AdmPlacement::Dram.name();
const HBM: &str = AdmPlacement::Hbm.name();
const IDEAL: &str = AdmPlacement::Ideal.name();

/// The panels of figure `capacity`, and the size of HBM in percent of bench 1 at which the paper's
/// numbers agree with each other best.
const SHORTEST: &str = "values of up to 2000 bytes";
const LONGEST: &str = "values of up to 4000 bytes";
const LARGE_HBM: f64 = 65.0;

/// The points by which migration serves more requests from the fast memory than first come.
const MORE: PointQuery = {
    let mut more = heights("6a", ADM, &[FIRST]);
    more.compare = |ours, peer| ours - peer;
    more
};

/// Returns the relative differences by which ADM is below its peers, over benches and types.
const fn less(figure: &'static str, peers: &'static [&'static str]) -> PointQuery {
    let mut less = heights(figure, ADM, peers);
    less.compare = |ours, peer| 1.0 - ours / peer;
    less
}

/// Returns the ratios of the peers' latency to ours with a variant of the fast memory.
const fn speed(
    variant: HybridVariant,
    ours: &'static str,
    peers: &'static [&'static str],
) -> PointQuery {
    let mut ratios = heights("memories", ours, peers).quantity("latency");
    ratios.panels = PanelFilter::Beginning(variant.name);
    ratios.compare = |ours, peer| peer / ours;
    ratios
}

/// Returns a quantity of the real server, compared with that of its peers, with the paper's variant
/// of the fast memory.
const fn of_server(
    quantity: &'static str,
    peers: &'static [&'static str],
    compare: fn(f64, f64) -> f64,
) -> PointQuery {
    let mut query = heights("server", ADM, peers).quantity(quantity);
    query.panels = PanelFilter::Beginning(VARIANTS[0].name);
    query.compare = compare;
    query
}

/// Returns the shares of reads that memory serves on the real server, compared with those of peers.
const fn of_server_shares(
    ours: &'static str,
    peers: &'static [&'static str],
    compare: fn(f64, f64) -> f64,
) -> PointQuery {
    let mut query = heights("server", ours, peers).quantity(SERVED);
    query.compare = compare;
    query
}

pub(super) const CLAIMS: &[ClaimTemplate] = claims! {
    "adm.served-share" (None, "points") Least(MORE) =>
        "in all benches, HBM serves a larger share of requests with migration than with first \
         come, first served: the least difference";
    "adm.served-share.ideal" (None, "x") Least(heights("6a", ADM, &[IDEAL])) =>
        "the share relative to the ideal placement's: the least";
    "adm.latency.first-come" (Some(0.20), "less") Mean(less("6b", &[FIRST])) =>
        "migration improves performance by 20 % over first come; here as latency";
    "adm.latency.dram" (Some(0.48), "less") Mean(less("6b", &[DRAM])) =>
        "migration improves performance by 48 % over DRAM; here as latency";
    "adm.speed.first-come" (Some(1.20), "x") Mean(speed(VARIANTS[1], ADM, &[FIRST])) =>
        "the same as a ratio of speeds, with each object's lines spread over channels";
    "adm.speed.dram" (Some(1.48), "x") Mean(speed(VARIANTS[1], ADM, &[DRAM])) =>
        "the same relative to DRAM";
    "adm.latency.hbm" (None, "x") Mean(speed(VARIANTS[0], HBM, &[ADM])) =>
        "all objects in HBM is fastest, and migration comes closest to it: ADM's latency \
         relative to HBM's";
    "adm.energy.read" (Some(0.26), "less") Mean(less("6c", &[FIRST])) =>
        "migration saves 26 % of the read energy of first come";
    "adm.energy.write" (Some(0.18), "less") Mean(less("6d", &[FIRST])) =>
        "migration saves 18 % of the write energy of first come";
    "adm.energy.write.string" (Some(0.18), "less")
        Mean(less("6d", &[FIRST]).in_panel(Type::String.name())) =>
        "the same for strings only, where a SET writes the whole value";
    "adm.size.first-come" (Some(0.27), "lost") Computed(|rows| lost(rows, FIRST)) =>
        "first come loses 27 % of its performance from values of up to 2000 bytes to 4000; here \
         of its gain over DRAM";
    "adm.size.adm" (Some(0.12), "lost") Computed(|rows| lost(rows, ADM)) =>
        "ADM loses 12 %";
    "adm.energy.write.whole" (Some(0.18), "less") Mean(less("sets", &[FIRST])) =>
        "the same for lists, sorted sets and hashes, if a set writes the whole value";
    "adm.large.latency.first-come" (Some(0.20), "less")
        Mean(less("capacity", &[FIRST]).in_panel(SHORTEST).at(LARGE_HBM)) =>
        "migration improves performance by 20 % over first come; here with HBM for 65 % of bench 1";
    "adm.large.latency.dram" (Some(0.48), "less")
        Mean(less("capacity", &[DRAM]).in_panel(SHORTEST).at(LARGE_HBM)) =>
        "migration improves performance by 48 % over DRAM; here with HBM for 65 % of bench 1";
    "adm.large.size.first-come" (Some(0.27), "more") Computed(|rows| grown(rows, FIRST)) =>
        "first come loses 27 % of its performance from values of up to 2000 bytes to 4000; here \
         its latency relative to DRAM's grows, with HBM for 65 % of bench 1";
    "adm.large.size.adm" (Some(0.12), "more") Computed(|rows| grown(rows, ADM)) =>
        "ADM loses 12 %";
    "adm.server.served-share" (None, "points", Measured)
        Least(of_server_shares(ADM, &[FIRST], |ours, peer| ours - peer)) =>
        "on the real server, memory serves a larger share of reads with migration than with first \
         come, first served: the least difference";
    "adm.server.latency.first-come" (Some(0.20), "less")
        Mean(of_server(LATENCY.0, &[FIRST], |ours, peer| 1.0 - ours / peer)) =>
        "migration improves performance by 20 % over first come; here as latency, by the trace of \
         the real server";
    "adm.server.latency.dram" (Some(0.48), "less")
        Mean(of_server(LATENCY.0, &[DRAM], |ours, peer| 1.0 - ours / peer)) =>
        "the same over DRAM, 48 %";
    "adm.server.energy.read" (Some(0.26), "less")
        Mean(of_server(READS.0, &[FIRST], |ours, peer| 1.0 - ours / peer)) =>
        "migration saves 26 % of the read energy of first come, by the trace of the real server";
    "adm.server.energy.write" (Some(0.18), "less")
        Mean(of_server(WRITES.0, &[FIRST], |ours, peer| 1.0 - ours / peer)) =>
        "and 18 % of the write energy";
    "adm.server.time" (None, "x")
        Mean(of_server(TIME.0, &[FIRST], |ours, peer| ours / peer)) =>
        "the time of all requests and copies, relative to first come";
    "adm.server.model" (None, "x")
        Mean(of_server(LATENCY.0, &["adm, model"], |ours, peer| ours / peer)) =>
        "ADM's latency relative to DRAM by the trace of the real server, over that of the model of \
         objects without contents";
    "ours.server.ideal-share" (None, "x", Measured)
        Least(of_server_shares(OURS, &[IDEAL], |ours, peer| ours / peer)) =>
        "our policy's share of reads on the real server, relative to the ideal placement's: the \
         least";
    "ours.ideal-share" (None, "x") Least(heights("6a", OURS, &[IDEAL])) =>
        "our policy reaches at least 0.95 of the ideal placement's share of requests: the least";
    "ours.moving-share" (None, "x")
        Computed(|rows| Some(moving(rows, OURS)? / moving(rows, IDEAL)?)) =>
        "and at least 0.85 with a hot set that moves every minute";
    "ours.bytes-migrated" (None, "x") Mean(heights("moved", OURS, &[ADM])) =>
        "our policy moves fewer bytes than ADM's";
};

/// Returns the mean share of requests after the first minute, with a moving hot set.
fn moving(rows: &[Row], placement: &str) -> Option<f64> {
    // In the first minute policies find the hot objects.
    let shares = of(rows, "moving", placement).filter(|row| row.detail.x.value > 60.0);
    mean(shares.map(|row| row.detail.y.value))
}

/// Returns the part of a placement's gain over DRAM in latency that is lost from the smallest to
/// the largest values.
fn lost(rows: &[Row], placement: &'static str) -> Option<f64> {
    let gain = |bytes: f64| {
        let latency = heights("7", placement, &[]).quantity("latency");
        Some(1.0 - Least(latency.at(bytes)).value(rows)?)
    };
    Some(1.0 - gain(4000.0)? / gain(2000.0)?)
}

/// Returns the part by which a placement's latency relative to DRAM's grows from the shortest to
/// the longest values, in a large HBM.
fn grown(rows: &[Row], placement: &'static str) -> Option<f64> {
    let latency = |panel: &'static str| {
        let latency = heights("capacity", placement, &[]);
        Least(latency.in_panel(panel).at(LARGE_HBM)).value(rows)
    };
    Some(latency(LONGEST)? / latency(SHORTEST)? - 1.0)
}
