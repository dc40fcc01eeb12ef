//! Counts of the latencies that occurred.

use super::report::DramLatency;
use std::collections::BTreeMap;

/// The number of latencies with a place each. Longer ones are few, and may have any length.
const PLACES: usize = 1 << 16;

/// The counts of latencies, in clocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Latencies {
    counts: Vec<u64>,
    longer: BTreeMap<u64, u64>,
    reads: u64,
    clocks: u64,
}

impl Latencies {
    pub(super) fn add(&mut self, clocks: u64) {
        match usize::try_from(clocks) {
            Ok(index) if index < PLACES => {
                if index >= self.counts.len() {
                    // Growing by powers of two keeps the cost of rare long latencies small.
                    self.counts.resize((index + 1).next_power_of_two(), 0);
                }
                self.counts[index] += 1;
            }
            _ => *self.longer.entry(clocks).or_default() += 1,
        }
        self.reads += 1;
        self.clocks += clocks;
    }

    pub(super) fn merge(&mut self, other: &Latencies) {
        // The counts are added by place, so the shorter list is extended first.
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        for (&clocks, more) in &other.longer {
            *self.longer.entry(clocks).or_default() += more;
        }
        self.reads += other.reads;
        self.clocks += other.clocks;
    }

    /// Returns the sum of all.
    #[cfg(test)]
    pub(super) fn total(&self) -> u64 {
        self.clocks
    }

    /// Returns the minimum latency that this share of the reads does not exceed.
    fn quantile(&self, share: f64) -> u64 {
        let wanted = (share * self.reads as f64).ceil() as u64;
        let mut seen = 0;
        // The longer ones come after all others in the chain, so the counts are in order.
        let longer = self.longer.iter().map(|(&clocks, &count)| (clocks, count));
        let counts = (0..).zip(self.counts.iter().copied()).chain(longer);
        let mut reached = counts.skip_while(|(_, count)| {
            seen += count;
            seen < wanted.max(1)
        });
        reached.next().map_or(0, |(clocks, _)| clocks)
    }

    pub(super) fn report(&self, clock_ns: f64) -> DramLatency {
        let at = |share| self.quantile(share) as f64 * clock_ns;
        DramLatency {
            mean: match self.reads {
                0 => 0.0,
                reads => self.clocks as f64 / reads as f64 * clock_ns,
            },
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact() {
        let mut latencies = Latencies::default();
        for clocks in 1..=100 {
            latencies.add(clocks);
        }
        let mut more = Latencies::default();
        more.add(5000);
        latencies.merge(&more);
        let report = latencies.report(0.5);
        assert_eq!(report.p50, 51.0 * 0.5);
        assert_eq!(report.p95, 96.0 * 0.5);
        assert_eq!(report.p99, 100.0 * 0.5);
        assert_eq!(report.mean, 10050.0 / 101.0 * 0.5);
        assert_eq!(latencies.quantile(1.0), 5000);
        assert_eq!(Latencies::default().report(1.0).p99, 0.0);
    }

    #[test]
    fn long_latencies_take_no_more_memory() {
        let mut latencies = Latencies::default();
        for clocks in [7, PLACES as u64 - 1, PLACES as u64, 1 << 46] {
            latencies.add(clocks);
        }
        let mut all = Latencies::default();
        all.merge(&latencies);
        let at = [0.25, 0.5, 0.75, 1.0].map(|share| all.quantile(share));
        assert_eq!(at, [7, 65535, 65536, 1 << 46]);
        assert!(all.counts.len() <= PLACES);
    }
}
