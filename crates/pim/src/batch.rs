//! Executing a batch: which tasks its operations come to, and what their answers come to.

use crate::device::{Answered, ModuleError, RoundError};
use crate::partition::{Directory, Partition};
use crate::task::{Answer, Task};
use nearfield_core::{Direction, Error, Input, Operation, Output, Words};
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;

/// The tasks of a batch, by module, in the order of its operations. A module does them in this order, so that
/// whatever it answers is as of the operation's turn: all modules together do what one would that executes
/// one operation after the other.
#[derive(Debug)]
pub(crate) struct Plan {
    /// For each module its tasks.
    pub inputs: Vec<Vec<u64>>,
    /// In the order of the operations.
    parts: Vec<Part>,
    /// So many tasks have tags, from 0 on.
    tags: u32,
    /// Of keys that are read once for all who read them, the tag of the last read, if nothing was written since.
    reads: Option<HashMap<u64, u32>>,
}

/// A task, and whose it is.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// The operation.
    position: u32,
    /// Where the partition begins that it is about, and the module that has it.
    start: u64,
    module: u32,
    /// The task whose answer it is.
    tag: u32,
}

/// The tag of tasks of which nobody wants to know the answer. Those of operations are less than [`OTHERS`],
/// those of what else has an answer are not.
pub(crate) const NOBODY: u32 = u32::MAX;
pub(crate) const OTHERS: u32 = 1 << 31;

/// What partitions have gained and lost, by where they begin.
struct Changes<'d> {
    directory: &'d Directory,
    changes: HashMap<u64, Change>,
}

impl Changes<'_> {
    /// Of the partition that begins at `start`.
    fn of(&mut self, start: u64) -> &mut Change {
        let directory = self.directory;
        self.changes.entry(start).or_insert_with(|| {
            let partition = directory.of(start);
            Change {
                came: 0,
                went: 0,
                is_lost: false,
                least: partition.and_then(|(_, partition)| partition.least),
            }
        })
    }
}

/// What a partition has gained and lost.
#[derive(Clone, Copy, Debug)]
struct Change {
    came: u64,
    went: u64,
    /// Whether nobody knows.
    is_lost: bool,
    /// The least key that it is known to have by now.
    least: Option<u64>,
}

impl Change {
    /// A key is there.
    fn has(&mut self, key: u64) {
        self.least = Some(self.least.map_or(key, |least| least.min(key)));
    }

    /// A key is not there any more.
    fn has_not(&mut self, key: u64) {
        self.least = self.least.filter(|&least| least != key);
    }
}

impl Plan {
    /// Says what modules are to do for the operations of a batch, behind what is in `inputs`, of which all tags
    /// are no operation's. If `combines`, a key is read once for all operations that read it and have no write of it
    /// between them. `home` answers where the partition begins
    /// to which a key belongs, and for a key that may be inserted makes one if there is none. `read` answers by which
    /// copy of a partition the operation of a number reads it.
    pub fn new(
        input: Input<'_, Words>,
        inputs: Vec<Vec<u64>>,
        combines: bool,
        directory: &mut Directory,
        mut home: impl FnMut(&mut Directory, u64) -> Option<(u64, Partition)>,
        mut read: impl FnMut(u64, Partition, u64) -> Partition,
    ) -> Plan {
        let mut plan = Plan {
            inputs,
            parts: Vec::new(),
            tags: 0,
            reads: combines.then(HashMap::new),
        };
        for (position, operation) in input.operations().iter().enumerate() {
            let position = position as u32;
            if let (Some(reads), Some(key), true) =
                (&mut plan.reads, operation.point_key(), operation.is_write())
            {
                reads.remove(&key);
            }
            match *operation {
                Operation::Get { key } => {
                    let at = directory.of(key);
                    let at = at.map(|(start, first)| (start, read(start, first, position.into())));
                    let former = plan.reads.as_ref().and_then(|reads| reads.get(&key));
                    match (former, at) {
                        (Some(&tag), Some((start, partition))) => plan.parts.push(Part {
                            position,
                            start,
                            module: partition.module as u32,
                            tag,
                        }),
                        _ => {
                            if let (Some(reads), Some(_)) = (&mut plan.reads, at) {
                                reads.insert(key, plan.tags);
                            }
                            plan.add(position, at, Task::Get { key });
                        }
                    }
                }
                Operation::Insert { key, value } => {
                    let at = home(directory, key);
                    plan.add(position, at, Task::Insert { key, value });
                    at.iter().for_each(|(start, _)| directory.may_come(*start));
                }
                Operation::Update {
                    key,
                    value,
                    previous,
                } => {
                    let previous = input.previous(previous);
                    let at = match previous {
                        None => home(directory, key),
                        Some(_) => directory.of(key),
                    };
                    let task = Task::Update {
                        key,
                        previous,
                        value,
                    };
                    plan.add(position, at, task);
                    if let (None, Some((start, _))) = (previous, at) {
                        directory.may_come(start);
                    }
                }
                Operation::Remove { key } => {
                    let at = directory.of(key);
                    plan.add(position, at, Task::Remove { key });
                    at.iter()
                        .for_each(|(start, _)| directory.may_go(*start, key));
                }
                Operation::Predecessor { key } => {
                    directory.candidates(0, key, 1, true, |start, partition| {
                        let task = Task::Floor { start, key };
                        let copy = read(start, partition, position.into());
                        plan.add(position, Some((start, copy)), task);
                    });
                }
                Operation::Successor { key } => {
                    let range = (key, u64::MAX);
                    plan.scan(position, directory, range, 1, false, &mut read);
                }
                Operation::Scan {
                    range,
                    limit,
                    direction,
                } => {
                    let descends = direction == Direction::Descending;
                    if let Some(range) = inclusive(input.range(range)) {
                        plan.scan(
                            position,
                            directory,
                            range,
                            limit.into(),
                            descends,
                            &mut read,
                        );
                    }
                }
                Operation::Refused => {}
            }
        }
        plan
    }

    fn scan(
        &mut self,
        position: u32,
        directory: &Directory,
        (from, to): (u64, u64),
        limit: u64,
        descends: bool,
        read: &mut impl FnMut(u64, Partition, u64) -> Partition,
    ) {
        directory.candidates(from, to, limit, descends, |start, partition| {
            let task = Task::Scan {
                start,
                from,
                to,
                limit,
                descends,
            };
            let copy = read(start, partition, position.into());
            self.add(position, Some((start, copy)), task);
        });
    }

    /// How many tasks each of so many modules has.
    pub fn tasks_by_module(&self, modules: usize) -> Vec<u64> {
        let mut tasks = vec![0; modules];
        let mut next = 0;
        for part in &self.parts {
            // A read that others share is one.
            if part.tag == next {
                next += 1;
                if let Some(tasks) = tasks.get_mut(part.module as usize) {
                    *tasks += 1;
                }
            }
        }
        tasks
    }

    fn add(&mut self, position: u32, at: Option<(u64, Partition)>, task: Task<'_>) {
        if let Some((start, partition)) = at
            && let Some(words) = self.inputs.get_mut(partition.module)
        {
            let tag = self.tags;
            self.tags += 1;
            self.parts.push(Part {
                position,
                start,
                module: partition.module as u32,
                tag,
            });
            task.encode(partition.list, tag, words);
        }
    }

    /// For each task where the partition begins that it is about.
    pub fn tasks(&self) -> impl Iterator<Item = u64> {
        let mut tags = 0;
        let parts = self.parts.iter().filter(move |part| {
            // Who shares the answer of a former task has its tag.
            let is_new = part.tag == tags;
            tags += u32::from(is_new);
            is_new
        });
        parts.map(|part| part.start)
    }

    /// Has the directory forget what was planned.
    pub fn give_up(&self, directory: &mut Directory) {
        for part in &self.parts {
            directory.settle(part.start, 0, 0);
        }
    }

    /// Writes the outcomes that the answers of all modules come to, and has the directory know what partitions
    /// have gained and lost. What is not an operation's, by its tag, goes to `other`. Answers the modules that had no
    /// room.
    pub fn finish(
        &self,
        input: Input<'_, Words>,
        output: &mut Output<'_, Words>,
        answered: &[Answered],
        directory: &mut Directory,
        mut other: impl FnMut(u32, &Answer<'_>),
    ) -> BTreeSet<usize> {
        let mut full = BTreeSet::new();
        let mut answers = vec![Answer::Nothing; self.tags as usize];
        for words in answered.iter().flatten() {
            let mut words = &words[..];
            while let Some((answer, tag)) = Answer::decode(&mut words) {
                match answers.get_mut(tag as usize) {
                    Some(place) => *place = answer,
                    None => other(tag, &answer),
                }
            }
        }
        let mut changes = Changes {
            directory,
            changes: HashMap::new(),
        };
        let parts = self.parts.iter();
        let mut parts = parts
            .map(|part| (part, &answers[part.tag as usize]))
            .peekable();
        for (position, operation) in input.operations().iter().enumerate() {
            let mut own = Vec::new();
            while let Some(part) = parts.next_if(|(part, _)| part.position as usize == position) {
                own.push(part);
            }
            let is_write = operation.is_write();
            let errors = own.iter().filter_map(|(part, _)| {
                let error = answered.get(part.module as usize)?.as_ref().err();
                if is_write {
                    // If it has come to nothing, nobody knows how many keys there are now.
                    changes.of(part.start).is_lost |= error.is_some();
                }
                error
            });
            let error = errors.last();
            let refused = own.iter().filter(|(_, answer)| **answer == Answer::Full);
            full.extend(refused.map(|(part, _)| part.module as usize));
            match error {
                Some(error) => output.fail(position, unknown(error)),
                None => {
                    if let (true, Operation::Predecessor { .. }) = (own.len() > 1, operation) {
                        learn(&own, &mut changes);
                    }
                    write(position, operation, input, output, &own, &mut changes);
                }
            }
        }
        for (start, change) in changes.changes {
            if change.is_lost {
                directory.lose_count(start);
            } else {
                directory.set_least(start, change.least);
                directory.settle(start, change.came, change.went);
            }
        }
        full
    }
}

/// Notes where the greatest key at or below another was found: next time that need not be looked for elsewhere.
fn learn(parts: &[(&Part, &Answer<'_>)], changes: &mut Changes<'_>) {
    let found = parts.iter().find_map(|(part, answer)| match answer {
        Answer::Entries([key, ..]) => Some((part.start, *key)),
        _ => None,
    });
    if let Some((start, key)) = found {
        changes.of(start).has(key);
    }
}

/// Writes the outcome of an operation.
fn write(
    position: usize,
    operation: &Operation<Words>,
    input: Input<'_, Words>,
    output: &mut Output<'_, Words>,
    parts: &[(&Part, &Answer<'_>)],
    changes: &mut Changes<'_>,
) {
    let (start, answer) = match parts.first() {
        Some((part, answer)) => (part.start, *answer),
        None => (0, &Answer::Nothing),
    };
    let value = match answer {
        Answer::Value(value) => Some(*value),
        _ => None,
    };
    if parts.iter().any(|(_, answer)| **answer == Answer::Full) {
        let what = match operation.point_key() {
            Some(key) => format!("key {key:#x}: its module has no room"),
            None => "a module has no room for a partition in the range".to_owned(),
        };
        return output.fail(position, Error::OutOfMemory { what });
    }
    match *operation {
        Operation::Get { key } => output.value(position, key, value),
        Operation::Insert { key, .. } => {
            let change = changes.of(start);
            change.came += u64::from(value.is_none());
            change.has(key);
            output.value(position, key, value);
        }
        Operation::Update { key, previous, .. } => {
            let applied = value == input.previous(previous);
            if applied {
                let change = changes.of(start);
                change.came += u64::from(value.is_none());
                change.has(key);
            }
            output.updated(position, key, applied, value);
        }
        Operation::Remove { key } => {
            let change = changes.of(start);
            change.went += u64::from(value.is_some());
            change.has_not(key);
            output.value(position, key, value);
        }
        Operation::Predecessor { .. } | Operation::Successor { .. } => {
            let mut entries = entries(parts);
            output.entry(position, entries.next());
        }
        Operation::Scan { limit, .. } => {
            output.entries(position, entries(parts).take(limit as usize));
        }
        Operation::Refused => {}
    }
}

/// The entries of the parts of an operation, in the order of these.
fn entries<'p>(parts: &'p [(&Part, &Answer<'_>)]) -> impl Iterator<Item = (u64, u64)> + 'p {
    parts.iter().flat_map(|(_, answer)| {
        let words = match answer {
            Answer::Entries(words) => *words,
            _ => &[],
        };
        words.chunks_exact(2).map(|entry| (entry[0], entry[1]))
    })
}

/// The least and the greatest key of a range; `None` if it has none.
pub(crate) fn inclusive((low, high): (Bound<u64>, Bound<u64>)) -> Option<(u64, u64)> {
    let from = match low {
        Bound::Included(key) => key,
        Bound::Excluded(key) => key.checked_add(1)?,
        Bound::Unbounded => 0,
    };
    let to = match high {
        Bound::Included(key) => key,
        Bound::Excluded(key) => key.checked_sub(1)?,
        Bound::Unbounded => u64::MAX,
    };
    (from <= to).then_some((from, to))
}

/// Why an operation was not answered.
pub(crate) fn unknown(error: &ModuleError) -> Error {
    Error::Unknown {
        what: error.to_string(),
    }
}

/// Why a batch was not begun.
pub(crate) fn refused(error: &RoundError) -> Error {
    Error::OutOfMemory {
        what: error.to_string(),
    }
}
