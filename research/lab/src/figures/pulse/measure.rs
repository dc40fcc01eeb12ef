//! One run of a load on modelled hardware.

use super::applications::{
    ExpectedResult, GeneratedRequest, PulseApplication, PulseRequestGenerator, Work, mistake,
};
use super::data::table;
use super::scale::PulseScale;
use crate::figures::job::PointError;
use crate::harness::{Durations, Interrupt, LatencySummary};
use nearfield_hardware::accelerator::cores::{self, Cores};
use nearfield_hardware::accelerator::pulse::bound::PulseRequestProfile;
use nearfield_hardware::accelerator::pulse::{self, PulseAccelerator, PulseDesign, PulseUsage};
use nearfield_hardware::accelerator::rack::{self, RackForwarder, RackRequest, RackSimulation};
use nearfield_hardware::accelerator::{
    DepartureReason, HardwareTraversal, Iteration, MemorySpan, RackNode, Verdict,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

/// The hardware of memory nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MemoryNodeHardware {
    /// An accelerator of a design; the switch or the caller forwards requests to the next node.
    Pulse {
        parameters: pulse::PulseParameters,
        design: PulseDesign,
        rerouting: RackForwarder,
    },
    /// Processor cores, with their own times of the network stack.
    Cores(cores::CoresParameters),
}

pub(super) const PULSE: MemoryNodeHardware = MemoryNodeHardware::Pulse {
    parameters: pulse::PulseParameters::PAPER,
    design: PulseDesign::PROTOTYPE,
    rerouting: RackForwarder::Switch,
};

/// Pulse's own rival: requests return to the caller.
pub(super) const PULSE_ACC: MemoryNodeHardware = MemoryNodeHardware::Pulse {
    parameters: pulse::PulseParameters::PAPER,
    design: PulseDesign::PROTOTYPE,
    rerouting: RackForwarder::Caller,
};

pub(super) const RPC: MemoryNodeHardware = MemoryNodeHardware::Cores(cores::CoresParameters::XEON);
pub(super) const RPC_ARM: MemoryNodeHardware =
    MemoryNodeHardware::Cores(cores::CoresParameters::ARM);

/// The setup of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PulseSetup {
    pub application: PulseApplication,
    pub system: MemoryNodeHardware,
    pub rack: rack::RackParameters,
    pub memory_nodes: usize,
    /// Number of requests in flight at the same time.
    pub under_way: usize,
    /// Number of round trips that precede each request that writes, for regions of new nodes. Only
    /// a request alone has them.
    pub round_trips: usize,
}

impl PulseSetup {
    pub(super) fn new(application: PulseApplication, system: MemoryNodeHardware) -> PulseSetup {
        PulseSetup {
            application,
            system,
            rack: rack::RackParameters::PAPER,
            memory_nodes: 1,
            under_way: 1,
            round_trips: 0,
        }
    }

    pub(super) fn on(self, memory_nodes: usize) -> PulseSetup {
        PulseSetup {
            memory_nodes,
            ..self
        }
    }

    /// Sets the number of requests in flight so that all memory nodes are busy.
    pub(super) fn saturated(self) -> PulseSetup {
        PulseSetup {
            under_way: 128 * self.memory_nodes,
            ..self
        }
    }
}

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct PulseOutcome {
    /// The mean latency, with the caller's own work on a response, in nanoseconds.
    pub latency_ns: f64,
    pub percentiles: Option<LatencySummary>,
    /// Millions of requests a second.
    pub mops: f64,
    /// Crossings of a request.
    pub crossings: f64,
    pub iterations: f64,
    /// Throughput of each memory node's memory, in bytes a second.
    pub memory_bytes_per_second: f64,
    /// Bytes of memory that a request accesses.
    pub memory_bytes: f64,
    /// Throughput of the callers' wire in its busier direction, in bytes a second.
    pub wire_bytes_per_second: f64,
    /// Usage of all accelerators together.
    pub usage: PulseUsage,
    pub seconds: f64,
}

/// Runs a load, and checks every result.
pub(super) fn measure(
    setup: &PulseSetup,
    scale: &PulseScale,
    interrupt: &Interrupt,
) -> Result<PulseOutcome, PointError> {
    let load = PulseRequestGenerator::new(setup.application, setup.memory_nodes, scale)?;
    let requests = match setup.under_way {
        // Latency alone varies little.
        1 => scale.requests.min(1000),
        _ => scale.requests,
    };
    let run = PulseRun {
        setup,
        load,
        requests,
        interrupt,
    };
    let mut tables = Vec::new();
    for range in run.load.ranges() {
        let table = table(range).map_err(|error| PointError::Missing(error.to_string()))?;
        tables.push(table);
    }
    match setup.system {
        MemoryNodeHardware::Pulse {
            parameters,
            design,
            rerouting,
        } => {
            let mut nodes = Vec::new();
            for table in tables {
                let node = PulseAccelerator::new(parameters, design, table);
                nodes.push(node.map_err(|error| PointError::Missing(error.to_string()))?);
            }
            let (mut outcome, nodes) = run.play(nodes, rerouting)?;
            for node in nodes {
                add(&mut outcome.usage, &node.usage());
            }
            let bytes = outcome.usage.bytes as f64;
            outcome.memory(bytes, setup.memory_nodes, requests);
            outcome.iterations = outcome.usage.iterations as f64 / requests as f64;
            Ok(outcome)
        }
        MemoryNodeHardware::Cores(parameters) => {
            let nodes = tables
                .into_iter()
                .map(|table| Cores::new(parameters, table));
            // Calls have no switch that would forward them to the next node.
            let (mut outcome, nodes) = run.play(nodes.collect(), RackForwarder::Caller)?;
            let bytes = nodes.iter().map(Cores::bytes).sum::<u64>() as f64;
            outcome.memory(bytes, setup.memory_nodes, requests);
            Ok(outcome)
        }
    }
}

impl PulseOutcome {
    fn memory(&mut self, bytes: f64, nodes: usize, requests: usize) {
        self.memory_bytes = bytes / requests as f64;
        self.memory_bytes_per_second = bytes / self.seconds / nodes as f64;
    }
}

fn add(sum: &mut PulseUsage, other: &PulseUsage) {
    sum.departures += other.departures;
    sum.iterations += other.iterations;
    sum.instructions += other.instructions;
    sum.bytes += other.bytes;
    sum.memory_busy += other.memory_busy;
    sum.logic_busy += other.logic_busy;
    sum.channels_busy += other.channels_busy;
    sum.workspaces_busy += other.workspaces_busy;
    sum.breakdown.network += other.breakdown.network;
    sum.breakdown.memory += other.breakdown.memory;
    sum.breakdown.logic += other.breakdown.logic;
    sum.breakdown.schedule += other.breakdown.schedule;
    sum.breakdown.waiting += other.breakdown.waiting;
    sum.breakdown.fetches += other.breakdown.fetches;
}

struct PulseRun<'r> {
    setup: &'r PulseSetup,
    load: PulseRequestGenerator,
    requests: usize,
    interrupt: &'r Interrupt,
}

/// A traversal with its expected result.
pub(super) struct CheckedTraversal {
    work: Work,
    expected: ExpectedResult,
    /// True if it is a round trip before a request, and counts as a part of that.
    precedes: bool,
}

impl CheckedTraversal {
    fn new(request: GeneratedRequest, precedes: bool) -> CheckedTraversal {
        CheckedTraversal {
            work: request.work,
            expected: request.expected,
            precedes,
        }
    }
}

impl HardwareTraversal for CheckedTraversal {
    fn fetch(&self) -> MemorySpan {
        self.work.fetch()
    }

    fn load(&mut self) {
        self.work.load();
    }

    fn execute(&mut self) -> Iteration {
        self.work.execute()
    }

    fn store(&mut self) {
        self.work.store();
    }

    fn request_bytes(&self) -> u32 {
        self.work.request_bytes()
    }

    fn reply_bytes(&self) -> u32 {
        self.work.reply_bytes()
    }
}

impl PulseRun<'_> {
    fn play<N: RackNode<Work = RackRequest<CheckedTraversal>>>(
        self,
        nodes: Vec<N>,
        rerouting: RackForwarder,
    ) -> Result<(PulseOutcome, Vec<N>), PointError> {
        let own_ns = self.setup.application.own_ns();
        let ranges: Vec<_> = self
            .load
            .ranges()
            .iter()
            .map(|range| vec![range.clone()])
            .collect();
        let mut rack = RackSimulation::new(self.setup.rack, rerouting, nodes, &ranges);
        let load = RefCell::new(self.load);
        let mut left = self.requests;
        let interrupt = self.interrupt;
        let PulseSetup {
            under_way,
            round_trips,
            ..
        } = *self.setup;
        debug_assert!(under_way == 1 || round_trips == 0);
        let mut upcoming = VecDeque::new();
        let next = || {
            if let Some(traversal) = upcoming.pop_front() {
                return Some(traversal);
            }
            left = left.checked_sub(1)?;
            // Requests in flight still end, and leave the nodes idle.
            if interrupt.is_raised() {
                return None;
            }
            let mut load = load.borrow_mut();
            let request = load.work();
            if request.writes {
                let before = (0..round_trips).filter_map(|_| load.round_trip());
                upcoming.extend(before.map(|request| CheckedTraversal::new(request, true)));
            }
            upcoming.push_back(CheckedTraversal::new(request, false));
            upcoming.pop_front()
        };
        let mut durations = Durations::new();
        let (mut sum_ns, mut preceding_ns) = (0.0, 0.0);
        let (mut wrong, mut first) = (0, String::new());
        rack.run(under_way, next, |response| {
            debug_assert!(response.begun <= response.done);
            let CheckedTraversal {
                work,
                expected,
                precedes,
            } = response.traversal;
            let in_rack = (response.done - response.begun).as_nanoseconds();
            if precedes {
                preceding_ns += in_rack;
            } else {
                // The rack does not know the caller's own work on a response.
                let nanoseconds = std::mem::take(&mut preceding_ns) + in_rack + own_ns;
                sum_ns += nanoseconds;
                durations.record(Duration::from_nanos(nanoseconds as u64));
            }
            if let Some(mistake) = mistake(work, response.end, &expected) {
                wrong += 1;
                if first.is_empty() {
                    first = mistake;
                }
            }
        });
        if interrupt.is_raised() {
            return Err(PointError::Interrupted);
        }
        if wrong > 0 {
            return Err(PointError::Wrong {
                wrong,
                operations: self.requests as u64,
                first,
            });
        }
        let summary = rack.summary();
        let answers = durations.count();
        debug_assert!(round_trips > 0 || summary.answers == answers);
        let seconds = summary.end.as_seconds();
        let count = answers as f64;
        let busier = summary.caller_bytes.into_iter().max().unwrap_or(0);
        let outcome = PulseOutcome {
            latency_ns: sum_ns / count,
            percentiles: durations.percentiles(),
            mops: count / seconds / 1e6,
            crossings: summary.crossings as f64 / count,
            wire_bytes_per_second: busier as f64 / seconds,
            seconds,
            ..PulseOutcome::default()
        };
        Ok((outcome, rack.into_nodes()))
    }
}

/// The accesses of one request, from which the accelerator's bound is computed as a mean over some
/// requests.
pub(super) struct RequestAccesses {
    /// The fetches of a request: their first address, and bytes.
    pub fetches: Vec<MemorySpan>,
    /// Instructions of each iteration.
    pub instructions: Vec<u32>,
    pub profile: PulseRequestProfile,
}

/// Follows the next request of a load without hardware.
pub(super) fn follow(load: &mut PulseRequestGenerator) -> Result<RequestAccesses, PointError> {
    let GeneratedRequest {
        mut work, expected, ..
    } = load.work();
    let mut path = RequestAccesses {
        fetches: Vec::new(),
        instructions: Vec::new(),
        profile: PulseRequestProfile {
            request_bytes: work.request_bytes(),
            ..PulseRequestProfile::default()
        },
    };
    loop {
        let fetch = work.fetch();
        work.load();
        let iteration = work.execute();
        path.fetches.push(fetch);
        path.instructions.push(iteration.instructions);
        path.profile
            .iterations
            .push((fetch.bytes, iteration.instructions));
        if !iteration.stores.is_empty() {
            work.store();
        }
        if iteration.verdict != Verdict::Next {
            break;
        }
    }
    path.profile.reply_bytes = work.reply_bytes();
    match mistake(work, DepartureReason::Returned, &expected) {
        None => Ok(path),
        Some(first) => Err(PointError::Wrong {
            wrong: 1,
            operations: 1,
            first,
        }),
    }
}
