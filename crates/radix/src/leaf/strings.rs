//! Leaves of byte strings: blocks of up to 32 entries in ascending order.
//!
//! ```text
//!   0        4        8
//!   │ live   │ length │ content                     │                up to 1 KiB
//!   │ live   │ length │ pointer │ ──▶ │ content … │                  a longer entry, alone
//!
//!   content    │ 32 fingerprints │ offset of each entry: 2 … │ packed entries … │
//! ```
//!
//! A fingerprint is a byte of a key's hash: one vector comparison finds the entries that may have a
//! key. Entries are [packed](nearfield_core::packed) in the format of a scan's answer, so that a
//! scan copies those of a block at once.
//!
//! The content never changes after the block is linked. A write makes another block, so that
//! readers use a value in place, without a copy, as long as they are pinned. Only the header
//! changes, under the lock of the node above: a removed entry is no longer *live*, and a block is
//! marked *dead* before it is replaced.
//!
//! # Dead blocks
//!
//! A walk that has reached a block may find it dead. The block shows the state before the change,
//! which was the tree's after the walk began. A reader that reaches a block in another way, or for
//! visits that follow others in a batch, must check whether it is dead. A live block holds the
//! tree's present entries for its keys.

use crate::memory::Memory;
use crate::node::{Ref, equal_16};
use crossbeam_epoch::Guard;
use nearfield_core::packed::{PackedLengths, packed_length, unpack};
use nearfield_core::{Error, MAX_KEY_BYTES, MAX_VALUE_BYTES};
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};

/// The most entries of a block.
pub const STRINGS_MAX: usize = 32;

/// The unit of leaf memory.
pub const GRANULE_BYTES: usize = 16;

/// The longest block in granules; a longer entry is kept outside the region.
pub const GRANULES_MAX: usize = 64;

const HEADER_BYTES: usize = 8;
const CONTENT_MAX: usize = GRANULES_MAX * GRANULE_BYTES - HEADER_BYTES;

const DEAD: u32 = 1 << 31;
const OUTSIDE: u32 = 1 << 30;
const LENGTH: u32 = OUTSIDE - 1;

/// The last byte of a short entry behind its key: two lengths and a value of eight bytes.
const SHORT_BYTES: usize = 9;

const PRINTS_BYTES: usize = STRINGS_MAX;

/// The bytes of a content within which [`edit_directory`] copies.
const DIRECTORY_BYTES: usize = PRINTS_BYTES + 4 * STRINGS_MAX + 2;

const _: () = assert!(CONTENT_MAX <= u16::MAX as usize);
const _: () = assert!(MAX_KEY_BYTES + MAX_VALUE_BYTES < LENGTH as usize - 64);

/// An entry as it is read from a block.
pub type Entry<'g> = (&'g [u8], &'g [u8]);

#[derive(Debug)]
#[repr(C)]
struct Header {
    /// Which entries have not been removed, a bit for each, the first lowest.
    live: AtomicU32,
    /// The bytes of the content, and two marks.
    length: AtomicU32,
}

/// The entries, removed ones too, whose fingerprint is a key's: a bit for each.
#[derive(Clone, Copy, Debug)]
pub struct Candidates(u32);

/// A block at one instant.
#[derive(Clone, Copy, Debug)]
pub struct Strings<'g> {
    live: u32,
    dead: bool,
    content: &'g [u8],
}

#[inline]
fn header(memory: &Memory, leaf: Ref) -> &Header {
    // SAFETY: leaf references are made by `create` only, within the leaf region, which is mapped
    // as long as `memory`; granules are aligned to 16. A length is written before the leaf is
    // linked, and the marks are atomic.
    unsafe { &*memory.leaf_address(leaf).cast() }
}

/// A byte of a key's hash.
#[inline]
fn fingerprint(key: &[u8]) -> u8 {
    let mut hasher = foldhash::fast::FixedState::default().build_hasher();
    hasher.write(key);
    (hasher.finish() >> 56) as u8
}

impl<'g> Strings<'g> {
    /// Reads a block that was found under `guard`.
    #[inline]
    pub fn at(memory: &'g Memory, leaf: Ref, _guard: &'g Guard) -> Strings<'g> {
        let header = header(memory, leaf);
        let live = header.live.load(Ordering::Acquire);
        // After the live entries: a block that is not dead now was not when they were read.
        let length = header.length.load(Ordering::Acquire);
        // SAFETY: `create` has written `length` bytes behind the header, or behind the pointer that
        // stands there, before the leaf was linked, and nothing writes them until the leaf is
        // freed. That happens after all guards under which the leaf could be read are gone; the
        // caller's lives for 'g.
        let content = unsafe {
            let behind = memory.leaf_address(leaf).add(HEADER_BYTES);
            let start = if length & OUTSIDE == 0 {
                behind.cast_const()
            } else {
                behind.cast::<*const u8>().read()
            };
            std::slice::from_raw_parts(start, (length & LENGTH) as usize)
        };
        Strings {
            live,
            dead: length & DEAD != 0,
            content,
        }
    }

    /// True if the block has been replaced.
    #[inline]
    pub fn is_dead(self) -> bool {
        self.dead
    }

    /// The entries that have not been removed, a bit for each.
    #[inline]
    pub fn live(self) -> u32 {
        self.live
    }

    /// The number of live entries.
    pub fn count(self) -> usize {
        self.live().count_ones() as usize
    }

    /// Where an entry starts in the content.
    #[inline]
    fn start(self, position: usize) -> usize {
        let at = PRINTS_BYTES + 2 * position;
        usize::from(u16::from_le_bytes([self.content[at], self.content[at + 1]]))
    }

    /// As `start`; past the last entry, where they end.
    #[inline]
    fn start_or_end(self, position: usize) -> usize {
        match position < self.places() {
            true => self.start(position),
            false => self.content.len(),
        }
    }

    /// True if no entry has been removed.
    #[inline]
    pub fn is_whole(self) -> bool {
        self.count() == self.places()
    }

    /// True if the content lies in the leaf region.
    #[inline]
    pub fn is_inside(self) -> bool {
        self.content.len() <= CONTENT_MAX
    }

    /// The number of entries that the block was created with.
    #[inline]
    pub fn places(self) -> usize {
        (self.start(0) - PRINTS_BYTES) / 2
    }

    /// An entry, live or not.
    #[inline]
    pub fn entry(self, position: usize) -> Entry<'g> {
        let (key, value, _) = unpack(&self.content[self.start(position)..]);
        (key, value)
    }

    /// The entries from one position to another, packed.
    pub fn packed(self, first: usize, last: usize) -> &'g [u8] {
        &self.content[self.start(first)..self.start_or_end(last + 1)]
    }

    /// The entries that may be a key's.
    #[inline]
    pub fn candidates(self, key: &[u8]) -> Candidates {
        let word = |at: usize| {
            let bytes = self.content[at..].first_chunk::<8>();
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let print = fingerprint(key);
        let (low, high) = (
            equal_16(word(0), word(8), print),
            equal_16(word(16), word(24), print),
        );
        Candidates(low | high << 16)
    }

    /// The place of a key and its value.
    #[inline]
    pub fn find(self, key: &[u8]) -> Option<(usize, &'g [u8])> {
        self.find_prepared(key, None)
    }

    /// As `find`, with the candidates if they are known.
    #[inline]
    pub fn find_prepared(
        self,
        key: &[u8],
        candidates: Option<Candidates>,
    ) -> Option<(usize, &'g [u8])> {
        let Candidates(candidates) = candidates.unwrap_or_else(|| self.candidates(key));
        let mut candidates = candidates & self.live;
        while candidates != 0 {
            let position = candidates.trailing_zeros() as usize;
            let (other, value) = self.entry(position);
            if other == key {
                return Some((position, value));
            }
            candidates &= candidates - 1;
        }
        None
    }

    /// Where the first entry that may be a key's begins, and where its value would end if it is a
    /// short one: for prefetching, as half of all entries lie in two lines.
    #[inline]
    pub fn likely(self, key: &[u8], candidates: Candidates) -> [*const u8; 2] {
        let Candidates(candidates) = candidates;
        // Any of the block's if there is none.
        let position = (candidates & self.live | 1 << 31).trailing_zeros() as usize;
        let start = match position < self.places() {
            true => self.start(position),
            false => 0,
        };
        let first = self.content.as_ptr().wrapping_add(start);
        [first, first.wrapping_add(key.len() + SHORT_BYTES)]
    }

    /// As `rank`, of a key that is likely to be there.
    #[inline]
    pub fn likely_rank(self, key: &[u8]) -> usize {
        match self.find(key) {
            Some((position, _)) => position,
            None => self.rank(key),
        }
    }

    /// The number of entries, live or not, that stand before a key.
    pub fn rank(self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.places());
        while low < high {
            let middle = (low + high) / 2;
            match self.entry(middle).0 < key {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// The live entries in ascending order.
    #[inline]
    pub fn entries(self) -> impl DoubleEndedIterator<Item = Entry<'g>> {
        let live = self.live();
        (0..STRINGS_MAX)
            .filter(move |position| live >> position & 1 != 0)
            .map(move |position| self.entry(position))
    }

    /// The entries that the block was created with, whether or not they have been removed.
    pub fn all_entries(self) -> impl Iterator<Item = Entry<'g>> {
        (0..self.places()).map(move |position| self.entry(position))
    }
}

/// The bytes of a block's content.
fn content_length(entries: &[Entry<'_>]) -> usize {
    let packed = |entry: &Entry<'_>| 2 + packed_length(entry.0.len(), entry.1.len());
    PRINTS_BYTES + entries.iter().map(packed).sum::<usize>()
}

/// True if a block has room for entries.
pub fn fits(entries: &[Entry<'_>]) -> bool {
    entries.len() <= 1 || entries.len() <= STRINGS_MAX && content_length(entries) <= CONTENT_MAX
}

/// True if entries take so little room that two blocks of them are better joined.
pub fn joins(entries: &[Entry<'_>], count_max: usize) -> bool {
    entries.len() <= count_max && content_length(entries) <= CONTENT_MAX / 4 * 3
}

/// Creates a block of entries that [fit](fits), which no other thread can reach yet.
pub fn create(memory: &Memory, entries: &[Entry<'_>]) -> Result<Ref, Error> {
    let length = content_length(entries);
    if length <= CONTENT_MAX {
        return create_inside(memory, length, entries.len(), |content| {
            write(content, entries)
        });
    }
    let leaf = memory.allocate_leaf(granules(false, length))?;
    let outside = create_outside(memory, length, entries)
        .inspect_err(|_| memory.free_leaf(leaf, granules(false, length)))?;
    let behind = memory.leaf_address(leaf).wrapping_add(HEADER_BYTES);
    // SAFETY: the leaf is one granule of 16 bytes, aligned, and no other thread knows it.
    unsafe { behind.cast::<*mut u8>().write(outside) };
    write_header(memory, leaf, 1, length as u32 | OUTSIDE);
    Ok(leaf)
}

/// Creates a block of a number of entries whose content `write` writes.
#[inline]
fn create_inside(
    memory: &Memory,
    length: usize,
    count: usize,
    write: impl FnOnce(&mut [u8]),
) -> Result<Ref, Error> {
    let leaf = memory.allocate_leaf(granules(true, length))?;
    let behind = memory.leaf_address(leaf).wrapping_add(HEADER_BYTES);
    // SAFETY: the leaf has room for header and content, no other thread knows it, and memory of the
    // region is always initialized, at least by the system.
    write(unsafe { std::slice::from_raw_parts_mut(behind, length) });
    let live = u32::MAX >> (u32::BITS - count as u32);
    write_header(memory, leaf, live, length as u32);
    Ok(leaf)
}

/// Writes the header of a new block.
fn write_header(memory: &Memory, leaf: Ref, live: u32, length: u32) {
    let header = Header {
        live: AtomicU32::new(live),
        length: AtomicU32::new(length),
    };
    // SAFETY: leaves begin with room for a header, aligned, and no other thread knows this one.
    unsafe { memory.leaf_address(leaf).cast::<Header>().write(header) };
}

/// Creates a block as another that is inside, with the value of an entry replaced by one of the
/// same length.
pub fn create_replaced(
    memory: &Memory,
    old: Strings<'_>,
    position: usize,
    value: &[u8],
) -> Result<Ref, Error> {
    debug_assert_eq!(old.entry(position).1.len(), value.len());
    create_inside(memory, old.content.len(), old.places(), |content| {
        content.copy_from_slice(old.content);
        let end = old.start_or_end(position + 1);
        content[end - value.len()..end].copy_from_slice(value);
    })
}

/// Creates a block as another with an entry put in the place of those from position `at` to
/// before `behind`. `None` if it has no room for them.
pub fn create_edited(
    memory: &Memory,
    old: Strings<'_>,
    at: usize,
    behind: usize,
    (key, value): Entry<'_>,
) -> Option<Result<Ref, Error>> {
    let places = old.places();
    let count = places + 1 - (behind - at);
    let lengths = PackedLengths::new(key.len(), value.len());
    let (first, from, to) = (old.start(0), old.start_or_end(at), old.start_or_end(behind));
    let added = packed_length(key.len(), value.len());
    let new_first = PRINTS_BYTES + 2 * count;
    let length = new_first + (from - first) + added + (old.content.len() - to);
    if count > STRINGS_MAX || length > CONTENT_MAX {
        return None;
    }
    Some(create_inside(memory, length, count, |content| {
        let new_from = new_first + (from - first);
        let new_to = new_from + added;
        let by = [new_first.wrapping_sub(first), new_to.wrapping_sub(to)];
        match old.content.len().min(length) >= DIRECTORY_BYTES {
            true => edit_directory(content, old.content, at, behind, by),
            false => edit_small_directory(content, old, at, behind, by),
        }
        content[at] = fingerprint(key);
        content[offset(at)..offset(at + 1)].copy_from_slice(&(new_from as u16).to_le_bytes());
        content[new_first..new_from].copy_from_slice(&old.content[first..from]);
        let (entry, rest) = content[new_from..].split_at_mut(added);
        let (head, entry) = entry.split_at_mut(lengths.as_bytes().len());
        head.copy_from_slice(lengths.as_bytes());
        entry[..key.len()].copy_from_slice(key);
        entry[key.len()..].copy_from_slice(value);
        rest.copy_from_slice(&old.content[to..]);
    }))
}

/// Where the offset of an entry stands.
#[inline]
fn offset(position: usize) -> usize {
    PRINTS_BYTES + 2 * position
}

/// Copies the fingerprints and offsets of the entries before `at` and of those from `behind` on to
/// a new content, where the second ones follow the place `at`. The entries themselves move by the
/// first and the second number of `by`. Both contents have at least [`DIRECTORY_BYTES`]. The bytes
/// behind the new offsets are undefined then.
// No length depends on the block, so that no branch is mispredicted.
#[inline]
fn edit_directory(new: &mut [u8], old: &[u8], at: usize, behind: usize, by: [usize; 2]) {
    let moved = |from: usize, by: usize| {
        let mut offsets = [0; 2 * STRINGS_MAX];
        let old = old[from..from + 2 * STRINGS_MAX].chunks_exact(2);
        for (new, old) in offsets.chunks_exact_mut(2).zip(old) {
            let offset = u16::from_le_bytes([old[0], old[1]]).wrapping_add(by as u16);
            new.copy_from_slice(&offset.to_le_bytes());
        }
        offsets
    };
    new[..PRINTS_BYTES].copy_from_slice(&old[..PRINTS_BYTES]);
    new[at + 1..][..PRINTS_BYTES].copy_from_slice(&old[behind..][..PRINTS_BYTES]);
    new[offset(0)..offset(STRINGS_MAX)].copy_from_slice(&moved(offset(0), by[0]));
    let rest = moved(offset(behind), by[1]);
    new[offset(at + 1)..][..2 * STRINGS_MAX].copy_from_slice(&rest);
}

/// As [`edit_directory`], of contents of any length.
fn edit_small_directory(
    new: &mut [u8],
    old: Strings<'_>,
    at: usize,
    behind: usize,
    by: [usize; 2],
) {
    let parts = [(0, 0..at, by[0]), (at + 1, behind..old.places(), by[1])];
    for (start, positions, by) in parts {
        for (new_position, position) in (start..).zip(positions) {
            new[new_position] = old.content[position];
            let moved = (old.start(position) as u16).wrapping_add(by as u16);
            new[offset(new_position)..][..2].copy_from_slice(&moved.to_le_bytes());
        }
    }
}

fn granules(inside: bool, length: usize) -> usize {
    match inside {
        true => (HEADER_BYTES + length).div_ceil(GRANULE_BYTES),
        false => 1,
    }
}

/// Writes a block's content.
fn write(content: &mut [u8], entries: &[Entry<'_>]) {
    let mut at = PRINTS_BYTES + 2 * entries.len();
    for (i, (key, value)) in entries.iter().enumerate() {
        content[i] = fingerprint(key);
        let offset = PRINTS_BYTES + 2 * i;
        content[offset..offset + 2].copy_from_slice(&(at as u16).to_le_bytes());
        for part in [
            PackedLengths::new(key.len(), value.len()).as_bytes(),
            key,
            value,
        ] {
            content[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
    }
}

/// Writes a block's content into memory of its own.
fn create_outside(memory: &Memory, length: usize, entries: &[Entry<'_>]) -> Result<*mut u8, Error> {
    memory.take_outside(length)?;
    let mut bytes = Vec::new();
    if let Err(error) = bytes.try_reserve_exact(length) {
        memory.free_outside(length);
        return Err(Error::OutOfMemory {
            what: format!("an entry of {length} bytes: {error}"),
        });
    }
    bytes.resize(length, 0);
    write(&mut bytes, entries);
    Ok(Box::into_raw(bytes.into_boxed_slice()).cast())
}

/// Marks a block as replaced. Only under the lock of the node above, and before it is unlinked.
pub fn mark_dead(memory: &Memory, leaf: Ref) {
    header(memory, leaf).length.fetch_or(DEAD, Ordering::AcqRel);
}

/// Removes the live entry at a place. Only under the lock of the node above.
pub fn remove(memory: &Memory, leaf: Ref, position: usize) {
    let live = &header(memory, leaf).live;
    live.fetch_and(!(1 << position), Ordering::AcqRel);
}

/// Frees a block.
///
/// # Safety
/// No other thread may hold a reference to the block's keys or values, and the block is freed only
/// once.
pub unsafe fn free(memory: &Memory, leaf: Ref) {
    let header = header(memory, leaf);
    let marks = header.length.load(Ordering::Acquire);
    let (length, inside) = ((marks & LENGTH) as usize, marks & OUTSIDE == 0);
    if !inside {
        let behind = memory.leaf_address(leaf).wrapping_add(HEADER_BYTES);
        // SAFETY: `create_outside` has made the pointer from a boxed slice of this length,
        // and the caller promises that this is its only and last use.
        drop(unsafe {
            Box::from_raw(std::ptr::slice_from_raw_parts_mut(
                behind.cast::<*mut u8>().read(),
                length,
            ))
        });
        memory.free_outside(length);
    }
    memory.free_leaf(leaf, granules(inside, length));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Memory {
        Memory::new(usize::MAX, GRANULE_BYTES, GRANULES_MAX).expect("address space")
    }

    #[test]
    fn every_entry_is_found_and_no_other() {
        let memory = memory();
        let guard = crossbeam_epoch::pin();
        let keys: Vec<String> = (0..STRINGS_MAX).map(|i| format!("key {i:02}")).collect();
        let entries: Vec<Entry<'_>> = keys
            .iter()
            .map(|key| (key.as_bytes(), &key.as_bytes()[4..]))
            .collect();
        for count in 1..=STRINGS_MAX {
            let leaf = create(&memory, &entries[..count]).expect("memory");
            let block = Strings::at(&memory, leaf, &guard);
            assert_eq!(block.count(), count);
            for (i, (key, value)) in entries.iter().enumerate() {
                assert_eq!(block.find(key), (i < count).then_some((i, *value)));
                assert_eq!(block.rank(key), i.min(count));
            }
            assert!(block.entries().eq(entries[..count].iter().copied()));
            assert!(block.find(b"").is_none() && block.find(b"key 00 ").is_none());
            // SAFETY: no other thread knows the block.
            unsafe { free(&memory, leaf) };
        }
        assert_eq!(memory.bytes().leaf_bytes, 0);
    }

    #[test]
    fn a_removed_entry_is_not_found_and_its_neighbours_are() {
        let memory = memory();
        let guard = crossbeam_epoch::pin();
        let entries: [Entry<'_>; 3] = [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")];
        let leaf = create(&memory, &entries).expect("memory");
        remove(&memory, leaf, 1);
        let block = Strings::at(&memory, leaf, &guard);
        assert_eq!((block.find(b"b"), block.count()), (None, 2));
        assert!(block.entries().map(|entry| entry.0).eq([b"a", b"c"]));
        assert!(!block.is_dead());
        mark_dead(&memory, leaf);
        let block = Strings::at(&memory, leaf, &guard);
        assert!(block.is_dead() && block.find(b"c").is_some());
    }

    #[test]
    fn an_edited_copy_equals_a_new_block() {
        let memory = memory();
        let guard = crossbeam_epoch::pin();
        let keys: Vec<String> = (0..=STRINGS_MAX).map(|i| format!("{i:03}")).collect();
        let values = ["", "1", &"long".repeat(100)];
        for count in 1..=STRINGS_MAX {
            for position in 0..=count {
                for (i, value) in values.iter().enumerate() {
                    let entry = |key: usize, value| (keys[key].as_bytes(), value);
                    let mut all: Vec<_> = (0..=count).map(|key| entry(key, &b"old"[..])).collect();
                    all[position].1 = value.as_bytes();
                    let mut others = all.clone();
                    let behind = match i == 1 && position < count {
                        // In place of an entry.
                        true => {
                            others.pop();
                            all.pop();
                            others[position].1 = b"old";
                            position + 1
                        }
                        false => {
                            others.remove(position);
                            position
                        }
                    };
                    let old = create(&memory, &others).expect("memory");
                    let block = Strings::at(&memory, old, &guard);
                    let edited = create_edited(&memory, block, position, behind, all[position]);
                    assert_eq!(edited.is_some(), fits(&all));
                    let Some(Ok(edited)) = edited else { continue };
                    let block = Strings::at(&memory, edited, &guard);
                    assert!(block.is_whole() && block.entries().eq(all.iter().copied()));
                    for (i, (key, value)) in all.iter().enumerate() {
                        assert_eq!(block.find(key), Some((i, *value)));
                    }
                }
            }
        }
    }

    #[test]
    fn a_replaced_value_leaves_the_others() {
        let memory = memory();
        let guard = crossbeam_epoch::pin();
        let keys: Vec<String> = (0..STRINGS_MAX).map(|i| format!("{i:03}")).collect();
        for count in 1..=STRINGS_MAX {
            let mut all: Vec<Entry<'_>> = keys[..count]
                .iter()
                .map(|key| (key.as_bytes(), &b"old"[..]))
                .collect();
            let old = create(&memory, &all).expect("memory");
            for position in 0..count {
                all[position].1 = b"new";
                let block = Strings::at(&memory, old, &guard);
                let replaced = create_replaced(&memory, block, position, b"new").expect("memory");
                let block = Strings::at(&memory, replaced, &guard);
                assert!(block.is_whole() && block.entries().eq(all.iter().copied()));
                assert_eq!(
                    block.find(keys[position].as_bytes()),
                    Some((position, &b"new"[..]))
                );
                all[position].1 = b"old";
            }
        }
    }

    #[test]
    fn a_long_entry_is_kept_outside() {
        let memory = memory();
        let guard = crossbeam_epoch::pin();
        let value = vec![7; 100_000];
        let leaf = create(&memory, &[(b"long", &value)]).expect("memory");
        assert!(memory.has_outside());
        assert!(!fits(&[(b"long", &value), (b"other", b"")]));
        let block = Strings::at(&memory, leaf, &guard);
        assert_eq!(block.find(b"long"), Some((0, &value[..])));
        // SAFETY: no other thread knows the block.
        unsafe { free(&memory, leaf) };
        assert!(!memory.has_outside());
    }
}
