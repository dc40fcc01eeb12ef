//! The size of a run.

use crate::error::LabError;
use crate::figures::paper;
use crate::memory::available_bytes;
use serde::{Deserialize, Serialize};

/// Keys, clients and operations. Caches, hotspot buffers and numbers of keys of the paper are all
/// multiplied by the same number, so that what fits where stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scale {
    /// Keys in place of the paper's 60 million.
    pub keys: usize,
    /// Clients in place of the paper's 640.
    pub clients: usize,
    /// Compute nodes; the paper has 10.
    pub compute_nodes: usize,
    /// Operations of a point.
    pub operations: usize,
    /// Operations of a compute node for each key by which caches are warmed before throughput
    /// is compared: hotspot buffers learn slowly.
    pub warming: usize,
    /// Whether axes have a few points only.
    pub coarse: bool,
    /// Determines everything random.
    pub seed: u64,
}

/// A figure of this paper.
pub(super) type Figure = paper::Figure<Scale>;

/// What the paper loads.
const PAPER_KEYS: usize = 60_000_000;
/// Clients of the paper at most.
const PAPER_CLIENTS: usize = 640;
/// The most that an index takes of the pool for a key: SMART gives a leaf 256 bytes, and has
/// internal nodes of 2304.
pub(super) const POOL_BYTES_PER_KEY: usize = 600;
/// What a cache takes beside what it counts, and a run beside its pool.
const OVERHEAD_BYTES: u64 = 1 << 30;

impl Scale {
    /// Minutes: 300,000 keys.
    #[must_use]
    pub fn quick() -> Scale {
        Scale {
            keys: 300_000,
            clients: PAPER_CLIENTS,
            compute_nodes: 10,
            operations: 120_000,
            warming: 3,
            coarse: true,
            seed: 1,
        }
    }

    /// As the paper, as far as memory allows.
    #[must_use]
    pub fn full() -> Scale {
        let available = available_bytes().unwrap_or(u64::MAX / 2);
        let room = available.saturating_sub(OVERHEAD_BYTES) as usize / POOL_BYTES_PER_KEY;
        Scale {
            // Twice as many keys are there in the largest points of figure 14.
            keys: (room / 2).clamp(100_000, PAPER_KEYS),
            operations: 2_000_000,
            warming: 1,
            coarse: false,
            ..Scale::quick()
        }
    }

    /// Milliseconds a point, for tests.
    #[cfg(test)]
    pub(in crate::figures) fn tiny() -> Scale {
        Scale {
            keys: 6000,
            clients: 16,
            compute_nodes: 2,
            operations: 1500,
            warming: 1,
            ..Scale::quick()
        }
    }

    /// With another number of keys.
    ///
    /// # Errors
    /// `OutOfRange` for less than a thousand keys or more than the paper's.
    pub fn with_keys(self, keys: u64) -> Result<Scale, LabError> {
        if !(1000..=PAPER_KEYS as u64).contains(&keys) {
            return Err(LabError::OutOfRange {
                what: "--count",
                given: keys.to_string(),
                allowed: format!("1000 to {PAPER_KEYS}"),
            });
        }
        let keys = keys as usize;
        Ok(Scale { keys, ..self })
    }

    /// The number of keys as a part of the paper's.
    #[must_use]
    pub fn part(&self) -> f64 {
        self.keys as f64 / PAPER_KEYS as f64
    }

    /// So many of what the paper has at 60 million keys, at this number of keys.
    pub(super) fn scaled(&self, of_paper: usize) -> usize {
        (of_paper as f64 * self.part()).round() as usize
    }

    /// So many megabytes of the paper, in bytes.
    pub(super) fn megabytes(&self, of_paper: usize) -> usize {
        self.scaled(of_paper * 1_000_000)
    }

    /// Bytes at this number of keys, in megabytes at that of the paper.
    pub(super) fn paper_megabytes(&self, bytes: f64) -> f64 {
        bytes / self.part() / 1e6
    }

    /// A number of clients of the paper.
    pub(super) fn clients(&self, of_paper: usize) -> usize {
        (of_paper * self.clients / PAPER_CLIENTS).max(1)
    }

    /// The points of an axis: all, or where it is coarse the first, the last and one between.
    pub(super) fn points(&self, all: &[usize]) -> Vec<usize> {
        if !self.coarse || all.len() <= 3 {
            return all.to_vec();
        }
        let last = all.len() - 1;
        [0, last / 2, last].map(|point| all[point]).to_vec()
    }
}
