//! Making and freeing blocks.

use super::header::Header;
use super::state::State;
use super::{
    BLOCK_MAX, Entry, GRANULE_BYTES, GRANULES_MAX, JUMPS_AT, LOST_AT, OFFSETS_AT, Outside,
    PRINTS_AT, STRINGS_MAX, Strings, fingerprint, header,
};
use crate::memory::Memory;
use crate::node::Ref;
use nearfield_core::Error;
use nearfield_core::packed::{PackedLengths, packed_length};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// A block that was written to is made a multiple of so many granules long, so that there is room
/// for the next entries.
const STEP_GRANULES: usize = 8;

/// Granules of a block whose entry lies outside.
const OUTSIDE_GRANULES: usize = (PRINTS_AT + size_of::<Outside>()).div_ceil(GRANULE_BYTES);

/// The bytes of a block.
fn block_length(slots: usize, entries: usize) -> usize {
    OFFSETS_AT + 2 * slots + entries
}

fn entries_length(entries: &[Entry<'_>]) -> usize {
    let packed = |entry: &Entry<'_>| packed_length(entry.0.len(), entry.1.len());
    entries.iter().map(packed).sum()
}

/// True if a block has room for entries.
pub fn fits(entries: &[Entry<'_>]) -> bool {
    entries.len() <= 1
        || entries.len() <= STRINGS_MAX
            && block_length(entries.len(), entries_length(entries)) <= BLOCK_MAX
}

/// True if entries take so little room that two blocks of them are better joined.
pub fn joins(entries: &[Entry<'_>], count_max: usize) -> bool {
    let length = block_length(entries.len(), entries_length(entries));
    entries.len() <= count_max && length <= BLOCK_MAX / 4 * 3
}

/// Creates a block of entries that [fit](fits), which no other thread can reach yet.
pub fn create(memory: &Memory, entries: &[Entry<'_>]) -> Result<Ref, Error> {
    create_as(memory, entries, false)
}

/// As [`create`], where more entries are likely to follow.
pub fn create_with_room(memory: &Memory, entries: &[Entry<'_>]) -> Result<Ref, Error> {
    create_as(memory, entries, true)
}

fn create_as(memory: &Memory, entries: &[Entry<'_>], room: bool) -> Result<Ref, Error> {
    let length = entries_length(entries);
    if block_length(entries.len(), length) > BLOCK_MAX {
        return create_outside(memory, length, entries[0]);
    }
    let mut new = NewBlock::allocate(memory, entries.len(), length, room)?;
    for &(key, value) in entries {
        new.push(fingerprint(key), key, value);
    }
    Ok(new.finish())
}

/// Creates a block as another with an entry put in the place of those from position `at` to
/// before `behind`. `None` if it has no room for them. Only under the latch of the other. Entries
/// that have become shorter are likely to be followed by more of them: such a block has no room.
pub fn create_edited(
    memory: &Memory,
    old: Strings<'_>,
    at: usize,
    behind: usize,
    (key, value): Entry<'_>,
) -> Option<Result<Ref, Error>> {
    if old.state.is_outside() {
        return None;
    }
    let count = old.count() + 1 - (behind - at);
    let own = packed_length(key.len(), value.len());
    let replaced: usize = (at..behind).map(|i| old.length_at(old.offset(i))).sum();
    let mut length = own;
    for range in [0..at, behind..old.count()] {
        old.for_runs(range, |bytes, _| length += bytes.len());
    }
    if count > STRINGS_MAX || block_length(count, length) > BLOCK_MAX {
        return None;
    }
    let mut new = match NewBlock::allocate(memory, count, length, own >= replaced) {
        Ok(new) => new,
        Err(error) => return Some(Err(error)),
    };
    new.copy(old, 0..at);
    new.push(fingerprint(key), key, value);
    new.copy(old, behind..old.count());
    Some(Ok(new.finish()))
}

/// A block that is being written, which no other thread knows.
struct NewBlock {
    leaf: Ref,
    start: *mut u8,
    granules: usize,
    slots: usize,
    count: usize,
    end: usize,
    prints: [u8; STRINGS_MAX],
}

impl NewBlock {
    /// Takes memory for a block of `count` entries of `length` bytes, and perhaps some more.
    fn allocate(
        memory: &Memory,
        count: usize,
        length: usize,
        room: bool,
    ) -> Result<NewBlock, Error> {
        let wanted = block_length(count, length);
        let mut granules = wanted.div_ceil(GRANULE_BYTES);
        if room {
            granules = granules.next_multiple_of(STEP_GRANULES).min(GRANULES_MAX);
        }
        let spare = (granules * GRANULE_BYTES - wanted) / (length.div_ceil(count) + 2);
        let leaf = memory.allocate_leaf(granules)?;
        let slots = (count + spare).min(STRINGS_MAX);
        Ok(NewBlock {
            leaf,
            start: memory.leaf_address(leaf),
            granules,
            slots,
            count: 0,
            end: block_length(slots, 0),
            prints: [0; STRINGS_MAX],
        })
    }

    /// Gives the next position to an entry that starts at an offset.
    fn add(&mut self, print: u8, offset: usize) {
        assert!(self.count < self.slots, "more entries than slots");
        self.prints[self.count] = print;
        // SAFETY: the leaf has room for the offsets of its slots, aligned, and no other thread
        // knows it.
        unsafe {
            let offsets = self.start.add(OFFSETS_AT).cast::<u16>();
            offsets.add(self.count).write(offset as u16);
        }
        self.count += 1;
    }

    /// Adds bytes of entries.
    fn write(&mut self, bytes: &[u8]) {
        assert!(
            bytes.len() <= self.granules * GRANULE_BYTES - self.end,
            "a block overflows"
        );
        // SAFETY: the leaf has room for its granules, and no other thread knows it.
        unsafe {
            let to = self.start.add(self.end);
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        self.end += bytes.len();
    }

    /// Adds an entry.
    fn push(&mut self, print: u8, key: &[u8], value: &[u8]) {
        self.add(print, self.end);
        self.write(PackedLengths::new(key.len(), value.len()).as_bytes());
        self.write(key);
        self.write(value);
    }

    /// Adds entries of another block, which is latched.
    fn copy(&mut self, old: Strings<'_>, range: Range<usize>) {
        let mut prints = [0; STRINGS_MAX];
        for (word, prints) in prints.chunks_exact_mut(8).enumerate() {
            let word = old.print_word(word).load(Ordering::Relaxed);
            prints.copy_from_slice(&word.to_le_bytes());
        }
        old.for_runs(range, |bytes, positions| {
            for position in positions {
                let offset = old.offset(position) - bytes.start + self.end;
                self.add(prints[position], offset);
            }
            // SAFETY: entries stand there, which nobody changes as long as the block is latched.
            let bytes =
                unsafe { std::slice::from_raw_parts(old.start.add(bytes.start), bytes.len()) };
            self.write(bytes);
        });
    }

    fn finish(self) -> Ref {
        let state = State::inside(self.granules, self.slots, self.count, self.end);
        write_header(self.start, state);
        // SAFETY: the leaf has room for them behind the header, and no other thread knows it.
        unsafe {
            let prints = self.start.add(PRINTS_AT).cast::<[u8; STRINGS_MAX]>();
            prints.write(self.prints);
            self.start.add(JUMPS_AT).cast::<u32>().write(0);
            self.start.add(LOST_AT).cast::<u16>().write(0);
        }
        self.leaf
    }
}

/// Creates a block of an entry that lies in memory of its own.
#[cold]
fn create_outside(memory: &Memory, length: usize, entry: Entry<'_>) -> Result<Ref, Error> {
    let leaf = memory.allocate_leaf(OUTSIDE_GRANULES)?;
    let entry = write_outside(memory, length, entry)
        .inspect_err(|_| memory.free_leaf(leaf, OUTSIDE_GRANULES))?;
    let start = memory.leaf_address(leaf);
    let outside = Outside { entry, length };
    // SAFETY: the leaf has room for it behind the header, aligned, and no other thread knows it.
    unsafe { start.add(PRINTS_AT).cast::<Outside>().write(outside) };
    write_header(start, State::outside());
    Ok(leaf)
}

fn write_outside(
    memory: &Memory,
    length: usize,
    (key, value): Entry<'_>,
) -> Result<*mut u8, Error> {
    memory.take_outside(length)?;
    let mut bytes = Vec::new();
    if let Err(error) = bytes.try_reserve_exact(length) {
        memory.free_outside(length);
        return Err(Error::OutOfMemory {
            what: format!("an entry of {length} bytes: {error}"),
        });
    }
    bytes.extend_from_slice(PackedLengths::new(key.len(), value.len()).as_bytes());
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(value);
    Ok(Box::into_raw(bytes.into_boxed_slice()).cast())
}

/// Writes the header of a block that no other thread knows.
fn write_header(start: *mut u8, state: State) {
    // SAFETY: leaves begin with room for a header, aligned, and no other thread knows this one.
    unsafe { start.cast::<Header>().write(Header::new(state)) };
}

/// Frees a block.
///
/// # Safety
/// No other thread may hold a reference to the block's keys or values, and the block is freed only
/// once.
pub unsafe fn free(memory: &Memory, leaf: Ref) {
    let state = header(memory, leaf).state();
    if !state.is_outside() {
        return memory.free_leaf(leaf, state.granules());
    }
    // SAFETY: written by `create_outside`, and not changed since.
    let Outside { entry, length } = unsafe {
        let behind = memory.leaf_address(leaf).add(PRINTS_AT);
        behind.cast::<Outside>().read()
    };
    // SAFETY: `write_outside` has made the pointer from a boxed slice of this length, and the
    // caller promises that this is its only and last use.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(entry, length)) });
    memory.free_outside(length);
    memory.free_leaf(leaf, OUTSIDE_GRANULES);
}
