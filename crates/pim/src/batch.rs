//! Executing a batch: which tasks its operations come to, and what their answers come to.

use crate::device::{ModuleError, RoundError};
use crate::partition::{Directory, Partition, Place};
use crate::requests::Requests;
use crate::task::{Answer, Task};
use crate::wire::Replied;
use nearfield_core::{Direction, Error, Input, Operation, Output, Words};
use std::collections::BTreeSet;
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
}

/// A task, and whose it is.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// The operation.
    position: u32,
    /// The partition that it is about, and the module that has it.
    place: Place,
    module: u32,
    /// The task whose answer it is.
    tag: u32,
}

/// The tag of tasks of which nobody wants to know the answer. Those of operations are less than [`OTHERS`],
/// those of what else has an answer are not.
pub(crate) const NOBODY: u32 = u32::MAX;
pub(crate) const OTHERS: u32 = 1 << 31;

/// A copy of a partition: the module that has it, and where its list begins there; 0 if only the module knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    pub module: usize,
    pub list: u32,
}

impl Replica {
    /// The one that the directory names.
    pub fn first(partition: &Partition) -> Replica {
        Replica {
            module: partition.module,
            list: partition.list,
        }
    }
}

/// What partitions have gained and lost, by place.
struct Changes<'d> {
    directory: &'d Directory,
    changes: Vec<Option<Change>>,
    /// Those that have changed.
    changed: Vec<Place>,
}

impl<'d> Changes<'d> {
    fn new(directory: &'d Directory) -> Changes<'d> {
        Changes {
            directory,
            changes: vec![None; directory.places()],
            changed: Vec::new(),
        }
    }

    /// Of a partition.
    fn of(&mut self, place: Place) -> &mut Change {
        let change = &mut self.changes[place.number()];
        if change.is_none() {
            self.changed.push(place);
        }
        change.get_or_insert_with(|| Change {
            came: 0,
            went: 0,
            is_lost: false,
            least: self.directory.partition(place).least,
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
    /// are no operation's. `create` makes a partition for a key that may be inserted, where there is none. `read`
    /// answers by which copy the operation of a number reads the partition in a place.
    pub fn new(
        input: Input<'_, Words>,
        inputs: Vec<Vec<u64>>,
        requests: &Requests,
        directory: &mut Directory,
        mut create: impl FnMut(&mut Directory, u64) -> Option<Place>,
        mut read: impl FnMut(&Directory, Place, u64) -> Replica,
    ) -> Plan {
        let operations = input.operations();
        let mut plan = Plan {
            inputs,
            parts: Vec::with_capacity(operations.len()),
            tags: 0,
        };
        // By operation the tag of its task, of those that others take the answer of.
        let mut read_by: Vec<u32> = Vec::new();
        let mut home = |directory: &mut Directory, number, key| {
            let place = requests.place(number, key, directory);
            place.or_else(|| create(directory, key))
        };
        let first =
            |directory: &Directory, place| (place, Replica::first(directory.partition(place)));
        for (number, operation) in operations.iter().enumerate() {
            let position = number as u32;
            match *operation {
                Operation::Get { key } => {
                    let Some(place) = requests.place(number, key, directory) else {
                        continue;
                    };
                    let copy = read(directory, place, position.into());
                    let source = requests.source(number);
                    let tag = source.and_then(|source| read_by.get(source).copied());
                    match tag.filter(|&tag| tag != NOBODY) {
                        Some(tag) => plan.share(position, (place, copy), tag),
                        None => {
                            if requests.combines() {
                                read_by.resize(number, NOBODY);
                                read_by.push(plan.tags);
                            }
                            plan.add(position, (place, copy), Task::Get { key });
                        }
                    }
                }
                Operation::Insert { key, value } => {
                    if let Some(place) = home(directory, number, key) {
                        let task = Task::Insert { key, value };
                        plan.add(position, first(directory, place), task);
                        directory.may_come(place, key);
                    }
                }
                Operation::Update {
                    key,
                    value,
                    previous,
                } => {
                    let previous = input.previous(previous);
                    let place = match previous {
                        None => home(directory, number, key),
                        Some(_) => requests.place(number, key, directory),
                    };
                    let task = Task::Update {
                        key,
                        previous,
                        value,
                    };
                    if let Some(place) = place {
                        plan.add(position, first(directory, place), task);
                        if previous.is_none() {
                            directory.may_come(place, key);
                        }
                    }
                }
                Operation::Remove { key } => {
                    if let Some(place) = requests.place(number, key, directory) {
                        plan.add(position, first(directory, place), Task::Remove { key });
                        directory.may_go(place, key);
                    }
                }
                Operation::Predecessor { key } => {
                    let directory = &*directory;
                    directory.candidates(0, key, 1, true, |place| {
                        let start = directory.start(place);
                        let copy = read(directory, place, position.into());
                        plan.add(position, (place, copy), Task::Floor { start, key });
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
        read: &mut impl FnMut(&Directory, Place, u64) -> Replica,
    ) {
        directory.candidates(from, to, limit, descends, |place| {
            let task = Task::Scan {
                start: directory.start(place),
                from,
                to,
                limit,
                descends,
            };
            let copy = read(directory, place, position.into());
            self.add(position, (place, copy), task);
        });
    }

    /// An operation takes the answer of a former one.
    fn share(&mut self, position: u32, (place, copy): (Place, Replica), tag: u32) {
        self.parts.push(Part {
            position,
            place,
            module: copy.module as u32,
            tag,
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

    fn add(&mut self, position: u32, (place, copy): (Place, Replica), task: Task<'_>) {
        if let Some(words) = self.inputs.get_mut(copy.module) {
            let tag = self.tags;
            self.tags += 1;
            self.parts.push(Part {
                position,
                place,
                module: copy.module as u32,
                tag,
            });
            task.encode(copy.list, tag, words);
        }
    }

    /// For each task the partition that it is about.
    pub fn tasks(&self) -> impl Iterator<Item = Place> {
        let mut tags = 0;
        let parts = self.parts.iter().filter(move |part| {
            // Who shares the answer of a former task has its tag.
            let is_new = part.tag == tags;
            tags += u32::from(is_new);
            is_new
        });
        parts.map(|part| part.place)
    }

    /// Has the directory forget what was planned.
    pub fn give_up(&self, directory: &mut Directory) {
        for part in &self.parts {
            directory.settle(part.place, 0, 0);
        }
    }

    /// Writes the outcomes that the answers of all modules come to, and has the directory know what partitions
    /// have gained and lost. What is not an operation's, by its tag, goes to `other`. Answers the modules that had no
    /// room.
    pub fn finish(
        &self,
        input: Input<'_, Words>,
        output: &mut Output<'_, Words>,
        replied: &[Replied],
        directory: &mut Directory,
        mut other: impl FnMut(u32, &Answer<'_>),
    ) -> BTreeSet<usize> {
        let mut full = BTreeSet::new();
        let mut answers = vec![Answer::Nothing; self.tags as usize];
        for reply in replied.iter().flatten() {
            reply.each(|answer, tag| match answers.get_mut(tag as usize) {
                Some(place) => *place = answer,
                None => other(tag, &answer),
            });
        }
        let mut changes = Changes::new(directory);
        let mut parts = &self.parts[..];
        for (position, operation) in input.operations().iter().enumerate() {
            let is_own = |part: &&Part| part.position as usize == position;
            let (own, others) = parts.split_at(parts.iter().take_while(is_own).count());
            parts = others;
            let own = Parts {
                parts: own,
                answers: &answers,
            };
            let is_write = operation.is_write();
            let mut error = None;
            for part in own.parts {
                if let Some(Err(module)) = replied.get(part.module as usize) {
                    // If it has come to nothing, nobody knows how many keys there are now.
                    if is_write {
                        changes.of(part.place).is_lost = true;
                    }
                    error = Some(module);
                }
            }
            let refused = own.iter().filter(|(_, answer)| **answer == Answer::Full);
            full.extend(refused.map(|(part, _)| part.module as usize));
            match error {
                Some(error) => output.fail(position, unknown(error)),
                None => {
                    if let (true, Operation::Predecessor { .. }) = (own.parts.len() > 1, operation)
                    {
                        learn(own, &mut changes);
                    }
                    write(position, operation, input, output, own, &mut changes);
                }
            }
        }
        let Changes {
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
        full
    }
}

/// The parts of an operation, with the answers to all of them.
#[derive(Clone, Copy)]
struct Parts<'p> {
    parts: &'p [Part],
    answers: &'p [Answer<'p>],
}

impl<'p> Parts<'p> {
    /// Each with its answer, in their order.
    fn iter(self) -> impl Iterator<Item = (&'p Part, &'p Answer<'p>)> {
        let answers = self.answers;
        let parts = self.parts.iter();
        parts.map(move |part| (part, &answers[part.tag as usize]))
    }
}

/// Notes where the greatest key at or below another was found: next time that need not be looked for elsewhere.
fn learn(parts: Parts<'_>, changes: &mut Changes<'_>) {
    let found = parts.iter().find_map(|(part, answer)| match answer {
        Answer::Entries([key, ..]) => Some((part.place, *key)),
        _ => None,
    });
    if let Some((place, key)) = found {
        changes.of(place).has(key);
    }
}

/// Writes the outcome of an operation.
fn write(
    position: usize,
    operation: &Operation<Words>,
    input: Input<'_, Words>,
    output: &mut Output<'_, Words>,
    parts: Parts<'_>,
    changes: &mut Changes<'_>,
) {
    let first = parts.iter().next();
    let value = match first {
        Some((_, Answer::Value(value))) => Some(*value),
        _ => None,
    };
    if parts.iter().any(|(_, answer)| *answer == Answer::Full) {
        let what = match operation.point_key() {
            Some(key) => format!("key {key:#x}: its module has no room"),
            None => "a module has no room for a partition in the range".to_owned(),
        };
        return output.fail(position, Error::OutOfMemory { what });
    }
    // What was written has changed its partition.
    let change = match first {
        Some((part, _)) if operation.is_write() => Some(changes.of(part.place)),
        _ => None,
    };
    match *operation {
        Operation::Get { key } => output.value(position, key, value),
        Operation::Insert { key, .. } => {
            if let Some(change) = change {
                change.came += u64::from(value.is_none());
                change.has(key);
            }
            output.value(position, key, value);
        }
        Operation::Update { key, previous, .. } => {
            let applied = value == input.previous(previous);
            if let (true, Some(change)) = (applied, change) {
                change.came += u64::from(value.is_none());
                change.has(key);
            }
            output.updated(position, key, applied, value);
        }
        Operation::Remove { key } => {
            if let Some(change) = change {
                change.went += u64::from(value.is_some());
                change.has_not(key);
            }
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
fn entries<'p>(parts: Parts<'p>) -> impl Iterator<Item = (u64, u64)> + 'p {
    parts.iter().flat_map(|(_, answer)| {
        let words: &[u64] = match answer {
            Answer::Entries(words) => words,
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
