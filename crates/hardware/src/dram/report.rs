//! What a memory has done, and what that cost.

use super::{Currents, Parameters};

/// The result of a run. All of it is modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Of reads, from acceptance by the controller to the last data.
    pub latency_ns: Latency,
    /// Lines that the banks were sent commands for, in GB/s: 10^9 bytes a second. Merged requests
    /// and writes that wait take nothing of the bus.
    pub bandwidth_gbps: f64,
    /// The share of reads and writes for which an earlier one had opened the row.
    pub row_hit_rate: f64,
    /// The commands to the banks.
    pub commands: Commands,
    /// The energy of all channels.
    pub energy_uj: Energy,
    /// From clock 0 until the last request was answered.
    pub time_us: f64,
    /// The requests.
    pub requests: Requests,
}

/// Latencies in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// Their mean.
    pub mean: f64,
    /// Half of the reads take at most this long.
    pub p50: f64,
    /// 95 of 100 do.
    pub p95: f64,
    /// 99 of 100 do.
    pub p99: f64,
}

/// Numbers of commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// Rows opened.
    pub activate: u64,
    /// Rows closed by a command of their own: not those that a read or write closes.
    pub precharge: u64,
    /// Lines read.
    pub read: u64,
    /// Lines written.
    pub write: u64,
    /// Ranks refreshed.
    pub refresh: u64,
}

/// Numbers of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Reads accepted.
    pub reads: u64,
    /// Writes accepted.
    pub writes: u64,
    /// Reads that were answered by an earlier read of the line, or by a write that waits.
    pub reads_merged: u64,
    /// Writes that replaced one of the same line that waited.
    pub writes_merged: u64,
    /// Writes that still wait in the controller: a run ends when the last request is answered,
    /// and a write is answered when it is accepted.
    pub writes_waiting: u64,
}

/// Energies in microjoules.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Energy {
    /// Rows opened and closed.
    pub activate: f64,
    /// Lines read.
    pub read: f64,
    /// Lines written.
    pub write: f64,
    /// Ranks refreshed.
    pub refresh: f64,
    /// All the time, more while a row is open.
    pub background: f64,
}

impl Energy {
    /// What requests cost: rows, reads and writes.
    pub fn dynamic(&self) -> f64 {
        self.activate + self.read + self.write
    }

    /// All of it.
    pub fn total(&self) -> f64 {
        self.dynamic() + self.refresh + self.background
    }

    /// The energy of commands, and of `clocks` of all ranks, in `active` of which a row was open.
    ///
    /// Volts times milliamperes times nanoseconds are picojoules. From the current while rows are
    /// opened and closed goes the background, which is counted for itself.
    pub(super) fn of(
        parameters: &Parameters,
        commands: &Commands,
        clocks: u128,
        active: u128,
    ) -> Energy {
        let Currents {
            vdd,
            idd0,
            idd2n,
            idd3n,
            idd4r,
            idd4w,
            idd5ab,
        } = parameters.currents;
        let (ras, rp) = (parameters.t_ras as f64, parameters.t_rp as f64);
        let burst = parameters.burst as f64;
        let clock_ns = parameters.clock_ns();
        let microjoules = |milliamperes_clocks: f64, times: u128| {
            vdd * milliamperes_clocks * clock_ns * parameters.devices * times as f64 * 1e-6
        };
        Energy {
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
