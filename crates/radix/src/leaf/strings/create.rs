//! Creation and freeing of blocks.

use super::header::StringBlockHeader;
use super::state::StringBlockState;
use super::{
    BLOCK_MAX, Entry, GRANULE_BYTES, GRANULES_MAX, JUMPS_AT, LOST_AT, OFFSETS_AT, OutsideEntry,
    PRINT_WORDS, PRINTS_AT, STRINGS_MAX, StringBlock, below, fingerprint, header,
};
use crate::memory::RadixMemory;
use crate::node::Ref;
use nearfield_core::OperationError;
use nearfield_core::packed::{PackedLengths, packed_length};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// The number of granules of which the length of a written block is a multiple, so that there is
/// room for the next entries.
const STEP_GRANULES: usize = 8;

/// Number of bytes of an entry that are copied at once.
const COPIED_BYTES: usize = 48;

/// Number of granules of a block whose entry is stored outside.
const OUTSIDE_GRANULES: usize = (PRINTS_AT + size_of::<OutsideEntry>()).div_ceil(GRANULE_BYTES);

/// Returns the length of a block in bytes.
fn block_length(slots: usize, entries: usize) -> usize {
    OFFSETS_AT + 2 * slots + entries
}

fn entries_length(entries: &[Entry<'_>]) -> usize {
    let packed = |entry: &Entry<'_>| packed_length(entry.0.len(), entry.1.len());
    entries.iter().map(packed).sum()
}

/// Returns true if a block has room for entries.
pub fn fits(entries: &[Entry<'_>]) -> bool {
    // An entry that is too long for a block is stored outside.
    entries.len() <= 1
        || entries.len() <= STRINGS_MAX
            && block_length(entries.len(), entries_length(entries)) <= BLOCK_MAX
}

/// Returns true if entries take so little room that two blocks of them should be joined.
pub fn joins(entries: &[Entry<'_>], count_max: usize) -> bool {
    let length = block_length(entries.len(), entries_length(entries));
    entries.len() <= count_max && length <= BLOCK_MAX / 4 * 3
}

/// Creates a block of entries that [fit](fits), which no other thread can reach yet.
pub fn create(memory: &RadixMemory, entries: &[Entry<'_>]) -> Result<Ref, OperationError> {
    create_as(memory, entries, false)
}

/// Creates a block like [`create`], if more entries are likely to follow.
pub fn create_with_room(
    memory: &RadixMemory,
    entries: &[Entry<'_>],
) -> Result<Ref, OperationError> {
    create_as(memory, entries, true)
}

fn create_as(
    memory: &RadixMemory,
    entries: &[Entry<'_>],
    room: bool,
) -> Result<Ref, OperationError> {
    debug_assert!(fits(entries), "entries would be lost");
    let length = entries_length(entries);
    if block_length(entries.len(), length) > BLOCK_MAX {
        return create_outside(memory, length, entries[0]);
    }
    let mut new = NewBlock::allocate(memory, entries.len(), length, room)?;
    for &(key, value) in entries {
        new.push(fingerprint(key), key, value);
    }
    Ok(new.finish(0))
}

/// Creates a copy of a block with an entry in place of those at positions `at..behind`. Returns
/// `None` if one block has no room for them. Only under the latch of the old block. If entries have
/// become shorter, more are likely to become so: such a block gets no spare room.
pub fn create_edited(
    memory: &RadixMemory,
    old: StringBlock<'_>,
    at: usize,
    behind: usize,
    entry: Entry<'_>,
) -> Option<Result<Ref, OperationError>> {
    if old.state.is_outside() {
        return None;
    }
    let edited = StringBlockEdit::new(old, at, behind, entry);
    let (count, length) = (edited.count(), edited.length());
    if count > STRINGS_MAX || block_length(count, length) > BLOCK_MAX {
        return None;
    }
    // An additional entry goes after the others, so the old ones are copied at once.
    if at == behind && !old.has_lost() {
        return Some(create_longer(memory, old, count, length).inspect(|&leaf| {
            let header = header(memory, leaf);
            let new = StringBlock::with(memory, leaf, header, header.lock.now());
            new.insert(fingerprint(entry.0), entry, at);
        }));
    }
    let room = edited.own >= edited.replaced;
    let new = NewBlock::allocate(memory, count, length, room);
    Some(new.map(|mut new| {
        new.copy_edited(&edited, 0..count);
        new.finish(0)
    }))
}

/// Creates a copy of a block with room for `count` entries of `length` bytes. Its entries keep the
/// arrangement of the old block: putting them in order would take longer.
fn create_longer(
    memory: &RadixMemory,
    old: StringBlock<'_>,
    count: usize,
    length: usize,
) -> Result<Ref, OperationError> {
    debug_assert!(!old.has_lost(), "removed entries would be copied");
    let mut new = NewBlock::allocate(memory, count, length, true)?;
    new.copy_prints(old, 0);
    new.copy_run(old, 0..old.count(), old.first_offset()..old.state.end());
    let jumps = old.jumps().load(Ordering::Relaxed);
    Ok(new.finish(jumps))
}

/// Creates a copy of a block. Only under the latch of the old block. The copy has no room for more
/// entries if some have been removed or have become shorter.
pub fn create_copy(memory: &RadixMemory, old: StringBlock<'_>) -> Result<Ref, OperationError> {
    if old.state.is_outside() {
        return create(memory, &[old.entry(0)]);
    }
    let (count, length) = (old.count(), old.used());
    if !old.has_lost() {
        return create_longer(memory, old, count, length);
    }
    let mut new = NewBlock::allocate(memory, count, length, false)?;
    new.copy(old, 0..count);
    Ok(new.finish(0))
}

/// Returns the length of a block in granules.
pub fn granules(memory: &RadixMemory, leaf: Ref) -> usize {
    let state = header(memory, leaf).state();
    match state.is_outside() {
        true => OUTSIDE_GRANULES,
        false => state.granules(),
    }
}

/// Creates two blocks from the entries of another, with an entry in place of those at positions
/// `at..behind`. They are divided where keys differ in the byte at `depth`, as near to position
/// `wanted` as possible. Also returns the first byte of the second block. Returns `None` if two
/// blocks have no room for them, or if all keys have the same byte. Only under the latch of the old
/// block.
pub fn create_divided(
    memory: &RadixMemory,
    old: StringBlock<'_>,
    (at, behind): (usize, usize),
    entry: Entry<'_>,
    depth: usize,
    wanted: impl FnOnce(usize) -> usize,
) -> Option<Result<(u8, [Ref; 2]), OperationError>> {
    if old.state.is_outside() {
        return None;
    }
    let edited = StringBlockEdit::new(old, at, behind, entry);
    let count = edited.count();
    let byte = |i: usize| edited.key(i).get(depth).copied().unwrap_or_default();
    let divides = |i: usize| i > 0 && i < count && byte(i - 1) != byte(i);
    let wanted = wanted(count);
    // The search begins at the wanted position and moves away from it on both sides.
    let split = (0..count)
        .flat_map(|away| [wanted.saturating_sub(away), wanted + away])
        .find(|&i| divides(i))?;
    let first: usize = (0..split).map(|i| edited.length_of(i)).sum();
    let lengths = [(split, first), (count - split, edited.length() - first)];
    let fits = |(count, length)| count <= STRINGS_MAX && block_length(count, length) <= BLOCK_MAX;
    if !lengths.into_iter().all(fits) {
        return None;
    }
    let create = |range: Range<usize>, (count, length)| {
        let mut new = NewBlock::allocate(memory, count, length, true)?;
        new.copy_edited(&edited, range);
        Ok(new.finish(0))
    };
    let left = create(0..split, lengths[0]);
    Some(left.and_then(|left| {
        let right = create(split..count, lengths[1]).inspect_err(|_| {
            // SAFETY: no other thread can reach the block.
            unsafe { free(memory, left) };
        })?;
        Ok((byte(split), [left, right]))
    }))
}

/// The entries of a latched block, which are stored inside it, with an entry in place of those at
/// positions `at..behind`.
struct StringBlockEdit<'e> {
    old: StringBlock<'e>,
    at: usize,
    behind: usize,
    entry: Entry<'e>,
    /// Number of bytes of the new entry, and of those that it replaces.
    own: usize,
    replaced: usize,
}

impl<'e> StringBlockEdit<'e> {
    fn new(
        old: StringBlock<'e>,
        at: usize,
        behind: usize,
        entry: Entry<'e>,
    ) -> StringBlockEdit<'e> {
        debug_assert!(
            at <= behind && behind <= old.count(),
            "positions of the block"
        );
        StringBlockEdit {
            old,
            at,
            behind,
            entry,
            own: packed_length(entry.0.len(), entry.1.len()),
            replaced: (at..behind).map(|i| old.length_at(old.offset(i))).sum(),
        }
    }

    fn count(&self) -> usize {
        self.old.count() + 1 - (self.behind - self.at)
    }

    /// Returns the bytes of all entries.
    fn length(&self) -> usize {
        self.old.used() - self.replaced + self.own
    }

    /// Returns the position in the old block of the entry at a position other than `at`.
    fn before(&self, position: usize) -> usize {
        match position < self.at {
            true => position,
            false => position - 1 + self.behind - self.at,
        }
    }

    fn key(&self, position: usize) -> &'e [u8] {
        match position == self.at {
            true => self.entry.0,
            false => self.old.key(self.before(position)),
        }
    }

    fn length_of(&self, position: usize) -> usize {
        match position == self.at {
            true => self.own,
            false => self.old.length_at(self.old.offset(self.before(position))),
        }
    }
}

/// A block that is being written, which no other thread can reach.
struct NewBlock {
    leaf: Ref,
    start: *mut u8,
    granules: usize,
    slots: usize,
    count: usize,
    end: usize,
    /// The fingerprints, followed by meaningless bytes.
    prints: [u8; 2 * STRINGS_MAX],
}

impl NewBlock {
    /// Allocates memory for a block of `count` entries of `length` bytes, with spare room if `room`
    /// is true.
    fn allocate(
        memory: &RadixMemory,
        count: usize,
        length: usize,
        room: bool,
    ) -> Result<NewBlock, OperationError> {
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
            prints: [0; 2 * STRINGS_MAX],
        })
    }

    /// Assigns the next position to an entry that starts at an offset.
    #[inline]
    fn add(&mut self, offset: usize) {
        assert!(self.count < self.slots, "more entries than slots");
        // SAFETY: the leaf has room for the offsets of its slots, aligned, and no other thread can
        // reach it.
        unsafe {
            let offsets = self.start.add(OFFSETS_AT).cast::<u16>();
            offsets.add(self.count).write(offset as u16);
        }
        self.count += 1;
    }

    /// Adds bytes of entries.
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        assert!(
            bytes.len() <= self.granules * GRANULE_BYTES - self.end,
            "a block overflows"
        );
        // SAFETY: the leaf has room for its granules, and no other thread can reach it.
        unsafe {
            let to = self.start.add(self.end);
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        self.end += bytes.len();
    }

    /// Adds an entry.
    fn push(&mut self, print: u8, key: &[u8], value: &[u8]) {
        self.prints[self.count] = print;
        self.add(self.end);
        self.write(PackedLengths::new(key.len(), value.len()).as_bytes());
        self.write(key);
        self.write(value);
    }

    /// Adds the entries at some positions.
    fn copy_edited(&mut self, edited: &StringBlockEdit<'_>, range: Range<usize>) {
        let before = range.start.min(edited.at)..range.end.min(edited.at);
        self.copy(edited.old, before);
        if range.contains(&edited.at) {
            let (key, value) = edited.entry;
            self.push(fingerprint(key), key, value);
        }
        let behind = range.start.max(edited.at + 1)..range.end.max(edited.at + 1);
        let moved = edited.behind - edited.at;
        self.copy(edited.old, behind.start - 1 + moved..behind.end - 1 + moved);
    }

    /// Adds entries of another block, which is latched.
    fn copy(&mut self, old: StringBlock<'_>, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        self.copy_prints(old, range.start);
        let jumps = old.jumps().load(Ordering::Relaxed);
        // The entries are stored one after the other, so one copy takes them all.
        if jumps & below(range.end) & !below(range.start + 1) == 0 {
            let bytes = old.offset(range.start)..old.end_of(range.end - 1);
            return self.copy_run(old, range, bytes);
        }
        for position in range {
            let offset = old.offset(position);
            let length = old.length_at(offset);
            self.add(self.end);
            // As in `write`.
            let room = offset + COPIED_BYTES <= old.length()
                && self.end + COPIED_BYTES <= self.granules * GRANULE_BYTES;
            if length <= COPIED_BYTES && room {
                // SAFETY: both blocks have this many bytes there. No thread changes those of the
                // old one while it is latched, and no other thread can reach the new one.
                unsafe {
                    let from = old.start.add(offset).cast::<[u8; COPIED_BYTES]>();
                    let to = self.start.add(self.end).cast::<[u8; COPIED_BYTES]>();
                    to.copy_from_nonoverlapping(from, 1);
                }
                self.end += length;
            } else {
                // SAFETY: an entry is stored there, which no thread changes while the block is
                // latched.
                self.write(unsafe { std::slice::from_raw_parts(old.start.add(offset), length) });
            }
        }
    }

    /// Adds the fingerprints of another block, starting at a position.
    fn copy_prints(&mut self, old: StringBlock<'_>, from: usize) {
        let mut prints = [0; 2 * STRINGS_MAX];
        for (word, prints) in prints.chunks_exact_mut(8).take(PRINT_WORDS).enumerate() {
            let word = old.print_word(word).load(Ordering::Relaxed);
            prints.copy_from_slice(&word.to_le_bytes());
        }
        // A fixed number is always copied, because a call for fewer takes longer.
        let to = self.count;
        self.prints[to..to + STRINGS_MAX].copy_from_slice(&prints[from..from + STRINGS_MAX]);
    }

    /// Adds entries of another block, which is latched and stores them in the given bytes, in their
    /// existing arrangement.
    fn copy_run(&mut self, old: StringBlock<'_>, positions: Range<usize>, bytes: Range<usize>) {
        let count = positions.len();
        assert!(self.count + count <= self.slots, "more entries than slots");
        let moved = self.end.wrapping_sub(bytes.start) as u16;
        // SAFETY: both blocks have this many offsets, aligned. No thread changes those of the old
        // one while it is latched, and no other thread can reach the new one.
        unsafe {
            let from = old.start.add(OFFSETS_AT).cast::<u16>().add(positions.start);
            let to = self.start.add(OFFSETS_AT).cast::<u16>().add(self.count);
            for i in 0..count {
                to.add(i).write(from.add(i).read().wrapping_add(moved));
            }
        }
        self.count += count;
        // SAFETY: entries are stored there, which no thread changes while the block is latched.
        self.write(unsafe { std::slice::from_raw_parts(old.start.add(bytes.start), bytes.len()) });
    }

    fn finish(self, jumps: u32) -> Ref {
        debug_assert!(self.count > 0, "no leaf of a tree is empty");
        let state = StringBlockState::inside(self.granules, self.slots, self.count, self.end);
        write_header(self.start, state);
        // SAFETY: the leaf has room for them after the header, and no other thread can reach it.
        unsafe {
            let prints = self.start.add(PRINTS_AT);
            prints.copy_from_nonoverlapping(self.prints.as_ptr(), STRINGS_MAX);
            self.start.add(JUMPS_AT).cast::<u32>().write(jumps);
            self.start.add(LOST_AT).cast::<u16>().write(0);
        }
        self.leaf
    }
}

/// Creates a block of an entry that is stored in its own allocation.
#[cold]
fn create_outside(
    memory: &RadixMemory,
    length: usize,
    entry: Entry<'_>,
) -> Result<Ref, OperationError> {
    let leaf = memory.allocate_leaf(OUTSIDE_GRANULES)?;
    let entry = write_outside(memory, length, entry)
        .inspect_err(|_| memory.free_leaf(leaf, OUTSIDE_GRANULES))?;
    let start = memory.leaf_address(leaf);
    let outside = OutsideEntry { entry, length };
    // SAFETY: the leaf has room for it after the header, aligned, and no other thread can reach it.
    unsafe { start.add(PRINTS_AT).cast::<OutsideEntry>().write(outside) };
    write_header(start, StringBlockState::outside());
    Ok(leaf)
}

fn write_outside(
    memory: &RadixMemory,
    length: usize,
    (key, value): Entry<'_>,
) -> Result<*mut u8, OperationError> {
    // The limit is checked before the allocator is asked.
    memory.take_outside(length)?;
    let mut bytes = Vec::new();
    if let Err(error) = bytes.try_reserve_exact(length) {
        memory.free_outside(length);
        return Err(OperationError::OutOfMemory {
            what: format!("an entry of {length} bytes: {error}"),
        });
    }
    bytes.extend_from_slice(PackedLengths::new(key.len(), value.len()).as_bytes());
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(value);
    Ok(Box::into_raw(bytes.into_boxed_slice()).cast())
}

/// Writes the header of a block that no other thread can reach.
fn write_header(start: *mut u8, state: StringBlockState) {
    // SAFETY: leaves begin with room for a header, aligned, and no other thread can reach this one.
    unsafe {
        start
            .cast::<StringBlockHeader>()
            .write(StringBlockHeader::new(state))
    };
}

/// Frees a block.
///
/// # Safety
/// No other thread may hold a reference to the block's keys or values, and the block is freed only
/// once.
pub unsafe fn free(memory: &RadixMemory, leaf: Ref) {
    let state = header(memory, leaf).state();
    if !state.is_outside() {
        return memory.free_leaf(leaf, state.granules());
    }
    // SAFETY: written by `create_outside`, and unchanged since.
    let OutsideEntry { entry, length } = unsafe {
        let behind = memory.leaf_address(leaf).add(PRINTS_AT);
        behind.cast::<OutsideEntry>().read()
    };
    // SAFETY: `write_outside` has created the pointer from a boxed slice of this length, and the
    // caller promises that this is its only and last use.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(entry, length)) });
    memory.free_outside(length);
    memory.free_leaf(leaf, OUTSIDE_GRANULES);
}
