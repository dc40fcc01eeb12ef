//! Figure `sensitivity`, which is not in the paper: the influence of the constants of the network's
//! model. Each is varied over its plausible range, the others stay as they are.

use super::contender::{ChimeContender, ContenderSizes};
use super::point::{FigurePhase, warming};
use super::scale::{ChimeScale, Figure};
use super::simulate::{CacheWarming, ChimePhase, ChimeSetup};
use crate::figures::job::FigureJob;
use crate::figures::row::Quantity;
use crate::workload::Mix;
use nearfield_hardware::VirtualTime;
use nearfield_hardware::network::{NetworkParameters, NetworkPreset};

/// Number of clients of the paper at which the port is the limit.
const CLIENTS: usize = 640;
/// Divisor of the keys: a point warms and loads with this part of them as operations.
const LOAD_PART: usize = 6;
/// The workloads that claims refer to. Those that are mixtures of others come last: B has the
/// requests of C and of A, D those of C and of LOAD.
const WORKLOADS: [Mix; 5] = [Mix::YcsbC, Mix::YcsbA, Mix::YcsbE, Mix::YcsbB, Mix::YcsbD];
/// Number of workloads of a coarse run, the first ones.
const COARSE_WORKLOADS: usize = 3;

/// A constant, its unit, its other plausible values, and the function that sets it.
struct Constant {
    name: &'static str,
    unit: &'static str,
    values: &'static [f64],
    set: fn(&mut NetworkParameters, f64),
}

/// The constants. One compute node peaks at 111 million reads a second, and its adapter falls to 55
/// million with 3,072 in flight, which no compute node of the figures has: 55 million are a lower
/// bound for any cause. The ranges of the others are guesses around published values.
const CONSTANTS: &[Constant] = &[
    Constant {
        name: "messages a second",
        unit: "M",
        values: &[55.0, 70.0, 110.0],
        set: |network, millions| {
            network.reads_per_second = millions * 1e6;
            network.writes_per_second = millions * 1e6;
        },
    },
    Constant {
        name: "atomics a second",
        unit: "M",
        values: &[30.0, 60.0],
        set: |network, millions| network.atomics_per_second = millions * 1e6,
    },
    Constant {
        name: "atomics on one word a second",
        unit: "M",
        values: &[1.0, 8.0],
        set: |network, millions| network.same_word_per_second = millions * 1e6,
    },
    Constant {
        name: "header",
        unit: "bytes",
        values: &[30.0, 60.0],
        set: |network, bytes| network.header_bytes = bytes as u64,
    },
    Constant {
        name: "round trip",
        unit: "ns",
        values: &[1500.0, 3000.0],
        set: |network, time| network.round_trip = VirtualTime::from_nanoseconds(time as u64),
    },
    Constant {
        name: "processor of a client for a post",
        unit: "ns",
        // One thread of Smart's artifact does 1.9 million reads a second.
        values: &[526.0],
        set: |network, time| network.client.post = VirtualTime::from_nanoseconds(time as u64),
    },
];

/// Returns the networks: that of the other figures first.
fn networks() -> Vec<(Quantity, NetworkParameters)> {
    let as_is = NetworkPreset::ConnectX6.parameters();
    let mut networks = vec![(Quantity::new("unchanged", "", 0.0), as_is)];
    for constant in CONSTANTS {
        for &value in constant.values {
            let mut network = as_is;
            (constant.set)(&mut network, value);
            networks.push((Quantity::new(constant.name, constant.unit, value), network));
        }
    }
    networks
}

/// Creates jobs with a panel for each workload and constant.
pub(super) fn jobs(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    let sizes = ContenderSizes::of_paper(scale);
    let contenders = [
        ChimeContender::chime(&sizes),
        ChimeContender::ours(&sizes),
        ChimeContender::sherman(&sizes),
        ChimeContender::sherman_tuned(&sizes),
        ChimeContender::rolex_tuned(&sizes),
        ChimeContender::smart(&sizes),
    ];
    let networks = networks();
    let point = |mix: Mix, (x, network): &(Quantity, NetworkParameters), phase: ChimePhase| {
        let panel = format!("{}, {}", mix.name(), x.name);
        FigurePhase::rate(panel, x.clone(), phase.over(*network))
    };
    let workloads = match scale.coarse {
        true => &WORKLOADS[..COARSE_WORKLOADS],
        false => &WORKLOADS,
    };
    let simulate = |contender, setup, points| {
        FigureJob::simulate(figure.name, scale, contender, setup, points)
    };
    let mut jobs = Vec::new();
    for contender in contenders {
        let warming = warming(&contender, scale, scale.keys * scale.warming);
        let mut points = Vec::new();
        for &mix in workloads {
            for network in &networks {
                let phase = ChimePhase::of(scale, mix, CLIENTS);
                let phase = ChimePhase {
                    operations: phase.operations / 2,
                    ..phase
                };
                let phase = phase.warmed_if(points.is_empty(), warming);
                points.push(point(mix, network, phase));
            }
        }
        let setup = ChimeSetup::of_paper(scale, &sizes);
        jobs.push(simulate(contender.clone(), setup, points));
        if contender.cannot_load() {
            continue;
        }
        // All keys are loaded: the tree grows little during the run, so that points can be
        // compared.
        let mut setup = ChimeSetup::of_paper(scale, &sizes);
        setup.make_room(scale.keys * 4, 0);
        let warming = CacheWarming::Operations(scale.keys / LOAD_PART);
        let points = networks.iter().enumerate().map(|(number, network)| {
            let phase = ChimePhase {
                operations: scale.keys / LOAD_PART,
                ..ChimePhase::of(scale, Mix::Load, CLIENTS)
            };
            point(Mix::Load, network, phase.warmed_if(number == 0, warming))
        });
        jobs.push(simulate(contender, setup, points.collect()));
    }
    jobs
}
