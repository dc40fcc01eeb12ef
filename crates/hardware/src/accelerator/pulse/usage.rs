//! What an accelerator has done, and how long its parts were busy.

use super::{Design, Parameters};
use crate::Time;

/// Sums over everything that an accelerator has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Traversals that have left.
    pub departures: u64,
    /// Iterations whose logic was executed.
    pub iterations: u64,
    /// Instructions of them.
    pub instructions: u64,
    /// Bytes between channels and pipelines.
    pub bytes: u64,
    /// How long memory pipelines were occupied, added up.
    pub memory_busy: Time,
    /// How long logic pipelines were.
    pub logic_busy: Time,
    /// How long channels were.
    pub channels_busy: Time,
    /// How long workspaces held a traversal.
    pub workspaces_busy: Time,
    /// What traversals have spent their time on.
    pub breakdown: Breakdown,
}

/// Where traversals have spent their time, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// In the network stack, on both ways.
    pub network: Time,
    /// Fetching and storing: from the start of a translation to the last byte.
    pub memory: Time,
    /// In logic pipelines.
    pub logic: Time,
    /// From an event to the pipeline that it starts.
    pub schedule: Time,
    /// The rest: for a workspace, for a pipeline.
    pub waiting: Time,
    /// Fetches and stores.
    pub fetches: u64,
}

impl Usage {
    /// The parts of the time that memory pipelines, logic pipelines and channels were busy.
    pub fn shares(&self, parameters: &Parameters, design: Design, time: Time) -> [f64; 3] {
        let share = |busy: Time, units: usize| busy.as_seconds() / time.as_seconds() / units as f64;
        [
            share(self.memory_busy, design.memory()),
            share(self.logic_busy, design.logic()),
            share(self.channels_busy, parameters.channels),
        ]
    }
}
