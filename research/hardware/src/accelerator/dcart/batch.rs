//! Batches: their combining, and their distribution to units.

use super::buckets::{Buckets, LabelBuckets};
use super::off_chip::OffChipReader;
use super::run::{DcartEvent, DcartSimulation};
use super::stream::CardLineStream;
use super::walk::Walks;
use super::{DcartError, DcartOperation, DcartTree, DcartVisit, DcartWalk};
use crate::VirtualTime;
use crate::dram::LINE_BYTES;
use std::collections::VecDeque;

/// The combining unit, and the batch that it combines.
#[derive(Debug)]
pub(super) struct CombiningUnit {
    /// The batch, by the place of its first operation and the place after its last one.
    pub(super) begin: usize,
    pub(super) end: usize,
    pub(super) since: VirtualTime,
    pub(super) next: usize,
    /// The byte offset in the stream at which the next record begins.
    pub(super) offset: u64,
    pub(super) records: CardLineStream,
    pub(super) starved: bool,
    pub(super) done: bool,
    pub(super) labels: LabelBuckets,
    pub(super) buckets: Buckets,
}

/// The batch that the units execute.
#[derive(Debug)]
pub(super) struct ExecutingBatch {
    pub(super) begin: usize,
    pub(super) since: VirtualTime,
    pub(super) end: usize,
    pub(super) labels: LabelBuckets,
    pub(super) buckets: Buckets,
    /// Buckets that no unit has, the largest first.
    pub(super) waiting: VecDeque<usize>,
    pub(super) walks: Walks,
    pub(super) left: usize,
}

impl<T: DcartTree> DcartSimulation<'_, T> {
    /// Begins to combine the batch that starts at this operation, if there is one.
    pub(super) fn combine(&mut self, begin: usize) {
        let end = self.operations.len().min(begin + self.parameters.batch);
        if begin == end {
            return;
        }
        let bytes =
            |part: &[DcartOperation]| part.iter().map(|one| u64::from(one.bytes)).sum::<u64>();
        let base = self.regions.records;
        let lines = bytes(&self.operations[begin..end]).div_ceil(LINE_BYTES);
        let ahead = self.parameters.scan_buffer / LINE_BYTES;
        let ahead = self.parameters.stream_lines.min(ahead as usize);
        self.combining = Some(CombiningUnit {
            begin,
            end,
            since: self.now,
            next: begin,
            offset: 0,
            records: CardLineStream::new(base, lines, ahead),
            starved: false,
            done: false,
            // The division stays as it was when the batch began, although the next one changes it
            // meanwhile.
            labels: self.labels.clone(),
            buckets: Buckets::empty(self.parameters.buckets),
        });
        self.scan();
    }

    /// Takes the records of the next line.
    pub(super) fn scan(&mut self) {
        let Some(combining) = &mut self.combining else {
            return;
        };
        let line = combining.offset / LINE_BYTES;
        combining.records.reach(line);
        // Lines are requested before the present one is used, so that the unit seldom waits.
        while let Some((line, address)) = combining.records.ask() {
            self.off_chip
                .read(self.now, address, OffChipReader::Scan(line));
        }
        if combining.next == combining.end {
            // Three stages: the last operation is two cycles from its bucket.
            let at = self.now + self.parameters.cycles(2);
            self.cause(at, DcartEvent::Combined);
            return;
        }
        if !combining.records.has(line) {
            // The arrival of the line calls this function again.
            combining.starved = true;
            return;
        }
        let mut taken = 0;
        while combining.next < combining.end && combining.offset / LINE_BYTES == line {
            // A record belongs to the line in which it begins.
            let operation = &self.operations[combining.next];
            let place = combining.next - combining.begin;
            let (bucket, spill, from) =
                combining
                    .buckets
                    .add(place, operation, &combining.labels, self.parameters);
            for number in 0..spill {
                let address = self.regions.buckets
                    + bucket as u64 * self.regions.bucket
                    + from
                    + number * LINE_BYTES;
                self.off_chip.write(self.now, address);
            }
            combining.offset += u64::from(operation.bytes);
            combining.next += 1;
            taken += 1;
        }
        let takes = self.parameters.cycles(taken);
        self.report.combined += takes;
        self.cause(self.now + takes, DcartEvent::Scan);
    }

    pub(super) fn combined(&mut self) {
        if let Some(combining) = &mut self.combining {
            combining.done = true;
        }
        self.dispatch();
    }

    /// Gives a combined batch to the units, when they have finished the one before.
    pub(super) fn dispatch(&mut self) {
        // Two conditions must hold, and either may come last. Both events call this function.
        if self.operating.is_some() || self.combining.as_ref().is_none_or(|batch| !batch.done) {
            return;
        }
        let Some(batch) = self.combining.take() else {
            return;
        };
        let operations = &self.operations[batch.begin..batch.end];
        // The tree executes the whole batch at once, in order. The model then only gives the times
        // of these walks.
        let (mut walks, mut walk) = (Walks::default(), DcartWalk::default());
        for place in batch.begin..batch.end {
            walk.clear();
            self.tree.execute(place, &mut walk);
            let spans = |visit: &DcartVisit| [visit.first, visit.also, visit.then];
            let read = walk.visits().iter().flat_map(spans);
            let read = read.map(|span| span.address);
            let written = walk.stores().iter().map(|span| span.address);
            if let Some(address) = read.chain(written).find(|at| *at >= self.regions.records) {
                let card = self.regions.records;
                self.failed = Some(DcartError::Tree { address, card });
                return;
            }
            walks.push(&walk);
        }
        // The next batch is divided by this one, as if loads changed slowly.
        self.labels.balance(operations);
        let sizes = batch
            .buckets
            .all
            .iter()
            .map(|bucket| bucket.operations.len() as u64);
        self.tree_buffer.set_values(sizes);
        self.operating = Some(ExecutingBatch {
            begin: batch.begin,
            end: batch.end,
            since: batch.since,
            labels: batch.labels,
            waiting: batch.buckets.by_size().into(),
            buckets: batch.buckets,
            walks,
            left: operations.len(),
        });
        for unit in 0..self.units.len() {
            self.give(unit);
        }
        if self.parameters.overlaps {
            // Units and combining unit share no parts but the memory.
            self.combine(batch.end);
        }
    }

    /// Gives a unit its next bucket.
    pub(super) fn give(&mut self, unit: usize) {
        let Some(operating) = &mut self.operating else {
            return;
        };
        let Some(bucket) = operating.waiting.pop_front() else {
            return;
        };
        let table = std::mem::take(&mut operating.buckets.all[bucket]);
        let base = self.regions.buckets
            + bucket as u64 * self.regions.bucket
            + self.parameters.bucket_bytes();
        // Only spilled records come from memory. The others are in the buffer of buckets.
        let lines = table.spilled.div_ceil(LINE_BYTES);
        let one = &mut self.units[unit];
        one.records = CardLineStream::new(base, lines, self.parameters.stream_lines);
        (one.bucket, one.taken) = (Some(table), 0);
        self.take(unit);
    }

    /// Continues with the next batch, if this one has ended.
    pub(super) fn end_batch(&mut self) {
        let is_over = |operating: &mut ExecutingBatch| operating.left == 0;
        let idle = self.units.iter().all(|unit| unit.bucket.is_none());
        let Some(batch) = self
            .operating
            .take_if(|operating| idle && is_over(operating))
        else {
            return;
        };
        self.report.time = self.now;
        match self.parameters.overlaps {
            true => self.dispatch(),
            false => self.combine(batch.end),
        }
    }
}
