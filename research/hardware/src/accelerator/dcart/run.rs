//! A run, from event to event.

use super::batch::{CombiningUnit, ExecutingBatch};
use super::bound::DcartUnitWork;
use super::buckets::LabelBuckets;
use super::buffer::LineBuffer;
use super::off_chip::{OffChip, OffChipReader};
use super::unit::Unit;
use super::{
    DcartBound, DcartError, DcartOperation, DcartParameters, DcartReport, DcartTree,
    LineBufferPolicy,
};
use crate::VirtualTime;
use crate::dram::LINE_BYTES;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The regions of records, buckets and shortcuts in the memory of the card, after the tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct CardRegions {
    /// The start of the records; the tree, with half of the memory, is before it.
    pub(super) records: u64,
    /// The start of the buckets. The records and they have an eighth each.
    pub(super) buckets: u64,
    pub(super) bucket: u64,
    /// The start of the shortcuts, which have a quarter.
    pub(super) shortcuts: u64,
    pub(super) shortcut_places: u64,
}

impl CardRegions {
    pub(super) fn of(parameters: &DcartParameters) -> CardRegions {
        let eighth = parameters.memory.bytes() / 8;
        CardRegions {
            records: 4 * eighth,
            buckets: 5 * eighth,
            // Buckets begin at lines, so that their spills are whole lines.
            bucket: eighth / parameters.buckets as u64 / LINE_BYTES * LINE_BYTES,
            shortcuts: 6 * eighth,
            shortcut_places: 2 * eighth / u64::from(parameters.shortcut_bytes),
        }
    }
}

/// An event of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DcartEvent {
    /// The combining unit has finished a line of records.
    Scan,
    /// A batch has been combined.
    Combined,
    /// A unit may take an operation.
    Take(usize),
    /// The step of a lane has ended.
    Lane(usize, usize),
    /// A reader's line has arrived.
    Line(OffChipReader),
}

/// The unit that has locked a node, and the number of its operations that hold the lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeLockHolder {
    pub(super) unit: usize,
    pub(super) operations: usize,
}

pub(super) struct DcartSimulation<'a, T> {
    pub(super) parameters: &'a DcartParameters,
    pub(super) operations: &'a [DcartOperation],
    pub(super) tree: &'a mut T,
    pub(super) now: VirtualTime,
    pub(super) events: BinaryHeap<Reverse<(VirtualTime, u64, DcartEvent)>>,
    pub(super) caused: u64,
    pub(super) regions: CardRegions,
    pub(super) off_chip: OffChip,
    pub(super) arrived: Vec<(VirtualTime, OffChipReader)>,
    pub(super) labels: LabelBuckets,
    pub(super) combining: Option<CombiningUnit>,
    pub(super) operating: Option<ExecutingBatch>,
    pub(super) units: Vec<Unit>,
    pub(super) work: Vec<DcartUnitWork>,
    pub(super) tree_buffer: LineBuffer,
    pub(super) shortcut_buffer: LineBuffer,
    pub(super) shortcuts: FxHashMap<u64, [u64; 2]>,
    /// The nodes that a unit has locked, and the lanes that wait for them.
    pub(super) locked: FxHashMap<u64, NodeLockHolder>,
    pub(super) blocked: Vec<(usize, usize)>,
    pub(super) report: DcartReport,
    pub(super) failed: Option<DcartError>,
}

impl<'a, T: DcartTree> DcartSimulation<'a, T> {
    pub(super) fn new(
        parameters: &'a DcartParameters,
        operations: &'a [DcartOperation],
        tree: &'a mut T,
        off_chip: OffChip,
    ) -> DcartSimulation<'a, T> {
        // Without buckets of prefixes, all lines have the same value.
        let owners = parameters.buckets;
        let first = operations.len().min(parameters.batch);
        let tree_policy = parameters.tree_policy;
        let bytes = u64::from(parameters.shortcut_bytes);
        let shortcut_buffer =
            LineBuffer::new(LineBufferPolicy::Lru, parameters.shortcut_buffer, bytes, 1);
        DcartSimulation {
            parameters,
            operations,
            tree,
            now: VirtualTime::ZERO,
            events: BinaryHeap::new(),
            caused: 0,
            regions: CardRegions::of(parameters),
            off_chip,
            arrived: Vec::new(),
            labels: LabelBuckets::of(parameters.buckets, &operations[..first]),
            combining: None,
            operating: None,
            units: vec![Unit::new(parameters); parameters.units],
            work: vec![DcartUnitWork::default(); parameters.units],
            tree_buffer: LineBuffer::new(tree_policy, parameters.tree_buffer, LINE_BYTES, owners),
            shortcut_buffer,
            shortcuts: FxHashMap::default(),
            locked: FxHashMap::default(),
            blocked: Vec::new(),
            report: DcartReport::new(operations.len() as u64),
            failed: None,
        }
    }

    pub(super) fn finish(mut self) -> Result<DcartReport, DcartError> {
        self.combine(0);
        loop {
            let event = self.events.peek().map(|Reverse((at, ..))| *at);
            let memory = self.off_chip.next();
            match (event, memory) {
                (None, None) => break,
                (at, Some(memory)) if at.is_none_or(|at| memory <= at) => {
                    // The memory runs up to the next event, but no further: that event may send
                    // requests.
                    let mut arrived = std::mem::take(&mut self.arrived);
                    self.off_chip.advance(memory, &mut arrived);
                    for (at, reader) in arrived.drain(..) {
                        self.cause(at.max(self.now), DcartEvent::Line(reader));
                    }
                    self.arrived = arrived;
                }
                _ => {
                    if let Some(Reverse((at, _, event))) = self.events.pop() {
                        debug_assert!(at >= self.now, "time does not go back");
                        self.now = at;
                        self.happen(event);
                    }
                    if let Some(error) = self.failed {
                        return Err(error);
                    }
                }
            }
        }
        debug_assert_eq!(self.report.latencies.len() as u64, self.report.operations);
        debug_assert!(self.locked.is_empty() && self.blocked.is_empty());
        let lines = [self.off_chip.reads, self.off_chip.writes];
        let memory = self.off_chip.finish(self.now);
        let rows = memory.commands.activate;
        let operations = self.report.operations;
        let all = lines[0] + lines[1];
        Ok(DcartReport {
            lines,
            bound: DcartBound::of(self.parameters, operations, &self.work, all, rows),
            memory,
            ..self.report
        })
    }

    pub(super) fn cause(&mut self, at: VirtualTime, event: DcartEvent) {
        self.caused += 1;
        self.events.push(Reverse((at, self.caused, event)));
    }

    pub(super) fn happen(&mut self, event: DcartEvent) {
        match event {
            DcartEvent::Scan => self.scan(),
            DcartEvent::Combined => self.combined(),
            DcartEvent::Take(unit) => self.take(unit),
            DcartEvent::Lane(unit, lane) => self.step(unit, lane),
            DcartEvent::Line(OffChipReader::Scan(line)) => {
                let Some(combining) = &mut self.combining else {
                    return;
                };
                combining.records.arrived(line);
                if std::mem::take(&mut combining.starved) {
                    self.scan();
                }
            }
            DcartEvent::Line(OffChipReader::Records(unit, line)) => {
                self.units[unit].records.arrived(line);
                if std::mem::take(&mut self.units[unit].starved) {
                    self.take(unit);
                }
            }
            DcartEvent::Line(OffChipReader::Lane(unit, lane)) => self.line_for(unit, lane),
        }
    }
}
