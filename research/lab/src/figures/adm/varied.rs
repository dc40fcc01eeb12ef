//! Figures of what the paper does not give: the size of the fast memory, ADM's thresholds, and what
//! a set writes.

use super::bench::{BENCHES, Type};
use super::jobs::{LATENCY, Outcomes, WRITES, bench_axis, job_of, of_dram, percent, row};
use super::load::AdmWorkload;
use super::placement::AdmPlacement;
use super::scale::{AdmScale, Figure};
use crate::figures::job::FigureJob;
use crate::figures::row::Quantity;

/// The sizes of the fast memory, in percent of the bytes of all strings of bench 1.
const CAPACITIES: [u32; 4] = [30, 50, 65, 80];
/// ADM's thresholds.
const THRESHOLDS_IN: [u8; 3] = [6, 9, 12];
const THRESHOLDS_OUT: [u32; 3] = [7, 13, 26];

/// The placements that the paper compares ADM with.
const COMPARED: [AdmPlacement; 3] = [
    AdmPlacement::Dram,
    AdmPlacement::FirstCome,
    AdmPlacement::Adm,
];

/// Creates the jobs of figure `capacity`: the shortest and the longest values in fast memories of
/// several sizes.
pub(super) fn capacities(figure: &Figure, scale: &AdmScale) -> Vec<FigureJob> {
    let figure = figure.name;
    let mut jobs = Vec::new();
    for capacity_percent in CAPACITIES {
        let mut scale = scale.clone();
        scale.capacity = f64::from(capacity_percent) / 100.0;
        let capacity = AdmWorkload::new(&scale, BENCHES[0], Type::String).capacity;
        for bench in [BENCHES[0], BENCHES[4]] {
            let load = AdmWorkload {
                capacity,
                ..AdmWorkload::new(&scale, bench, Type::String)
            };
            let panel = format!("values of up to {} bytes", bench.bytes_max);
            let title = format!("HBM for {capacity_percent} % of bench 1, {panel}");
            let placements = &AdmPlacement::ALL;
            let of_load = move |_: &AdmWorkload, outcomes: &Outcomes| {
                let mut rows = Vec::new();
                for (placement, y) in of_dram(outcomes, 0, LATENCY) {
                    let percent = f64::from(capacity_percent);
                    let axis = Quantity::new("HBM", "% of bench 1", percent);
                    rows.push(row(figure, placement, axis, y).in_panel(panel.clone()));
                }
                rows
            };
            jobs.push(job_of(placements, vec![figure], title, load, of_load));
        }
    }
    jobs
}

/// Creates the jobs of figure `thresholds`: ADM with several pairs of thresholds.
pub(super) fn thresholds(figure: &Figure, scale: &AdmScale) -> Vec<FigureJob> {
    let figure = figure.name;
    let mut jobs = Vec::new();
    for threshold_out in THRESHOLDS_OUT {
        for threshold_in in THRESHOLDS_IN {
            let scale = AdmScale {
                threshold_in,
                threshold_out,
                ..scale.clone()
            };
            let load = AdmWorkload::new(&scale, BENCHES[0], Type::String);
            let title = format!("thresholds {threshold_in} and {threshold_out}");
            let placements = &COMPARED;
            let of_load = move |_: &AdmWorkload, outcomes: &Outcomes| {
                let panel = format!("threshold out {threshold_out}");
                let axis = || Quantity::new("threshold in", "", f64::from(threshold_in));
                let mut rows = Vec::new();
                for (placement, y) in of_dram(outcomes, 0, LATENCY) {
                    rows.push(row(figure, placement, axis(), y).in_panel(panel.clone()));
                }
                for (placement, outcome) in outcomes {
                    let served = percent("requests served by HBM", outcome.served);
                    rows.push(row(figure, *placement, axis(), served).in_panel(panel.clone()));
                }
                rows
            };
            jobs.push(job_of(placements, vec![figure], title, load, of_load));
        }
    }
    jobs
}

/// Creates the jobs of figure `sets`: lists, sorted sets and hashes of which a set writes the whole
/// value, as a SET of a string does.
pub(super) fn sets(figure: &Figure, scale: &AdmScale) -> Vec<FigureJob> {
    let figure = figure.name;
    let mut jobs = Vec::new();
    for kind in [Type::List, Type::Zset, Type::Hash] {
        for bench in BENCHES {
            let load = AdmWorkload {
                sets_whole: true,
                ..AdmWorkload::new(scale, bench, kind)
            };
            let title = format!(
                "whole values set in bench {} of {}",
                bench.number,
                kind.name()
            );
            let placements = &COMPARED;
            let of_load = move |load: &AdmWorkload, outcomes: &Outcomes| {
                let mut rows = Vec::new();
                for (placement, y) in of_dram(outcomes, 0, WRITES) {
                    let axis = bench_axis(load.bench);
                    rows.push(row(figure, placement, axis, y).in_panel(load.kind.name()));
                }
                rows
            };
            jobs.push(job_of(placements, vec![figure], title, load, of_load));
        }
    }
    jobs
}
