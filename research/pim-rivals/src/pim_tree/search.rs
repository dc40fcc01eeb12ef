//! Push-pull search: from sorted keys down to chunks of level 0, and to data nodes.
//!
//! A key is *pushed* to the module of its chunk. If many keys go to one module, the chunks with
//! most of them are *pulled*: the host reads their entries and searches them itself. Source:
//! PIM-tree (VLDB 2022), section 4.

use super::PimTreeHost;
use super::address::ModuleAddress;
use super::program::address;
use super::round::{Outbox, PimTreeInbox};
use super::task::{ChunkTaskKind, LEFT};
use nearfield_core::OperationError;
use nearfield_pim::device::{ModuleDevice, ModuleError};
use nearfield_pim::dispatch::plan::unknown;
use std::ops::Range;

/// Multiple of the average load of a module from which on chunks are pulled.
const BIAS: usize = 3;
/// Greatest number of keys of a chunk that is not pulled.
const PULLED: usize = 16;
/// Greatest number of keys of a task if loads are even.
const PUSHED: usize = 32;

const _: () = assert!(
    PUSHED <= u64::BITS as usize,
    "a task has a bit for each key"
);

/// The path of a key: the chunk of each level that includes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkPath {
    /// Chunks of levels 0, 1 and 2; that of level 1 only if the whole path was wanted.
    pub chunks: [ModuleAddress; 3],
    /// Address of the copy of the chunk of level 1, in the module of that of level 2.
    pub shadow: u32,
}

/// The side of a wanted neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NeighbourSide {
    /// The greatest key at or below it.
    Below,
    /// The least key at or above it.
    Above,
}

/// The neighbour of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Neighbour {
    /// No neighbour.
    None,
    /// The data node of the neighbour.
    At(ModuleAddress),
    /// The same neighbour as that of another key.
    Of(u64),
    /// A neighbour in a module that failed.
    Lost(OperationError),
}

/// A chunk that was pulled.
#[derive(Clone, Debug, Default)]
pub(super) struct PulledChunk {
    pub first: u64,
    pub bound: u64,
    /// Entries in the order of keys: key, address and, for level 2, shadow.
    pub entries: Vec<(u64, ModuleAddress, u32)>,
}

impl PulledChunk {
    /// Takes the content of a chunk of a level from a module's output.
    ///
    /// # Errors
    /// The module failed.
    pub fn take(
        inbox: &mut PimTreeInbox,
        module: usize,
        level: usize,
    ) -> Result<PulledChunk, ModuleError> {
        let mut pulled = Self::take_unsorted(inbox, module, level)?;
        pulled.entries.sort_unstable();
        Ok(pulled)
    }

    /// Takes the content as [`take`](PulledChunk::take) does, with unsorted entries.
    ///
    /// # Errors
    /// As for [`take`](PulledChunk::take).
    pub fn take_unsorted(
        inbox: &mut PimTreeInbox,
        module: usize,
        level: usize,
    ) -> Result<PulledChunk, ModuleError> {
        let head = inbox.take(module, 3)?;
        let (first, bound, count) = (head[0], head[1], head[2] as usize);
        let words = if level == 2 { 3 } else { 2 };
        let entries = inbox.take(module, count * words)?.chunks_exact(words);
        let entries = entries.map(|entry| {
            let shadow = entry.get(2).map_or(0, |&shadow| shadow as u32);
            (entry[0], ModuleAddress(entry[1]), shadow)
        });
        Ok(PulledChunk {
            first,
            bound,
            entries: entries.collect(),
        })
    }

    /// Returns the entry with the greatest key at or below `key`, if `key` is in the chunk's range.
    fn floor(&self, key: u64) -> Option<(u64, ModuleAddress, u32)> {
        let behind = self.entries.partition_point(|entry| entry.0 <= key);
        let found = self.entries.get(behind.checked_sub(1)?)?;
        self.covers(key).then_some(*found)
    }

    fn covers(&self, key: u64) -> bool {
        key >= self.first && (self.bound == 0 || key < self.bound)
    }
}

/// Returns the error of a key that is not in the chunk to which its parent leads, because the state
/// of a module is unknown.
pub(super) fn lost(key: u64) -> OperationError {
    OperationError::Unknown {
        what: format!("key {key:#x}: its path is unknown because a module failed"),
    }
}

/// Returns the ranges of adjacent items that go to the same chunk.
fn groups<T>(
    items: &[T],
    chunk: impl Fn(&T) -> Option<ModuleAddress>,
) -> Vec<(ModuleAddress, Range<usize>)> {
    let mut groups: Vec<(ModuleAddress, Range<usize>)> = Vec::new();
    for (number, item) in items.iter().enumerate() {
        match (chunk(item), groups.last_mut()) {
            (Some(chunk), Some((last, range))) if *last == chunk && range.end == number => {
                range.end += 1;
            }
            (Some(chunk), _) => groups.push((chunk, number..number + 1)),
            (None, _) => {}
        }
    }
    groups
}

impl<D: ModuleDevice> PimTreeHost<D> {
    /// Returns true if the imbalance of modules is so great that pulling chunks pays off.
    fn is_biased(&self, groups: &[(ModuleAddress, Range<usize>)]) -> bool {
        let modules = self.modules();
        let mut loads = vec![0; modules];
        for (chunk, range) in groups {
            loads[chunk.module()] += range.len();
        }
        let (most, all) = (loads.iter().max(), loads.iter().sum::<usize>());
        most.is_some_and(|most| most * modules >= BIAS * all && all > 0)
    }

    /// Finds the chunks of sorted keys in three rounds at most, and the whole path of those for
    /// which `whole` returns true. Takes O(n) on the host.
    ///
    /// # Errors
    /// A round was refused. A module's failure is an error of its keys.
    pub(super) fn locate(
        &mut self,
        keys: &[u64],
        whole: impl Fn(usize) -> bool,
    ) -> Result<Vec<Result<ChunkPath, OperationError>>, OperationError> {
        debug_assert!(keys.is_sorted());
        let mut paths = self.uppers(keys)?;
        let chunk = |level: usize| {
            move |path: &Result<ChunkPath, OperationError>| {
                let address = path.as_ref().ok()?.chunks[level];
                (address != ModuleAddress::NONE).then_some(address)
            }
        };
        let mut upper = groups(&paths, chunk(2));
        let is_biased = self.is_biased(&upper);
        if is_biased {
            let hot = |group: &(ModuleAddress, Range<usize>)| group.1.len() > PULLED;
            let pulled: Vec<_> = upper.iter().filter(|&group| hot(group)).cloned().collect();
            upper.retain(|group| !hot(group));
            self.pull_into(keys, &mut paths, &pulled, 2)?;
        }
        // Without bias the shadows lead from level 2 to level 0 within the module, and level 1 is
        // never asked.
        let lower: Vec<_> = match is_biased {
            true => groups(&paths, chunk(1)),
            false => Vec::new(),
        };
        let mut outbox = Outbox::new(self.modules());
        let limit = if is_biased { PULLED } else { PUSHED };
        let mut pushed = Vec::with_capacity(upper.len());
        for (chunk, range) in upper {
            let mut start = range.start;
            while start < range.end {
                let part = start..range.end.min(start + limit);
                start = part.end;
                let bits = part.clone().filter(|&number| whole(number));
                let bits = bits.fold(0, |bits, number| bits | 1_u64 << (number - part.start));
                let kind = if bits == 0 {
                    ChunkTaskKind::Search
                } else {
                    ChunkTaskKind::Path
                };
                let words = outbox.at(chunk.module(), kind, part.len(), chunk.local());
                if bits != 0 {
                    words.push(bits);
                }
                words.extend_from_slice(&keys[part.clone()]);
                pushed.push((chunk, part, bits));
            }
        }
        let (mut pulled, mut cold) = (Vec::new(), Vec::new());
        for (chunk, range) in lower {
            if range.len() > PULLED {
                outbox.item(
                    chunk.module(),
                    ChunkTaskKind::Pull,
                    &[chunk.0 & u64::from(u32::MAX)],
                );
                pulled.push((chunk, range));
            } else {
                let words = outbox.at(
                    chunk.module(),
                    ChunkTaskKind::Search,
                    range.len(),
                    chunk.local(),
                );
                words.extend_from_slice(&keys[range.clone()]);
                cold.push((chunk, range));
            }
        }
        // A module's results come in the order of its tasks: first those of level 2, then those of
        // level 1.
        let order = self.pull_order(pushed, cold, pulled);
        let mut inbox = self.round(outbox)?;
        for (chunk, range, what) in order {
            let module = chunk.module();
            match what {
                ChunkRequest::Pushed(bits) => {
                    for (place, number) in range.enumerate() {
                        let is_whole = bits >> place & 1 == 1;
                        let found = inbox.take(module, if is_whole { 3 } else { 1 });
                        settle(&mut paths[number], keys[number], found, is_whole);
                    }
                }
                ChunkRequest::Pulled => {
                    let content = PulledChunk::take(&mut inbox, module, 1);
                    self.pulled += 1;
                    self.searched(range.len());
                    descend(keys, &mut paths, range, &content, 1);
                }
            }
        }
        Ok(paths)
    }

    /// Returns the requests in the order of the modules' results.
    fn pull_order(
        &self,
        pushed: Vec<(ModuleAddress, Range<usize>, u64)>,
        cold: Vec<(ModuleAddress, Range<usize>)>,
        pulled: Vec<(ModuleAddress, Range<usize>)>,
    ) -> Vec<(ModuleAddress, Range<usize>, ChunkRequest)> {
        let mut order: Vec<_> = pushed
            .into_iter()
            .map(|(chunk, range, bits)| (chunk, range, ChunkRequest::Pushed(bits)))
            .collect();
        let lower = cold
            .into_iter()
            .map(|(chunk, range)| (chunk, range, ChunkRequest::Pushed(0)));
        let pulled = pulled
            .into_iter()
            .map(|(chunk, range)| (chunk, range, ChunkRequest::Pulled));
        let start = order.len();
        order.extend(lower);
        order.extend(pulled);
        // Tasks of level 1 were added in the order of keys, pulled or not.
        order[start..].sort_by_key(|asked| asked.1.start);
        order
    }

    /// Finds the chunks of level 2. Every module knows them, so each module searches its share of
    /// the keys.
    fn uppers(
        &mut self,
        keys: &[u64],
    ) -> Result<Vec<Result<ChunkPath, OperationError>>, OperationError> {
        let modules = self.modules();
        let each = keys.len().div_ceil(modules).max(1);
        let mut outbox = Outbox::new(modules);
        for (module, keys) in keys.chunks(each).enumerate() {
            let words = outbox.at(module, ChunkTaskKind::Upper, keys.len(), 0);
            words.extend_from_slice(keys);
        }
        let mut inbox = self.round(outbox)?;
        let mut paths = Vec::with_capacity(keys.len());
        for (number, &key) in keys.iter().enumerate() {
            let found = inbox.word(number / each);
            paths.push(match found.map(address) {
                Ok(Some(chunk)) => Ok(ChunkPath {
                    chunks: [ModuleAddress::NONE, ModuleAddress::NONE, chunk],
                    shadow: 0,
                }),
                Ok(None) => Err(lost(key)),
                Err(error) => Err(unknown(&error)),
            });
        }
        Ok(paths)
    }

    /// Pulls chunks of a level in a separate round, and searches them on the host.
    fn pull_into(
        &mut self,
        keys: &[u64],
        paths: &mut [Result<ChunkPath, OperationError>],
        groups: &[(ModuleAddress, Range<usize>)],
        level: usize,
    ) -> Result<(), OperationError> {
        if groups.is_empty() {
            return Ok(());
        }
        let mut outbox = Outbox::new(self.modules());
        for (chunk, _) in groups {
            outbox.item(chunk.module(), ChunkTaskKind::Pull, &[chunk.local().into()]);
        }
        let mut inbox = self.round(outbox)?;
        self.pulled += groups.len() as u64;
        for (chunk, range) in groups {
            let content = PulledChunk::take(&mut inbox, chunk.module(), level);
            self.searched(range.len());
            descend(keys, paths, range.clone(), &content, level);
        }
        Ok(())
    }

    /// Finds the data nodes of neighbours, from chunks of level 0. Takes one round.
    ///
    /// # Errors
    /// As for [`locate`](PimTreeHost::locate).
    pub(super) fn neighbours(
        &mut self,
        wanted: &[(u64, NeighbourSide)],
        paths: &[Result<ChunkPath, OperationError>],
    ) -> Result<Vec<Neighbour>, OperationError> {
        debug_assert_eq!(wanted.len(), paths.len());
        let lowest = |path: &Result<ChunkPath, OperationError>| {
            path.as_ref().ok().map(|path| path.chunks[0])
        };
        let groups = groups(paths, lowest);
        let is_biased = self.is_biased(&groups);
        let mut outbox = Outbox::new(self.modules());
        for (chunk, range) in &groups {
            if is_biased && range.len() > PULLED {
                outbox.item(chunk.module(), ChunkTaskKind::Pull, &[chunk.local().into()]);
                continue;
            }
            for part in wanted[range.clone()].chunks(PUSHED) {
                // Both sides of a part are adjacent in the output, so they are read in this order,
                // too.
                for (side, kind) in [
                    (NeighbourSide::Below, ChunkTaskKind::Floor),
                    (NeighbourSide::Above, ChunkTaskKind::Ceiling),
                ] {
                    let keys = part.iter().filter(|wanted| wanted.1 == side);
                    let count = keys.clone().count();
                    if count > 0 {
                        let words = outbox.at(chunk.module(), kind, count, chunk.local());
                        words.extend(keys.map(|&(key, _)| key));
                    }
                }
            }
        }
        let mut inbox = self.round(outbox)?;
        let errors = paths
            .iter()
            .zip(wanted)
            .map(|(path, &(key, _))| match path {
                Ok(_) => Neighbour::Lost(lost(key)),
                Err(error) => Neighbour::Lost(error.clone()),
            });
        let mut found: Vec<Neighbour> = errors.collect();
        for (chunk, range) in groups {
            let module = chunk.module();
            if is_biased && range.len() > PULLED {
                self.pulled += 1;
                self.searched(range.len());
                let content = PulledChunk::take(&mut inbox, module, 0);
                for number in range {
                    found[number] = match &content {
                        Ok(content) => beside(content, wanted[number]),
                        Err(error) => Neighbour::Lost(unknown(error)),
                    };
                }
                continue;
            }
            let mut start = range.start;
            for part in wanted[range].chunks(PUSHED) {
                for side in [NeighbourSide::Below, NeighbourSide::Above] {
                    for (number, &(key, of)) in (start..).zip(part) {
                        if of == side {
                            found[number] = neighbour(&mut inbox, module, key, side);
                        }
                    }
                }
                start += part.len();
            }
        }
        Ok(found)
    }
}

/// A request to a chunk.
enum ChunkRequest {
    /// A search of keys, with a bit for each whose whole path is wanted.
    Pushed(u64),
    /// A read of the whole content.
    Pulled,
}

/// Records a module's search result for a key.
fn settle(
    path: &mut Result<ChunkPath, OperationError>,
    key: u64,
    found: Result<&[u64], ModuleError>,
    is_whole: bool,
) {
    let Ok(known) = path else {
        return;
    };
    match found {
        Ok(words) => match address(words[0]) {
            Some(chunk) => {
                known.chunks[0] = chunk;
                if is_whole {
                    known.chunks[1] = ModuleAddress(words[1]);
                    known.shadow = words[2] as u32;
                }
            }
            None => *path = Err(lost(key)),
        },
        Err(error) => *path = Err(unknown(&error)),
    }
}

/// Searches a pulled chunk of a level.
fn descend(
    keys: &[u64],
    paths: &mut [Result<ChunkPath, OperationError>],
    range: Range<usize>,
    content: &Result<PulledChunk, ModuleError>,
    level: usize,
) {
    for number in range {
        let Ok(path) = &mut paths[number] else {
            continue;
        };
        match content.as_ref().map(|content| content.floor(keys[number])) {
            Ok(Some((_, chunk, shadow))) => {
                path.chunks[level - 1] = chunk;
                if level == 2 {
                    path.shadow = shadow;
                }
            }
            Ok(None) => paths[number] = Err(lost(keys[number])),
            Err(error) => paths[number] = Err(unknown(error)),
        }
    }
}

/// Returns the neighbour of a key in a pulled chunk of level 0.
fn beside(content: &PulledChunk, (key, side): (u64, NeighbourSide)) -> Neighbour {
    // A chunk that does not cover the key was reached through a parent whose module failed.
    if !content.covers(key) {
        return Neighbour::Lost(lost(key));
    }
    let entries = &content.entries;
    match side {
        NeighbourSide::Below => match content.floor(key) {
            Some((_, node, _)) => Neighbour::At(node),
            None => left_of(content.first),
        },
        NeighbourSide::Above => {
            let found = entries.get(entries.partition_point(|entry| entry.0 < key));
            match found {
                Some(&(_, node, _)) => Neighbour::At(node),
                None => right_of(content.bound),
            }
        }
    }
}

/// Returns the neighbour to the left of a chunk.
fn left_of(first: u64) -> Neighbour {
    first.checked_sub(1).map_or(Neighbour::None, Neighbour::Of)
}

/// Returns the neighbour to the right of a chunk.
fn right_of(bound: u64) -> Neighbour {
    match bound {
        0 => Neighbour::None,
        bound => Neighbour::Of(bound),
    }
}

/// Reads a module's result for the neighbour of a key.
fn neighbour(inbox: &mut PimTreeInbox, module: usize, key: u64, side: NeighbourSide) -> Neighbour {
    let found = inbox.word(module).and_then(|word| match (word, side) {
        (0, NeighbourSide::Below) => Ok(Neighbour::None),
        (LEFT, NeighbourSide::Below) => inbox.word(module).map(left_of),
        (0, NeighbourSide::Above) => inbox.word(module).map(right_of),
        (word, _) => Ok(address(word).map_or_else(|| Neighbour::Lost(lost(key)), Neighbour::At)),
    });
    found.unwrap_or_else(|error| Neighbour::Lost(unknown(&error)))
}
