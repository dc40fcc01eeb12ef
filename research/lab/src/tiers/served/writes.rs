//! Writes beyond memory: values that do not fit into the memory tier are overwritten at random.
//!
//! The time is divided into windows, because a server that writes beyond memory changes: first the
//! cold tiers fill, and then released values leave holes in them. The second half of the windows is
//! the *steady state*.

use super::{ENTRY_BYTES, FilledServer, KEY_BYTES};
use crate::harness::{Interrupt, MeasurementSample};
use crate::report::{self, MeasurementProgress, NumberOrigin};
use crate::server::load::ConnectionShape;
use crate::tiers::{TiersBenchPlan, TiersError, ValueCorpus};
use crate::workload::random;
use rand::RngExt;
use serde::Serialize;
use std::time::Duration;

/// Divisor of the values: memory has room for this part of them, and for all keys.
const PART: u64 = 5;
/// The least and the largest number of windows.
const WINDOWS: (u128, u128) = (4, 60);
/// The clients, which pipeline their requests, so that the time of a request is the server's.
const SHAPE: ConnectionShape = ConnectionShape {
    connections: 8,
    pipeline: 16,
};

/// A server that writes beyond memory, compared with one without tiers.
pub type Row = report::ReportRow<SustainedWrites>;

/// The tier that takes the values for which memory has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverflowTier {
    /// Compressed memory.
    Compressed,
    /// Files.
    Files,
}

impl OverflowTier {
    /// Both tiers.
    pub const ALL: [OverflowTier; 2] = [OverflowTier::Compressed, OverflowTier::Files];

    /// Returns the name of the tier in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            OverflowTier::Compressed => "compressed",
            OverflowTier::Files => "file",
        }
    }
}

/// The results of writes beyond memory.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SustainedWrites {
    /// The kind of values.
    pub values: String,
    /// The tier below memory.
    pub tier: &'static str,
    /// Number of keys, which are overwritten at random.
    pub keys: u64,
    /// Capacity of the memory tier.
    pub memory_bytes: u64,
    /// The windows, in the order of time.
    pub windows: Vec<WriteWindow>,
    /// The steady state: medians of the second half of the windows.
    pub steady: WriteWindow,
    /// The ratio of the processor time of a SET with tiers to that without, in the steady state.
    pub cpu_ratio: f64,
    /// The ratio of the rates, likewise.
    pub rate_ratio: f64,
    /// The ratio of the rate in the last quarter of the windows to that in the quarter before. In a
    /// steady state it is near 1.
    pub drift: f64,
}

/// The results of both servers in one window.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct WriteWindow {
    /// The server with tiers.
    pub tiered: WriteRate,
    /// The server without tiers.
    pub plain: WriteRate,
    /// The ratio of the bytes of the values in the cold tier to those that the tier uses, at the
    /// end.
    pub compression: f64,
}

/// The results of one server in a window.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct WriteRate {
    /// Thousands of SETs a second.
    pub kops: f64,
    /// The processor time of the server for a SET, in nanoseconds.
    pub cpu_ns: f64,
    /// The 99th percentile of the time from sending requests to the last of their replies, in
    /// nanoseconds.
    pub p99_ns: f64,
}

/// Measures a server with memory for all keys and a fifth of the values, whose other values are in
/// `tier`. Clients overwrite values at random for the plan's time of writing. In turns with its
/// windows, a server without tiers gets the same load for a turn of the plan.
///
/// # Errors
/// A server fails or refuses a write, there is nothing to write, or the interrupt is raised.
pub fn writes(
    plan: &TiersBenchPlan,
    values: &ValueCorpus,
    tier: OverflowTier,
    interrupt: &Interrupt,
) -> Result<Row, TiersError> {
    let mean = values.bytes() / (values.list.len() as u64).max(1);
    let keys = plan.file_bytes / mean.max(1);
    if values.list.is_empty() || keys == 0 {
        return Err(TiersError::NoValues);
    }
    let memory = (keys * (KEY_BYTES + ENTRY_BYTES) + plan.file_bytes / PART).max(1 << 20);
    // Files are given back as a whole, so values that were overwritten keep much of their room.
    let room = (plan.file_bytes * 2).max(1 << 24);
    let tiers = [
        format!("memory={memory}"),
        match tier {
            OverflowTier::Compressed => format!("compressed={room}"),
            OverflowTier::Files => format!("file:{}={room}", plan.folder.display()),
        },
    ];
    let (count, window) = windows_of(plan.writing, plan.turn);
    let mut progress = MeasurementProgress::new("step", 2 + count);
    let mut start = |name: &str, tiers: &[String]| {
        progress.step(format!("filling {name}"));
        let server = FilledServer::fill(name, tiers, values, keys, interrupt);
        progress.part();
        server
    };
    let tiered = start("the server with tiers", &tiers)?;
    let plain = start("the server without", &[])?;
    let measure = |server: &FilledServer, turn: Duration, seed: usize| {
        let mut random = random(seed as u64, 13);
        let since = server.process.cpu_time();
        let slice = server.set(SHAPE, turn, values, interrupt, || {
            let value = random.random_range(0..values.list.len());
            (random.random_range(0..keys), value)
        })?;
        let taken = server.process.cpu_time().saturating_sub(since);
        Ok::<_, TiersError>(WriteRate {
            kops: slice.operations as f64 / slice.wall.as_secs_f64() / 1e3,
            cpu_ns: taken.as_nanos() as f64 / slice.operations.max(1) as f64,
            p99_ns: slice.latency.p99 as f64,
        })
    };
    let mut windows = Vec::with_capacity(count);
    for number in 0..count {
        progress.step(format!("writing beyond memory, into {}", tier.name()));
        let with_tiers = measure(&tiered, window, number)?;
        let compression = tiered.figure(1, "compression");
        let without = measure(&plain, window.min(plan.turn), number)?;
        if interrupt.is_raised() {
            return Err(TiersError::Interrupted);
        }
        windows.push(WriteWindow {
            tiered: with_tiers,
            plain: without,
            compression,
        });
        progress.part();
    }
    let half = windows.split_at(count / 2).1;
    let steady = median_of(half);
    let rate = |windows: &[WriteWindow]| median_of(windows).tiered.kops;
    let (earlier, last) = half.split_at(half.len() / 2);
    let detail = SustainedWrites {
        values: values.name.clone(),
        tier: tier.name(),
        keys,
        memory_bytes: memory,
        cpu_ratio: steady.tiered.cpu_ns / steady.plain.cpu_ns.max(1.0),
        rate_ratio: steady.tiered.kops / steady.plain.kops,
        drift: rate(last) / rate(earlier),
        steady,
        windows,
    };
    Ok(Row {
        rate_mops: Some(steady.tiered.kops / 1e3),
        ..Row::new("server", NumberOrigin::Measured, detail)
    })
}

/// Returns the number of windows of a time, and the length of one: a turn, or longer if there would
/// be too many.
fn windows_of(time: Duration, turn: Duration) -> (usize, Duration) {
    let (least, most) = WINDOWS;
    let count = time.as_nanos() / turn.as_nanos().max(1);
    let count = count.clamp(least, most) as u32;
    (count as usize, time / count)
}

/// Returns the medians of windows.
fn median_of(windows: &[WriteWindow]) -> WriteWindow {
    let median = |of: fn(&WriteWindow) -> f64| {
        let sample = MeasurementSample::new(windows.iter().map(of).collect());
        sample.map_or(0.0, |sample| sample.median())
    };
    WriteWindow {
        tiered: WriteRate {
            kops: median(|it| it.tiered.kops),
            cpu_ns: median(|it| it.tiered.cpu_ns),
            p99_ns: median(|it| it.tiered.p99_ns),
        },
        plain: WriteRate {
            kops: median(|it| it.plain.kops),
            cpu_ns: median(|it| it.plain.cpu_ns),
            p99_ns: median(|it| it.plain.p99_ns),
        },
        compression: median(|it| it.compression),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_an_hour_has_sixty_windows_and_a_short_time_has_four() {
        let second = Duration::from_secs(1);
        assert_eq!(windows_of(1800 * second, second), (60, 30 * second));
        assert_eq!(windows_of(10 * second, second), (10, second));
        assert_eq!(windows_of(second, second), (4, second / 4));
        assert_eq!(windows_of(second, Duration::ZERO), (60, second / 60));
    }

    #[test]
    fn the_steady_state_is_the_median_of_each_number() {
        let window = |kops: f64| {
            let rate = |kops: f64| WriteRate {
                kops,
                cpu_ns: 1e6 / kops,
                p99_ns: 7.0,
            };
            WriteWindow {
                tiered: rate(kops),
                plain: rate(4.0 * kops),
                compression: kops / 10.0,
            }
        };
        let steady = median_of(&[window(10.0), window(40.0), window(20.0)]);
        assert_eq!((steady.tiered.kops, steady.plain.kops), (20.0, 80.0));
        assert_eq!(steady.tiered.cpu_ns, 5e4);
        assert_eq!((steady.tiered.p99_ns, steady.compression), (7.0, 2.0));
    }
}
