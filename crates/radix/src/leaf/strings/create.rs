//! New blocks, and the end of old ones.

use super::snapshot::{Place, Snapshot};
use super::state::{Marks, Slots, State};
use super::{
    BLOCK_MAX, Entry, GRANULE_BYTES, MARKS_BYTES, OFFSETS_AT, SPARE_SHARE, STRINGS_MAX, Strings,
    below, block_length, fingerprint, marks,
};
use crate::memory::Memory;
use crate::node::Ref;
use nearfield_core::Error;
use nearfield_core::packed::{PackedLengths, packed_length};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

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
    entries.len() <= count_max
        && block_length(entries.len(), entries_length(entries)) <= BLOCK_MAX / 4 * 3
}

/// Creates a block of entries that [fit](fits), which no other thread can reach yet.
pub fn create(memory: &Memory, entries: &[Entry<'_>]) -> Result<Ref, Error> {
    let length = entries_length(entries);
    if block_length(entries.len(), length) > BLOCK_MAX {
        return create_outside(memory, length, entries[0]);
    }
    let mut new = NewBlock::allocate(memory, entries.len(), length, 0)?;
    for &(key, value) in entries {
        new.push(fingerprint(key), key, value);
    }
    Ok(new.finish())
}

/// Creates a block as another with an entry put in, in place of that of slot `replaced` if any.
/// `None` if it has no room for them.
pub fn create_edited(
    memory: &Memory,
    old: Strings<'_>,
    replaced: Option<usize>,
    (key, value): Entry<'_>,
) -> Option<Result<Ref, Error>> {
    old.prefetch_all();
    let snapshot = old.snapshot();
    let places = &snapshot.places[..snapshot.count];
    let is_replaced = |place: &Place| Some(usize::from(place.slot)) == replaced;
    let at = match replaced {
        Some(_) => places.iter().position(is_replaced).unwrap_or_default(),
        None => snapshot.partition_point(key),
    };
    let before = 0..at;
    let behind = at + usize::from(replaced.is_some())..snapshot.count;
    let added = packed_length(key.len(), value.len());
    let entries = added + snapshot.length(before.clone()) + snapshot.length(behind.clone());
    let count = before.len() + 1 + behind.len();
    if count > STRINGS_MAX || block_length(count, entries) > BLOCK_MAX {
        return None;
    }
    let mut new = match NewBlock::allocate(memory, count, entries, count / SPARE_SHARE) {
        Ok(new) => new,
        Err(error) => return Some(Err(error)),
    };
    new.copy(&snapshot, before);
    new.push(fingerprint(key), key, value);
    new.copy(&snapshot, behind);
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
    /// Takes memory for a block of `count` entries of `length` bytes, and for `spare` more of the
    /// same length if that fits.
    fn allocate(
        memory: &Memory,
        count: usize,
        length: usize,
        spare: usize,
    ) -> Result<NewBlock, Error> {
        let slots = match block_length(count + spare, length) <= BLOCK_MAX {
            true => (count + spare).min(STRINGS_MAX),
            false => count,
        };
        let room = length.div_ceil(count) * spare;
        let wanted = block_length(slots, length + room).min(BLOCK_MAX);
        let granules = wanted.div_ceil(GRANULE_BYTES);
        let leaf = memory.allocate_leaf(granules)?;
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

    /// The bytes from where the entries end.
    fn rest(&mut self) -> &mut [u8] {
        let rest = self.granules * GRANULE_BYTES - self.end;
        // SAFETY: the leaf has room for its granules, no other thread knows it, and memory of the
        // region is always initialized, at least by the system.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(self.end), rest) }
    }

    /// Gives the next slot to an entry that starts at an offset.
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

    /// Adds an entry.
    fn push(&mut self, print: u8, key: &[u8], value: &[u8]) {
        let offset = self.end;
        self.end += write(self.rest(), key, value);
        self.add(print, offset);
    }

    /// Adds entries of another block.
    fn copy(&mut self, old: &Snapshot<'_>, range: Range<usize>) {
        let mut at = self.end;
        for &place in &old.places[range.clone()] {
            let slot = usize::from(place.slot);
            let prints = old.block.slots().prints[slot / 8].load(Ordering::Relaxed);
            self.add((prints >> (8 * (slot % 8))) as u8, self.end);
            self.end += old.end(place) - usize::from(place.offset);
        }
        debug_assert!(self.end <= self.granules * GRANULE_BYTES);
        let _ = old.runs(range, |bytes, _| {
            // SAFETY: the leaf has room for its granules, of which the entries take as many bytes
            // as were added above, and no other thread knows it.
            unsafe {
                self.start
                    .add(at)
                    .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
            };
            at += bytes.len();
            ControlFlow::Continue(())
        });
    }

    fn finish(self) -> Ref {
        let words = self.prints.as_chunks::<8>().0;
        let slots = Slots {
            prints: std::array::from_fn(|i| AtomicU64::new(u64::from_le_bytes(words[i]))),
            ranks: std::array::from_fn(|_| AtomicU8::new(0)),
            granules: self.granules as u8,
            hole: AtomicU64::new(0),
        };
        let state = State::inside(self.end, self.slots, self.count, self.count);
        write_marks(self.start, below(self.count), state);
        // SAFETY: the leaf has room for them behind the marks, aligned to 8, and no other thread
        // knows it.
        unsafe { self.start.add(MARKS_BYTES).cast::<Slots>().write(slots) };
        self.leaf
    }
}

/// Creates a block of an entry that lies in memory of its own.
#[cold]
fn create_outside(memory: &Memory, length: usize, entry: Entry<'_>) -> Result<Ref, Error> {
    let leaf = memory.allocate_leaf(1)?;
    let outside =
        write_outside(memory, length, entry).inspect_err(|_| memory.free_leaf(leaf, 1))?;
    let start = memory.leaf_address(leaf);
    // SAFETY: the leaf is one granule of 16 bytes, aligned, and no other thread knows it.
    unsafe { start.add(MARKS_BYTES).cast::<*mut u8>().write(outside) };
    write_marks(start, 1, State(length as u32 | State::OUTSIDE));
    Ok(leaf)
}

fn write_outside(memory: &Memory, length: usize, entry: Entry<'_>) -> Result<*mut u8, Error> {
    memory.take_outside(length)?;
    let mut bytes = Vec::new();
    if let Err(error) = bytes.try_reserve_exact(length) {
        memory.free_outside(length);
        return Err(Error::OutOfMemory {
            what: format!("an entry of {length} bytes: {error}"),
        });
    }
    bytes.resize(length, 0);
    write(&mut bytes, entry.0, entry.1);
    Ok(Box::into_raw(bytes.into_boxed_slice()).cast())
}

/// Writes the marks of a block that no other thread knows.
fn write_marks(start: *mut u8, live: u32, state: State) {
    let marks = Marks {
        live: AtomicU32::new(live),
        state: AtomicU32::new(state.0),
    };
    // SAFETY: leaves begin with room for marks, aligned, and no other thread knows this one.
    unsafe { start.cast::<Marks>().write(marks) };
}

/// Writes an entry, packed, and returns its length.
pub(super) fn write(bytes: &mut [u8], key: &[u8], value: &[u8]) -> usize {
    let lengths = PackedLengths::new(key.len(), value.len());
    let mut end = 0;
    for part in [lengths.as_bytes(), key, value] {
        bytes[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    end
}

/// Frees a block.
///
/// # Safety
/// No other thread may hold a reference to the block's keys or values, and the block is freed only
/// once.
pub unsafe fn free(memory: &Memory, leaf: Ref) {
    let state = State(marks(memory, leaf).state.load(Ordering::Acquire));
    let behind = memory.leaf_address(leaf).wrapping_add(MARKS_BYTES);
    if !state.is_outside() {
        // SAFETY: `finish` has written these before the leaf was linked.
        let granules = unsafe { (*behind.cast::<Slots>()).granules };
        return memory.free_leaf(leaf, usize::from(granules));
    }
    // SAFETY: `write_outside` has made the pointer from a boxed slice of this length, and the
    // caller promises that this is its only and last use.
    drop(unsafe {
        Box::from_raw(std::ptr::slice_from_raw_parts_mut(
            behind.cast::<*mut u8>().read(),
            state.length(),
        ))
    });
    memory.free_outside(state.length());
    memory.free_leaf(leaf, 1);
}
