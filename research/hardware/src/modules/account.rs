//! The work of a module's program in a round, and its time.

use super::ModuleParameters;
use crate::VirtualTime;

/// The work of one module. Its threads share the processor and the copy engine; each waits for its
/// own copies, one after another.
#[derive(Clone, Debug)]
pub struct ModuleAccount {
    parameters: ModuleParameters,
    /// The instructions of each thread, and the cycles for which it has waited for copies.
    threads: Vec<(u64, f64)>,
    current: usize,
    occupied: f64,
    /// The instructions of all threads.
    instructions: u64,
}

impl ModuleAccount {
    /// Creates the account of a module that has done nothing.
    pub fn new(parameters: &ModuleParameters) -> ModuleAccount {
        ModuleAccount {
            parameters: *parameters,
            threads: vec![(0, 0.0); parameters.tasklets.max(1)],
            current: 0,
            occupied: 0.0,
            instructions: 0,
        }
    }

    /// Continues as the thread that does task `number`: tasks are distributed in turn.
    pub fn begin(&mut self, number: usize) {
        self.current = number % self.threads.len();
    }

    /// Counts `count` instructions.
    pub fn instructions(&mut self, count: u64) {
        self.threads[self.current].0 += count;
        self.instructions += count;
    }

    /// Counts `bytes` copied from the bank, in as many copies as needed. Returns the number of
    /// copies.
    pub fn read(&mut self, bytes: u64) -> u64 {
        self.copy(bytes, self.parameters.dma.read_latency)
    }

    /// Counts `bytes` copied to the bank. Returns the number of copies.
    pub fn write(&mut self, bytes: u64) -> u64 {
        self.copy(bytes, self.parameters.dma.write_latency)
    }

    fn copy(&mut self, bytes: u64, latency: f64) -> u64 {
        let dma = &self.parameters.dma;
        // Copies consist of whole words.
        let bytes = bytes.next_multiple_of(8);
        let copies = bytes.div_ceil(self.parameters.dma_bytes_max);
        let (count, length) = (copies as f64, bytes as f64);
        // The thread waits for the latency, while the engine is occupied for a part of it and
        // serves others.
        self.threads[self.current].1 += count * latency + length * dma.latency_per_byte;
        self.occupied += count * dma.occupied + length * dma.occupied_per_byte;
        copies
    }
}

impl ModuleParameters {
    /// Returns the time of a module's program: that of its processor, its engine or the slowest of
    /// its threads, whichever is longest.
    pub fn kernel(&self, account: &ModuleAccount) -> VirtualTime {
        debug_assert_eq!(
            account.threads.iter().map(|thread| thread.0).sum::<u64>(),
            account.instructions
        );
        let busy = account.threads.iter().filter(|thread| **thread != (0, 0.0));
        let threads = (busy.count() as f64).max(1.0);
        let instructions = self.instructions * account.instructions as f64;
        // With fewer than 11 busy threads the processor has cycles in which none may begin an
        // instruction.
        let issue = instructions * (self.cycles_per_instruction / threads).max(1.0);
        // A thread waits for its own copies, so its times add up.
        let chains = account.threads.iter().map(|&(instructions, waited)| {
            self.cycles_per_instruction * self.instructions * instructions as f64 + waited
        });
        let chain = chains.fold(0.0, f64::max);
        let cycles = issue.max(account.occupied).max(chain);
        VirtualTime::from_picoseconds((cycles * 1e12 / self.cycles_per_second).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ModulePreset;
    use super::*;

    fn cycles(parameters: &ModuleParameters, account: &ModuleAccount) -> f64 {
        parameters.kernel(account).as_seconds() * parameters.cycles_per_second
    }

    /// Returns the megabytes per second of 16 threads that repeat the same work, which copies
    /// `bytes`.
    fn streamed(preset: ModulePreset, bytes: u64, work: impl Fn(&mut ModuleAccount)) -> f64 {
        const TASKLETS: usize = 16;
        const EACH: usize = 100;
        let parameters = ModuleParameters {
            tasklets: TASKLETS,
            ..preset.parameters()
        };
        let mut account = ModuleAccount::new(&parameters);
        for task in 0..TASKLETS * EACH {
            account.begin(task);
            work(&mut account);
        }
        let bytes = (TASKLETS * EACH) as u64 * bytes;
        bytes as f64 / parameters.kernel(&account).as_seconds() / 1e6
    }

    #[test]
    fn a_copy_takes_what_is_published() {
        let parameters = ModulePreset::UpmemMeasured.parameters();
        for (bytes, read) in [(8, 81.0), (256, 205.0), (2048, 1101.0)] {
            let mut account = ModuleAccount::new(&parameters);
            account.read(bytes);
            let cycles = cycles(&parameters, &account);
            // From 2048 bytes on the engine takes longest.
            assert!(
                (read - 0.1..read * 1.02).contains(&cycles),
                "{bytes}: {cycles}"
            );
        }
        let mut account = ModuleAccount::new(&parameters);
        account.write(8);
        assert!((cycles(&parameters, &account) - 65.0).abs() < 0.1);
        let paper = ModulePreset::RadarPaper.parameters();
        let mut account = ModuleAccount::new(&paper);
        account.read(8);
        assert_eq!(paper.kernel(&account), VirtualTime::from_nanoseconds(14));
    }

    #[test]
    fn published_bandwidths_come_out_again() {
        // Published: 628 MB/s in copies of 2048 bytes.
        let stream = streamed(ModulePreset::UpmemMeasured, 2048, |account| {
            account.read(2048);
        });
        assert!((600.0..660.0).contains(&stream), "{stream}");
        // Published: 72.6 MB/s, counting a word that is read and written twice.
        let random = streamed(ModulePreset::UpmemMeasured, 16, |account| {
            account.read(8);
            account.write(8);
        });
        assert!((70.0..76.0).contains(&random), "{random}");
        let paper = streamed(ModulePreset::RadarPaper, 2048, |account| {
            account.read(2048);
        });
        assert!((620.0..640.0).contains(&paper), "{paper}");
    }

    #[test]
    fn a_processor_is_full_with_eleven_threads() {
        // Published: 58.6 million additions per second, each with about five more instructions.
        let rate = |tasklets| {
            let parameters = ModuleParameters {
                tasklets,
                ..ModulePreset::UpmemMeasured.parameters()
            };
            let mut account = ModuleAccount::new(&parameters);
            for task in 0..tasklets * 100 {
                account.begin(task);
                account.instructions(6);
            }
            tasklets as f64 * 100.0 / parameters.kernel(&account).as_seconds() / 1e6
        };
        assert!((57.0..60.0).contains(&rate(16)), "{}", rate(16));
        assert!((rate(11) - rate(16)).abs() < 0.1);
        assert!((rate(1) * 11.0 - rate(11)).abs() < 0.1);
    }
}
