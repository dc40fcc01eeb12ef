//! How often traversals go from one memory node to another, of four: figures 2b and 2c.

use super::applications::{Application, Choice, Load};
use super::data::Allocation;
use super::measure::follow;
use super::rows::row;
use super::scale::{Figure, Scale};
use crate::figures::job::{Job, PointError};
use crate::figures::row::Quantity;

const MEMORY_NODES: usize = 4;

/// The paper's slabs.
const SLABS: [(&str, u64); 3] = [("1 GiB", 1 << 30), ("2 MiB", 2 << 20), ("4 KiB", 4 << 10)];

fn applications(allocation: Allocation) -> Vec<Application> {
    let table = Application::WiredTiger {
        choice: Choice::Zipf,
        allocation,
    };
    let windows = [1, 2, 4, 8].map(|seconds| Application::BtrDb {
        seconds,
        allocation,
    });
    std::iter::once(table).chain(windows).collect()
}

pub(super) fn jobs(figure: &Figure, scale: &Scale) -> Vec<Job> {
    let figure = figure.name;
    let mut jobs = Vec::new();
    for (slab, bytes) in SLABS {
        for application in applications(Allocation::Slabs(bytes)) {
            let scale = scale.clone();
            let title = format!("{} in slabs of {slab}", application.name());
            jobs.push(Job::new(figure, &title, 1, move |run| {
                // As the artifact's study: the keys of one memory node.
                let mut load = Load::of_parts(application, 1, MEMORY_NODES, &scale)?;
                let mut counts = Vec::new();
                for number in 0..(scale.traversals / 4).max(1) {
                    if number % 256 == 0 && run.interrupt.is_raised() {
                        return Err(PointError::Interrupted);
                    }
                    let path = follow(&mut load)?;
                    let ranges = load.ranges();
                    let node = |address| ranges.iter().position(|range| range.contains(&address));
                    let nodes = path.fetches.iter().map(|span| node(span.address));
                    let nodes: Vec<_> = nodes.collect();
                    let crossings = nodes.windows(2).filter(|pair| pair[0] != pair[1]).count();
                    counts.push(crossings);
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
                    let p99 = counts.get(counts.len() * 99 / 100).copied().unwrap_or(0);
                    for y in [
                        Quantity::new("crossings", "a request", mean),
                        Quantity::new("crossings, one in a hundred", "a request", p99 as f64),
                        Quantity::new("requests that cross", "%", 100.0 * (1.0 - none / count)),
                    ] {
                        run.rows.push(row(figure, "", &peer, x(), y));
                    }
                }
                run.end_phase();
                Ok(())
            }));
        }
    }
    jobs
}
