//! A run, from event to event.

use super::batch::{Combining, Operating};
use super::bound::Work;
use super::buckets::Labels;
use super::buffer::Buffer;
use super::off_chip::{OffChip, Reader};
use super::unit::Unit;
use super::{Bound, Error, Operation, Parameters, Policy, Report, Tree};
use crate::Time;
use crate::dram::LINE_BYTES;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The regions of records, buckets and shortcuts in the memory of the card, after the tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Regions {
    /// The start of the records; the tree, with half of the memory, is before it.
    pub(super) records: u64,
    /// The start of the buckets. The records and they have an eighth each.
    pub(super) buckets: u64,
    pub(super) bucket: u64,
    /// The start of the shortcuts, which have a quarter.
    pub(super) shortcuts: u64,
    pub(super) shortcut_places: u64,
}

impl Regions {
    pub(super) fn of(parameters: &Parameters) -> Regions {
        let eighth = parameters.memory.bytes() / 8;
        Regions {
            records: 4 * eighth,
            buckets: 5 * eighth,
            bucket: eighth / parameters.buckets as u64 / LINE_BYTES * LINE_BYTES,
            shortcuts: 6 * eighth,
            shortcut_places: 2 * eighth / u64::from(parameters.shortcut_bytes),
        }
    }
}

/// An event of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The combining unit has finished a line of records.
    Scan,
    /// A batch has been combined.
    Combined,
    /// A unit may take an operation.
    Take(usize),
    /// The step of a lane has ended.
    Lane(usize, usize),
    /// A reader's line has arrived.
    Line(Reader),
}

/// The unit that has locked a node, and the number of its operations that hold the lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub(super) unit: usize,
    pub(super) operations: usize,
}

pub(super) struct Run<'a, T> {
    pub(super) parameters: &'a Parameters,
    pub(super) operations: &'a [Operation],
    pub(super) tree: &'a mut T,
    pub(super) now: Time,
    pub(super) events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    pub(super) caused: u64,
    pub(super) regions: Regions,
    pub(super) off_chip: OffChip,
    pub(super) arrived: Vec<(Time, Reader)>,
    pub(super) labels: Labels,
    pub(super) combining: Option<Combining>,
    pub(super) operating: Option<Operating>,
    pub(super) units: Vec<Unit>,
    pub(super) work: Vec<Work>,
    pub(super) tree_buffer: Buffer,
    pub(super) shortcut_buffer: Buffer,
    pub(super) shortcuts: FxHashMap<u64, [u64; 2]>,
    /// The nodes that a unit has locked, and the lanes that wait for them.
    pub(super) locked: FxHashMap<u64, Holder>,
    pub(super) blocked: Vec<(usize, usize)>,
    pub(super) report: Report,
    pub(super) failed: Option<Error>,
}

impl<'a, T: Tree> Run<'a, T> {
    pub(super) fn new(
        parameters: &'a Parameters,
        operations: &'a [Operation],
        tree: &'a mut T,
        off_chip: OffChip,
    ) -> Run<'a, T> {
        // Without buckets of prefixes, all lines have the same value.
        let owners = parameters.buckets;
        let first = operations.len().min(parameters.batch);
        let tree_policy = parameters.tree_policy;
        let bytes = u64::from(parameters.shortcut_bytes);
        let shortcut_buffer = Buffer::new(Policy::Lru, parameters.shortcut_buffer, bytes, 1);
        Run {
            parameters,
            operations,
            tree,
            now: Time::ZERO,
            events: BinaryHeap::new(),
            caused: 0,
            regions: Regions::of(parameters),
            off_chip,
            arrived: Vec::new(),
            labels: Labels::of(parameters.buckets, &operations[..first]),
            combining: None,
            operating: None,
            units: vec![Unit::new(parameters); parameters.units],
            work: vec![Work::default(); parameters.units],
            tree_buffer: Buffer::new(tree_policy, parameters.tree_buffer, LINE_BYTES, owners),
            shortcut_buffer,
            shortcuts: FxHashMap::default(),
            locked: FxHashMap::default(),
            blocked: Vec::new(),
            report: Report::new(operations.len() as u64),
            failed: None,
        }
    }

    pub(super) fn finish(mut self) -> Result<Report, Error> {
        self.combine(0);
        loop {
            let event = self.events.peek().map(|Reverse((at, ..))| *at);
            let memory = self.off_chip.next();
            match (event, memory) {
                (None, None) => break,
                (at, Some(memory)) if at.is_none_or(|at| memory <= at) => {
                    let mut arrived = std::mem::take(&mut self.arrived);
                    self.off_chip.advance(memory, &mut arrived);
                    for (at, reader) in arrived.drain(..) {
                        self.cause(at.max(self.now), Event::Line(reader));
                    }
                    self.arrived = arrived;
                }
                _ => {
                    if let Some(Reverse((at, _, event))) = self.events.pop() {
                        self.now = at;
                        self.happen(event);
                    }
                    if let Some(error) = self.failed {
                        return Err(error);
                    }
                }
            }
        }
        let lines = [self.off_chip.reads, self.off_chip.writes];
        let memory = self.off_chip.finish(self.now);
        let rows = memory.commands.activate;
        let operations = self.report.operations;
        let all = lines[0] + lines[1];
        Ok(Report {
            lines,
            bound: Bound::of(self.parameters, operations, &self.work, all, rows),
            memory,
            ..self.report
        })
    }

    pub(super) fn cause(&mut self, at: Time, event: Event) {
        self.caused += 1;
        self.events.push(Reverse((at, self.caused, event)));
    }

    pub(super) fn happen(&mut self, event: Event) {
        match event {
            Event::Scan => self.scan(),
            Event::Combined => self.combined(),
            Event::Take(unit) => self.take(unit),
            Event::Lane(unit, lane) => self.step(unit, lane),
            Event::Line(Reader::Scan(line)) => {
                let Some(combining) = &mut self.combining else {
                    return;
                };
                combining.records.arrived(line);
                if std::mem::take(&mut combining.starved) {
                    self.scan();
                }
            }
            Event::Line(Reader::Records(unit, line)) => {
                self.units[unit].records.arrived(line);
                if std::mem::take(&mut self.units[unit].starved) {
                    self.take(unit);
                }
            }
            Event::Line(Reader::Lane(unit, lane)) => self.line_for(unit, lane),
        }
    }
}
