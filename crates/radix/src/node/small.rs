//! A step through a small node without a branch for its kind.
//!
//! Walks of byte strings visit the three small kinds in an order that cannot be predicted. The
//! offsets that they read follow from the kind by arithmetic:
//!
//! ```text
//!             first keys    other keys    slots
//!   node4     12: 4 bytes                 16
//!   node16    16: 16 bytes                32
//!   node48    16: 16 bytes  32: 32 bytes  64
//! ```

use super::header::RadixNodeHeader;
use super::reference::{NodeRefKind, Ref};
use super::search;
use super::sorted::{RadixNode4, RadixNode16, RadixNode48};
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const _: () = assert!(offset_of!(RadixNode4, keys) == 12 && offset_of!(RadixNode4, slots) == 16);
const _: () = assert!(offset_of!(RadixNode16, unused) == 12 && offset_of!(RadixNode16, keys) == 16);
const _: () = assert!(offset_of!(RadixNode48, unused) == 12 && offset_of!(RadixNode48, keys) == 16);
const _: () = assert!(offset_of!(RadixNode16, slots) == 32 && offset_of!(RadixNode48, slots) == 64);

/// The keys that a kind lacks.
static NO_KEYS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

/// The capacities by tag.
static CAPACITIES: [u8; 4] = [0, 4, 16, 48];

/// A node4, node16 or node48.
#[derive(Clone, Copy, Debug)]
pub struct RadixSmallNode<'m> {
    header: &'m RadixNodeHeader,
    /// The keys of a node4; zeros in the others.
    four: &'m AtomicU32,
    /// The first keys of a node16 or node48.
    first: &'m [AtomicU64; 2],
    /// The other keys of a node48.
    other: &'m [AtomicU64; 4],
    slots: *const AtomicU32,
    capacity: u8,
}

impl<'m> RadixSmallNode<'m> {
    /// Borrows a node in parts.
    ///
    /// # Safety
    /// `address` points to the node that `node` refers to, which [is small](Ref::is_small) and
    /// lives for 'm.
    #[inline]
    pub unsafe fn at(node: Ref, address: *const u8) -> RadixSmallNode<'m> {
        let tag = node.tag();
        let is = |kind: NodeRefKind| tag == kind as usize;
        let no_keys = NO_KEYS.as_ptr().cast::<u8>();
        let first = match is(NodeRefKind::Node4) {
            true => no_keys,
            false => address.wrapping_add(16),
        };
        let other = match is(NodeRefKind::Node48) {
            true => address.wrapping_add(32),
            false => no_keys,
        };
        // SAFETY: the node is one of the three kinds, whose fields are at the offsets of the
        // constants above; all are atomics, aligned as the node is, and live for 'm.
        unsafe {
            RadixSmallNode {
                header: &*address.cast(),
                four: &*address.add(12).cast(),
                first: &*first.cast(),
                other: &*other.cast(),
                slots: address.add(8 << tag).cast(),
                capacity: CAPACITIES[tag & 3],
            }
        }
    }

    #[inline]
    pub fn header(self) -> &'m RadixNodeHeader {
        self.header
    }

    /// Returns the child whose range includes a byte; see
    /// [`RadixSortedNode::covering`](super::RadixSortedNode::covering).
    #[inline]
    pub fn covering(self, byte: u8) -> Ref {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let four = u64::from(self.four.load(Ordering::Relaxed));
        let words = [
            // Of both, one is zero: a node4 has no first keys, and others have zeros where it has
            // its keys.
            load(&self.first[0]) | four,
            load(&self.first[1]),
            load(&self.other[0]),
            load(&self.other[1]),
            load(&self.other[2]),
            load(&self.other[3]),
        ];
        let count = self.header.count().min(usize::from(self.capacity));
        let below = search::at_most_in_48(words, count, byte);
        // The first slot is always read, because a branch would be mispredicted.
        let position = below.saturating_sub(1);
        // SAFETY: `below` is at most `count`, which is at most the node's capacity, and no kind has
        // less than one slot.
        let slot = unsafe { &*self.slots.add(position) };
        let child = slot.load(Ordering::Acquire);
        Ref::from_bits(if below == 0 { 0 } else { child })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::RadixMemory;
    use crate::node::RadixSortedNode;

    /// Compares with the search in a node whose kind is known, for all bytes and counts.
    fn agrees<'m, N: RadixSortedNode + 'm>(
        memory: &'m RadixMemory,
        kind: NodeRefKind,
        get: fn(&'m RadixMemory, Ref) -> &'m N,
    ) {
        let node = memory.allocate_inner(kind, 3).unwrap();
        let known = get(memory, node);
        for count in 0..=N::CAPACITY {
            if count > 0 {
                known.set_key(count - 1, (5 * count - 4) as u8);
                known.set_slot(count - 1, Ref::new(NodeRefKind::Leaf, 100 + count as u32));
                known.header().set_count(count);
            }
            for byte in 0..=255 {
                let small = memory.small(node);
                assert_eq!(small.header().depth(), 3);
                assert_eq!(
                    small.covering(byte),
                    known.covering(byte),
                    "{kind:?} {count} {byte}"
                );
            }
        }
    }

    #[test]
    fn each_kind_agrees_with_itself() {
        let memory = RadixMemory::new(usize::MAX, 16, 64).unwrap();
        agrees(&memory, NodeRefKind::Node4, RadixMemory::node4);
        agrees(&memory, NodeRefKind::Node16, RadixMemory::node16);
        agrees(&memory, NodeRefKind::Node48, RadixMemory::node48);
    }
}
