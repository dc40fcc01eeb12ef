//! The program for byte strings in a module: a skip list of partitions by their numbers, and in
//! each a skip list of keys.
//!
//! The word of a tower is the 8 bytes of its key after the common prefix of the partition, and its
//! value is the address of the block with the whole key and value. So a block is read only if two
//! keys agree in these 8 bytes.

use super::cut::KeyBoundary;
use super::task::{
    StringEntryBlock, StringEntryBlocks, StringTask, answer_entries, answer_full, answer_nothing,
    answer_value, block_words, lengths,
};
use crate::device::{Module, ModuleProgram, ProgramFault, WorkMeter};
use crate::structures::list::OrderedKeyList;
use crate::structures::skip_list::{self, PimSkipList};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};

/// Number of instructions for reading a task and writing its result. *Assumed*.
const INSTRUCTIONS_PER_TASK: u64 = 60;
/// Number of instructions for each word of two compared keys. *Assumed*.
const INSTRUCTIONS_PER_WORD: u64 = 4;

/// The program that executes tasks in the partitions of a module.
pub(super) struct PimStringsProgram;

impl ModuleProgram for PimStringsProgram {
    fn run<M: WorkMeter>(
        &self,
        module: &mut Module<'_, M>,
        mut input: &[u64],
        output: &mut Vec<u64>,
    ) -> Result<(), ProgramFault> {
        if input.is_empty() {
            return Ok(());
        }
        let mut partitions = Partitions {
            list: PimSkipList::of_root(module)?,
            found: HashMap::new(),
        };
        let words = input.len();
        for number in 0.. {
            let Some(&value) = input.first() else {
                break;
            };
            let word = words - input.len();
            let Some((task, partition, tag)) = StringTask::decode(&mut input) else {
                return Err(ProgramFault::Input { word, value });
            };
            module.begin(number);
            module.instructions(INSTRUCTIONS_PER_TASK);
            match task {
                StringTask::Build { skip, entries } => {
                    match partitions.build(module, partition, skip, entries) {
                        Ok(()) => answer_nothing(tag, output),
                        Err(_) => answer_full(tag, output),
                    }
                }
                StringTask::Free => {
                    partitions.free(module, partition);
                    answer_nothing(tag, output);
                }
                _ => match partitions.find(module, partition) {
                    Some(strings) => strings.run(module, &task, tag, output),
                    // The partition is missing only if it had no room.
                    None => answer_full(tag, output),
                },
            }
        }
        Ok(())
    }
}

/// The partitions of a module.
struct Partitions {
    /// Partitions by number, as packed by [`StringPartitionList::pack`].
    list: PimSkipList,
    /// The partitions found in this round, which the processor keeps in its own memory.
    found: HashMap<u64, StringPartitionList>,
}

impl Partitions {
    fn find<M: WorkMeter>(
        &mut self,
        module: &mut Module<'_, M>,
        partition: u64,
    ) -> Option<StringPartitionList> {
        if let Some(strings) = self.found.get(&partition) {
            return Some(*strings);
        }
        let strings = StringPartitionList::unpack(self.list.get(module, partition)?);
        self.found.insert(partition, strings);
        Some(strings)
    }

    fn build<M: WorkMeter>(
        &mut self,
        module: &mut Module<'_, M>,
        partition: u64,
        skip: u32,
        entries: StringEntryBlocks<'_>,
    ) -> Result<(), ProgramFault> {
        let list = PimSkipList::new(module)?;
        let strings = StringPartitionList { list, skip };
        let built = strings.build(module, entries);
        let named = built.and_then(|()| self.list.insert(module, partition, strings.pack()));
        if let Err(fault) = named {
            strings.take(module);
            return Err(fault);
        }
        Ok(())
    }

    fn free<M: WorkMeter>(&mut self, module: &mut Module<'_, M>, partition: u64) {
        // The address would lead to freed memory.
        self.found.remove(&partition);
        if let Some(packed) = self.list.remove(module, partition) {
            StringPartitionList::unpack(packed).take(module);
        }
    }
}

/// A partition: its list, and the length of the common prefix of its keys.
#[derive(Clone, Copy)]
struct StringPartitionList {
    list: PimSkipList,
    skip: u32,
}

/// The target of a search in a partition: a key, or a place between keys.
#[derive(Clone, Copy)]
enum StringSearchTarget<'k> {
    Key { key: &'k [u8], skip: u32 },
    Cut { cut: KeyBoundary<'k>, skip: u32 },
}

/// Returns the 8 bytes of a key after `skip` bytes, as a word. Words have the order of keys.
fn word(key: &[u8], skip: u32) -> u64 {
    let rest = key.get(skip as usize..).unwrap_or_default();
    let mut bytes = [0; 8];
    let count = rest.len().min(8);
    bytes[..count].copy_from_slice(&rest[..count]);
    u64::from_be_bytes(bytes)
}

/// Compares the key of a block with another key of the same partition.
fn compare<M: WorkMeter>(
    module: &mut Module<'_, M>,
    block: u32,
    found_word: u64,
    key: &[u8],
    skip: u32,
) -> Ordering {
    let order = found_word.cmp(&word(key, skip));
    if order != Ordering::Equal {
        return order;
    }
    module.hop();
    let (key_bytes, _) = lengths(module.read(block, 1)[0]);
    // The common prefix need not be compared, but copies begin at whole words.
    let skipped = skip as usize / 8;
    let words = key_bytes.div_ceil(8).saturating_sub(skipped);
    module.instructions(INSTRUCTIONS_PER_WORD * words as u64);
    let start = block + 1 + skipped as u32;
    let found: &[u8] = bytemuck::cast_slice(module.read(start, words));
    let found = &found[..key_bytes.saturating_sub(8 * skipped)];
    found.cmp(key.get(8 * skipped..).unwrap_or_default())
}

impl skip_list::SkipListTarget for StringSearchTarget<'_> {
    fn word(&self) -> u64 {
        match *self {
            StringSearchTarget::Key { key, skip } => word(key, skip),
            StringSearchTarget::Cut { cut, skip } => word(cut.key().unwrap_or_default(), skip),
        }
    }

    fn height(&self) -> usize {
        let key = match *self {
            StringSearchTarget::Key { key, .. } => key,
            StringSearchTarget::Cut { cut, .. } => cut.key().unwrap_or_default(),
        };
        // The first 8 bytes are alike in many keys, so the height follows from all bytes.
        let mut hasher = DefaultHasher::new();
        hasher.write(key);
        skip_list::height(hasher.finish())
    }

    fn order<M: WorkMeter>(&self, module: &mut Module<'_, M>, word: u64, value: u64) -> Ordering {
        let block = value as u32;
        match *self {
            StringSearchTarget::Key { key, skip } => compare(module, block, word, key, skip),
            StringSearchTarget::Cut { cut, skip } => match cut {
                KeyBoundary::Begin => Ordering::Greater,
                KeyBoundary::End => Ordering::Less,
                KeyBoundary::Before(key) => {
                    compare(module, block, word, key, skip).then(Ordering::Greater)
                }
                KeyBoundary::After(key) => {
                    compare(module, block, word, key, skip).then(Ordering::Less)
                }
            },
        }
    }
}

impl StringPartitionList {
    /// Packs the partition into the value of a tower.
    fn pack(self) -> u64 {
        u64::from(self.list.head()) | u64::from(self.skip) << 32
    }

    fn unpack(packed: u64) -> StringPartitionList {
        StringPartitionList {
            list: PimSkipList::at(packed as u32),
            skip: (packed >> 32) as u32,
        }
    }

    fn key<'k>(&self, key: &'k [u8]) -> StringSearchTarget<'k> {
        let skip = self.skip;
        StringSearchTarget::Key { key, skip }
    }

    fn cut<'k>(&self, cut: KeyBoundary<'k>) -> StringSearchTarget<'k> {
        let skip = self.skip;
        StringSearchTarget::Cut { cut, skip }
    }

    fn run<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        task: &StringTask<'_>,
        tag: u32,
        output: &mut Vec<u64>,
    ) {
        match *task {
            StringTask::Get { key } => {
                let found = self.list.get(module, self.key(key));
                self.answer(module, found, tag, output);
            }
            StringTask::Insert { entry } => self.insert(module, entry, tag, output),
            StringTask::Update { entry, previous } => {
                let found = self.list.get(module, self.key(entry.key()));
                let applies = match (found, previous) {
                    (Some(block), Some(previous)) => read(module, block as u32).value() == previous,
                    (found, previous) => found.is_none() && previous.is_none(),
                };
                match applies {
                    true => self.insert(module, entry, tag, output),
                    false => self.answer(module, found, tag, output),
                }
            }
            StringTask::Remove { key, expected } => {
                if let Some(expected) = expected {
                    let found = self.list.get(module, self.key(key));
                    let applies =
                        found.is_some_and(|block| read(module, block as u32).value() == expected);
                    if !applies {
                        return self.answer(module, found, tag, output);
                    }
                }
                let found = self.list.remove(module, self.key(key));
                // The block is read for the result before it is freed.
                self.answer(module, found, tag, output);
                if let Some(block) = found {
                    free(module, block as u32);
                }
            }
            StringTask::Scan {
                low,
                high,
                limit,
                descends,
            } => answer_entries(tag, output, |output| match descends {
                true => self.descend(module, low, high, limit, output),
                false => self.ascend(module, low, high, limit, output),
            }),
            StringTask::Build { .. } | StringTask::Free => answer_nothing(tag, output),
        }
    }

    /// Outputs the value of a block.
    fn answer<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        block: Option<u64>,
        tag: u32,
        output: &mut Vec<u64>,
    ) {
        match block {
            Some(block) => answer_value(tag, read(module, block as u32).value(), output),
            None => answer_nothing(tag, output),
        }
    }

    /// Sets the value of a key, and outputs the old one.
    fn insert<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        entry: StringEntryBlock<'_>,
        tag: u32,
        output: &mut Vec<u64>,
    ) {
        // The new block is stored before the old one is freed, so that a full bank loses nothing.
        let Ok(block) = store(module, entry) else {
            return answer_full(tag, output);
        };
        let key = self.key(entry.key());
        match self.list.insert(module, key, block.into()) {
            Ok(former) => {
                self.answer(module, former, tag, output);
                if let Some(former) = former {
                    free(module, former as u32);
                }
            }
            Err(_) => {
                free(module, block);
                answer_full(tag, output);
            }
        }
    }

    /// Outputs the entries from one cut up to another.
    fn ascend<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        low: KeyBoundary<'_>,
        high: KeyBoundary<'_>,
        limit: u64,
        output: &mut Vec<u64>,
    ) {
        let mut left = limit;
        if left == 0 {
            return;
        }
        let high = self.cut(high);
        self.list
            .walk(module, self.cut(low), |module, word, value| {
                if skip_list::SkipListTarget::order(&high, module, word, value) == Ordering::Greater
                {
                    return false;
                }
                output.extend_from_slice(read(module, value as u32).words());
                left -= 1;
                left > 0
            });
    }

    /// Outputs the entries from one cut down to another. Searches for each, because lists are
    /// linked in one direction only.
    fn descend<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        low: KeyBoundary<'_>,
        high: KeyBoundary<'_>,
        limit: u64,
        output: &mut Vec<u64>,
    ) {
        let low = self.cut(low);
        let mut next = self.list.floor(module, self.cut(high));
        for _ in 0..limit {
            let Some((word, value)) = next else {
                return;
            };
            if skip_list::SkipListTarget::order(&low, module, word, value) == Ordering::Less {
                return;
            }
            let start = output.len();
            output.extend_from_slice(read(module, value as u32).words());
            let Some(last) = StringEntryBlock::take(&mut &output[start..]) else {
                return;
            };
            let below = self.cut(KeyBoundary::Before(last.key()));
            next = self.list.floor(module, below);
        }
    }

    /// Fills an empty list.
    fn build<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        entries: StringEntryBlocks<'_>,
    ) -> Result<(), ProgramFault> {
        let mut blocks = Vec::new();
        for entry in entries {
            match store(module, entry) {
                Ok(block) => blocks.push(block),
                Err(fault) => {
                    for block in blocks {
                        free(module, block);
                    }
                    return Err(fault);
                }
            }
        }
        // All blocks are stored before the first tower, so that a failure above leaves the list
        // empty.
        let pairs = entries.zip(&blocks);
        let pairs = pairs.map(|(entry, &block)| (self.key(entry.key()), u64::from(block)));
        let built = self.list.build(module, pairs);
        if built.is_err() {
            // Blocks in the list are freed with it.
            let mut listed = 0;
            self.list
                .walk(module, self.cut(KeyBoundary::Begin), |_, _, _| {
                    listed += 1;
                    true
                });
            debug_assert!(listed <= blocks.len());
            for &block in &blocks[listed..] {
                free(module, block);
            }
        }
        built
    }

    /// Frees all memory.
    fn take<M: WorkMeter>(self, module: &mut Module<'_, M>) {
        for (_, block) in self.list.take(module) {
            free(module, block as u32);
        }
    }
}

/// Copies an entry to the bank.
fn store<M: WorkMeter>(
    module: &mut Module<'_, M>,
    entry: StringEntryBlock<'_>,
) -> Result<u32, ProgramFault> {
    let block = module.allocate(entry.words().len())?;
    module.write(block, entry.words());
    Ok(block)
}

/// Returns the number of words of a block.
fn words<M: WorkMeter>(module: &mut Module<'_, M>, block: u32) -> usize {
    let (key_bytes, value_bytes) = lengths(module.read(block, 1)[0]);
    block_words(key_bytes, value_bytes)
}

/// Returns an entry of the bank.
fn read<'m, M: WorkMeter>(module: &'m mut Module<'_, M>, block: u32) -> StringEntryBlock<'m> {
    let words = words(module, block);
    StringEntryBlock::whole(module.read(block, words))
}

fn free<M: WorkMeter>(module: &mut Module<'_, M>, block: u32) {
    let words = words(module, block);
    module.free(block, words);
}
