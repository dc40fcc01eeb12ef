//! The work of an operation in each of the four stages.

use super::lane::{DcartLaneRead, DcartLaneStep, DcartStage, lines};
use super::off_chip::OffChipReader;
use super::run::{DcartSimulation, NodeLockHolder};
use super::walk::named;
use super::{DcartTree, DcartVisit};

impl<T: DcartTree> DcartSimulation<'_, T> {
    pub(super) fn place_of_shortcut(&self, key: u64) -> u64 {
        // Two keys may have one place. The model keeps both shortcuts, and only their lines
        // collide.
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        self.regions.shortcuts
            + hash % self.regions.shortcut_places * u64::from(self.parameters.shortcut_bytes)
    }

    /// Looks up the shortcut in the buffer, then in memory.
    pub(super) fn hashed(&mut self, unit: usize, lane: usize) {
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
        // The place is reserved before its line arrives, so that later lookups find it.
        if let Some(written) = self.shortcut_buffer.keep(place, 0) {
            self.off_chip.write(self.now, written);
        }
        self.work[unit].waits[DcartStage::Index as usize] += 1;
        if let Some(one) = self.lane(unit, lane) {
            (one.step, one.awaited) = (DcartLaneStep::Shortcut, 1);
        }
        self.off_chip
            .read(self.now, place, OffChipReader::Lane(unit, lane));
    }

    /// Begins with the nodes that the shortcut names, or with the root.
    pub(super) fn traverse(&mut self, unit: usize, lane: usize) {
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
        // The shortcut is valid if it names the nodes that the walk has found. The hardware learns
        // this only by comparing the key.
        let reading = match shortcut {
            Some(named) => DcartLaneRead::Named {
                valid: before == Some(*named),
            },
            None => DcartLaneRead::First(0),
        };
        let count = match reading {
            DcartLaneRead::Named { valid: true } => &mut self.report.shortcuts_used,
            DcartLaneRead::Named { valid: false } => &mut self.report.shortcuts_stale,
            _ => &mut self.report.shortcuts_missing,
        };
        *count += 1;
        match reading {
            DcartLaneRead::First(_) => self.walk(unit, lane),
            named => self.read(unit, lane, named),
        }
    }

    /// Begins with the root.
    fn walk(&mut self, unit: usize, lane: usize) {
        if let Some(one) = self.lane(unit, lane) {
            one.walked = true;
        }
        self.read(unit, lane, DcartLaneRead::First(0));
    }

    /// Looks up bytes in the buffer of the tree.
    pub(super) fn read(&mut self, unit: usize, lane: usize, reading: DcartLaneRead) {
        if let Some(one) = self.lane(unit, lane) {
            one.reading = reading;
        }
        // The buffer is a pipeline: it takes a lookup in each cycle, and replies some cycles later.
        let cycles = self.parameters.buffer_cycles;
        self.serve(unit, lane, 1, cycles - 1, DcartLaneStep::Looked);
    }

    /// Returns the lines that a lane now reads.
    pub(super) fn wanted(&self, operation: usize, reading: DcartLaneRead) -> Vec<u64> {
        let Some(operating) = &self.operating else {
            return Vec::new();
        };
        let visits = operating.walks.get(operation).visits;
        let first = |visit: &DcartVisit| lines(visit.first).chain(lines(visit.also));
        match reading {
            DcartLaneRead::First(visit) => visits.get(visit).into_iter().flat_map(first).collect(),
            DcartLaneRead::Then(visit) => {
                let visit = visits.get(visit).into_iter();
                visit.flat_map(|one| lines(one.then)).collect()
            }
            DcartLaneRead::Named { .. } => {
                // A shortcut names target and parent, and both are read at the same time.
                let named = named(visits).into_iter().rev().flatten();
                named.flat_map(|visit| first(&visits[visit])).collect()
            }
        }
    }

    /// Returns the bucket of a unit, which owns the lines that it reads.
    pub(super) fn owner(&self, operation: usize) -> usize {
        match &self.operating {
            Some(operating) if self.parameters.combines => {
                let label = self.operations[operating.begin + operation].label;
                operating.labels.bucket(label)
            }
            _ => 0,
        }
    }

    pub(super) fn looked(&mut self, unit: usize, lane: usize) {
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
                self.off_chip
                    .read(self.now, line, OffChipReader::Lane(unit, lane));
            }
        }
        if let Some(one) = self.lane(unit, lane) {
            (one.step, one.awaited) = (DcartLaneStep::Fetched, awaited);
        }
        match awaited {
            0 => self.fetched(unit, lane),
            _ => self.work[unit].waits[DcartStage::Traverse as usize] += 1,
        }
    }

    /// Handles the arrival of the bytes.
    pub(super) fn fetched(&mut self, unit: usize, lane: usize) {
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
        // The place of the second part follows from the first, so it takes a read of its own.
        if let DcartLaneRead::First(visit) = reading
            && self.has_more(operation, visit)
        {
            return self.read(unit, lane, DcartLaneRead::Then(visit));
        }
        self.serve(
            unit,
            lane,
            self.parameters.match_cycles,
            0,
            DcartLaneStep::Matched,
        );
    }

    /// Returns true if a visit reads more bytes, whose place its first ones give.
    fn has_more(&self, operation: usize, visit: usize) -> bool {
        let operating = self.operating.as_ref();
        let visits = operating.map(|one| one.walks.get(operation).visits);
        let visit = visits.and_then(|visits| visits.get(visit));
        visit.is_some_and(|visit| visit.then.bytes > 0)
    }

    /// Handles a node's decision: the walk continues, or has ended.
    pub(super) fn matched(&mut self, unit: usize, lane: usize) {
        let Some(one) = self.lane(unit, lane) else {
            return;
        };
        let (operation, reading, walked) = (one.operation, one.reading, one.walked);
        let Some(operating) = &self.operating else {
            return;
        };
        let visits = operating.walks.get(operation).visits;
        let visit = match reading {
            DcartLaneRead::Named { valid: false } => {
                self.report.leaves += 1;
                // The key is elsewhere, so the walk begins again at the root.
                return self.walk(unit, lane);
            }
            DcartLaneRead::Named { valid: true } => {
                self.report.leaves += 1;
                let [target, _] = named(visits);
                let target = target.unwrap_or_default();
                if self.has_more(operation, target) {
                    return self.read(unit, lane, DcartLaneRead::Then(target));
                }
                target
            }
            DcartLaneRead::First(visit) | DcartLaneRead::Then(visit) => visit,
        };
        match visits.get(visit) {
            // The target of a shortcut has already been counted.
            Some(visit) if visit.continues || !walked => {}
            Some(visit) if visit.matches => self.report.matches += 1,
            Some(_) => self.report.leaves += 1,
            None => {}
        }
        match visit + 1 < visits.len() {
            true => self.read(unit, lane, DcartLaneRead::First(visit + 1)),
            false => self.leave(unit, lane),
        }
    }

    /// Locks the nodes that the operation writes, if other units may write them, too.
    pub(super) fn lock(&mut self, unit: usize, lane: usize, first: bool) {
        let Some(operation) = self.lane(unit, lane).map(|one| one.operation) else {
            return;
        };
        let Some(operating) = &self.operating else {
            return;
        };
        let locks = operating.walks.get(operation).locks;
        let is_taken = |node: &u64| self.locked.get(node).is_some_and(|by| by.unit != unit);
        // All locks are taken at once or none, so two operations cannot wait for each other.
        if locks.iter().any(is_taken) {
            self.report.locks.contended += u64::from(first);
            self.blocked.push((unit, lane));
            return;
        }
        let none = NodeLockHolder {
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
    pub(super) fn trigger(&mut self, unit: usize, lane: usize) {
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
            // The riders are executed one after the other, but need no further reads.
            cycles += match writes {
                true => parameters.write_cycles + written.saturating_sub(1),
                false => parameters.read_cycles,
            };
        }
        self.serve(unit, lane, cycles, 0, DcartLaneStep::Triggered);
    }

    pub(super) fn triggered(&mut self, unit: usize, lane: usize) {
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
        // The locks are released only after all writes, since others may read the nodes then.
        self.unlock(unit, lane);
        self.leave(unit, lane);
    }

    /// Writes the operation's changes: to the buffer if the line is there, otherwise to memory.
    pub(super) fn write_back(&mut self, operation: usize) {
        let Some(operating) = &self.operating else {
            return;
        };
        let walk = operating.walks.get(operation);
        for line in walk.stores.iter().flat_map(|span| lines(*span)) {
            // A line that is not in the buffer is written without being read, as stores cover what
            // they change.
            if !self.tree_buffer.dirty(line) {
                self.off_chip.write(self.now, line);
            }
        }
        // The content of a freed node is not read again, so its lines need not be written.
        for line in walk.freed.iter().flat_map(|span| lines(*span)) {
            self.tree_buffer.forget(line);
        }
    }

    /// Releases the locks of a lane. Those that wait for a lock try again.
    pub(super) fn unlock(&mut self, unit: usize, lane: usize) {
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
        // Those that still find a lock taken are added to the list again, in the same order.
        for (unit, lane) in std::mem::take(&mut self.blocked) {
            self.lock(unit, lane, false);
        }
    }

    /// Writes the shortcut of a key that was reached by a walk, or has moved.
    pub(super) fn generate(&mut self, unit: usize, lane: usize) {
        let Some(one) = self.lane(unit, lane) else {
            return;
        };
        one.step = DcartLaneStep::Generated;
        let (operation, key, walked) = (one.last, one.key, one.walked);
        let after = self
            .operating
            .as_ref()
            .and_then(|one| one.walks.get(operation).after);
        let Some(after) = after.filter(|_| self.parameters.shortcuts) else {
            return self.leave(unit, lane);
        };
        // The shortcut in memory is right already.
        if !walked && self.shortcuts.get(&key) == Some(&after) {
            return self.leave(unit, lane);
        }
        self.shortcuts.insert(key, after);
        let place = self.place_of_shortcut(key);
        if let Some(written) = self.shortcut_buffer.keep(place, 0) {
            self.off_chip.write(self.now, written);
        }
        // The shortcut is written to memory when its line is evicted.
        self.shortcut_buffer.dirty(place);
        self.serve(
            unit,
            lane,
            self.parameters.generate_cycles,
            0,
            DcartLaneStep::Generated,
        );
    }
}
