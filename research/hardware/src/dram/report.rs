//! The work of a memory, and its costs.

use super::{Currents, DramParameters};

/// The result of a run. All of it is modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DramReport {
    /// Latency of reads, from acceptance by the controller to the last data.
    pub latency_ns: DramLatency,
    /// Bandwidth of the lines that the banks were sent commands for, in GB/s: 10^9 bytes per
    /// second. Merged requests and writes that wait do not use the bus.
    pub bandwidth_gbps: f64,
    /// The share of reads and writes for which an earlier one had opened the row.
    pub row_hit_rate: f64,
    /// The numbers of commands to the banks.
    pub commands: DramCommandCounts,
    /// The energy of all channels.
    pub energy_uj: DramEnergy,
    /// Time from clock 0 until the last request completed.
    pub time_us: f64,
    /// The numbers of requests.
    pub requests: DramRequestCounts,
}

/// Latencies in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DramLatency {
    /// The mean latency.
    pub mean: f64,
    /// The median latency.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
}

/// The numbers of commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DramCommandCounts {
    /// Number of rows opened.
    pub activate: u64,
    /// Number of rows closed by a separate command: not those that a read or write closes.
    pub precharge: u64,
    /// Number of lines read.
    pub read: u64,
    /// Number of lines written.
    pub write: u64,
    /// Number of ranks refreshed.
    pub refresh: u64,
}

/// The numbers of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DramRequestCounts {
    /// Number of reads accepted.
    pub reads: u64,
    /// Number of writes accepted.
    pub writes: u64,
    /// Number of reads that were served by an earlier read of the line, or by a write that waits.
    pub reads_merged: u64,
    /// Number of writes that replaced a waiting write of the same line.
    pub writes_merged: u64,
    /// Number of writes that still wait in the controller: a run ends when the last request
    /// completes, and a write completes when it is accepted.
    pub writes_waiting: u64,
}

/// The energies in microjoules.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DramEnergy {
    /// Energy of opening and closing rows.
    pub activate: f64,
    /// Energy of reading lines.
    pub read: f64,
    /// Energy of writing lines.
    pub write: f64,
    /// Energy of refreshing ranks.
    pub refresh: f64,
    /// Energy over the whole time, which is higher while a row is open.
    pub background: f64,
}

impl DramEnergy {
    /// Returns the energy of requests: rows, reads and writes.
    pub fn dynamic(&self) -> f64 {
        self.activate + self.read + self.write
    }

    /// Returns the total energy.
    pub fn total(&self) -> f64 {
        self.dynamic() + self.refresh + self.background
    }

    /// Returns the energy of commands, and of `clocks` of all ranks, in `active` of which a row was
    /// open.
    ///
    /// Volts times milliamperes times nanoseconds are picojoules. The background is subtracted from
    /// the current while rows are opened and closed, because it is counted separately.
    pub(super) fn of(
        parameters: &DramParameters,
        commands: &DramCommandCounts,
        clocks: u128,
        active: u128,
    ) -> DramEnergy {
        let Currents {
            vdd,
            idd0,
            idd2n,
            idd3n,
            idd4r,
            idd4w,
            idd5ab,
        } = parameters.currents;
        debug_assert!(active <= clocks, "a row is open for a part of the time");
        let (ras, rp) = (parameters.t_ras as f64, parameters.t_rp as f64);
        let burst = parameters.burst as f64;
        let clock_ns = parameters.clock_ns();
        let microjoules = |milliamperes_clocks: f64, times: u128| {
            vdd * milliamperes_clocks * clock_ns * parameters.devices * times as f64 * 1e-6
        };
        DramEnergy {
            activate: microjoules(
                idd0 * (ras + rp) - idd3n * ras - idd2n * rp,
                commands.activate.into(),
            ),
            read: microjoules((idd4r - idd3n) * burst, commands.read.into()),
            write: microjoules((idd4w - idd3n) * burst, commands.write.into()),
            refresh: microjoules(
                (idd5ab - idd3n) * parameters.t_rfc as f64,
                commands.refresh.into(),
            ),
            background: microjoules(idd3n, active) + microjoules(idd2n, clocks - active),
        }
    }
}
