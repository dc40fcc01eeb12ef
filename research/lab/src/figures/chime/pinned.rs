//! Small runs with pinned results.

use super::contender::{ChimeContender, ContenderSizes};
use super::point::{FigurePhase, warming};
use super::scale::ChimeScale;
use super::simulate::{ChimePhase, ChimeSetup};
use super::{FIGURES, cache, throughput};
use crate::figures::job::FigureJob;
use crate::figures::row::Quantity;
use crate::harness::Interrupt;
use crate::workload::Mix;
use std::collections::BTreeMap;

/// Number of clients of the paper that fill a port. More would wait for each other, because keys
/// are few.
const CLIENTS: usize = 160;
/// Number of clients at which every message counts.
const MANY: usize = 640;
/// Number of clients of one compute node.
const OF_ONE_NODE: usize = 4;
/// Name of the figure with a point that is run with changed constants.
const READS: &str = "reads";

/// Returns a scale with few keys and operations.
pub(in crate::figures) fn pinned_scale() -> ChimeScale {
    ChimeScale {
        keys: 8000,
        compute_nodes: 4,
        operations: 3000,
        warming: 1,
        ..ChimeScale::quick()
    }
}

/// Returns the jobs that the claims of throughput and caches follow from.
pub(in crate::figures) fn pinned(scale: &ChimeScale) -> Vec<FigureJob> {
    let named = |name: &str| {
        let mut figures = FIGURES.iter();
        let figure = figures.find(|figure| figure.name == name);
        figure.expect("a figure of the paper")
    };
    let workloads = throughput::workloads_of(named("12"), scale, &[CLIENTS]);
    let attached = throughput::cxl_of(named("cxl"), scale, &[OF_ONE_NODE], &[CLIENTS]);
    let cache_sizes = cache::keys(named("14"), scale);
    let reads = reads_at(scale, 1.0);
    let jobs = workloads.into_iter().chain(attached).chain(cache_sizes);
    jobs.chain([reads]).collect()
}

/// Creates a job of reads of our index over a port with this part of the model's messages and bytes
/// a second.
pub(in crate::figures) fn reads_at(scale: &ChimeScale, part: f64) -> FigureJob {
    let sizes = ContenderSizes::of_paper(scale);
    let contender = ChimeContender::ours(&sizes);
    let mut setup = ChimeSetup::of_paper(scale, &sizes);
    setup.network.reads_per_second *= part;
    setup.network.bytes_per_second *= part;
    let warming = warming(&contender, scale, scale.keys);
    let phase = ChimePhase::of(scale, Mix::YcsbC, MANY).warmed(warming);
    let x = Quantity::new("clients", "", MANY as f64);
    FigureJob::simulate(
        READS,
        scale,
        contender,
        setup,
        vec![FigurePhase::rate("", x, phase)],
    )
}

/// Sherman is faster than CHIME, and ours is faster than both in reads, if memory is attached. A
/// study of CHIME's code on the memory of another socket, with one compute node, measured the same
/// ranking: Sherman leads by a hundredth to a tenth in reads, by half in scans. The model has this
/// ranking while processors are the limit; at 64 threads that study's machine carries less than the
/// link.
#[test]
fn sherman_is_ahead_of_chime_where_memory_is_attached() {
    let scale = ChimeScale {
        keys: 20_000,
        ..pinned_scale()
    };
    let jobs = FIGURES.iter().filter(|figure| figure.name == "cxl");
    let jobs = jobs.flat_map(|figure| throughput::cxl_of(figure, &scale, &[4, 16], &[]));
    let mut rates = BTreeMap::new();
    let peers = ["chime", "sherman", "nearfield"];
    for job in jobs.filter(|job| peers.contains(&&*job.peer)) {
        let peer = job.peer.clone();
        let (rows, done) = job.run_by_itself(&Interrupt::default());
        done.unwrap();
        for row in rows {
            let place = (row.detail.panel.clone(), row.detail.x.value as usize);
            rates.insert((peer.clone(), place), row.rate_mops.unwrap());
        }
    }
    for mix in ["C", "E"] {
        for clients in [4, 16] {
            let place = (format!("{mix}, one compute node"), clients);
            let [chime, sherman, ours] = peers.map(|peer| rates[&(peer.to_owned(), place.clone())]);
            // Our scans read as many lines as Sherman's, up to a twentieth.
            let least = if mix == "E" { 0.95 } else { 1.0 };
            assert!(ours > least * sherman, "{mix}, {clients}: {ours} {sherman}");
            assert!(sherman > chime, "{mix}, {clients}: {sherman} {chime}");
            // In the study 1.01 to 1.10, and 1.48.
            assert!(sherman < 1.5 * chime, "{mix}, {clients}: {sherman} {chime}");
        }
    }
}
