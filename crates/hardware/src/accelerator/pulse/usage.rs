//! The work of an accelerator, and the time for which its parts were busy.

use super::{Design, Parameters};
use crate::Time;

/// The sums over the whole work of an accelerator so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of traversals that have left.
    pub departures: u64,
    /// Number of iterations whose logic was executed.
    pub iterations: u64,
    /// Number of instructions of these.
    pub instructions: u64,
    /// Number of bytes between channels and pipelines.
    pub bytes: u64,
    /// Total time for which memory pipelines were occupied.
    pub memory_busy: Time,
    /// Total time for which logic pipelines were occupied.
    pub logic_busy: Time,
    /// Total time for which channels were occupied.
    pub channels_busy: Time,
    /// Total time for which workspaces held a traversal.
    pub workspaces_busy: Time,
    /// The parts of the time of traversals.
    pub breakdown: Breakdown,
}

/// The parts of the time of traversals, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// Time in the network stack, in both directions.
    pub network: Time,
    /// Time of fetches and stores: from the start of a translation to the last byte.
    pub memory: Time,
    /// Time in logic pipelines.
    pub logic: Time,
    /// Time from an event to the pipeline that it starts.
    pub schedule: Time,
    /// The remaining time: waits for a workspace or a pipeline.
    pub waiting: Time,
    /// Number of fetches and stores.
    pub fetches: u64,
}

impl Usage {
    /// Returns the shares of the time for which memory pipelines, logic pipelines and channels were
    /// busy.
    pub fn shares(&self, parameters: &Parameters, design: Design, time: Time) -> [f64; 3] {
        let share = |busy: Time, units: usize| busy.as_seconds() / time.as_seconds() / units as f64;
        [
            share(self.memory_busy, design.memory()),
            share(self.logic_busy, design.logic()),
            share(self.channels_busy, parameters.channels),
        ]
    }
}
