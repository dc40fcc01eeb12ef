//! The memory of the card from the accelerator's side.

use super::Parameters;
use crate::Time;
use crate::dram::{Access, Answer, LINE_BYTES, Memory};
use rustc_hash::FxHashMap;

/// The reader that waits for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reader {
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
    memory: Memory,
    clock: u64,
    port: Time,
    waiting: FxHashMap<u64, Vec<Reader>>,
    answers: Vec<Answer>,
    pub(super) reads: u64,
    pub(super) writes: u64,
}

impl OffChip {
    pub(super) fn new(parameters: &Parameters) -> Result<OffChip, crate::dram::Error> {
        let mut memory = Memory::new(parameters.memory.clone())?;
        memory.keep_answers();
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

    fn clock_at(&self, now: Time) -> u64 {
        now.as_picoseconds().div_ceil(self.clock)
    }

    /// Requests the line that contains a byte.
    pub(super) fn read(&mut self, now: Time, address: u64, reader: Reader) {
        let line = address & !(LINE_BYTES - 1);
        let readers = self.waiting.entry(line).or_default();
        readers.push(reader);
        if readers.len() == 1 {
            self.reads += 1;
            let clock = self.clock_at(now);
            self.memory.submit(line, Access::Read, clock);
        }
    }

    /// Writes the line that contains a byte. No reader waits for it.
    pub(super) fn write(&mut self, now: Time, address: u64) {
        self.writes += 1;
        let clock = self.clock_at(now);
        self.memory.submit(address, Access::Write, clock);
    }

    /// Returns the next time at which a read may complete.
    pub(super) fn next(&self) -> Option<Time> {
        let clock = self.memory.next_of_reads()?;
        Some(Time::from_picoseconds(clock * self.clock))
    }

    /// Lets time pass, and appends the readers whose line has arrived, with the time. That time may
    /// be in the future.
    pub(super) fn advance(&mut self, now: Time, arrived: &mut Vec<(Time, Reader)>) {
        let clock = self.clock_at(now) + 1;
        self.memory.answers_before(clock, &mut self.answers);
        for answer in self.answers.drain(..) {
            let at = Time::from_picoseconds(answer.clock * self.clock) + self.port;
            let readers = self.waiting.remove(&answer.line).unwrap_or_default();
            arrived.extend(readers.into_iter().map(|reader| (at, reader)));
        }
    }

    /// Returns the report of the memory up to this moment.
    pub(super) fn finish(self, now: Time) -> crate::dram::Report {
        let clock = self.clock_at(now);
        self.memory.finish_at(clock)
    }
}
