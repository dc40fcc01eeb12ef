//! The memory of the card from the accelerator's side.

use super::DcartParameters;
use crate::VirtualTime;
use crate::dram::{DramAccess, DramMemory, DramReadCompletion, LINE_BYTES};
use rustc_hash::FxHashMap;

/// The reader that waits for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OffChipReader {
    /// The combining unit, for this line of its stream.
    Scan(u64),
    /// A unit, for this line of its stream of spilled records.
    Records(usize, u64),
    /// An operation of a unit.
    Lane(usize, usize),
}

/// The memory of the card. Reads of a line that is already being read wait for it together.
#[derive(Clone, Debug)]
pub(super) struct OffChip {
    memory: DramMemory,
    clock: u64,
    port: VirtualTime,
    waiting: FxHashMap<u64, Vec<OffChipReader>>,
    answers: Vec<DramReadCompletion>,
    pub(super) reads: u64,
    pub(super) writes: u64,
}

impl OffChip {
    pub(super) fn new(parameters: &DcartParameters) -> Result<OffChip, crate::dram::DramError> {
        let mut memory = DramMemory::new(parameters.memory.clone())?;
        memory.keep_completions();
        Ok(OffChip {
            memory,
            clock: parameters.memory.t_ck_ps,
            port: parameters.cycles(parameters.port_cycles),
            waiting: FxHashMap::default(),
            answers: Vec::new(),
            reads: 0,
            writes: 0,
        })
    }

    fn clock_at(&self, now: VirtualTime) -> u64 {
        now.as_picoseconds().div_ceil(self.clock)
    }

    /// Requests the line that contains a byte.
    pub(super) fn read(&mut self, now: VirtualTime, address: u64, reader: OffChipReader) {
        let line = address & !(LINE_BYTES - 1);
        let readers = self.waiting.entry(line).or_default();
        readers.push(reader);
        // The memory would merge such reads, too, but then it would return one result for several
        // readers.
        if readers.len() == 1 {
            self.reads += 1;
            let clock = self.clock_at(now);
            self.memory.submit(line, DramAccess::Read, clock);
        }
    }

    /// Writes the line that contains a byte. No reader waits for it.
    pub(super) fn write(&mut self, now: VirtualTime, address: u64) {
        self.writes += 1;
        let clock = self.clock_at(now);
        self.memory.submit(address, DramAccess::Write, clock);
    }

    /// Returns the next time at which a read may complete.
    pub(super) fn next(&self) -> Option<VirtualTime> {
        let clock = self.memory.next_of_reads()?;
        Some(VirtualTime::from_picoseconds(clock * self.clock))
    }

    /// Lets time pass, and appends the readers whose line has arrived, with the time. That time may
    /// be in the future.
    pub(super) fn advance(
        &mut self,
        now: VirtualTime,
        arrived: &mut Vec<(VirtualTime, OffChipReader)>,
    ) {
        // Clocks before the given one are executed, so the present one is included.
        let clock = self.clock_at(now) + 1;
        self.memory.completions_before(clock, &mut self.answers);
        for answer in self.answers.drain(..) {
            let at = VirtualTime::from_picoseconds(answer.clock * self.clock) + self.port;
            let readers = self.waiting.remove(&answer.line).unwrap_or_default();
            arrived.extend(readers.into_iter().map(|reader| (at, reader)));
        }
    }

    /// Returns the report of the memory up to this moment.
    pub(super) fn finish(self, now: VirtualTime) -> crate::dram::DramReport {
        let clock = self.clock_at(now);
        self.memory.finish_at(clock)
    }
}
