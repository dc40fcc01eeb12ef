//! The paper's claims and the goals of our variant, beside the results.

use crate::figures::claim::{Stated, of, stated};
use crate::figures::row::{Claim, Row};
use crate::report::Kind;
use crate::workload::Mix;
use Source::*;

/// Where a number of ours comes from.
#[derive(Clone, Copy)]
enum Source {
    /// The greatest ratio of one peer to another over the workloads of figure 12, each at its best
    /// number of clients.
    Most(&'static str, &'static str),
    /// The least ratio over some workloads.
    Least(&'static str, &'static str, &'static [Mix]),
    /// The ratio for a workload of a figure.
    Ratio(&'static str, Mix, &'static str, &'static str),
    /// What a peer keeps of the paper's 60 million keys, in megabytes: figure 14.
    Kept(&'static str),
    /// How much more one peer keeps than another.
    KeptRatio(&'static str, &'static str),
}

/// The workloads of figure 12.
const WORKLOADS: [Mix; 6] = [
    Mix::YcsbA,
    Mix::YcsbB,
    Mix::YcsbC,
    Mix::YcsbD,
    Mix::YcsbE,
    Mix::Load,
];

const STATED: &[Stated<Source>] = stated! {
    "chime.throughput.sherman" (Some(4.3), "x") Most("chime", "sherman") =>
        "CHIME has up to 4.3 times the throughput of Sherman, with the same cache";
    "chime.throughput.rolex" (Some(4.3), "x") Most("chime", "rolex") =>
        "CHIME has up to 4.3 times the throughput of ROLEX, with the same cache";
    "chime.throughput.smart" (Some(5.1), "x") Most("chime", "smart") =>
        "CHIME has up to 5.1 times the throughput of SMART, with the same cache";
    "chime.cache.smart-opt" (Some(8.7), "x") KeptRatio("smart-opt", "chime") =>
        "CHIME keeps up to 8.7 times less than SMART with as large a cache as it wants";
    "chime.cache.chime" (Some(57.6), "MB") Kept("chime") =>
        "CHIME keeps 57.6 MB of 60 million keys, its hotspots included";
    "chime.cache.smart" (Some(503.6), "MB") Kept("smart-opt") =>
        "SMART keeps 503.6 MB of 60 million keys if it may";
    "chime.near-optimal" (None, "x") Ratio("12", Mix::YcsbC, "chime", "smart-opt") =>
        "CHIME reads nearly as fast as SMART with as large a cache as it wants (the paper says \
         close, and gives no number)";
    "ours.ycsb-a" (None, "x") Ratio("12", Mix::YcsbA, "nearfield", "chime") =>
        "our variant beside CHIME, half updates";
    "ours.load" (None, "x") Ratio("12", Mix::Load, "nearfield", "chime") =>
        "our variant beside CHIME, inserts only";
    "ours.worst" (None, "x")
        Least("nearfield", "chime", &[Mix::YcsbB, Mix::YcsbC, Mix::YcsbD, Mix::YcsbE]) =>
        "our variant beside CHIME, where it is worst of the other workloads";
    "ours.cxl-c" (None, "x") Ratio("cxl", Mix::YcsbC, "nearfield", "sherman") =>
        "our variant beside Sherman, reads, memory attached by CXL";
    "ours.cxl-e" (None, "x") Ratio("cxl", Mix::YcsbE, "nearfield", "sherman") =>
        "our variant beside Sherman, scans, memory attached by CXL";
};

/// All claims, with ours as far as it follows from `rows`.
pub(super) fn claims(rows: &[Row]) -> Vec<Claim> {
    let claim = |stated: &Stated<Source>| stated.claim(ours(rows, stated.source), Kind::Modelled);
    STATED.iter().map(claim).collect()
}

fn ours(rows: &[Row], source: Source) -> Option<f64> {
    let ratio = |mix: &Mix, one, other| ratio(rows, "12", *mix, one, other);
    match source {
        Most(one, other) => {
            let ratios = WORKLOADS.iter().filter_map(|mix| ratio(mix, one, other));
            ratios.max_by(f64::total_cmp)
        }
        Least(one, other, mixes) => {
            // One that is missing might be the least.
            let ratios: Option<Vec<f64>> = mixes.iter().map(|mix| ratio(mix, one, other)).collect();
            ratios?.into_iter().min_by(f64::total_cmp)
        }
        Ratio(figure, mix, one, other) => self::ratio(rows, figure, mix, one, other),
        Kept(peer) => kept(rows, peer),
        KeptRatio(one, other) => Some(kept(rows, one)? / kept(rows, other)?),
    }
}

/// The best throughput of one peer divided by that of another.
fn ratio(rows: &[Row], figure: &str, mix: Mix, one: &str, other: &str) -> Option<f64> {
    let best = |peer: &str| {
        let rates = of(rows, figure, peer).filter(|row| row.detail.panel == mix.name());
        rates.filter_map(|row| row.rate_mops).max_by(f64::total_cmp)
    };
    Some(best(one)? / best(other)?)
}

/// What a peer keeps of 60 million keys: figure 14's point, or the one nearest to it.
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
        Row::rated(figure, peer, number(), mops, Kind::Modelled).in_panel(panel)
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
