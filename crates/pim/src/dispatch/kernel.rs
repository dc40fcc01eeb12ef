//! The execution of tasks in a module.

use crate::device::{Module, ProgramFault, WorkMeter};
use crate::dispatch::task::{ModuleTask, ModuleTaskResult};
use crate::dispatch::wire::Wire;
use crate::structures::list::OrderedKeyList;

/// Number of instructions for reading a task and writing its result. *Assumed*.
pub const INSTRUCTIONS_PER_TASK: u64 = 60;

/// The lists of a module.
pub trait PartitionLists {
    /// The structure that holds the keys.
    type List: OrderedKeyList;

    /// Returns the list of the partition to which a key belongs, or that begins at it; `None` if
    /// the module does not have it.
    fn find<M: WorkMeter>(
        &mut self,
        module: &mut Module<'_, M>,
        key: u64,
    ) -> Result<Option<Self::List>, ProgramFault>;

    /// Builds a partition whose keys differ only in their lowest `bits` bits, and returns its list.
    fn build<M: WorkMeter>(
        &mut self,
        module: &mut Module<'_, M>,
        start: u64,
        bits: u32,
        entries: &[u64],
    ) -> Result<Self::List, ProgramFault>;

    /// Removes a partition.
    fn free<M: WorkMeter>(&mut self, module: &mut Module<'_, M>, start: u64);

    /// Sets the number of levels by which a partition is found, if it exists. It has no effect
    /// where partitions are not in a list.
    ///
    /// # Errors
    /// `BankFull` if there is no room for more levels. The partition is then found as before.
    fn set_height<M: WorkMeter>(
        &mut self,
        _: &mut Module<'_, M>,
        _start: u64,
        _height: usize,
    ) -> Result<(), ProgramFault> {
        Ok(())
    }
}

/// Number of tasks that are read before the first of them is executed.
const AHEAD: usize = 16;

/// A task that was read.
struct DecodedTask<'w> {
    task: ModuleTask<'w>,
    list: u32,
    tag: u32,
}

/// Executes the tasks of `input` in their order, and writes their results.
///
/// # Errors
/// An invalid task.
pub fn run<M: WorkMeter, L: PartitionLists>(
    module: &mut Module<'_, M>,
    mut input: &[u64],
    output: &mut Vec<u64>,
    lists: &mut L,
    mut wire: impl Wire,
) -> Result<(), ProgramFault> {
    let words = input.len();
    let mut ahead: Vec<DecodedTask<'_>> = Vec::with_capacity(AHEAD);
    let mut wanted = Vec::with_capacity(AHEAD);
    let mut number = 0;
    while !input.is_empty() {
        let mut fault = None;
        // Several tasks are decoded before the first is executed, so that their memory can be
        // fetched together.
        while ahead.len() < AHEAD
            && let Some(&value) = input.first()
        {
            let word = words - input.len();
            let Some((task, list, tag)) = wire.next(&mut input) else {
                // The valid tasks before the invalid one are executed first, as without decoding
                // ahead.
                fault = Some(ProgramFault::Input { word, value });
                break;
            };
            ahead.push(DecodedTask { task, list, tag });
        }
        if M::HAS_CACHES {
            // A search that runs before its turn may fetch blocks that an earlier task changes. It
            // only warms caches, so the results do not depend on it.
            wanted.extend(ahead.iter().filter_map(DecodedTask::looks_for));
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

impl DecodedTask<'_> {
    /// Returns the list and the key to search, if the task has the list.
    fn looks_for(&self) -> Option<(u32, u64)> {
        let key = match self.task {
            ModuleTask::Get { key }
            | ModuleTask::Insert { key, .. }
            | ModuleTask::Update { key, .. }
            | ModuleTask::Updates { key, .. }
            | ModuleTask::Remove { key }
            | ModuleTask::Floor { key, .. }
            | ModuleTask::Scan { from: key, .. } => key,
            ModuleTask::Build { .. } | ModuleTask::Free { .. } | ModuleTask::Height { .. } => {
                return None;
            }
        };
        // Without an address the list must be searched first, which is as long as the search that
        // fetching would speed up.
        (self.list != 0).then_some((self.list, key))
    }
}

/// Executes a task.
fn one<M: WorkMeter, L: PartitionLists>(
    module: &mut Module<'_, M>,
    read: &DecodedTask<'_>,
    lists: &mut L,
    say: impl FnOnce(ModuleTaskResult<'_>),
) -> Result<(), ProgramFault> {
    module.instructions(INSTRUCTIONS_PER_TASK);
    let key = match read.task {
        ModuleTask::Get { key }
        | ModuleTask::Insert { key, .. }
        | ModuleTask::Update { key, .. }
        | ModuleTask::Updates { key, .. }
        | ModuleTask::Remove { key } => key,
        ModuleTask::Floor { start, .. } | ModuleTask::Scan { start, .. } => start,
        ModuleTask::Build {
            start,
            bits,
            entries,
        } => {
            let built = lists.build(module, start, bits, entries);
            // The address of the list goes back to the host, which may send it with later tasks.
            say(built.map_or(ModuleTaskResult::Full, |list| {
                ModuleTaskResult::Value(list.head().into())
            }));
            return Ok(());
        }
        ModuleTask::Free { start } => {
            lists.free(module, start);
            say(ModuleTaskResult::Nothing);
            return Ok(());
        }
        ModuleTask::Height { start, height } => {
            let set = lists.set_height(module, start, height as usize);
            say(set.map_or(ModuleTaskResult::Full, |()| ModuleTaskResult::Nothing));
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
        None => say(ModuleTaskResult::Full),
    }
    Ok(())
}

fn work<M: WorkMeter>(
    module: &mut Module<'_, M>,
    list: impl OrderedKeyList,
    task: &ModuleTask<'_>,
    say: impl FnOnce(ModuleTaskResult<'_>),
) {
    let value =
        |value: Option<u64>| value.map_or(ModuleTaskResult::Nothing, ModuleTaskResult::Value);
    let stored =
        |stored: Result<Option<u64>, ProgramFault>| stored.map_or(ModuleTaskResult::Full, value);
    let answer = match *task {
        ModuleTask::Get { key } => value(list.get(module, key)),
        ModuleTask::Insert { key, value } => stored(list.insert(module, key, value)),
        ModuleTask::Update {
            key,
            previous,
            value,
        } => stored(list.update(module, key, previous, value)),
        ModuleTask::Updates { key, values } => stored(updates(module, list, key, values)),
        ModuleTask::Remove { key } => value(list.remove(module, key)),
        ModuleTask::Floor { key, .. } => match list.floor(module, key) {
            Some((key, value)) => return say(ModuleTaskResult::Entries(&[key, value])),
            None => ModuleTaskResult::Nothing,
        },
        ModuleTask::Scan {
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
            return say(ModuleTaskResult::Entries(&entries));
        }
        ModuleTask::Build { .. } | ModuleTask::Free { .. } | ModuleTask::Height { .. } => {
            ModuleTaskResult::Nothing
        }
    };
    say(answer);
}

/// Executes several updates of a key. If the first applies, so do the others, so the last value is
/// set at once.
fn updates<M: WorkMeter>(
    module: &mut Module<'_, M>,
    list: impl OrderedKeyList,
    key: u64,
    values: &[u64],
) -> Result<Option<u64>, ProgramFault> {
    let (first, last) = (values.first().copied(), values.last().copied());
    // The usual chain has all its updates applied. One write then does the work of all.
    let before = list.update(module, key, first, last)?;
    if before != first {
        // A later update of the chain may expect the present value, although the first did not.
        let after = ModuleTask::updated(before, values);
        if after != before {
            list.update(module, key, before, after)?;
        }
    }
    Ok(before)
}

/// Returns keys and values from `from` up to `to`.
fn ascend<M: WorkMeter>(
    module: &mut Module<'_, M>,
    list: impl OrderedKeyList,
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
            // The limit counts entries, and each has two words. Saturating keeps a limit of all
            // entries.
            (entries.len() as u64) < limit.saturating_mul(2)
        });
    }
    entries
}

/// Returns keys and values from `to` down to `from`. Each of them is searched, because lists are
/// linked in one direction only.
fn descend<M: WorkMeter>(
    module: &mut Module<'_, M>,
    list: impl OrderedKeyList,
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
        // No key is below 0, so the walk ends there.
        below = key.checked_sub(1);
    }
    entries
}
