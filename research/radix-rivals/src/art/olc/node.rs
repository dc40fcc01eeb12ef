//! Searches and changes of a node whose readers validate.

use crate::art::node::{ArtNode, ArtNodeView, ArtSearchResult, ArtTaggedPointer, END};
use crate::scan::Symbol;
use nearfield_radix::RadixProbe;
use std::sync::atomic::Ordering;

/// Finds the child of a symbol.
#[inline]
pub fn find(node: ArtNode<'_>, symbol: Symbol) -> ArtSearchResult {
    node.find(symbol, |small, byte| {
        let found = small.matches(node.count(), byte);
        if found == 0 {
            return ArtSearchResult::NOTHING;
        }
        let position = found.trailing_zeros() as usize;
        // If the count of a node4 or node16 was read meanwhile, it has no position that large.
        let child = small.slots.get(position).map(|slot| slot.load());
        ArtSearchResult {
            child: child.unwrap_or(ArtTaggedPointer::NONE),
            slot: node.slot_offset(position),
        }
    })
}

/// Adds a child, for which there is room, under the lock.
pub fn insert(
    node: ArtNode<'_>,
    symbol: Symbol,
    child: ArtTaggedPointer,
    probe: &mut impl RadixProbe,
) {
    let Some(byte) = symbol else {
        return node.put(END, child, probe);
    };
    let (place, count) = (node.place(), node.count());
    let kind = node.kind();
    match node.view() {
        ArtNodeView::Small(small) => {
            let position = small.position(count, byte);
            small.insert_key(count, position, byte);
            small.slots[position].store(child);
            probe.write(
                place + kind.head_bytes() as usize - small.slots.len(),
                small.slots.len() as u32,
            );
            let moved = 8 * (count - position + 1) as u32;
            probe.write(place + node.slot_offset(position) as usize, moved);
        }
        ArtNodeView::Node48(inner) => {
            let is_free = |position: &usize| inner.slots[*position].load().is_none();
            let mut positions = (count..inner.slots.len()).chain(0..count);
            let position = positions.find(is_free).unwrap_or(0);
            node.put(node.slot_offset(position), child, probe);
            inner.index[usize::from(byte)].store(position as u8 + 1, Ordering::Release);
            probe.write(place + 24 + usize::from(byte), 1);
        }
        ArtNodeView::Node256(_) => node.put(node.slot_offset(usize::from(byte)), child, probe),
    }
    node.add_to_count(1);
    probe.write(place, 8);
}

/// Removes a child that is present, under the lock.
pub fn remove(node: ArtNode<'_>, symbol: Symbol, slot: u32, probe: &mut impl RadixProbe) {
    let Some(byte) = symbol else {
        return node.put(END, ArtTaggedPointer::NONE, probe);
    };
    let (place, count) = (node.place(), node.count());
    let kind = node.kind();
    match node.view() {
        ArtNodeView::Small(small) => {
            let position = ((slot - kind.slots_offset()) / 8) as usize;
            small.remove_key(count, position);
            small.slots[count - 1].store(ArtTaggedPointer::NONE);
            probe.write(
                place + kind.head_bytes() as usize - small.slots.len(),
                small.slots.len() as u32,
            );
            probe.write(place + slot as usize, 8 * (count - position) as u32);
        }
        ArtNodeView::Node48(inner) => {
            inner.index[usize::from(byte)].store(0, Ordering::Release);
            probe.write(place + 24 + usize::from(byte), 1);
            node.put(slot, ArtTaggedPointer::NONE, probe);
        }
        ArtNodeView::Node256(_) => node.put(slot, ArtTaggedPointer::NONE, probe),
    }
    node.add_to_count(-1);
    probe.write(place, 8);
}
