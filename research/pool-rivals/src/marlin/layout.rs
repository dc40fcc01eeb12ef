//! Leaves, slots, blocks and records of divisions in remote memory.
//!
//! | leaf, bytes | content |
//! |---|---|
//! | 0..8 | successor: 0, then forever the address of the record of the leaf's division |
//! | 8..16 | 1 if the leaf has an upper bound, else 0 |
//! | 16.. | the least key that belongs to the leaf, and the least that does not |
//! | from a multiple of 8 on | slots |
//!
//! A block has the lengths of its key and of its value, 8 bytes each, and both. A record has the
//! addresses of the two leaves that have replaced one, and the bound between them.

use nearfield_fabric::{GlobalAddress, MaskedSwap, NodeId};
use xxhash_rust::xxh3::xxh3_64;

/// Number of memory nodes that slots can name.
pub const NODES: u16 = 256;
/// Blocks are at multiples of this.
const ALIGNMENT: u64 = 64;
/// Bits of an address in a slot that are for the offset.
const OFFSET_BITS: u32 = 40;
const ADDRESS_BITS: u32 = 48;
const FINGERPRINT_MASK: u64 = 0xfff;
/// Flag of a slot whose key was removed.
const REMOVED: u64 = 1 << 62;
/// Flag of a slot that never changes again, because its leaf is being divided.
const FROZEN: u64 = 1 << 63;

/// Bytes of a leaf before its bounds, and of a block before its key.
const HEADER_BYTES: usize = 16;

/// The sizes of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarlinLayout {
    key_bytes: usize,
    value_bytes: usize,
    span: usize,
}

/// A slot of a leaf: the address of a block and a fingerprint of its key, in one word.
///
/// An unused slot is zero. A used one belongs to its key until its leaf is divided, also once the
/// key was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MarlinSlot(u64);

/// A leaf as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MarlinLeaf {
    /// The record of its division; null if it was not divided.
    pub successor: GlobalAddress,
    pub low: Box<[u8]>,
    /// The upper bound; `None` for the last leaf.
    pub high: Option<Box<[u8]>>,
    pub slots: Vec<MarlinSlot>,
}

/// The record of a division.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MarlinDivision {
    pub left: GlobalAddress,
    /// The right leaf and its lower bound, if there are two leaves.
    pub right: Option<(Box<[u8]>, GlobalAddress)>,
}

impl MarlinSlot {
    /// Creates the slot of a block.
    pub fn new(block: GlobalAddress, fingerprint: u64) -> MarlinSlot {
        debug_assert!(block.node().0 < NODES && block.offset().is_multiple_of(ALIGNMENT));
        let address = (u64::from(block.node().0) << OFFSET_BITS) | (block.offset() / ALIGNMENT);
        MarlinSlot((fingerprint & FINGERPRINT_MASK) << ADDRESS_BITS | address)
    }

    pub const fn from_word(word: u64) -> MarlinSlot {
        MarlinSlot(word)
    }

    pub const fn to_word(self) -> u64 {
        self.0
    }

    pub const fn is_unused(self) -> bool {
        self.0 & !FROZEN == 0
    }

    pub const fn is_removed(self) -> bool {
        self.0 & REMOVED != 0
    }

    pub const fn is_frozen(self) -> bool {
        self.0 & FROZEN != 0
    }

    /// Returns true if the slot has a key.
    pub const fn is_live(self) -> bool {
        !self.is_unused() && !self.is_removed()
    }

    pub const fn fingerprint(self) -> u64 {
        self.0 >> ADDRESS_BITS & FINGERPRINT_MASK
    }

    pub const fn block(self) -> GlobalAddress {
        let node = NodeId((self.0 >> OFFSET_BITS & 0xff) as u16);
        let offset = self.0 & ((1 << OFFSET_BITS) - 1);
        GlobalAddress::new(node, offset * ALIGNMENT)
    }

    /// Returns the slot after the removal of its key.
    pub const fn removed(self) -> MarlinSlot {
        MarlinSlot(self.0 | REMOVED)
    }

    /// Returns the slot as a new leaf has it.
    pub const fn thawed(self) -> MarlinSlot {
        MarlinSlot(self.0 & !FROZEN)
    }

    /// Returns the swap that freezes any slot.
    pub const fn freeze() -> MaskedSwap {
        MaskedSwap {
            expected: 0,
            compare_mask: 0,
            desired: FROZEN,
            swap_mask: FROZEN,
        }
    }
}

/// Returns the fingerprint of a key.
pub(super) fn fingerprint(key: &[u8]) -> u64 {
    xxh3_64(key) & FINGERPRINT_MASK
}

impl MarlinLeaf {
    /// Creates a leaf of these slots.
    pub fn new(low: &[u8], high: Option<&[u8]>, slots: Vec<MarlinSlot>) -> MarlinLeaf {
        MarlinLeaf {
            successor: GlobalAddress::NULL,
            low: low.into(),
            high: high.map(Box::from),
            slots,
        }
    }

    /// Returns true if a key belongs to the leaf, or to the leaves that have replaced it.
    pub fn covers(&self, key: &[u8]) -> bool {
        *self.low <= *key && self.high.as_ref().is_none_or(|high| *key < **high)
    }

    /// Returns the number of the first slot that was never used.
    pub fn first_unused(&self) -> Option<usize> {
        self.slots.iter().position(|slot| slot.is_unused())
    }
}

impl MarlinLayout {
    /// Creates the layout for keys and values of these lengths, and leaves of `span` slots.
    pub const fn new(key_bytes: usize, value_bytes: usize, span: usize) -> MarlinLayout {
        MarlinLayout {
            key_bytes,
            value_bytes,
            span,
        }
    }

    /// Returns the number of slots of a leaf.
    pub const fn span(&self) -> usize {
        self.span
    }

    /// Returns the bytes of a leaf.
    pub const fn leaf_bytes(&self) -> usize {
        self.slots_offset() + 8 * self.span
    }

    /// Returns the bytes of a block.
    pub const fn block_bytes(&self) -> usize {
        HEADER_BYTES + self.key_bytes + self.value_bytes
    }

    pub(super) const fn record_bytes(&self) -> usize {
        16 + self.key_bytes
    }

    const fn slots_offset(&self) -> usize {
        (HEADER_BYTES + 2 * self.key_bytes).next_multiple_of(8)
    }

    /// Returns the offset of a slot in its leaf.
    pub(super) const fn slot_offset(&self, number: usize) -> u64 {
        (self.slots_offset() + 8 * number) as u64
    }

    pub(super) fn encode_leaf(&self, leaf: &MarlinLeaf) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.leaf_bytes());
        bytes.extend(leaf.successor.to_bits().to_le_bytes());
        bytes.extend(u64::from(leaf.high.is_some()).to_le_bytes());
        bytes.extend(&leaf.low);
        bytes.extend(leaf.high.as_ref().unwrap_or(&leaf.low));
        bytes.resize(self.slots_offset(), 0);
        for slot in &leaf.slots {
            bytes.extend(slot.to_word().to_le_bytes());
        }
        bytes.resize(self.leaf_bytes(), 0);
        bytes
    }

    /// Decodes a leaf from all its bytes.
    pub(super) fn decode_leaf(&self, bytes: &[u8]) -> MarlinLeaf {
        let (bounds, slots) = bytes.split_at(self.slots_offset());
        let (header, bounds) = bounds.split_at(HEADER_BYTES);
        let (low, high) = bounds.split_at(self.key_bytes);
        MarlinLeaf {
            successor: GlobalAddress::from_bits(word(&header[..8])),
            low: low.into(),
            high: (word(&header[8..]) != 0).then(|| Box::from(&high[..self.key_bytes])),
            slots: slots
                .chunks_exact(8)
                .map(|slot| MarlinSlot::from_word(word(slot)))
                .collect(),
        }
    }

    pub(super) fn encode_block(&self, key: &[u8], value: &[u8]) -> Vec<u8> {
        let lengths = [key.len() as u64, value.len() as u64].map(u64::to_le_bytes);
        [lengths.as_flattened(), key, value].concat()
    }

    /// Returns the key and the value of a block.
    pub(super) fn decode_block<'b>(&self, bytes: &'b [u8]) -> (&'b [u8], &'b [u8]) {
        bytes[HEADER_BYTES..].split_at(self.key_bytes)
    }

    pub(super) fn encode_record(&self, division: &MarlinDivision) -> Vec<u8> {
        let mut bytes = division.left.to_bits().to_le_bytes().to_vec();
        let right = division.right.as_ref();
        let address = right.map_or(GlobalAddress::NULL, |(_, address)| *address);
        bytes.extend(address.to_bits().to_le_bytes());
        if let Some((bound, _)) = right {
            bytes.extend(bound);
        }
        bytes.resize(self.record_bytes(), 0);
        bytes
    }

    /// Decodes a record from all its bytes.
    pub(super) fn decode_record(&self, bytes: &[u8]) -> MarlinDivision {
        let right = GlobalAddress::from_bits(word(&bytes[8..16]));
        MarlinDivision {
            left: GlobalAddress::from_bits(word(&bytes[..8])),
            right: (!right.is_null()).then(|| (Box::from(&bytes[16..]), right)),
        }
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_blocks_and_records_come_back() {
        let layout = MarlinLayout::new(9, 5, 4);
        let block = GlobalAddress::new(NodeId(255), 64 << 30);
        let slot = MarlinSlot::new(block, fingerprint(b"a key"));
        assert_eq!((slot.block(), slot.is_live()), (block, true));
        assert_eq!(slot.fingerprint(), fingerprint(b"a key"));
        assert_eq!(slot.removed().block(), block);
        assert!(!slot.removed().is_live() && !slot.is_frozen());
        let frozen = MarlinSlot::freeze()
            .apply(slot.to_word())
            .map(MarlinSlot::from_word);
        assert_eq!(frozen.map(MarlinSlot::thawed), Some(slot));
        assert!(frozen.is_some_and(MarlinSlot::is_frozen));
        let slots = vec![
            slot,
            slot.removed(),
            MarlinSlot::default(),
            MarlinSlot::default(),
        ];
        for high in [None, Some(&[9; 9][..])] {
            let leaf = MarlinLeaf::new(&[1; 9], high, slots.clone());
            let bytes = layout.encode_leaf(&leaf);
            assert_eq!(bytes.len(), layout.leaf_bytes());
            assert_eq!(layout.decode_leaf(&bytes), leaf);
            assert_eq!(leaf.first_unused(), Some(2));
            assert!(leaf.covers(&[1; 9]) && !leaf.covers(&[0; 9]));
            assert_eq!(leaf.covers(&[9; 9]), high.is_none());
        }
        let bytes = layout.encode_block(&[3; 9], &[4; 5]);
        assert_eq!(bytes.len(), layout.block_bytes());
        assert_eq!(layout.decode_block(&bytes), (&[3; 9][..], &[4; 5][..]));
        let bound: Box<[u8]> = Box::from(&[7; 9][..]);
        for right in [None, Some((bound, block))] {
            let division = MarlinDivision { left: block, right };
            let bytes = layout.encode_record(&division);
            assert_eq!(bytes.len(), layout.record_bytes());
            assert_eq!(layout.decode_record(&bytes), division);
        }
    }
}
