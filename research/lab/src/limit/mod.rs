//! The machine's own limit: the random cache lines a second that one thread can read.
//!
//! An index lookup that misses the caches cannot be faster than the lines it reads. This measures
//! them without an index: a buffer of 64-byte lines in one random cycle, walked by k chains at
//! once. Each chain reads the address of its next line from the present line and prefetches it, as
//! an interleaved lookup does. One chain gives the latency of a dependent access; the plateau over
//! k gives the rate that no batch of lookups can exceed.
//!
//! Rates are per second of the thread's CPU time, so that other work on the machine does not count.
//! The buffer is in 2 MiB pages if the system grants them: with 4 KiB pages the plateau is several
//! times lower.

mod buffer;
mod chase;
pub(crate) mod device;

use std::time::Duration;

use crate::clock::thread_cpu_time;
use crate::error::LabError;
use crate::memory::available_bytes;

use buffer::{HUGE_PAGE_BYTES, PointerChainBuffer};
use chase::{CHAIN_COUNTS, Chains};

/// Default size of the buffer if memory allows: far beyond any cache and the reach of its
/// translations.
const BUFFER_BYTES_DEFAULT: u64 = 4 << 30;
/// Number of slices of one measurement, of which the median counts.
const SLICES: usize = 5;
/// The least CPU time of a slice of an accurate measurement.
pub(crate) const SLICE: Duration = Duration::from_millis(40);

/// The measured limits of the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineLimit {
    /// Random lines per second of one thread's CPU time, at the best number of chains.
    pub lines_per_second: f64,
    /// Time of one dependent line, in nanoseconds: that of a single chain.
    pub latency_ns: f64,
    /// The smallest number of chains with a rate within 3 % of the best.
    pub chains: usize,
    /// Size of the buffer.
    pub buffer_bytes: u64,
    /// Bytes of the buffer in 2 MiB pages; 0 if the system refused.
    pub huge_page_bytes: u64,
    /// Number of chains and lines a second, in ascending order of chains.
    pub curve: Vec<(usize, f64)>,
}

impl MachineLimit {
    /// Returns true if at least nine tenths of the buffer are in 2 MiB pages. If not, the limit is
    /// that of small pages and should be reported as such.
    #[must_use]
    pub fn huge_pages(&self) -> bool {
        self.huge_page_bytes >= self.buffer_bytes / 10 * 9
    }

    /// Measures on the calling thread, with a buffer of `buffer_bytes` rounded down to 2 MiB.
    /// `None` means 4 GiB, or a quarter of the available memory if that is less.
    ///
    /// Fills the buffer first, calling `progress(bytes done, bytes in all)`, at about half a
    /// gigabyte a second. Each slice then takes `slice` of CPU time; 40 ms make 2 s together.
    ///
    /// # Errors
    /// `OutOfRange` for a buffer under 2 MiB, `OutOfMemory` for one that does not fit, `System` if
    /// the system refuses to map it.
    pub fn measure(
        buffer_bytes: Option<u64>,
        slice: Duration,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, LabError> {
        let buffer = PointerChainBuffer::new(buffer_bytes.unwrap_or_else(default_bytes))?;
        let chains = Chains::new(buffer, progress);
        let curve: Vec<(usize, f64)> = CHAIN_COUNTS
            .map(|count| (count, lines_per_second(&chains, count, slice)))
            .into();
        debug_assert_eq!(curve[0].0, 1, "the latency is that of a single chain");
        let best = curve.iter().map(|&(_, rate)| rate).fold(0.0, f64::max);
        let enough = curve.iter().find(|&&(_, rate)| rate >= best * 0.97);
        Ok(MachineLimit {
            lines_per_second: best,
            latency_ns: 1e9 / curve[0].1,
            chains: enough.map_or(1, |&(count, _)| count),
            buffer_bytes: chains.buffer().bytes(),
            huge_page_bytes: chains.buffer().huge_page_bytes(),
            curve,
        })
    }
}

fn default_bytes() -> u64 {
    let quarter = available_bytes().map_or(u64::MAX, |bytes| bytes / 4);
    BUFFER_BYTES_DEFAULT.min(quarter).max(HUGE_PAGE_BYTES)
}

/// Returns the median rate over the slices.
fn lines_per_second(chains: &Chains, chain_count: usize, slice: Duration) -> f64 {
    let mut rates = [(); SLICES].map(|()| slice_rate(chains, chain_count, slice));
    rates.sort_unstable_by(f64::total_cmp);
    rates[SLICES / 2]
}

fn slice_rate(chains: &Chains, chain_count: usize, slice: Duration) -> f64 {
    let start = thread_cpu_time();
    let mut lines = 0;
    loop {
        lines += chains.walk(chain_count);
        let elapsed = thread_cpu_time() - start;
        if elapsed >= slice {
            return lines as f64 / elapsed.as_secs_f64();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Length of a slice that suffices for a plausible limit.
    const SHORT: Duration = Duration::from_millis(5);

    #[test]
    fn a_small_buffer_gives_a_plausible_limit() {
        let mut last = (0, 0);
        let limit = MachineLimit::measure(Some((8 << 20) + 5), SHORT, &mut |done, total| {
            assert!(done > last.0 && done <= total);
            last = (done, total);
        })
        .unwrap();
        assert_eq!(last, (8 << 20, 8 << 20));
        assert_eq!(limit.buffer_bytes, 8 << 20);
        assert!((0.3..1000.0).contains(&limit.latency_ns), "{limit:?}");
        assert!(
            limit.lines_per_second >= 1e9 / limit.latency_ns,
            "{limit:?}"
        );
        assert!(
            limit
                .curve
                .iter()
                .map(|&(chains, _)| chains)
                .eq(CHAIN_COUNTS)
        );
        assert!(
            limit
                .curve
                .iter()
                .any(|&(chains, _)| chains == limit.chains)
        );
    }

    #[test]
    fn impossible_buffers_are_refused() {
        let measure = |bytes| {
            let limit = MachineLimit::measure(Some(bytes), SHORT, &mut |_, _| {});
            limit.unwrap_err()
        };
        assert!(matches!(measure(0), LabError::OutOfRange { .. }));
        assert!(matches!(measure(1 << 20), LabError::OutOfRange { .. }));
        assert!(matches!(measure(1 << 50), LabError::OutOfMemory { .. }));
        assert!(matches!(measure(u64::MAX), LabError::OutOfMemory { .. }));
    }

    #[test]
    fn the_default_buffer_leaves_room() {
        assert!(default_bytes() <= BUFFER_BYTES_DEFAULT);
        assert!(default_bytes() >= HUGE_PAGE_BYTES);
    }
}
