//! Leaves of byte strings: blocks of up to 32 entries.
//!
//! ```text
//!   0      4       8                 40      47         48     56
//!   │ live │ state │ 32 fingerprints │ ranks │ granules │ hole │ offsets: 2 … │ entries … │ room │
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
//! of many entries. Only the holder of the lock of the node above writes. A write without room makes
//! another block, and marks this one *dead* before it is replaced.
//!
//! # Dead blocks
//!
//! A walk that has reached a block may find it dead. The block shows the state before the change,
//! which was the tree's after the walk began. A reader that reaches a block in another way, or for
//! visits that follow others in a batch, must check whether it is dead. A live block holds the
//! tree's present entries for its keys.

use crate::memory::Memory;
use crate::node::{Ref, equal_16};
use crate::prefetch::prefetch;
use arrayvec::ArrayVec;
use crossbeam_epoch::Guard;
use nearfield_core::packed::{PackedLengths, packed_length};
use nearfield_core::{Error, MAX_KEY_BYTES, MAX_VALUE_BYTES};
use std::hash::{BuildHasher, Hasher};
use std::marker::PhantomData;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

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

/// The beginning of every block.
#[derive(Debug)]
#[repr(C)]
struct Marks {
    /// Which slots have an entry, a bit for each, the first lowest.
    live: AtomicU32,
    state: AtomicU32,
}

/// What follows in a block that has its entries inside.
#[derive(Debug)]
#[repr(C)]
struct Slots {
    prints: [AtomicU64; STRINGS_MAX / 8],
    /// How many sorted keys are less, for each slot of the tail.
    ranks: [AtomicU8; RANKS],
    /// The length of the block.
    granules: u8,
    hole: AtomicU64,
}

/// Where a former entry was, in one word that is written at once.
#[derive(Clone, Copy, Debug)]
struct Hole {
    offset: u16,
    length: u16,
    /// Tells when no thread reads a former entry of the block any more, be it this or another.
    ticket: u32,
}

impl Hole {
    fn of(word: u64) -> Hole {
        Hole {
            offset: word as u16,
            length: (word >> 16) as u16,
            ticket: (word >> 32) as u32,
        }
    }

    fn word(self) -> u64 {
        u64::from(self.offset) | u64::from(self.length) << 16 | u64::from(self.ticket) << 32
    }
}

/// The state of a block, in one word that is written at once.
///
/// ```text
///   31     30         29 … 0
///   dead │ outside │ length of the entry outside
///   dead │ 0       │ 0 │ sorted: 6 │ count: 6 │ slots: 6 │ end: 11
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State(u32);

impl State {
    const DEAD: u32 = 1 << 31;
    const OUTSIDE: u32 = 1 << 30;
    const LENGTH: u32 = Self::OUTSIDE - 1;

    fn inside(end: usize, slots: usize, count: usize, sorted: usize) -> State {
        debug_assert!(end <= BLOCK_MAX && sorted <= count && count <= slots);
        State((end | slots << 11 | count << 17 | sorted << 23) as u32)
    }

    #[inline]
    fn is_dead(self) -> bool {
        self.0 & Self::DEAD != 0
    }

    #[inline]
    fn is_outside(self) -> bool {
        self.0 & Self::OUTSIDE != 0
    }

    /// The bytes of the entry outside.
    fn length(self) -> usize {
        (self.0 & Self::LENGTH) as usize
    }

    /// Where the entries end.
    #[inline]
    fn end(self) -> usize {
        (self.0 & 0x7ff) as usize
    }

    /// The places for slots.
    #[inline]
    fn slots(self) -> usize {
        (self.0 >> 11 & 0x3f) as usize
    }

    /// The slots that have been given to a key.
    #[inline]
    fn count(self) -> usize {
        match self.is_outside() {
            true => 1,
            false => (self.0 >> 17 & 0x3f) as usize,
        }
    }

    /// The slots that are sorted by key, the first ones.
    #[inline]
    fn sorted(self) -> usize {
        match self.is_outside() {
            true => 1,
            false => (self.0 >> 23 & 0x3f) as usize,
        }
    }
}

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

/// Where an entry is.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    offset: u16,
    slot: u8,
}

/// The live entries of a block at one instant, in ascending order.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'g> {
    block: Strings<'g>,
    places: [Place; STRINGS_MAX],
    count: usize,
    /// True if the entries still lie one behind the other in the order of their slots.
    unmoved: bool,
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

impl<'g> Snapshot<'g> {
    /// Adds the live ones of the slots from `first` to before `behind`.
    #[inline]
    fn push_sorted(&mut self, first: usize, behind: usize) {
        let all = below(behind) & !below(first);
        let mut live = self.block.live & all;
        if live == all {
            for slot in first..behind {
                self.places[self.count] = self.block.place(slot);
                self.count += 1;
            }
            return;
        }
        while live != 0 {
            self.places[self.count] = self.block.place(live.trailing_zeros() as usize);
            self.count += 1;
            live &= live - 1;
        }
    }

    /// Merges the tail with the sorted slots.
    fn merge(&mut self) {
        let block = self.block;
        let (count, sorted) = (block.state.count(), block.state.sorted());
        let mut tail = ArrayVec::<(u8, Place), TAIL_MAX>::new();
        for slot in (sorted..count).filter(|slot| block.live >> slot & 1 != 0) {
            let place = block.place(slot);
            let rank = block.rank_of_tail(slot - sorted, place);
            let behind = tail.iter().position(|&(other, before)| {
                rank < other || rank == other && block.key_at(place) < block.key_at(before)
            });
            tail.insert(behind.unwrap_or(tail.len()), (rank, place));
        }
        let mut first = 0;
        for (rank, place) in tail {
            self.push_sorted(first, usize::from(rank));
            first = usize::from(rank);
            self.places[self.count] = place;
            self.count += 1;
        }
        self.push_sorted(first, sorted);
    }

    /// The number of entries.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The entry at a position below the count.
    #[inline]
    pub fn entry(&self, position: usize) -> Entry<'g> {
        let place = self.places[position];
        self.block.entry_at(usize::from(place.offset)).0
    }

    /// How many entries stand before a key that is likely to be there.
    #[inline]
    pub fn rank(&self, key: &[u8]) -> usize {
        let places = &self.places[..self.count];
        let found = self.block.find(key).and_then(|(slot, _)| {
            let mut slots = places.iter().map(|place| usize::from(place.slot));
            slots.position(|other| other == slot)
        });
        found.unwrap_or_else(|| self.partition_point(key))
    }

    /// How many entries stand before a key.
    fn partition_point(&self, key: &[u8]) -> usize {
        let places = &self.places[..self.count];
        places.partition_point(|&place| self.block.key_at(place) < key)
    }

    /// Where the entry of a place ends.
    #[inline]
    fn end(&self, place: Place) -> usize {
        if !self.unmoved || self.block.state.is_outside() {
            return self.block.entry_at(usize::from(place.offset)).1;
        }
        let next = usize::from(place.slot) + 1;
        match next < self.block.state.count() {
            true => self.block.offset(next),
            false => self.block.state.end(),
        }
    }

    /// The bytes of the entries of a range.
    fn length(&self, range: Range<usize>) -> usize {
        let length = |&place| self.end(place) - usize::from(place.offset);
        self.places[range].iter().map(length).sum()
    }

    /// Calls `visit` for the bytes of the entries of a range, packed, and for their number.
    /// Neighbours in memory come together.
    #[inline]
    pub fn runs(
        &self,
        range: Range<usize>,
        mut visit: impl FnMut(&'g [u8], usize) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut places = self.places[range].iter().peekable();
        while let Some(&first) = places.next() {
            let start = usize::from(first.offset);
            let (mut last, mut count) = (first, 1);
            let mut end = usize::MAX;
            if self.unmoved {
                while let Some(&next) = places.next_if(|next| next.slot == last.slot + 1) {
                    (last, count) = (next, count + 1);
                }
                end = self.end(last);
            } else {
                while end == usize::MAX {
                    let behind = self.end(last);
                    match places.next_if(|next| usize::from(next.offset) == behind) {
                        Some(&next) => (last, count) = (next, count + 1),
                        None => end = behind,
                    }
                }
            }
            // SAFETY: entries stand there one behind the other, which `entry_at` may borrow.
            let bytes =
                unsafe { std::slice::from_raw_parts(self.block.base.add(start), end - start) };
            visit(bytes, count)?;
        }
        ControlFlow::Continue(())
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
fn write(bytes: &mut [u8], key: &[u8], value: &[u8]) -> usize {
    let lengths = PackedLengths::new(key.len(), value.len());
    let mut end = 0;
    for part in [lengths.as_bytes(), key, value] {
        bytes[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    end
}

/// Reads a [packed](nearfield_core::packed) entry and its length.
///
/// # Safety
/// An entry stands there, and nothing writes it during 'g.
#[inline]
unsafe fn unpack_at<'g>(start: *const u8) -> (Entry<'g>, usize) {
    // SAFETY: promised by the caller. An entry has as many bytes as its lengths say.
    unsafe {
        let [key, value] = start.cast::<[u8; 2]>().read();
        if key == u8::MAX || value == u8::MAX {
            return unpack_long_at(start);
        }
        let (key, value) = (usize::from(key), usize::from(value));
        (parts(start, 2, key, value), 2 + key + value)
    }
}

/// As [`unpack_at`], of an entry with a length in four bytes.
#[cold]
unsafe fn unpack_long_at<'g>(start: *const u8) -> (Entry<'g>, usize) {
    // SAFETY: as in `unpack_at`.
    unsafe {
        let mut at = 2;
        let lengths = start.cast::<[u8; 2]>().read().map(|short| match short {
            u8::MAX => {
                let long = start.add(at).cast::<[u8; 4]>().read();
                at += 4;
                u32::from_le_bytes(long) as usize
            }
            short => usize::from(short),
        });
        let [key, value] = lengths;
        (parts(start, at, key, value), at + key + value)
    }
}

/// A key and a value that lie `at` bytes behind `start`.
///
/// # Safety
/// As for [`unpack_at`].
#[inline]
unsafe fn parts<'g>(start: *const u8, at: usize, key: usize, value: usize) -> Entry<'g> {
    // SAFETY: promised by the caller.
    unsafe {
        (
            std::slice::from_raw_parts(start.add(at), key),
            std::slice::from_raw_parts(start.add(at + key), value),
        )
    }
}

/// Writes an entry where no reader looks: into the room of a block, or into a hole that no thread
/// reads any more. Returns where it ends.
///
/// # Safety
/// The caller holds the lock of the node above, and that place is within the block.
unsafe fn put(memory: &Memory, leaf: Ref, at: usize, (key, value): Entry<'_>) -> usize {
    let length = packed_length(key.len(), value.len());
    // SAFETY: as the caller promises, the bytes lie within the leaf, and no other thread writes.
    // Readers borrow entries, none of which lies there.
    let place =
        unsafe { std::slice::from_raw_parts_mut(memory.leaf_address(leaf).add(at), length) };
    at + write(place, key, value)
}

/// Sets the value of a slot. False if there is no room. Only under the lock of the node above.
pub fn set(
    memory: &Memory,
    leaf: Ref,
    block: Strings<'_>,
    slot: usize,
    value: &[u8],
    guard: &Guard,
) -> bool {
    if block.state.is_outside() {
        return false;
    }
    let before = block.offset(slot);
    let ((key, _), before_end) = block.entry_at(before);
    let length = packed_length(key.len(), value.len());
    let mut state = block.state;
    let slots = block.slots();
    let mut hole = Hole::of(slots.hole.load(Ordering::Relaxed));
    let passed = memory.grace.has_passed(hole.ticket);
    let place = if passed && length <= usize::from(hole.length) {
        let place = usize::from(hole.offset);
        hole.length = 0;
        place
    } else if length <= block.room() {
        let end = state.end();
        state = State::inside(end + length, state.slots(), state.count(), state.sorted());
        end
    } else if passed && let Some(gap) = block.gap(length) {
        hole.length = 0;
        gap
    } else {
        return false;
    };
    // SAFETY: there is room behind the entries, or in a hole whose readers have gone.
    unsafe { put(memory, leaf, place, (key, value)) };
    block
        .offset_word(slot)
        .store(place as u16, Ordering::Release);
    // What is left of a hole or smaller than it is found again when there is no other room.
    if before_end - before >= usize::from(hole.length) {
        hole.offset = before as u16;
        hole.length = (before_end - before) as u16;
    }
    hole.ticket = memory.grace.ticket(guard);
    slots.hole.store(hole.word(), Ordering::Release);
    marks(memory, leaf).state.store(state.0, Ordering::Release);
    true
}

/// Adds an entry of a new key, for which there [is room](Strings::has_room_for_key). Only under the
/// lock of the node above.
pub fn insert(memory: &Memory, leaf: Ref, block: Strings<'_>, entry: Entry<'_>) {
    let state = block.state;
    let (slot, sorted) = (state.count(), state.sorted());
    let ascends = slot == sorted && (sorted == 0 || block.entry(sorted - 1).0 < entry.0);
    // SAFETY: there is room behind the entries.
    let end = unsafe { put(memory, leaf, state.end(), entry) };
    let slots = block.slots();
    let word = &slots.prints[slot / 8];
    let shift = 8 * (slot % 8);
    let others = word.load(Ordering::Relaxed) & !(0xff << shift);
    let print = u64::from(fingerprint(entry.0)) << shift;
    word.store(others | print, Ordering::Relaxed);
    let offset = state.end() as u16;
    block.offset_word(slot).store(offset, Ordering::Release);
    let sorted = match ascends {
        true => sorted + 1,
        false => {
            slots.ranks[slot - sorted].store(UNKNOWN, Ordering::Relaxed);
            sorted
        }
    };
    let state = State::inside(end, state.slots(), slot + 1, sorted);
    let marks = marks(memory, leaf);
    // Before the bit: a reader that finds the key finds its slot among those that count.
    marks.state.store(state.0, Ordering::Release);
    marks.live.fetch_or(1 << slot, Ordering::AcqRel);
}

/// Marks a block as replaced. Only under the lock of the node above, and before it is unlinked.
pub fn mark_dead(memory: &Memory, leaf: Ref) {
    let state = &marks(memory, leaf).state;
    state.fetch_or(State::DEAD, Ordering::AcqRel);
}

/// Removes the live entry of a slot. Only under the lock of the node above.
pub fn remove(memory: &Memory, leaf: Ref, slot: usize) {
    let live = &marks(memory, leaf).live;
    live.fetch_and(!(1 << slot), Ordering::AcqRel);
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

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_core::packed::Packed;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};
    use std::collections::BTreeMap;
    use std::sync::Arc;

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
                    let replaced = match i == 1 && position < count {
                        true => {
                            others.pop();
                            all.pop();
                            others[position].1 = b"old";
                            Some(position)
                        }
                        false => {
                            others.remove(position);
                            None
                        }
                    };
                    let old = create(&memory, &others).expect("memory");
                    let block = Strings::at(&memory, old, &guard);
                    let edited = create_edited(&memory, block, replaced, all[position]);
                    assert_eq!(edited.is_some(), fits(&all));
                    let Some(Ok(edited)) = edited else { continue };
                    let block = Strings::at(&memory, edited, &guard);
                    assert!(block.entries().eq(all.iter().copied()));
                    for (i, (key, value)) in all.iter().enumerate() {
                        assert_eq!(block.find(key), Some((i, *value)));
                    }
                }
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

    /// Works at grace periods for a while, or until those have passed that a ticket asks for.
    fn pass(memory: &Arc<Memory>, ticket: u32, tries: usize) {
        for _ in 0..tries {
            if memory.grace.has_passed(ticket) {
                return;
            }
            let guard = crossbeam_epoch::pin();
            memory.begin_grace(&guard);
            guard.flush();
        }
    }

    /// Random changes, in place where there is room, against a `BTreeMap`.
    #[test]
    fn a_block_that_is_changed_in_place_equals_a_map() {
        let memory = Arc::new(memory());
        let mut rng = SmallRng::seed_from_u64(7);
        let (mut set_in_place, mut inserted, mut copied) = (0, 0, 0);
        for round in 0..300 {
            let first = format!("{:03}", rng.random_range(0..1000)).into_bytes();
            let mut leaf = create(&memory, &[(&first, b"first")]).expect("memory");
            let mut map = BTreeMap::from([(first, b"first".to_vec())]);
            for _ in 0..100 {
                let guard = crossbeam_epoch::pin();
                let block = Strings::at(&memory, leaf, &guard);
                let known = map.keys().nth(rng.random_range(0..map.len()));
                let key = match rng.random_range(0..3) {
                    0 if map.len() < 25 => format!("{:03}", rng.random_range(0..1000)).into_bytes(),
                    _ => known.expect("a key").clone(),
                };
                let found = block.find(&key);
                assert_eq!(
                    found.map(|found| found.1),
                    map.get(&key).map(|value| &value[..])
                );
                if let Some((slot, _)) = found
                    && map.len() > 1
                    && rng.random_range(0..4) == 0
                {
                    remove(&memory, leaf, slot);
                    map.remove(&key);
                } else {
                    let value = vec![rng.random(); rng.random_range(0..20)];
                    let slot = found.map(|found| found.0);
                    let changed = match slot {
                        Some(slot) => set(&memory, leaf, block, slot, &value, &guard),
                        None if block.has_room_for_key(&key, &value) => {
                            insert(&memory, leaf, block, (&key, &value));
                            inserted += 1;
                            true
                        }
                        None => false,
                    };
                    set_in_place += usize::from(changed);
                    if !changed {
                        let copy = create_edited(&memory, block, slot, (&key, &value));
                        leaf = copy.expect("room").expect("memory");
                        copied += 1;
                    }
                    map.insert(key, value);
                }
                let block = Strings::at(&memory, leaf, &guard);
                let entries = map.iter().map(|(key, value)| (&key[..], &value[..]));
                assert!(block.entries().eq(entries.clone()), "round {round}");
                let (mut packed, mut count) = (Vec::new(), 0);
                let snapshot = block.snapshot();
                let _ = snapshot.runs(0..snapshot.count(), |bytes, entries| {
                    packed.extend_from_slice(bytes);
                    count += entries;
                    ControlFlow::Continue(())
                });
                let bytes = &packed[..];
                assert!(Packed { bytes, count }.eq(entries), "round {round}");
                drop(guard);
                if rng.random_range(0..3) == 0 {
                    let ticket = memory.grace.ticket(&crossbeam_epoch::pin());
                    pass(&memory, ticket, 20);
                }
            }
        }
        assert!(
            set_in_place > copied && inserted > 0,
            "{set_in_place} {inserted} {copied}"
        );
    }

    /// A change while a snapshot is taken is noticed, whatever it changes.
    #[test]
    fn a_snapshot_is_of_one_instant() {
        let memory = memory();
        let guard = crossbeam_epoch::pin();
        let keys: Vec<[u8; 1]> = (b'b'..=b'm').map(|key| [key]).collect();
        let entries: Vec<Entry<'_>> = keys.iter().map(|key| (&key[..], &b"old"[..])).collect();
        let old = create(&memory, &entries).expect("memory");
        let old = Strings::at(&memory, old, &guard);
        let leaf = create_edited(&memory, old, Some(0), entries[0]);
        let leaf = leaf.expect("room").expect("memory");
        let block = || Strings::at(&memory, leaf, &guard);
        let taken_while = |change: &dyn Fn()| {
            let mut calls = 0;
            let snapshot = block().snapshot_while(|| {
                calls += 1;
                if calls == 1 {
                    change();
                }
            });
            assert_eq!(calls, 2, "the change was not noticed");
            let entries = (0..snapshot.count()).map(|position| snapshot.entry(position));
            assert!(entries.eq(block().entries()));
        };
        taken_while(&|| assert!(set(&memory, leaf, block(), 3, b"new", &guard)));
        taken_while(&|| insert(&memory, leaf, block(), (b"a", b"new")));
        taken_while(&|| remove(&memory, leaf, 5));
        let dies = block().snapshot_while(|| mark_dead(&memory, leaf));
        assert_eq!(dies.count(), entries.len());
    }

    /// A value that a thread may still read is not overwritten.
    #[test]
    fn a_hole_waits_for_its_readers() {
        let memory = Arc::new(memory());
        let entries: Vec<[u8; 1]> = (0..8).map(|i| [i]).collect();
        let entries: Vec<Entry<'_>> = entries.iter().map(|key| (&key[..], &b"old"[..])).collect();
        let guard = crossbeam_epoch::pin();
        let leaf = create(&memory, &entries).expect("memory");
        let block = || Strings::at(&memory, leaf, &guard);
        let room = create_edited(&memory, block(), Some(0), (&[0], b"one"));
        let leaf = room.expect("room").expect("memory");
        let block = || Strings::at(&memory, leaf, &guard);
        let lent = block().find(&[0]).expect("a key").1;
        let sets = (0..100).take_while(|_| set(&memory, leaf, block(), 0, b"two", &guard));
        assert!(sets.count() < 100, "there is no such room");
        assert_eq!(lent, b"one");
        let ticket = memory.grace.ticket(&guard);
        pass(&memory, ticket, 100);
        assert!(!set(&memory, leaf, block(), 0, b"two", &guard));
        drop(guard);
        pass(&memory, ticket, usize::MAX);
        let guard = crossbeam_epoch::pin();
        let block = Strings::at(&memory, leaf, &guard);
        assert!(set(&memory, leaf, block, 0, b"two", &guard));
    }
}
