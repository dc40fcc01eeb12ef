//! Figures 2 and 3: the accesses of operations in a tree, counted, and the cost of writes,
//! measured.

use super::measured::{DcartContender, threads};
use super::rows::{of_kind, throughput, workload};
use super::scale::{DcartScale, Figure};
use super::walked::RecordedTree;
use super::walker::PaperTree;
use super::workload::{DcartWorkload, DcartWorkloadKind, ZIPF};
use crate::figures::job::{FigureJob, PointError};
use crate::figures::row::{Quantity, Row};
use crate::harness::Interrupt;
use crate::report::NumberOrigin;
use crate::workload::Mix;
use nearfield_hardware::accelerator::MemorySpan;
use nearfield_hardware::accelerator::dcart::{DcartTree, DcartVisit, DcartWalk};
use rustc_hash::{FxHashMap, FxHashSet};

/// Number of operations in flight at the same time. Within them a visit of a node is redundant if
/// another has visited it.
const WINDOW: usize = 4096;
/// The tree's name in figures.
const ART: &str = "ART";

/// Creates jobs that count over the walks of workloads.
fn counted(
    figure: &'static str,
    scale: &DcartScale,
    workloads: &[DcartWorkloadKind],
    rows: impl Fn(DcartWorkloadKind, &DcartWorkload, &mut RecordedTree<'_, PaperTree>) -> Vec<Row>
    + Copy
    + Send
    + 'static,
) -> Vec<FigureJob> {
    let job = |one: &DcartWorkloadKind| {
        let (one, scale) = (*one, scale.clone());
        FigureJob::new(figure, one.name(), 1, move |job| {
            let load = DcartWorkload::new(one, Mix::DcartC, ZIPF, scale.dcart_operations, &scale)?;
            let mut walked = RecordedTree::<PaperTree>::new(&load, job.interrupt)?;
            job.rows = rows(one, &load, &mut walked);
            walked.check()?;
            job.end_phase();
            Ok::<(), PointError>(())
        })
    };
    scale.workloads(workloads).iter().map(job).collect()
}

fn row(figure: &str, panel: &str, peer: &str, x: Quantity, y: Quantity) -> Row {
    of_kind(NumberOrigin::Counted, figure, panel, peer, x, y)
}

fn percent(name: &str, part: f64) -> Quantity {
    Quantity::new(name, "%", 100.0 * part)
}

/// Creates the jobs of figure 2b: visits of nodes that an operation of the same window has visited
/// before.
pub(super) fn redundant(figure: &Figure, scale: &DcartScale) -> Vec<FigureJob> {
    let figure = figure.name;
    counted(
        figure,
        scale,
        &DcartWorkloadKind::ALL,
        move |one, load, walked| {
            let (mut visits, mut distinct, mut walk) = (0, 0, DcartWalk::default());
            let mut seen = FxHashSet::default();
            for operation in 0..load.operations.len() {
                // Only operations in flight at the same time could share a visit.
                if operation % WINDOW == 0 {
                    seen.clear();
                }
                walk.clear();
                walked.execute(operation, &mut walk);
                for visit in walk.visits() {
                    visits += 1;
                    distinct += u64::from(seen.insert(visit.node));
                }
            }
            let part = 1.0 - distinct as f64 / f64::from(visits.max(1));
            vec![row(
                figure,
                "",
                ART,
                workload(one),
                percent("redundant visits", part),
            )]
        },
    )
}

/// Returns the cache lines of a span.
fn lines(span: MemorySpan) -> std::ops::Range<u64> {
    let end = span.address + u64::from(span.bytes);
    span.address / 64..end.div_ceil(64)
}

/// Returns the bytes of a node that an operation needs, and the number of lines that it reads for
/// them.
fn needed(visit: &DcartVisit) -> (u64, u64) {
    let bytes = match visit.matches {
        // A byte of the key, and the pointer to the child.
        true => 9,
        false => u64::from(visit.first.bytes),
    };
    let spans = [visit.first, visit.also, visit.then];
    let all: FxHashSet<u64> = spans
        .into_iter()
        .filter(|span| span.bytes > 0)
        .flat_map(lines)
        .collect();
    (bytes, all.len() as u64)
}

/// Creates the jobs of figure 2c: needed bytes, as a part of the lines that are read.
pub(super) fn useful(figure: &Figure, scale: &DcartScale) -> Vec<FigureJob> {
    let figure = figure.name;
    counted(
        figure,
        scale,
        &DcartWorkloadKind::ALL,
        move |one, load, walked| {
            let (mut bytes, mut lines, mut walk) = (0, 0, DcartWalk::default());
            for operation in 0..load.operations.len() {
                walk.clear();
                walked.execute(operation, &mut walk);
                for visit in walk.visits() {
                    let (needed, read) = needed(visit);
                    bytes += needed;
                    lines += read;
                }
            }
            let part = bytes as f64 / (64 * lines.max(1)) as f64;
            vec![row(
                figure,
                "",
                ART,
                workload(one),
                percent("useful bytes", part),
            )]
        },
    )
}

/// The trees of other projects.
const RIVALS: [DcartContender; 4] = [
    DcartContender::Art,
    DcartContender::Rowex,
    DcartContender::Smart,
    DcartContender::Heart,
];

/// Measures the processor time of an operation, and the part of it that exceeds a read by a single
/// thread.
fn shares(
    one: DcartWorkloadKind,
    threads: usize,
    contender: DcartContender,
    scale: &DcartScale,
    interrupt: &Interrupt,
) -> Result<[Quantity; 2], PointError> {
    let each = |mix, threads| {
        let load = DcartWorkload::new(one, mix, ZIPF, scale.timed_operations, scale)?;
        let rate = contender.measure(&load, threads, interrupt)?.rate;
        Ok::<f64, PointError>(1e9 * threads as f64 / rate)
    };
    // The difference is the cost of writes and of waiting for other threads. The paper instead
    // measures phases of its programs.
    let (read, all) = (each(Mix::DcartA, 1)?, each(Mix::DcartC, threads)?);
    Ok([
        Quantity::new("time of an operation", "ns", all),
        percent("share of writes and other threads", 1.0 - read / all),
    ])
}

/// Creates the jobs of figure 2a: the parts of the rivals' time.
pub(super) fn times(figure: &Figure, scale: &DcartScale) -> Vec<FigureJob> {
    let figure = figure.name;
    let job = |one: DcartWorkloadKind| {
        let scale = scale.clone();
        let title = format!("{}, measured", one.name());
        let mut job = FigureJob::new(figure, &title, RIVALS.len(), move |job| {
            for contender in RIVALS {
                let all = shares(one, threads(), contender, &scale, job.interrupt)?;
                for y in all {
                    let (name, x) = (contender.name(), workload(one));
                    job.rows
                        .push(of_kind(NumberOrigin::Measured, figure, "", name, x, y));
                }
                job.end_phase();
            }
            Ok(())
        });
        job.alone = true;
        job
    };
    DcartWorkloadKind::REAL.map(job).into()
}

/// Creates the job of figure 2d: the same by threads, which the paper calls concurrent operations.
pub(super) fn times_by_threads(figure: &Figure, scale: &DcartScale) -> Vec<FigureJob> {
    let (figure, scale) = (figure.name, scale.clone());
    let phases = threads() * RIVALS.len();
    let mut job = FigureJob::new(figure, "IPGEO, measured", phases, move |job| {
        for count in 1..=threads() {
            for contender in RIVALS {
                let [_, y] = shares(
                    DcartWorkloadKind::Ipgeo,
                    count,
                    contender,
                    &scale,
                    job.interrupt,
                )?;
                let x = Quantity::new("threads", "", count as f64);
                let name = contender.name();
                job.rows
                    .push(of_kind(NumberOrigin::Measured, figure, "", name, x, y));
                job.end_phase();
            }
        }
        Ok(())
    });
    job.alone = true;
    vec![job]
}

/// Creates the job of figure 2e: rivals by the share of writes.
pub(super) fn mixes(figure: &Figure, scale: &DcartScale) -> Vec<FigureJob> {
    vec![measured_mixes(figure, "IPGEO, measured", scale, &RIVALS)]
}

/// Creates a job that measures the throughput of contenders by the share of writes.
pub(super) fn measured_mixes(
    figure: &Figure,
    title: &str,
    scale: &DcartScale,
    contenders: &'static [DcartContender],
) -> FigureJob {
    let (figure, scale) = (figure.name, scale.clone());
    let phases = MIXES.len() * contenders.len();
    let mut job = FigureJob::new(figure, title, phases, move |job| {
        for (number, mix) in MIXES.into_iter().enumerate() {
            let operations = scale.timed_operations;
            let load = DcartWorkload::new(DcartWorkloadKind::Ipgeo, mix, ZIPF, operations, &scale)?;
            for contender in contenders {
                let measured = contender.measure(&load, threads(), job.interrupt)?;
                let (name, y) = (contender.name(), throughput(measured.rate));
                let x = share_of_writes(number);
                job.rows
                    .push(of_kind(NumberOrigin::Measured, figure, "", name, x, y));
                job.end_phase();
            }
        }
        Ok(())
    });
    job.alone = true;
    job
}

/// The mixes from reads alone to writes alone.
pub(super) const MIXES: [Mix; 5] = [
    Mix::DcartA,
    Mix::DcartB,
    Mix::DcartC,
    Mix::DcartD,
    Mix::DcartE,
];

/// Returns the share of writes of a mix, by its position in [`MIXES`].
pub(super) fn share_of_writes(number: usize) -> Quantity {
    Quantity::new("writes", "%", 25.0 * number as f64)
}

/// Creates the jobs of figure 3: operations by the first byte of their key.
pub(super) fn prefixes(figure: &Figure, scale: &DcartScale) -> Vec<FigureJob> {
    let figure = figure.name;
    counted(
        figure,
        scale,
        &DcartWorkloadKind::REAL,
        move |one, load, _| {
            let mut counts = [0_u64; 256];
            for (number, _) in &load.operations {
                counts[usize::from(load.label(*number))] += 1;
            }
            let all = load.operations.len() as f64;
            let point = |(byte, count): (usize, &u64)| {
                let x = Quantity::new("first byte", "", byte as f64);
                row(
                    figure,
                    one.name(),
                    ART,
                    x,
                    percent("operations", *count as f64 / all),
                )
            };
            counts.iter().enumerate().map(point).collect()
        },
    )
}

/// Creates the jobs of figure 3b, the number in figure 3: the visits of the most visited nodes.
pub(super) fn hottest(figure: &Figure, scale: &DcartScale) -> Vec<FigureJob> {
    let figure = figure.name;
    counted(
        figure,
        scale,
        &DcartWorkloadKind::ALL,
        move |one, load, walked| {
            let (mut counts, mut walk) = (FxHashMap::<u64, u64>::default(), DcartWalk::default());
            let mut nodes = FxHashSet::default();
            for operation in 0..load.operations.len() {
                walk.clear();
                walked.execute(operation, &mut walk);
                // A leaf is visited as often as its key, so leaves only show the distribution.
                for visit in walk.visits().iter().filter(|visit| visit.matches) {
                    *counts.entry(visit.node).or_default() += 1;
                    nodes.insert(visit.node);
                }
            }
            // All nodes of the tree count, including those that no operation visits.
            for number in 0..load.keys() {
                nodes.extend(walked.nodes_of(number));
            }
            let mut counts: Vec<u64> = counts.into_values().collect();
            debug_assert!(counts.len() <= nodes.len(), "a visited node is not counted");
            counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
            let all = counts.iter().sum::<u64>().max(1) as f64;
            let point = |part: f64| {
                let hottest = (part * nodes.len() as f64).ceil() as usize;
                let visits = counts.iter().take(hottest).sum::<u64>() as f64;
                let x = percent("hottest nodes", part);
                row(figure, "", one.name(), x, percent("visits", visits / all))
            };
            [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0].map(point).into()
        },
    )
}
