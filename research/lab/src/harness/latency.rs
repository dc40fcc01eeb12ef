//! The latency of single operations and of batches.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The longest recorded duration: ten minutes. Longer ones count as this.
const NANOSECONDS_MAX: u64 = 600_000_000_000;
/// Number of significant digits: a relative error below 1 %.
const DIGITS: u8 = 2;

/// Latencies in nanoseconds: of operations, or of batches if operations come in batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The 99.9th percentile.
    pub p999: u64,
}

/// A histogram of durations with logarithmic buckets.
#[derive(Clone, Debug)]
pub(crate) struct Durations(Histogram<u64>);

impl Durations {
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_max(NANOSECONDS_MAX, DIGITS);
        Durations(histogram.expect("the constants are within the library's bounds"))
    }

    #[inline]
    pub(crate) fn record(&mut self, duration: Duration) {
        // 64 bits of nanoseconds are 584 years.
        self.0.saturating_record(duration.as_nanos() as u64);
    }

    pub(crate) fn merge(&mut self, other: &Durations) {
        let before = self.count();
        self.0
            .add(&other.0)
            .expect("both histograms have the same bounds");
        debug_assert_eq!(self.count(), before + other.count());
    }

    /// Returns the number of recorded durations.
    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the percentiles that reports show; `None` if nothing was recorded.
    pub(crate) fn percentiles(&self) -> Option<LatencySummary> {
        if self.0.is_empty() {
            return None;
        }
        let summary = LatencySummary {
            p50: self.0.value_at_quantile(0.5),
            p99: self.0.value_at_quantile(0.99),
            p999: self.0.value_at_quantile(0.999),
        };
        debug_assert!(summary.p50 <= summary.p99 && summary.p99 <= summary.p999);
        Some(summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_within_a_percent() {
        let mut even = Durations::new();
        let mut odd = Durations::new();
        assert_eq!(even.percentiles(), None);
        for n in 1..=10_000 {
            let durations = if n % 2 == 0 { &mut even } else { &mut odd };
            durations.record(Duration::from_nanos(n * 100));
        }
        even.merge(&odd);
        let latency = even.percentiles().unwrap();
        for (found, exact) in [
            (latency.p50, 5e5),
            (latency.p99, 9.9e5),
            (latency.p999, 9.99e5),
        ] {
            assert!((found as f64 / exact - 1.0).abs() < 0.01, "{found} {exact}");
        }
    }

    #[test]
    fn extremes_are_kept_at_the_end() {
        let mut durations = Durations::new();
        durations.record(Duration::from_secs(100_000));
        assert!(durations.percentiles().unwrap().p50 >= NANOSECONDS_MAX / 100 * 99);
    }
}
