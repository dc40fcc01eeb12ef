//! The work of an accelerator, and the time for which its parts were busy.

use super::{PulseDesign, PulseParameters};
use crate::VirtualTime;

/// The sums over the whole work of an accelerator so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PulseUsage {
    /// Number of traversals that have left.
    pub departures: u64,
    /// Number of iterations whose logic was executed.
    pub iterations: u64,
    /// Number of instructions of these.
    pub instructions: u64,
    /// Number of bytes between channels and pipelines, in whole words.
    pub bytes: u64,
    /// Total time for which memory pipelines were occupied.
    pub memory_busy: VirtualTime,
    /// Total time for which logic pipelines were occupied.
    pub logic_busy: VirtualTime,
    /// Total time for which channels were occupied.
    pub channels_busy: VirtualTime,
    /// Total time for which workspaces held a traversal.
    pub workspaces_busy: VirtualTime,
    /// The parts of the time of traversals.
    pub breakdown: Breakdown,
}

/// The parts of the time of traversals, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// Time in the network stack, in both directions.
    pub network: VirtualTime,
    /// Time of fetches and stores: from the start of a translation to the last byte.
    pub memory: VirtualTime,
    /// Time in logic pipelines.
    pub logic: VirtualTime,
    /// Time from an event to the pipeline that it starts.
    pub schedule: VirtualTime,
    /// The remaining time: waits for a workspace or a pipeline.
    pub waiting: VirtualTime,
    /// Number of fetches and stores.
    pub fetches: u64,
}

impl PulseUsage {
    /// Returns the shares of the time for which memory pipelines, logic pipelines and channels were
    /// busy.
    pub fn shares(
        &self,
        parameters: &PulseParameters,
        design: PulseDesign,
        time: VirtualTime,
    ) -> [f64; 3] {
        // All units of a kind together could be busy for the time times their number.
        let share =
            |busy: VirtualTime, units: usize| busy.as_seconds() / time.as_seconds() / units as f64;
        [
            share(self.memory_busy, design.memory()),
            share(self.logic_busy, design.logic()),
            share(self.channels_busy, parameters.channels),
        ]
    }
}
