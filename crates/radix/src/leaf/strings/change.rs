//! Changes of a block in place. Only under the lock of the node above.

use super::create::write;
use super::state::{Hole, State};
use super::{Entry, Strings, UNKNOWN, fingerprint, marks};
use crate::memory::Memory;
use crate::node::Ref;
use crossbeam_epoch::Guard;
use nearfield_core::packed::packed_length;
use std::sync::atomic::Ordering;

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
