//! The size of a run.

use crate::error::{LabError, check_range};
use crate::figures::paper;
use crate::memory::available_bytes;
use serde::{Deserialize, Serialize};

/// Number of keys, clients and operations. The paper's caches, hotspot buffers and numbers of keys
/// are all scaled by the same factor, so that the same parts of an index fit into a cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChimeScale {
    /// Number of keys, in place of the paper's 60 million.
    pub keys: usize,
    /// Number of clients, in place of the paper's 640.
    pub clients: usize,
    /// Number of compute nodes; the paper has 10.
    pub compute_nodes: usize,
    /// Number of operations of a point.
    pub operations: usize,
    /// Operations of a compute node for each key that warm its cache before throughput is compared:
    /// hotspot buffers learn slowly.
    pub warming: usize,
    /// True if axes have a few points only.
    pub coarse: bool,
    /// The seed of everything random.
    pub seed: u64,
}

/// A figure of this paper.
pub(super) type Figure = paper::Figure<ChimeScale>;

/// Number of keys that the paper loads.
const PAPER_KEYS: usize = 60_000_000;
/// Greatest number of clients of the paper.
const PAPER_CLIENTS: usize = 640;
/// The most bytes of the pool that an index takes for a key: SMART gives a leaf 256 bytes, and has
/// internal nodes of 2304.
pub(super) const POOL_BYTES_PER_KEY: usize = 600;
/// Bytes that a cache takes besides its counted ones, and a run besides its pool.
const OVERHEAD_BYTES: u64 = 1 << 30;

impl ChimeScale {
    /// Creates a scale for minutes: 300,000 keys.
    #[must_use]
    pub fn quick() -> ChimeScale {
        ChimeScale {
            keys: 300_000,
            clients: PAPER_CLIENTS,
            compute_nodes: 10,
            operations: 120_000,
            warming: 3,
            coarse: true,
            seed: 1,
        }
    }

    /// Creates the scale of the paper, as far as memory allows.
    #[must_use]
    pub fn full() -> ChimeScale {
        let available = available_bytes().unwrap_or(u64::MAX / 2);
        let room = available.saturating_sub(OVERHEAD_BYTES) as usize / POOL_BYTES_PER_KEY;
        ChimeScale {
            // The largest points of figure 14 have twice as many keys.
            keys: (room / 2).clamp(100_000, PAPER_KEYS),
            operations: 2_000_000,
            warming: 1,
            coarse: false,
            ..ChimeScale::quick()
        }
    }

    /// Creates a scale for milliseconds a point, for tests.
    #[cfg(test)]
    pub(in crate::figures) fn tiny() -> ChimeScale {
        ChimeScale {
            keys: 3000,
            clients: 16,
            compute_nodes: 2,
            operations: 1500,
            warming: 1,
            ..ChimeScale::quick()
        }
    }

    /// Changes the number of keys.
    ///
    /// # Errors
    /// `OutOfRange` for less than a thousand keys or more than the paper's.
    pub fn with_keys(self, keys: u64) -> Result<ChimeScale, LabError> {
        check_range("--count", keys, 1000..=PAPER_KEYS as u64)?;
        let keys = keys as usize;
        Ok(ChimeScale { keys, ..self })
    }

    /// Returns the number of keys as a part of the paper's.
    #[must_use]
    pub fn part(&self) -> f64 {
        self.keys as f64 / PAPER_KEYS as f64
    }

    /// Scales a number that the paper has at 60 million keys to this number of keys.
    pub(super) fn scaled(&self, of_paper: usize) -> usize {
        (of_paper as f64 * self.part()).round() as usize
    }

    /// Scales megabytes of the paper, and returns bytes.
    pub(super) fn megabytes(&self, of_paper: usize) -> usize {
        self.scaled(of_paper * 1_000_000)
    }

    /// Scales bytes at this number of keys to megabytes at the paper's.
    pub(super) fn paper_megabytes(&self, bytes: f64) -> f64 {
        bytes / self.part() / 1e6
    }

    /// Scales a number of clients of the paper.
    pub(super) fn clients(&self, of_paper: usize) -> usize {
        (of_paper * self.clients / PAPER_CLIENTS).max(1)
    }

    /// Returns the points of an axis: all, or for a coarse scale the first, the last and one
    /// between.
    pub(super) fn points(&self, all: &[usize]) -> Vec<usize> {
        if !self.coarse || all.len() <= 3 {
            return all.to_vec();
        }
        let last = all.len() - 1;
        [0, last / 2, last].map(|point| all[point]).to_vec()
    }
}
