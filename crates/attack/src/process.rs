//! The memory and processor time of processes, as Linux counts them in `/proc`.

use nearfield_server_testkit::process::status_bytes;
use std::fs;
use std::time::Duration;

/// Returns the resident memory of a process, in bytes; `None` if there is no such process.
pub(crate) fn resident_bytes(id: u32) -> Option<u64> {
    status_bytes(id, "VmRSS:")
}

/// Returns the processor time that a process has taken; `None` if there is no such process.
pub(crate) fn processor_time(id: u32) -> Option<Duration> {
    /// Value of `sysconf(_SC_CLK_TCK)` on every Linux.
    const TICK: Duration = Duration::from_millis(10);
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name, in parentheses, may contain spaces.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u32 = ticks.filter_map(|it| it.parse::<u32>().ok()).sum();
    Some(TICK * ticks)
}

/// The time of all cores so far, in ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CoreTimes {
    idle: u64,
    all: u64,
}

impl CoreTimes {
    /// Reads the current times.
    pub(crate) fn read() -> CoreTimes {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let fields = stat.lines().next().unwrap_or_default().split_whitespace();
        let ticks: Vec<u64> = fields.filter_map(|it| it.parse().ok()).collect();
        // User, nice, system, idle, waiting for a disk, interrupts; times of guests are included in
        // `user`.
        CoreTimes {
            idle: ticks.iter().skip(3).take(2).sum(),
            all: ticks.iter().take(8).sum(),
        }
    }

    /// Returns the idle share of the cores' time since an earlier reading, between 0 and 1.
    pub(crate) fn idle_since(self, earlier: CoreTimes) -> f64 {
        let all = self.all.saturating_sub(earlier.all).max(1);
        self.idle.saturating_sub(earlier.idle) as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_time() {
        let id = std::process::id();
        assert!(resident_bytes(id).is_some_and(|bytes| bytes > 100_000));
        let before = CoreTimes::read();
        let begin = processor_time(id).expect("this process");
        while processor_time(id).is_some_and(|time| time == begin) {
            std::hint::black_box(vec![0_u8; 4096]);
        }
        let idle = CoreTimes::read().idle_since(before);
        assert!((0.0..=1.0).contains(&idle), "{idle}");
        assert_eq!(resident_bytes(u32::MAX), None);
    }
}
