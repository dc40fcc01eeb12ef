//! Memory attached by CXL: figure 12, from traces of the applications, and from the artifact's
//! formulas.

use super::applications::{PulseApplication, PulseRequestGenerator};
use super::clock::ClockPageCache;
use super::data::NODE_BYTES;
use super::measure::follow;
use super::pipelines::counted;
use super::rows::row;
use super::scale::{Figure, PulseScale};
use super::systems::applications;
use crate::figures::job::{FigureJob, PointError};
use crate::figures::row::{Quantity, Row};
use crate::harness::Interrupt;
use nearfield_hardware::accelerator::cxl::{CxlAccess, CxlParameters, CxlTimes, CxlWorkload};

/// Applications with their nodes, hit rates and crossings between four memory nodes. Source: the
/// artifact's model, which has no hits for WiredTiger in its plots.
const LOADS: [(&str, CxlWorkload); 6] = [
    ("WebService", load(64.0, 0.2, 0.0)),
    ("WiredTiger", load(25.0, 0.0, 15.0)),
    ("BTrDB 1 s", load(38.0, 0.001, 3.0)),
    ("BTrDB 2 s", load(65.0, 0.001, 3.0)),
    ("BTrDB 4 s", load(119.0, 0.001, 3.0)),
    ("BTrDB 8 s", load(227.0, 0.001, 3.0)),
];

const fn load(nodes: f64, hit_rate: f64, crossings: f64) -> CxlWorkload {
    CxlWorkload {
        nodes,
        hit_rate,
        crossings,
    }
}

pub(super) const FOUR: &str = "4 memory nodes";
const ONE: &str = "1 memory node";
/// The panels of the artifact's formulas.
pub(super) const FOUR_BY_FORMULA: &str = "4 memory nodes, the artifact's formula";
const ONE_BY_FORMULA: &str = "1 memory node, the artifact's formula";

/// Bytes of the caller's cache.
const CACHE: u64 = 2 << 30;
/// The part of the keys that a trace has, so that its cache fills in seconds; the cache is smaller
/// by the same factor.
const KEYS_PERCENT: u64 = 1;
/// Nodes for each traversal of the scale that fill the cache, and as many that count.
const NODES_EACH: u64 = 4;

/// Sums of the times of all traversals of a trace, and the share of nodes that were cached.
struct CxlTrace {
    times: CxlTimes,
    hit_rate: f64,
}

/// Follows traversals over memory nodes, with a cache of nodes at the caller. The first half fills
/// the cache.
fn trace(
    application: PulseApplication,
    memory_nodes: usize,
    scale: &PulseScale,
    interrupt: &Interrupt,
) -> Result<CxlTrace, PointError> {
    let scale = PulseScale {
        keys_percent: KEYS_PERCENT,
        ..scale.clone()
    };
    let mut load = PulseRequestGenerator::new(application, memory_nodes, &scale)?;
    let capacity = CACHE / NODE_BYTES / (100 / KEYS_PERCENT);
    let mut cache = ClockPageCache::new(capacity as usize);
    let warming = scale.traversals as u64 * NODES_EACH;
    let (mut nodes, mut cached, mut is_warm) = (0_u64, 0_u64, false);
    let mut sums = CxlTimes::default();
    loop {
        if interrupt.is_raised() {
            return Err(PointError::Interrupted);
        }
        if nodes >= warming {
            if is_warm {
                break;
            }
            (nodes, cached, is_warm) = (0, 0, true);
            sums = CxlTimes::default();
        }
        let mut accesses = Vec::new();
        let mut last = None;
        for fetch in follow(&mut load)?.fetches {
            // The object of WebService is not a node.
            if u64::from(fetch.bytes) > NODE_BYTES {
                continue;
            }
            let ranges = load.ranges();
            let place = ranges
                .iter()
                .position(|range| range.contains(&fetch.address));
            let is_cached = cache.touch(fetch.address / NODE_BYTES);
            let crosses = last.is_some_and(|last| last != place);
            last = Some(place);
            accesses.push(CxlAccess { is_cached, crosses });
            nodes += 1;
            cached += u64::from(is_cached);
        }
        let times = CxlParameters::PAPER.times_of(&accesses);
        sums.dram += times.dram;
        sums.cxl += times.cxl;
        sums.pulse += times.pulse;
    }
    Ok(CxlTrace {
        times: sums,
        hit_rate: cached as f64 / nodes as f64,
    })
}

/// Creates the rows of an application's slowdowns.
fn slowdowns(figure: &str, panel: &str, name: &str, number: usize, times: &CxlTimes) -> [Row; 2] {
    [("CXL", times.cxl), ("CXL and pulse", times.pulse)].map(|(suffix, time)| {
        let x = Quantity::new("application", "", number as f64 + 1.0);
        let y = Quantity::new("slowdown relative to DRAM", "x", time / times.dram);
        row(figure, panel, &format!("{name}, {suffix}"), x, y)
    })
}

pub(super) fn jobs(figure: &Figure, scale: &PulseScale) -> Vec<FigureJob> {
    let figure = figure.name;
    let job = |(number, application): (usize, PulseApplication)| {
        let scale = scale.clone();
        let name = application.name();
        let title = format!("{name}, trace");
        let mut job = FigureJob::new(figure, &title, 2, move |run| {
            for (panel, memory_nodes) in [(FOUR, 4), (ONE, 1)] {
                let trace = trace(application, memory_nodes, &scale, run.interrupt)?;
                run.rows
                    .extend(slowdowns(figure, panel, &name, number, &trace.times));
                let x = Quantity::new("application", "", number as f64 + 1.0);
                let hits = Quantity::new("nodes in the cache", "%", 100.0 * trace.hit_rate);
                run.rows.push(row(figure, panel, &name, x, hits));
                run.end_phase();
            }
            Ok(())
        });
        job.bytes = 64 << 20;
        job
    };
    let mut jobs: Vec<FigureJob> = applications().into_iter().enumerate().map(job).collect();
    jobs.extend(counted(figure, move || {
        let mut rows: Vec<Row> = Vec::new();
        for (panel, has_crossings) in [(FOUR_BY_FORMULA, true), (ONE_BY_FORMULA, false)] {
            for (number, (name, load)) in LOADS.into_iter().enumerate() {
                let crossings = if has_crossings { load.crossings } else { 0.0 };
                let times = CxlParameters::PAPER.times(&CxlWorkload { crossings, ..load });
                rows.extend(slowdowns(figure, panel, name, number, &times));
            }
        }
        rows
    }));
    jobs
}
