//! Internal nodes: the parent's slot, the common bytes of the keys, and the slots.
//!
//! | bytes | content |
//! |---|---|
//! | 0..8 | reverse pointer: the address of the slot that leads here |
//! | 8 | depth: the number of bytes of the key before the prefix, modulo 256 |
//! | 9 | type in the lower 5 bits, length of the prefix in the upper 3 |
//! | 10..16 | prefix: up to 6 bytes that all keys of the node have behind its depth |
//! | 16.. | slots of 8 bytes: the type has the number in use, and there is memory for 256 |

use super::slot::{NodeType, SmartSlot};
use nearfield_fabric::{GlobalAddress, MaskedSwap};

/// Number of bytes that a prefix may have.
pub const PREFIX_BYTES: usize = 6;
/// Offset of the header.
pub const HEADER_OFFSET: u64 = 8;
const SLOTS_OFFSET: u64 = 16;
/// Number of bytes of an internal node, which grows in place.
pub const NODE_BYTES: u64 = SLOTS_OFFSET + 8 * 256;

const TYPE_SHIFT: u32 = 8;
const LENGTH_SHIFT: u32 = 13;
const PREFIX_SHIFT: u32 = 16;
const TYPE_MASK: u64 = 0x1f << TYPE_SHIFT;

/// Returns the offset of a slot of this number in its node.
pub const fn slot_offset(slot: usize) -> u64 {
    debug_assert!(slot <= 256);
    SLOTS_OFFSET + 8 * slot as u64
}

/// The common bytes of an internal node's keys. Only the type ever changes.
///
/// A node covers all keys that have the bytes up to the end of its prefix, forever: a split puts
/// another node above it, which checks part of the prefix before, and no node is ever removed. So
/// the end of the prefix fixes a node's place, and its beginning only shows how many of the bytes
/// before it the header holds; a split need not move it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmartNodeHeader(u64);

impl SmartNodeHeader {
    /// Creates the header of a node at `depth` bytes of a key, whose keys have `prefix` next: up to
    /// [`PREFIX_BYTES`].
    pub fn new(depth: usize, node_type: NodeType, prefix: &[u8]) -> SmartNodeHeader {
        debug_assert!(prefix.len() <= PREFIX_BYTES);
        let mut bytes = [0; 8];
        for (byte, of_prefix) in bytes.iter_mut().zip(prefix) {
            *byte = *of_prefix;
        }
        SmartNodeHeader(
            u64::from_le_bytes(bytes) << PREFIX_SHIFT
                | (prefix.len() as u64) << LENGTH_SHIFT
                | node_type.bits() << TYPE_SHIFT
                | depth as u64 & 0xff,
        )
    }

    /// Creates the header from a word.
    pub const fn from_word(word: u64) -> SmartNodeHeader {
        SmartNodeHeader(word)
    }

    /// Returns the word of a header.
    pub const fn to_word(self) -> u64 {
        self.0
    }

    /// Returns the type, which gives the number of slots in use.
    pub fn node_type(self) -> NodeType {
        NodeType::from_bits(self.0 >> TYPE_SHIFT)
    }

    /// Returns true if there is a prefix. Without one, the depth has no meaning.
    pub const fn has_prefix(self) -> bool {
        self.0 >> LENGTH_SHIFT & 0x7 != 0
    }

    /// Compares a key, `depth` bytes of which are known to agree, with the prefix: returns the
    /// number of equal bytes, and whether these are all of the prefix, so that the next byte
    /// chooses a slot.
    pub fn agreement(self, key: &[u8], depth: usize) -> (usize, bool) {
        // A slot leads to the beginning of the prefix or into it, so the depth modulo 256 is
        // enough.
        let known = depth.wrapping_sub(self.0 as usize) & 0xff;
        let rest = self.prefix(known.min(PREFIX_BYTES));
        let same = |(own, other): &(u8, &u8)| own == *other;
        let of_key = key.get(depth..).unwrap_or_default();
        let agree = rest.clone().zip(of_key).take_while(same).count();
        (depth + agree, agree == rest.count())
    }

    /// Returns the bytes of the prefix that come after `depth` bytes of keys.
    pub fn prefix_from(self, depth: usize) -> impl Iterator<Item = u8> + Clone {
        let known = depth.wrapping_sub(self.0 as usize) & 0xff;
        self.prefix(known.min(PREFIX_BYTES))
    }

    fn prefix(self, from: usize) -> impl Iterator<Item = u8> + Clone {
        let length = (self.0 >> LENGTH_SHIFT & 0x7) as usize;
        let bytes = (self.0 >> PREFIX_SHIFT).to_le_bytes();
        bytes.into_iter().take(length).skip(from)
    }

    /// Returns a swap that changes the type of a node from one to another, if it has the first.
    pub fn growth(from: NodeType, to: NodeType) -> MaskedSwap {
        debug_assert!(from <= to, "nodes do not shrink");
        MaskedSwap {
            expected: from.bits() << TYPE_SHIFT,
            compare_mask: TYPE_MASK,
            desired: to.bits() << TYPE_SHIFT,
            swap_mask: TYPE_MASK,
        }
    }
}

/// An internal node as it was read: its words are of different moments.
#[derive(Clone, Debug)]
pub struct SmartNode {
    /// The slot that leads to the node, or did once: some client repairs it after a split.
    pub reverse: GlobalAddress,
    pub header: SmartNodeHeader,
    /// The slots that were read, at most those that the header covers.
    pub slots: Vec<SmartSlot>,
}

impl SmartNode {
    /// Returns the bytes of a node with `slots` slots.
    pub const fn bytes(slots: usize) -> usize {
        slot_offset(slots) as usize
    }

    /// Decodes a node of 16 bytes and 8 for each slot. More slots than the header covers are those
    /// of a node that grew during the read; no client may take one of these yet.
    pub fn decode(bytes: &[u8]) -> SmartNode {
        debug_assert!(bytes.len() as u64 >= SLOTS_OFFSET && bytes.len().is_multiple_of(8));
        let mut words = bytes.chunks_exact(8).map(word);
        let reverse = GlobalAddress::from_bits(words.next().unwrap_or_default());
        let header = SmartNodeHeader::from_word(words.next().unwrap_or_default());
        let slots = words.map(SmartSlot::from_word);
        SmartNode {
            reverse,
            header,
            slots: slots.take(header.node_type().slots()).collect(),
        }
    }

    /// Returns the bytes of a node, with all slots of its type.
    pub fn encode(&self) -> Vec<u8> {
        debug_assert!(self.slots.len() <= self.header.node_type().slots());
        let mut bytes = vec![0; SmartNode::bytes(self.header.node_type().slots())];
        let head = [self.reverse.to_bits(), self.header.to_word()];
        let slots = self.slots.iter().map(|slot| slot.to_word());
        for (place, word) in bytes.chunks_exact_mut(8).zip(head.into_iter().chain(slots)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Returns the slot of a partial key, and its number. Slots are in no order.
    pub fn find(&self, partial: u8) -> Option<(usize, SmartSlot)> {
        let is_it = |(_, slot): &(usize, SmartSlot)| !slot.is_unused() && slot.partial() == partial;
        self.slots.iter().copied().enumerate().find(is_it)
    }

    /// Returns the number of the first unused slot, if one was read.
    pub fn first_unused(&self) -> Option<usize> {
        self.slots.iter().position(|slot| slot.is_unused())
    }
}

/// Returns the slots of these bytes.
pub fn decode_slots(bytes: &[u8]) -> impl Iterator<Item = SmartSlot> {
    bytes.chunks_exact(8).map(word).map(SmartSlot::from_word)
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_fabric::NodeId;

    #[test]
    fn prefixes_are_compared_from_where_the_key_is_known() {
        let header = SmartNodeHeader::new(300, NodeType::SMALLEST, b"abcd");
        let mut key = vec![b'-'; 300];
        key.extend(b"abcde");
        assert_eq!(header.agreement(&key, 300), (304, true));
        assert_eq!(header.agreement(&key, 302), (304, true));
        assert_eq!(header.agreement(&key, 304), (304, true));
        key[303] = b'x';
        assert_eq!(header.agreement(&key, 300), (303, false));
        assert_eq!(header.agreement(&key, 301), (303, false));
        assert!(header.prefix_from(302).eq(*b"cd"));
    }

    #[test]
    fn nodes_come_back_and_only_their_type_grows() {
        let prefix = [1, 2, 3, 4, 5, 6];
        let node = SmartNode {
            reverse: GlobalAddress::new(NodeId(1), 4096 + 24),
            header: SmartNodeHeader::new(2, NodeType::SMALLEST, &prefix),
            slots: vec![SmartSlot::vacant(0), SmartSlot::vacant(9)],
        };
        let bytes = node.encode();
        assert_eq!(bytes.len(), 16 + 8 * 4);
        let mut read = SmartNode::decode(&bytes);
        assert_eq!((read.reverse, read.header), (node.reverse, node.header));
        assert_eq!(read.find(9), Some((1, SmartSlot::vacant(9))));
        assert_eq!((read.find(1), read.first_unused()), (None, Some(2)));
        let small = NodeType::SMALLEST;
        let next = small.doubled().unwrap();
        let grown = SmartNodeHeader::growth(small, next).apply(node.header.to_word());
        read.header = SmartNodeHeader::from_word(grown.unwrap());
        assert_eq!(read.header, SmartNodeHeader::new(2, next, &prefix));
        assert_eq!(
            SmartNodeHeader::growth(small, next).apply(grown.unwrap()),
            None
        );
    }
}
