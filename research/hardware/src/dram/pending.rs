//! The lines that a channel has accepted but not yet read or written.

use rustc_hash::{FxHashMap, FxHashSet};

#[derive(Clone, Debug, Default)]
pub(super) struct PendingLines {
    reads: FxHashMap<u64, Readers>,
    writes: FxHashSet<u64>,
}

/// The clocks at which the reads of a line were accepted: more than one are rare.
#[derive(Clone, Debug)]
pub(super) struct Readers {
    pub(super) first: u64,
    pub(super) more: Vec<u64>,
}

impl PendingLines {
    /// Returns true if the line waits to be read.
    pub(super) fn is_read(&self, address: u64) -> bool {
        self.reads.contains_key(&address)
    }

    /// Returns true if the line waits to be written.
    pub(super) fn is_written(&self, address: u64) -> bool {
        self.writes.contains(&address)
    }

    pub(super) fn has_reads(&self) -> bool {
        !self.reads.is_empty()
    }

    pub(super) fn writes(&self) -> usize {
        self.writes.len()
    }

    /// Adds a write; returns false if a write of the line already waits.
    pub(super) fn add_write(&mut self, address: u64) -> bool {
        self.writes.insert(address)
    }

    /// Adds a read; returns false if a read of the line already waits.
    pub(super) fn add_read(&mut self, address: u64, clock: u64) -> bool {
        let mut first = true;
        self.reads
            .entry(address)
            .and_modify(|readers| {
                readers.more.push(clock);
                first = false;
            })
            .or_insert(Readers {
                first: clock,
                more: Vec::new(),
            });
        first
    }

    pub(super) fn read(&mut self, address: u64) -> Option<Readers> {
        self.reads.remove(&address)
    }

    pub(super) fn written(&mut self, address: u64) {
        let was_waiting = self.writes.remove(&address);
        debug_assert!(was_waiting, "each write that is queued waits");
    }
}
