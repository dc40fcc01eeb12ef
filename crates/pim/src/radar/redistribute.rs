//! Moves of subranges: division among modules, and pulling to the host.
//!
//! A subrange that moves is first read in a separate round, and stays in its module until the round
//! that builds its pieces elsewhere. So each entry is in at least one place at any time. If the
//! second round does not begin, nothing changes. If a module cannot build a piece, because it has
//! no room or has failed, the host takes the piece. A module that failed may have kept a subrange
//! that it was to remove, and gets that task again.

use super::RadarHost;
use super::homes::place;
use super::skew::{self, DivisionRule, PieceTarget, SubrangePiece};
use crate::device::ModuleDevice;
use crate::dispatch::directory::WordPartition;
use crate::dispatch::plan::{NOBODY, OTHERS, Replica, refused};
use crate::dispatch::routing::BatchRouting;
use crate::dispatch::task::{ModuleTask, ModuleTaskResult};
use crate::dispatch::wire::Replied;
use nearfield_core::{BatchInput, OperationError, Words};
use std::collections::HashMap;

/// The moves of a batch.
#[derive(Debug, Default)]
pub(super) struct SubrangeMoves {
    /// The pieces that modules must build, by tag from [`OTHERS`] on.
    built: Vec<SubrangePieceBuild>,
    /// The moved subranges in their old state.
    former: Vec<(u64, WordPartition)>,
    /// Copies that were removed.
    copies: Vec<(u64, Vec<Replica>)>,
}

/// A piece that a module must build.
#[derive(Debug)]
struct SubrangePieceBuild {
    start: u64,
    entries: Vec<u64>,
    /// The module, if the piece is only a copy.
    copy: Option<usize>,
}

impl SubrangeMoves {
    /// Adds a task that builds a subrange.
    pub fn build(&mut self, start: u64, last: u64, entries: &[u64], words: &mut Vec<u64>) {
        self.build_there(start, last, entries, words, None);
    }

    /// Adds a task that builds a subrange, or the copy of a subrange for module `copy`.
    fn build_there(
        &mut self,
        start: u64,
        last: u64,
        entries: &[u64],
        words: &mut Vec<u64>,
        copy: Option<usize>,
    ) {
        debug_assert!(start <= last && entries.len().is_multiple_of(2));
        let tag = OTHERS | self.built.len() as u32;
        debug_assert_ne!(tag, NOBODY, "this tag has no reply");
        let task = ModuleTask::Build {
            start,
            bits: u64::BITS - (last - start).leading_zeros(),
            entries,
        };
        task.encode(0, tag, words);
        self.built.push(SubrangePieceBuild {
            start,
            // The host keeps the entries until the module has confirmed them.
            entries: entries.to_vec(),
            copy,
        });
    }

    /// Returns the starts of the pieces that modules must build.
    pub fn starts(&self) -> impl Iterator<Item = u64> {
        self.built.iter().map(|built| built.start)
    }
}

/// The next step for a subrange that has been read.
#[derive(Debug)]
enum SubrangeNextStep {
    /// The subrange is divided, and its pieces move.
    Divide,
    /// The subrange becomes a part of this group.
    Merge(usize),
}

/// Pieces of a former subrange, none of which had recent requests.
#[derive(Debug)]
struct ColdPieceGroup {
    start: u64,
    last: u64,
    /// The starts of the pieces.
    pieces: Vec<u64>,
    /// The entries of the pieces that were read, in order.
    entries: Vec<u64>,
    /// False if a piece could not be read.
    is_whole: bool,
}

/// Number of batches between searches for groups.
const LOOKS: u64 = 8;
/// The greatest number of groups that are merged at once, and of keys of each group.
const GROUPS_MAX: usize = 64;
const GROUP_KEYS_MAX: u64 = 1 << 16;

impl<D: ModuleDevice> RadarHost<D> {
    /// Divides and pulls the subranges that make modules busy, merges cold ones, and plans the
    /// tasks for this, which precede those of the operations. Returns true if subranges have
    /// changed.
    pub(super) fn redistribute(
        &mut self,
        input: BatchInput<'_, Words>,
        requests: &BatchRouting,
        inputs: &mut [Vec<u64>],
    ) -> Result<bool, OperationError> {
        let demand = self.demand(input, requests);
        self.touch(&demand);
        let costs = self.costs(&demand);
        let subranges = self.busy_subranges(input, requests, &demand, &costs);
        let options = &self.options;
        let division = DivisionRule {
            fanout: options.fanout as u64,
            finest: options.finest(self.device.modules()),
            goes_on: options.isolates,
            copies_max: options.copies_max,
        };
        let divided = skew::decide(&demand.loads, subranges, &division, &costs);
        // The loads are kept for the choice of homes, after the moves have changed them.
        self.loads = demand.loads;
        let has_returned = self.send_back(inputs);
        let mut groups = self.cold_groups();
        let mut wanted: Vec<(u64, SubrangeNextStep)> = divided
            .iter()
            .map(|subrange| (subrange.start, SubrangeNextStep::Divide))
            .collect();
        for (number, group) in groups.iter().enumerate() {
            let pieces = group.pieces.iter();
            wanted.extend(pieces.map(|&start| (start, SubrangeNextStep::Merge(number))));
        }
        if wanted.is_empty() {
            return Ok(has_returned);
        }
        let (moved, replied) = self.read(wanted)?;
        let mut runs: HashMap<u32, &[u64]> = HashMap::new();
        for reply in replied.iter().flatten() {
            reply.each(|answer, tag| {
                if let ModuleTaskResult::Entries(entries) = answer {
                    runs.insert(tag, entries);
                }
            });
        }
        // Reads of divided subranges come first, so their tags are the subranges' numbers.
        let keys_of = |number: usize| -> Option<Vec<u64>> {
            let entries = runs.get(&(number as u32))?.chunks_exact(2);
            Some(entries.map(|entry| entry[0]).collect())
        };
        let pieces = skew::place(&mut self.loads, divided, &division, &costs, keys_of);
        for (tag, (_, _, then)) in moved.iter().enumerate() {
            // A group is merged as a whole or not at all, so one piece that was not read keeps all
            // others.
            if let SubrangeNextStep::Merge(group) = then {
                groups[*group].is_whole &= runs.contains_key(&(tag as u32));
            }
        }
        for (tag, (start, partition, then)) in moved.into_iter().enumerate() {
            // A subrange that a module did not return stays there.
            let Some(entries) = runs.get(&(tag as u32)) else {
                continue;
            };
            if let SubrangeNextStep::Merge(group) = then
                && !groups[group].is_whole
            {
                continue;
            }
            ModuleTask::Free { start }.encode(0, NOBODY, &mut inputs[partition.module]);
            // The module has room again once this batch is executed, so it may get new subranges.
            self.full.remove(&partition.module);
            self.forget_copies(start, inputs);
            self.directory.remove(start);
            self.moving.former.push((start, partition));
            self.moves.keys += entries.len() as u64 / 2;
            match then {
                SubrangeNextStep::Divide => self.divide(&pieces[tag], partition, entries, inputs),
                SubrangeNextStep::Merge(group) => groups[group].entries.extend_from_slice(entries),
            }
        }
        for group in groups.iter().filter(|group| group.is_whole) {
            self.moves.merged += 1;
            self.put(group.start, group.last, &group.entries, inputs);
        }
        Ok(true)
    }

    /// Reads the subranges from modules. Returns those read with their next steps, and the replies.
    #[expect(clippy::type_complexity, reason = "it is split into its parts at once")]
    fn read(
        &mut self,
        wanted: Vec<(u64, SubrangeNextStep)>,
    ) -> Result<(Vec<(u64, WordPartition, SubrangeNextStep)>, Vec<Replied>), OperationError> {
        let mut reads = vec![Vec::new(); self.device.modules()];
        let mut moved = Vec::new();
        let count = wanted.len();
        for (start, then) in wanted {
            let Some((start, partition)) = self.directory.of(start) else {
                continue;
            };
            let task = ModuleTask::Scan {
                start,
                from: start,
                to: partition.last,
                limit: u64::MAX,
                descends: false,
            };
            let tag = moved.len() as u32;
            task.encode(partition.list, tag, &mut reads[partition.module]);
            moved.push((start, partition, then));
        }
        debug_assert_eq!(moved.len(), count, "tags are the numbers of subranges");
        let replied = self.round(reads).map_err(|error| refused(&error))?;
        Ok((moved, replied))
    }

    /// Chooses a module for a subrange, and adds the task that builds it.
    fn put(&mut self, start: u64, last: u64, entries: &[u64], inputs: &mut [Vec<u64>]) {
        let module = place(start, self.options.placement, &self.keys, &self.full);
        self.moving.build(start, last, entries, &mut inputs[module]);
        let partition = WordPartition {
            last,
            module,
            count: entries.len() as u64 / 2,
            list: 0,
            used: self.batches,
            least: entries.first().copied(),
            lowest: entries.first().copied().unwrap_or(u64::MAX),
        };
        self.directory.insert(start, partition);
    }

    /// Returns true if a partition had no request for so long that it may be merged, or returned to
    /// a module.
    fn is_cold(&self, partition: &WordPartition) -> bool {
        let cools = self.options.cools;
        cools.is_some_and(|cools| partition.used + cools < self.batches)
    }

    /// Returns cold subranges of the host to modules. Returns true if there was one.
    fn send_back(&mut self, inputs: &mut [Vec<u64>]) -> bool {
        let host = self.host();
        let copied: Vec<u64> = self.replicas.starts().collect();
        for start in copied {
            let partition = self.directory.of(start);
            if partition.is_none_or(|(_, partition)| self.is_cold(&partition)) {
                self.forget_copies(start, inputs);
            }
        }
        let cold = self
            .directory
            .iter()
            .filter(|(_, partition)| partition.module == host && self.is_cold(partition));
        let cold: Vec<(u64, WordPartition)> = cold.collect();
        for &(start, partition) in &cold {
            // The host gives the entries up here. Until the module has confirmed them, the task
            // that builds the subrange holds them.
            let entries = self.store.remove(start);
            self.moves.returned += 1;
            self.moves.keys += entries.len() as u64 / 2;
            self.moving.former.push((start, partition));
            self.put(start, partition.last, &entries, inputs);
        }
        !cold.is_empty()
    }

    /// Returns the groups that may be merged.
    fn cold_groups(&self) -> Vec<ColdPieceGroup> {
        // The search walks the whole directory, so it is not done for each batch.
        if self.options.cools.is_none() || !self.batches.is_multiple_of(LOOKS) {
            return Vec::new();
        }
        let coarsest = self.options.coarsest(self.device.modules());
        let mut groups: Vec<ColdPieceGroup> = Vec::new();
        let mut keys = 0;
        for (start, partition) in self.directory.iter() {
            let bits = u64::BITS - (partition.last - start).leading_zeros();
            if partition.module == self.host() || bits >= coarsest || !self.is_cold(&partition) {
                continue;
            }
            // The group has the next greater of the sizes that differ by the factor `fanout`.
            // Pieces may have sizes between these. The smaller of two neighbours is merged first.
            let step = self.options.fanout.trailing_zeros();
            let bits = coarsest - (coarsest - bits - 1) / step * step;
            let rest = 1_u64.checked_shl(bits).map_or(u64::MAX, |size| size - 1);
            let (from, to) = (start & !rest, start | rest);
            match groups.last_mut() {
                Some(group) if (group.start, group.last) == (from, to) => {
                    keys += partition.count;
                    group.pieces.push(start);
                    group.is_whole &= keys <= GROUP_KEYS_MAX;
                }
                _ => {
                    keys = partition.count;
                    groups.push(ColdPieceGroup {
                        start: from,
                        last: to,
                        pieces: vec![start],
                        entries: Vec::new(),
                        is_whole: true,
                    });
                }
            }
        }
        // A group is left out if other subranges, with requests or smaller, lie between its pieces.
        groups.retain(|group| {
            let all = self.directory.count_within(group.start, group.last);
            group.is_whole && group.pieces.len() > 1 && group.pieces.len() == all
        });
        groups.truncate(GROUPS_MAX);
        groups
    }

    /// Stores a subrange on the host.
    fn take(&mut self, start: u64, partition: WordPartition, entries: &[u64]) {
        self.store.insert(start, entries);
        let partition = WordPartition {
            module: self.host(),
            list: 0,
            count: entries.len() as u64 / 2,
            least: entries.first().copied(),
            lowest: entries.first().copied().unwrap_or(u64::MAX),
            ..partition
        };
        self.directory.insert(start, partition);
    }

    fn divide(
        &mut self,
        pieces: &[SubrangePiece],
        partition: WordPartition,
        mut entries: &[u64],
        inputs: &mut [Vec<u64>],
    ) {
        if pieces.len() > 1 {
            self.moves.divided += 1;
        }
        for piece in pieces {
            let (start, last) = (piece.start, piece.last);
            let pairs = entries.chunks_exact(2);
            let count = pairs.take_while(|entry| entry[0] <= last).count();
            let (own, rest) = entries.split_at(2 * count);
            entries = rest;
            // Empty subranges are not stored. One that this batch writes is built at once, which
            // saves creating it.
            if own.is_empty() && !piece.is_written {
                continue;
            }
            let piece_of = |module| WordPartition {
                last,
                module,
                count: count as u64,
                list: 0,
                used: self.batches,
                least: own.first().copied(),
                lowest: own.first().copied().unwrap_or(u64::MAX),
            };
            let (module, copies) = match &piece.target {
                PieceTarget::Module(module) => (*module, &[][..]),
                PieceTarget::Modules(modules) => match modules.split_first() {
                    Some((module, copies)) => (*module, copies),
                    None => (partition.module, &[][..]),
                },
                PieceTarget::Host => {
                    self.moves.pulled += 1;
                    self.take(start, piece_of(partition.module), own);
                    continue;
                }
            };
            self.directory.insert(start, piece_of(module));
            self.moving.build(start, last, own, &mut inputs[module]);
            for &copy in copies {
                self.moves.copied += 1;
                let words = &mut inputs[copy];
                let moving = &mut self.moving;
                moving.build_there(start, last, own, words, Some(copy));
                // The copy is read in this batch. Its list has no known address yet, so the module
                // must find it.
                let replica = Replica {
                    module: copy,
                    list: 0,
                };
                self.replicas.add(start, replica);
            }
        }
        debug_assert!(entries.is_empty(), "pieces cover their subrange");
    }

    /// Removes the copies of a subrange from their modules, except the first.
    pub(super) fn forget_copies(&mut self, start: u64, inputs: &mut [Vec<u64>]) {
        if !self.replicas.has(start) {
            return;
        }
        let copies = self.replicas.remove(start);
        for copy in &copies {
            ModuleTask::Free { start }.encode(0, NOBODY, &mut inputs[copy.module]);
        }
        self.moving.copies.push((start, copies));
    }

    /// Undoes the moves after a round that was not begun, because all subranges are still in their
    /// old places.
    pub(super) fn undo(&mut self) {
        let SubrangeMoves {
            built,
            former,
            copies,
        } = std::mem::take(&mut self.moving);
        // New subranges go first, because one may begin where a former one did.
        for built in &built {
            self.directory.remove(built.start);
            self.replicas.remove(built.start);
        }
        let built = built.into_iter().map(|built| (built.start, built.entries));
        let built: HashMap<u64, Vec<u64>> = built.collect();
        let host = self.host();
        for (start, partition) in former {
            if partition.module != host {
                self.store.remove_within(start, partition.last);
                // Pieces of it that were pulled to the host.
                self.directory.remove_within(start, partition.last);
            } else if let Some(entries) = built.get(&start) {
                // The host had given these entries to the task, which was not sent.
                self.store.insert(start, entries);
            }
            self.directory.insert(start, partition);
        }
        for (start, copies) in copies {
            for copy in copies {
                self.replicas.add(start, copy);
            }
        }
    }

    /// Ends the moves after the round. `lists` are the lists that modules have built, by tag. The
    /// host takes the pieces that were not built, with their entries from before the batch.
    /// Subranges that failed modules may not have removed are recorded, to be removed later.
    pub(super) fn settle(&mut self, lists: &HashMap<u32, u32>, replied: &[Replied]) {
        let SubrangeMoves {
            built,
            former,
            copies,
        } = std::mem::take(&mut self.moving);
        let is_lost = |module: usize| replied.get(module).is_none_or(Result::is_err);
        // A module finds the subrange of a key by its start. It would take a left one for a wider
        // one that was built since.
        self.removals.retain(|&(module, _)| is_lost(module));
        let former = former.into_iter();
        let former = former.map(|(start, partition)| (partition.module, start));
        let copies = copies.into_iter().flat_map(|(start, copies)| {
            let copies = copies.into_iter();
            copies.map(move |copy| (copy.module, start))
        });
        let removed = former.chain(copies);
        self.removals
            .extend(removed.filter(|&(module, _)| is_lost(module)));
        for (number, built) in built.into_iter().enumerate() {
            let start = built.start;
            let list = lists.get(&(OTHERS | number as u32)).copied();
            if let Some(module) = built.copy {
                match list {
                    Some(list) if self.options.sends_lists => {
                        self.replicas.set_list(start, module, list);
                    }
                    Some(_) => {}
                    // Operations of this batch on the copy have failed with their module, so
                    // nothing else depends on it.
                    None => {
                        self.replicas.remove_from(start, module);
                        // A part of it may have been built.
                        self.removals.push((module, start));
                    }
                }
                continue;
            }
            if let Some(list) = list {
                if self.options.sends_lists {
                    self.directory.set_list(start, list);
                }
                continue;
            }
            if let Some(partition) = self.directory.remove(start) {
                // A part of it may have been built.
                self.removals.push((partition.module, start));
                // The module is avoided until it frees something, or the next subrange would fail
                // there, too.
                self.full.insert(partition.module);
                if !built.entries.is_empty() {
                    self.take(start, partition, &built.entries);
                }
            }
        }
        // A module may fail to build a subrange again and again.
        self.removals.sort_unstable();
        self.removals.dedup();
    }
}
