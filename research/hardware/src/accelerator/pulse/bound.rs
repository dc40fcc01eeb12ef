//! The throughput that no run exceeds with channels without banks: that of the slowest part.

use super::{PulseDesign, PulseParameters};
use crate::VirtualTime;

/// The use of each part by one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PulseRequestProfile {
    /// The bytes and the instructions of each iteration. Fetches are aligned to bursts.
    pub iterations: Vec<(u32, u32)>,
    /// The bytes of the request's packet.
    pub request_bytes: u32,
    /// The bytes of the reply's packet.
    pub reply_bytes: u32,
}

/// A part that limits throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PulsePart {
    /// Logic pipelines.
    Logic,
    /// Memory pipelines.
    Memory,
    /// The channels of DRAM.
    Channels,
    /// The interconnect that the channels share.
    Interconnect,
    /// The workspaces: each holds one traversal at a time, which takes as long as one alone.
    Workspaces,
    /// The network stack.
    Network,
    /// The scheduler, which takes one event per cycle.
    Scheduler,
}

impl PulsePart {
    /// All parts.
    pub const ALL: [PulsePart; 7] = [
        PulsePart::Logic,
        PulsePart::Memory,
        PulsePart::Channels,
        PulsePart::Interconnect,
        PulsePart::Workspaces,
        PulsePart::Network,
        PulsePart::Scheduler,
    ];

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            PulsePart::Logic => "logic",
            PulsePart::Memory => "memory",
            PulsePart::Channels => "channels",
            PulsePart::Interconnect => "interconnect",
            PulsePart::Workspaces => "workspaces",
            PulsePart::Network => "network",
            PulsePart::Scheduler => "scheduler",
        }
    }
}

impl PulseParameters {
    /// Returns the requests per second that a part can serve, if the others are as fast as it
    /// needs.
    pub fn rate_max(
        &self,
        design: PulseDesign,
        profile: &PulseRequestProfile,
        part: PulsePart,
    ) -> f64 {
        let sum = |time: fn(&PulseParameters, u32, u32) -> VirtualTime| {
            let times = profile.iterations.iter();
            let times = times.map(|&(bytes, instructions)| time(self, bytes, instructions));
            times
                .fold(VirtualTime::ZERO, |sum, time| sum + time)
                .as_seconds()
        };
        let bursts = |parameters: &PulseParameters, bytes: u32| {
            let bursts = parameters.bursts(0, bytes);
            bursts.fold(VirtualTime::ZERO, |sum, (bytes, _)| {
                sum + parameters.burst(bytes)
            })
        };
        let (units, seconds) = match part {
            PulsePart::Logic => (
                design.logic(),
                sum(|parameters, _, instructions| parameters.logic(instructions)),
            ),
            PulsePart::Memory => {
                let translations = profile.iterations.len() as u64 * self.translate_cycles;
                let bursts = profile
                    .iterations
                    .iter()
                    .map(|&(bytes, _)| bursts(self, bytes));
                let bursts = bursts.fold(VirtualTime::ZERO, |sum, time| sum + time);
                (
                    design.memory(),
                    (self.cycles(translations) + bursts).as_seconds(),
                )
            }
            PulsePart::Channels | PulsePart::Interconnect => {
                let times = profile
                    .iterations
                    .iter()
                    .map(|&(bytes, _)| bursts(self, bytes));
                let times = times.fold(VirtualTime::ZERO, |sum, time| sum + time);
                let units = match (part, self.shares_interconnect) {
                    (PulsePart::Interconnect, true) => 1,
                    // Without a shared one each channel has its own.
                    _ => self.channels,
                };
                (units, times.as_seconds())
            }
            PulsePart::Workspaces => (
                design.workspaces(),
                self.alone(design, profile).as_seconds(),
            ),
            PulsePart::Network => {
                // Both directions work at the same time, so the larger packet limits.
                let slower = profile.request_bytes.max(profile.reply_bytes);
                (1, self.packet(slower).as_seconds())
            }
            PulsePart::Scheduler => {
                // Two events per iteration, and the reply.
                let events = match design {
                    PulseDesign::Disaggregated { .. } => 2 * profile.iterations.len() as u64 + 1,
                    PulseDesign::Coupled { .. } => 0,
                };
                (1, self.cycles(events).as_seconds())
            }
        };
        units as f64 / seconds
    }

    /// Returns the requests per second that no run exceeds, and the part that limits them.
    pub fn bound(&self, design: PulseDesign, profile: &PulseRequestProfile) -> (f64, PulsePart) {
        let rates = PulsePart::ALL.map(|part| (self.rate_max(design, profile, part), part));
        let least = rates
            .into_iter()
            .min_by(|one, other| one.0.total_cmp(&other.0));
        least.unwrap_or((f64::INFINITY, PulsePart::Logic))
    }

    /// Returns the time for which a traversal that never waits holds its workspace.
    pub fn alone(&self, design: PulseDesign, profile: &PulseRequestProfile) -> VirtualTime {
        let schedule = match design {
            PulseDesign::Disaggregated { .. } => self.cycles(self.schedule_cycles),
            PulseDesign::Coupled { .. } => VirtualTime::ZERO,
        };
        // The reply is scheduled, too.
        let mut time = schedule;
        for &(bytes, instructions) in &profile.iterations {
            let fetch = self.fetch(0, bytes);
            time = time + schedule + fetch + schedule + self.logic(instructions);
        }
        time
    }
}
