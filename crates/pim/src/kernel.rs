//! Doing tasks in a module.

use crate::device::{Fault, Meter, Module};
use crate::list::List;
use crate::task::{Answer, Task};
use crate::wire::Wire;

/// What a program does for each task: taking it, and giving the answer.
pub(crate) const INSTRUCTIONS_PER_TASK: u64 = 60;

/// The lists of a module.
pub(crate) trait Lists {
    /// What keys are kept in.
    type List: List;

    /// The list of the partition to which a key belongs, or that begins at it; `None` if the module has it not.
    fn find<M: Meter>(
        &mut self,
        module: &mut Module<'_, M>,
        key: u64,
    ) -> Result<Option<Self::List>, Fault>;

    /// Makes a partition whose keys differ in so many bits, and answers its list.
    fn build<M: Meter>(
        &mut self,
        module: &mut Module<'_, M>,
        start: u64,
        bits: u32,
        entries: &[u64],
    ) -> Result<Self::List, Fault>;

    /// Forgets a partition.
    fn free<M: Meter>(&mut self, module: &mut Module<'_, M>, start: u64);

    /// Has a partition be found by so many levels, if it is there; nothing where partitions are not in a list.
    ///
    /// # Errors
    /// There is no room for more levels; then it is found as before.
    fn set_height<M: Meter>(
        &mut self,
        _: &mut Module<'_, M>,
        _start: u64,
        _height: usize,
    ) -> Result<(), Fault> {
        Ok(())
    }
}

/// Does the tasks of `input` in their order, and puts their answers out.
///
/// # Errors
/// What is no task.
pub(crate) fn run<M: Meter>(
    module: &mut Module<'_, M>,
    mut input: &[u64],
    output: &mut Vec<u64>,
    lists: &mut impl Lists,
    mut wire: impl Wire,
) -> Result<(), Fault> {
    let words = input.len();
    for number in 0.. {
        let Some(&value) = input.first() else {
            break;
        };
        let word = words - input.len();
        let Some((task, list, tag)) = wire.next(&mut input) else {
            return Err(Fault::Input { word, value });
        };
        module.begin(number);
        module.instructions(INSTRUCTIONS_PER_TASK);
        let key = match task {
            Task::Get { key }
            | Task::Insert { key, .. }
            | Task::Update { key, .. }
            | Task::Remove { key } => key,
            Task::Floor { start, .. } | Task::Scan { start, .. } => start,
            Task::Build {
                start,
                bits,
                entries,
            } => {
                let built = lists.build(module, start, bits, entries);
                let answer = built.map_or(Answer::Full, |list| Answer::Value(list.head().into()));
                wire.answer(&answer, tag, output);
                continue;
            }
            Task::Free { start } => {
                lists.free(module, start);
                wire.answer(&Answer::Nothing, tag, output);
                continue;
            }
            Task::Height { start, height } => {
                let set = lists.set_height(module, start, height as usize);
                let answer = set.map_or(Answer::Full, |()| Answer::Nothing);
                wire.answer(&answer, tag, output);
                continue;
            }
        };
        let list = match list {
            0 => lists.find(module, key)?,
            head => Some(List::at(head)),
        };
        match list {
            Some(list) => work(module, list, &task, |answer| {
                wire.answer(&answer, tag, output);
            }),
            // There was no room for the partition.
            None => wire.answer(&Answer::Full, tag, output),
        }
    }
    wire.end(output);
    Ok(())
}

fn work<M: Meter>(
    module: &mut Module<'_, M>,
    list: impl List,
    task: &Task<'_>,
    mut say: impl FnMut(Answer<'_>),
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

/// Keys and values from `from` up to `to`.
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

/// Keys and values from `to` down to `from`, each of them searched, as lists have one direction.
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
