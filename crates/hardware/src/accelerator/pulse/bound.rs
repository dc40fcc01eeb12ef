//! The throughput that no run can exceed: that of the slowest part.

use super::{Design, Parameters};
use crate::Time;

/// The use of each part by one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The bytes and the instructions of each iteration. Fetches are aligned to bursts.
    pub iterations: Vec<(u32, u32)>,
    /// The bytes of the request's packet.
    pub request_bytes: u32,
    /// The bytes of the reply's packet.
    pub reply_bytes: u32,
}

/// A part that limits throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Logic pipelines.
    Logic,
    /// Memory pipelines.
    Memory,
    /// The channels of DRAM.
    Channels,
    /// The workspaces: each holds one traversal at a time, which takes as long as one alone.
    Workspaces,
    /// The network stack.
    Network,
    /// The scheduler, which takes one event per cycle.
    Scheduler,
}

impl Part {
    /// All parts.
    pub const ALL: [Part; 6] = [
        Part::Logic,
        Part::Memory,
        Part::Channels,
        Part::Workspaces,
        Part::Network,
        Part::Scheduler,
    ];

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Logic => "logic",
            Part::Memory => "memory",
            Part::Channels => "channels",
            Part::Workspaces => "workspaces",
            Part::Network => "network",
            Part::Scheduler => "scheduler",
        }
    }
}

impl Parameters {
    /// Returns the requests per second that a part can serve, if the others are as fast as it
    /// needs.
    pub fn rate_max(&self, design: Design, profile: &Profile, part: Part) -> f64 {
        let sum = |time: fn(&Parameters, u32, u32) -> Time| {
            let times = profile.iterations.iter();
            let times = times.map(|&(bytes, instructions)| time(self, bytes, instructions));
            times.fold(Time::ZERO, |sum, time| sum + time).as_seconds()
        };
        let bursts = |parameters: &Parameters, bytes: u32| {
            let bursts = parameters.bursts(0, bytes);
            bursts.fold(Time::ZERO, |sum, (bytes, _)| sum + parameters.burst(bytes))
        };
        let (units, seconds) = match part {
            Part::Logic => (
                design.logic(),
                sum(|parameters, _, instructions| parameters.logic(instructions)),
            ),
            Part::Memory => {
                let translations = profile.iterations.len() as u64 * self.translate_cycles;
                let bursts = profile
                    .iterations
                    .iter()
                    .map(|&(bytes, _)| bursts(self, bytes));
                let bursts = bursts.fold(Time::ZERO, |sum, time| sum + time);
                (
                    design.memory(),
                    (self.cycles(translations) + bursts).as_seconds(),
                )
            }
            Part::Channels => {
                let bursts = profile
                    .iterations
                    .iter()
                    .map(|&(bytes, _)| bursts(self, bytes));
                let bursts = bursts.fold(Time::ZERO, |sum, time| sum + time);
                (self.channels, bursts.as_seconds())
            }
            Part::Workspaces => (
                design.workspaces(),
                self.alone(design, profile).as_seconds(),
            ),
            Part::Network => {
                let slower = profile.request_bytes.max(profile.reply_bytes);
                (1, self.packet(slower).as_seconds())
            }
            Part::Scheduler => {
                // Two events per iteration, and the reply.
                let events = match design {
                    Design::Disaggregated { .. } => 2 * profile.iterations.len() as u64 + 1,
                    Design::Coupled { .. } => 0,
                };
                (1, self.cycles(events).as_seconds())
            }
        };
        units as f64 / seconds
    }

    /// Returns the requests per second that no run exceeds, and the part that limits them.
    pub fn bound(&self, design: Design, profile: &Profile) -> (f64, Part) {
        let rates = Part::ALL.map(|part| (self.rate_max(design, profile, part), part));
        let least = rates
            .into_iter()
            .min_by(|one, other| one.0.total_cmp(&other.0));
        least.unwrap_or((f64::INFINITY, Part::Logic))
    }

    /// Returns the time for which a traversal that never waits holds its workspace.
    pub fn alone(&self, design: Design, profile: &Profile) -> Time {
        let schedule = match design {
            Design::Disaggregated { .. } => self.cycles(self.schedule_cycles),
            Design::Coupled { .. } => Time::ZERO,
        };
        let mut time = schedule;
        for &(bytes, instructions) in &profile.iterations {
            let fetch = self.fetch(0, bytes);
            time = time + schedule + fetch + schedule + self.logic(instructions);
        }
        time
    }
}
