//! The programs of modules.

use super::task::{JumpPushTask, QueryStepMode};
use super::tower::{ENTRY_WORDS, LINK_WORDS, TowerLink, words};
use nearfield_pim::device::{Module, ModuleProgram, ProgramFault, WorkMeter};
use nearfield_pim::dispatch::kernel::INSTRUCTIONS_PER_TASK;
use nearfield_pim::structures::list::OrderedKeyList;
use nearfield_pim::structures::skip_list::{INSTRUCTIONS_PER_KEY, PimSkipList};

/// A program that searches the upper part for each word of its input. It outputs the address of the
/// lower levels of the tower with the greatest key at or below it, or 0 if there is none.
pub struct Floors;

impl ModuleProgram for Floors {
    fn run<M: WorkMeter>(
        &self,
        module: &mut Module<'_, M>,
        input: &[u64],
        output: &mut Vec<u64>,
    ) -> Result<(), ProgramFault> {
        if input.is_empty() {
            return Ok(());
        }
        let upper = PimSkipList::of_root(module)?;
        for (number, &key) in input.iter().enumerate() {
            module.begin(number);
            module.instructions(INSTRUCTIONS_PER_TASK);
            // The node of the lower part where the search continues is the value of the upper
            // tower.
            output.push(upper.floor(module, key).map_or(0, |(_, tower)| tower));
        }
        Ok(())
    }
}

/// The program that executes the tasks of its input.
pub struct JumpPushProgram;

impl ModuleProgram for JumpPushProgram {
    fn run<M: WorkMeter>(
        &self,
        module: &mut Module<'_, M>,
        mut input: &[u64],
        output: &mut Vec<u64>,
    ) -> Result<(), ProgramFault> {
        let words = input.len();
        for number in 0.. {
            let Some(&value) = input.first() else {
                break;
            };
            let word = words - input.len();
            let Some(task) = JumpPushTask::decode(&mut input) else {
                return Err(ProgramFault::Input { word, value });
            };
            module.begin(number);
            module.instructions(INSTRUCTIONS_PER_TASK);
            work(module, &task, output);
        }
        Ok(())
    }
}

fn work<M: WorkMeter>(module: &mut Module<'_, M>, task: &JumpPushTask<'_>, output: &mut Vec<u64>) {
    match *task {
        JumpPushTask::Step {
            at,
            level,
            key,
            way,
        } => step(module, at, level, key, way, output),
        JumpPushTask::Look { at, level } => {
            let link = link(module, at, level);
            output.extend([link.key, link.tower.word()]);
        }
        JumpPushTask::Fetch { at } => output.extend_from_slice(module.read(at, ENTRY_WORDS)),
        JumpPushTask::Visit { at, levels } => {
            module.hop();
            output.extend_from_slice(module.read(at, words(levels)));
        }
        JumpPushTask::Make { key, value, links } => {
            let made = module.allocate(ENTRY_WORDS + links.len());
            // The tower is written by one copy.
            if let Ok(at) = made {
                let mut tower = Vec::with_capacity(ENTRY_WORDS + links.len());
                tower.extend([key, value]);
                tower.extend_from_slice(links);
                module.write(at, &tower);
            }
            output.push(made.map_or(0, u64::from));
        }
        JumpPushTask::Link { at, level, link } => {
            module.write(place(at, level), &[link.key, link.tower.word()]);
        }
        JumpPushTask::Set { at, value } => module.write(at + 1, &[value]),
        JumpPushTask::Free { at, levels } => module.free(at, words(levels)),
        JumpPushTask::Raise { key, tower } => {
            let raised =
                PimSkipList::of_root(module).and_then(|upper| upper.insert(module, key, tower));
            output.push(raised.is_ok().into());
        }
        JumpPushTask::Sink { key } => {
            // If there is no room for the first tower, there is no upper part.
            if let Ok(upper) = PimSkipList::of_root(module) {
                upper.remove(module, key);
            }
        }
        JumpPushTask::List {
            from,
            to,
            limit,
            descends,
        } => list(module, (from, to), limit as usize, descends, output),
    }
}

/// Returns the address of the link of a level.
fn place(at: u32, level: usize) -> u32 {
    at + words(level) as u32
}

/// Copies the link of a level, and counts the comparison of its key with the searched one.
fn link<M: WorkMeter>(module: &mut Module<'_, M>, at: u32, level: usize) -> TowerLink {
    module.instructions(INSTRUCTIONS_PER_KEY);
    module.compare();
    let words = module.read(place(at, level), LINK_WORDS);
    TowerLink::from_words(words[0], words[1])
}

/// Advances a query to the right or down.
fn step<M: WorkMeter>(
    module: &mut Module<'_, M>,
    at: u32,
    level: usize,
    key: u64,
    way: QueryStepMode,
    output: &mut Vec<u64>,
) {
    let first = output.len();
    // The word is written when the step is known, but the links of its path follow it.
    output.push(0);
    let mut down = 0;
    while down <= level {
        let link = link(module, at, level - down);
        if link.precedes(key, way.strict) {
            module.hop();
            output[first] = (down as u64) << 56 | link.tower.word();
            return;
        }
        down += 1;
        if way.recorded {
            output.extend([link.key, link.tower.word()]);
        }
        // As published, each level down is a step of its own, although it stays in the tower.
        if !way.descends {
            break;
        }
    }
    output[first] = (down as u64) << 56;
}

/// Lists the entries of the upper part from one key to another.
fn list<M: WorkMeter>(
    module: &mut Module<'_, M>,
    (from, to): (u64, u64),
    limit: usize,
    descends: bool,
    output: &mut Vec<u64>,
) {
    let first = output.len();
    // The number of towers is known only after them.
    output.push(0);
    let Ok(upper) = PimSkipList::of_root(module) else {
        return;
    };
    let mut count = 0;
    if limit > 0 && descends {
        // Lists are linked in one direction only, so each entry is searched.
        let mut key = Some(to);
        while let Some(found) = key.and_then(|key| upper.floor(module, key))
            && found.0 >= from
        {
            output.extend([found.0, found.1]);
            count += 1;
            if count == limit {
                break;
            }
            key = found.0.checked_sub(1);
        }
    } else if limit > 0 {
        upper.walk(module, from, |_, key, tower| {
            if key > to {
                return false;
            }
            output.extend([key, tower]);
            count += 1;
            count < limit
        });
    }
    output[first] = count as u64;
}
