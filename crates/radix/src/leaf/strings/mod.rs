//! Leaves of byte strings: blocks of up to 32 entries in ascending order.
//!
//! ```text
//!   0      4       8                 40      44     46
//!   │ lock │ state │ 32 fingerprints │ jumps │ lost │ offsets: 2 … │ packed entries … │ room │
//!   │ lock │ state │ pointer │ length │                 a longer entry, alone: ──▶ │ entry │
//! ```
//!
//! The entries have *positions* in the order of their keys. Each has a fingerprint, a byte of the
//! key's hash, and an offset. One vector comparison finds the entries that may have a key. Entries
//! are [packed](nearfield_core::packed) in the format of a scan's result, so that a scan copies
//! neighbours at once. An entry that is not stored directly after its predecessor has a bit in
//! `jumps`. `lost` counts the bytes of entries that have been replaced or removed.
//!
//! # Changes in place
//!
//! The header's [state](state::StringBlockState) has the block's *latch*, which excludes other
//! writers. A change is made between two versions of the lock, so that readers notice it:
//!
//! | change | in place if |
//! |---|---|
//! | another value of the same length | always |
//! | a longer value | there is room after the entries for another entry; the old one is left |
//! | a new key | there is room for an entry and its offset |
//! | a removal | always: fingerprints and offsets move, the entry is left |
//!
//! A longer value is set in place if at most an eighth of the block is then lost. Keys never change
//! in place, so readers borrow them, without a copy, as long as they are pinned. Values are copied,
//! and the version is checked: [short](SHORT_MAX) ones into registers, longer ones to their
//! destination. An entry outside never changes, and is borrowed. An offset is set after its entry
//! has been written. A reader may thus follow each offset that it encounters, even if a change will
//! make it read again.
//!
//! Other changes copy the block. The block is marked *dead* before it is replaced, and never
//! changes again.
//!
//! # Dead blocks
//!
//! A walk that has reached a block may find it dead. The block shows the state before the change,
//! which was the tree's state at an instant after the walk began. A reader that reaches a block by
//! another route, or for visits that follow others in a batch, must check if it is dead. A live
//! block holds the tree's present entries for its keys.

mod change;
mod create;
mod header;
mod keys;
mod racing;
mod read;
mod report;
mod scan;
mod state;
#[cfg(test)]
mod tests;

pub use change::{alter, insert, latch, mark_dead, remove, set};
pub use create::{
    create, create_copy, create_divided, create_edited, create_with_room, fits, free, granules,
    joins,
};
pub use header::StringBlockLatch;
pub use read::{StringBlockValue, any_key, copy_to, read};
pub use report::{apart, bytes, report};
pub use scan::{entries, write_entries};

use crate::lock::Version;
use crate::memory::RadixMemory;
use crate::node::{Ref, equal_16};
use crossbeam_epoch::Guard;
use header::StringBlockHeader;
use nearfield_core::packed::unpack;
use nearfield_core::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use state::StringBlockState;
use std::hash::{BuildHasher, Hasher};
use std::hint::select_unpredictable;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

/// The maximum number of entries in a block.
pub const STRINGS_MAX: usize = 32;

/// The size in bytes of the unit of leaf memory.
pub const GRANULE_BYTES: usize = 16;

/// The maximum length of a block in granules; a longer entry is kept outside the region.
pub const GRANULES_MAX: usize = 64;

/// The maximum length in bytes of a small block.
const SMALL_MAX: usize = BLOCK_MAX / 8 * 3;

/// The length in bytes of the longest value that readers copy into registers.
pub const SHORT_MAX: usize = 16;

/// The size of a cache line.
const LINE: usize = 64;

/// Number of bytes of an entry outside that are prefetched. The processor continues by itself.
/// *Assumed*.
const OUTSIDE_AHEAD: usize = 8 * LINE;

const BLOCK_MAX: usize = GRANULES_MAX * GRANULE_BYTES;
const PRINTS_AT: usize = 8;
const PRINT_WORDS: usize = STRINGS_MAX / 8;
const JUMPS_AT: usize = PRINTS_AT + STRINGS_MAX;
const LOST_AT: usize = JUMPS_AT + 4;
const OFFSETS_AT: usize = LOST_AT + 2;

/// Number of bytes of a short entry besides its key, minus one: two lengths and a value of eight
/// bytes.
const SHORT_BYTES: usize = 9;

const _: () = assert!(MAX_KEY_BYTES + MAX_VALUE_BYTES < u32::MAX as usize);

/// An entry that no thread changes.
pub type Entry<'g> = (&'g [u8], &'g [u8]);

const _: () = assert!(size_of::<StringBlockHeader>() == PRINTS_AT);

/// The content after the header of a block whose entry is stored outside.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct OutsideEntry {
    entry: *mut u8,
    length: usize,
}

/// The positions whose fingerprint equals that of a key (one bit each), that fingerprint, and the
/// offset of the entry at the first position. They are valid for one version of a block; the
/// default is valid for none.
#[derive(Clone, Copy, Debug)]
pub struct FingerprintCandidates {
    positions: u32,
    version: Version,
    first: u16,
    print: u8,
}

impl FingerprintCandidates {
    /// Returns true if there are no candidates.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.positions == 0
    }
}

impl Default for FingerprintCandidates {
    fn default() -> Self {
        FingerprintCandidates {
            positions: 0,
            version: Version::NEVER,
            first: 0,
            print: 0,
        }
    }
}

/// A block at one version.
#[derive(Clone, Copy, Debug)]
pub struct StringBlock<'g> {
    start: *mut u8,
    state: StringBlockState,
    version: Version,
    guard: PhantomData<&'g Guard>,
}

/// The places of the parts of an entry.
#[derive(Clone, Copy, Debug)]
struct StringEntryParts<'g> {
    key: &'g [u8],
    value: NonNull<u8>,
    value_length: usize,
}

impl<'g> StringEntryParts<'g> {
    /// Returns the length of the whole entry.
    fn length(self) -> usize {
        nearfield_core::packed::packed_length(self.key.len(), self.value_length)
    }

    /// Returns the value. Only under the latch, or if the entry is stored outside.
    #[inline]
    fn value(self) -> &'g [u8] {
        // SAFETY: the value has as many bytes. No thread changes them: the caller holds the latch,
        // or the entry is stored outside. They are freed after the guard is gone.
        unsafe { std::slice::from_raw_parts(self.value.as_ptr(), self.value_length) }
    }
}

/// Returns the fingerprint: one byte of a key's hash.
#[inline]
fn fingerprint(key: &[u8]) -> u8 {
    let mut hasher = foldhash::fast::FixedState::default().build_hasher();
    hasher.write(key);
    (hasher.finish() >> 56) as u8
}

/// Returns the lowest `count` bits.
#[inline]
fn below(count: usize) -> u32 {
    ((1_u64 << count) - 1) as u32
}

#[inline]
fn header(memory: &RadixMemory, leaf: Ref) -> &StringBlockHeader {
    // SAFETY: only `create` makes leaf references, within the leaf region, which is mapped as long
    // as `memory`; granules are aligned to 16. The header is written before the leaf is linked, and
    // is atomic.
    unsafe { &*memory.leaf_address(leaf).cast::<StringBlockHeader>() }
}

impl<'g> StringBlock<'g> {
    /// Reads a block that was found under `guard`, at an instant at which no thread changes it.
    /// Everything read from it must be [validated](StringBlock::is_unchanged).
    #[inline]
    pub fn at(memory: &'g RadixMemory, leaf: Ref, _guard: &'g Guard) -> StringBlock<'g> {
        let header: &'g StringBlockHeader = header(memory, leaf);
        Self::with(memory, leaf, header, header.lock.read())
    }

    /// Returns a block that the caller has latched, or that no other thread can reach.
    #[inline]
    pub fn latched(memory: &'g RadixMemory, leaf: Ref, _guard: &'g Guard) -> StringBlock<'g> {
        let header: &'g StringBlockHeader = header(memory, leaf);
        Self::with(memory, leaf, header, header.lock.now())
    }

    #[inline]
    fn with(
        memory: &'g RadixMemory,
        leaf: Ref,
        header: &'g StringBlockHeader,
        version: Version,
    ) -> StringBlock<'g> {
        StringBlock {
            start: memory.leaf_address(leaf),
            state: header.state(),
            version,
            guard: PhantomData,
        }
    }

    #[inline]
    fn header(&self) -> &'g StringBlockHeader {
        // SAFETY: as in `header`; the region is mapped during 'g.
        unsafe { &*self.start.cast() }
    }

    /// Returns true if everything read from the block was there at one instant.
    #[inline]
    pub fn is_unchanged(self) -> bool {
        self.header().lock.validate(self.version)
    }

    /// Returns true if the block has been replaced.
    #[inline]
    pub fn is_dead(self) -> bool {
        self.version.is_obsolete()
    }

    /// Returns the number of entries.
    #[inline]
    pub fn count(self) -> usize {
        self.state.count()
    }

    /// Returns a word of the fingerprints of a block that has its entries inside.
    #[inline]
    fn print_word(&self, word: usize) -> &'g AtomicU64 {
        debug_assert!(!self.state.is_outside() && word < PRINT_WORDS);
        // SAFETY: a block with its entries inside has these words, aligned, from when it is created
        // until it is freed, which is after 'g. They are only accessed as atomics.
        unsafe { &*self.start.add(PRINTS_AT + 8 * word).cast() }
    }

    #[inline]
    fn jumps(&self) -> &'g AtomicU32 {
        debug_assert!(!self.state.is_outside());
        // SAFETY: as for `print_word`.
        unsafe { &*self.start.add(JUMPS_AT).cast() }
    }

    /// Returns the number of bytes of entries that have been replaced or removed.
    #[inline]
    fn lost(&self) -> &'g AtomicU16 {
        debug_assert!(!self.state.is_outside());
        // SAFETY: as for `print_word`.
        unsafe { &*self.start.add(LOST_AT).cast() }
    }

    /// Returns the slot of an offset, of a block that has its entries inside.
    #[inline]
    fn slot(&self, position: usize) -> &'g AtomicU16 {
        debug_assert!(!self.state.is_outside() && position < self.state.slots());
        // SAFETY: as for `print_word`: the block has this slot.
        unsafe { &*self.start.add(OFFSETS_AT + 2 * position).cast() }
    }

    /// Returns the offset of the entry at a position below the count.
    #[inline]
    fn offset(self, position: usize) -> usize {
        // Pairs with the store that links an entry.
        usize::from(self.slot(position).load(Ordering::Acquire))
    }

    #[inline]
    fn outside(self) -> OutsideEntry {
        debug_assert!(self.state.is_outside());
        // SAFETY: written after the header before the leaf was linked, and unchanged since.
        unsafe { self.start.add(PRINTS_AT).cast::<OutsideEntry>().read() }
    }

    /// Returns the entry at a position below the count.
    #[inline]
    fn parts(self, position: usize) -> StringEntryParts<'g> {
        match self.state.is_outside() {
            true => self.parts_outside(),
            false => self.parts_at(self.offset(position)),
        }
    }

    #[cold]
    fn parts_outside(self) -> StringEntryParts<'g> {
        let OutsideEntry { entry, length } = self.outside();
        // SAFETY: the entry has this many bytes, which never change: a block whose entry is stored
        // outside is replaced to change it. They are freed after the guard is gone.
        let (key, value, _) = unpack(unsafe { std::slice::from_raw_parts(entry, length) });
        StringEntryParts {
            key,
            value: NonNull::from(value).cast(),
            value_length: value.len(),
        }
    }

    /// Returns the entry at an offset.
    #[inline]
    fn parts_at(self, offset: usize) -> StringEntryParts<'g> {
        // SAFETY: offsets are those of entries, which had been written completely before. An
        // entry's lengths and key never change until the leaf is freed, which is after all guards
        // under which it could be read are gone; the one of `at` lives for 'g.
        unsafe {
            let start = self.start.add(offset);
            // Most lengths fit one byte. 255 marks one of four bytes.
            let [key, value] = start.cast::<[u8; 2]>().read();
            let (mut key, mut value, mut at) = (usize::from(key), usize::from(value), 2);
            if key == 255 || value == 255 {
                (key, value, at) = long_lengths(start);
            }
            StringEntryParts {
                key: std::slice::from_raw_parts(start.add(at), key),
                value: NonNull::new_unchecked(start.add(at + key)),
                value_length: value,
            }
        }
    }

    /// Returns the length in bytes of the entry at an offset.
    #[inline]
    fn length_at(self, offset: usize) -> usize {
        // SAFETY: as in `parts_at`.
        let [key, value] = unsafe { self.start.add(offset).cast::<[u8; 2]>().read() };
        match key == 255 || value == 255 {
            true => self.parts_at(offset).length(),
            false => 2 + usize::from(key) + usize::from(value),
        }
    }

    /// Returns the offset of the end of the entry at a position.
    #[inline]
    fn end_of(self, position: usize) -> usize {
        let offset = self.offset(position);
        offset + self.length_at(offset)
    }

    /// Returns the key at a position below the count.
    #[inline]
    pub fn key(self, position: usize) -> &'g [u8] {
        self.parts(position).key
    }

    /// Returns the entry at a position. Only under the latch.
    #[inline]
    pub fn entry(self, position: usize) -> Entry<'g> {
        let parts = self.parts(position);
        (parts.key, parts.value())
    }

    /// Returns the entries that may have a key.
    #[inline(always)]
    pub fn candidates(self, key: &[u8]) -> FingerprintCandidates {
        let print = fingerprint(key);
        let positions = match self.state.is_outside() {
            // A block whose entry is outside has no fingerprints.
            true => below(self.count()),
            false => {
                let word = |i: usize| self.print_word(i).load(Ordering::Relaxed);
                let low = equal_16(word(0), word(1), print);
                let high = equal_16(word(2), word(3), print);
                // A fingerprint past the count is that of no entry.
                (low | high << 16) & below(self.count())
            }
        };
        let first = match positions {
            0 => 0,
            _ if self.state.is_outside() => 0,
            // Pairs with the store that links an entry.
            _ => self
                .slot(positions.trailing_zeros() as usize)
                .load(Ordering::Acquire),
        };
        FingerprintCandidates {
            positions,
            version: self.version,
            first,
            print,
        }
    }

    /// Returns the prepared candidates if the block has not changed since, and new ones otherwise.
    #[inline]
    fn candidates_again(
        self,
        key: &[u8],
        prepared: FingerprintCandidates,
    ) -> FingerprintCandidates {
        match prepared.version == self.version {
            true => prepared,
            false => self.candidates(key),
        }
    }

    /// Returns the position of a key and its parts.
    #[inline(always)]
    fn find(
        self,
        key: &[u8],
        candidates: FingerprintCandidates,
    ) -> Option<(usize, StringEntryParts<'g>)> {
        let mut positions = candidates.positions;
        let mut parts = match positions {
            0 => return None,
            _ if self.state.is_outside() => self.parts_outside(),
            _ => self.parts_at(usize::from(candidates.first)),
        };
        loop {
            let position = positions.trailing_zeros() as usize;
            if keys::equal(parts.key, key) {
                return Some((position, parts));
            }
            positions &= positions - 1;
            if positions == 0 {
                return None;
            }
            parts = self.parts(positions.trailing_zeros() as usize);
        }
    }

    /// Returns the position of a key. Only under the latch.
    #[inline]
    pub fn position(self, key: &[u8]) -> Option<usize> {
        let found = self.find(key, self.candidates(key));
        found.map(|(position, _)| position)
    }

    /// Returns the addresses of the first entry that may have a key, and of the end of its value,
    /// if that is short: for prefetching, because half of all entries span two lines.
    #[inline]
    pub fn likely(self, key: &[u8], candidates: FingerprintCandidates) -> [*const u8; 2] {
        let first = self
            .start
            .cast_const()
            .wrapping_add(usize::from(candidates.first));
        [first, first.wrapping_add(key.len() + SHORT_BYTES)]
    }

    /// Returns, if entries are long, the lines after the first of an entry that may have a key, for
    /// prefetching: as many as entries have on average. Of an entry outside, returns the first
    /// lines.
    #[inline]
    pub fn likely_rest(self, candidates: FingerprintCandidates) -> impl Iterator<Item = *const u8> {
        let (mut first, mut length) = (self.start.cast_const(), 0);
        if self.state.is_outside() {
            let outside = self.outside();
            (first, length) = (outside.entry, outside.length.min(OUTSIDE_AHEAD));
        } else {
            let before = OFFSETS_AT + 2 * self.state.slots();
            let all = self.state.end().saturating_sub(before);
            if all > LINE * self.count() {
                first = first.wrapping_add(usize::from(candidates.first));
                length = all / self.count().max(1);
            }
        }
        // The first line of an entry inside has already been prefetched.
        let next_line = match self.state.is_outside() {
            true => 0,
            false => LINE - first.addr() % LINE,
        };
        (next_line..length)
            .step_by(LINE)
            .map(move |at| first.wrapping_add(at))
    }

    /// Returns the lines after the first two, for prefetching.
    #[inline]
    pub fn rest(self) -> impl Iterator<Item = *const u8> {
        let (start, length) = (self.start.cast_const(), self.length());
        (2 * LINE..length)
            .step_by(LINE)
            .map(move |at| start.wrapping_add(at))
    }

    /// Returns the number of entries before a key.
    pub fn rank(self, key: &[u8]) -> usize {
        self.rank_among(key, 0..self.count())
    }

    /// Returns the rank like `rank`, if all keys agree with this one in their first `shared` bytes.
    pub fn rank_behind(self, key: &[u8], shared: usize) -> usize {
        let count = self.count();
        if count == 0 || self.state.is_outside() {
            return self.rank(key);
        }
        let own = keys::slice(key, shared);
        let (mut start, mut length) = (0, count);
        let mut is_equal = false;
        while length > 1 {
            let half = length / 2;
            let middle = self.slice(start + half, shared);
            is_equal |= middle == own;
            // Without a branch, because it would be mispredicted.
            start = select_unpredictable(middle < own, start + half, start);
            length -= half;
        }
        let slice = self.slice(start, shared);
        // Keys that agree in eight more bytes need to be compared as a whole.
        match is_equal || slice == own {
            true => self.rank(key),
            false => start + usize::from(slice < own),
        }
    }

    /// Returns the rank like `rank`, if the entries before a range are less than the key, and those
    /// after it are not.
    fn rank_among(self, key: &[u8], range: Range<usize>) -> usize {
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = (low + high) / 2;
            match self.key(middle) < key {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// Returns eight bytes of the key at a position, like [`keys::slice`].
    #[inline(always)]
    fn slice(self, position: usize, at: usize) -> u64 {
        let key = self.parts_at(self.offset(position)).key;
        let behind = (at + 8).saturating_sub(key.len());
        let end = at + 8 - behind;
        // SAFETY: the eight bytes before any byte of a key, and before its end, belong to the
        // block, because more than eight bytes precede its entries. Other threads change them only
        // by `racing::store`.
        let word = unsafe { racing::load_8(key.as_ptr().add(end).wrapping_sub(8)) };
        // In two steps, because a shift must be less than 64.
        let shift = 4 * behind.min(8) as u32;
        u64::from_be(word) << shift << shift
    }

    /// Returns the rank like `rank`, for a key that is likely to be there.
    #[inline]
    pub fn likely_rank(self, key: &[u8]) -> usize {
        match self.find(key, self.candidates(key)) {
            Some((position, _)) => position,
            None => self.rank(key),
        }
    }

    /// Returns true if more memory of entries is lost than in use. Only under the latch.
    pub fn is_sparse(self) -> bool {
        if self.state.is_outside() {
            return self.count() == 0;
        }
        usize::from(self.lost().load(Ordering::Relaxed)) > self.used()
    }

    /// Returns the number of bytes of the entries of a block that has them inside. Only under the
    /// latch.
    fn used(self) -> usize {
        let all = self.state.end() - self.first_offset();
        all - usize::from(self.lost().load(Ordering::Relaxed))
    }

    /// Returns true if entries have been replaced or removed. Only under the latch.
    fn has_lost(self) -> bool {
        self.lost().load(Ordering::Relaxed) > 0
    }

    /// Returns the offset of the first entry.
    fn first_offset(self) -> usize {
        OFFSETS_AT + 2 * self.state.slots()
    }

    /// Returns true if the block is so small that it should be joined with a small neighbour.
    pub fn is_small(self) -> bool {
        !self.state.is_outside() && self.length() <= SMALL_MAX
    }

    /// Returns the keys of all entries that the block has ever had, including removed ones. Only
    /// when the block is about to be freed.
    pub fn all_keys(self) -> impl Iterator<Item = &'g [u8]> {
        let outside = self.state.is_outside();
        let mut at = self.first_offset();
        let outside_key = outside.then(|| self.parts_outside().key);
        let inside = std::iter::from_fn(move || {
            if outside || at >= self.state.end() {
                return None;
            }
            let parts = self.parts_at(at);
            at += parts.length();
            Some(parts.key)
        });
        outside_key.into_iter().chain(inside)
    }
}

/// Returns the lengths of key and value of an entry with a four-byte length, and the length of the
/// lengths themselves.
///
/// # Safety
/// `start` must point to an entry.
#[cold]
unsafe fn long_lengths(start: *const u8) -> (usize, usize, usize) {
    let mut at = 2;
    // SAFETY: promised by the caller.
    let lengths = unsafe {
        start.cast::<[u8; 2]>().read().map(|short| match short {
            u8::MAX => {
                let long = start.add(at).cast::<[u8; 4]>().read();
                at += 4;
                u32::from_le_bytes(long) as usize
            }
            short => usize::from(short),
        })
    };
    (lengths[0], lengths[1], at)
}

/// Finds the entries that may have a key. Returns candidates for no version if a thread is changing
/// the block.
#[inline(always)]
pub fn prepare<'g>(
    memory: &'g RadixMemory,
    leaf: Ref,
    key: &[u8],
    guard: &'g Guard,
) -> (StringBlock<'g>, FingerprintCandidates) {
    let block = StringBlock::latched(memory, leaf, guard);
    let candidates = block.candidates(key);
    match !block.version.is_locked() && block.is_unchanged() {
        true => (block, candidates),
        false => (block, FingerprintCandidates::default()),
    }
}
