//! Chunks: nodes of a level, in the bank of a module.
//!
//! ```text
//! header  | mark 32, level 32 | first key | bound | count | blocks | where the first is | - | - |
//! block   | next, 16 keys | next, 16 addresses | next, 16 shadows |
//! ```
//!
//! A chunk has the keys from its first up to its bound, which is the first key of the chunk to its
//! right, or 0 if there is none. Entries are not sorted: a search copies all blocks, with all three
//! arrays, and compares all keys. Source: the published program (`dpu/bnode.h`); ours copies the
//! three arrays from the bank at once.

use super::address::ModuleAddress;
use nearfield_pim::device::{Module, ProgramFault, WorkMeter};

/// Number of entries in a block.
const WIDTH: usize = 16;
/// Number of words of a block's array: the address of the next block, and the entries.
const ARRAY_WORDS: usize = WIDTH + 1;
const BLOCK_WORDS: usize = 3 * ARRAY_WORDS;
const HEADER_WORDS: usize = 8;
/// The start of a chunk's header; a freed block does not have it.
const MARK: u64 = 0xc4a9_1e57;
/// Numbers of instructions for each node of a path, and for each key compared in a block.
/// *Assumed*.
const INSTRUCTIONS_PER_BLOCK: u64 = 24;
const INSTRUCTIONS_PER_KEY: u64 = 6;

/// A chunk, by the address of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PimTreeChunk(pub u32);

/// A chunk's entry for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PimTreeEntry {
    pub key: u64,
    /// The data node of the key, or its chunk one level lower.
    pub address: ModuleAddress,
    /// The copy of that chunk in this module, for entries of level 2.
    pub shadow: u32,
}

impl PimTreeEntry {
    pub const NONE: PimTreeEntry = PimTreeEntry {
        key: 0,
        address: ModuleAddress::NONE,
        shadow: 0,
    };
}

/// A change of a chunk.
#[derive(Debug, Default)]
pub(super) struct ChunkChange<'w> {
    /// The key from which on entries are dropped.
    pub truncate: Option<u64>,
    pub bound: Option<u64>,
    pub removes: &'w [u64],
    /// New entries: key and address and, if `is_wide`, the shadow.
    pub adds: &'w [u64],
    pub is_wide: bool,
    /// True if the change may have been made already.
    pub is_again: bool,
}

/// A chunk's header.
#[derive(Clone, Copy, Debug)]
pub(super) struct PimTreeHeader {
    pub level: usize,
    pub first: u64,
    pub bound: u64,
    pub count: usize,
    blocks: usize,
    block: u32,
}

impl PimTreeHeader {
    /// Returns true if a key is in the chunk's range.
    pub fn covers(&self, key: u64) -> bool {
        key >= self.first && (self.bound == 0 || key < self.bound)
    }

    /// Returns the number of bytes of the chunk.
    pub fn bytes(&self) -> u64 {
        (HEADER_WORDS + self.blocks * BLOCK_WORDS) as u64 * 8
    }
}

impl PimTreeChunk {
    /// Creates a chunk without entries, with room for `capacity` of them.
    ///
    /// # Errors
    /// `BankFull` if the bank has no room.
    pub fn create<M: WorkMeter>(
        module: &mut Module<'_, M>,
        level: usize,
        first: u64,
        capacity: usize,
    ) -> Result<PimTreeChunk, ProgramFault> {
        let chunk = PimTreeChunk(module.allocate(HEADER_WORDS)?);
        module.write(chunk.0, &[MARK << 32 | level as u64, first, 0, 0, 0, 0]);
        match chunk.reserve(module, capacity.max(1)) {
            Ok(()) => Ok(chunk),
            Err(fault) => {
                // The header names the blocks that were allocated so far, so they are freed with
                // it.
                chunk.free(module, first);
                Err(fault)
            }
        }
    }

    /// Reads the header. Returns `None` if there is no chunk.
    pub fn header<M: WorkMeter>(self, module: &mut Module<'_, M>) -> Option<PimTreeHeader> {
        module.hop();
        module.instructions(INSTRUCTIONS_PER_BLOCK);
        let words = module.read(self.0, HEADER_WORDS);
        (words[0] >> 32 == MARK).then(|| PimTreeHeader {
            level: words[0] as u32 as usize,
            first: words[1],
            bound: words[2],
            count: words[3] as usize,
            blocks: words[4] as usize,
            block: words[5] as u32,
        })
    }

    fn set<M: WorkMeter>(self, module: &mut Module<'_, M>, header: &PimTreeHeader) {
        debug_assert!(header.count <= header.blocks * WIDTH);
        let words = [
            header.bound,
            header.count as u64,
            header.blocks as u64,
            header.block.into(),
        ];
        module.write(self.0 + 2, &words);
    }

    /// Makes room for `more` entries.
    ///
    /// # Errors
    /// `BankFull` if the bank has no room. The blocks allocated so far stay with the chunk.
    pub fn reserve<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        more: usize,
    ) -> Result<(), ProgramFault> {
        let Some(mut header) = self.header(module) else {
            return Ok(());
        };
        let wanted = (header.count + more).div_ceil(WIDTH);
        if header.blocks >= wanted {
            return Ok(());
        }
        // The header has no address of the last block, because changes need it rarely.
        let mut last = header.block;
        for _ in 1..header.blocks {
            last = module.read(last, 1)[0] as u32;
        }
        while header.blocks < wanted {
            let block = module.allocate(BLOCK_WORDS)?;
            match last {
                0 => header.block = block,
                last => module.write(last, &[block.into()]),
            }
            last = block;
            header.blocks += 1;
            // The header is written after each block, so that a full bank leaves no block without
            // an owner.
            self.set(module, &header);
        }
        Ok(())
    }

    /// Copies the blocks one by one, and passes the addresses of those in use with their numbers of
    /// entries to `work`.
    fn each<M: WorkMeter>(
        module: &mut Module<'_, M>,
        header: &PimTreeHeader,
        mut work: impl FnMut(&Module<'_, M>, u32, usize),
    ) {
        let (mut block, mut left) = (header.block, header.count);
        while left > 0 && block != 0 {
            module.instructions(INSTRUCTIONS_PER_BLOCK);
            // The published program compares keys of whole blocks, so all arrays are copied even
            // where one would do.
            for array in 0..3 {
                module.read(block + array * ARRAY_WORDS as u32, ARRAY_WORDS);
            }
            let here = left.min(WIDTH);
            work(module, block, here);
            left -= here;
            block = module.peek(block, 1)[0] as u32;
        }
    }

    /// Returns an entry of a block that was copied.
    fn entry<M: WorkMeter>(module: &Module<'_, M>, block: u32, number: usize) -> PimTreeEntry {
        let words = module.peek(block, BLOCK_WORDS);
        PimTreeEntry {
            key: words[1 + number],
            address: ModuleAddress(words[ARRAY_WORDS + 1 + number]),
            shadow: words[2 * ARRAY_WORDS + 1 + number] as u32,
        }
    }

    /// Returns all entries.
    pub fn entries<M: WorkMeter>(
        module: &mut Module<'_, M>,
        header: &PimTreeHeader,
    ) -> Vec<PimTreeEntry> {
        let mut entries = Vec::with_capacity(header.count);
        Self::each(module, header, |module, block, here| {
            entries.extend((0..here).map(|number| Self::entry(module, block, number)));
        });
        entries
    }

    /// Finds for each key the entry with the greatest key at or below it or, if `above`, with the
    /// least key at or above it. The result is `None` if there is none. Finds nothing if some of
    /// `keys` are outside the chunk's range.
    pub fn search<M: WorkMeter>(
        module: &mut Module<'_, M>,
        header: &PimTreeHeader,
        keys: &[u64],
        above: bool,
        found: &mut Vec<Option<PimTreeEntry>>,
    ) {
        found.clear();
        found.resize(keys.len(), None);
        let mut compares = 0;
        Self::each(module, header, |module, block, here| {
            let words = module.peek(block, ARRAY_WORDS);
            for (number, &key) in words[1..=here].iter().enumerate() {
                compares += keys.len();
                for (&wanted, found) in keys.iter().zip(&mut *found) {
                    let is_nearer = match (above, &*found) {
                        (false, None) => key <= wanted,
                        (false, Some(entry)) => key <= wanted && key > entry.key,
                        (true, None) => key >= wanted,
                        (true, Some(entry)) => key >= wanted && key < entry.key,
                    };
                    if is_nearer {
                        *found = Some(Self::entry(module, block, number));
                    }
                }
            }
        });
        // The module cannot be charged within the walk, which has it borrowed.
        for _ in 0..compares {
            module.compare();
        }
        module.instructions(compares as u64 * INSTRUCTIONS_PER_KEY);
    }

    /// Changes the chunk. Needs no more room than was reserved, and has no effect if it is
    /// repeated.
    ///
    /// # Errors
    /// `BankFull` if not enough room was reserved, and the bank has none.
    pub fn change<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        change: &ChunkChange<'_>,
    ) -> Result<(), ProgramFault> {
        let Some(mut header) = self.header(module) else {
            return Ok(());
        };
        let dropped = |entry: &PimTreeEntry| {
            change.truncate.is_some_and(|from| entry.key >= from)
                || change.removes.contains(&entry.key)
        };
        let words = if change.is_wide { 3 } else { 2 };
        debug_assert!(change.adds.len().is_multiple_of(words));
        let adds = change.adds.chunks_exact(words).map(|add| PimTreeEntry {
            key: add[0],
            address: ModuleAddress(add[1]),
            shadow: add.get(2).map_or(0, |&shadow| shadow as u32),
        });
        if change.truncate.is_none() && change.removes.is_empty() && !change.is_again {
            // New keys are certainly absent, so no entry is read. A repeated task may find them
            // present.
            self.append(module, &mut header, adds)?;
        } else {
            let mut entries = Self::entries(module, &header);
            module.instructions(entries.len() as u64 * INSTRUCTIONS_PER_KEY);
            for entry in &mut entries {
                if dropped(entry) {
                    // The shadow belongs to the entry alone, so nothing else leads to it.
                    Self::free_shadow(module, entry.shadow);
                    entry.address = ModuleAddress::NONE;
                }
            }
            entries.retain(|entry| entry.address != ModuleAddress::NONE);
            for add in adds {
                match entries.iter_mut().find(|entry| entry.key == add.key) {
                    Some(entry) => *entry = add,
                    None => entries.push(add),
                }
            }
            header.count = 0;
            self.append(module, &mut header, entries.into_iter())?;
            self.trim(module, &mut header);
        }
        if let Some(bound) = change.bound {
            header.bound = bound;
        }
        self.set(module, &header);
        Ok(())
    }

    /// Appends entries.
    fn append<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        header: &mut PimTreeHeader,
        entries: impl ExactSizeIterator<Item = PimTreeEntry>,
    ) -> Result<(), ProgramFault> {
        if header.blocks * WIDTH < header.count + entries.len() {
            // `reserve` reads the header from the bank, where the count may be an older one.
            self.set(module, header);
            self.reserve(module, entries.len())?;
            if let Some(grown) = self.header(module) {
                (header.blocks, header.block) = (grown.blocks, grown.block);
            }
        }
        let mut block = header.block;
        for _ in 0..header.count / WIDTH {
            block = module.read(block, 1)[0] as u32;
        }
        for entry in entries {
            let number = header.count % WIDTH;
            let at = block + 1 + number as u32;
            module.write(at, &[entry.key]);
            module.write(at + ARRAY_WORDS as u32, &[entry.address.0]);
            module.write(at + 2 * ARRAY_WORDS as u32, &[entry.shadow.into()]);
            header.count += 1;
            if number + 1 == WIDTH {
                block = module.read(block, 1)[0] as u32;
            }
        }
        Ok(())
    }

    /// Frees all empty blocks except one.
    fn trim<M: WorkMeter>(self, module: &mut Module<'_, M>, header: &mut PimTreeHeader) {
        // One block is kept, so that an empty chunk has a place for its next entry.
        let wanted = header.count.div_ceil(WIDTH).max(1);
        let mut last = header.block;
        for _ in 1..wanted.min(header.blocks) {
            last = module.read(last, 1)[0] as u32;
        }
        let mut block = module.read(last, 1)[0] as u32;
        module.write(last, &[0]);
        while block != 0 {
            let next = module.read(block, 1)[0] as u32;
            module.free(block, BLOCK_WORDS);
            block = next;
        }
        header.blocks = header.blocks.min(wanted);
    }

    fn free_shadow<M: WorkMeter>(module: &mut Module<'_, M>, shadow: u32) {
        if shadow != 0
            && let Some(header) = PimTreeChunk(shadow).header(module)
        {
            PimTreeChunk(shadow).free(module, header.first);
        }
    }

    /// Frees the chunk with its shadows, if there is a chunk at the address that begins with
    /// `first`.
    pub fn free<M: WorkMeter>(self, module: &mut Module<'_, M>, first: u64) {
        let Some(header) = self.header(module) else {
            return;
        };
        // A repeated task may find another chunk at the address, which must stay.
        if header.first != first {
            return;
        }
        if header.level == 2 {
            for entry in Self::entries(module, &header) {
                Self::free_shadow(module, entry.shadow);
            }
        }
        let mut block = header.block;
        while block != 0 {
            let next = module.read(block, 1)[0] as u32;
            module.free(block, BLOCK_WORDS);
            block = next;
        }
        module.free(self.0, HEADER_WORDS);
    }
}
