//! Counters of a device.

use super::{Answered, ProgramWork};
use nearfield_core::VirtualTime;

/// Sums over rounds. For worker threads, the times and the work of programs are zero.
#[derive(Clone, Debug, Default)]
pub struct DeviceCounters {
    /// Number of rounds.
    pub rounds: u64,
    /// The work of programs in all modules.
    pub work: ProgramWork,
    /// Bytes of content sent to modules, and of content sent back.
    pub useful_bytes: [u64; 2],
    /// Bytes that were transferred for that. They are more, because a transfer moves the same
    /// length for all modules.
    pub moved_bytes: [u64; 2],
    /// Words sent to the module that received most, summed over the rounds.
    pub fullest_words: u64,
    /// Average words sent to a module, summed over the rounds.
    pub average_words: f64,
    /// Running time of modules: in each round that of the slowest.
    pub kernel: VirtualTime,
    /// Running time of all modules, added up.
    pub kernels: VirtualTime,
    /// Time of transfers.
    pub transfer: VirtualTime,
    /// Time of transfers back to the host, a part of `transfer`.
    pub gather: VirtualTime,
    /// Time to start modules and to detect that they have finished.
    pub launch: VirtualTime,
    /// The host's own time, for the work that it reported.
    pub host: VirtualTime,
}

impl DeviceCounters {
    /// Counts the words sent to modules.
    pub(super) fn sent(&mut self, inputs: &[Vec<u64>]) {
        self.rounds += 1;
        let words = inputs.iter().map(|input| input.len() as u64);
        let (sum, most) = words.fold((0, 0), |(sum, most), words| (sum + words, most.max(words)));
        self.useful_bytes[0] += sum * 8;
        self.fullest_words += most;
        self.average_words += sum as f64 / inputs.len().max(1) as f64;
    }

    /// Counts the words sent back.
    pub(super) fn received(&mut self, outputs: &[Answered]) {
        let words: usize = outputs.iter().flatten().map(Vec::len).sum();
        self.useful_bytes[1] += words as u64 * 8;
    }

    /// Returns the total time, with host and modules working in turn.
    pub fn time(&self) -> VirtualTime {
        self.kernel + self.transfer + self.launch + self.host
    }

    /// Returns the time that the host was idle while modules ran.
    pub fn host_idle(&self) -> VirtualTime {
        self.kernel + self.launch
    }

    /// Returns the time that no module ran, while the host worked or transferred data.
    pub fn modules_idle(&self) -> VirtualTime {
        self.transfer + self.launch + self.host
    }
}
