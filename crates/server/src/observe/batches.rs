//! A histogram of the number of commands in a batch.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of size classes. Sizes are counted by powers of two, up to 2^10.
pub const BUCKETS: usize = 11;

/// The number of batches, by size.
#[derive(Debug, Default)]
pub struct Batches {
    counts: [AtomicU64; BUCKETS],
    commands: AtomicU64,
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchCounts {
    /// The number of batches of at most 2^n commands and more than half of that, by n.
    pub batches: [u64; BUCKETS],
    /// The number of commands in all batches.
    pub commands: u64,
}

impl Batches {
    /// Counts a batch of `commands` commands.
    #[inline]
    pub fn count(&self, commands: usize) {
        debug_assert!(commands > 0, "a batch has commands");
        let bucket = commands.next_power_of_two().trailing_zeros() as usize;
        // The last class has all larger batches, too.
        if let Some(count) = self.counts.get(bucket.min(BUCKETS - 1)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.commands.fetch_add(commands as u64, Ordering::Relaxed);
    }

    /// Returns the current counts.
    pub fn counts(&self) -> BatchCounts {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        BatchCounts {
            batches: self.counts.each_ref().map(count),
            commands: count(&self.commands),
        }
    }
}
