//! Verbs without an index: the costs of longer reads and of a second read.

use super::scale::{ChimeScale, Figure};
use crate::figures::job::FigureJob;
use crate::figures::row::{Quantity, Row};
use crate::report::NumberOrigin;
use nearfield_fabric::transport::sim::{Delivery, FabricSimulation};
use nearfield_fabric::{Endpoint, FabricVerb, GlobalAddress, NodeId};
use nearfield_hardware::network::NetworkPreset;
use nearfield_pool::layout::{Geometry, LeafSlotRange, PoolIndexShape, PoolLeafLayout};
use std::cell::Cell;
use std::rc::Rc;

/// Number of a client's operations in flight, as in the paper's measurements of verbs.
const TASKS: usize = 6;
/// Number of operations of each task.
const EACH: usize = 40;
/// Bytes of the memory node.
const MEMORY: usize = 1 << 24;

/// The reads of an operation: posts one after the other, each with reads of these sizes in bytes.
type Posts = Vec<Vec<usize>>;

/// Measures millions of operations a second of clients that do nothing else.
fn rate(scale: &ChimeScale, posts: &Posts) -> f64 {
    let (mut simulation, _) = FabricSimulation::with_nodes(scale.seed, Delivery::Whole, [MEMORY]);
    let completed = completed(&mut simulation, scale.clients, posts);
    debug_assert_eq!(
        completed,
        scale.clients * TASKS * EACH,
        "without faults no read fails"
    );
    completed as f64 / simulation.now().as_secs_f64() / 1e6
}

/// Executes the operations of all clients, and returns the number of those that complete.
fn completed(simulation: &mut FabricSimulation, clients: usize, posts: &Posts) -> usize {
    let completed = Rc::new(Cell::new(0));
    for client in 0..clients as u32 {
        for task in 0..TASKS {
            let (endpoint, posts) = (simulation.endpoint(client), posts.clone());
            let completed = Rc::clone(&completed);
            simulation.spawn(client, async move {
                for number in 0..EACH {
                    for post in &posts {
                        let mut buffers: Vec<Vec<u8>> =
                            post.iter().map(|&bytes| vec![0; bytes]).collect();
                        // Primes scatter the reads, which begin in the lower half so that the
                        // longest one ends within the memory.
                        debug_assert!(post.iter().all(|&bytes| bytes <= MEMORY / 2));
                        let spot = (client as usize * 7919 + task * 104_729 + number) * 64;
                        let from = GlobalAddress::new(NodeId(0), (spot % (MEMORY / 2)) as u64);
                        let reads = buffers
                            .iter_mut()
                            .map(|into| FabricVerb::Read { from, into });
                        if endpoint.post(&mut reads.collect::<Vec<_>>()).await.is_err() {
                            return;
                        }
                    }
                    completed.set(completed.get() + 1);
                }
            });
        }
    }
    simulation.run();
    completed.get()
}

fn layout(key_bytes: usize, neighborhood: usize) -> PoolLeafLayout {
    let shape = PoolIndexShape {
        key_bytes,
        neighborhood,
        ..PoolIndexShape::default()
    };
    PoolLeafLayout::new(Geometry::new(shape).unwrap_or_default())
}

/// Returns the bytes of this number of entries, from the first slot on.
fn entries(layout: &PoolLeafLayout, count: usize) -> usize {
    let slots = LeafSlotRange::new(0, count, layout.span());
    layout.entries(slots).wire_bytes()
}

fn job(
    figure: &Figure,
    scale: &ChimeScale,
    peer: &'static str,
    axis: (&'static str, &'static str),
    points: Vec<(usize, Posts)>,
) -> FigureJob {
    let (name, scale) = (figure.name, scale.clone());
    FigureJob::count(name, peer, move || {
        let row = |(x, posts): (usize, Posts)| {
            let x = Quantity::new(axis.0, axis.1, x as f64);
            let rate = rate(&scale, &posts);
            let mut row = Row::rated(name, peer, x, rate, NumberOrigin::Modelled);
            row.detail.network = Some(NetworkPreset::ConnectX6.parameters().name.to_owned());
            row
        };
        points.into_iter().map(row).collect()
    })
}

/// Creates the jobs of figure 4a: an insert that reads the vacancy bitmap before it knows which
/// slots to read.
pub(super) fn vacancy(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    let ranges = scale.points(&[8, 16, 24, 32, 40, 48, 56, 64]);
    let layout = layout(8, 8);
    let axis = ("entries of a hop range", "");
    let range = |count: &usize| (*count, vec![vec![entries(&layout, *count)]]);
    let both = |count: &usize| (*count, vec![vec![8], vec![entries(&layout, *count)]]);
    vec![
        job(
            figure,
            scale,
            "hop range",
            axis,
            ranges.iter().map(range).collect(),
        ),
        job(
            figure,
            scale,
            "bitmap, hop range",
            axis,
            ranges.iter().map(both).collect(),
        ),
    ]
}

const KEYS: [usize; 4] = [8, 16, 32, 64];
const KEY: (&str, &str) = ("length of a key", "bytes");

/// Creates the jobs of figure 4b: a read of a neighborhood, with a second read of metadata
/// elsewhere in the leaf.
pub(super) fn metadata(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    let alone = |key_bytes| (key_bytes, vec![vec![entries(&layout(key_bytes, 8), 8)]]);
    let both = |key_bytes| {
        let layout = layout(key_bytes, 8);
        let header = layout.replica_bytes() + 2 * key_bytes;
        (key_bytes, vec![vec![entries(&layout, 8), header]])
    };
    vec![
        job(figure, scale, "neighborhood", KEY, KEYS.map(alone).into()),
        job(
            figure,
            scale,
            "neighborhood, metadata",
            KEY,
            KEYS.map(both).into(),
        ),
    ]
}

/// Creates the jobs of figure 4c: the cost of a neighborhood's size for a reader.
pub(super) fn neighborhoods(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    let peers = [(1, "1 entry"), (4, "4 entries"), (8, "8 entries")];
    let line = |(count, peer)| {
        let point = |key_bytes| {
            (
                key_bytes,
                vec![vec![entries(&layout(key_bytes, count), count)]],
            )
        };
        job(figure, scale, peer, KEY, KEYS.map(point).into())
    };
    peers.map(line).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn operations_that_fail_are_not_counted() {
        let posts = vec![vec![64], vec![64, 128]];
        let network = NetworkPreset::ConnectX6.parameters();
        let completed = |lost: bool| {
            let mut simulation = FabricSimulation::new(1, network, Delivery::Whole);
            let node = simulation.add_node(MEMORY);
            if lost {
                simulation.lose_node(node, Duration::from_micros(20));
            }
            super::completed(&mut simulation, 2, &posts)
        };
        let all = 2 * TASKS * EACH;
        assert_eq!(completed(false), all);
        let some = completed(true);
        assert!(some > 0 && some < all, "{some}");
    }
}
