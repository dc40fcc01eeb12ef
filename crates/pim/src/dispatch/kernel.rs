//! The execution of tasks in a module.

use crate::device::{Fault, Meter, Module};
use crate::dispatch::task::{Answer, Task};
use crate::dispatch::wire::Wire;
use crate::structures::list::List;

/// Number of instructions for reading a task and writing its result. *Assumed*.
pub(crate) const INSTRUCTIONS_PER_TASK: u64 = 60;

/// The lists of a module.
pub(crate) trait Lists {
    /// The structure that holds the keys.
    type List: List;

    /// Returns the list of the partition to which a key belongs, or that begins at it; `None` if
    /// the module does not have it.
    fn find<M: Meter>(
        &mut self,
        module: &mut Module<'_, M>,
        key: u64,
    ) -> Result<Option<Self::List>, Fault>;

    /// Builds a partition whose keys differ only in their lowest `bits` bits, and returns its list.
    fn build<M: Meter>(
        &mut self,
        module: &mut Module<'_, M>,
        start: u64,
        bits: u32,
        entries: &[u64],
    ) -> Result<Self::List, Fault>;

    /// Removes a partition.
    fn free<M: Meter>(&mut self, module: &mut Module<'_, M>, start: u64);

    /// Sets the number of levels by which a partition is found, if it exists. It has no effect
    /// where partitions are not in a list.
    ///
    /// # Errors
    /// `Full` if there is no room for more levels. The partition is then found as before.
    fn set_height<M: Meter>(
        &mut self,
        _: &mut Module<'_, M>,
        _start: u64,
        _height: usize,
    ) -> Result<(), Fault> {
        Ok(())
    }
}

/// Number of tasks that are read before the first of them is executed.
const AHEAD: usize = 16;

/// A task that was read.
struct Read<'w> {
    task: Task<'w>,
    list: u32,
    tag: u32,
}

/// Executes the tasks of `input` in their order, and writes their results.
///
/// # Errors
/// An invalid task.
pub(crate) fn run<M: Meter, L: Lists>(
    module: &mut Module<'_, M>,
    mut input: &[u64],
    output: &mut Vec<u64>,
    lists: &mut L,
    mut wire: impl Wire,
) -> Result<(), Fault> {
    let words = input.len();
    let mut ahead: Vec<Read<'_>> = Vec::with_capacity(AHEAD);
    let mut wanted = Vec::with_capacity(AHEAD);
    let mut number = 0;
    while !input.is_empty() {
        let mut fault = None;
        while ahead.len() < AHEAD
            && let Some(&value) = input.first()
        {
            let word = words - input.len();
            let Some((task, list, tag)) = wire.next(&mut input) else {
                fault = Some(Fault::Input { word, value });
                break;
            };
            ahead.push(Read { task, list, tag });
        }
        if M::HAS_CACHES {
            wanted.extend(ahead.iter().filter_map(Read::looks_for));
            L::List::fetch(module, &mut wanted);
        }
        for read in ahead.drain(..) {
            module.begin(number);
            number += 1;
            one(module, &read, lists, |answer| {
                wire.answer(&read.task, &answer, read.tag, output);
            })?;
        }
        if let Some(fault) = fault {
            return Err(fault);
        }
    }
    wire.end(output);
    Ok(())
}

impl Read<'_> {
    /// Returns the list and the key to search, if the task has the list.
    fn looks_for(&self) -> Option<(u32, u64)> {
        let key = match self.task {
            Task::Get { key }
            | Task::Insert { key, .. }
            | Task::Update { key, .. }
            | Task::Updates { key, .. }
            | Task::Remove { key }
            | Task::Floor { key, .. }
            | Task::Scan { from: key, .. } => key,
            Task::Build { .. } | Task::Free { .. } | Task::Height { .. } => return None,
        };
        (self.list != 0).then_some((self.list, key))
    }
}

/// Executes a task.
fn one<M: Meter, L: Lists>(
    module: &mut Module<'_, M>,
    read: &Read<'_>,
    lists: &mut L,
    say: impl FnOnce(Answer<'_>),
) -> Result<(), Fault> {
    module.instructions(INSTRUCTIONS_PER_TASK);
    let key = match read.task {
        Task::Get { key }
        | Task::Insert { key, .. }
        | Task::Update { key, .. }
        | Task::Updates { key, .. }
        | Task::Remove { key } => key,
        Task::Floor { start, .. } | Task::Scan { start, .. } => start,
        Task::Build {
            start,
            bits,
            entries,
        } => {
            let built = lists.build(module, start, bits, entries);
            say(built.map_or(Answer::Full, |list| Answer::Value(list.head().into())));
            return Ok(());
        }
        Task::Free { start } => {
            lists.free(module, start);
            say(Answer::Nothing);
            return Ok(());
        }
        Task::Height { start, height } => {
            let set = lists.set_height(module, start, height as usize);
            say(set.map_or(Answer::Full, |()| Answer::Nothing));
            return Ok(());
        }
    };
    let list = match read.list {
        0 => lists.find(module, key)?,
        head => Some(L::List::at(head)),
    };
    match list {
        Some(list) => work(module, list, &read.task, say),
        // There is no list only if the partition had no room.
        None => say(Answer::Full),
    }
    Ok(())
}

fn work<M: Meter>(
    module: &mut Module<'_, M>,
    list: impl List,
    task: &Task<'_>,
    say: impl FnOnce(Answer<'_>),
) {
    let value = |value: Option<u64>| value.map_or(Answer::Nothing, Answer::Value);
    let stored = |stored: Result<Option<u64>, Fault>| stored.map_or(Answer::Full, value);
    let answer = match *task {
        Task::Get { key } => value(list.get(module, key)),
        Task::Insert { key, value } => stored(list.insert(module, key, value)),
        Task::Update {
            key,
            previous,
            value,
        } => stored(list.update(module, key, previous, value)),
        Task::Updates { key, values } => stored(updates(module, list, key, values)),
        Task::Remove { key } => value(list.remove(module, key)),
        Task::Floor { key, .. } => match list.floor(module, key) {
            Some((key, value)) => return say(Answer::Entries(&[key, value])),
            None => Answer::Nothing,
        },
        Task::Scan {
            from,
            to,
            limit,
            descends,
            ..
        } => {
            let entries = if descends {
                descend(module, list, from, to, limit)
            } else {
                ascend(module, list, from, to, limit)
            };
            return say(Answer::Entries(&entries));
        }
        Task::Build { .. } | Task::Free { .. } | Task::Height { .. } => Answer::Nothing,
    };
    say(answer);
}

/// Executes several updates of a key. If the first applies, so do the others, so the last value is
/// set at once.
fn updates<M: Meter>(
    module: &mut Module<'_, M>,
    list: impl List,
    key: u64,
    values: &[u64],
) -> Result<Option<u64>, Fault> {
    let (first, last) = (values.first().copied(), values.last().copied());
    let before = list.update(module, key, first, last)?;
    if before != first {
        let after = Task::updated(before, values);
        if after != before {
            list.update(module, key, before, after)?;
        }
    }
    Ok(before)
}

/// Returns keys and values from `from` up to `to`.
fn ascend<M: Meter>(
    module: &mut Module<'_, M>,
    list: impl List,
    from: u64,
    to: u64,
    limit: u64,
) -> Vec<u64> {
    let mut entries = Vec::new();
    if limit > 0 {
        list.walk(module, from, |key, value| {
            if key > to {
                return false;
            }
            entries.extend([key, value]);
            (entries.len() as u64) < limit.saturating_mul(2)
        });
    }
    entries
}

/// Returns keys and values from `to` down to `from`. Each of them is searched, because lists are
/// linked in one direction only.
fn descend<M: Meter>(
    module: &mut Module<'_, M>,
    list: impl List,
    from: u64,
    to: u64,
    limit: u64,
) -> Vec<u64> {
    let mut entries = Vec::new();
    let mut below = Some(to);
    while let Some(bound) = below
        && (entries.len() as u64) < limit.saturating_mul(2)
        && let Some((key, value)) = list.floor(module, bound)
        && key >= from
    {
        entries.extend([key, value]);
        below = key.checked_sub(1);
    }
    entries
}
