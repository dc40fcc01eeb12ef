//! The size of a run.

use crate::error::LabError;
use crate::figures::paper;
use nearfield_tiers::policy::AdmSettings;
use serde::{Deserialize, Serialize};

/// Number of objects and requests, and of the lines among them that the model of memory executes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdmScale {
    /// Number of objects, in place of the paper's 100,000.
    pub objects: usize,
    /// Requests for each object; the paper has 100. Intervals are in requests for each object, too.
    pub requests_per_object: usize,
    /// Number of objects of the runs on the real server; without any, there are no such runs.
    pub server_objects: usize,
    /// Lines of each run that the model of memory executes, in windows over the whole run.
    pub lines: usize,
    /// The fast memory's part of the bytes of all objects.
    pub capacity: f64,
    /// The deviation of the keys as a part of their number.
    pub deviation: f64,
    /// The counter above which ADM's policy promotes an object.
    pub threshold_in: u8,
    /// The counter below which ADM's policy demotes an object.
    pub threshold_out: u32,
    /// Bytes that our policy moves in a second at most, for each object.
    pub our_bytes_per_second: u64,
    /// The seed of everything random.
    pub seed: u64,
}

/// A figure of this paper.
pub(super) type Figure = paper::Figure<AdmScale>;

/// The most objects.
const OBJECTS_MAX: u64 = 10_000_000;

impl AdmScale {
    /// Creates a scale for minutes: a fifth of the paper's objects and requests.
    #[must_use]
    pub fn quick() -> AdmScale {
        AdmScale {
            objects: 20_000,
            server_objects: 4000,
            lines: 300_000,
            ..AdmScale::full()
        }
    }

    /// Creates the scale of the paper.
    #[must_use]
    pub fn full() -> AdmScale {
        AdmScale {
            objects: 100_000,
            server_objects: 100_000,
            requests_per_object: 100,
            lines: 1_000_000,
            capacity: 0.3,
            deviation: 0.1,
            threshold_in: AdmSettings::default().threshold_in,
            threshold_out: AdmSettings::default().threshold_out,
            our_bytes_per_second: 1024,
            seed: 1,
        }
    }

    /// Creates a scale for seconds, for tests.
    #[cfg(test)]
    pub(in crate::figures) fn tiny() -> AdmScale {
        AdmScale {
            objects: 1000,
            server_objects: 0,
            // Several windows of each run: in the first one nothing has moved yet.
            lines: 16_000,
            ..AdmScale::full()
        }
    }

    /// Returns the same scale with policies that move nothing.
    #[cfg(test)]
    pub(in crate::figures) fn with_idle_policies(self) -> AdmScale {
        AdmScale {
            threshold_in: u8::MAX,
            threshold_out: 0,
            our_bytes_per_second: 0,
            ..self
        }
    }

    /// Changes the number of objects.
    ///
    /// # Errors
    /// `OutOfRange` for less than a thousand objects or more than 10 million.
    pub fn with_keys(self, objects: u64) -> Result<AdmScale, LabError> {
        if !(1000..=OBJECTS_MAX).contains(&objects) {
            return Err(LabError::OutOfRange {
                subject: "--count",
                given: objects.to_string(),
                allowed: format!("1000 to {OBJECTS_MAX}"),
            });
        }
        let objects = objects as usize;
        let server_objects = self.server_objects * objects / self.objects;
        Ok(AdmScale {
            objects,
            server_objects,
            ..self
        })
    }

    /// Changes the fast memory's part of the bytes of all objects.
    ///
    /// # Errors
    /// `OutOfRange` for a part that is not between 1 and 99 percent.
    pub fn with_capacity_percent(self, percent: f64) -> Result<AdmScale, LabError> {
        if !(1.0..=99.0).contains(&percent) {
            return Err(LabError::OutOfRange {
                subject: "--capacity",
                given: percent.to_string(),
                allowed: "1 to 99 percent of the bytes of all objects".to_owned(),
            });
        }
        let capacity = percent / 100.0;
        Ok(AdmScale { capacity, ..self })
    }

    /// Changes ADM's thresholds.
    #[must_use]
    pub fn with_thresholds(self, threshold_in: u8, threshold_out: u32) -> AdmScale {
        AdmScale {
            threshold_in,
            threshold_out,
            ..self
        }
    }

    /// Returns the number of requests of a run.
    pub(super) fn requests(&self) -> usize {
        self.objects * self.requests_per_object
    }
}
