//! One row for all experiments: contestant, task, rate, and fields that an experiment adds.

use crate::harness::Latency;
use serde::{Deserialize, Serialize};

/// What was measured, in the words of the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Setting {
    /// The key set.
    pub keys: String,
    /// The number of keys in it.
    pub count: usize,
    /// The mix of operations.
    pub mix: String,
    /// How keys are chosen.
    pub distribution: String,
    /// Threads that share the map, or clients.
    pub threads: usize,
    /// Operations in a batch of Nearfield; 1 is one at a time. Peers always do one at a time.
    pub batch: usize,
}

/// How a number came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// By a clock.
    Measured,
    /// By counting events.
    Counted,
    /// From a model of hardware.
    Modelled,
}

impl Kind {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Measured => "measured",
            Kind::Counted => "counted",
            Kind::Modelled => "modelled",
        }
    }
}

/// What one contestant did in one setting; `detail` is what only this experiment knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row<D> {
    /// What was measured; `None` where nothing was asked of the contestant.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub setting: Option<Setting>,
    /// The contestant's name, or `limit` for the machine's.
    pub peer: String,
    /// Millions of operations: of a map for each second of CPU time, the median of the slices; of a
    /// model for each second of virtual time. Null where there is no rate.
    pub rate_mops: Option<f64>,
    /// Latencies; of batches where operations come in batches.
    pub latency_ns: Option<Latency>,
    /// Memory for each key.
    pub bytes_per_key: Option<f64>,
    /// What else there is.
    #[serde(flatten)]
    pub detail: D,
    /// How the numbers came to be.
    pub kind: Kind,
}
