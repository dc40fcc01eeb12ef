//! The host's subranges.

use crate::dispatch::task::{ModuleTask, ModuleTaskResult};
use std::collections::{BTreeMap, HashMap};

/// The subranges that were pulled to the host, by their starts.
#[derive(Debug, Default)]
pub(super) struct PulledSubranges {
    subranges: HashMap<u64, BTreeMap<u64, u64>>,
}

impl PulledSubranges {
    pub fn insert(&mut self, start: u64, entries: &[u64]) {
        debug_assert!(entries.len().is_multiple_of(2));
        let pairs = entries.chunks_exact(2).map(|entry| (entry[0], entry[1]));
        self.subranges.insert(start, pairs.collect());
    }

    /// Removes a subrange, and returns its keys and values, alternating.
    pub fn remove(&mut self, start: u64) -> Vec<u64> {
        let entries = self.subranges.remove(&start).unwrap_or_default();
        entries
            .into_iter()
            .flat_map(|(key, value)| [key, value])
            .collect()
    }

    /// Removes the subranges that begin within a range.
    pub fn remove_within(&mut self, start: u64, last: u64) {
        self.subranges
            .retain(|&other, _| other < start || other > last);
    }

    /// Returns the number of levels of the tree of the subrange that begins at `start`, if nodes
    /// have eight keys.
    pub fn levels(&self, start: u64) -> u64 {
        let keys = self.subranges.get(&start).map_or(0, BTreeMap::len);
        1 + u64::from(keys.max(1).ilog2()) / 3
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.subranges.values().map(BTreeMap::len).sum()
    }

    /// Executes a task on the subrange that begins at `start`, as a module would.
    pub fn run(&mut self, start: u64, task: &ModuleTask<'_>, tag: u32, output: &mut Vec<u64>) {
        let Some(entries) = self.subranges.get_mut(&start) else {
            return ModuleTaskResult::Nothing.encode(tag, output);
        };
        let value =
            |value: Option<u64>| value.map_or(ModuleTaskResult::Nothing, ModuleTaskResult::Value);
        let list = |pairs: &mut dyn Iterator<Item = (&u64, &u64)>, limit: u64| -> Vec<u64> {
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let pairs = pairs.take(limit);
            pairs.flat_map(|(key, value)| [*key, *value]).collect()
        };
        let found = match *task {
            ModuleTask::Get { key } => value(entries.get(&key).copied()),
            ModuleTask::Insert { key, value: new } => value(entries.insert(key, new)),
            ModuleTask::Update {
                key,
                previous,
                value: new,
            } => {
                let before = entries.get(&key).copied();
                if before == previous {
                    match new {
                        Some(new) => entries.insert(key, new),
                        None => entries.remove(&key),
                    };
                }
                value(before)
            }
            ModuleTask::Updates { key, values } => {
                let before = entries.get(&key).copied();
                if let Some(after) = ModuleTask::updated(before, values) {
                    entries.insert(key, after);
                }
                value(before)
            }
            ModuleTask::Remove { key } => value(entries.remove(&key)),
            ModuleTask::Floor { key, .. } => {
                let mut floor = entries.range(..=key).rev();
                match &list(&mut floor, 1)[..] {
                    [] => ModuleTaskResult::Nothing,
                    entry => return ModuleTaskResult::Entries(entry).encode(tag, output),
                }
            }
            ModuleTask::Scan {
                from,
                to,
                limit,
                descends,
                ..
            } => {
                let mut range = entries.range(from..=to);
                let entries = match descends {
                    true => list(&mut range.rev(), limit),
                    false => list(&mut range, limit),
                };
                return ModuleTaskResult::Entries(&entries).encode(tag, output);
            }
            ModuleTask::Build { .. } | ModuleTask::Free { .. } | ModuleTask::Height { .. } => {
                ModuleTaskResult::Nothing
            }
        };
        found.encode(tag, output);
    }
}
