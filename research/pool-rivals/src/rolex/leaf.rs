//! Leaves: an array of entries in no order, and the address of the leaf for entries that do not fit
//! (ROLEX, section 4.2: a *synonym leaf*).
//!
//! ```text
//! header  | versions 1 | synonym 8 |       entry  | versions 1 | key | value |
//! leaf    | header | entry | entry | ...   | lock word |
//! ```
//!
//! Loaded leaves, except for the first, have their *bound* in slot 0: the least key that was loaded
//! into them, which never changes. Keys from there up to the bound of the next leaf belong to the
//! leaf. When the key itself is removed its slot stays, and a bit in the header marks it as
//! *hollow*: synonyms begin at whole lines, so their addresses leave the bit free.
//!
//! A leaf is always written as a whole, so that the node version is enough for readers
//! ([`versions`]).

use nearfield_fabric::{GlobalAddress, LINE_BYTES};
use nearfield_pool::layout::versions::{self, Objects, wire_offset};
use nearfield_pool::layout::{
    Geometry, NodeSegment, TornNodeError, allocation_bytes, is_empty_key, lock_offset,
};
use std::ops::Range;

const HEADER_BYTES: usize = 9;
const SYNONYM: Range<usize> = 1..9;
const ENTRY_KEY: usize = 1;
/// Flag: slot 0 holds a bound and no entry.
const HOLLOW: u64 = 1;

/// The layout of the leaves of an index: sizes and offsets in bytes.
///
/// ```
/// use nearfield_pool_rivals::rolex::{RolexLeafLayout, RolexOptions};
/// use nearfield_pool::layout::versions::Objects;
/// let leaf = RolexLeafLayout::new(RolexOptions::default().geometry);
/// assert_eq!((leaf.decoded_bytes(), leaf.wire_bytes()), (281, 285));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolexLeafLayout {
    key_bytes: usize,
    entry_bytes: usize,
    span: usize,
}

impl RolexLeafLayout {
    /// Creates the layout for these sizes of keys, values and leaves.
    pub fn new(geometry: Geometry) -> RolexLeafLayout {
        let shape = geometry.shape();
        RolexLeafLayout {
            key_bytes: shape.key_bytes,
            entry_bytes: ENTRY_KEY + shape.key_bytes + shape.value_bytes,
            span: shape.leaf_span,
        }
    }

    /// Returns the number of slots of a leaf.
    pub fn span(&self) -> usize {
        self.span
    }

    /// Returns the size of an entry.
    pub fn entry_bytes(&self) -> usize {
        self.entry_bytes
    }

    /// Returns the size of the header.
    pub fn header_bytes(&self) -> usize {
        HEADER_BYTES
    }

    /// Returns the size of a leaf on the wire, without its lock word.
    pub fn wire_bytes(&self) -> usize {
        wire_offset(self.decoded_bytes())
    }

    /// Returns the offset of the lock word.
    pub fn lock_offset(&self) -> usize {
        lock_offset(self.wire_bytes())
    }

    /// Returns the distance from the start of a leaf to that of the next one: whole lines.
    pub fn stride_bytes(&self) -> usize {
        allocation_bytes(self.wire_bytes()).next_multiple_of(LINE_BYTES as usize)
    }

    fn whole(&self) -> NodeSegment {
        NodeSegment::new(0..self.decoded_bytes())
    }

    fn entry(&self, slot: usize) -> Range<usize> {
        debug_assert!(slot < self.span);
        let start = HEADER_BYTES + slot * self.entry_bytes;
        start..start + self.entry_bytes
    }
}

impl Objects for RolexLeafLayout {
    fn decoded_bytes(&self) -> usize {
        HEADER_BYTES + self.span * self.entry_bytes
    }

    fn object_start(&self, decoded: usize) -> usize {
        match decoded.checked_sub(HEADER_BYTES) {
            None => 0,
            Some(entries) => decoded - entries % self.entry_bytes,
        }
    }

    fn object_end(&self, start: usize) -> usize {
        if start == 0 {
            HEADER_BYTES
        } else {
            start + self.entry_bytes
        }
    }
}

/// The decoded bytes of a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RolexLeaf {
    layout: RolexLeafLayout,
    bytes: Vec<u8>,
}

impl RolexLeaf {
    /// Creates a leaf without entries and without a synonym.
    pub fn new(layout: RolexLeafLayout) -> RolexLeaf {
        let bytes = vec![0; layout.decoded_bytes()];
        RolexLeaf { layout, bytes }
    }

    /// Decodes a leaf.
    ///
    /// # Errors
    /// A write intervened: read it again.
    pub fn decode(layout: RolexLeafLayout, wire: &[u8]) -> Result<RolexLeaf, TornNodeError> {
        let mut leaf = RolexLeaf::new(layout);
        let whole = layout.whole();
        whole.decode(&layout, wire, &mut leaf.bytes, &mut None)?;
        Ok(leaf)
    }

    /// Returns the wire bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut wire = vec![0; self.layout.wire_bytes()];
        self.layout
            .whole()
            .encode(&self.layout, &self.bytes, &mut wire);
        wire
    }

    /// Counts a write in the versions.
    pub fn count_write(&mut self) {
        versions::count_node_write(&self.layout, &mut self.bytes);
    }

    /// Returns the leaf for entries that do not fit.
    pub fn synonym(&self) -> Option<GlobalAddress> {
        let address = GlobalAddress::from_bits(self.word() & !HOLLOW);
        (!address.is_null()).then_some(address)
    }

    pub fn set_synonym(&mut self, synonym: GlobalAddress) {
        debug_assert!(synonym.to_bits() & HOLLOW == 0);
        self.set_word(synonym.to_bits() | self.word() & HOLLOW);
    }

    /// Returns the least key that belongs here, for a leaf that was loaded and is not the first.
    pub fn bound(&self) -> &[u8] {
        self.key_bytes(0)
    }

    /// Returns the keys and values, in no order.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let occupied = (0..self.layout.span).filter(|&slot| self.is_occupied(slot));
        occupied.map(|slot| (self.key_bytes(slot), self.value(slot)))
    }

    /// Returns the slot of a key.
    pub fn find(&self, key: &[u8]) -> Option<usize> {
        (0..self.layout.span).find(|&slot| self.key_bytes(slot) == key && self.is_occupied(slot))
    }

    /// Returns the slot for a key that is absent: that of the bound if it is the key, else an empty
    /// one.
    pub fn slot_for(&self, key: &[u8]) -> Option<usize> {
        if self.is_hollow() && self.bound() == key {
            return Some(0);
        }
        (0..self.layout.span).find(|&slot| is_empty_key(self.key_bytes(slot)))
    }

    pub fn value(&self, slot: usize) -> &[u8] {
        &self.bytes[self.layout.entry(slot)][ENTRY_KEY + self.layout.key_bytes..]
    }

    /// Puts a key and a value into a slot.
    pub fn put(&mut self, slot: usize, key: &[u8], value: &[u8]) {
        debug_assert!(!is_empty_key(key), "zeros mark an empty slot");
        let entry = &mut self.bytes[self.layout.entry(slot)];
        let (key_part, value_part) = entry[ENTRY_KEY..].split_at_mut(self.layout.key_bytes);
        key_part.copy_from_slice(key);
        value_part.copy_from_slice(value);
        // A hollow slot gets only the key of its bound.
        if slot == 0 {
            self.set_word(self.word() & !HOLLOW);
        }
    }

    /// Empties a slot; if it has the leaf's bound, only the value is removed.
    pub fn clear(&mut self, slot: usize, is_bound: bool) {
        debug_assert!(slot == 0 || !is_bound);
        if is_bound {
            self.set_word(self.word() | HOLLOW);
        } else {
            self.bytes[self.layout.entry(slot)][ENTRY_KEY..].fill(0);
        }
    }

    fn is_occupied(&self, slot: usize) -> bool {
        !(is_empty_key(self.key_bytes(slot)) || slot == 0 && self.is_hollow())
    }

    fn is_hollow(&self) -> bool {
        self.word() & HOLLOW != 0
    }

    fn key_bytes(&self, slot: usize) -> &[u8] {
        &self.bytes[self.layout.entry(slot)][ENTRY_KEY..][..self.layout.key_bytes]
    }

    fn word(&self) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.bytes[SYNONYM]);
        u64::from_le_bytes(word)
    }

    fn set_word(&mut self, word: u64) {
        self.bytes[SYNONYM].copy_from_slice(&word.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rolex::RolexOptions;
    use nearfield_fabric::NodeId;

    #[test]
    fn the_bound_stays_when_its_key_is_removed() {
        let layout = RolexLeafLayout::new(RolexOptions::default().geometry);
        let mut leaf = RolexLeaf::new(layout);
        let synonym = GlobalAddress::new(NodeId(3), 640);
        leaf.put(0, &[7; 8], &[1; 8]);
        leaf.put(1, &[9; 8], &[2; 8]);
        leaf.set_synonym(synonym);
        leaf.clear(0, true);
        leaf.clear(1, false);
        assert_eq!((leaf.find(&[7; 8]), leaf.bound()), (None, &[7; 8][..]));
        assert_eq!((leaf.entries().count(), leaf.synonym()), (0, Some(synonym)));
        assert_eq!(leaf.slot_for(&[8; 8]), Some(1));
        assert_eq!(leaf.slot_for(&[7; 8]), Some(0));
        leaf.put(0, &[7; 8], &[3; 8]);
        assert_eq!(leaf.find(&[7; 8]), Some(0));
        assert_eq!(
            leaf.entries().collect::<Vec<_>>(),
            [(&[7; 8][..], &[3; 8][..])]
        );
    }

    #[test]
    fn a_leaf_comes_back_from_the_wire_unless_a_line_is_of_another_write() {
        let layout = RolexLeafLayout::new(RolexOptions::default().geometry);
        let mut leaf = RolexLeaf::new(layout);
        (0..16).for_each(|slot| leaf.put(slot, &[slot as u8 + 1; 8], &[slot as u8; 8]));
        let before = leaf.encode();
        assert_eq!(RolexLeaf::decode(layout, &before), Ok(leaf.clone()));
        leaf.count_write();
        let after = leaf.encode();
        for line in 0..after.len().div_ceil(64) {
            let mut torn = after.clone();
            let range = 64 * line..after.len().min(64 * line + 64);
            torn[range.clone()].copy_from_slice(&before[range]);
            assert_eq!(
                RolexLeaf::decode(layout, &torn),
                Err(TornNodeError::Node),
                "line {line}"
            );
        }
    }
}
