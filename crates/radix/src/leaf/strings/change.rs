//! Changes of a block in place, under its latch.

use super::header::StringBlockLatch;
use super::{
    Entry, FingerprintCandidates, GRANULE_BYTES, PRINT_WORDS, StringBlock, StringEntryParts, below,
    fingerprint, header, racing,
};
use crate::change::{LeafChangeResult, RadixKeyChange};
use crate::leaf::LeafWalkContext;
use crate::memory::RadixMemory;
use crate::node::Ref;
use crossbeam_epoch::Guard;
use nearfield_core::packed::{PackedLengths, packed_length};
use std::sync::atomic::Ordering;

/// The part (1 in this number) of a block that may be lost for a value of another length to be set
/// in place.
const LOST_PART: usize = 8;

/// Takes the latch of a block, after waiting for others, if it is `needed`: see
/// [`latching`](crate::latching). Only under the lock of the node above.
#[inline]
pub fn latch(memory: &RadixMemory, leaf: Ref, needed: bool) -> StringBlockLatch<'_> {
    header(memory, leaf).latch(needed)
}

/// Applies the decision of `decide` to a key, under the latch alone, unless the change affects more
/// than the block, the block is dead, or another thread holds the latch. `decide` may have been
/// called without an effect.
#[inline]
pub fn alter<'v>(
    memory: &RadixMemory,
    leaf: Ref,
    key: &[u8],
    known: LeafWalkContext<FingerprintCandidates>,
    guard: &Guard,
    decide: &mut impl FnMut(Option<&[u8]>) -> RadixKeyChange<&'v [u8]>,
) -> LeafChangeResult {
    let Some(_latch) = header(memory, leaf).try_latch() else {
        return LeafChangeResult::Not;
    };
    let block = StringBlock::latched(memory, leaf, guard);
    // A block that is not dead is linked, or was when its latch was taken, because a thread that
    // replaces it latches it first. It still covers its former range, because a smaller range needs
    // another block.
    if block.is_dead() {
        return LeafChangeResult::Not;
    }
    // If the block has not changed since it was prepared, the search for fingerprints is spared.
    let candidates = block.candidates_again(key, known.prepared);
    if let Some((position, parts)) = block.find(key, candidates) {
        return match decide(Some(parts.value())) {
            RadixKeyChange::Keep => LeafChangeResult::InPlace,
            RadixKeyChange::Set(value) if block.set(position, value) => LeafChangeResult::InPlace,
            RadixKeyChange::Set(_) | RadixKeyChange::Remove => LeafChangeResult::Not,
        };
    }
    // Without skipped bytes, the walk has proved that the key belongs here.
    if !block.has_slot() || known.skipped && !block.has_prefix(key, known.depth) {
        return LeafChangeResult::Not;
    }
    let RadixKeyChange::Set(value) = decide(None) else {
        return LeafChangeResult::InPlace;
    };
    // `decide` has chosen the value, so its length is known only here.
    if !block.has_room(key, value) {
        return LeafChangeResult::Not;
    }
    // The keys agree in the bytes before the depth, which no thread changes, unless the node had
    // already been removed.
    let rank = match memory.lock(known.parent).is_locked_or_obsolete() {
        true => block.rank(key),
        false => block.rank_behind(key, known.depth),
    };
    block.insert(candidates.print, (key, value), rank);
    LeafChangeResult::Inserted
}

/// Sets the value at a position in place. Returns false if there is no room. Only under the latch.
pub fn set(memory: &RadixMemory, leaf: Ref, position: usize, value: &[u8], guard: &Guard) -> bool {
    StringBlock::latched(memory, leaf, guard).set(position, value)
}

/// Adds an entry of an absent key, for which there [is room](StringBlock::has_room_for_key). All
/// keys agree in the bytes before a depth. Only under the latch.
pub fn insert(
    memory: &RadixMemory,
    leaf: Ref,
    (key, value): Entry<'_>,
    depth: usize,
    guard: &Guard,
) {
    let block = StringBlock::latched(memory, leaf, guard);
    block.insert(
        fingerprint(key),
        (key, value),
        block.rank_behind(key, depth),
    );
}

/// Removes the entry at a position. Only under the latch.
pub fn remove(memory: &RadixMemory, leaf: Ref, position: usize, guard: &Guard) {
    StringBlock::latched(memory, leaf, guard).remove(position);
}

/// Marks a block as replaced. Only under the latch, and before it is unlinked.
pub fn mark_dead(memory: &RadixMemory, leaf: Ref) {
    header(memory, leaf).retire();
}

impl StringBlock<'_> {
    /// Returns the length of the block.
    #[inline]
    pub(super) fn length(self) -> usize {
        self.state.granules() * GRANULE_BYTES
    }

    /// Returns true if a key begins with the bytes that this block's keys have before a depth:
    /// those that the path to the block may skip.
    fn has_prefix(self, key: &[u8], depth: usize) -> bool {
        let prefix = key.get(..depth);
        self.count() > 0 && prefix.is_some() && prefix == self.key(0).get(..depth)
    }

    fn has_slot(self) -> bool {
        !self.state.is_outside() && self.count() < self.state.slots()
    }

    /// Returns true if there is room for an entry after the others.
    fn has_room(self, key: &[u8], value: &[u8]) -> bool {
        self.state.end() + packed_length(key.len(), value.len()) <= self.length()
    }

    /// Returns true if there is room for another key. Only under the latch.
    pub fn has_room_for_key(self, key: &[u8], value: &[u8]) -> bool {
        self.has_slot() && self.has_room(key, value)
    }

    /// Writes an entry into the room after the others, and returns the offset of its end.
    fn write_behind(self, key: &[u8], value: &[u8]) -> usize {
        let mut end = self.state.end();
        let lengths = PackedLengths::new(key.len(), value.len());
        debug_assert!(self.has_room(key, value));
        for part in [lengths.as_bytes(), key, value] {
            // SAFETY: there is room, which the callers have checked. No offset leads there yet, and
            // the latch keeps other threads from writing. Scans may copy the bytes by
            // `racing::load`, but ignore them.
            unsafe { racing::store(self.start.add(end), part) };
            end += part.len();
        }
        end
    }

    #[inline]
    fn set_offset(self, position: usize, offset: usize) {
        // Pairs with the load of a reader that follows it.
        self.slot(position).store(offset as u16, Ordering::Release);
    }

    fn set_jumps(self, jumps: u32) {
        self.jumps().store(jumps, Ordering::Relaxed);
    }

    /// Sets the value at a position, if there is room in place. Only under the latch.
    #[inline]
    fn set(self, position: usize, value: &[u8]) -> bool {
        if self.state.is_outside() {
            return false;
        }
        let parts = self.parts(position);
        if parts.value_length == value.len() {
            // SAFETY: the place has as many bytes. The latch keeps other threads from writing them,
            // and readers copy them by `racing::load`.
            self.header()
                .change(|| unsafe { racing::store(parts.value.as_ptr(), value) });
            return true;
        }
        self.set_behind(position, parts, value)
    }

    /// Counts bytes of entries that no thread can find any more, or will be able to after this
    /// change.
    fn lose(self, bytes: usize) {
        let lost = self.lost().load(Ordering::Relaxed);
        self.lost().store(lost + bytes as u16, Ordering::Relaxed);
    }

    /// Puts an entry with a longer value after the others, if there is room and not too much would
    /// be lost.
    fn set_behind(self, position: usize, parts: StringEntryParts<'_>, value: &[u8]) -> bool {
        let key = parts.key;
        let lost = usize::from(self.lost().load(Ordering::Relaxed)) + parts.length();
        // A block whose values become shorter is copied, so that its space becomes free as a whole.
        let is_shorter = value.len() < parts.value_length;
        if is_shorter || !self.has_room(key, value) || lost > self.length() / LOST_PART {
            return false;
        }
        // Readers ignore the count of lost bytes, so it changes before the version does.
        self.lose(parts.length());
        self.header().change(|| {
            let end = self.write_behind(key, value);
            self.set_offset(position, self.state.end());
            let jumps = self.jumps().load(Ordering::Relaxed);
            // Neither this entry nor the next one is stored after its predecessor any more.
            self.set_jumps(jumps | below(position + 2) & !below(position));
            self.header().set(self.count(), end);
        });
        true
    }

    /// Adds an entry of an absent key, for which there is room. Only under the latch.
    pub(super) fn insert(self, print: u8, (key, value): Entry<'_>, rank: usize) {
        let count = self.count();
        let is_last = rank == count;
        // Only then may a scan copy it with the entry before.
        let adjoins = is_last && rank > 0 && self.end_of(rank - 1) == self.state.end();
        self.header().change(|| {
            let end = self.write_behind(key, value);
            // From the last, so that no offset is overwritten before it has moved.
            for position in (rank..count).rev() {
                self.set_offset(position + 1, self.offset(position));
            }
            self.set_offset(rank, self.state.end());
            self.insert_print(rank, print);
            let jumps = self.jumps().load(Ordering::Relaxed);
            let moved = jumps & below(rank) | (jumps & !below(rank)) << 1;
            let own = u32::from(!adjoins).checked_shl(rank as u32);
            let next = u32::from(!is_last).checked_shl(rank as u32 + 1);
            let cleared = moved & !(1_u32 << rank);
            self.set_jumps(cleared | own.unwrap_or(0) | next.unwrap_or(0));
            self.header().set(count + 1, end);
        });
    }

    /// Makes room for a fingerprint, and sets it.
    fn insert_print(self, rank: usize, print: u8) {
        let shift = 8 * (rank % 8);
        let low = (1_u64 << shift) - 1;
        let first = self.print_word(rank / 8);
        let word = first.load(Ordering::Relaxed);
        let others = word & low | (word & !low) << 8;
        first.store(others | u64::from(print) << shift, Ordering::Relaxed);
        let mut carried = word >> 56;
        for i in rank / 8 + 1..PRINT_WORDS {
            let next = self.print_word(i);
            let word = next.load(Ordering::Relaxed);
            next.store(word << 8 | carried, Ordering::Relaxed);
            carried = word >> 56;
        }
    }

    /// Removes a fingerprint, so that the later ones move up.
    fn remove_print(self, position: usize) {
        let mut carried = 0;
        for i in (position / 8 + 1..PRINT_WORDS).rev() {
            let next = self.print_word(i);
            let word = next.load(Ordering::Relaxed);
            next.store(word >> 8 | carried << 56, Ordering::Relaxed);
            carried = word & 0xff;
        }
        let low = (1_u64 << (8 * (position % 8))) - 1;
        let last = self.print_word(position / 8);
        let word = last.load(Ordering::Relaxed);
        let moved = (word >> 8 | carried << 56) & !low;
        last.store(word & low | moved, Ordering::Relaxed);
    }

    /// Removes the entry at a position. Only under the latch.
    fn remove(self, position: usize) {
        let count = self.count();
        if !self.state.is_outside() {
            // The bytes stay: readers may have borrowed the key.
            self.lose(self.length_at(self.offset(position)));
        }
        self.header().change(|| {
            if !self.state.is_outside() {
                for next in position + 1..count {
                    self.set_offset(next - 1, self.offset(next));
                }
                self.remove_print(position);
                let jumps = self.jumps().load(Ordering::Relaxed);
                let behind = jumps >> 1 & !below(position);
                self.set_jumps(jumps & below(position) | behind | 1 << position);
            }
            self.header().set(count - 1, self.state.end());
        });
    }
}
