//! Searches and changes of a node whose readers do not validate.

use crate::art::node::{ArtNode, ArtNodeKind, ArtNodeView, ArtSearchResult, ArtTaggedPointer, END};
use crate::scan::Symbol;
use nearfield_radix::RadixProbe;
use std::sync::atomic::Ordering;

/// Finds the child of a symbol.
#[inline]
pub fn find(node: ArtNode<'_>, symbol: Symbol) -> ArtSearchResult {
    node.find(symbol, |small, byte| {
        // Unused positions hold nothing. One byte may be at several positions, but there is never
        // more than one child.
        let mut matches = small.matches(small.slots.len(), byte);
        while matches != 0 {
            let position = matches.trailing_zeros() as usize;
            matches &= matches - 1;
            let child = small.slots[position].load();
            // The position may have been unused when the bytes were read.
            if !child.is_none() && small.key(position) == byte {
                return ArtSearchResult {
                    child,
                    slot: node.slot_offset(position),
                };
            }
        }
        ArtSearchResult::NOTHING
    })
}

/// Returns the number of children, except that of the key that ends at the node.
pub fn live(node: ArtNode<'_>) -> usize {
    let slots = match node.view() {
        // Removed children leave empty positions, which the count includes.
        ArtNodeView::Small(small) => small.slots,
        ArtNodeView::Node48(inner) => &inner.slots,
        ArtNodeView::Node256(_) => return node.count(),
    };
    let used = slots[..node.count()].iter();
    used.filter(|slot| !slot.load().is_none()).count()
}

/// Returns the kind of the node that must replace one without unused positions: the same kind, if
/// enough children are gone.
pub fn outgrown(node: ArtNode<'_>) -> Option<ArtNodeKind> {
    let kind = node.kind();
    if kind == ArtNodeKind::Node256 || node.count() < usize::from(kind.slots()) {
        return None;
    }
    let stays = match kind {
        // A copy of the same kind must have room for the new child, and for more, or it is copied
        // again at once.
        ArtNodeKind::Node4 => 3,
        ArtNodeKind::Node16 => 14,
        ArtNodeKind::Node48 | ArtNodeKind::Node256 => 47,
    };
    Some(match live(node) <= stays {
        true => kind,
        false => kind.larger(),
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
    let position = match node.view() {
        ArtNodeView::Small(small) => {
            small.append(count, byte);
            let keys = node.kind().head_bytes() as usize - small.slots.len();
            probe.write(place + keys + count, 1);
            count
        }
        ArtNodeView::Node48(_) => count,
        ArtNodeView::Node256(_) => usize::from(byte),
    };
    // Readers check the slots of all positions, and then the byte of the child.
    node.add_to_count(1);
    probe.write(place, 8);
    node.put(node.slot_offset(position), child, probe);
    if let ArtNodeView::Node48(inner) = node.view() {
        inner.index[usize::from(byte)].store(position as u8 + 1, Ordering::Release);
        probe.write(place + 24 + usize::from(byte), 1);
    }
}

/// Removes a child that is present, under the lock.
pub fn remove(node: ArtNode<'_>, symbol: Symbol, slot: u32, probe: &mut impl RadixProbe) {
    node.put(slot, ArtTaggedPointer::NONE, probe);
    let Some(byte) = symbol else {
        return;
    };
    match node.view() {
        // Positions are never reused.
        ArtNodeView::Small(_) => {}
        ArtNodeView::Node48(inner) => {
            inner.index[usize::from(byte)].store(0, Ordering::Release);
            probe.write(node.place() + 24 + usize::from(byte), 1);
        }
        ArtNodeView::Node256(_) => {
            node.add_to_count(-1);
            probe.write(node.place(), 8);
        }
    }
}
