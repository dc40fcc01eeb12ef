//! The execution of consecutive operations of a batch together.
//!
//! All of them are searched at once in the current list. Then all writes are made at once, one
//! combined write for each key. The outcomes are those of executing the operations in order: the
//! host replays operations on one key, and derives the results of ordered operations from the
//! search and from the writes before them. A search does not continue after an entry that an
//! earlier operation removes, so an ordered operation after a remove begins a new run. A batch in
//! which both alternate takes one search for each run.

use super::change::{TowerAction, TowerBatchUpdate, TowerChange};
use super::host::JumpPushHost;
use super::scan::{self, JumpPushRange, Scanned};
use super::search::{JumpPushQuery, JumpPushSearch};
use super::tower::{Pointer, height};
use nearfield_core::plan::inclusive;
use nearfield_core::{
    BatchInput, BatchOutput, IndexOperation, OperationError, ScanDirection, Words,
};
use nearfield_pim::device::ModuleDevice;
use std::collections::BTreeMap;

/// The purpose of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    /// A read, by the position of its operation.
    Read(u32),
    /// A written key, by the number of its change.
    Change(u32),
}

/// A searched key.
#[derive(Clone, Copy, Debug)]
struct SearchedKey {
    key: u64,
    strict: bool,
    what: For,
}

/// Consecutive operations.
pub struct JumpPushRun<'b> {
    input: BatchInput<'b, Words>,
    positions: std::ops::Range<usize>,
    items: Vec<SearchedKey>,
    /// Operations on keys that are written, sorted by key and position.
    points: Vec<(u64, u32)>,
    has_ordered: bool,
}

/// The state of a key after the writes of a run so far.
#[derive(Clone, Debug)]
enum WrittenKeyState {
    Value(u64),
    /// The key is absent, and was absent before.
    Nothing,
    Unknown(OperationError),
}

type Overlay = BTreeMap<u64, WrittenKeyState>;

/// The result of a search.
struct RunSearchResult {
    search: JumpPushSearch,
    entries: Vec<Option<(u64, u64)>>,
    /// The ranges of scans, by query.
    ranges: Vec<(usize, JumpPushRange)>,
    scanned: Vec<Scanned>,
}

/// Returns the end of the run that begins at an operation.
pub fn end(operations: &[IndexOperation<Words>], start: usize) -> usize {
    let mut removes = false;
    let rest = operations.iter().enumerate().skip(start);
    for (position, operation) in rest {
        // The search of the run would find the entry that the remove takes away, and stop there.
        if operation.is_ordered() && removes {
            return position;
        }
        removes |= matches!(
            operation,
            IndexOperation::Remove { .. } | IndexOperation::RemoveIf { .. }
        );
    }
    operations.len()
}

impl<'b> JumpPushRun<'b> {
    /// Executes the operations at some positions.
    ///
    /// # Errors
    /// An error means that nothing was done.
    pub fn execute<D: ModuleDevice>(
        host: &mut JumpPushHost<D>,
        input: BatchInput<'b, Words>,
        output: &mut BatchOutput<'_, Words>,
        positions: std::ops::Range<usize>,
    ) -> Result<(), OperationError> {
        let mut run = JumpPushRun {
            input,
            positions,
            items: Vec::new(),
            points: Vec::new(),
            has_ordered: false,
        };
        let mut changes = run.gather(host, output);
        run.items
            .sort_unstable_by_key(|item| (item.key, !item.strict));
        host.work.sorted += run.items.len() as u64;
        // Only refused operations and empty scans are left, which have their outcomes.
        if run.items.is_empty() {
            return Ok(());
        }
        let found = run.find(host, &changes)?;
        run.decide(host, &found, &mut changes);
        if !changes.is_empty() {
            TowerBatchUpdate::run(host, &found.search, &mut changes)?;
        }
        run.answer(output, &found, &changes);
        Ok(())
    }

    fn operation(&self, position: u32) -> &'b IndexOperation<Words> {
        &self.input.operations()[position as usize]
    }

    /// Returns the keys to search for, and those that are written.
    fn gather<D: ModuleDevice>(
        &mut self,
        host: &mut JumpPushHost<D>,
        output: &mut BatchOutput<'_, Words>,
    ) -> Vec<TowerChange> {
        let operations = &self.input.operations()[self.positions.clone()];
        let writes = operations.iter().any(IndexOperation::is_write);
        self.items.reserve(operations.len());
        for (operation, position) in operations.iter().zip(self.positions.start as u32..) {
            // A strict search ends below its key, and so records the links that lead to it.
            let (key, strict) = match *operation {
                IndexOperation::Refused => continue,
                // Without writes in the run, a get needs no grouping with others on its key.
                IndexOperation::Get { key } if !writes => (key, false),
                IndexOperation::Predecessor { key } => (key, false),
                IndexOperation::Successor { key } => (key, true),
                IndexOperation::Scan { .. } => match self.range(position) {
                    Some(range) if range.descends => (range.to, false),
                    Some(range) => (range.from, true),
                    None => {
                        output.entries(position as usize, []);
                        continue;
                    }
                },
                IndexOperation::Get { key }
                | IndexOperation::Insert { key, .. }
                | IndexOperation::Update { key, .. }
                | IndexOperation::Remove { key }
                | IndexOperation::RemoveIf { key, .. } => {
                    self.points.push((key, position));
                    continue;
                }
            };
            self.has_ordered |= operation.is_ordered();
            let what = For::Read(position);
            self.items.push(SearchedKey { key, strict, what });
        }
        host.work.sorted += self.points.len() as u64;
        self.points.sort_unstable();
        let mut changes = Vec::new();
        let (items, mut written) = (&mut self.items, Vec::new());
        for group in self.points.chunk_by(|one, next| one.0 == next.0) {
            let key = group[0].0;
            let positions = group.iter().map(|point| point.1);
            let is_write = |position: u32| {
                let operation = &self.input.operations()[position as usize];
                operation.is_write()
            };
            // A key that is written is searched once for all operations on it, which are replayed
            // on the host.
            if positions.clone().any(is_write) {
                let what = For::Change(changes.len() as u32);
                let strict = true;
                items.push(SearchedKey { key, strict, what });
                changes.push(TowerChange::new(key, 0));
                written.extend_from_slice(group);
            } else {
                let strict = false;
                items.extend(positions.map(|position| SearchedKey {
                    key,
                    strict,
                    what: For::Read(position),
                }));
            }
        }
        self.points = written;
        changes
    }

    /// Returns the range of a scan; `None` if it is empty.
    fn range(&self, position: u32) -> Option<JumpPushRange> {
        let IndexOperation::Scan {
            range,
            limit,
            direction,
        } = *self.operation(position)
        else {
            return None;
        };
        let (from, to) = inclusive(self.input.range(range)).filter(|_| limit > 0)?;
        Some(JumpPushRange {
            from,
            to,
            limit: limit.into(),
            descends: direction == ScanDirection::Descending,
        })
    }

    /// Searches, and reads the towers found.
    fn find<D: ModuleDevice>(
        &self,
        host: &mut JumpPushHost<D>,
        changes: &[TowerChange],
    ) -> Result<RunSearchResult, OperationError> {
        host.begin()?;
        let queries = self.items.iter().map(|item| {
            // Recording a path costs words in each round, so only the levels that are needed later
            // are recorded: those of links that change, or that a scan follows.
            let recorded = match item.what {
                For::Change(change) => height(changes[change as usize].key).min(host.levels),
                For::Read(position) => match self.operation(position) {
                    IndexOperation::Scan { .. } => host.levels,
                    IndexOperation::Successor { .. } => 1,
                    _ => 0,
                },
            };
            JumpPushQuery::new(item.key, item.strict, recorded)
        });
        let mut search = JumpPushSearch::run(host, queries.collect())?;
        let head = host.head;
        let entries = search.fetch(host, |search, query| {
            let right = || search.path(query).first().map(|step| step.right);
            let tower = match self.items[query].what {
                For::Change(_) => right().filter(|right| right.key == self.items[query].key),
                For::Read(position) => match self.operation(position) {
                    IndexOperation::Scan { .. } => None,
                    IndexOperation::Successor { .. } => right(),
                    _ => {
                        // The first tower has no key, so a search that ends there has found
                        // nothing.
                        let node = search.queries[query].node;
                        return if node == head { Pointer::NULL } else { node };
                    }
                },
            };
            tower.map_or(Pointer::NULL, |right| right.tower)
        })?;
        debug_assert_eq!(entries.len(), self.items.len());
        let mut ranges = Vec::new();
        for (query, item) in self.items.iter().enumerate().filter(|_| self.has_ordered) {
            if let For::Read(position) = item.what
                && let Some(range) = self.range(position)
            {
                ranges.push((query, range));
            }
        }
        let scanned = match ranges.is_empty() {
            true => Vec::new(),
            false => scan::run(host, &search, &ranges)?,
        };
        debug_assert_eq!(scanned.len(), ranges.len());
        Ok(RunSearchResult {
            search,
            entries,
            ranges,
            scanned,
        })
    }

    /// Sets the new states of the written keys.
    fn decide<D: ModuleDevice>(
        &self,
        host: &mut JumpPushHost<D>,
        found: &RunSearchResult,
        changes: &mut [TowerChange],
    ) {
        for (query, item) in self.items.iter().enumerate() {
            if let For::Change(change) = item.what {
                changes[change as usize].query = query;
            }
        }
        let groups = self.points.chunk_by(|one, next| one.0 == next.0);
        for (change, group) in changes.iter_mut().zip(groups) {
            debug_assert_eq!(group[0].0, change.key);
            if found.search.queries[change.query].failed {
                change.error = found.search.error(change.query).cloned();
                continue;
            }
            let before = found.entries[change.query].map(|entry| entry.1);
            if before.is_some() {
                change.tower = found.search.path(change.query)[0].right.tower;
            }
            let after = self.replay(group, before, false, |_, _, _| ());
            change.action = match (before, after) {
                (None, Some(value)) => TowerAction::Insert(value),
                (Some(_), None) => TowerAction::Remove,
                // A value that is set to itself needs no task.
                (Some(before), Some(value)) if before != value => TowerAction::Set(value),
                _ => TowerAction::Keep,
            };
        }
        host.work.probes += changes.len() as u64;
    }

    /// Executes operations on one key in order, given its old value. Passes to `each` their
    /// positions, the value before and the value after, which is `None` if there was no room.
    /// Returns the final value.
    fn replay(
        &self,
        group: &[(u64, u32)],
        mut value: Option<u64>,
        is_full: bool,
        mut each: impl FnMut(u32, Option<u64>, Option<Option<u64>>),
    ) -> Option<u64> {
        for &(_, position) in group {
            let after = match *self.operation(position) {
                IndexOperation::Insert { value, .. } => Some(value),
                IndexOperation::Update {
                    value: after,
                    previous,
                    ..
                } if self.input.previous(previous) == value => Some(after),
                IndexOperation::Remove { .. } => None,
                IndexOperation::RemoveIf { previous, .. }
                    if self.input.previous(previous) == value =>
                {
                    None
                }
                _ => value,
            };
            // Without room the key stays absent, and later operations must see that.
            if is_full && value.is_none() && after.is_some() {
                each(position, value, None);
            } else {
                each(position, value, Some(after));
                value = after;
            }
        }
        value
    }

    /// Writes the outcomes.
    fn answer(
        &self,
        output: &mut BatchOutput<'_, Words>,
        found: &RunSearchResult,
        changes: &[TowerChange],
    ) {
        // Ordered operations see the writes before them, which the search has not seen. Without
        // any, the log is not needed.
        let keeps_log = self.has_ordered && !changes.is_empty();
        let mut log: Vec<(u32, u64, WrittenKeyState)> = Vec::new();
        let groups = self.points.chunk_by(|one, next| one.0 == next.0);
        for (change, group) in changes.iter().zip(groups) {
            debug_assert_eq!(group[0].0, change.key);
            let key = change.key;
            let before = found.entries[change.query].map(|entry| entry.1);
            // A full module fails only the operations that need the new tower. Others, such as a
            // get, still have outcomes.
            let is_full = before.is_none()
                && matches!(change.error, Some(OperationError::OutOfMemory { .. }));
            if let (Some(error), false) = (&change.error, is_full) {
                for &(_, position) in group {
                    output.fail(position as usize, error.clone());
                    if keeps_log {
                        log.push((position, key, WrittenKeyState::Unknown(error.clone())));
                    }
                }
                continue;
            }
            self.replay(group, before, is_full, |position, value, after| {
                let place = position as usize;
                match (self.operation(position), after, &change.error) {
                    (_, None, Some(error)) => return output.fail(place, error.clone()),
                    (
                        IndexOperation::Update { previous, .. }
                        | IndexOperation::RemoveIf { previous, .. },
                        ..,
                    ) => {
                        let applied = self.input.previous(*previous) == value;
                        output.updated(place, key, applied, value);
                    }
                    _ => output.value(place, key, value),
                }
                if keeps_log && self.operation(position).is_write() {
                    let after = after
                        .flatten()
                        .map_or(WrittenKeyState::Nothing, WrittenKeyState::Value);
                    log.push((position, key, after));
                }
            });
        }
        self.answer_reads(output, found, log);
    }

    /// Writes the outcomes of reads, from the searches in the list and from earlier writes.
    fn answer_reads(
        &self,
        output: &mut BatchOutput<'_, Words>,
        found: &RunSearchResult,
        mut log: Vec<(u32, u64, WrittenKeyState)>,
    ) {
        let reads = self.items.iter().enumerate();
        let reads = reads.filter_map(|(query, item)| match item.what {
            For::Read(position) => Some((position, query as u32)),
            For::Change(_) => None,
        });
        let mut reads: Vec<(u32, u32)> = reads.collect();
        // The reads are in the order of keys. To meet each write in time, both go by position.
        if !log.is_empty() {
            log.sort_unstable_by_key(|entry| entry.0);
            reads.sort_unstable();
        }
        let mut log = log.into_iter().peekable();
        let mut overlay = Overlay::new();
        for (position, query) in reads {
            while let Some((_, key, written)) = log.next_if(|entry| entry.0 < position) {
                overlay.insert(key, written);
            }
            let place = position as usize;
            let query = query as usize;
            if let Some(error) = found.search.error(query) {
                output.fail(place, error.clone());
                continue;
            }
            let entry = found.entries[query];
            match *self.operation(position) {
                IndexOperation::Get { key } => {
                    let value = entry.filter(|entry| entry.0 == key).map(|entry| entry.1);
                    output.value(place, key, value);
                }
                IndexOperation::Predecessor { key } => {
                    // Only writes between the found key and the searched one can be nearer.
                    let least = entry.map_or(0, |entry| entry.0);
                    let mut written = overlay.range(least..=key).rev();
                    match first(&mut written, entry) {
                        Ok(entry) => output.entry(place, entry),
                        Err(error) => output.fail(place, error),
                    }
                }
                IndexOperation::Successor { key } => {
                    let greatest = entry.map_or(u64::MAX, |entry| entry.0);
                    match first(&mut overlay.range(key..=greatest), entry) {
                        Ok(entry) => output.entry(place, entry),
                        Err(error) => output.fail(place, error),
                    }
                }
                _ => self.answer_scan(output, found, place, query, &overlay),
            }
        }
    }

    fn answer_scan(
        &self,
        output: &mut BatchOutput<'_, Words>,
        found: &RunSearchResult,
        place: usize,
        query: usize,
        overlay: &Overlay,
    ) {
        let number = found.ranges.binary_search_by_key(&query, |range| range.0);
        let Some(((_, range), scanned)) = number
            .ok()
            .map(|number| (found.ranges[number], &found.scanned[number]))
        else {
            return;
        };
        match scanned.as_ref().map_err(OperationError::clone) {
            Ok(entries) if overlay.is_empty() => {
                output.entries(place, entries.iter().copied());
            }
            Ok(entries) => match merge(entries, overlay, range) {
                Ok(entries) => output.entries(place, entries),
                Err(error) => output.fail(place, error),
            },
            Err(error) => output.fail(place, error),
        }
    }
}

/// Returns the first entry of the writes or, without one, that of the list.
fn first<'o>(
    written: &mut impl Iterator<Item = (&'o u64, &'o WrittenKeyState)>,
    entry: Option<(u64, u64)>,
) -> Result<Option<(u64, u64)>, OperationError> {
    for (&key, written) in written {
        match written {
            WrittenKeyState::Value(value) => return Ok(Some((key, *value))),
            WrittenKeyState::Unknown(error) => return Err(error.clone()),
            // A key that was absent and stays so does not hide the next one. A removed key cannot
            // occur: removes end the run.
            WrittenKeyState::Nothing => {}
        }
    }
    Ok(entry)
}

/// Returns the entries of a range, merged with the writes.
fn merge(
    entries: &[(u64, u64)],
    overlay: &Overlay,
    range: JumpPushRange,
) -> Result<Vec<(u64, u64)>, OperationError> {
    let mut found = entries.iter().copied().peekable();
    let mut merged = Vec::with_capacity(entries.len());
    let (mut up, mut down);
    let written: &mut dyn Iterator<Item = (&u64, &WrittenKeyState)> = if range.descends {
        down = overlay.range(range.from..=range.to).rev();
        &mut down
    } else {
        up = overlay.range(range.from..=range.to);
        &mut up
    };
    let limit = usize::try_from(range.limit).unwrap_or(usize::MAX);
    for (&key, written) in written {
        let is_before = |found: u64| {
            if range.descends {
                found > key
            } else {
                found < key
            }
        };
        while let Some(entry) = found.next_if(|entry| is_before(entry.0)) {
            merged.push(entry);
        }
        // An unknown state beyond the limit must not fail the scan.
        if merged.len() >= limit {
            break;
        }
        match written {
            WrittenKeyState::Value(value) => {
                merged.push((key, *value));
                // The write replaces the entry of the list.
                found.next_if(|entry| entry.0 == key);
            }
            WrittenKeyState::Unknown(error) => return Err(error.clone()),
            WrittenKeyState::Nothing => {}
        }
    }
    merged.extend(found);
    merged.truncate(limit);
    Ok(merged)
}
