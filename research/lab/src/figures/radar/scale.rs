//! The size of a run.

use crate::error::{LabError, check_range};
use crate::figures::paper;
use crate::memory::available_bytes;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Number of keys, modules and batches, at the paper's density: the same number of operations of a
/// batch for each module, and keys in proportion to the square of the number of modules. So a
/// subrange that is divided as far as possible has as many keys as in the paper, and a key of the
/// hottest segment as many operations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RadarScale {
    /// Number of keys, in place of the paper's 500 million.
    pub keys: usize,
    /// Number of modules; the paper has 2048.
    pub modules: usize,
    /// Number of operations of a batch; the paper has 2 million. A batch of scans has a hundredth.
    pub batch: usize,
    /// Number of batches before any counts: subranges follow the load in the first of them.
    pub warming: usize,
    /// Number of batches that count.
    pub batches: usize,
    /// True if axes have a few points only.
    pub coarse: bool,
    /// The text with the words that are keys; `None` for a generated one.
    pub text: Option<PathBuf>,
    /// The seed of everything random.
    pub seed: u64,
}

/// A figure of this paper.
pub(super) type Figure = paper::Figure<RadarScale>;

/// Number of keys divided by the square of the number of modules: 500 million by that of 2048 is
/// 119.
const KEYS_BY_MODULES: usize = 122;
/// Number of keys that the paper loads.
const PAPER_KEYS: usize = 500_000_000;
/// The most keys; more take days.
const KEYS_MAX: usize = 125_000_000;
/// Bytes of a key with its tower in the largest index, and in the lab's own data.
pub(super) const BYTES_PER_KEY: usize = 150;
/// Bytes of an operation in a batch, with its task and its outcome.
pub(super) const BYTES_PER_OPERATION: usize = 400;

impl RadarScale {
    /// Creates a scale for minutes: 64 modules, with as many operations each as in the paper.
    #[must_use]
    pub fn quick() -> RadarScale {
        RadarScale {
            keys: KEYS_BY_MODULES * 64 * 64,
            modules: 64,
            batch: 62_500,
            warming: 1,
            batches: 1,
            coarse: true,
            text: None,
            seed: 1,
        }
    }

    /// Creates the scale of the paper, with as many of its modules as memory has room for.
    #[must_use]
    pub fn full() -> RadarScale {
        // Two runs at the same time must fit.
        let room = available_bytes().unwrap_or(u64::MAX / 2) as usize / 2;
        let counts = [2048, 1024, 512, 256, 128];
        let scales = counts.map(|modules| RadarScale {
            warming: 2,
            batches: 4,
            coarse: false,
            ..RadarScale::quick().dense(modules)
        });
        let fits = |scale: &&RadarScale| scale.bytes() <= room && scale.keys <= KEYS_MAX;
        let found = scales
            .iter()
            .find(fits)
            .unwrap_or(&scales[counts.len() - 1]);
        found.clone()
    }

    /// Changes the number of modules at the same density.
    fn dense(self, modules: usize) -> RadarScale {
        RadarScale {
            keys: KEYS_BY_MODULES * modules * modules,
            modules,
            batch: self.batch * modules / self.modules,
            ..self
        }
    }

    /// Creates a scale for milliseconds a point, for tests.
    #[cfg(test)]
    pub(in crate::figures) fn tiny() -> RadarScale {
        RadarScale {
            keys: 20_000,
            modules: 16,
            batch: 4000,
            ..RadarScale::quick()
        }
    }

    /// Changes the number of keys.
    ///
    /// # Errors
    /// `OutOfRange` for less than ten thousand keys or more than 125 million.
    pub fn with_keys(self, keys: u64) -> Result<RadarScale, LabError> {
        check_range("--count", keys, 10_000..=KEYS_MAX as u64)?;
        let keys = keys as usize;
        Ok(RadarScale { keys, ..self })
    }

    /// Changes the number of modules. Each has as many operations of a batch as before. The number
    /// of keys is proportional to the square of the number of modules, but at most 125 million.
    ///
    /// # Errors
    /// `OutOfRange` for less than 16 modules or more than 4096.
    pub fn with_modules(self, modules: u64) -> Result<RadarScale, LabError> {
        check_range("--modules", modules, 16..=4096)?;
        let scale = self.dense(modules as usize);
        let keys = scale.keys.min(KEYS_MAX);
        Ok(RadarScale { keys, ..scale })
    }

    /// Takes the words of a text as keys.
    #[must_use]
    pub fn with_text(self, text: Option<PathBuf>) -> RadarScale {
        RadarScale { text, ..self }
    }

    /// Returns the number of keys as a part of the paper's.
    #[must_use]
    pub fn part(&self) -> f64 {
        self.keys as f64 / PAPER_KEYS as f64
    }

    /// Returns the number of keys relative to the paper's for as many modules.
    pub(super) fn density(&self) -> f64 {
        self.keys as f64 / (KEYS_BY_MODULES * self.modules * self.modules) as f64
    }

    /// Returns the degrees of skew.
    pub(super) fn alphas(&self) -> &'static [f64] {
        match self.coarse {
            true => &[0.0, 0.6, 0.99, 1.2],
            false => &[0.0, 0.2, 0.4, 0.6, 0.8, 0.99, 1.2],
        }
    }

    /// Returns the memory of a run, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.keys * BYTES_PER_KEY + self.batch * BYTES_PER_OPERATION
    }
}
