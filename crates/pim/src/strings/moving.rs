//! Moves of partitions: division, merging, and the return of those on the host.
//!
//! A partition that moves is first read, in a separate round unless the host has it or it is empty.
//! It stays in its module until the round that builds its pieces. So an entry is in at least one
//! place at any time. If the second round does not begin, nothing changes. The host takes a piece
//! that a module did not build, because it had no room or failed. Each piece has a new number, so
//! that a module's left-over piece cannot be taken for another. The module frees it as soon as it
//! works again.

use super::PimStringsHost;
use super::balance::{self, BalanceLimits, Modules, PartitionCuts, PartitionDemand, PartitionMove};
use super::cut::KeyBoundary;
use super::directory::StringPartition;
use super::plan::footprint;
use super::program::PimStringsProgram;
use super::task::{StringEntryBlocks, StringTaskResult, put_build, put_free, put_scan};
use crate::device::{Answered, ModuleDevice};
use crate::dispatch::plan::{NOBODY, OTHERS, refused};
use nearfield_core::{BatchInput, ByteStrings, IndexOperation, OperationError};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Number of batches between searches for cold neighbours, and between returns of the host's
/// partitions to modules.
const LOOKS: u64 = 8;
/// The greatest number of groups of neighbours that are merged at once.
const GROUPS_MAX: usize = 64;
/// Divisor of a partition's limits of keys and bytes, which gives the limits of a merged partition.
const MERGED_PART: u64 = 4;

/// The moves of a batch.
#[derive(Debug, Default)]
pub(super) struct PartitionMoves {
    /// The pieces that modules must build, by tag from [`OTHERS`] on.
    built: Vec<PartitionPieceBuild>,
    /// The moved partitions in their old state.
    former: Vec<(u64, StringPartition)>,
}

#[derive(Debug)]
struct PartitionPieceBuild {
    number: u64,
    module: usize,
    skip: u32,
    /// The entries before the batch.
    blocks: Vec<u64>,
    keys: u64,
    bytes: u64,
}

/// The entries read of each partition.
type Read = HashMap<u64, Vec<u64>>;

impl<D: ModuleDevice> PimStringsHost<D> {
    /// Moves partitions that are too large, make modules busy, are cold and small, or are on the
    /// host. Plans the tasks for this, which precede the operations of the batch.
    pub(super) fn redistribute(
        &mut self,
        input: BatchInput<'_, ByteStrings>,
        inputs: &mut [Vec<u64>],
    ) -> Result<(), OperationError> {
        let (mut modules, asked) = self.asked(input);
        let sizes = self.sizes();
        let inserted: HashMap<u64, Vec<&[u8]>> = asked
            .iter()
            .map(|asked| {
                let keys = asked.inserts.iter().map(|(key, _)| *key);
                (asked.number, keys.collect())
            })
            .collect();
        // If the host stores more than a bank for modules without room, dividing partitions would
        // not help.
        let mut moves = match self.own.used_bytes() <= sizes.bank_bytes {
            true => balance::divide(&mut modules, asked, &sizes),
            false => Vec::new(),
        };
        // Moves by load come first. The others take only partitions that these leave alone.
        self.others(&mut modules, &sizes, &mut moves);
        self.carry_out(moves, &inserted, inputs)
    }

    /// Returns the demand of a batch on partitions, and the loads and stored bytes of modules.
    fn asked<'b>(
        &mut self,
        input: BatchInput<'b, ByteStrings>,
    ) -> (Modules, Vec<PartitionDemand<'b>>) {
        let modules = self.device.modules();
        let mut loads = vec![0; modules];
        let mut asked: HashMap<u64, PartitionDemand<'b>> = HashMap::new();
        let mut read: HashSet<&[u8]> = HashSet::new();
        for operation in input.operations() {
            let key = match operation.point_key() {
                Some(key) => input.key(key),
                None => match super::plan::ordered(input, operation) {
                    Some(((_, high), _, true)) => high.key().unwrap_or_default(),
                    Some(((low, _), _, false)) => low.key().unwrap_or_default(),
                    None => continue,
                },
            };
            let Some((number, partition)) = self.directory.of(key) else {
                continue;
            };
            let own = asked.entry(number).or_insert_with(|| PartitionDemand {
                number,
                module: partition.module,
                keys: partition.keys,
                bytes: partition.bytes,
                ..PartitionDemand::default()
            });
            // Further reads of a key are not counted. A write between them counts as an operation
            // of its own.
            if matches!(operation, IndexOperation::Get { .. }) && !read.insert(key) {
                continue;
            }
            own.operations.push(key);
            if let Some(load) = loads.get_mut(partition.module) {
                *load += 1;
            }
            if let IndexOperation::Insert { value, .. } | IndexOperation::Update { value, .. } =
                *operation
            {
                let bytes = footprint(key.len(), input.value(value).len());
                own.inserts.push((key, bytes));
            }
        }
        for &number in asked.keys() {
            if let Some(partition) = self.directory.get_mut(number) {
                partition.used = self.batches;
            }
        }
        let mut stored = vec![0; modules];
        for (_, partition) in self.directory.iter() {
            if let Some(stored) = stored.get_mut(partition.module) {
                *stored += partition.bytes;
            }
        }
        for &module in &self.failed {
            // Each piece for a failed module would be built in vain, and be one more piece that the
            // module must free when it works again.
            if let Some(stored) = stored.get_mut(module) {
                *stored = balance::NO_ROOM;
            }
        }
        (Modules { loads, stored }, asked.into_values().collect())
    }

    /// Adds moves that do not depend on the batch: of the host's partitions, of uncounted ones,
    /// from modules without room, and of cold neighbours.
    fn others(
        &mut self,
        modules: &mut Modules,
        sizes: &BalanceLimits,
        moves: &mut Vec<PartitionMove>,
    ) {
        let mut taken: HashSet<u64> = moves
            .iter()
            .flat_map(|found| found.partitions.iter().copied())
            .collect();
        let mut add = |partitions: Vec<u64>, targets: Vec<usize>| {
            if partitions.iter().all(|number| taken.insert(*number)) {
                moves.push(PartitionMove {
                    partitions,
                    cuts: PartitionCuts::Before(Vec::new()),
                    targets,
                });
            }
        };
        // Returning a partition that still has no room would be tried in vain for each batch.
        let looks = self.batches % LOOKS == 1;
        let host = self.host();
        for (number, partition) in self.directory.iter() {
            let (module, bytes) = (partition.module, partition.bytes);
            if !partition.is_counted && module != host {
                // A move to the module itself reads the partition, which counts its keys again.
                add(vec![number], vec![module]);
            } else if looks
                && module == host
                && let Some(target) = modules.least(bytes, sizes)
            {
                modules.stored[target] += bytes;
                add(vec![number], vec![target]);
            }
        }
        for module in std::mem::take(&mut self.full) {
            let own = self.directory.iter();
            let own = own.filter(|(_, partition)| partition.module == module);
            let Some((number, bytes)) = own
                .map(|(number, partition)| (number, partition.bytes))
                .max_by_key(|(_, bytes)| *bytes)
            else {
                continue;
            };
            // The largest partition moves to a module with much more room, if there is one.
            let (mut least, mut target) = (sizes.bank_bytes / 2, None);
            for (other, &stored) in modules.stored.iter().enumerate() {
                if other != module && stored + bytes < least {
                    (least, target) = (stored, Some(other));
                }
            }
            if let Some(target) = target {
                modules.stored[target] += bytes;
                add(vec![number], vec![target]);
            }
        }
        if looks {
            for group in self.cold_groups(sizes) {
                let largest = group
                    .iter()
                    .filter_map(|number| self.directory.get(*number));
                let largest = largest.filter(|partition| partition.module != host);
                if let Some(largest) = largest.max_by_key(|partition| partition.bytes) {
                    add(group, vec![largest.module]);
                }
            }
        }
    }

    /// Returns groups of neighbours without recent requests that are small together.
    fn cold_groups(&self, sizes: &BalanceLimits) -> Vec<Vec<u64>> {
        let mut groups: Vec<Vec<u64>> = Vec::new();
        let (mut group, mut keys, mut bytes) = (Vec::new(), 0, 0);
        for (number, partition) in self.directory.iter() {
            let is_cold = partition.used + self.options.cools < self.batches
                && partition.is_counted
                && partition.module != self.host();
            let fits = (keys + partition.keys) * MERGED_PART <= sizes.partition_keys
                && (bytes + partition.bytes) * MERGED_PART <= sizes.partition_bytes;
            if !is_cold || !fits {
                // A group ends at a hot neighbour, because a merged partition has no gaps.
                groups.push(std::mem::take(&mut group));
                (keys, bytes) = (0, 0);
            }
            if is_cold {
                group.push(number);
                keys += partition.keys;
                bytes += partition.bytes;
            }
        }
        groups.push(group);
        groups.retain(|group| group.len() > 1);
        groups.truncate(GROUPS_MAX);
        groups
    }

    /// Reads the moved partitions, and plans the pieces to build.
    fn carry_out(
        &mut self,
        moves: Vec<PartitionMove>,
        inserted: &HashMap<u64, Vec<&[u8]>>,
        inputs: &mut [Vec<u64>],
    ) -> Result<(), OperationError> {
        if moves.is_empty() {
            return Ok(());
        }
        let mut read = self.read(&moves)?;
        for PartitionMove {
            partitions,
            cuts,
            targets,
        } in moves
        {
            // A partition that a module did not return stays in it.
            if !partitions.iter().all(|number| read.contains_key(number)) {
                continue;
            }
            let blocks: Vec<u64> = partitions
                .iter()
                .flat_map(|number| read.remove(number).unwrap_or_default())
                .collect();
            let cuts = match cuts {
                PartitionCuts::Before(cuts) => cuts,
                PartitionCuts::Evenly => {
                    let inserted = partitions.iter().filter_map(|number| inserted.get(number));
                    evenly(&blocks, inserted.flatten().copied(), targets.len())
                }
            };
            self.moves.merged += u64::from(partitions.len() > 1);
            self.moves.divided += u64::from(!cuts.is_empty());
            let mut start = None;
            for number in partitions {
                if let Some(partition) = self.directory.remove(number) {
                    // The merged partition begins where the first of its parts did.
                    start.get_or_insert_with(|| partition.start.clone());
                    put_free(number, NOBODY, &mut inputs[partition.module]);
                    self.moving.former.push((number, partition));
                }
            }
            if let Some(start) = start {
                self.divide(start, cuts, &targets, &blocks);
            }
        }
        // The end of each partition is known once all are in the directory.
        for number in 0..self.moving.built.len() {
            let built = &mut self.moving.built[number];
            if let Some(partition) = self.directory.get(built.number) {
                built.skip = self.directory.skip(&partition.start);
            }
            let (words, tag) = (&mut inputs[built.module], OTHERS | number as u32);
            put_build(built.number, tag, built.skip, &built.blocks, words);
        }
        Ok(())
    }

    /// Divides a run of entries into partitions that begin at the cuts.
    fn divide(
        &mut self,
        start: Vec<u8>,
        cuts: Vec<Vec<u8>>,
        targets: &[usize],
        mut blocks: &[u64],
    ) {
        // A cut at the start would make an empty first piece.
        let mut cuts: Vec<Vec<u8>> = cuts.into_iter().filter(|cut| *cut > start).collect();
        debug_assert!(cuts.is_sorted_by(|one, other| one < other));
        cuts.reverse();
        let mut start = Some(start);
        let mut pieces = 0;
        while let Some(from) = start {
            start = cuts.pop();
            let mut own = blocks;
            let (mut keys, mut bytes) = (0, 0);
            let mut rest = StringEntryBlocks(blocks);
            while let Some(block) = rest.next() {
                if start.as_ref().is_some_and(|end| block.key() >= &end[..]) {
                    break;
                }
                keys += 1;
                bytes += footprint(block.key().len(), block.value().len());
                blocks = rest.0;
            }
            own = &own[..own.len() - blocks.len()];
            let Some(&module) = targets.get(pieces % targets.len().max(1)) else {
                return;
            };
            pieces += 1;
            let number = self.next_number();
            let partition = StringPartition::new(from, module, keys, bytes, self.batches);
            self.directory.insert(number, partition);
            self.moves.keys += keys;
            self.moving.built.push(PartitionPieceBuild {
                number,
                module,
                skip: 0,
                blocks: own.to_vec(),
                keys,
                bytes,
            });
        }
        debug_assert!(blocks.is_empty(), "the last piece has no end");
    }

    /// Reads the moved partitions. Those that a module did not return are missing in the result.
    fn read(&mut self, moves: &[PartitionMove]) -> Result<Read, OperationError> {
        let modules = self.device.modules();
        let mut inputs = vec![Vec::new(); modules + 1];
        let mut read = Read::new();
        let mut asked = Vec::new();
        for &number in moves.iter().flat_map(|found| &found.partitions) {
            let Some(partition) = self.directory.get(number) else {
                continue;
            };
            if partition.is_counted && partition.keys == 0 {
                // An empty partition needs no round.
                read.insert(number, Vec::new());
                continue;
            }
            let tag = asked.len() as u32;
            asked.push(number);
            let all = (KeyBoundary::Begin, KeyBoundary::End);
            let words = &mut inputs[partition.module];
            put_scan(number, tag, all, u64::MAX, false, words);
        }
        let own = inputs.pop().unwrap_or_default();
        let mut answered: Vec<Answered> = Vec::new();
        // Partitions of the host are read without a round, so that a batch need not wait for one.
        if inputs.iter().any(|words| !words.is_empty()) {
            let round = self.device.round(PimStringsProgram, inputs);
            answered = round.map_err(|error| refused(&error))?;
        }
        answered.push(self.own.run(modules, &PimStringsProgram, &own));
        for words in answered.iter().flatten() {
            let mut words = &words[..];
            while let Some((answer, tag)) = StringTaskResult::decode(&mut words) {
                if let (StringTaskResult::Entries(blocks), Some(&number)) =
                    (answer, asked.get(tag as usize))
                {
                    read.insert(number, blocks.0.to_vec());
                }
            }
        }
        Ok(read)
    }

    /// Undoes the moves after a round that was not begun, because all partitions are still in their
    /// old places.
    pub(super) fn undo(&mut self) {
        let PartitionMoves { built, former } = std::mem::take(&mut self.moving);
        for built in built {
            // Pieces go first, because the first of them begins where the former partition did.
            self.directory.remove(built.number);
        }
        for (number, partition) in former {
            self.directory.insert(number, partition);
        }
    }

    /// Ends the moves after the round. `done` are the tags of the pieces that modules have built.
    /// The host takes the other pieces, with their entries from before the batch. Left-over pieces
    /// in modules that failed are recorded, to be freed later.
    pub(super) fn settle(&mut self, done: &HashSet<u32>, answered: &[Answered]) {
        let is_lost = |module: usize| answered.get(module).is_none_or(Result::is_err);
        self.garbage.retain(|(module, _)| is_lost(*module));
        let PartitionMoves { built, former } = std::mem::take(&mut self.moving);
        for (number, partition) in former {
            if is_lost(partition.module) {
                // The task that frees the partition may not have been executed.
                self.garbage.push((partition.module, number));
            }
        }
        let mut words = Vec::new();
        for (tag, built) in built.into_iter().enumerate() {
            if done.contains(&(OTHERS | tag as u32)) {
                continue;
            }
            let Some(former) = self.directory.remove(built.number) else {
                continue;
            };
            // A part of it may have been built.
            self.garbage.push((built.module, built.number));
            let number = self.next_number();
            put_build(number, NOBODY, built.skip, &built.blocks, &mut words);
            let (keys, bytes) = (built.keys, built.bytes);
            let partition =
                StringPartition::new(former.start, self.host(), keys, bytes, self.batches);
            self.directory.insert(number, partition);
            self.moves.taken += 1;
        }
        // This cannot fail for lack of room, because the host's bank has the greatest size.
        let _ = self
            .own
            .run(self.device.modules(), &PimStringsProgram, &words);
    }
}

/// Returns cuts that divide the keys of blocks, with possible inserts, evenly into `pieces` pieces.
fn evenly<'k>(
    blocks: &'k [u64],
    inserted: impl Iterator<Item = &'k [u8]>,
    pieces: usize,
) -> Vec<Vec<u8>> {
    let mut keys: BTreeSet<&[u8]> = inserted.collect();
    keys.extend(StringEntryBlocks(blocks).map(super::task::StringEntryBlock::key));
    let each = keys.len().div_ceil(pieces.max(1)).max(1);
    let cuts = keys.iter().step_by(each).skip(1);
    cuts.map(|key| key.to_vec()).collect()
}
