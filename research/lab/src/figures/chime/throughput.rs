//! Throughput and latency.

use super::contender::{ChimeContender, ContenderSizes};
use super::point::{FigurePhase, OutcomePoint, load_phase, load_setup, warming};
use super::scale::{ChimeScale, Figure};
use super::simulate::{CacheWarming, ChimePhase, ChimeSetup};
use crate::figures::job::FigureJob;
use crate::figures::row::Quantity;
use crate::workload::Mix;
use nearfield_hardware::network::NetworkPreset;

/// Numbers of clients of the paper, of all compute nodes together.
const CLIENTS: [usize; 8] = [80, 160, 240, 320, 400, 480, 560, 640];
fn clients(phase: &ChimePhase) -> Quantity {
    Quantity::new("clients", "", phase.clients as f64)
}

/// Creates jobs of reads by these numbers of clients.
fn reads(
    figure: &Figure,
    scale: &ChimeScale,
    contenders: [ChimeContender; 3],
    setup: &ChimeSetup,
    numbers: &[usize],
) -> Vec<FigureJob> {
    let numbers = scale.points(numbers);
    let job = |contender: ChimeContender| {
        let warming = warming(&contender, scale, scale.keys * scale.warming);
        let point = |(place, &number): (usize, &usize)| {
            let phase = ChimePhase::of(scale, Mix::YcsbC, number);
            let phase = phase.warmed_if(place == 0, warming);
            FigurePhase::rate("", clients(&phase), phase)
        };
        let points = numbers.iter().enumerate().map(point).collect();
        FigureJob::simulate(figure.name, scale, contender, setup.clone(), points)
    };
    contenders.map(job).into()
}

/// Returns the indexes that the paper compares before it presents its own.
fn rivals(sizes: &ContenderSizes) -> [ChimeContender; 3] {
    [
        ChimeContender::sherman(sizes),
        ChimeContender::rolex(sizes),
        ChimeContender::smart(sizes),
    ]
}

/// Creates the jobs of figure 3b: a gigabyte of cache, one memory node.
pub(super) fn narrow_link(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    let sizes = ContenderSizes {
        cache_bytes: Some(scale.megabytes(1000)),
        ..ContenderSizes::of_paper(scale)
    };
    let setup = ChimeSetup::of_paper(scale, &sizes);
    reads(figure, scale, rivals(&sizes), &setup, &CLIENTS[..6])
}

/// Creates the jobs of figure 3c: 100 MB of cache, ten memory nodes.
pub(super) fn small_caches(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    let sizes = ContenderSizes::of_paper(scale);
    let setup = ChimeSetup {
        memory_nodes: 10,
        ..ChimeSetup::of_paper(scale, &sizes)
    };
    reads(figure, scale, rivals(&sizes), &setup, &CLIENTS[..6])
}

/// Creates the jobs of figure 17: CHIME with and without speculation, and SMART that caches
/// everything.
pub(super) fn speculation(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    let sizes = ContenderSizes::of_paper(scale);
    let contenders = [
        ChimeContender::chime(&sizes),
        ChimeContender::chime_without_speculation(&sizes),
        ChimeContender::smart_opt(&sizes),
    ];
    let setup = ChimeSetup::of_paper(scale, &sizes);
    reads(figure, scale, contenders, &setup, &CLIENTS)
}

/// Creates a point of a workload's latency over its throughput.
fn latency(mix: Mix, phase: ChimePhase) -> FigurePhase {
    FigurePhase {
        phase,
        places: Box::new(move |outcome| {
            let x = Quantity::new("throughput", "Mops", outcome.rate_mops);
            vec![OutcomePoint {
                y: Quantity::new("p99", "µs", outcome.latency.p99 as f64 / 1e3),
                ..OutcomePoint::rate(mix.name(), x, outcome)
            }]
        }),
    }
}

/// The workloads on loaded keys; those that change the index come last.
const WORKLOADS: [Mix; 5] = [Mix::YcsbC, Mix::YcsbB, Mix::YcsbA, Mix::YcsbD, Mix::YcsbE];

/// Creates the jobs of figure 12: six workloads by numbers of clients.
pub(super) fn workloads(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    workloads_of(figure, scale, &scale.points(&CLIENTS))
}

/// Creates the jobs of figure 12 for some numbers of clients.
pub(super) fn workloads_of(
    figure: &Figure,
    scale: &ChimeScale,
    numbers: &[usize],
) -> Vec<FigureJob> {
    let sizes = ContenderSizes::of_paper(scale);
    let mut jobs = Vec::new();
    for contender in ChimeContender::of_workloads(&sizes) {
        let warming = warming(&contender, scale, scale.keys * scale.warming);
        let mut points = Vec::new();
        for mix in WORKLOADS {
            for (place, &number) in numbers.iter().enumerate() {
                // The first workload has warmed the caches as far as possible. Only D's
                // distribution makes other keys hot.
                let again = match mix {
                    Mix::YcsbC => warming,
                    Mix::YcsbD => CacheWarming::Operations(scale.keys / 8),
                    _ => CacheWarming::None,
                };
                let phase = ChimePhase::of(scale, mix, number);
                points.push(latency(mix, phase.warmed_if(place == 0, again)));
            }
        }
        let setup = ChimeSetup::of_paper(scale, &sizes);
        let job = FigureJob::simulate(figure.name, scale, contender.clone(), setup, points);
        jobs.push(job);
        jobs.extend(load(figure, scale, &sizes, contender, numbers));
    }
    jobs
}

/// Creates the job of LOAD: a twelfth of the keys is loaded, and twice as many as the paper's are
/// inserted.
fn load(
    figure: &Figure,
    scale: &ChimeScale,
    sizes: &ContenderSizes,
    contender: ChimeContender,
    numbers: &[usize],
) -> Option<FigureJob> {
    if contender.cannot_load() {
        return None;
    }
    let setup = load_setup(scale, sizes);
    let point = |(place, &number): (usize, &usize)| {
        // The numbers of clients share the inserts, so the index grows as in one run.
        let phase = load_phase(scale, number, numbers.len());
        let warming = CacheWarming::Operations(setup.loaded);
        latency(Mix::Load, phase.warmed_if(place == 0, warming))
    };
    let points = numbers.iter().enumerate().map(point).collect();
    let job = FigureJob::simulate(figure.name, scale, contender, setup, points);
    Some(job)
}

/// Creates the jobs of figure 13.
pub(super) fn variable_length(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    let sizes = ContenderSizes::of_paper(scale);
    let mut jobs = Vec::new();
    for contender in ChimeContender::of_variable_length(&sizes) {
        let warming = warming(&contender, scale, scale.keys * scale.warming);
        let point = |(place, &mix): (usize, &Mix)| {
            let phase = ChimePhase::of(scale, mix, 320);
            let phase = phase.warmed_if(place == 0, warming);
            FigurePhase::rate(mix.name(), clients(&phase), phase)
        };
        let points = WORKLOADS.iter().enumerate().map(point).collect();
        let setup = ChimeSetup::of_paper(scale, &sizes);
        let job = FigureJob::simulate(figure.name, scale, contender, setup, points);
        jobs.push(job);
    }
    jobs
}

/// Numbers of clients of one compute node in the study of CHIME on another socket's memory.
const OF_ONE_NODE: [usize; 3] = [4, 16, 64];

/// Creates the jobs of figure `cxl`, which is not in the paper: memory is attached by CXL, so that
/// clients load and store. It has one compute node, and as many as the paper.
pub(super) fn cxl(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    let ends = [OF_ONE_NODE[0], OF_ONE_NODE[OF_ONE_NODE.len() - 1]];
    let of_one: &[usize] = if scale.coarse { &ends } else { &OF_ONE_NODE };
    cxl_of(figure, scale, of_one, &scale.points(&CLIENTS))
}

/// Creates the same jobs for some numbers of clients, of one compute node and of the paper's.
pub(super) fn cxl_of(
    figure: &Figure,
    scale: &ChimeScale,
    of_one: &[usize],
    numbers: &[usize],
) -> Vec<FigureJob> {
    let sizes = ContenderSizes::of_paper(scale);
    let contenders = [
        ChimeContender::chime(&sizes),
        ChimeContender::chime_tuned(&sizes),
        ChimeContender::ours_attached(&sizes),
        ChimeContender::sherman(&sizes),
        ChimeContender::sherman_tuned(&sizes),
    ];
    let places = [
        // As in a study of CHIME's code on the memory of another socket.
        (1, ", one compute node", of_one),
        (scale.compute_nodes, "", numbers),
    ];
    let mut jobs = Vec::new();
    let places = places.into_iter();
    for (compute_nodes, place, numbers) in places.filter(|(.., numbers)| !numbers.is_empty()) {
        for contender in contenders.clone() {
            let warming = warming(&contender, scale, scale.keys * scale.warming);
            let mut points = Vec::new();
            for mix in CXL_WORKLOADS {
                for &number in numbers {
                    let phase =
                        ChimePhase::of(scale, mix, number).over(NetworkPreset::Cxl.parameters());
                    let phase = phase.warmed_if(points.is_empty(), warming);
                    let panel = format!("{}{place}", mix.name());
                    points.push(FigurePhase::rate(panel, clients(&phase), phase));
                }
            }
            let setup = ChimeSetup {
                network: NetworkPreset::Cxl.parameters(),
                compute_nodes,
                // A processor waits for its loads, so a second task would not overlap.
                tasks: 1,
                ..ChimeSetup::of_paper(scale, &sizes)
            };
            let job = FigureJob::simulate(figure.name, scale, contender, setup, points);
            jobs.push(job);
        }
    }
    jobs
}

/// The workloads on attached memory.
const CXL_WORKLOADS: [Mix; 5] = [Mix::YcsbC, Mix::YcsbE, Mix::YcsbB, Mix::YcsbA, Mix::YcsbD];
