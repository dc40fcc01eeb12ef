//! The route of operations through the stages of a unit.

use super::lane::{DcartLane, DcartLaneRead, DcartLaneStep, DcartStage};
use super::off_chip::OffChipReader;
use super::run::{DcartEvent, DcartSimulation};
use super::{DcartTree, Pipeline};

impl<T: DcartTree> DcartSimulation<'_, T> {
    /// Makes a unit take its next operation, if it can.
    pub(super) fn take(&mut self, unit: usize) {
        let parameters = self.parameters;
        let one = &mut self.units[unit];
        let next = one.next(parameters);
        // The stream advances first, so that it requests further lines even if this one has not
        // arrived.
        if let Some((_, Some(line))) = next {
            one.records.reach(line);
        }
        while let Some((line, address)) = one.records.ask() {
            self.off_chip
                .read(self.now, address, OffChipReader::Records(unit, line));
        }
        let Some((operation, line)) = next else {
            // The bucket is done only when its last operation has left.
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
            // Operations on one key are executed one after the other anyway, so the later one needs
            // no walk of its own.
            lane.riders.push(operation);
            lane.last = operation;
            one.taken += 1;
            self.report.riders += 1;
            self.work[unit].serves[DcartStage::Index as usize] += 1;
            let next = one.serve(DcartStage::Index, self.now, parameters.cycles(1));
            self.cause(next + parameters.cycles(1), DcartEvent::Take(unit));
            return;
        }
        let Some(lane) = one.free_lane(parameters.pipeline) else {
            return;
        };
        one.taken += 1;
        one.active += 1;
        one.enter(DcartStage::Index);
        // Without shortcuts there is nothing to hash.
        let cycles = match parameters.shortcuts {
            true => parameters.hash_cycles + parameters.buffer_cycles,
            false => 1,
        };
        let begins = one.serve(DcartStage::Index, self.now, parameters.cycles(1));
        one.lanes[lane] = Some(DcartLane {
            operation,
            last: operation,
            key,
            stage: DcartStage::Index,
            step: DcartLaneStep::Hashed,
            reading: DcartLaneRead::First(0),
            awaited: 0,
            stalled: false,
            walked: false,
            riders: Vec::new(),
        });
        let work = &mut self.work[unit];
        work.serves[DcartStage::Index as usize] += 1;
        work.takes[DcartStage::Index as usize] += cycles;
        self.cause(
            begins + parameters.cycles(cycles),
            DcartEvent::Lane(unit, lane),
        );
        if is_interleaved {
            // In order, the next operation is taken when this one leaves the stage.
            self.cause(begins + parameters.cycles(1), DcartEvent::Take(unit));
        }
    }

    pub(super) fn lane(&mut self, unit: usize, lane: usize) -> Option<&mut DcartLane> {
        self.units[unit].lanes[lane].as_mut()
    }

    /// Makes a stage serve a lane for `serves` cycles, and calls the lane for `step` after these
    /// and `more` cycles.
    pub(super) fn serve(
        &mut self,
        unit: usize,
        lane: usize,
        serves: u64,
        more: u64,
        step: DcartLaneStep,
    ) {
        let parameters = self.parameters;
        let Some(one) = self.lane(unit, lane) else {
            return;
        };
        one.step = step;
        let stage = one.stage;
        // The bound counts the same cycles without the waits, so a run cannot be faster than it.
        let work = &mut self.work[unit];
        work.serves[stage as usize] += serves;
        work.takes[stage as usize] += serves + more;
        let begins = self.units[unit].serve(stage, self.now, parameters.cycles(serves));
        self.cause(
            begins + parameters.cycles(serves + more),
            DcartEvent::Lane(unit, lane),
        );
    }

    pub(super) fn step(&mut self, unit: usize, lane: usize) {
        let Some(step) = self.lane(unit, lane).map(|lane| lane.step) else {
            return;
        };
        match step {
            DcartLaneStep::Hashed => self.hashed(unit, lane),
            DcartLaneStep::Shortcut => self.leave(unit, lane),
            DcartLaneStep::Looked => self.looked(unit, lane),
            DcartLaneStep::Fetched => self.fetched(unit, lane),
            DcartLaneStep::Matched => self.matched(unit, lane),
            DcartLaneStep::Triggered => self.triggered(unit, lane),
            DcartLaneStep::Generated => self.leave(unit, lane),
        }
    }

    /// Handles the arrival of a line for which a lane waits.
    pub(super) fn line_for(&mut self, unit: usize, lane: usize) {
        let Some(one) = self.lane(unit, lane) else {
            return;
        };
        one.awaited -= 1;
        // The lines arrive in any order. The step needs all of them.
        if one.awaited == 0 {
            self.step(unit, lane);
        }
    }

    /// Ends the stage of a lane, which enters the next stage as soon as that has room.
    pub(super) fn leave(&mut self, unit: usize, lane: usize) {
        let pipeline = self.parameters.pipeline;
        let one = &mut self.units[unit];
        let Some(active) = &mut one.lanes[lane] else {
            return;
        };
        let stage = active.stage;
        active.stalled = false;
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
                    active.stage = next;
                }
                self.free_stage(unit, stage);
                self.enter(unit, lane, next);
            }
            Some(_) => {
                if let Some(active) = &mut one.lanes[lane] {
                    // It keeps its stage, which blocks those behind it.
                    active.stalled = true;
                }
            }
        }
    }

    /// Handles that a stage has room again.
    pub(super) fn free_stage(&mut self, unit: usize, stage: DcartStage) {
        // Interleaved operations never wait for room.
        if self.parameters.pipeline != Pipeline::InOrder {
            return;
        }
        let before = match stage {
            DcartStage::Index => return self.take(unit),
            DcartStage::Traverse => DcartStage::Index,
            DcartStage::Trigger => DcartStage::Traverse,
            DcartStage::Generate => DcartStage::Trigger,
        };
        if let Some(lane) = self.units[unit].stalled_in(before) {
            self.leave(unit, lane);
        }
    }

    pub(super) fn enter(&mut self, unit: usize, lane: usize, stage: DcartStage) {
        match stage {
            DcartStage::Index => {}
            DcartStage::Traverse => self.traverse(unit, lane),
            DcartStage::Trigger => self.lock(unit, lane, true),
            DcartStage::Generate => self.generate(unit, lane),
        }
    }
}
