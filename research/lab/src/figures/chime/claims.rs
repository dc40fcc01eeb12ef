//! Claims of the paper and goals of our variant, compared with the results.

use crate::figures::claim::{ClaimTemplate, of, stated};
use crate::figures::row::{PaperClaim, Row};
use crate::report::NumberOrigin;
use crate::workload::Mix;
use ChimeClaimSource::*;
use ChimeExtreme::*;
use std::collections::BTreeMap;

/// The source of our number.
#[derive(Clone, Copy)]
enum ChimeClaimSource {
    /// The greatest ratio of one peer to another over the workloads of figure 12, each at its best
    /// number of clients.
    Most(&'static str, &'static str),
    /// The least ratio over some workloads.
    Least(&'static str, &'static str, &'static [Mix]),
    /// The ratio for a workload of a figure.
    Ratio(&'static str, Mix, &'static str, &'static str),
    /// The least ratio over some workloads of a figure, to the best of all others with the same
    /// cache.
    BesideBest(&'static str, &'static [&'static str], &'static [Mix]),
    /// The minimum or maximum, over all constants of figure `sensitivity`, of [`Most`] or of the
    /// ratio for one workload.
    Over(ChimeExtreme, Option<Mix>, &'static str, &'static str),
    /// The cache of a peer for the paper's 60 million keys, in megabytes: figure 14.
    Kept(&'static str),
    /// The ratio of one peer's cache to another's.
    KeptRatio(&'static str, &'static str),
}

/// An end of a range.
#[derive(Clone, Copy)]
enum ChimeExtreme {
    Lowest,
    Highest,
}

/// Contenders that are ours.
const OURS: &[&str] = &["nearfield", "nearfield, tuned"];
/// The workloads that mostly read.
const READING: &[Mix] = &[Mix::YcsbB, Mix::YcsbC, Mix::YcsbD, Mix::YcsbE];

/// The workloads of figure 12.
const WORKLOADS: [Mix; 6] = [
    Mix::YcsbA,
    Mix::YcsbB,
    Mix::YcsbC,
    Mix::YcsbD,
    Mix::YcsbE,
    Mix::Load,
];

const STATED: &[ClaimTemplate<ChimeClaimSource>] = stated! {
    "chime.throughput.sherman" (Some(4.3), "x") Most("chime", "sherman") =>
        "CHIME has up to 4.3 times the throughput of Sherman, with the same cache";
    "chime.throughput.rolex" (Some(4.3), "x") Most("chime", "rolex") =>
        "CHIME has up to 4.3 times the throughput of ROLEX, with the same cache";
    "chime.throughput.smart" (Some(5.1), "x") Most("chime", "smart") =>
        "CHIME has up to 5.1 times the throughput of SMART, with the same cache";
    "chime.cache.smart-opt" (Some(8.7), "x") KeptRatio("smart-opt", "chime") =>
        "CHIME caches up to 8.7 times less than SMART with an unlimited cache";
    "chime.cache.chime" (Some(57.6), "MB") Kept("chime") =>
        "CHIME caches 57.6 MB for 60 million keys, its hotspot buffer included";
    "chime.cache.smart" (Some(503.6), "MB") Kept("smart-opt") =>
        "SMART caches 503.6 MB for 60 million keys without a limit";
    "chime.near-optimal" (None, "x") Ratio("12", Mix::YcsbC, "chime", "smart-opt") =>
        "CHIME reads nearly as fast as SMART with an unlimited cache (the paper says close, and \
         gives no number)";
    "ours.ycsb-a" (None, "x") Ratio("12", Mix::YcsbA, "nearfield", "chime") =>
        "our variant relative to CHIME, half updates";
    "ours.load" (None, "x") Ratio("12", Mix::Load, "nearfield", "chime") =>
        "our variant relative to CHIME, inserts only";
    "chime.throughput.sherman-tuned" (None, "x") Most("chime", "sherman, tuned") =>
        "CHIME relative to Sherman with leaf sizes tuned to the cache";
    "chime.throughput.rolex-tuned" (None, "x") Most("chime", "rolex, tuned") =>
        "CHIME relative to ROLEX with leaf sizes and predictions tuned to the cache";
    "ours.ycsb-a.back-off" (None, "x") Ratio("12", Mix::YcsbA, "nearfield", "chime, back-off") =>
        "our variant relative to CHIME with the same back-off, half updates";
    "ours.ycsb-a.tuned" (None, "x")
        Ratio("12", Mix::YcsbA, "nearfield, tuned", "chime, tuned") =>
        "our variant relative to CHIME, both with leaf sizes tuned to the cache, half updates";
    "ours.beside-best" (None, "x") BesideBest("12", OURS, READING) =>
        "our variant relative to the best of all others, workloads B to E: the least";
    "ours.cxl.beside-best" (None, "x") BesideBest("cxl", OURS, READING) =>
        "our variant relative to the best of all others, workloads B to E, memory attached by \
         CXL: the least";
    "lowest.chime.throughput.sherman" (None, "x") Over(Lowest, None, "chime", "sherman") =>
        "CHIME's greatest ratio to Sherman, with the least favourable constants of the network";
    "highest.chime.throughput.sherman" (None, "x") Over(Highest, None, "chime", "sherman") =>
        "the same, with the most favourable constants";
    "lowest.chime.throughput.sherman-tuned" (None, "x")
        Over(Lowest, None, "chime", "sherman, tuned") =>
        "CHIME's greatest ratio to tuned Sherman, with the least favourable constants";
    "highest.chime.throughput.sherman-tuned" (None, "x")
        Over(Highest, None, "chime", "sherman, tuned") =>
        "the same, with the most favourable constants";
    "lowest.chime.throughput.rolex-tuned" (None, "x")
        Over(Lowest, None, "chime", "rolex, tuned") =>
        "CHIME's greatest ratio to tuned ROLEX, with the least favourable constants";
    "highest.chime.throughput.rolex-tuned" (None, "x")
        Over(Highest, None, "chime", "rolex, tuned") =>
        "the same, with the most favourable constants";
    "lowest.chime.throughput.smart" (None, "x") Over(Lowest, None, "chime", "smart") =>
        "CHIME's greatest ratio to SMART, with the least favourable constants";
    "highest.chime.throughput.smart" (None, "x") Over(Highest, None, "chime", "smart") =>
        "the same, with the most favourable constants";
    "lowest.ours.ycsb-a" (None, "x") Over(Lowest, Some(Mix::YcsbA), "nearfield", "chime") =>
        "our variant relative to CHIME, half updates, with the least favourable constants";
    "lowest.ours.ycsb-c" (None, "x") Over(Lowest, Some(Mix::YcsbC), "nearfield", "chime") =>
        "our variant relative to CHIME, reads, with the least favourable constants";
    "lowest.ours.load" (None, "x") Over(Lowest, Some(Mix::Load), "nearfield", "chime") =>
        "our variant relative to CHIME, inserts only, with the least favourable constants";
    "ours.worst" (None, "x") Least("nearfield", "chime", READING) =>
        "our variant relative to CHIME, workloads B to E: the least";
    "ours.cxl-c" (None, "x") Ratio("cxl", Mix::YcsbC, "nearfield", "sherman") =>
        "our variant relative to Sherman, reads, memory attached by CXL";
    "ours.cxl-e" (None, "x") Ratio("cxl", Mix::YcsbE, "nearfield", "sherman") =>
        "our variant relative to Sherman, scans, memory attached by CXL";
};

/// Returns all claims, with our number if it follows from `rows`.
pub(super) fn claims(rows: &[Row]) -> Vec<PaperClaim> {
    let claim = |stated: &ClaimTemplate<ChimeClaimSource>| {
        stated.claim(ours(rows, stated.source), NumberOrigin::Modelled)
    };
    STATED.iter().map(claim).collect()
}

fn ours(rows: &[Row], source: ChimeClaimSource) -> Option<f64> {
    let ratio = |mix: &Mix, one, other| ratio(rows, "12", *mix, one, other);
    match source {
        Most(one, other) => {
            let ratios = WORKLOADS.iter().filter_map(|mix| ratio(mix, one, other));
            ratios.max_by(f64::total_cmp)
        }
        Least(one, other, mixes) => {
            // The least ratio is unknown if one is missing.
            let ratios: Option<Vec<f64>> = mixes.iter().map(|mix| ratio(mix, one, other)).collect();
            ratios?.into_iter().min_by(f64::total_cmp)
        }
        Ratio(figure, mix, one, other) => self::ratio(rows, figure, mix, one, other),
        BesideBest(figure, ours, mixes) => {
            let best = |mix: &Mix| beside_best(rows, figure, mix.name(), ours);
            let ratios: Option<Vec<f64>> = mixes.iter().map(best).collect();
            ratios?.into_iter().min_by(f64::total_cmp)
        }
        Over(end, mix, one, other) => {
            let ratios = over_constants(rows, mix, one, other).into_iter();
            match end {
                Lowest => ratios.min_by(f64::total_cmp),
                Highest => ratios.max_by(f64::total_cmp),
            }
        }
        Kept(peer) => kept(rows, peer),
        KeptRatio(one, other) => Some(kept(rows, one)? / kept(rows, other)?),
    }
}

/// Returns the best throughput of some peers divided by that of all others with a limited cache, in
/// the panels of a workload: the least of these ratios.
fn beside_best(rows: &[Row], figure: &str, mix: &str, ours: &[&str]) -> Option<f64> {
    let mut panels: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
    let of_figure = rows.iter().filter(|row| row.detail.figure == figure);
    // A peer without a limit is an upper bound, and no rival.
    for row in of_figure.filter(|row| row.detail.cache_bytes_max.is_some()) {
        let panel = &*row.detail.panel;
        let is_of_mix = panel.split(',').next() == Some(mix);
        if let Some(rate) = row.rate_mops.filter(|_| is_of_mix) {
            let best = panels.entry(panel).or_default();
            let side = &mut best[usize::from(!ours.contains(&&*row.peer))];
            *side = side.max(rate);
        }
    }
    let ratios = panels.values().map(|[ours, others]| ours / others);
    ratios.min_by(f64::total_cmp)
}

/// Returns the ratio of one peer to another for each value of each constant of figure
/// `sensitivity`: for a workload, or the greatest of all workloads.
fn over_constants(rows: &[Row], mix: Option<Mix>, one: &str, other: &str) -> Vec<f64> {
    let mut rates: BTreeMap<(&str, u64, &str), [Option<f64>; 2]> = BTreeMap::new();
    for (side, peer) in [one, other].into_iter().enumerate() {
        for row in of(rows, "sensitivity", peer) {
            let Some((workload, constant)) = row.detail.panel.split_once(", ") else {
                continue;
            };
            if mix.is_none_or(|mix| mix.name() == workload) {
                let value = row.detail.x.value.to_bits();
                rates.entry((constant, value, workload)).or_default()[side] = row.rate_mops;
            }
        }
    }
    let mut most: BTreeMap<(&str, u64), f64> = BTreeMap::new();
    for ((constant, value, _), rates) in rates {
        if let [Some(one), Some(other)] = rates {
            let most = most.entry((constant, value)).or_default();
            *most = most.max(one / other);
        }
    }
    most.into_values().collect()
}

/// Returns the best throughput of one peer divided by that of another.
fn ratio(rows: &[Row], figure: &str, mix: Mix, one: &str, other: &str) -> Option<f64> {
    let best = |peer: &str| {
        let rates = of(rows, figure, peer).filter(|row| row.detail.panel == mix.name());
        rates.filter_map(|row| row.rate_mops).max_by(f64::total_cmp)
    };
    Some(best(one)? / best(other)?)
}

/// Returns a peer's cache for 60 million keys: figure 14's point, or the one nearest to it.
fn kept(rows: &[Row], peer: &str) -> Option<f64> {
    let rows = of(rows, "14", peer);
    let nearest = rows.min_by_key(|row| (row.detail.x.value - 60.0).abs() as u64)?;
    Some(nearest.detail.y.value * 60.0 / nearest.detail.x.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::row::Quantity;
    use std::collections::BTreeSet;

    fn rate(figure: &str, panel: &str, peer: &str, mops: f64) -> Row {
        let number = || Quantity::new("", "", mops);
        Row::rated(figure, peer, number(), mops, NumberOrigin::Modelled).in_panel(panel)
    }

    fn of(rows: &[Row], id: &str) -> Option<f64> {
        let claims = claims(rows);
        claims.iter().find(|claim| claim.id == id).unwrap().ours
    }

    #[test]
    fn each_claim_is_there_once_whatever_was_run() {
        let claims = claims(&[]);
        let ids: BTreeSet<&str> = claims.iter().map(|claim| &*claim.id).collect();
        assert_eq!(ids.len(), claims.len());
        for id in [
            "chime.throughput.sherman",
            "chime.throughput.rolex",
            "chime.throughput.smart",
            "chime.cache.smart-opt",
            "chime.near-optimal",
            "ours.ycsb-a",
            "ours.load",
            "ours.worst",
            "ours.cxl-c",
            "ours.cxl-e",
        ] {
            assert!(ids.contains(id), "{id}");
        }
        assert!(claims.iter().all(|claim| claim.ours.is_none()));
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
