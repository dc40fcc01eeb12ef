//! The execution of a batch of byte strings: the tasks of its operations, and the outcomes from
//! their results.
//!
//! It is serially equivalent by the same order as for [words](crate::dispatch::plan): each module
//! executes its tasks in the order of the batch. The content of tasks and the search for partitions
//! differ in all parts, so the two share the method but not the code.

use super::cut::KeyBoundary;
use super::directory::{StringDirectory, StringPartitionChange};
use super::task::{
    StringEntryBlock, StringTaskResult, block_words, put_insert, put_key, put_remove_if, put_scan,
    put_update,
};
use crate::device::Answered;
use crate::dispatch::plan::unknown;
use nearfield_core::{
    BatchInput, BatchOutput, ByteStrings, IndexOperation, MAX_KEY_BYTES, MAX_VALUE_BYTES,
    OperationError, ScanDirection,
};
use std::collections::{HashMap, HashSet};

/// The greatest lengths of keys and values that a device takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    /// The greatest length of a key.
    key_bytes_max: usize,
    /// Size of a bank in bytes.
    bank_bytes: u64,
}

/// Bytes that an entry takes in a bank besides its block: a tower of average height, and its share
/// of the list.
const TOWER_BYTES: u64 = 32;
/// Greatest memory of a partition and a task, besides one entry.
const ROOM_BYTES: u64 = 512;

/// Returns the number of bytes that an entry takes in a bank.
pub(super) fn footprint(key_bytes: usize, value_bytes: usize) -> u64 {
    TOWER_BYTES + 8 * block_words(key_bytes, value_bytes) as u64
}

impl Lengths {
    /// Returns the limits of a device with banks of this size. A key takes an eighth of it at most.
    pub fn new(bank_bytes: u64) -> Lengths {
        Lengths {
            key_bytes_max: usize::try_from(bank_bytes / 8)
                .map_or(MAX_KEY_BYTES, |bytes| bytes.min(MAX_KEY_BYTES)),
            bank_bytes,
        }
    }

    fn check_key(self, key: &[u8]) -> Result<(), OperationError> {
        match key.len() > self.key_bytes_max {
            true => Err(OperationError::KeyTooLong {
                start: OperationError::shorten(key),
                length: key.len(),
                limit: self.key_bytes_max,
            }),
            false => Ok(()),
        }
    }

    /// Returns an equivalent place with a key that is not too long.
    fn cut(self, cut: KeyBoundary<'_>) -> KeyBoundary<'_> {
        match cut
            .key()
            .and_then(|key| key.split_at_checked(self.key_bytes_max))
        {
            // No stored key is longer, so the place after the shortened key lies between the same
            // keys.
            Some((start, rest)) if !rest.is_empty() => KeyBoundary::After(start),
            _ => cut,
        }
    }

    fn check(self, key: &[u8], value: &[u8], previous: &[u8]) -> Result<(), OperationError> {
        self.check_key(key)?;
        let room = self
            .bank_bytes
            .saturating_sub(ROOM_BYTES + footprint(key.len(), 0));
        let limit = usize::try_from(room).map_or(MAX_VALUE_BYTES, |room| room.min(MAX_VALUE_BYTES));
        // An update sends both values in one task, which must fit in a transfer.
        for length in [value.len(), value.len() + previous.len()] {
            if length > limit {
                return Err(OperationError::ValueTooLong {
                    key: OperationError::shorten(key),
                    length,
                    limit,
                });
            }
        }
        Ok(())
    }
}

/// The use of a task's result by an operation.
#[derive(Clone, Copy, Debug)]
struct StringTaskUse {
    /// Position of the operation.
    position: u32,
    /// Number of the partition concerned, and its module.
    partition: u64,
    module: u32,
    /// Tag of the task whose result the operation uses.
    tag: u32,
}

/// The tasks of a batch, by module, in the order of its operations.
#[derive(Debug)]
pub(super) struct StringTaskPlan {
    /// Encoded tasks of each module, and of the host after them.
    pub inputs: Vec<Vec<u64>>,
    /// The parts of all operations, in their order.
    parts: Vec<StringTaskUse>,
    /// Number of tasks with tags, which begin at 0.
    tags: u32,
    /// Operations that were refused, with their errors.
    refused: Vec<(usize, OperationError)>,
}

/// Returns the bounds of an ordered operation, its limit of entries, and true if it descends.
pub(super) fn ordered<'b>(
    input: BatchInput<'b, ByteStrings>,
    operation: &IndexOperation<ByteStrings>,
) -> Option<((KeyBoundary<'b>, KeyBoundary<'b>), u64, bool)> {
    Some(match *operation {
        IndexOperation::Predecessor { key } => (
            (KeyBoundary::Begin, KeyBoundary::After(input.key(key))),
            1,
            true,
        ),
        IndexOperation::Successor { key } => (
            (KeyBoundary::Before(input.key(key)), KeyBoundary::End),
            1,
            false,
        ),
        IndexOperation::Scan {
            range,
            limit,
            direction,
        } => {
            let (low, high) = input.range(range);
            let descends = direction == ScanDirection::Descending;
            (
                (KeyBoundary::low(low), KeyBoundary::high(high)),
                limit.into(),
                descends,
            )
        }
        _ => return None,
    })
}

impl StringTaskPlan {
    /// Plans the tasks of modules for the operations of a batch. One read of a key serves all
    /// operations that read it without a write of it between them.
    pub fn new(
        input: BatchInput<'_, ByteStrings>,
        modules: usize,
        lengths: Lengths,
        directory: &mut StringDirectory,
    ) -> StringTaskPlan {
        let mut plan = StringTaskPlan {
            inputs: vec![Vec::new(); modules + 1],
            parts: Vec::new(),
            tags: 0,
            refused: Vec::new(),
        };
        // The read of each key since its last write, if any.
        let mut reads: HashMap<&[u8], StringTaskUse> = HashMap::new();
        for (position, operation) in input.operations().iter().enumerate() {
            if let Some((cuts, limit, descends)) = ordered(input, operation) {
                plan.scan(position, cuts, limit, descends, lengths, directory);
            }
            if let Some(key) = operation.point_key() {
                let key = input.key(key);
                let added = plan.point(
                    position, input, operation, key, lengths, directory, &mut reads,
                );
                if let Err(error) = added {
                    plan.refused.push((position, error));
                }
            }
        }
        plan
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "an operation, and all entries that it may change"
    )]
    fn point<'b>(
        &mut self,
        position: usize,
        input: BatchInput<'b, ByteStrings>,
        operation: &IndexOperation<ByteStrings>,
        key: &'b [u8],
        lengths: Lengths,
        directory: &mut StringDirectory,
        reads: &mut HashMap<&'b [u8], StringTaskUse>,
    ) -> Result<(), OperationError> {
        lengths.check_key(key)?;
        let Some((number, partition)) = directory.of(key) else {
            return Ok(());
        };
        let module = partition.module;
        match *operation {
            IndexOperation::Get { .. } => {
                if let Some(&part) = reads.get(key) {
                    let position = position as u32;
                    self.parts.push(StringTaskUse { position, ..part });
                    return Ok(());
                }
                let (part, words) = self.add(position, number, module);
                put_key(number, part.tag, key, false, words);
                reads.insert(key, part);
                return Ok(());
            }
            IndexOperation::Insert { value, .. } => {
                let value = input.value(value);
                lengths.check(key, value, &[])?;
                let (part, words) = self.add(position, number, module);
                put_insert(number, part.tag, key, value, words);
                directory.may_change(number, true);
            }
            IndexOperation::Update {
                value, previous, ..
            } => {
                let (value, previous) = (input.value(value), input.previous(previous));
                lengths.check(key, value, previous.unwrap_or_default())?;
                let (part, words) = self.add(position, number, module);
                put_update(number, part.tag, key, previous, value, words);
                if previous.is_none() {
                    directory.may_change(number, true);
                }
            }
            IndexOperation::RemoveIf { previous, .. } => {
                let expected = input.previous(previous).unwrap_or_default();
                lengths.check(key, expected, &[])?;
                let (part, words) = self.add(position, number, module);
                put_remove_if(number, part.tag, key, expected, words);
                directory.may_change(number, false);
            }
            _ => {
                let (part, words) = self.add(position, number, module);
                put_key(number, part.tag, key, true, words);
                directory.may_change(number, false);
            }
        }
        // Later reads of the key must see this write, so they get a task of their own.
        reads.remove(key);
        Ok(())
    }

    fn scan(
        &mut self,
        position: usize,
        cuts: (KeyBoundary<'_>, KeyBoundary<'_>),
        limit: u64,
        descends: bool,
        lengths: Lengths,
        directory: &StringDirectory,
    ) {
        let cuts = (lengths.cut(cuts.0), lengths.cut(cuts.1));
        directory.candidates(cuts, limit, descends, |number, partition, cuts| {
            let (part, words) = self.add(position, number, partition.module);
            put_scan(number, part.tag, cuts, limit, descends, words);
        });
    }

    /// Adds a task, and returns its part and the buffer for its words.
    fn add(
        &mut self,
        position: usize,
        partition: u64,
        module: usize,
    ) -> (StringTaskUse, &mut Vec<u64>) {
        let part = StringTaskUse {
            position: position as u32,
            partition,
            module: module as u32,
            tag: self.tags,
        };
        // Tags of operations are below those of moves, by which `finish` tells them apart.
        self.tags += 1;
        self.parts.push(part);
        debug_assert!(part.tag < crate::dispatch::plan::OTHERS);
        (part, &mut self.inputs[module])
    }

    /// Discards the plan's effects on the directory.
    pub fn give_up(&self, directory: &mut StringDirectory) {
        for part in &self.parts {
            directory.settle(part.partition, StringPartitionChange::default());
        }
    }

    /// Writes the outcomes from the outputs of all modules, and updates the directory with the
    /// changes of partitions. Results of other tasks are passed to `other` with their tags. Returns
    /// the modules that had no room.
    pub fn finish(
        &self,
        input: BatchInput<'_, ByteStrings>,
        output: &mut BatchOutput<'_, ByteStrings>,
        answered: &[Answered],
        directory: &mut StringDirectory,
        mut other: impl FnMut(u32, &StringTaskResult<'_>),
    ) -> HashSet<usize> {
        let mut answers = vec![StringTaskResult::Nothing; self.tags as usize];
        for words in answered.iter().flatten() {
            let mut words = &words[..];
            while let Some((answer, tag)) = StringTaskResult::decode(&mut words) {
                match answers.get_mut(tag as usize) {
                    Some(place) => *place = answer,
                    None => other(tag, &answer),
                }
            }
        }
        let mut full = HashSet::new();
        let mut changes: HashMap<u64, StringPartitionChange> = HashMap::new();
        let mut parts = self.parts.iter().peekable();
        for (position, operation) in input.operations().iter().enumerate() {
            let mut own = Vec::new();
            let mut failed = None;
            while let Some(part) = parts.next_if(|part| part.position as usize == position) {
                let change = changes.entry(part.partition).or_default();
                let answer = answers[part.tag as usize];
                if let Some(Err(error)) = answered.get(part.module as usize) {
                    // Even a read tells that the module failed. Its other tasks on the partition
                    // may have been executed or not.
                    change.is_lost = true;
                    failed = Some(error);
                }
                if answer == StringTaskResult::Full {
                    full.insert(part.module as usize);
                }
                own.push((part.partition, answer));
            }
            match failed {
                Some(error) => output.fail(position, unknown(error)),
                None => write(position, operation, input, output, &own, &mut changes),
            }
        }
        debug_assert!(parts.peek().is_none(), "each part belongs to an operation");
        for (position, error) in &self.refused {
            output.fail(*position, error.clone());
        }
        for (number, change) in changes {
            directory.settle(number, change);
        }
        full
    }
}

/// Writes the outcome of an operation.
fn write(
    position: usize,
    operation: &IndexOperation<ByteStrings>,
    input: BatchInput<'_, ByteStrings>,
    output: &mut BatchOutput<'_, ByteStrings>,
    parts: &[(u64, StringTaskResult<'_>)],
    changes: &mut HashMap<u64, StringPartitionChange>,
) {
    let key = operation.point_key().map(|key| input.key(key));
    if parts
        .iter()
        .any(|(_, answer)| *answer == StringTaskResult::Full)
    {
        let what = match key {
            Some(key) => format!(
                "key {:?}: its module has no room",
                OperationError::shorten(key)
            ),
            None => "a module has no room for a partition in the range".to_owned(),
        };
        return output.fail(position, OperationError::OutOfMemory { what });
    }
    let Some(key) = key else {
        let blocks = parts.iter().flat_map(|(_, answer)| match *answer {
            StringTaskResult::Entries(blocks) => blocks,
            _ => super::task::StringEntryBlocks(&[]),
        });
        let mut entries = blocks.map(|block: StringEntryBlock<'_>| (block.key(), block.value()));
        match ordered(input, operation) {
            Some((_, limit, _)) if matches!(operation, IndexOperation::Scan { .. }) => {
                output.entries(position, entries.take(limit as usize));
            }
            Some(_) => output.entry(position, entries.next()),
            None => {}
        }
        return;
    };
    let (partition, value) = match parts.first() {
        Some(&(partition, StringTaskResult::Value(value))) => (partition, Some(value)),
        Some(&(partition, _)) => (partition, None),
        None => return,
    };
    let mut change = |came: Option<&[u8]>, went: Option<&[u8]>| {
        let change = changes.entry(partition).or_default();
        let bytes =
            |value: Option<&[u8]>| value.map_or(0, |value| footprint(key.len(), value.len()));
        change.bytes_came += bytes(came);
        change.bytes_went += bytes(went);
        change.keys_came += u64::from(came.is_some() && went.is_none());
        change.keys_went += u64::from(came.is_none() && went.is_some());
    };
    match *operation {
        IndexOperation::Insert { value: new, .. } => {
            change(Some(input.value(new)), value);
            output.value(position, key, value);
        }
        IndexOperation::Update {
            value: new,
            previous,
            ..
        } => {
            let applied = value == input.previous(previous);
            if applied {
                change(Some(input.value(new)), value);
            }
            output.updated(position, key, applied, value);
        }
        IndexOperation::Remove { .. } => {
            change(None, value);
            output.value(position, key, value);
        }
        IndexOperation::RemoveIf { previous, .. } => {
            let applied = value.is_some() && value == input.previous(previous);
            if applied {
                change(None, value);
            }
            output.updated(position, key, applied, value);
        }
        _ => output.value(position, key, value),
    }
}
