//! Counters of a device.

use super::Answered;
use nearfield_hardware::Time;
use nearfield_hardware::modules::Totals;

/// Sums over rounds. For real workers, the times and the work of programs are zero.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Rounds.
    pub rounds: u64,
    /// The work of programs in all modules.
    pub work: Totals,
    /// Bytes for modules, and from them, that mean something.
    pub useful_bytes: [u64; 2],
    /// Bytes that were moved for that, as all modules of a transfer are sent as much.
    pub moved_bytes: [u64; 2],
    /// The words sent to the module with most words, summed over the rounds.
    pub fullest_words: u64,
    /// The words sent to a module on average.
    pub average_words: f64,
    /// The running time of modules: that of the longest in each round.
    pub kernel: Time,
    /// How long all modules have run together.
    pub kernels: Time,
    /// How long data were moved.
    pub transfer: Time,
    /// How long of that they came back.
    pub gather: Time,
    /// How long it took to start modules and see that they were done.
    pub launch: Time,
    /// The host's own time, for the work that it has reported.
    pub host: Time,
}

impl Counters {
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

    /// How long all has taken, host and modules in turn.
    pub fn time(&self) -> Time {
        self.kernel + self.transfer + self.launch + self.host
    }

    /// How long the host had nothing to do, as modules ran.
    pub fn host_idle(&self) -> Time {
        self.kernel + self.launch
    }

    /// How long no module ran, as the host worked or moved data.
    pub fn modules_idle(&self) -> Time {
        self.transfer + self.launch + self.host
    }
}
