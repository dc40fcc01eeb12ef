//! Claims of the paper and goals of our variant, compared with the results.

use super::contender::{
    CHIME, CHIME_BACK_OFF, CHIME_INDIRECT, CHIME_TUNED, MARLIN, NEARFIELD, NEARFIELD_TUNED, ROLEX,
    ROLEX_TUNED, SHERMAN, SHERMAN_TUNED, SMART, SMART_OPT, SMART_RCU,
};
use super::tuning::{LEARNED, NEARFIELD_PACKED};
use crate::figures::claim::ClaimQuery::{self, Computed, Greatest, Least};
use crate::figures::claim::{ClaimTemplate, PanelFilter, PointQuery, claims, least, of, rates};
use crate::figures::row::Row;
use crate::workload::Mix;
use std::collections::BTreeMap;

/// Contenders that are ours.
const OURS: &[&str] = &[NEARFIELD, NEARFIELD_TUNED];
/// The workloads that mostly read.
const READING: &[&str] = &[
    Mix::YcsbB.name(),
    Mix::YcsbC.name(),
    Mix::YcsbD.name(),
    Mix::YcsbE.name(),
];

/// The figures of six workloads, of values of any length, of sizes of leaves, of memory that is
/// attached by CXL, and of the constants of the network's model.
const WORKLOADS: &str = "12";
const VARIABLE_LENGTH: &str = "13";
const TUNING: &str = "tuning";
const CXL: &str = "cxl";
const CONSTANTS: &str = "sensitivity";

/// Returns the ratios of the best rates for each workload of a figure.
const fn best(
    figure: &'static str,
    ours: &'static str,
    peers: &'static [&'static str],
) -> PointQuery {
    let mut ratios = rates(figure, ours, peers);
    ratios.rank = Some(|point| point.number);
    ratios
}

const fn workloads(ours: &'static str, peers: &'static [&'static str]) -> PointQuery {
    best(WORKLOADS, ours, peers)
}

/// The least ratio of our variant to CHIME over the workloads that mostly read.
const WORST: ClaimQuery = {
    let mut ratios = workloads(NEARFIELD, &[CHIME]);
    ratios.panels = PanelFilter::Each(READING);
    Least(ratios)
};

/// Returns the least ratio of our variant to CHIME for a workload, over all constants.
const fn lowest_of(mix: Mix) -> ClaimQuery {
    let mut ratios = rates(CONSTANTS, NEARFIELD, &[CHIME]);
    ratios.panels = PanelFilter::Beginning(mix.name());
    Least(ratios)
}

pub(super) const CLAIMS: &[ClaimTemplate] = claims! {
    "chime.throughput.sherman" (Some(4.3), "x") Greatest(workloads(CHIME, &[SHERMAN])) =>
        "CHIME has up to 4.3 times the throughput of Sherman, with the same cache";
    "chime.throughput.rolex" (Some(4.3), "x") Greatest(workloads(CHIME, &[ROLEX])) =>
        "CHIME has up to 4.3 times the throughput of ROLEX, with the same cache";
    "chime.throughput.smart" (Some(5.1), "x") Greatest(workloads(CHIME, &[SMART])) =>
        "CHIME has up to 5.1 times the throughput of SMART, with the same cache";
    "chime.cache.smart-opt" (Some(8.7), "x")
        Computed(|rows| Some(cache(rows, SMART_OPT)? / cache(rows, CHIME)?)) =>
        "CHIME caches up to 8.7 times less than SMART with an unlimited cache";
    "chime.cache.chime" (Some(57.6), "MB") Computed(|rows| cache(rows, CHIME)) =>
        "CHIME caches 57.6 MB for 60 million keys, its hotspot buffer included";
    "chime.cache.smart" (Some(503.6), "MB") Computed(|rows| cache(rows, SMART_OPT)) =>
        "SMART caches 503.6 MB for 60 million keys without a limit";
    "chime.near-optimal" (None, "x")
        Least(workloads(CHIME, &[SMART_OPT]).in_panel(Mix::YcsbC.name())) =>
        "CHIME reads nearly as fast as SMART with an unlimited cache (the paper says close, and \
         gives no number)";
    "chime.variable.smart-rcu" (None, "x")
        Greatest(rates(VARIABLE_LENGTH, CHIME_INDIRECT, &[SMART_RCU])) =>
        "CHIME with values outside its leaves relative to SMART-RCU (the paper's figure has no \
         number in its text)";
    "chime.variable.marlin" (None, "x")
        Greatest(rates(VARIABLE_LENGTH, CHIME_INDIRECT, &[MARLIN])) =>
        "CHIME with values outside its leaves relative to Marlin (likewise)";
    "ours.ycsb-e.packed" (None, "x")
        Least(best(TUNING, NEARFIELD_PACKED, LEARNED).in_panel(Mix::YcsbE.name())) =>
        "our variant, loaded in order to 80 %, relative to the best sizes of ROLEX, which is \
         loaded in order to 100 %: scans";
    "ours.ycsb-a" (None, "x") Least(workloads(NEARFIELD, &[CHIME]).in_panel(Mix::YcsbA.name())) =>
        "our variant relative to CHIME, half updates";
    "ours.load" (None, "x") Least(workloads(NEARFIELD, &[CHIME]).in_panel(Mix::Load.name())) =>
        "our variant relative to CHIME, inserts only";
    "chime.throughput.sherman-tuned" (None, "x") Greatest(workloads(CHIME, &[SHERMAN_TUNED])) =>
        "CHIME relative to Sherman with leaf sizes tuned to the cache";
    "chime.throughput.rolex-tuned" (None, "x") Greatest(workloads(CHIME, &[ROLEX_TUNED])) =>
        "CHIME relative to ROLEX with leaf sizes and predictions tuned to the cache";
    "ours.ycsb-a.back-off" (None, "x")
        Least(workloads(NEARFIELD, &[CHIME_BACK_OFF]).in_panel(Mix::YcsbA.name())) =>
        "our variant relative to CHIME with the same back-off, half updates";
    "ours.ycsb-a.tuned" (None, "x")
        Least(workloads(NEARFIELD_TUNED, &[CHIME_TUNED]).in_panel(Mix::YcsbA.name())) =>
        "our variant relative to CHIME, both with leaf sizes tuned to the cache, half updates";
    "ours.beside-best" (None, "x") Computed(|rows| over_best(rows, WORKLOADS)) =>
        "our variant relative to the best of all others, workloads B to E: the least";
    "ours.cxl.beside-best" (None, "x") Computed(|rows| over_best(rows, CXL)) =>
        "our variant relative to the best of all others, workloads B to E, memory attached by \
         CXL: the least";
    "lowest.chime.throughput.sherman" (None, "x") Computed(|rows| lowest(rows, &[SHERMAN])) =>
        "CHIME's greatest ratio to Sherman, with the least favourable constants of the network";
    "highest.chime.throughput.sherman" (None, "x") Greatest(rates(CONSTANTS, CHIME, &[SHERMAN])) =>
        "the same, with the most favourable constants";
    "lowest.chime.throughput.sherman-tuned" (None, "x")
        Computed(|rows| lowest(rows, &[SHERMAN_TUNED])) =>
        "CHIME's greatest ratio to tuned Sherman, with the least favourable constants";
    "highest.chime.throughput.sherman-tuned" (None, "x")
        Greatest(rates(CONSTANTS, CHIME, &[SHERMAN_TUNED])) =>
        "the same, with the most favourable constants";
    "lowest.chime.throughput.rolex-tuned" (None, "x")
        Computed(|rows| lowest(rows, &[ROLEX_TUNED])) =>
        "CHIME's greatest ratio to tuned ROLEX, with the least favourable constants";
    "highest.chime.throughput.rolex-tuned" (None, "x")
        Greatest(rates(CONSTANTS, CHIME, &[ROLEX_TUNED])) =>
        "the same, with the most favourable constants";
    "lowest.chime.throughput.smart" (None, "x") Computed(|rows| lowest(rows, &[SMART])) =>
        "CHIME's greatest ratio to SMART, with the least favourable constants";
    "highest.chime.throughput.smart" (None, "x") Greatest(rates(CONSTANTS, CHIME, &[SMART])) =>
        "the same, with the most favourable constants";
    "lowest.ours.ycsb-a" (None, "x") lowest_of(Mix::YcsbA) =>
        "our variant relative to CHIME, half updates, with the least favourable constants";
    "lowest.ours.ycsb-c" (None, "x") lowest_of(Mix::YcsbC) =>
        "our variant relative to CHIME, reads, with the least favourable constants";
    "lowest.ours.load" (None, "x") lowest_of(Mix::Load) =>
        "our variant relative to CHIME, inserts only, with the least favourable constants";
    "ours.worst" (None, "x") WORST =>
        "our variant relative to CHIME, workloads B to E: the least";
    "ours.cxl-c" (None, "x") Least(best(CXL, NEARFIELD, &[SHERMAN]).in_panel(Mix::YcsbC.name())) =>
        "our variant relative to Sherman, reads, memory attached by CXL";
    "ours.cxl-e" (None, "x") Least(best(CXL, NEARFIELD, &[SHERMAN]).in_panel(Mix::YcsbE.name())) =>
        "our variant relative to Sherman, scans, memory attached by CXL";
};

/// Returns the best throughput of our variants divided by that of all others with a limited cache:
/// the least of these ratios over the panels of workloads that mostly read, each of which must have
/// one.
fn over_best(rows: &[Row], figure: &str) -> Option<f64> {
    let mut panels: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
    let of_figure = rows.iter().filter(|row| row.detail.figure == figure);
    // A peer without a limit is an upper bound, and no rival.
    for row in of_figure.filter(|row| row.detail.cache_bytes_max.is_some()) {
        let panel = &*row.detail.panel;
        if let Some(rate) = row
            .rate_mops
            .filter(|_| READING.contains(&workload_of(panel)))
        {
            let best = panels.entry(panel).or_default();
            let side = &mut best[usize::from(!OURS.contains(&&*row.peer))];
            *side = side.max(rate);
        }
    }
    let has_points = |mix: &&str| panels.keys().any(|panel| workload_of(panel) == *mix);
    let ratios = panels.values().map(|[ours, others]| ours / others);
    least(ratios).filter(|_| READING.iter().all(has_points))
}

/// Returns the workload of a panel: its name up to a comma.
fn workload_of(panel: &str) -> &str {
    panel
        .split_once(',')
        .map_or(panel, |(workload, _)| workload)
}

/// Returns the greatest ratio of CHIME to peers over workloads, with the value of a constant that
/// is worst for it.
fn lowest(rows: &[Row], peers: &'static [&'static str]) -> Option<f64> {
    let mut greatest: BTreeMap<(&str, u64), f64> = BTreeMap::new();
    for point in rates(CONSTANTS, CHIME, peers).points(rows) {
        let (_, constant) = point.panel.split_once(", ")?;
        let ratio = greatest.entry((constant, point.x.value.to_bits()));
        let ratio = ratio.or_default();
        *ratio = ratio.max(point.number);
    }
    least(greatest.into_values())
}

/// Returns a peer's cache for 60 million keys: figure 14's point, or the one nearest to it.
fn cache(rows: &[Row], peer: &str) -> Option<f64> {
    let rows = of(rows, "14", peer);
    let nearest = rows.min_by_key(|row| (row.detail.x.value - 60.0).abs() as u64)?;
    Some(nearest.detail.y.value * 60.0 / nearest.detail.x.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::row::Quantity;
    use crate::report::NumberOrigin;

    fn rate(figure: &str, panel: &str, peer: &str, mops: f64) -> Row {
        let number = || Quantity::new("", "", mops);
        Row::rated(figure, peer, number(), mops, NumberOrigin::Modelled).in_panel(panel)
    }

    fn of(rows: &[Row], id: &str) -> Option<f64> {
        let claim = CLAIMS.iter().find(|claim| claim.id == id);
        claim.unwrap().query.value(rows)
    }

    #[test]
    fn the_best_of_all_others_is_looked_for_in_each_panel() {
        let limited = |panel: &str, peer: &str, mops: f64| {
            let mut row = rate("cxl", panel, peer, mops);
            row.detail.cache_bytes_max = Some(1);
            row
        };
        let mut rows = Vec::new();
        for mix in ["B", "C", "D", "E"] {
            rows.push(limited(mix, "nearfield", 50.0));
            rows.push(limited(mix, "chime", 40.0));
            // A peer without a limit does not count.
            rows.push(rate("cxl", mix, "smart-opt", 90.0));
        }
        assert_eq!(of(&rows, "ours.cxl.beside-best"), Some(1.25));
        rows.push(limited("D, one compute node", "nearfield", 9.0));
        rows.push(limited("D, one compute node", "sherman", 10.0));
        rows.push(limited("D, one compute node", "chime", 8.0));
        assert_eq!(of(&rows, "ours.cxl.beside-best"), Some(0.9));
    }

    #[test]
    fn constants_are_looked_at_one_by_one() {
        let at = |panel: &str, peer: &str, value: f64, mops: f64| {
            let mut row = rate("sensitivity", panel, peer, mops);
            row.detail.x.value = value;
            row
        };
        let rows = [
            at("C, header", "chime", 30.0, 8.0),
            at("C, header", "sherman", 30.0, 2.0),
            at("A, header", "chime", 30.0, 5.0),
            at("A, header", "sherman", 30.0, 1.0),
            at("C, header", "chime", 60.0, 6.0),
            at("C, header", "sherman", 60.0, 2.0),
        ];
        let id = "lowest.chime.throughput.sherman";
        assert_eq!(of(&rows, id), Some(3.0));
        assert_eq!(of(&rows, "highest.chime.throughput.sherman"), Some(5.0));
    }

    #[test]
    fn ratios_are_of_the_best_points() {
        let mut rows = vec![
            rate("12", "C", "chime", 30.0),
            rate("12", "C", "chime", 40.0),
            rate("12", "C", "sherman", 10.0),
            rate("12", "A", "chime", 9.0),
            rate("12", "A", "sherman", 6.0),
            rate("12", "A", "nearfield", 12.0),
            rate("cxl", "C", "sherman", 1.0),
        ];
        assert_eq!(of(&rows, "chime.throughput.sherman"), Some(4.0));
        assert_eq!(of(&rows, "ours.ycsb-a"), Some(12.0 / 9.0));
        assert_eq!(of(&rows, "ours.worst"), None);
        for mix in ["B", "C", "D", "E"] {
            rows.push(rate("12", mix, "nearfield", 39.0));
            rows.push(rate("12", mix, "chime", 40.0));
        }
        assert_eq!(of(&rows, "ours.worst"), Some(39.0 / 40.0));
    }
}
