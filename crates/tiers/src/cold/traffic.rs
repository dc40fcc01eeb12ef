//! Counts of what the tiers served and of what moved between them, since the start.

use crate::usage::TierRefusal;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Number of latency buckets of a tier's reads: the first counts reads of up to a microsecond, each
/// next one reads of up to twice as long, the last all longer ones.
pub const LATENCIES: usize = 22;

const _: () = assert!(LATENCIES < 64, "a bound is a power of two in 64 bits");

/// The counts of one tier.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Number of uses of values in it. The store counts those in memory itself.
    pub served: AtomicU64,
    /// Number of values that moved into it.
    pub moved_in: AtomicU64,
    /// Number of bytes of these.
    pub moved_in_bytes: AtomicU64,
    /// Number of values that moved out of it.
    pub moved_out: AtomicU64,
    /// Number of bytes of these.
    pub moved_out_bytes: AtomicU64,
    /// Number of values that should have moved into it and did not: they were changed meanwhile, or
    /// it refused them.
    pub abandoned: AtomicU64,
    /// Number of values that could not be read.
    pub unreadable: AtomicU64,
    /// Number of values that its disk could not write.
    pub unwritable: AtomicU64,
    /// The reason for which its disk accepts no writes now.
    failure: Mutex<Option<String>>,
    /// Set if its disk did not respond to the last read in time.
    is_late: AtomicBool,
    latencies: [AtomicU64; LATENCIES],
    reading_ns: AtomicU64,
}

impl Traffic {
    /// Counts that the disk could not write a value. Returns true if it could before.
    pub fn count_unwritable(&self, why: &TierRefusal) -> bool {
        self.unwritable.fetch_add(1, Relaxed);
        let before = self.failure.lock().replace(why.to_string());
        before.is_none()
    }

    /// Notes that the tier has taken a value. Returns true if it could not before.
    pub fn note_written(&self) -> bool {
        let mut failure = self.failure.lock();
        failure.take().is_some()
    }

    /// Returns the reason for which the disk accepts no writes now, if it does not.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// Returns true if the disk did not respond to the last read in time.
    pub fn is_late(&self) -> bool {
        self.is_late.load(Relaxed)
    }

    /// Notes whether the disk responded in time.
    #[inline]
    pub(super) fn set_late(&self, is_late: bool) {
        // It rarely changes, so a store is rarely needed.
        if self.is_late.load(Relaxed) != is_late {
            self.is_late.store(is_late, Relaxed);
        }
    }

    /// Counts a read.
    #[inline]
    pub fn count_read(&self, took: Duration) {
        let ns = took.as_nanos() as u64;
        // Rounded up, so that the bound of a bucket is no less than any of its reads.
        let microseconds = ns.div_ceil(1000).max(1);
        let bucket = microseconds.next_power_of_two().ilog2() as usize;
        if let Some(count) = self.latencies.get(bucket.min(LATENCIES - 1)) {
            count.fetch_add(1, Relaxed);
        }
        self.reading_ns.fetch_add(ns, Relaxed);
    }

    /// Returns, for each bucket, its upper bound and the number of reads in it. The last bucket
    /// also counts all longer reads.
    pub fn latencies(&self) -> impl Iterator<Item = (Duration, u64)> {
        let counts = self.latencies.iter().map(|count| count.load(Relaxed));
        (0..)
            .map(|bucket| Duration::from_micros(1 << bucket))
            .zip(counts)
    }

    /// Returns the total duration of all reads.
    pub fn reading(&self) -> Duration {
        Duration::from_nanos(self.reading_ns.load(Relaxed))
    }

    /// Returns a time within which this part of the reads ended, accurate to a factor of two;
    /// `None` if there were no reads.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        debug_assert!((0.0..=1.0).contains(&part));
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
