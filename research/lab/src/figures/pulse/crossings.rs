//! Figures 2b and 2c: the crossings of traversals between four memory nodes.

use super::applications::{PulseApplication, PulseKeyDistribution, PulseRequestGenerator};
use super::data::Allocation;
use super::measure::follow;
use super::rows::row;
use super::scale::{Figure, PulseScale};
use crate::figures::job::{FigureJob, PointError};
use crate::figures::row::Quantity;
use crate::harness::Interrupt;

const MEMORY_NODES: usize = 4;

/// Returns the number of draws of slabs.
const fn draws(slab: u64) -> usize {
    // There are only twenty slabs of 1 GiB, so a single draw would decide much; of smaller ones
    // there are enough.
    if slab == 1 << 30 { 8 } else { 1 }
}

/// The paper's sizes of slabs.
const SLABS: [(&str, u64); 3] = [("1 GiB", 1 << 30), ("2 MiB", 2 << 20), ("4 KiB", 4 << 10)];

fn applications(allocation: Allocation) -> Vec<PulseApplication> {
    let table = PulseApplication::WiredTiger {
        choice: PulseKeyDistribution::Zipf,
        allocation,
    };
    let windows = [1, 2, 4, 8].map(|seconds| PulseApplication::BtrDb {
        seconds,
        choice: PulseKeyDistribution::Uniform,
        allocation,
    });
    std::iter::once(table).chain(windows).collect()
}

/// Counts the crossings of requests with one draw of slabs.
fn of_draw(
    application: PulseApplication,
    scale: &PulseScale,
    interrupt: &Interrupt,
) -> Result<Vec<usize>, PointError> {
    // The keys of one memory node, as in the artifact's study.
    let mut load = PulseRequestGenerator::of_parts(application, 1, MEMORY_NODES, scale)?;
    let mut counts = Vec::new();
    for number in 0..scale.traversals.max(1) {
        if number % 256 == 0 && interrupt.is_raised() {
            return Err(PointError::Interrupted);
        }
        let path = follow(&mut load)?;
        let ranges = load.ranges();
        let node = |address| ranges.iter().position(|range| range.contains(&address));
        let nodes: Vec<_> = path.fetches.iter().map(|span| node(span.address)).collect();
        debug_assert!(nodes.iter().all(Option::is_some));
        let crossings = nodes.windows(2).filter(|pair| pair.first() != pair.last());
        counts.push(crossings.count());
    }
    Ok(counts)
}

pub(super) fn jobs(figure: &Figure, scale: &PulseScale) -> Vec<FigureJob> {
    let figure = figure.name;
    let mut jobs = Vec::new();
    for (slab, bytes) in SLABS {
        for application in applications(Allocation::Slabs(bytes)) {
            let scale = scale.clone();
            let title = format!("{} in slabs of {slab}", application.name());
            let mut job = FigureJob::new(figure, &title, 1, move |run| {
                let mut counts = Vec::new();
                let mut means = Vec::new();
                for draw in 0..draws(bytes) {
                    let scale = PulseScale {
                        traversals: scale.traversals / 4 / draws(bytes),
                        // Far from the seeds that a load derives from its own.
                        seed: scale.seed + 1000 * draw as u64,
                        ..scale.clone()
                    };
                    let some = of_draw(application, &scale, run.interrupt)?;
                    means.push(some.iter().sum::<usize>() as f64 / some.len() as f64);
                    counts.extend(some);
                }
                counts.sort_unstable();
                let count = counts.len() as f64;
                let peer = application.name();
                let x = || Quantity::new("slab", "KiB", bytes as f64 / 1024.0);
                if figure == "2c" {
                    for crossings in 0..=counts.last().copied().unwrap_or(0) {
                        let most = counts.partition_point(|&one| one <= crossings);
                        let x = Quantity::new("crossings up to", "", crossings as f64);
                        let y = Quantity::new("requests", "%", 100.0 * most as f64 / count);
                        run.rows.push(row(figure, slab, &peer, x, y));
                    }
                } else {
                    let mean = counts.iter().sum::<usize>() as f64 / count;
                    let none = counts.partition_point(|&one| one == 0) as f64;
                    let least = means.iter().copied().fold(f64::INFINITY, f64::min);
                    let most = means.iter().copied().fold(0.0, f64::max);
                    let p99 = counts.get(counts.len() * 99 / 100).copied().unwrap_or(0);
                    for y in [
                        Quantity::new("crossings", "a request", mean),
                        Quantity::new("crossings, one in a hundred", "a request", p99 as f64),
                        Quantity::new("requests that cross", "%", 100.0 * (1.0 - none / count)),
                        Quantity::new("crossings, least of a draw", "a request", least),
                        Quantity::new("crossings, most of a draw", "a request", most),
                    ] {
                        run.rows.push(row(figure, "", &peer, x(), y));
                    }
                }
                run.end_phase();
                Ok(())
            });
            // Memory for the place of each slab.
            job.bytes = 64 << 20;
            jobs.push(job);
        }
    }
    jobs
}
