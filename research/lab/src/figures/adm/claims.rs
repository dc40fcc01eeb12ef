//! Claims of the paper and goals of our policy, compared with the results.

use super::placement::AdmPlacement;
use crate::figures::claim::{ClaimTemplate, of, stated};
use crate::figures::row::{PaperClaim, Row};
use crate::report::NumberOrigin;
use AdmClaimSource::*;

/// The source of our number. `one` and `other` are the two placements of a variant, in this order.
#[derive(Clone, Copy)]
enum AdmClaimSource {
    /// The least difference in points between the shares of requests that the fast memory serves,
    /// over benches and types.
    Points(AdmPlacement, AdmPlacement),
    /// The least ratio of the two shares, over benches and types.
    Share(AdmPlacement, AdmPlacement),
    /// The relative difference by which `one` is below `other`, in panels of a figure: those with
    /// names that begin with the second string. The mean over benches and types.
    Less(&'static str, &'static str, AdmPlacement, AdmPlacement),
    /// The ratio of `other`'s latency to `one`'s in a panel of figure `memories`: the mean over
    /// benches and types.
    Speed(&'static str, AdmPlacement, AdmPlacement),
    /// The ratio of the two shares after the first minute, with a moving hot set.
    Moving(AdmPlacement, AdmPlacement),
    /// The ratio of the bytes that the two policies move: the mean over benches and types.
    Moved(AdmPlacement, AdmPlacement),
    /// The part of a placement's gain over DRAM that is lost from the smallest to the largest
    /// values, in a quantity of figure 7.
    Lost(&'static str, AdmPlacement),
}

const ADM: AdmPlacement = AdmPlacement::Adm;
const OURS: AdmPlacement = AdmPlacement::Ours;
const FIRST: AdmPlacement = AdmPlacement::FirstCome;
const DRAM: AdmPlacement = AdmPlacement::Dram;
const HBM: AdmPlacement = AdmPlacement::Hbm;
const IDEAL: AdmPlacement = AdmPlacement::Ideal;

const STATED: &[ClaimTemplate<AdmClaimSource>] = stated! {
    "adm.served-share" (None, "points") Points(ADM, FIRST) =>
        "in all benches, HBM serves a larger share of requests with migration than with first \
         come, first served: the least difference";
    "adm.served-share.ideal" (None, "x") Share(ADM, IDEAL) =>
        "the share relative to the ideal placement's: the least";
    "adm.latency.first-come" (Some(0.20), "less") Less("6b", "", ADM, FIRST) =>
        "migration improves performance by 20 % over first come; here as latency";
    "adm.latency.dram" (Some(0.48), "less") Less("6b", "", ADM, DRAM) =>
        "migration improves performance by 48 % over DRAM; here as latency";
    "adm.speed.first-come" (Some(1.20), "x") Speed("paper's HBM, lines", ADM, FIRST) =>
        "the same as a ratio of speeds, with each object's lines spread over channels";
    "adm.speed.dram" (Some(1.48), "x") Speed("paper's HBM, lines", ADM, DRAM) =>
        "the same relative to DRAM";
    "adm.latency.hbm" (None, "x") Speed("paper's HBM, rows", HBM, ADM) =>
        "all objects in HBM is fastest, and migration comes closest to it: ADM's latency \
         relative to HBM's";
    "adm.energy.read" (Some(0.26), "less") Less("6c", "", ADM, FIRST) =>
        "migration saves 26 % of the read energy of first come";
    "adm.energy.write" (Some(0.18), "less") Less("6d", "", ADM, FIRST) =>
        "migration saves 18 % of the write energy of first come";
    "adm.energy.write.string" (Some(0.18), "less") Less("6d", "String", ADM, FIRST) =>
        "the same for strings only, where a SET writes the whole value";
    "adm.size.first-come" (Some(0.27), "lost") Lost("latency", FIRST) =>
        "first come loses 27 % of its performance from values of up to 2000 bytes to 4000; here \
         of its gain over DRAM";
    "adm.size.adm" (Some(0.12), "lost") Lost("latency", ADM) =>
        "ADM loses 12 %";
    "ours.ideal-share" (None, "x") Share(OURS, IDEAL) =>
        "our policy reaches at least 0.95 of the ideal placement's share of requests: the least";
    "ours.moving-share" (None, "x") Moving(OURS, IDEAL) =>
        "and at least 0.85 with a hot set that moves every minute";
    "ours.bytes-migrated" (None, "x") Moved(OURS, ADM) =>
        "our policy moves fewer bytes than ADM's";
};

pub(super) fn claims(rows: &[Row]) -> Vec<PaperClaim> {
    let claim = |stated: &ClaimTemplate<AdmClaimSource>| {
        stated.claim(ours(rows, stated.source), NumberOrigin::Modelled)
    };
    STATED.iter().map(claim).collect()
}

fn ours(rows: &[Row], source: AdmClaimSource) -> Option<f64> {
    let least = |numbers: Vec<f64>| numbers.into_iter().min_by(f64::total_cmp);
    match source {
        Points(one, other) => least(pairs(rows, "6a", "", one, other, |one, other| one - other)),
        Share(one, other) => least(pairs(rows, "6a", "", one, other, |one, other| one / other)),
        Less(figure, panel, one, other) => {
            let less = |one, other| 1.0 - one / other;
            mean(&pairs(rows, figure, panel, one, other, less))
        }
        Speed(panel, one, other) => {
            mean(&pairs(rows, "memories", panel, one, other, |one, other| {
                other / one
            }))
        }
        Moving(one, other) => {
            let after = |placement: AdmPlacement| {
                let rows = of(rows, "moving", placement.name());
                // In the first minute policies find the hot objects.
                let shares = rows.filter(|row| row.detail.x.value > 60.0);
                mean(&shares.map(|row| row.detail.y.value).collect::<Vec<_>>())
            };
            Some(after(one)? / after(other)?)
        }
        Moved(one, other) => mean(&pairs(rows, "moved", "", one, other, |one, other| {
            one / other
        })),
        Lost(quantity, placement) => {
            let gain = |bytes: f64| {
                let mut rows = of(rows, "7", placement.name());
                let row =
                    rows.find(|row| row.detail.y.name == quantity && row.detail.x.value == bytes)?;
                Some(1.0 - row.detail.y.value)
            };
            Some(1.0 - gain(4000.0)? / gain(2000.0)?)
        }
    }
}

/// Computes a number for each point that two placements have in panels of a figure: those with
/// names that begin with `panel`. Figure `memories` has energies, too; only its latencies count.
fn pairs(
    rows: &[Row],
    figure: &str,
    panel: &str,
    one: AdmPlacement,
    other: AdmPlacement,
    number: fn(f64, f64) -> f64,
) -> Vec<f64> {
    let mut numbers = Vec::new();
    for row in of(rows, figure, one.name()) {
        let is_latency = figure != "memories" || row.detail.y.name == "latency";
        if !row.detail.panel.starts_with(panel) || !is_latency {
            continue;
        }
        let same = of(rows, figure, other.name()).find(|other| {
            other.detail.panel == row.detail.panel
                && other.detail.x == row.detail.x
                && other.detail.y.name == row.detail.y.name
        });
        if let Some(same) = same {
            numbers.push(number(row.detail.y.value, same.detail.y.value));
        }
    }
    numbers
}

fn mean(numbers: &[f64]) -> Option<f64> {
    match numbers.len() {
        0 => None,
        count => Some(numbers.iter().sum::<f64>() / count as f64),
    }
}
