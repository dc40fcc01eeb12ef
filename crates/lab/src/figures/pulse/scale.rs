//! How large a run is.

use crate::error::LabError;
use crate::figures::paper;
use serde::{Deserialize, Serialize};

/// Requests, and the part of the paper's keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// Requests of a point where throughput is of interest.
    pub requests: usize,
    /// Requests of a point where the traversals of requests are of interest, without hardware.
    pub traversals: usize,
    /// Keys in place of each 100 of the paper. Nodes take no memory, so that all can be there.
    pub keys_percent: u64,
    /// Determines everything random.
    pub seed: u64,
}

/// A figure of this paper.
pub(super) type Figure = paper::Figure<Scale>;

impl Scale {
    /// Minutes.
    #[must_use]
    pub fn quick() -> Scale {
        Scale {
            requests: 3000,
            traversals: 40_000,
            ..Scale::full()
        }
    }

    /// More requests for each point.
    #[must_use]
    pub fn full() -> Scale {
        Scale {
            requests: 30_000,
            traversals: 400_000,
            keys_percent: 100,
            seed: 1,
        }
    }

    /// Seconds, for tests.
    #[cfg(test)]
    pub(in crate::figures) fn tiny() -> Scale {
        Scale {
            requests: 60,
            traversals: 300,
            ..Scale::full()
        }
    }

    /// With so many requests for each point.
    ///
    /// # Errors
    /// `OutOfRange` for less than a hundred or more than 10 million.
    pub fn with_requests(self, requests: u64) -> Result<Scale, LabError> {
        if !(100..=10_000_000).contains(&requests) {
            return Err(LabError::OutOfRange {
                what: "--count",
                given: requests.to_string(),
                allowed: "100 to 10000000".to_owned(),
            });
        }
        let requests = requests as usize;
        Ok(Scale { requests, ..self })
    }

    /// As many keys as in place of these.
    pub(super) fn keys(&self, of_paper: u64) -> u64 {
        of_paper / 100 * self.keys_percent
    }
}
