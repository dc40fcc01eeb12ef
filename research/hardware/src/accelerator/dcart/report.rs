//! The results of a run.

use super::DcartBound;
use crate::{VirtualTime, dram};

/// The hits and misses of a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// Number of lookups that found the line.
    pub hits: u64,
    /// Number of lookups that did not.
    pub misses: u64,
}

impl Hits {
    pub(super) fn count(&mut self, hit: bool) {
        match hit {
            true => self.hits += 1,
            false => self.misses += 1,
        }
    }

    /// Returns the share of hits.
    pub fn rate(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }
}

/// Locks of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DcartLockCounts {
    /// Number of nodes that were locked.
    pub acquired: u64,
    /// Number of attempts at nodes that another unit had locked.
    pub contended: u64,
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct DcartReport {
    /// Number of operations.
    pub operations: u64,
    /// Time from the first record to the last operation.
    pub time: VirtualTime,
    /// The latency of each operation, from the beginning of its batch to its own end, in no order.
    pub latencies: Vec<VirtualTime>,
    /// Number of nodes that decided for a child, or for none.
    pub matches: u64,
    /// Number of leaves that were compared.
    pub leaves: u64,
    /// Number of shortcuts that led to the key.
    pub shortcuts_used: u64,
    /// Number of shortcuts that led elsewhere, because the tree had changed.
    pub shortcuts_stale: u64,
    /// Number of keys without a shortcut.
    pub shortcuts_missing: u64,
    /// Number of operations that were executed with another one on their key.
    pub riders: u64,
    /// Hits of the buffer of shortcuts.
    pub shortcut_buffer: Hits,
    /// Hits of the buffer of the tree, by lines.
    pub tree_buffer: Hits,
    /// Locks, of nodes that several units may write.
    pub locks: DcartLockCounts,
    /// Number of lines that were read from memory, and written to it.
    pub lines: [u64; 2],
    /// Time in which the combining unit was busy.
    pub combined: VirtualTime,
    /// The limits of such a run.
    pub bound: DcartBound,
    /// The report of the card's memory.
    pub memory: dram::DramReport,
}

impl DcartReport {
    pub(super) fn new(operations: u64) -> DcartReport {
        DcartReport {
            operations,
            time: VirtualTime::ZERO,
            latencies: Vec::with_capacity(operations as usize),
            matches: 0,
            leaves: 0,
            shortcuts_used: 0,
            shortcuts_stale: 0,
            shortcuts_missing: 0,
            riders: 0,
            shortcut_buffer: Hits::default(),
            tree_buffer: Hits::default(),
            locks: DcartLockCounts::default(),
            lines: [0; 2],
            combined: VirtualTime::ZERO,
            bound: DcartBound::default(),
            memory: dram::DramReport::default(),
        }
    }

    /// Returns the operations per second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.time.as_seconds()
    }

    /// Returns the latency that this share of the operations does not exceed.
    pub fn latency(&self, part: f64) -> VirtualTime {
        debug_assert!((0.0..=1.0).contains(&part));
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let place = (part * sorted.len() as f64).ceil() as usize;
        let place = place.clamp(1, sorted.len().max(1));
        sorted.get(place - 1).copied().unwrap_or_default()
    }
}
