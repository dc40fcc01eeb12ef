//! Claims of the paper and our results.

use super::designs::{BLOCKS, DCART, OURS};
use super::measured::DcartContender;
use super::overall::{CUART, ENERGY, LOCKS, MATCHES};
use crate::figures::claim::ClaimQuery::{Greatest, Least};
use crate::figures::claim::{ClaimTemplate, PointQuery, claims, heights};

const ART: &str = DcartContender::Art.name();
const SMART: &str = DcartContender::Smart.name();
const ENGINE: &str = DcartContender::Engine.name();

/// The shares of visits to the most visited 5 % of the nodes.
const HOTTEST: PointQuery = heights("3b", "", &[]).at(5.0);

/// Returns a quantity of DCART in percent of its peers'.
const fn part(
    figure: &'static str,
    quantity: &'static str,
    peers: &'static [&'static str],
) -> PointQuery {
    let mut parts = heights(figure, DCART, peers).quantity(quantity);
    parts.convert = |part| 100.0 * part;
    parts
}

/// Returns the energy of a contender relative to DCART's.
const fn energy(contender: &'static str) -> PointQuery {
    heights("11", contender, &[DCART]).quantity(ENERGY)
}

pub(super) const CLAIMS: &[ClaimTemplate] = claims! {
    "dcart.matches.art" (Some(3.2), "%") Least(part("8", MATCHES, &[ART])) =>
        "partial key matches relative to ART's: the least";
    "dcart.matches.art.most" (Some(5.7), "%") Greatest(part("8", MATCHES, &[ART])) =>
        "the same: the most";
    "dcart.matches.smart" (Some(6.5), "%") Least(part("8", MATCHES, &[SMART])) =>
        "partial key matches relative to SMART's: the least";
    "dcart.matches.smart.most" (Some(14.3), "%") Greatest(part("8", MATCHES, &[SMART])) =>
        "the same: the most";
    "dcart.contentions" (Some(3.2), "%") Least(part("7", LOCKS, &[ART])) =>
        "contended locks, modelled, relative to ART's, measured: the least";
    "dcart.contentions.most" (Some(19.7), "%") Greatest(part("7", LOCKS, &[ART])) =>
        "the same: the most";
    "dcart.hot-nodes" (Some(96.65), "%", Counted) Greatest(HOTTEST) =>
        "share of visits to the most visited 5 % of the nodes: the most";
    "dcart.hot-nodes.least" (None, "%", Counted) Least(HOTTEST) =>
        "the same: the least";
    "dcart.speed.art" (Some(123.8), "x") Least(heights("9", DCART, &[ART])) =>
        "modelled throughput over ART's, measured on this machine: the least";
    "dcart.speed.art.most" (Some(151.7), "x") Greatest(heights("9", DCART, &[ART])) =>
        "the same: the most";
    "dcart.speed.smart" (Some(35.9), "x") Least(heights("9", DCART, &[SMART])) =>
        "modelled throughput over SMART's, measured on this machine: the least";
    "dcart.speed.smart.most" (Some(44.2), "x") Greatest(heights("9", DCART, &[SMART])) =>
        "the same: the most";
    "dcart.speed.cuart" (Some(21.1), "x") Least(heights("9", DCART, &[CUART])) =>
        "modelled throughput over CuART's, modelled: the least";
    "dcart.speed.cuart.most" (Some(31.2), "x") Greatest(heights("9", DCART, &[CUART])) =>
        "the same: the most";
    "dcart.energy.art" (Some(315.1), "x") Least(energy(ART)) =>
        "energy of ART (measured rate, assumed power) over the modelled card's: the least";
    "dcart.energy.art.most" (Some(493.5), "x") Greatest(energy(ART)) =>
        "the same: the most";
    "dcart.energy.smart" (Some(92.7), "x") Least(energy(SMART)) =>
        "energy of SMART (measured rate, assumed power) over the modelled card's: the least";
    "dcart.energy.smart.most" (Some(148.9), "x") Greatest(energy(SMART)) =>
        "the same: the most";
    "dcart.energy.cuart" (Some(71.1), "x") Least(energy(CUART)) =>
        "energy of CuART over the card's, both modelled: the least";
    "dcart.energy.cuart.most" (Some(126.2), "x") Greatest(energy(CUART)) =>
        "the same: the most";
    "ours.software-over-smart" (None, "x", Measured) Least(heights("9", ENGINE, &[SMART])) =>
        "Nearfield's engine over SMART, both measured on this machine: the least";
    "ours.software-over-smart.most" (None, "x", Measured)
        Greatest(heights("9", ENGINE, &[SMART])) =>
        "the same: the most";
    "ours.accelerator-over-software" (None, "x") Least(heights("9", OURS, &[ENGINE])) =>
        "our accelerator, modelled, over Nearfield's engine, measured on this machine: the least";
    "ours.design" (None, "x") Least(heights("9", OURS, &[DCART])) =>
        "our accelerator over the paper's at the same area, both modelled: the least";
    "ours.design.most" (None, "x") Greatest(heights("9", OURS, &[DCART])) =>
        "the same: the most";
    "ours.blocks" (None, "x") Least(heights("9", BLOCKS, &[DCART])) =>
        "our accelerator on Nearfield's blocks over the paper's, both modelled: the least";
    "ours.blocks.most" (None, "x") Greatest(heights("9", BLOCKS, &[DCART])) =>
        "the same: the most";
};
