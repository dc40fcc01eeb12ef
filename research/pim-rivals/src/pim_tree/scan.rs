//! Scans, which go level by level and read each chunk once for all scans that need it.
//!
//! A scan with a limit reads at each level as many chunks as will probably have enough entries, and
//! continues after them if they have not.

use super::PimTreeHost;
use super::address::ModuleAddress;
use super::round::Outbox;
use super::task::ChunkTaskKind;
use nearfield_core::plan::inclusive;
use nearfield_core::{
    BatchInput, BatchOutput, IndexOperation, OperationError, ScanDirection, Words,
};
use nearfield_pim::device::ModuleDevice;
use nearfield_pim::dispatch::plan::unknown;
use std::collections::HashMap;
use std::ops::Range;

/// Greatest number of scans of a chunk that does not count as pulled.
const PULLED: usize = 32;

/// A scan in progress.
struct PimTreeScan {
    /// Number of the operation.
    number: usize,
    /// The rest of the range; `None` if nothing is left.
    rest: Option<(u64, u64)>,
    /// Number of entries that are still wanted.
    wanted: usize,
    descends: bool,
    found: Vec<(u64, u64)>,
    error: Option<OperationError>,
    /// Chunks of the current level, nearest first.
    chunks: Vec<ModuleAddress>,
    /// The key from which the range continues after these chunks.
    next: Option<u64>,
}

impl PimTreeScan {
    fn is_open(&self) -> bool {
        self.rest.is_some() && self.wanted > 0 && self.error.is_none()
    }

    /// Returns the number of chunks of a level that are probably enough. A chunk has 16 entries on
    /// average.
    fn chunks_wanted(&self, level: usize) -> usize {
        // A quarter more than the average and three chunks more make it likely that one pass is
        // enough.
        (0..=level).fold(self.wanted, |entries, _| entries / 16 + entries / 64 + 3)
    }

    /// Sets the chunks to read next, given with their first keys. Those beyond the wanted number
    /// are left for later.
    fn enter(&mut self, level: usize, children: Vec<(u64, ModuleAddress)>) {
        let wanted = self.chunks_wanted(level);
        debug_assert!(wanted > 0, "some chunk is taken");
        self.chunks.clear();
        for (number, &(first, chunk)) in children.iter().enumerate() {
            if number == wanted {
                self.next = match self.descends {
                    // The next chunk ends before the last one that was taken.
                    true => children[number - 1].0.checked_sub(1),
                    false => Some(first),
                };
                return;
            }
            self.chunks.push(chunk);
        }
    }

    /// Advances the rest of the range past the chunks that were read.
    fn advance(&mut self) {
        let next = self.next.take();
        self.rest = self
            .rest
            .and_then(|(from, to)| match (next, self.descends) {
                (None, _) => None,
                (Some(next), true) => (from <= next).then_some((from, next)),
                (Some(next), false) => (next <= to).then_some((next, to)),
            });
    }

    /// Returns the part of the range that the taken chunks cover.
    fn range(&self) -> (u64, u64) {
        let (from, to) = self.rest.unwrap_or((1, 0));
        match (self.next, self.descends) {
            (Some(next), true) => (next.saturating_add(1).max(from), to),
            (Some(next), false) => (from, to.min(next.saturating_sub(1))),
            (None, _) => (from, to),
        }
    }
}

/// The entries read from chunks, in the order of keys within each chunk.
#[derive(Default)]
struct ChunkScanResults {
    entries: Vec<(u64, ModuleAddress)>,
    of: HashMap<ModuleAddress, Result<Range<usize>, OperationError>>,
}

impl ChunkScanResults {
    /// Returns the entries of a chunk between two keys; at levels with chunks below, also the one
    /// that leads to the first.
    fn slice(
        &self,
        chunk: ModuleAddress,
        (from, to): (u64, u64),
        level: usize,
    ) -> Result<Range<usize>, OperationError> {
        let Some(range) = self.of.get(&chunk) else {
            return Ok(0..0);
        };
        let range = range.clone()?;
        let entries = &self.entries[range.clone()];
        let end = entries.partition_point(|entry| entry.0 <= to);
        let start = match level {
            0 => entries.partition_point(|entry| entry.0 < from),
            _ => {
                let behind = entries.partition_point(|entry| entry.0 <= from);
                behind.saturating_sub(1)
            }
        };
        Ok(range.start + start.min(end)..range.start + end)
    }
}

impl<D: ModuleDevice> PimTreeHost<D> {
    /// Executes scans: in five rounds, and five more while a scan has not reached its limit or end.
    ///
    /// # Errors
    /// A round was refused.
    pub(super) fn scans(
        &mut self,
        input: BatchInput<'_, Words>,
        output: &mut BatchOutput<'_, Words>,
        numbers: &[usize],
    ) -> Result<(), OperationError> {
        let cursors = numbers.iter().filter_map(|&number| {
            let IndexOperation::Scan {
                range,
                limit,
                direction,
            } = input.operations()[number]
            else {
                return None;
            };
            Some(PimTreeScan {
                number,
                rest: inclusive(input.range(range)),
                wanted: limit as usize,
                descends: direction == ScanDirection::Descending,
                found: Vec::new(),
                error: None,
                chunks: Vec::new(),
                next: None,
            })
        });
        let mut cursors: Vec<PimTreeScan> = cursors.collect();
        // Scans that have not enough entries after all levels begin again behind what they have.
        while self.is_built && cursors.iter().any(PimTreeScan::is_open) {
            self.uppers_of(&mut cursors)?;
            for level in [2, 1] {
                let answers = self.range_round(&cursors)?;
                for cursor in cursors.iter_mut().filter(|cursor| cursor.is_open()) {
                    descend(cursor, &answers, level);
                }
            }
            let answers = self.range_round(&cursors)?;
            self.entries_of(&mut cursors, &answers)?;
        }
        for cursor in cursors {
            match cursor.error {
                Some(error) => output.fail(cursor.number, error),
                None => output.entries(cursor.number, cursor.found),
            }
        }
        Ok(())
    }

    /// Finds the chunks of level 2. Each module gets some of the scans.
    fn uppers_of(&mut self, cursors: &mut [PimTreeScan]) -> Result<(), OperationError> {
        let modules = self.modules();
        let mut outbox = Outbox::new(modules);
        let open = |cursor: &&mut PimTreeScan| cursor.is_open();
        for (number, cursor) in cursors.iter_mut().filter(open).enumerate() {
            let (from, to) = cursor.range();
            let wanted = (cursor.chunks_wanted(2) + 1).min(u32::MAX as usize) as u64;
            let wanted = wanted | u64::from(cursor.descends) << 32;
            let item = [from, to, wanted];
            outbox.item(number % modules, ChunkTaskKind::UpperRange, &item);
        }
        let mut inbox = self.round(outbox)?;
        for (number, cursor) in cursors.iter_mut().filter(open).enumerate() {
            let module = number % modules;
            let chunks = inbox
                .word(module)
                .and_then(|count| inbox.take(module, 2 * count as usize));
            match chunks {
                Ok(words) => {
                    let chunks = words.chunks_exact(2);
                    let chunks = chunks.map(|chunk| (chunk[0], ModuleAddress(chunk[1])));
                    cursor.enter(2, chunks.collect());
                }
                Err(error) => cursor.error = Some(unknown(&error)),
            }
        }
        Ok(())
    }

    /// Reads the wanted part of each chunk of a level.
    fn range_round(&mut self, cursors: &[PimTreeScan]) -> Result<ChunkScanResults, OperationError> {
        let mut wanted: Vec<(ModuleAddress, u64, u64)> = Vec::new();
        for cursor in cursors.iter().filter(|cursor| cursor.is_open()) {
            let (from, to) = cursor.range();
            wanted.extend(cursor.chunks.iter().map(|&chunk| (chunk, from, to)));
        }
        wanted.sort_unstable();
        self.sorted(wanted.len());
        let mut outbox = Outbox::new(self.modules());
        for same in wanted.chunk_by(|one, other| one.0 == other.0) {
            let chunk = same[0].0;
            let (mut from, mut to) = (same[0].1, same[0].2);
            for other in same {
                // One read covers all scans of the chunk. Each takes its part.
                (from, to) = (from.min(other.1), to.max(other.2));
            }
            if same.len() > PULLED {
                self.pulled += 1;
                // A chunk that many scans read is pulled as a whole, as in a search.
                (from, to) = (0, u64::MAX);
            }
            let words = outbox.at(chunk.module(), ChunkTaskKind::Range, 2, chunk.local());
            words.extend([from, to]);
        }
        let mut inbox = self.round(outbox)?;
        let mut answers = ChunkScanResults::default();
        for same in wanted.chunk_by(|one, other| one.0 == other.0) {
            let chunk = same[0].0;
            let module = chunk.module();
            let start = answers.entries.len();
            let words = inbox
                .word(module)
                .and_then(|count| inbox.take(module, 2 * count as usize));
            let range = match words {
                Ok(words) => {
                    let words = words.chunks_exact(2);
                    let entries = words.map(|entry| (entry[0], ModuleAddress(entry[1])));
                    answers.entries.extend(entries);
                    answers.entries[start..].sort_unstable();
                    Ok(start..answers.entries.len())
                }
                Err(error) => Err(unknown(&error)),
            };
            answers.of.insert(chunk, range);
        }
        self.sorted(answers.entries.len());
        Ok(answers)
    }

    /// Reads the data nodes that scans want from chunks of level 0, each once, and passes them to
    /// the scans.
    fn entries_of(
        &mut self,
        cursors: &mut [PimTreeScan],
        answers: &ChunkScanResults,
    ) -> Result<(), OperationError> {
        let mut is_wanted = vec![false; answers.entries.len()];
        let mut slices: Vec<(usize, Vec<usize>)> = Vec::new();
        for (number, cursor) in cursors.iter_mut().enumerate() {
            if !cursor.is_open() {
                continue;
            }
            let mut own: Vec<usize> = Vec::new();
            for &chunk in &cursor.chunks {
                match answers.slice(chunk, cursor.range(), 0) {
                    Ok(slice) if cursor.descends => own.extend(slice.rev()),
                    Ok(slice) => own.extend(slice),
                    Err(error) => cursor.error = Some(error),
                }
            }
            // Data nodes beyond the limit are not read.
            own.truncate(cursor.wanted);
            own.iter().for_each(|&entry| is_wanted[entry] = true);
            slices.push((number, own));
        }
        let mut outbox = Outbox::new(self.modules());
        let wanted: Vec<usize> = (0..is_wanted.len()).filter(|&at| is_wanted[at]).collect();
        for &at in &wanted {
            let node = answers.entries[at].1;
            outbox.item(node.module(), ChunkTaskKind::Fetch, &[node.local().into()]);
        }
        let mut inbox = self.round(outbox)?;
        let mut values: Vec<Option<u64>> = vec![None; is_wanted.len()];
        let mut lost: Option<OperationError> = None;
        for at in wanted {
            match inbox.take(answers.entries[at].1.module(), 2) {
                Ok(words) => values[at] = Some(words[1]),
                Err(error) => lost = Some(unknown(&error)),
            }
        }
        for (number, own) in slices {
            let cursor = &mut cursors[number];
            for at in own {
                match values[at] {
                    Some(value) => cursor.found.push((answers.entries[at].0, value)),
                    None => cursor.error = lost.clone(),
                }
                cursor.wanted -= 1;
            }
            cursor.advance();
        }
        Ok(())
    }
}

/// Moves a scan from chunks of a level to those of the next lower level.
fn descend(cursor: &mut PimTreeScan, answers: &ChunkScanResults, level: usize) {
    let mut children = Vec::new();
    for chunk in std::mem::take(&mut cursor.chunks) {
        match answers.slice(chunk, cursor.range(), level) {
            Ok(slice) if cursor.descends => {
                children.extend(answers.entries[slice].iter().rev().copied());
            }
            Ok(slice) => children.extend_from_slice(&answers.entries[slice]),
            Err(error) => cursor.error = Some(error),
        }
    }
    cursor.enter(level - 1, children);
}
