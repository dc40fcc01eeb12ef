//! Figure `in-flight`, which is not in the paper: reads of one compute node and of ten by the
//! number in flight, with the model of their adapters and without.

use super::scale::{ChimeScale, Figure};
use crate::figures::job::FigureJob;
use crate::figures::row::{Quantity, Row};
use crate::report::NumberOrigin;
use nearfield_hardware::VirtualTime;
use nearfield_hardware::network::{NetworkAdapter, NetworkPreset, Port, PortAccess};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Numbers of reads in flight, of all compute nodes together.
const COUNTS: [usize; 10] = [12, 24, 48, 96, 192, 384, 768, 1152, 1536, 3072];
/// Number of reads of each task, which has one in flight. The first ones do not count, because
/// fewer are in flight then.
const EACH: usize = 60;
const UNCOUNTED: usize = 10;
/// Bytes of a read.
const READ_BYTES: u64 = 8;

/// The curves: their names, the number of compute nodes, and whether adapters take time.
const CURVES: [(&str, usize, bool); 4] = [
    ("one compute node", 1, true),
    ("one compute node, port alone", 1, false),
    ("ten compute nodes", 10, true),
    ("ten compute nodes, port alone", 10, false),
];

/// The step of a read that comes next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ReadStep {
    /// The reply to the read before is at the compute node, which posts the next one.
    Reply,
    /// The read leaves the compute node.
    Leave,
}

/// Returns the millions of reads a second of compute nodes with this number in flight together.
fn rate(compute_nodes: usize, in_flight: usize, has_adapters: bool) -> f64 {
    let preset = NetworkPreset::ConnectX6;
    let mut port = Port::new(preset.parameters());
    let adapter = preset
        .adapter()
        .filter(|_| has_adapters)
        .map(NetworkAdapter::new);
    let mut adapters: Vec<Option<NetworkAdapter>> = vec![adapter; compute_nodes];
    let mut steps = BinaryHeap::new();
    for task in 0..in_flight {
        let node = task % compute_nodes;
        let sent = match &mut adapters[node] {
            Some(adapter) => adapter.send(VirtualTime::ZERO),
            None => VirtualTime::ZERO,
        };
        steps.push(Reverse((sent, ReadStep::Leave, node)));
    }
    let (mut left, counted) = (EACH * in_flight, (EACH - UNCOUNTED) * in_flight);
    let (mut began, mut end) = (VirtualTime::ZERO, VirtualTime::ZERO);
    while left > 0
        && let Some(Reverse((now, step, node))) = steps.pop()
    {
        match step {
            ReadStep::Leave => {
                // The port serves requests in the order in which they leave.
                let done = port.serve(now, PortAccess::Read, READ_BYTES);
                steps.push(Reverse((done, ReadStep::Reply, node)));
            }
            ReadStep::Reply => {
                (left, end) = (left - 1, now);
                if left == counted {
                    began = now;
                }
                let sent = match &mut adapters[node] {
                    Some(adapter) => {
                        adapter.receive();
                        adapter.send(now)
                    }
                    None => now,
                };
                steps.push(Reverse((sent, ReadStep::Leave, node)));
            }
        }
    }
    counted as f64 / (end - began).as_seconds() / 1e6
}

/// Creates the jobs of the figure.
pub(super) fn jobs(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    let counts = scale.points(&COUNTS);
    let curve = |(peer, compute_nodes, has_adapters): (&'static str, usize, bool)| {
        let (name, counts) = (figure.name, counts.clone());
        FigureJob::count(name, peer, move || {
            let row = |&count: &usize| {
                let x = Quantity::new("reads in flight", "", count as f64);
                let rate = rate(compute_nodes, count, has_adapters);
                let mut row = Row::rated(name, peer, x, rate, NumberOrigin::Modelled);
                row.detail.network = Some(NetworkPreset::ConnectX6.parameters().name.to_owned());
                row.detail.compute_nodes = Some(compute_nodes);
                row
            };
            counts.iter().map(row).collect()
        })
    };
    CURVES.map(curve).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One compute node slows down with thousands of reads in flight, and ten with as many each as
    /// the figures have do not.
    #[test]
    fn adapters_limit_one_compute_node_and_not_ten() {
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.03;
        // Smart's artifact.
        assert!(near(rate(1, 96, true), 32.969));
        assert!(near(rate(1, 3072, true), 55.161));
        let port = NetworkPreset::ConnectX6.parameters().reads_per_second / 1e6;
        assert!(near(rate(1, 3072, false), port));
        // 640 clients with two reads in flight each.
        assert!(near(rate(10, 1280, true), port));
    }
}
