//! The size of a run.

use crate::error::LabError;
use crate::figures::paper;
use serde::{Deserialize, Serialize};

/// Number of requests, and the part of the paper's keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PulseScale {
    /// Number of requests of a point that measures throughput.
    pub requests: usize,
    /// Number of requests of a point that only follows traversals, without hardware.
    pub traversals: usize,
    /// Number of keys for each 100 of the paper's. Nodes take no memory, so all can be present.
    pub keys_percent: u64,
    /// The seed of everything random.
    pub seed: u64,
}

/// A figure of this paper.
pub(super) type Figure = paper::Figure<PulseScale>;

impl PulseScale {
    /// Creates a scale for minutes.
    #[must_use]
    pub fn quick() -> PulseScale {
        PulseScale {
            requests: 3000,
            traversals: 40_000,
            ..PulseScale::full()
        }
    }

    /// Creates a scale with more requests for each point.
    #[must_use]
    pub fn full() -> PulseScale {
        PulseScale {
            requests: 30_000,
            traversals: 400_000,
            keys_percent: 100,
            seed: 1,
        }
    }

    /// Creates a scale for seconds, for tests.
    #[cfg(test)]
    pub(in crate::figures) fn tiny() -> PulseScale {
        PulseScale {
            requests: 60,
            traversals: 300,
            ..PulseScale::full()
        }
    }

    /// Sets the number of requests for each point.
    ///
    /// # Errors
    /// `OutOfRange` for less than a hundred or more than 10 million.
    pub fn with_requests(self, requests: u64) -> Result<PulseScale, LabError> {
        if !(100..=10_000_000).contains(&requests) {
            return Err(LabError::OutOfRange {
                subject: "--count",
                given: requests.to_string(),
                allowed: "100 to 10000000".to_owned(),
            });
        }
        let requests = requests as usize;
        Ok(PulseScale { requests, ..self })
    }

    /// Scales a number of keys of the paper.
    pub(super) fn keys(&self, of_paper: u64) -> u64 {
        of_paper / 100 * self.keys_percent
    }
}
