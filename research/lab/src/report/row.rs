//! One row for all experiments: contestant, task, rate, and fields that an experiment adds.

use crate::harness::LatencySummary;
use serde::{Deserialize, Serialize};

/// The setting of a measurement, in the words of the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MeasurementSetting {
    /// The key set.
    pub keys: String,
    /// The number of its keys.
    pub count: usize,
    /// The mix of operations.
    pub mix: String,
    /// The distribution of the keys.
    pub distribution: String,
    /// Number of threads that share the map, or of clients.
    pub threads: usize,
    /// Number of operations in a batch of Nearfield; 1 is one at a time. Peers always execute one
    /// at a time.
    pub batch: usize,
}

/// The origin of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NumberOrigin {
    /// A number from a clock.
    Measured,
    /// A number from counting events.
    Counted,
    /// A number from a model of hardware.
    Modelled,
}

impl NumberOrigin {
    /// Returns the word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            NumberOrigin::Measured => "measured",
            NumberOrigin::Counted => "counted",
            NumberOrigin::Modelled => "modelled",
        }
    }
}

/// The results of one contestant in one setting; `detail` has the fields of a single experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportRow<D> {
    /// The setting; `None` if the contestant had no requests.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub setting: Option<MeasurementSetting>,
    /// The contestant's name, or `limit` for the machine's.
    pub peer: String,
    /// Millions of operations: of a map per second of CPU time, the median of the slices; of a
    /// model per second of virtual time. Null if there is no rate.
    pub rate_mops: Option<f64>,
    /// Latencies: of batches if operations come in batches.
    pub latency_ns: Option<LatencySummary>,
    /// Bytes of memory for each key.
    pub bytes_per_key: Option<f64>,
    /// The other fields of the experiment.
    #[serde(flatten)]
    pub detail: D,
    /// The origin of the numbers.
    pub kind: NumberOrigin,
}

impl<D> ReportRow<D> {
    /// Creates a row without setting, rate, latencies and memory.
    pub fn new(peer: impl Into<String>, kind: NumberOrigin, detail: D) -> ReportRow<D> {
        ReportRow {
            setting: None,
            peer: peer.into(),
            rate_mops: None,
            latency_ns: None,
            bytes_per_key: None,
            detail,
            kind,
        }
    }
}
