//! How large a run is.

use crate::error::LabError;
use crate::figures::paper;
use serde::{Deserialize, Serialize};

/// Keys and operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// Keys of a set that is generated in any size: 50M in the paper.
    pub synthetic_keys: u64,
    /// E-mail addresses.
    pub email_keys: u64,
    /// Operations of a point.
    pub dcart_operations: usize,
    /// Operations of rivals that are timed, for each of three repetitions.
    pub timed_operations: usize,
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
            synthetic_keys: 1_000_000,
            email_keys: 300_000,
            dcart_operations: 300_000,
            timed_operations: 1_000_000,
            seed: 1,
        }
    }

    /// A fifth of the paper's generated keys.
    #[must_use]
    pub fn full() -> Scale {
        Scale {
            synthetic_keys: 10_000_000,
            email_keys: 1_000_000,
            dcart_operations: 2_000_000,
            timed_operations: 10_000_000,
            ..Scale::quick()
        }
    }

    /// Seconds, for tests.
    #[cfg(test)]
    pub(in crate::figures) fn tiny() -> Scale {
        Scale {
            synthetic_keys: 3000,
            email_keys: 3000,
            dcart_operations: 4000,
            timed_operations: 4000,
            ..Scale::quick()
        }
    }

    /// With so many keys of each generated set.
    ///
    /// # Errors
    /// `OutOfRange` for less than a thousand or more than 50 million.
    pub fn with_keys(self, keys: u64) -> Result<Scale, LabError> {
        if !(1000..=50_000_000).contains(&keys) {
            return Err(LabError::OutOfRange {
                what: "--count",
                given: keys.to_string(),
                allowed: "1000 to 50000000".to_owned(),
            });
        }
        let synthetic_keys = keys;
        Ok(Scale {
            synthetic_keys,
            ..self
        })
    }
}
