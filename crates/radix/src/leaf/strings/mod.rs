//! Leaves of byte strings: blocks of up to 32 entries.
//!
//! ```text
//!   0      4       8                 40      47         48     56
//!   │ live │ state │ fingerprints    │ ranks │ granules │ hole │ offsets │ entries … │ room │
//!   │ live │ state │ pointer │ ──▶ │ entry │          a longer entry, alone
//! ```
//!
//! A *slot* is the place of one key for as long as the block lives: its fingerprint, the offset of
//! its entry, and a bit of `live`. A fingerprint is a byte of a key's hash: one vector comparison
//! finds the slots that may have a key. Entries are [packed](nearfield_core::packed) in the format
//! of a scan's answer, so that a scan copies neighbours at once.
//!
//! The first slots are *sorted* by their keys. Behind them is a *tail* of at most three slots in
//! the order of their insertion; `ranks` has the rank of each among the sorted ones, once a reader
//! has needed it.
//!
//! # Changes in place
//!
//! An entry never changes after it is linked, so that readers use a value in place, without a copy,
//! as long as they are pinned. A write puts its entry into the room behind the others, or into the
//! *hole* that an earlier value has left, once no thread reads that any more:
//!
//! | change | last step, which makes it visible |
//! |---|---|
//! | another value | the offset of the key's slot |
//! | a new key | the slot's bit in `live`, after fingerprint and offset |
//! | a removal | the slot's bit in `live` |
//!
//! A slot never gets another key, and a removed key that comes back gets a new slot. So a reader
//! that finds a bit in `live`, and reads the offset after that, reads a value that the key had in
//! between. `state` or `hole` change with each entry, and are the version of the block for a reader
//! of many entries. Only the holder of the lock of the node above writes. A write without room
//! makes another block, and marks this one *dead* before it is replaced.
//!
//! # Dead blocks
//!
//! A walk that has reached a block may find it dead. The block shows the state before the change,
//! which was the tree's after the walk began. A reader that reaches a block in another way, or for
//! visits that follow others in a batch, must check whether it is dead. A live block holds the
//! tree's present entries for its keys.

mod change;
mod create;
mod packed;
mod snapshot;
mod state;
#[cfg(test)]
mod tests;

pub use change::{insert, mark_dead, remove, set};
pub use create::{create, create_edited, fits, free, joins};
pub use snapshot::Snapshot;

use crate::memory::Memory;
use crate::node::{Ref, equal_16};
use crate::prefetch::prefetch;
use arrayvec::ArrayVec;
use crossbeam_epoch::Guard;
use nearfield_core::packed::packed_length;
use nearfield_core::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use packed::unpack_at;
use snapshot::Place;
use state::{Marks, Slots, State};
use std::hash::{BuildHasher, Hasher};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU16, Ordering, fence};

/// The most entries of a block.
pub const STRINGS_MAX: usize = 32;

/// The unit of leaf memory.
pub const GRANULE_BYTES: usize = 16;

/// The longest block in granules; a longer entry is kept outside the region.
pub const GRANULES_MAX: usize = 64;

/// The most slots that are not sorted. More would make insertions faster, and scans slower.
const TAIL_MAX: usize = 3;

/// Places for ranks: as many as lie before the next word.
const RANKS: usize = 7;
const _: () = assert!(TAIL_MAX <= RANKS);

/// A block that is written leaves room for one more entry for each so many.
const SPARE_SHARE: usize = 4;

/// The rank of a slot of the tail that no reader has needed yet.
const UNKNOWN: u8 = u8::MAX;

const BLOCK_MAX: usize = GRANULES_MAX * GRANULE_BYTES;
const LINE_BYTES: usize = 64;
const MARKS_BYTES: usize = size_of::<Marks>();
const OFFSETS_AT: usize = MARKS_BYTES + size_of::<Slots>();

const _: () = assert!(OFFSETS_AT == 56);
const _: () = assert!(MAX_KEY_BYTES + MAX_VALUE_BYTES < State::LENGTH as usize - 64);

/// An entry as it is read from a block.
pub type Entry<'g> = (&'g [u8], &'g [u8]);

/// A block, and its state when it was read.
#[derive(Clone, Copy, Debug)]
pub struct Strings<'g> {
    live: u32,
    state: State,
    leaf: *const u8,
    /// What offsets count from.
    base: *const u8,
    guard: PhantomData<&'g Guard>,
}

#[inline]
fn marks(memory: &Memory, leaf: Ref) -> &Marks {
    // SAFETY: leaf references are made by `create` only, within the leaf region, which is mapped
    // as long as `memory`; granules are aligned to 16. The marks are written before the leaf is
    // linked, and are atomic.
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
        let marks = marks(memory, leaf);
        let live = marks.live.load(Ordering::Acquire);
        // After the live entries: a block that is not dead now was not when they were read.
        let state = State(marks.state.load(Ordering::Acquire));
        let leaf = memory.leaf_address(leaf).cast_const();
        let base = match state.is_outside() {
            false => leaf,
            // SAFETY: `create` has written the pointer behind the marks before the leaf was linked.
            true => unsafe { leaf.add(MARKS_BYTES).cast::<*const u8>().read() },
        };
        Strings {
            live,
            state,
            leaf,
            base,
            guard: PhantomData,
        }
    }

    /// Reads the block again.
    fn again(self) -> Strings<'g> {
        // SAFETY: as in `marks`; the guard lives for 'g.
        let marks = unsafe { &*self.leaf.cast::<Marks>() };
        let live = marks.live.load(Ordering::Acquire);
        let state = State(marks.state.load(Ordering::Acquire));
        Strings {
            live,
            state,
            ..self
        }
    }

    /// True if the block has been replaced.
    #[inline]
    pub fn is_dead(self) -> bool {
        self.state.is_dead()
    }

    /// The number of live entries.
    pub fn count(self) -> usize {
        self.live.count_ones() as usize
    }

    /// The number of slots that keys have taken, removed ones included.
    #[inline]
    pub fn taken(self) -> usize {
        self.state.count()
    }

    #[inline]
    fn slots(&self) -> &Slots {
        debug_assert!(!self.state.is_outside());
        // SAFETY: a block with its entries inside has these behind its marks. They are written
        // before the leaf is linked, and are atomic or do not change until the leaf is freed, which
        // happens after the guard is gone.
        unsafe { &*self.leaf.add(MARKS_BYTES).cast() }
    }

    /// The offset of a slot's entry, in a block that has its entries inside.
    #[inline]
    fn offset_word(&self, slot: usize) -> &AtomicU16 {
        debug_assert!(slot < self.state.slots());
        // SAFETY: the block has room for the offsets of all its slots from there on. Offsets are
        // initialized with the block or by the system, and are atomic from then on.
        unsafe { &*self.leaf.add(OFFSETS_AT + 2 * slot).cast() }
    }

    /// Where the entry of a slot starts.
    #[inline]
    fn offset(self, slot: usize) -> usize {
        match self.state.is_outside() {
            true => 0,
            // Pairs with the store that links an entry.
            false => usize::from(self.offset_word(slot).load(Ordering::Acquire)),
        }
    }

    /// The entry at an offset, and where it ends.
    #[inline]
    fn entry_at(self, offset: usize) -> (Entry<'g>, usize) {
        // SAFETY: offsets are those of entries, which have been written completely before. Nothing
        // writes them again until the leaf is freed. That happens after all guards under which the
        // leaf could be read are gone; the guard of `at` lives for 'g.
        let (entry, length) = unsafe { unpack_at(self.base.add(offset)) };
        (entry, offset + length)
    }

    /// The entry of a slot, live or not.
    #[inline]
    pub fn entry(self, slot: usize) -> Entry<'g> {
        self.entry_at(self.offset(slot)).0
    }

    /// The slots that may be a key's, a bit for each.
    #[inline]
    fn candidates(self, key: &[u8]) -> u32 {
        if self.state.is_outside() {
            return self.live;
        }
        let words = self.slots().prints.each_ref();
        let words = words.map(|word| word.load(Ordering::Relaxed));
        let print = fingerprint(key);
        let low = equal_16(words[0], words[1], print);
        let high = equal_16(words[2], words[3], print);
        (low | high << 16) & self.live
    }

    /// The slot of a key and its value.
    #[inline]
    pub fn find(self, key: &[u8]) -> Option<(usize, &'g [u8])> {
        let mut candidates = self.candidates(key);
        while candidates != 0 {
            let slot = candidates.trailing_zeros() as usize;
            let (other, value) = self.entry(slot);
            if other == key {
                return Some((slot, value));
            }
            candidates &= candidates - 1;
        }
        None
    }

    /// The first entry that may be a key's, for prefetching.
    #[inline]
    pub fn likely(self, key: &[u8]) -> *const u8 {
        let candidates = self.candidates(key);
        let slot = match candidates {
            0 => 0,
            _ => candidates.trailing_zeros(),
        };
        self.base.wrapping_add(self.offset(slot as usize))
    }

    /// Prefetches the line where the next entry would be written.
    #[inline]
    pub fn prefetch_room(self) {
        if !self.state.is_outside() {
            prefetch(self.leaf.wrapping_add(self.state.end()));
        }
    }

    /// Prefetches all lines of a block that is about to be copied.
    fn prefetch_all(self) {
        if !self.state.is_outside() {
            (0..self.state.end())
                .step_by(LINE_BYTES)
                .for_each(|at| prefetch(self.leaf.wrapping_add(at)));
        }
    }

    /// Some live entry.
    pub fn any(self) -> Option<Entry<'g>> {
        (self.live != 0).then(|| self.entry(self.live.trailing_zeros() as usize))
    }

    /// The live entries at one instant, in ascending order.
    #[inline]
    pub fn snapshot(self) -> Snapshot<'g> {
        self.snapshot_while(|| {})
    }

    /// As `snapshot`. `between` is called after each reading, before the check that nothing has
    /// changed, for tests.
    #[inline]
    fn snapshot_while(self, mut between: impl FnMut()) -> Snapshot<'g> {
        let mut hole = self.hole();
        let mut block = self.again();
        loop {
            let mut snapshot = Snapshot {
                block,
                places: [Place::default(); STRINGS_MAX],
                count: 0,
                unmoved: hole == 0,
            };
            match block.state.count() == block.state.sorted() {
                true => snapshot.push_sorted(0, block.state.sorted()),
                false => snapshot.merge(),
            }
            between();
            // What an offset was read of has been written before the words below.
            fence(Ordering::Acquire);
            let now = (self.hole(), self.again());
            let changed = (now.1.state.0 ^ block.state.0) & !State::DEAD != 0
                || (now.0, now.1.live) != (hole, block.live);
            if !changed {
                return snapshot;
            }
            (hole, block) = now;
        }
    }

    /// Zero until a value of the block is replaced.
    #[inline]
    fn hole(self) -> u64 {
        match self.state.is_outside() {
            true => 0,
            false => self.slots().hole.load(Ordering::Acquire),
        }
    }

    #[inline]
    fn place(self, slot: usize) -> Place {
        Place {
            offset: self.offset(slot) as u16,
            slot: slot as u8,
        }
    }

    /// How many sorted keys are less than one of the tail. The first reader who needs that tells
    /// the others.
    #[inline]
    fn rank_of_tail(self, position: usize, place: Place) -> u8 {
        let rank = &self.slots().ranks[position];
        match rank.load(Ordering::Relaxed) {
            UNKNOWN => {
                let found = self.rank(self.key_at(place)) as u8;
                rank.store(found, Ordering::Relaxed);
                found
            }
            known => known,
        }
    }

    /// The number of sorted slots, live or not, whose keys are less.
    fn rank(self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.state.sorted());
        while low < high {
            let middle = (low + high) / 2;
            match self.entry(middle).0 < key {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    #[inline]
    fn key_at(self, place: Place) -> &'g [u8] {
        self.entry_at(usize::from(place.offset)).0.0
    }

    /// The live entries at one instant, in ascending order.
    #[inline]
    pub fn entries(self) -> impl DoubleEndedIterator<Item = Entry<'g>> {
        let snapshot = self.snapshot();
        (0..snapshot.count()).map(move |position| snapshot.entry(position))
    }

    /// The keys of all slots, whether or not they have been removed.
    pub fn all_keys(self) -> impl Iterator<Item = &'g [u8]> {
        (0..self.state.count()).map(move |slot| self.entry(slot).0)
    }

    /// The smallest place for `length` bytes between the entries of all slots.
    #[cold]
    fn gap(self, length: usize) -> Option<usize> {
        let ends = (0..self.state.count()).map(|slot| {
            let start = self.offset(slot);
            (start, self.entry_at(start).1)
        });
        let mut entries: ArrayVec<(usize, usize), STRINGS_MAX> = ends.collect();
        entries.sort_unstable();
        let mut from = block_length(self.state.slots(), 0);
        let gaps = entries.iter().map(|&(start, end)| {
            let gap = (start - from, from);
            from = end;
            gap
        });
        gaps.filter(|gap| gap.0 >= length).min().map(|gap| gap.1)
    }

    /// The bytes behind the entries.
    fn room(self) -> usize {
        match self.state.is_outside() {
            true => 0,
            false => usize::from(self.slots().granules) * GRANULE_BYTES - self.state.end(),
        }
    }

    /// True if the block has room for another key.
    #[inline]
    pub fn has_room_for_key(self, key: &[u8], value: &[u8]) -> bool {
        let state = self.state;
        packed_length(key.len(), value.len()) <= self.room()
            && state.count() < state.slots()
            && state.count() - state.sorted() < TAIL_MAX
    }
}

/// The lowest `count` bits.
#[inline]
fn below(count: usize) -> u32 {
    u32::MAX.checked_shr(u32::BITS - count as u32).unwrap_or(0)
}

/// The bytes of a block.
fn block_length(slots: usize, entries: usize) -> usize {
    OFFSETS_AT + 2 * slots + entries
}
