//! The accelerator, from event to event.

use super::bound::Work;
use super::buckets::{Buckets, Labels};
use super::buffer::Buffer;
use super::lanes::{Lane, Reading, Stage, Step, lines};
use super::off_chip::{OffChip, Reader};
use super::stream::Stream;
use super::unit::Unit;
use super::walk::Walks;
use super::{Bound, Error, Operation, Parameters, Pipeline, Policy, Report, Tree, Walk};
use crate::Time;
use crate::dram::LINE_BYTES;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Where records, buckets and shortcuts lie in the memory of the card, behind the tree.
#[derive(Clone, Copy, Debug)]
struct Regions {
    /// The tree lies before it: half of the memory.
    records: u64,
    /// An eighth each.
    buckets: u64,
    bucket: u64,
    /// A quarter.
    shortcuts: u64,
    shortcut_places: u64,
}

impl Regions {
    fn of(parameters: &Parameters) -> Regions {
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

/// An accelerator with its card.
#[derive(Debug)]
pub struct Accelerator {
    parameters: Parameters,
}

impl Accelerator {
    /// An accelerator with these parameters.
    ///
    /// # Errors
    /// See [`Parameters::check`].
    pub fn new(parameters: Parameters) -> Result<Accelerator, Error> {
        parameters.check()?;
        Ok(Accelerator { parameters })
    }

    /// Executes operations in batches, as fast as it can. Buffers and shortcuts are empty at first.
    ///
    /// # Errors
    /// [`Error::Tree`] if the tree outgrows half of the card's memory.
    pub fn run(&self, operations: &[Operation], tree: &mut impl Tree) -> Result<Report, Error> {
        let off_chip = OffChip::new(&self.parameters)?;
        Run::new(&self.parameters, operations, tree, off_chip).finish()
    }
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The combining unit is done with a line of records.
    Scan,
    /// A batch is combined.
    Combined,
    /// A unit may take an operation.
    Take(usize),
    /// The step of a lane is over.
    Lane(usize, usize),
    /// Somebody's line is here.
    Line(Reader),
}

/// Who has locked a node, and for how many of its operations.
#[derive(Clone, Copy, Debug)]
struct Holder {
    unit: usize,
    operations: usize,
}

/// The combining unit, and the batch that it combines.
#[derive(Debug)]
struct Combining {
    /// The batch, by the places of its first operation and of the one behind its last.
    begin: usize,
    end: usize,
    since: Time,
    next: usize,
    /// The byte of the stream at which the next record begins.
    offset: u64,
    records: Stream,
    starved: bool,
    done: bool,
    labels: Labels,
    buckets: Buckets,
}

/// The batch that the units execute.
#[derive(Debug)]
struct Operating {
    begin: usize,
    since: Time,
    end: usize,
    labels: Labels,
    buckets: Buckets,
    /// Buckets that no unit has, the largest first.
    waiting: VecDeque<usize>,
    walks: Walks,
    left: usize,
}

struct Run<'a, T> {
    parameters: &'a Parameters,
    operations: &'a [Operation],
    tree: &'a mut T,
    now: Time,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    caused: u64,
    regions: Regions,
    off_chip: OffChip,
    arrived: Vec<(Time, Reader)>,
    labels: Labels,
    combining: Option<Combining>,
    operating: Option<Operating>,
    units: Vec<Unit>,
    work: Vec<Work>,
    tree_buffer: Buffer,
    shortcut_buffer: Buffer,
    shortcuts: FxHashMap<u64, [u64; 2]>,
    /// Nodes that a unit has locked, and lanes that wait for them.
    locked: FxHashMap<u64, Holder>,
    blocked: Vec<(usize, usize)>,
    report: Report,
    failed: Option<Error>,
}

impl<'a, T: Tree> Run<'a, T> {
    fn new(
        parameters: &'a Parameters,
        operations: &'a [Operation],
        tree: &'a mut T,
        off_chip: OffChip,
    ) -> Run<'a, T> {
        // Without buckets of prefixes, all lines are worth the same.
        let owners = parameters.buckets;
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
            labels: Labels::even(parameters.buckets),
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

    fn finish(mut self) -> Result<Report, Error> {
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
            worked: self.units.iter().map(|unit| unit.worked).collect(),
            bound: Bound::of(self.parameters, operations, &self.work, all, rows),
            memory,
            ..self.report
        })
    }

    fn cause(&mut self, at: Time, event: Event) {
        self.caused += 1;
        self.events.push(Reverse((at, self.caused, event)));
    }

    fn happen(&mut self, event: Event) {
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

    // Combining.

    /// Begins to combine the batch that begins at this operation, if there is one.
    fn combine(&mut self, begin: usize) {
        let end = self.operations.len().min(begin + self.parameters.batch);
        if begin == end {
            return;
        }
        let bytes = |part: &[Operation]| part.iter().map(|one| u64::from(one.bytes)).sum::<u64>();
        let base = self.regions.records;
        let lines = bytes(&self.operations[begin..end]).div_ceil(LINE_BYTES);
        let ahead = self.parameters.scan_buffer / LINE_BYTES;
        let ahead = self.parameters.stream_lines.min(ahead as usize);
        self.combining = Some(Combining {
            begin,
            end,
            since: self.now,
            next: begin,
            offset: 0,
            records: Stream::new(base, lines, ahead),
            starved: false,
            done: false,
            labels: self.labels.clone(),
            buckets: Buckets::empty(self.parameters.buckets),
        });
        self.scan();
    }

    /// Takes the records of the next line.
    fn scan(&mut self) {
        let Some(combining) = &mut self.combining else {
            return;
        };
        let line = combining.offset / LINE_BYTES;
        combining.records.reach(line);
        while let Some((line, address)) = combining.records.ask() {
            self.report.record_lines += 1;
            self.off_chip.read(self.now, address, Reader::Scan(line));
        }
        if combining.next == combining.end {
            // Three stages: the last operation is two cycles from its bucket.
            let at = self.now + self.parameters.cycles(2);
            self.cause(at, Event::Combined);
            return;
        }
        if !combining.records.has(line) {
            combining.starved = true;
            return;
        }
        let mut taken = 0;
        while combining.next < combining.end && combining.offset / LINE_BYTES == line {
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
                self.report.record_lines += 1;
                self.off_chip.write(self.now, address);
            }
            combining.offset += u64::from(operation.bytes);
            combining.next += 1;
            taken += 1;
        }
        let takes = self.parameters.cycles(taken);
        self.report.combined += takes;
        self.cause(self.now + takes, Event::Scan);
    }

    fn combined(&mut self) {
        if let Some(combining) = &mut self.combining {
            combining.done = true;
        }
        self.dispatch();
    }

    /// Gives a combined batch to the units, when they are done with the one before.
    fn dispatch(&mut self) {
        if self.operating.is_some() || self.combining.as_ref().is_none_or(|batch| !batch.done) {
            return;
        }
        let Some(batch) = self.combining.take() else {
            return;
        };
        let operations = &self.operations[batch.begin..batch.end];
        let (mut walks, mut walk) = (Walks::default(), Walk::default());
        for place in batch.begin..batch.end {
            walk.clear();
            self.tree.execute(place, &mut walk);
            let read = walk.visits().iter().map(|visit| visit.first.address);
            let written = walk.stores().iter().map(|span| span.address);
            if let Some(address) = read.chain(written).find(|at| *at >= self.regions.records) {
                let card = self.regions.records;
                self.failed = Some(Error::Tree { address, card });
                return;
            }
            walks.push(&walk);
        }
        self.labels.balance(operations);
        let sizes = batch
            .buckets
            .all
            .iter()
            .map(|bucket| bucket.operations.len() as u64);
        self.tree_buffer.set_values(sizes);
        self.operating = Some(Operating {
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
            self.combine(batch.end);
        }
    }

    /// Gives a unit its next bucket.
    fn give(&mut self, unit: usize) {
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
        let lines = table.spilled.div_ceil(LINE_BYTES);
        let one = &mut self.units[unit];
        one.records = Stream::new(base, lines, self.parameters.stream_lines);
        (one.bucket, one.taken) = (Some(table), 0);
        self.take(unit);
    }

    /// Goes on to the next batch, if this one is over.
    fn end_batch(&mut self) {
        let is_over = |operating: &mut Operating| operating.left == 0;
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

    // Operating.

    /// Has a unit take its next operation, if it can.
    fn take(&mut self, unit: usize) {
        let parameters = self.parameters;
        let one = &mut self.units[unit];
        let next = one.next(parameters);
        if let Some((_, Some(line))) = next {
            one.records.reach(line);
        }
        while let Some((line, address)) = one.records.ask() {
            self.report.record_lines += 1;
            self.off_chip
                .read(self.now, address, Reader::Records(unit, line));
        }
        let Some((operation, line)) = next else {
            if one.active == 0 && one.bucket.take().is_some() {
                self.give(unit);
                self.end_batch();
            }
            return;
        };
        if line.is_some_and(|line| !one.records.has(line)) {
            one.starved = true;
            return;
        }
        let Some(operating) = &self.operating else {
            return;
        };
        let key = self.operations[operating.begin + operation].key;
        let is_interleaved = matches!(parameters.pipeline, Pipeline::Interleaved { .. });
        if is_interleaved
            && let Some(lane) = one.lane_of(key).and_then(|lane| one.lanes[lane].as_mut())
        {
            lane.riders.push(operation);
            lane.last = operation;
            one.taken += 1;
            self.report.riders += 1;
            self.work[unit].serves[Stage::Index as usize] += 1;
            let next = one.serve(Stage::Index, self.now, parameters.cycles(1));
            self.cause(next + parameters.cycles(1), Event::Take(unit));
            return;
        }
        let Some(lane) = one.free_lane(parameters.pipeline) else {
            return;
        };
        one.taken += 1;
        one.active += 1;
        one.enter(Stage::Index);
        let cycles = match parameters.shortcuts {
            true => parameters.hash_cycles + parameters.buffer_cycles,
            false => 1,
        };
        let begins = one.serve(Stage::Index, self.now, parameters.cycles(1));
        one.lanes[lane] = Some(Lane {
            operation,
            last: operation,
            key,
            stage: Stage::Index,
            step: Step::Hashed,
            reading: Reading::First(0),
            awaited: 0,
            since: begins,
            stalled: false,
            walked: false,
            riders: Vec::new(),
        });
        let work = &mut self.work[unit];
        work.serves[Stage::Index as usize] += 1;
        work.takes[Stage::Index as usize] += cycles;
        self.cause(begins + parameters.cycles(cycles), Event::Lane(unit, lane));
        if is_interleaved {
            self.cause(begins + parameters.cycles(1), Event::Take(unit));
        }
    }

    fn lane(&mut self, unit: usize, lane: usize) -> Option<&mut Lane> {
        self.units[unit].lanes[lane].as_mut()
    }

    /// Has a stage serve a lane for some cycles, and calls the lane for `step` when that and some
    /// more are over.
    fn serve(&mut self, unit: usize, lane: usize, serves: u64, more: u64, step: Step) {
        let parameters = self.parameters;
        let Some(one) = self.lane(unit, lane) else {
            return;
        };
        one.step = step;
        let stage = one.stage;
        let work = &mut self.work[unit];
        work.serves[stage as usize] += serves;
        work.takes[stage as usize] += serves + more;
        let begins = self.units[unit].serve(stage, self.now, parameters.cycles(serves));
        self.cause(
            begins + parameters.cycles(serves + more),
            Event::Lane(unit, lane),
        );
    }

    fn step(&mut self, unit: usize, lane: usize) {
        let Some(step) = self.lane(unit, lane).map(|lane| lane.step) else {
            return;
        };
        match step {
            Step::Hashed => self.hashed(unit, lane),
            Step::Shortcut => self.leave(unit, lane),
            Step::Looked => self.looked(unit, lane),
            Step::Fetched => self.fetched(unit, lane),
            Step::Matched => self.matched(unit, lane),
            Step::Triggered => self.triggered(unit, lane),
            Step::Generated => self.leave(unit, lane),
        }
    }

    /// A line has come for a lane, into the buffer that it is for.
    fn line_for(&mut self, unit: usize, lane: usize) {
        let Some(one) = self.lane(unit, lane) else {
            return;
        };
        one.awaited -= 1;
        if one.awaited == 0 {
            self.step(unit, lane);
        }
    }

    fn place_of_shortcut(&self, key: u64) -> u64 {
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        self.regions.shortcuts
            + hash % self.regions.shortcut_places * u64::from(self.parameters.shortcut_bytes)
    }

    /// Looks for the shortcut in the buffer, then in memory.
    fn hashed(&mut self, unit: usize, lane: usize) {
        let Some(key) = self.lane(unit, lane).map(|lane| lane.key) else {
            return;
        };
        if !self.parameters.shortcuts {
            return self.leave(unit, lane);
        }
        let place = self.place_of_shortcut(key);
        let hit = self.shortcut_buffer.has(place, 0);
        self.report.shortcut_buffer.count(hit);
        if hit {
            return self.leave(unit, lane);
        }
        if let Some(written) = self.shortcut_buffer.keep(place, 0) {
            self.off_chip.write(self.now, written);
        }
        self.work[unit].waits[Stage::Index as usize] += 1;
        if let Some(one) = self.lane(unit, lane) {
            (one.step, one.awaited) = (Step::Shortcut, 1);
        }
        self.off_chip
            .read(self.now, place, Reader::Lane(unit, lane));
    }

    /// The stage of a lane is over: it goes into the next one, as soon as that has room.
    fn leave(&mut self, unit: usize, lane: usize) {
        let now = self.now;
        let pipeline = self.parameters.pipeline;
        let one = &mut self.units[unit];
        let Some(active) = &mut one.lanes[lane] else {
            return;
        };
        let stage = active.stage;
        if !std::mem::take(&mut active.stalled) {
            let since = active.since;
            one.worked[stage as usize] += now - since;
        }
        match stage.next() {
            None => {
                one.leave(stage);
                one.lanes[lane] = None;
                one.active -= 1;
                self.free_stage(unit, stage);
                self.take(unit);
            }
            Some(next) if one.has_room(next, pipeline) => {
                one.leave(stage);
                one.enter(next);
                if let Some(active) = &mut one.lanes[lane] {
                    (active.stage, active.since) = (next, now);
                }
                self.free_stage(unit, stage);
                self.enter(unit, lane, next);
            }
            Some(_) => {
                if let Some(active) = &mut one.lanes[lane] {
                    active.stalled = true;
                }
            }
        }
    }

    /// A stage has room again.
    fn free_stage(&mut self, unit: usize, stage: Stage) {
        if self.parameters.pipeline != Pipeline::InOrder {
            return;
        }
        let before = match stage {
            Stage::Index => return self.take(unit),
            Stage::Traverse => Stage::Index,
            Stage::Trigger => Stage::Traverse,
            Stage::Generate => Stage::Trigger,
        };
        if let Some(lane) = self.units[unit].stalled_in(before) {
            self.leave(unit, lane);
        }
    }

    fn enter(&mut self, unit: usize, lane: usize, stage: Stage) {
        match stage {
            Stage::Index => {}
            Stage::Traverse => self.traverse(unit, lane),
            Stage::Trigger => self.lock(unit, lane, true),
            Stage::Generate => self.generate(unit, lane),
        }
    }

    /// Begins with the nodes that the shortcut names, or with the root.
    fn traverse(&mut self, unit: usize, lane: usize) {
        let Some((operation, key)) = self.lane(unit, lane).map(|one| (one.operation, one.key))
        else {
            return;
        };
        let before = match &self.operating {
            Some(operating) => operating.walks.get(operation).before,
            None => return,
        };
        let shortcut = self
            .shortcuts
            .get(&key)
            .filter(|_| self.parameters.shortcuts);
        let reading = match shortcut {
            Some(named) => Reading::Named {
                valid: before == Some(*named),
            },
            None => Reading::First(0),
        };
        let count = match reading {
            Reading::Named { valid: true } => &mut self.report.shortcuts_used,
            Reading::Named { valid: false } => &mut self.report.shortcuts_stale,
            _ => &mut self.report.shortcuts_missing,
        };
        *count += 1;
        self.read(unit, lane, reading);
    }

    /// Looks for bytes in the buffer of the tree.
    fn read(&mut self, unit: usize, lane: usize, reading: Reading) {
        if let Some(one) = self.lane(unit, lane) {
            one.reading = reading;
        }
        let cycles = self.parameters.buffer_cycles;
        self.serve(unit, lane, 1, cycles - 1, Step::Looked);
    }

    /// The lines that a lane reads now.
    fn wanted(&self, operation: usize, reading: Reading) -> Vec<u64> {
        let Some(operating) = &self.operating else {
            return Vec::new();
        };
        let visits = operating.walks.get(operation).visits;
        match reading {
            Reading::First(visit) => visits
                .get(visit)
                .into_iter()
                .flat_map(|one| lines(one.first))
                .collect(),
            Reading::Then(visit) => visits
                .get(visit)
                .into_iter()
                .flat_map(|one| lines(one.then))
                .collect(),
            Reading::Named { .. } => {
                let last = visits.len().saturating_sub(2);
                visits[last..]
                    .iter()
                    .flat_map(|one| lines(one.first))
                    .collect()
            }
        }
    }

    /// The bucket of a unit, whose lines it reads.
    fn owner(&self, operation: usize) -> usize {
        match &self.operating {
            Some(operating) if self.parameters.combines => {
                let label = self.operations[operating.begin + operation].label;
                operating.labels.bucket(label)
            }
            _ => 0,
        }
    }

    fn looked(&mut self, unit: usize, lane: usize) {
        let Some((operation, reading)) = self
            .lane(unit, lane)
            .map(|one| (one.operation, one.reading))
        else {
            return;
        };
        let owner = self.owner(operation);
        let mut awaited = 0;
        for line in self.wanted(operation, reading) {
            let hit = self.tree_buffer.has(line, owner);
            self.report.tree_buffer.count(hit);
            if !hit {
                awaited += 1;
                self.off_chip.read(self.now, line, Reader::Lane(unit, lane));
            }
        }
        if let Some(one) = self.lane(unit, lane) {
            (one.step, one.awaited) = (Step::Fetched, awaited);
        }
        match awaited {
            0 => self.fetched(unit, lane),
            _ => self.work[unit].waits[Stage::Traverse as usize] += 1,
        }
    }

    /// The bytes are here.
    fn fetched(&mut self, unit: usize, lane: usize) {
        let Some((operation, reading)) = self
            .lane(unit, lane)
            .map(|one| (one.operation, one.reading))
        else {
            return;
        };
        let owner = self.owner(operation);
        for line in self.wanted(operation, reading) {
            if let Some(written) = self.tree_buffer.keep(line, owner) {
                self.off_chip.write(self.now, written);
            }
        }
        if let Reading::First(visit) = reading {
            let visits = self
                .operating
                .as_ref()
                .map(|one| one.walks.get(operation).visits);
            let has_slot = visits
                .and_then(|visits| visits.get(visit))
                .is_some_and(|visit| visit.then.bytes > 0);
            if has_slot {
                return self.read(unit, lane, Reading::Then(visit));
            }
        }
        self.serve(unit, lane, self.parameters.match_cycles, 0, Step::Matched);
    }

    /// A node has decided: the walk goes on, or is over.
    fn matched(&mut self, unit: usize, lane: usize) {
        let Some(one) = self.lane(unit, lane) else {
            return;
        };
        let (operation, reading) = (one.operation, one.reading);
        let Some(operating) = &self.operating else {
            return;
        };
        let visits = operating.walks.get(operation).visits;
        let visit = match reading {
            Reading::Named { valid } => {
                self.report.leaves += 1;
                return match valid {
                    true => self.leave(unit, lane),
                    false => self.read(unit, lane, Reading::First(0)),
                };
            }
            Reading::First(visit) | Reading::Then(visit) => visit,
        };
        match visits.get(visit) {
            Some(visit) if visit.matches => self.report.matches += 1,
            Some(_) => self.report.leaves += 1,
            None => {}
        }
        let more = visit + 1 < visits.len();
        if let Some(one) = self.lane(unit, lane) {
            one.walked = true;
        }
        match more {
            true => self.read(unit, lane, Reading::First(visit + 1)),
            false => self.leave(unit, lane),
        }
    }

    /// Locks what the operation writes, if other units may write it, too.
    fn lock(&mut self, unit: usize, lane: usize, first: bool) {
        let Some(operation) = self.lane(unit, lane).map(|one| one.operation) else {
            return;
        };
        let Some(operating) = &self.operating else {
            return;
        };
        let locks = operating.walks.get(operation).locks;
        let is_taken = |node: &u64| self.locked.get(node).is_some_and(|by| by.unit != unit);
        if locks.iter().any(is_taken) {
            self.report.locks.contended += u64::from(first);
            self.blocked.push((unit, lane));
            return;
        }
        let none = Holder {
            unit,
            operations: 0,
        };
        for node in locks {
            self.locked.entry(*node).or_insert(none).operations += 1;
        }
        self.report.locks.acquired += locks.len() as u64;
        self.trigger(unit, lane);
    }

    /// Executes the operation and its riders.
    fn trigger(&mut self, unit: usize, lane: usize) {
        let parameters = self.parameters;
        let Some(one) = self.lane(unit, lane) else {
            return;
        };
        let operations = std::iter::once(one.operation).chain(one.riders.iter().copied());
        let operations: Vec<usize> = operations.collect();
        let Some(operating) = &self.operating else {
            return;
        };
        let mut cycles = 0;
        for operation in operations {
            let written = operating.walks.get(operation).stores.iter();
            let written: u64 = written.map(|span| lines(*span).count() as u64).sum();
            let writes = self.operations[operating.begin + operation].writes;
            cycles += match writes {
                true => parameters.write_cycles + written.saturating_sub(1),
                false => parameters.read_cycles,
            };
        }
        self.serve(unit, lane, cycles, 0, Step::Triggered);
    }

    fn triggered(&mut self, unit: usize, lane: usize) {
        let Some(one) = self.lane(unit, lane) else {
            return;
        };
        let operations = std::iter::once(one.operation).chain(one.riders.drain(..));
        let operations: Vec<usize> = operations.collect();
        for operation in operations {
            self.write_back(operation);
            if let Some(operating) = &mut self.operating {
                operating.left -= 1;
                let latency = self.now - operating.since;
                self.report.latencies.push(latency);
            }
        }
        self.unlock(unit, lane);
        self.leave(unit, lane);
    }

    /// Writes what an operation has changed: into the buffer where it is there, else into memory.
    fn write_back(&mut self, operation: usize) {
        let Some(operating) = &self.operating else {
            return;
        };
        let walk = operating.walks.get(operation);
        for line in walk.stores.iter().flat_map(|span| lines(*span)) {
            if !self.tree_buffer.dirty(line) {
                self.off_chip.write(self.now, line);
            }
        }
        for line in walk.freed.iter().flat_map(|span| lines(*span)) {
            self.tree_buffer.forget(line);
        }
    }

    /// Releases the locks of a lane. Those that wait for a lock try again.
    fn unlock(&mut self, unit: usize, lane: usize) {
        let Some(operation) = self.lane(unit, lane).map(|one| one.operation) else {
            return;
        };
        if let Some(operating) = &self.operating {
            for node in operating.walks.get(operation).locks {
                if let Some(holder) = self.locked.get_mut(node) {
                    holder.operations -= 1;
                    if holder.operations == 0 {
                        self.locked.remove(node);
                    }
                }
            }
        }
        for (unit, lane) in std::mem::take(&mut self.blocked) {
            self.lock(unit, lane, false);
        }
    }

    /// Writes the shortcut of a key that was walked to, or has moved.
    fn generate(&mut self, unit: usize, lane: usize) {
        let Some(one) = self.lane(unit, lane) else {
            return;
        };
        one.step = Step::Generated;
        let (operation, key, walked) = (one.last, one.key, one.walked);
        let after = self
            .operating
            .as_ref()
            .and_then(|one| one.walks.get(operation).after);
        let Some(after) = after.filter(|_| self.parameters.shortcuts) else {
            return self.leave(unit, lane);
        };
        if !walked && self.shortcuts.get(&key) == Some(&after) {
            return self.leave(unit, lane);
        }
        self.shortcuts.insert(key, after);
        let place = self.place_of_shortcut(key);
        if let Some(written) = self.shortcut_buffer.keep(place, 0) {
            self.off_chip.write(self.now, written);
        }
        self.shortcut_buffer.dirty(place);
        self.serve(
            unit,
            lane,
            self.parameters.generate_cycles,
            0,
            Step::Generated,
        );
    }
}
