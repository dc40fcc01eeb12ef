//! The program of modules.

use super::address::{ModuleAddress, height};
use super::chunk::{ChunkChange, PimTreeChunk, PimTreeEntry, PimTreeHeader};
use super::task::{BOUNDS, ChunkTaskKind, LEFT, LOST, TRUNCATES, WIDE};
use super::upper::{self, Upper};
use crate::hash_table::{self, PimHashTable};
use nearfield_pim::device::{Module, ModuleProgram, ProgramFault, WorkMeter};
use nearfield_pim::dispatch::kernel::INSTRUCTIONS_PER_TASK;

/// Number of words of a data node: key, value and height.
const DATA_WORDS: usize = 3;
/// Number of instructions for each key of a task with many: reading it, and writing the result.
/// *Assumed*.
const INSTRUCTIONS_PER_KEY: u64 = 20;

/// The program that executes tasks.
pub(super) struct PimTreeProgram;

/// The parts of a module. The processor keeps their headers.
struct PimTreeModule {
    upper: Upper,
    table: PimHashTable,
    /// The results of a search in a chunk, kept to reuse the memory.
    found: Vec<Option<PimTreeEntry>>,
    /// True if the following tasks may have been executed already.
    is_again: bool,
    /// Number of data nodes that are not in the table yet.
    coming: u64,
}

impl ModuleProgram for PimTreeProgram {
    fn run<M: WorkMeter>(
        &self,
        module: &mut Module<'_, M>,
        input: &[u64],
        output: &mut Vec<u64>,
    ) -> Result<(), ProgramFault> {
        if input.is_empty() {
            return Ok(());
        }
        // Headers of upper part and table lie side by side, so one word leads to both.
        if module.root() == 0 {
            let root = module.allocate(upper::HEADER_WORDS + hash_table::HEADER_WORDS)?;
            module.set_root(root.into());
        }
        let root = module.root() as u32;
        let mut parts = PimTreeModule {
            upper: Upper(root),
            table: PimHashTable::at(root + upper::HEADER_WORDS as u32),
            found: Vec::new(),
            is_again: false,
            coming: 0,
        };
        let mut number = 0;
        let mut rest = input;
        while let Some((&header, behind)) = rest.split_first() {
            let unknown = ProgramFault::Input {
                word: input.len() - rest.len(),
                value: header,
            };
            let Some((kind, count, at)) = ChunkTaskKind::split(header) else {
                return Err(unknown);
            };
            rest = behind;
            let words = match kind {
                ChunkTaskKind::Change => change_words(rest, count),
                ChunkTaskKind::Path => Some(count + 1),
                kind => count.checked_mul(kind.words()),
            };
            let Some((items, behind)) = words.and_then(|words| rest.split_at_checked(words)) else {
                return Err(unknown);
            };
            rest = behind;
            // Items without a chunk are tasks of their own, and may run in different threads. Those
            // of a chunk share its copy.
            if at == 0 {
                for item in items.chunks_exact(kind.words()) {
                    module.begin(number);
                    module.instructions(INSTRUCTIONS_PER_TASK);
                    number += 1;
                    parts.item(module, kind, item, output)?;
                }
            } else {
                module.begin(number);
                module.instructions(INSTRUCTIONS_PER_TASK + count as u64 * INSTRUCTIONS_PER_KEY);
                number += 1;
                parts.at_chunk(module, kind, PimTreeChunk(at), items, output)?;
            }
        }
        Ok(())
    }
}

/// Returns the number of words of a change with this many entries.
fn change_words(words: &[u64], count: usize) -> Option<usize> {
    let &flags = words.first()?;
    let has = |bit: u64| usize::from(flags & bit != 0);
    let entries = count * (2 + has(WIDE));
    Some(1 + has(TRUNCATES) + has(BOUNDS) + flags as u32 as usize + entries)
}

impl PimTreeModule {
    /// Executes a task that does not belong to one chunk.
    fn item<M: WorkMeter>(
        &mut self,
        module: &mut Module<'_, M>,
        kind: ChunkTaskKind,
        item: &[u64],
        output: &mut Vec<u64>,
    ) -> Result<(), ProgramFault> {
        match (kind, item) {
            (ChunkTaskKind::Probe, &[key]) => _ = self.probe(module, key, output),
            (ChunkTaskKind::Set, &[key, value]) => {
                if let Some((node, _)) = self.probe(module, key, output) {
                    module.write(node + 1, &[value]);
                }
            }
            (ChunkTaskKind::Swap, &[key, previous, value]) => {
                if let Some((node, before)) = self.probe(module, key, output)
                    && before == previous
                {
                    module.write(node + 1, &[value]);
                }
            }
            (ChunkTaskKind::Upper, &[key]) => {
                let chunk = self.upper.floor(module, key);
                output.push(chunk.map_or(LOST, |chunk| chunk.0));
            }
            (ChunkTaskKind::UpperRange, &[from, to, wanted]) => {
                let mut found = Vec::new();
                let (limit, descends) = (wanted as u32 as usize, wanted >> 32 != 0);
                self.upper
                    .range(module, (from, to), limit, descends, &mut found);
                output.push(found.len() as u64);
                output.extend(found.iter().flat_map(|&(key, chunk)| [key, chunk]));
            }
            (ChunkTaskKind::Fetch, &[node]) => {
                module.hop();
                output.extend_from_slice(module.read(node as u32, 2));
            }
            (ChunkTaskKind::Pull, &[chunk]) => _ = pull(module, PimTreeChunk(chunk as u32), output),
            (ChunkTaskKind::PullDeep, &[chunk, from]) => {
                for entry in pull(module, PimTreeChunk(chunk as u32), output) {
                    if entry.key >= from {
                        shadow(module, entry, output);
                    }
                }
            }
            (ChunkTaskKind::NewData, &[key, value]) => {
                let node = self.new_data(module, key, value);
                output.push(node.map_or(0, u64::from));
            }
            (ChunkTaskKind::NewChunk, &[level, first, capacity]) => {
                let chunk = PimTreeChunk::create(module, level as usize, first, capacity as usize);
                output.push(chunk.map_or(0, |chunk| chunk.0.into()));
            }
            (ChunkTaskKind::Reserve, &[chunk, more]) => {
                let reserved = PimTreeChunk(chunk as u32).reserve(module, more as usize);
                output.push(reserved.is_ok().into());
            }
            (ChunkTaskKind::ReserveUpper, &[more]) => {
                let reserved = self.upper.reserve(module, more);
                output.push(reserved.is_ok().into());
            }
            (ChunkTaskKind::FreeChunk, &[chunk, first]) => {
                PimTreeChunk(chunk as u32).free(module, first)
            }
            (ChunkTaskKind::FreeData, &[node, key]) => {
                // The node may be freed already, and its words used for another.
                if module.read(node as u32, 1)[0] == key {
                    module.free(node as u32, DATA_WORDS);
                }
            }
            (ChunkTaskKind::Put, &[node]) => {
                let key = module.read(node as u32, 1)[0];
                self.table.put(module, key, node as u32)?;
            }
            (ChunkTaskKind::Delete, &[key]) => {
                if let Some(node) = self.table.remove(module, key) {
                    module.free(node, DATA_WORDS);
                }
            }
            (ChunkTaskKind::UpperInsert, &[key, chunk]) => self.upper.insert(module, key, chunk)?,
            (ChunkTaskKind::UpperRemove, &[key]) => self.upper.remove(module, key),
            (ChunkTaskKind::Release, _) => self.upper.release(module),
            (ChunkTaskKind::Again, _) => self.is_again = item != [0],
            (ChunkTaskKind::Measure, &[0]) => {
                let (keys, slots) = self.table.size(module);
                let data = keys * DATA_WORDS as u64 * 8;
                output.extend([
                    data,
                    slots * 8,
                    self.upper.bytes(module),
                    module.used_bytes(),
                ]);
            }
            (ChunkTaskKind::Measure, &[chunk]) => {
                let header = PimTreeChunk(chunk as u32).header(module);
                let entries =
                    header.map_or_else(Vec::new, |header| PimTreeChunk::entries(module, &header));
                let shadows = entries.iter().filter(|entry| entry.shadow != 0);
                let headers = shadows.filter_map(|entry| PimTreeChunk(entry.shadow).header(module));
                output.push(headers.map(|header| header.bytes()).sum());
            }
            _ => {
                return Err(ProgramFault::Input {
                    word: 0,
                    value: kind.header(1, 0),
                });
            }
        }
        Ok(())
    }

    /// Looks up a key, outputs its entry, and returns its node and value.
    fn probe<M: WorkMeter>(
        &self,
        module: &mut Module<'_, M>,
        key: u64,
        output: &mut Vec<u64>,
    ) -> Option<(u32, u64)> {
        let node = self.table.find(module, key);
        // The value was copied with the key.
        let found = node.map(|node| (node, module.peek(node + 1, 1)[0]));
        output.extend([found.is_some().into(), found.map_or(0, |(_, value)| value)]);
        found
    }

    /// Creates a data node, and makes room for it in the table.
    fn new_data<M: WorkMeter>(
        &mut self,
        module: &mut Module<'_, M>,
        key: u64,
        value: u64,
    ) -> Result<u32, ProgramFault> {
        let node = module.allocate(DATA_WORDS)?;
        if let Err(fault) = self.table.reserve(module, self.coming + 1) {
            module.free(node, DATA_WORDS);
            return Err(fault);
        }
        // The room must suffice for all nodes that are prepared before the first is put into the
        // table.
        self.coming += 1;
        module.write(node, &[key, value, height(key).into()]);
        Ok(node)
    }

    /// Executes a task of one chunk.
    fn at_chunk<M: WorkMeter>(
        &mut self,
        module: &mut Module<'_, M>,
        kind: ChunkTaskKind,
        chunk: PimTreeChunk,
        items: &[u64],
        output: &mut Vec<u64>,
    ) -> Result<(), ProgramFault> {
        if kind == ChunkTaskKind::Change {
            return change(module, chunk, items, self.is_again);
        }
        let header = chunk.header(module);
        match (kind, items) {
            (ChunkTaskKind::Search, keys) => self.search(module, header, keys, 0, output),
            (ChunkTaskKind::Path, [paths, keys @ ..]) => {
                self.search(module, header, keys, *paths, output)
            }
            (ChunkTaskKind::Floor | ChunkTaskKind::Ceiling, keys) => {
                let is_ceiling = kind == ChunkTaskKind::Ceiling;
                self.find(module, header, keys, is_ceiling);
                // The chunk may have lost its first key, so the neighbour may be to the left of it.
                let (first, bound) = header.map_or((0, 0), |header| (header.first, header.bound));
                for (found, &key) in self.found.iter().zip(keys) {
                    match found {
                        Some(entry) => output.push(entry.address.0),
                        None if header.is_none_or(|header| !header.covers(key)) => {
                            output.push(LOST);
                        }
                        None if is_ceiling => output.extend([0, bound]),
                        None if first == 0 => output.push(0),
                        None => output.extend([LEFT, first]),
                    }
                }
            }
            (ChunkTaskKind::Range, &[from, to]) => {
                let header = header.filter(|_| from <= to);
                let mut entries =
                    header.map_or_else(Vec::new, |header| PimTreeChunk::entries(module, &header));
                module.instructions(entries.len() as u64 * INSTRUCTIONS_PER_KEY);
                entries.iter().for_each(|_| module.compare());
                // Above level 0, the entry that leads to the first key may have a lesser key.
                let keys = entries.iter().map(|entry| entry.key);
                let before = keys.filter(|&key| key <= from).max();
                let least = match header {
                    Some(header) if header.level > 0 => before.unwrap_or(from),
                    _ => from,
                };
                entries.retain(|entry| entry.key >= least && entry.key <= to);
                output.push(entries.len() as u64);
                output.extend(
                    entries
                        .iter()
                        .flat_map(|entry| [entry.key, entry.address.0]),
                );
            }
            _ => {
                return Err(ProgramFault::Input {
                    word: 0,
                    value: kind.header(items.len(), chunk.0),
                });
            }
        }
        Ok(())
    }

    /// Searches keys in a chunk. Keys outside its range find nothing.
    fn find<M: WorkMeter>(
        &mut self,
        module: &mut Module<'_, M>,
        header: Option<PimTreeHeader>,
        keys: &[u64],
        above: bool,
    ) {
        match header {
            Some(header) => {
                PimTreeChunk::search(module, &header, keys, above, &mut self.found);
                for (found, &key) in self.found.iter_mut().zip(keys) {
                    *found = found.filter(|_| header.covers(key));
                }
            }
            None => {
                self.found.clear();
                self.found.resize(keys.len(), None);
            }
        }
    }

    /// Finds the chunks of level 0 of keys, from a chunk of level 2 by its shadows, or from a chunk
    /// of level 1.
    fn search<M: WorkMeter>(
        &mut self,
        module: &mut Module<'_, M>,
        header: Option<PimTreeHeader>,
        keys: &[u64],
        paths: u64,
        output: &mut Vec<u64>,
    ) {
        self.find(module, header, keys, false);
        let upper = std::mem::take(&mut self.found);
        let is_upper = header.is_some_and(|header| header.level == 2);
        let mut start = 0;
        // Sorted keys with one parent are adjacent, so each shadow is copied once.
        for group in upper.chunk_by(|one, other| one == other) {
            let here = &keys[start..start + group.len()];
            let via = group[0].unwrap_or(PimTreeEntry::NONE);
            if is_upper {
                let shadow = PimTreeChunk(via.shadow);
                let header = match via.shadow {
                    0 => None,
                    _ => shadow.header(module),
                };
                self.find(module, header, here, false);
            } else {
                self.found.clear();
                self.found.extend_from_slice(group);
            }
            for (number, found) in self.found.iter().enumerate() {
                output.push(found.map_or(LOST, |entry| entry.address.0));
                if paths >> (start + number) & 1 == 1 {
                    output.extend([via.address.0, via.shadow.into()]);
                }
            }
            start += here.len();
        }
        // The larger of the two buffers is kept.
        self.found = upper;
    }
}

/// Outputs the content of a chunk, and returns its entries.
fn pull<M: WorkMeter>(
    module: &mut Module<'_, M>,
    chunk: PimTreeChunk,
    output: &mut Vec<u64>,
) -> Vec<PimTreeEntry> {
    let Some(header) = chunk.header(module) else {
        output.extend([0, 0, 0]);
        return Vec::new();
    };
    let entries = PimTreeChunk::entries(module, &header);
    output.extend([header.first, header.bound, entries.len() as u64]);
    for entry in &entries {
        output.extend([entry.key, entry.address.0]);
        if header.level == 2 {
            output.push(entry.shadow.into());
        }
    }
    entries
}

/// Outputs the content of an entry's shadow.
fn shadow<M: WorkMeter>(module: &mut Module<'_, M>, entry: PimTreeEntry, output: &mut Vec<u64>) {
    let header = match entry.shadow {
        0 => None,
        shadow => PimTreeChunk(shadow).header(module),
    };
    let Some(header) = header else {
        output.extend([0, 0]);
        return;
    };
    let entries = PimTreeChunk::entries(module, &header);
    output.extend([header.bound, entries.len() as u64]);
    for PimTreeEntry { key, address, .. } in entries {
        output.extend([key, address.0]);
    }
}

/// Changes a chunk as encoded in `words`.
fn change<M: WorkMeter>(
    module: &mut Module<'_, M>,
    chunk: PimTreeChunk,
    words: &[u64],
    is_again: bool,
) -> Result<(), ProgramFault> {
    let mut rest = words;
    let mut next = || {
        let (&first, behind) = rest.split_first()?;
        rest = behind;
        Some(first)
    };
    let flags = next().unwrap_or(0);
    let mut change = ChunkChange {
        is_wide: flags & WIDE != 0,
        is_again,
        ..ChunkChange::default()
    };
    if flags & TRUNCATES != 0 {
        change.truncate = next();
    }
    if flags & BOUNDS != 0 {
        change.bound = next();
    }
    let (removes, adds) = rest.split_at(flags as u32 as usize);
    (change.removes, change.adds) = (removes, adds);
    chunk.change(module, &change)
}

/// Returns an address from a word that a module has sent.
pub(super) fn address(word: u64) -> Option<ModuleAddress> {
    (word != LOST && word != 0).then_some(ModuleAddress(word))
}
