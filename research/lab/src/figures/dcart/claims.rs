//! Claims of the paper and our results.

use super::designs::{BLOCKS, DCART, OURS};
use super::measured::DcartContender;
use super::overall::CUART;
use crate::figures::claim::{ClaimTemplate, of, stated};
use crate::figures::row::{PaperClaim, Row};
use crate::report::NumberOrigin;
use DcartClaimSource::*;
use DcartExtreme::*;

/// The source of our number.
#[derive(Clone, Copy)]
enum DcartClaimSource {
    /// A quantity of the first peer relative to that of the second, over workloads, in percent.
    Part(&'static str, Number, [&'static str; 2], DcartExtreme),
    /// The same as a ratio.
    Ratio(&'static str, Number, [&'static str; 2], DcartExtreme),
    /// The share of visits to the most visited 5 % of the nodes.
    Hottest(DcartExtreme),
}

/// The name of a quantity.
type Number = &'static str;

#[derive(Clone, Copy)]
enum DcartExtreme {
    Least,
    Most,
}

const ART: &str = DcartContender::Art.name();
const SMART: &str = DcartContender::Smart.name();
const ENGINE: &str = DcartContender::Engine.name();
const MATCHES: &str = "partial key matches";
const LOCKS: &str = "contended locks";
const RATE: &str = "throughput";
const ENERGY: &str = "energy";

const STATED: &[ClaimTemplate<DcartClaimSource>] = stated! {
    "dcart.matches.art" (Some(3.2), "%") Part("8", MATCHES, [DCART, ART], Least) =>
        "partial key matches relative to ART's: the least";
    "dcart.matches.art.most" (Some(5.7), "%") Part("8", MATCHES, [DCART, ART], Most) =>
        "the same: the most";
    "dcart.matches.smart" (Some(6.5), "%") Part("8", MATCHES, [DCART, SMART], Least) =>
        "partial key matches relative to SMART's: the least";
    "dcart.matches.smart.most" (Some(14.3), "%") Part("8", MATCHES, [DCART, SMART], Most) =>
        "the same: the most";
    "dcart.contentions" (Some(3.2), "%") Part("7", LOCKS, [DCART, ART], Least) =>
        "contended locks, modelled, relative to ART's, measured: the least";
    "dcart.contentions.most" (Some(19.7), "%") Part("7", LOCKS, [DCART, ART], Most) =>
        "the same: the most";
    "dcart.hot-nodes" (Some(96.65), "%") Hottest(Most) =>
        "share of visits to the most visited 5 % of the nodes: the most";
    "dcart.hot-nodes.least" (None, "%") Hottest(Least) =>
        "the same: the least";
    "dcart.speed.art" (Some(123.8), "x") Ratio("9", RATE, [DCART, ART], Least) =>
        "modelled throughput over ART's, measured on this machine: the least";
    "dcart.speed.art.most" (Some(151.7), "x") Ratio("9", RATE, [DCART, ART], Most) =>
        "the same: the most";
    "dcart.speed.smart" (Some(35.9), "x") Ratio("9", RATE, [DCART, SMART], Least) =>
        "modelled throughput over SMART's, measured on this machine: the least";
    "dcart.speed.smart.most" (Some(44.2), "x") Ratio("9", RATE, [DCART, SMART], Most) =>
        "the same: the most";
    "dcart.speed.cuart" (Some(21.1), "x") Ratio("9", RATE, [DCART, CUART], Least) =>
        "modelled throughput over CuART's, modelled: the least";
    "dcart.speed.cuart.most" (Some(31.2), "x") Ratio("9", RATE, [DCART, CUART], Most) =>
        "the same: the most";
    "dcart.energy.art" (Some(315.1), "x") Ratio("11", ENERGY, [ART, DCART], Least) =>
        "energy of ART (measured rate, assumed power) over the modelled card's: the least";
    "dcart.energy.art.most" (Some(493.5), "x") Ratio("11", ENERGY, [ART, DCART], Most) =>
        "the same: the most";
    "dcart.energy.smart" (Some(92.7), "x") Ratio("11", ENERGY, [SMART, DCART], Least) =>
        "energy of SMART (measured rate, assumed power) over the modelled card's: the least";
    "dcart.energy.smart.most" (Some(148.9), "x") Ratio("11", ENERGY, [SMART, DCART], Most) =>
        "the same: the most";
    "dcart.energy.cuart" (Some(71.1), "x") Ratio("11", ENERGY, [CUART, DCART], Least) =>
        "energy of CuART over the card's, both modelled: the least";
    "dcart.energy.cuart.most" (Some(126.2), "x") Ratio("11", ENERGY, [CUART, DCART], Most) =>
        "the same: the most";
    "ours.software-over-smart" (None, "x") Ratio("9", RATE, [ENGINE, SMART], Least) =>
        "Nearfield's engine over SMART, both measured on this machine: the least";
    "ours.software-over-smart.most" (None, "x") Ratio("9", RATE, [ENGINE, SMART], Most) =>
        "the same: the most";
    "ours.accelerator-over-software" (None, "x") Ratio("9", RATE, [OURS, ENGINE], Least) =>
        "our accelerator, modelled, over Nearfield's engine, measured on this machine: the least";
    "ours.design" (None, "x") Ratio("9", RATE, [OURS, DCART], Least) =>
        "our accelerator over the paper's at the same area, both modelled: the least";
    "ours.design.most" (None, "x") Ratio("9", RATE, [OURS, DCART], Most) =>
        "the same: the most";
    "ours.blocks" (None, "x") Ratio("9", RATE, [BLOCKS, DCART], Least) =>
        "our accelerator on Nearfield's blocks over the paper's, both modelled: the least";
    "ours.blocks.most" (None, "x") Ratio("9", RATE, [BLOCKS, DCART], Most) =>
        "the same: the most";
};

pub(super) fn claims(rows: &[Row]) -> Vec<PaperClaim> {
    let claim = |stated: &ClaimTemplate<DcartClaimSource>| {
        let kind = match stated.source {
            Hottest(_) => NumberOrigin::Counted,
            Ratio(_, _, [ENGINE, SMART], _) => NumberOrigin::Measured,
            _ => NumberOrigin::Modelled,
        };
        stated.claim(ours(rows, stated.source), kind)
    };
    STATED.iter().map(claim).collect()
}

fn pick(values: impl Iterator<Item = f64>, pick: DcartExtreme) -> Option<f64> {
    values.reduce(match pick {
        Least => f64::min,
        Most => f64::max,
    })
}

/// Computes the ratios of a quantity of two peers, over the workloads that both have.
fn ratios<'r>(
    rows: &'r [Row],
    figure: &'r str,
    number: &'r str,
    [one, other]: [&'r str; 2],
) -> impl Iterator<Item = f64> + 'r {
    let of_number = move |peer| {
        let all = of(rows, figure, peer);
        all.filter(move |row| row.detail.y.name == number)
    };
    of_number(one).filter_map(move |row| {
        let mut same = of_number(other).filter(|beside| beside.detail.x == row.detail.x);
        let beside = same.next()?.detail.y.value;
        (beside > 0.0).then(|| row.detail.y.value / beside)
    })
}

fn ours(rows: &[Row], source: DcartClaimSource) -> Option<f64> {
    match source {
        Part(figure, number, peers, which) => {
            let parts = ratios(rows, figure, number, peers);
            pick(parts.map(|part| 100.0 * part), which)
        }
        Ratio(figure, number, peers, which) => pick(ratios(rows, figure, number, peers), which),
        Hottest(which) => {
            let all = rows.iter().filter(|row| row.detail.figure == "3b");
            let five = all.filter(|row| (row.detail.x.value - 5.0).abs() < 1e-9);
            pick(five.map(|row| row.detail.y.value), which)
        }
    }
}
