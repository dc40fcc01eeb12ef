//! What a run has come to.

use super::Bound;
use crate::{Time, dram};

/// How often a buffer had a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// It did.
    pub hits: u64,
    /// It did not.
    pub misses: u64,
}

impl Hits {
    pub(super) fn count(&mut self, hit: bool) {
        match hit {
            true => self.hits += 1,
            false => self.misses += 1,
        }
    }

    /// The part of hits.
    pub fn rate(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }
}

/// Locks of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Locks {
    /// Nodes that were locked.
    pub acquired: u64,
    /// Attempts at nodes that another unit had locked.
    pub contended: u64,
}

/// What a run has come to.
#[derive(Clone, Debug)]
pub struct Report {
    /// Operations.
    pub operations: u64,
    /// From the first record to the last operation.
    pub time: Time,
    /// From the beginning of its batch to its end, of each operation, in no order.
    pub latencies: Vec<Time>,
    /// Nodes that decided for a child, or for none.
    pub matches: u64,
    /// Leaves that were compared.
    pub leaves: u64,
    /// Shortcuts that led to the key.
    pub shortcuts_used: u64,
    /// Shortcuts that led elsewhere, as the tree had changed.
    pub shortcuts_stale: u64,
    /// Keys without a shortcut.
    pub shortcuts_missing: u64,
    /// Operations that were executed with another one on their key.
    pub riders: u64,
    /// The buffer of shortcuts.
    pub shortcut_buffer: Hits,
    /// The buffer of the tree, by lines.
    pub tree_buffer: Hits,
    /// Locks, of nodes that several units may write.
    pub locks: Locks,
    /// Lines that were read from memory and written into it.
    pub lines: [u64; 2],
    /// The time in which the combining unit was at work.
    pub combined: Time,
    /// What limits such a run.
    pub bound: Bound,
    /// The memory of the card.
    pub memory: dram::Report,
}

impl Report {
    pub(super) fn new(operations: u64) -> Report {
        Report {
            operations,
            time: Time::ZERO,
            latencies: Vec::with_capacity(operations as usize),
            matches: 0,
            leaves: 0,
            shortcuts_used: 0,
            shortcuts_stale: 0,
            shortcuts_missing: 0,
            riders: 0,
            shortcut_buffer: Hits::default(),
            tree_buffer: Hits::default(),
            locks: Locks::default(),
            lines: [0; 2],
            combined: Time::ZERO,
            bound: Bound::default(),
            memory: dram::Report::default(),
        }
    }

    /// Operations a second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.time.as_seconds()
    }

    /// The latency that this part of the operations does not exceed.
    pub fn latency(&self, part: f64) -> Time {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let place = (part * sorted.len() as f64).ceil() as usize;
        let place = place.clamp(1, sorted.len().max(1));
        sorted.get(place - 1).copied().unwrap_or_default()
    }
}
