//! The size of a run.

use crate::error::LabError;
use crate::figures::paper;
use crate::memory::available_bytes;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Keys, modules and batches. How much skew does depends on the number of modules and on how many
/// operations a batch has for each; so these stay as in the paper, and only keys are fewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scale {
    /// Keys in place of the paper's 500 million.
    pub keys: usize,
    /// Modules; the paper has 2048.
    pub modules: usize,
    /// Operations of a batch; the paper has 2 million. A hundredth of that are scans.
    pub batch: usize,
    /// Batches before any counts: subranges follow the load in the first of them.
    pub warming: usize,
    /// Batches that count.
    pub batches: usize,
    /// Whether axes have a few points only.
    pub coarse: bool,
    /// The text whose words are keys; `None`: a made-up one.
    pub text: Option<PathBuf>,
    /// Determines everything random.
    pub seed: u64,
}

/// A figure of this paper.
pub(super) type Figure = paper::Figure<Scale>;

/// What the paper loads.
const PAPER_KEYS: usize = 500_000_000;
/// More keys than this take days.
const KEYS_MAX: usize = 125_000_000;
/// What a key takes with its tower, in the largest index, and beside it in the lab.
pub(super) const BYTES_PER_KEY: usize = 150;
/// What an operation takes in a batch, with its task and its answer.
pub(super) const BYTES_PER_OPERATION: usize = 400;

impl Scale {
    /// Minutes: 256 modules with as many operations each as in the paper, a million keys.
    #[must_use]
    pub fn quick() -> Scale {
        Scale {
            keys: 1_000_000,
            modules: 256,
            batch: 250_000,
            warming: 1,
            batches: 1,
            coarse: true,
            text: None,
            seed: 1,
        }
    }

    /// As the paper, as far as memory allows.
    #[must_use]
    pub fn full() -> Scale {
        let available = available_bytes().unwrap_or(u64::MAX / 2) as usize;
        let scale = Scale {
            keys: 0,
            modules: 2048,
            batch: 2_000_000,
            warming: 2,
            batches: 4,
            coarse: false,
            ..Scale::quick()
        };
        // Two runs at the same time.
        let room = (available / 2).saturating_sub(scale.batch * BYTES_PER_OPERATION);
        let keys = (room / BYTES_PER_KEY).clamp(1_000_000, KEYS_MAX);
        Scale { keys, ..scale }
    }

    /// Milliseconds a point, for tests.
    #[cfg(test)]
    pub(in crate::figures) fn tiny() -> Scale {
        Scale {
            keys: 20_000,
            modules: 16,
            batch: 4000,
            ..Scale::quick()
        }
    }

    /// With another number of keys.
    ///
    /// # Errors
    /// `OutOfRange` for less than ten thousand keys or more than 125 million.
    pub fn with_keys(self, keys: u64) -> Result<Scale, LabError> {
        if !(10_000..=KEYS_MAX as u64).contains(&keys) {
            return Err(LabError::OutOfRange {
                what: "--count",
                given: keys.to_string(),
                allowed: format!("10000 to {KEYS_MAX}"),
            });
        }
        let keys = keys as usize;
        Ok(Scale { keys, ..self })
    }

    /// With another number of modules, each with as many operations of a batch.
    ///
    /// # Errors
    /// `OutOfRange` for less than 16 modules or more than 4096.
    pub fn with_modules(self, modules: u64) -> Result<Scale, LabError> {
        if !(16..=4096).contains(&modules) {
            return Err(LabError::OutOfRange {
                what: "--modules",
                given: modules.to_string(),
                allowed: "16 to 4096".to_owned(),
            });
        }
        let modules = modules as usize;
        let batch = self.batch * modules / self.modules;
        Ok(Scale {
            modules,
            batch,
            ..self
        })
    }

    /// With the words of a text.
    #[must_use]
    pub fn with_text(self, text: Option<PathBuf>) -> Scale {
        Scale { text, ..self }
    }

    /// The number of keys as a part of the paper's.
    #[must_use]
    pub fn part(&self) -> f64 {
        self.keys as f64 / PAPER_KEYS as f64
    }

    /// Degrees of skew.
    pub(super) fn alphas(&self) -> &'static [f64] {
        match self.coarse {
            true => &[0.0, 0.6, 0.99, 1.2],
            false => &[0.0, 0.2, 0.4, 0.6, 0.8, 0.99, 1.2],
        }
    }

    /// What a run takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.keys * BYTES_PER_KEY + self.batch * BYTES_PER_OPERATION
    }
}
