//! What the tiers have served and what has moved between them, counted since the start.

use crate::usage::Refused;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The reads of a tier that took so long: the first took up to a microsecond, each next one up to
/// twice as long, the last all that is longer.
pub const LATENCIES: usize = 22;

/// The counts of one tier.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Values that were used in it. The store counts those in memory itself.
    pub served: AtomicU64,
    /// Values that have moved into it.
    pub moved_in: AtomicU64,
    /// Their bytes.
    pub moved_in_bytes: AtomicU64,
    /// Values that have moved out of it.
    pub moved_out: AtomicU64,
    /// Their bytes.
    pub moved_out_bytes: AtomicU64,
    /// Values that were to move into it and have not: they were changed meanwhile, or it did not
    /// take them.
    pub abandoned: AtomicU64,
    /// Values that could not be read.
    pub unreadable: AtomicU64,
    /// Values that its disk could not write.
    pub unwritable: AtomicU64,
    /// Why its disk takes nothing now.
    failure: Mutex<Option<String>>,
    /// Its disk has not answered the last read in time.
    is_late: AtomicBool,
    latencies: [AtomicU64; LATENCIES],
    reading_ns: AtomicU64,
}

impl Traffic {
    /// Counts that the disk could not write a value, and answers whether it could before.
    pub fn count_unwritable(&self, why: &Refused) -> bool {
        self.unwritable.fetch_add(1, Relaxed);
        let before = self.failure.lock().replace(why.to_string());
        before.is_none()
    }

    /// Notes that the tier has taken a value, and answers whether it could not before.
    pub fn note_written(&self) -> bool {
        let mut failure = self.failure.lock();
        failure.take().is_some()
    }

    /// Why the disk takes nothing now, if it does not.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// True if the disk has not answered the last read in time.
    pub fn is_late(&self) -> bool {
        self.is_late.load(Relaxed)
    }

    /// Notes whether the disk has answered in time.
    #[inline]
    pub(super) fn set_late(&self, is_late: bool) {
        // Seldom changes, so that it need not be written.
        if self.is_late.load(Relaxed) != is_late {
            self.is_late.store(is_late, Relaxed);
        }
    }

    /// Counts a read.
    #[inline]
    pub fn count_read(&self, took: Duration) {
        let ns = took.as_nanos() as u64;
        let microseconds = ns.div_ceil(1000).max(1);
        let bucket = microseconds.next_power_of_two().ilog2() as usize;
        if let Some(count) = self.latencies.get(bucket.min(LATENCIES - 1)) {
            count.fetch_add(1, Relaxed);
        }
        self.reading_ns.fetch_add(ns, Relaxed);
    }

    /// How many reads took up to each time, and longer than the one before. The last time is that
    /// of all which took longer.
    pub fn latencies(&self) -> impl Iterator<Item = (Duration, u64)> {
        let counts = self.latencies.iter().map(|count| count.load(Relaxed));
        (0..)
            .map(|bucket| Duration::from_micros(1 << bucket))
            .zip(counts)
    }

    /// The time that all reads took.
    pub fn reading(&self) -> Duration {
        Duration::from_nanos(self.reading_ns.load(Relaxed))
    }

    /// The time below which this part of the reads took, to a factor of two; none if there were
    /// none.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let reads: u64 = self.latencies().map(|(_, count)| count).sum();
        let wanted = (reads as f64 * part).ceil() as u64;
        let mut seen = 0;
        let mut enough = |count: u64| {
            seen += count;
            reads > 0 && seen >= wanted
        };
        self.latencies()
            .find(|(_, count)| enough(*count))
            .map(|(time, _)| time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_bounds_of_the_times_that_were_counted() {
        let traffic = Traffic::default();
        assert_eq!(traffic.quantile(0.5), None);
        for microseconds in 1..=100 {
            traffic.count_read(Duration::from_micros(microseconds));
        }
        assert_eq!(traffic.quantile(0.5), Some(Duration::from_micros(64)));
        assert_eq!(traffic.quantile(0.99), Some(Duration::from_micros(128)));
        assert_eq!(traffic.reading(), Duration::from_micros(5050));
        traffic.count_read(Duration::from_secs(100));
        assert!(traffic.quantile(1.0) > Some(Duration::from_secs(1)));
    }
}
