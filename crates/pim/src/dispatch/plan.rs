//! The execution of a batch: the tasks of its operations, and the outcomes from their results.

use crate::device::{ModuleError, RoundError};
use crate::dispatch::directory::{PartitionDirectory, PartitionPlace, WordPartition};
use crate::dispatch::routing::BatchRouting;
use crate::dispatch::shared_scans::{PartitionScanRead, ScanKeyRange, SharedScanPass};
use crate::dispatch::task::{ModuleTask, ModuleTaskResult};
use crate::dispatch::wire::Replied;
use nearfield_core::plan::inclusive;
use nearfield_core::{
    BatchInput, BatchOutput, IndexOperation, OperationError, ScanDirection, Words,
};
use std::collections::BTreeSet;

/// The tasks of a batch, by module, in the order of its operations. Each module executes its tasks
/// in this order. All modules together therefore return what a single one would that executes the
/// operations in order.
#[derive(Debug)]
pub struct ModuleTaskPlan {
    /// Tasks by module, encoded.
    pub inputs: Vec<Vec<u64>>,
    /// The parts of all operations, in their order.
    parts: Vec<TaskUse>,
    /// The tasks that were sent, by tag.
    sent: Vec<SentTask>,
}

/// The use of a task's result by an operation.
#[derive(Clone, Copy, Debug)]
struct TaskUse {
    /// Position of the operation.
    position: u32,
    /// The partition that the operation uses.
    place: PartitionPlace,
    /// Tag of the task, which was sent for this operation or for an earlier one.
    tag: u32,
}

/// A task that was sent.
#[derive(Clone, Copy, Debug)]
struct SentTask {
    /// Position of the operation for which the task was sent.
    position: u32,
    module: u32,
}

/// The tag of tasks without a result that is waited for. Tags of operations are less than
/// [`OTHERS`]; those of other tasks with a result are not.
pub(crate) const NOBODY: u32 = u32::MAX;
pub(crate) const OTHERS: u32 = 1 << 31;

/// A copy of a partition: the module that stores it, and the address of its list there, or 0 if
/// only the module knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    /// The module.
    pub module: usize,
    /// The address of its list.
    pub list: u32,
}

impl Replica {
    /// Returns the copy that the directory names.
    pub fn first(partition: &WordPartition) -> Replica {
        Replica {
            module: partition.module,
            list: partition.list,
        }
    }
}

/// The keys that partitions gained and lost, by place.
struct PartitionChanges<'d> {
    directory: &'d PartitionDirectory,
    changes: Vec<Option<PartitionChange>>,
    /// The changed partitions.
    changed: Vec<PartitionPlace>,
}

impl<'d> PartitionChanges<'d> {
    fn new(directory: &'d PartitionDirectory) -> PartitionChanges<'d> {
        PartitionChanges {
            directory,
            changes: vec![None; directory.places()],
            changed: Vec::new(),
        }
    }

    /// Returns the change of a partition.
    fn of(&mut self, place: PartitionPlace) -> &mut PartitionChange {
        let change = &mut self.changes[place.number()];
        if change.is_none() {
            self.changed.push(place);
        }
        change.get_or_insert_with(|| PartitionChange {
            came: 0,
            went: 0,
            is_lost: false,
            least: self.directory.partition(place).least,
        })
    }
}

/// The numbers of keys that a partition gained and lost.
#[derive(Clone, Copy, Debug)]
struct PartitionChange {
    came: u64,
    went: u64,
    /// True if the numbers are unknown.
    is_lost: bool,
    /// The least known key of the partition so far.
    least: Option<u64>,
}

impl PartitionChange {
    /// Records that a key is present.
    fn has(&mut self, key: u64) {
        self.least = Some(self.least.map_or(key, |least| least.min(key)));
    }

    /// Records that a key was removed.
    fn has_not(&mut self, key: u64) {
        self.least = self.least.filter(|&least| least != key);
    }
}

/// The tags of the tasks of operations, by operation, for those whose results others may use.
#[derive(Default)]
struct Tags(Vec<u32>);

impl Tags {
    fn note(&mut self, number: usize, tag: u32) {
        debug_assert!(number >= self.0.len(), "operations are noted in order");
        // Operations without a tag of their own are padded, so that the vector is indexed by
        // position. It stays empty in batches that share nothing.
        self.0.resize(number, NOBODY);
        self.0.push(tag);
    }

    /// Returns the tag of an earlier task whose result an operation uses, if there is one.
    fn shared(&self, requests: &BatchRouting, number: usize) -> Option<u32> {
        let tag = self.0.get(requests.source(number)?).copied();
        tag.filter(|&tag| tag != NOBODY)
    }
}

/// The planning of the tasks of a batch, one operation after the other.
struct ModuleTaskPlanner<'p, C, R> {
    input: BatchInput<'p, Words>,
    requests: &'p BatchRouting,
    directory: &'p mut PartitionDirectory,
    /// The function that makes a partition for a key that may be inserted where there is none.
    create: C,
    /// The function that returns the copy from which the operation of a number reads the partition
    /// in a place.
    read: R,
    plan: ModuleTaskPlan,
    /// The reads that scans share.
    walk: SharedScanPass<'p>,
    /// The tags of tasks whose results later operations may use.
    tags: Tags,
}

impl<C, R> ModuleTaskPlanner<'_, C, R>
where
    C: FnMut(&mut PartitionDirectory, u64) -> Option<PartitionPlace>,
    R: FnMut(&PartitionDirectory, PartitionPlace, u64) -> Replica,
{
    /// Plans the tasks of the operation of a number.
    #[inline]
    fn plan_operation(&mut self, number: usize, operation: &IndexOperation<Words>) {
        let position = number as u32;
        match *operation {
            IndexOperation::Get { key } => self.get(number, key),
            IndexOperation::Insert { key, value } => {
                if let Some(place) = self.place_or_create(number, key) {
                    self.write(position, place, ModuleTask::Insert { key, value });
                    self.directory.note_insert(place, key);
                }
            }
            IndexOperation::Update {
                key,
                value,
                previous,
            } => self.update(number, key, value, self.input.previous(previous)),
            IndexOperation::Remove { key } | IndexOperation::RemoveIf { key, .. } => {
                if let Some(place) = self.requests.place(number, key, self.directory) {
                    self.write(position, place, removal(self.input, operation, key));
                    self.directory.note_removal(place, key);
                }
            }
            IndexOperation::Predecessor { key } => self.floor(position, key),
            IndexOperation::Successor { key } => {
                self.scan(position, ScanKeyRange::next(key), false);
            }
            IndexOperation::Scan {
                range,
                limit,
                direction,
            } => {
                let Some((from, to)) = inclusive(self.input.range(range)) else {
                    return;
                };
                let limit = limit.into();
                let reach = ScanKeyRange { from, to, limit };
                if direction == ScanDirection::Descending {
                    self.scan(position, reach, true);
                } else {
                    self.scan_together(position, reach);
                }
            }
            IndexOperation::Refused => {}
        }
    }

    #[inline]
    fn get(&mut self, number: usize, key: u64) {
        let position = number as u32;
        // No partition means no key. The outcome is then absent without any task.
        let Some(place) = self.requests.place(number, key, self.directory) else {
            return;
        };
        if let Some(tag) = self.tags.shared(self.requests, number) {
            self.plan.share(position, place, tag);
            return;
        }
        let copy = (self.read)(self.directory, place, position.into());
        let tag = self
            .plan
            .add(position, place, copy, ModuleTask::Get { key });
        if self.requests.combines() {
            self.tags.note(number, tag);
        }
    }

    #[inline]
    fn update(&mut self, number: usize, key: u64, value: u64, previous: Option<u64>) {
        let position = number as u32;
        if let Some(tag) = self.tags.shared(self.requests, number)
            && let Some(place) = self.requests.place(number, key, self.directory)
        {
            self.plan.share(position, place, tag);
            return;
        }
        // Only an update from absent can insert.
        let place = match previous {
            None => self.place_or_create(number, key),
            Some(_) => self.requests.place(number, key, self.directory),
        };
        let Some(place) = place else {
            return;
        };
        let values = values_of(self.input, self.requests, number);
        let tag = self.write(position, place, update(key, previous, value, &values));
        // Later updates of the chain share the task of its first.
        if !values.is_empty() {
            self.tags.note(number, tag);
        }
        if previous.is_none() {
            self.directory.note_insert(place, key);
        }
    }

    /// Returns the partition of a key that may be inserted.
    #[inline]
    fn place_or_create(&mut self, number: usize, key: u64) -> Option<PartitionPlace> {
        // An earlier insert of this batch may have created the partition.
        if let Some(place) = self.requests.place(number, key, self.directory) {
            return Some(place);
        }
        (self.create)(self.directory, key)
    }

    /// Adds a task that may write to a partition, and returns its tag.
    #[inline]
    fn write(&mut self, position: u32, place: PartitionPlace, task: ModuleTask<'_>) -> u32 {
        // The other copies of a partition that is written were removed.
        let only = Replica::first(self.directory.partition(place));
        let tag = self.plan.add(position, place, only, task);
        // Scans behind this write must not share reads with those before it.
        self.walk.wrote(place);
        tag
    }

    fn floor(&mut self, position: u32, key: u64) {
        let ModuleTaskPlanner {
            directory,
            read,
            plan,
            ..
        } = self;
        let directory: &PartitionDirectory = directory;
        // The nearest partition may turn out to be empty by then, so several may be asked. The
        // first with an entry has the outcome.
        directory.candidates(0, key, 1, true, |place| {
            let start = directory.start(place);
            let copy = read(directory, place, position.into());
            plan.add(position, place, copy, ModuleTask::Floor { start, key });
        });
    }

    fn scan(&mut self, position: u32, reach: ScanKeyRange, descends: bool) {
        let ModuleTaskPlanner {
            directory,
            read,
            plan,
            ..
        } = self;
        let directory: &PartitionDirectory = directory;
        let ScanKeyRange { from, to, limit } = reach;
        directory.candidates(from, to, limit, descends, |place| {
            let copy = read(directory, place, position.into());
            let task = reach.task(directory, place, descends);
            plan.add(position, place, copy, task);
        });
    }

    /// Adds an ascending scan, which may share reads with other scans.
    fn scan_together(&mut self, position: u32, reach: ScanKeyRange) {
        let ModuleTaskPlanner {
            directory,
            read,
            plan,
            walk,
            ..
        } = self;
        let directory: &PartitionDirectory = directory;
        let ScanKeyRange { from, to, limit } = reach;
        directory.candidates(from, to, limit, false, |place| {
            let own = reach.within(directory.start(place), directory.partition(place));
            // The shared read may reach further than this scan. Each scan cuts its part off when it
            // is finished.
            let (number, reach) = match walk.read(place, &own) {
                PartitionScanRead::Again(tag) => return plan.share(position, place, tag),
                PartitionScanRead::First(number, reach) => (Some(number), reach),
                PartitionScanRead::Own => (None, reach),
            };
            let copy = read(directory, place, position.into());
            let task = reach.task(directory, place, false);
            let tag = plan.add(position, place, copy, task);
            if let Some(number) = number {
                walk.note(number, tag);
            }
        });
    }
}

impl ModuleTaskPlan {
    /// Plans the tasks of modules for the operations of a batch.
    ///
    /// The tasks are appended to `inputs`, whose existing tasks have no tags of operations.
    /// `create` makes a partition for a key that may be inserted where there is none. `read`
    /// returns the copy from which the operation of a number reads the partition in a place.
    pub fn new(
        input: BatchInput<'_, Words>,
        inputs: Vec<Vec<u64>>,
        requests: &BatchRouting,
        directory: &mut PartitionDirectory,
        create: impl FnMut(&mut PartitionDirectory, u64) -> Option<PartitionPlace>,
        read: impl FnMut(&PartitionDirectory, PartitionPlace, u64) -> Replica,
    ) -> ModuleTaskPlan {
        let operations = input.operations();
        let mut planner = ModuleTaskPlanner {
            input,
            requests,
            directory,
            create,
            read,
            plan: ModuleTaskPlan {
                inputs,
                parts: Vec::with_capacity(operations.len()),
                sent: Vec::with_capacity(operations.len()),
            },
            walk: requests.walk(),
            tags: Tags::default(),
        };
        for (number, operation) in operations.iter().enumerate() {
            planner.plan_operation(number, operation);
        }
        planner.plan
    }

    /// Makes an operation use the result of an earlier task.
    fn share(&mut self, position: u32, place: PartitionPlace, tag: u32) {
        debug_assert!((tag as usize) < self.sent.len());
        debug_assert!(
            self.parts
                .last()
                .is_none_or(|part| part.position <= position)
        );
        self.parts.push(TaskUse {
            position,
            place,
            tag,
        });
    }

    /// Returns the number of tasks of each of `modules` modules.
    pub fn tasks_by_module(&self, modules: usize) -> Vec<u64> {
        let mut tasks = vec![0; modules];
        for sent in &self.sent {
            if let Some(tasks) = tasks.get_mut(sent.module as usize) {
                *tasks += 1;
            }
        }
        tasks
    }

    /// Adds a task for an operation, and returns its tag.
    fn add(
        &mut self,
        position: u32,
        place: PartitionPlace,
        copy: Replica,
        task: ModuleTask<'_>,
    ) -> u32 {
        let tag = self.sent.len() as u32;
        debug_assert!(
            tag < OTHERS,
            "a batch has fewer tasks than tags of operations"
        );
        self.sent.push(SentTask {
            position,
            module: copy.module as u32,
        });
        self.share(position, place, tag);
        if let Some(words) = self.inputs.get_mut(copy.module) {
            task.encode(copy.list, tag, words);
        }
        tag
    }

    /// Returns the partition of each task.
    pub fn tasks(&self) -> impl Iterator<Item = PartitionPlace> {
        let parts = self.parts.iter();
        let own = parts.filter(|part| self.sent[part.tag as usize].position == part.position);
        own.map(|part| part.place)
    }

    /// Discards the plan's effects on the directory.
    pub fn give_up(&self, directory: &mut PartitionDirectory) {
        for part in &self.parts {
            // `settle` drops what operations may have added or removed. A place may be settled
            // several times.
            directory.settle(part.place, 0, 0);
        }
    }

    /// Writes the outcomes from the replies of all modules, and updates the directory with the
    /// gains and losses of partitions. Results of other tasks are passed to `other` with their
    /// tags.
    pub fn finish(
        &self,
        input: BatchInput<'_, Words>,
        output: &mut BatchOutput<'_, Words>,
        replied: &[Replied],
        directory: &mut PartitionDirectory,
        mut other: impl FnMut(u32, &ModuleTaskResult<'_>),
    ) -> ModuleBatchSummary {
        let mut finished = ModuleBatchSummary::default();
        // A task without a reply counts as nothing found. Its module failed, and the error is
        // written below.
        let mut answers = vec![ModuleTaskResult::Nothing; self.sent.len()];
        for reply in replied.iter().flatten() {
            reply.each(|answer, tag| match answers.get_mut(tag as usize) {
                Some(place) => *place = answer,
                None => other(tag, &answer),
            });
        }
        let mut changes = PartitionChanges::new(directory);
        let mut parts = &self.parts[..];
        for (position, operation) in input.operations().iter().enumerate() {
            // Parts are ordered by operation, so one pass hands each operation its own without an
            // index.
            let is_own = |part: &&TaskUse| part.position as usize == position;
            let (own, others) = parts.split_at(parts.iter().take_while(is_own).count());
            parts = others;
            let own = OperationTaskUses {
                position: position as u32,
                parts: own,
                answers: &answers,
                sent: &self.sent,
            };
            let is_write = operation.is_write();
            let mut error = None;
            for part in own.parts {
                if let Some(Err(module)) = replied.get(own.module(part)) {
                    // If a write failed, the number of keys is unknown.
                    if is_write {
                        changes.of(part.place).is_lost = true;
                    }
                    error = Some(module);
                }
            }
            let refused = own
                .iter()
                .filter(|(_, answer)| **answer == ModuleTaskResult::Full);
            let refused = refused.map(|(part, _)| own.module(part));
            finished.full.extend(refused);
            finished.words_again += own.words_again(operation, input);
            match error {
                Some(error) => output.fail(position, unknown(error)),
                None => {
                    // A predecessor that was sent to one partition has nothing to gain from knowing
                    // the key.
                    if let (true, IndexOperation::Predecessor { .. }) =
                        (own.parts.len() > 1, operation)
                    {
                        learn(own, &mut changes);
                    }
                    write(position, operation, input, output, own, &mut changes);
                }
            }
            let first = own.parts.first().copied();
            if let (Some(part), IndexOperation::Update { value, .. }) = (first, operation) {
                // Later updates of the same task find the value that this one set.
                let answer = &mut answers[part.tag as usize];
                let is_expected = match *answer {
                    ModuleTaskResult::Expected => true,
                    ModuleTaskResult::Value(before) => Some(before) == expected(operation, input),
                    _ => false,
                };
                if is_expected {
                    *answer = ModuleTaskResult::Value(*value);
                }
            }
        }
        debug_assert!(parts.is_empty(), "each part belongs to an operation");
        let PartitionChanges {
            changes, changed, ..
        } = changes;
        for place in changed {
            let Some(change) = changes[place.number()] else {
                continue;
            };
            if change.is_lost {
                directory.lose_count(place);
            } else {
                directory.set_least(place, change.least);
                directory.settle(place, change.came, change.went);
            }
        }
        finished
    }
}

/// The results of a batch besides its outcomes.
#[derive(Debug, Default)]
pub struct ModuleBatchSummary {
    /// Modules that had no room.
    pub full: BTreeSet<usize>,
    /// Number of words that operations took from results of other operations' tasks, and that were
    /// transferred only once.
    pub words_again: u64,
}

/// The parts of an operation, with the results of all tasks.
#[derive(Clone, Copy)]
struct OperationTaskUses<'p> {
    position: u32,
    parts: &'p [TaskUse],
    answers: &'p [ModuleTaskResult<'p>],
    sent: &'p [SentTask],
}

impl<'p> OperationTaskUses<'p> {
    /// Returns each part with its result, in order.
    fn iter(self) -> impl Iterator<Item = (&'p TaskUse, &'p ModuleTaskResult<'p>)> {
        let answers = self.answers;
        let parts = self.parts.iter();
        parts.map(move |part| (part, &answers[part.tag as usize]))
    }

    /// Returns the module that executed a part's task.
    fn module(self, part: &TaskUse) -> usize {
        self.sent[part.tag as usize].module as usize
    }

    /// Returns the number of words that the operation takes from tasks of others.
    fn words_again(self, operation: &IndexOperation<Words>, input: BatchInput<'_, Words>) -> u64 {
        let (position, sent) = (self.position, self.sent);
        // The host copies these words once for each operation, although they were transferred once.
        let others = self
            .iter()
            .filter(|(part, _)| sent[part.tag as usize].position != position);
        let words = others.map(|(_, answer)| match answer {
            ModuleTaskResult::Value(_) => 1,
            ModuleTaskResult::Entries(words) => {
                clip(words, range_of(operation, input)).len() as u64
            }
            ModuleTaskResult::Nothing | ModuleTaskResult::Full | ModuleTaskResult::Expected => 0,
        });
        words.sum()
    }
}

/// Returns the task of an update, or of several updates with these values.
fn update(key: u64, previous: Option<u64>, value: u64, values: &[u64]) -> ModuleTask<'_> {
    match values.is_empty() {
        true => ModuleTask::Update {
            key,
            previous,
            value: Some(value),
        },
        false => ModuleTask::Updates { key, values },
    }
}

/// Returns the value that an update expects, followed by the values that all updates of its task
/// set. Returns nothing if the update has its own task.
fn values_of(input: BatchInput<'_, Words>, requests: &BatchRouting, number: usize) -> Vec<u64> {
    let mut values = Vec::new();
    // Only the first update of a chain has a task. A later one returned before it came here.
    let mut at = Some(number).filter(|&number| requests.next(number).is_some());
    while let Some(number) = at {
        if let Some(IndexOperation::Update {
            value, previous, ..
        }) = input.operations().get(number)
        {
            if values.is_empty() {
                values.extend(input.previous(*previous));
            }
            values.push(*value);
        }
        at = requests.next(number);
    }
    values
}

/// Returns the value that a conditional operation expects.
fn expected(operation: &IndexOperation<Words>, input: BatchInput<'_, Words>) -> Option<u64> {
    match *operation {
        IndexOperation::Update { previous, .. } | IndexOperation::RemoveIf { previous, .. } => {
            input.previous(previous)
        }
        _ => None,
    }
}

/// Returns the task of a remove, with or without a condition.
fn removal(
    input: BatchInput<'_, Words>,
    operation: &IndexOperation<Words>,
    key: u64,
) -> ModuleTask<'static> {
    match *operation {
        IndexOperation::RemoveIf { previous, .. } => ModuleTask::Update {
            key,
            // A conditional removal is an update to absent, so modules need no task of its own for
            // it.
            previous: input.previous(previous),
            value: None,
        },
        _ => ModuleTask::Remove { key },
    }
}

/// Records the key that a predecessor found, so that the next such search needs no other partition.
fn learn(parts: OperationTaskUses<'_>, changes: &mut PartitionChanges<'_>) {
    let found = parts.iter().find_map(|(part, answer)| match answer {
        ModuleTaskResult::Entries([key, ..]) => Some((part.place, *key)),
        _ => None,
    });
    if let Some((place, key)) = found {
        changes.of(place).has(key);
    }
}

/// Writes the outcome of an operation.
fn write(
    position: usize,
    operation: &IndexOperation<Words>,
    input: BatchInput<'_, Words>,
    output: &mut BatchOutput<'_, Words>,
    parts: OperationTaskUses<'_>,
    changes: &mut PartitionChanges<'_>,
) {
    let first = parts.iter().next();
    let value = match first {
        Some((_, ModuleTaskResult::Value(value))) => Some(*value),
        Some((_, ModuleTaskResult::Expected)) => expected(operation, input),
        _ => None,
    };
    // If one partition of a range had no room, the entries of the others would be an incomplete
    // result.
    if parts
        .iter()
        .any(|(_, answer)| *answer == ModuleTaskResult::Full)
    {
        let what = match operation.point_key() {
            Some(key) => format!("key {key:#x}: its module has no room"),
            None => "a module has no room for a partition in the range".to_owned(),
        };
        return output.fail(position, OperationError::OutOfMemory { what });
    }
    // The change of a partition is created by its first write.
    let change = match first {
        Some((part, _)) if operation.is_write() => Some(changes.of(part.place)),
        _ => None,
    };
    match *operation {
        IndexOperation::Get { key } => output.value(position, key, value),
        IndexOperation::Insert { key, .. } => {
            if let Some(change) = change {
                change.came += u64::from(value.is_none());
                change.has(key);
            }
            output.value(position, key, value);
        }
        IndexOperation::Update { key, previous, .. } => {
            let applied = value == input.previous(previous);
            if let (true, Some(change)) = (applied, change) {
                change.came += u64::from(value.is_none());
                change.has(key);
            }
            output.updated(position, key, applied, value);
        }
        IndexOperation::Remove { key } => {
            if let Some(change) = change {
                change.went += u64::from(value.is_some());
                change.has_not(key);
            }
            output.value(position, key, value);
        }
        IndexOperation::RemoveIf { key, previous } => {
            let applied = value.is_some() && value == input.previous(previous);
            if let (true, Some(change)) = (applied, change) {
                change.went += 1;
                change.has_not(key);
            }
            output.updated(position, key, applied, value);
        }
        IndexOperation::Predecessor { .. } | IndexOperation::Successor { .. } => {
            let mut entries = entries(parts, (0, u64::MAX));
            output.entry(position, entries.next());
        }
        IndexOperation::Scan { limit, .. } => {
            let entries = entries(parts, range_of(operation, input));
            output.entries(position, entries.take(limit as usize));
        }
        IndexOperation::Refused => {}
    }
}

/// Returns the entries within a range, from the parts of an operation in order.
fn entries<'p>(
    parts: OperationTaskUses<'p>,
    range: (u64, u64),
) -> impl Iterator<Item = (u64, u64)> + 'p {
    parts.iter().flat_map(move |(_, answer)| {
        let words: &[u64] = match answer {
            ModuleTaskResult::Entries(words) => clip(words, range),
            _ => &[],
        };
        words.chunks_exact(2).map(|entry| (entry[0], entry[1]))
    })
}

/// Cuts read entries to those within a range. The others were read for other operations. Only
/// ascending scans share reads.
fn clip(words: &[u64], (from, to): (u64, u64)) -> &[u64] {
    let (entries, _) = words.as_chunks::<2>();
    let is_within =
        |entry: Option<&[u64; 2]>| entry.is_none_or(|[key, _]| (from..=to).contains(key));
    // The usual read belongs to one scan alone and is returned without a search. Descending reads
    // are never shared, so a search by order never sees one.
    if is_within(entries.first()) && is_within(entries.last()) {
        return words;
    }
    let below = entries.partition_point(|&[key, _]| key < from);
    let up_to = entries.partition_point(|&[key, _]| key <= to);
    &words[2 * below..2 * up_to]
}

/// Returns the least and the greatest key that a scan reads; for other operations the whole range
/// of keys.
fn range_of(operation: &IndexOperation<Words>, input: BatchInput<'_, Words>) -> (u64, u64) {
    match *operation {
        IndexOperation::Scan { range, .. } => {
            inclusive(input.range(range)).unwrap_or((0, u64::MAX))
        }
        _ => (0, u64::MAX),
    }
}

/// Returns the error of an operation whose module failed.
pub fn unknown(error: &ModuleError) -> OperationError {
    OperationError::Unknown {
        what: error.to_string(),
    }
}

/// Returns the error of a batch whose round was not begun.
pub fn refused(error: &RoundError) -> OperationError {
    OperationError::OutOfMemory {
        what: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::wire::ModuleReply;
    use nearfield_core::{Batch, OperationOutcome};
    use std::ops::Bound::{Included, Unbounded};

    /// Returns a partition of all keys in module 0, of which module 1 has a copy.
    fn directory() -> PartitionDirectory {
        let mut directory = PartitionDirectory::default();
        let partition = WordPartition {
            last: u64::MAX,
            module: 0,
            count: 100,
            list: 0,
            used: 0,
            least: None,
            lowest: 0,
        };
        directory.insert(0, partition);
        directory
    }

    /// Operations read copies in turn. An operation that uses the result of another also gets its
    /// error.
    #[test]
    fn who_takes_an_answer_needs_the_module_that_gives_it() {
        let mut directory = directory();
        let mut batch = Batch::<Words>::new();
        for _ in 0..2 {
            batch.get(7);
            batch.scan(Included(3), Included(8), 5, ScanDirection::Ascending);
        }
        batch.scan(Included(2), Unbounded, 5, ScanDirection::Descending);
        let plan = {
            let input = batch.input().unwrap();
            let requests = BatchRouting::new(input, true, &directory);
            let copy = |_: &PartitionDirectory, _, position: u64| Replica {
                module: position as usize / 2,
                list: 0,
            };
            let inputs = vec![Vec::new(); 3];
            ModuleTaskPlan::new(input, inputs, &requests, &mut directory, |_, _| None, copy)
        };
        assert_eq!(plan.tasks_by_module(3), [2, 0, 1]);
        let lost = ModuleError::Panic {
            module: 0,
            message: "it is a test".into(),
        };
        let replied = [
            Err(lost),
            Ok(ModuleReply::tagged(Vec::new())),
            Ok(ModuleReply::tagged(Vec::new())),
        ];
        let (input, mut output) = batch.begin().unwrap();
        plan.finish(input, &mut output, &replied, &mut directory, |_, _| {});
        let failed =
            (0..5).map(|position| matches!(batch.outcome(position), OperationOutcome::Failed(_)));
        assert_eq!(failed.collect::<Vec<_>>(), [true, true, true, true, false]);
    }

    #[test]
    fn what_was_read_for_others_is_cut_off() {
        let words = [10, 1, 20, 2, 30, 3];
        for (range, expected) in [
            ((0, 99), &words[..]),
            ((10, 30), &words),
            ((11, 30), &words[2..]),
            ((0, 29), &words[..4]),
            ((20, 20), &words[2..4]),
            ((21, 29), &[]),
            ((31, 99), &[]),
            ((0, 9), &[]),
        ] {
            assert_eq!(clip(&words, range), expected, "{range:?}");
        }
        // None of these entries were read for other operations.
        assert_eq!(clip(&[30, 3, 10, 1], (10, 30)), [30, 3, 10, 1]);
        assert_eq!(clip(&[], (0, 9)), []);
    }
}
