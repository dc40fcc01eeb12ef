//! Leaves: hopscotch hash tables with replicated metadata (reference: CHIME, access-aggregated
//! metadata management).
//!
//! ```text
//! leaf    | group | group | ...                       groups of as many entries as a neighborhood
//! group   | replica | entry | entry | ...
//! replica | versions 1 | valid 1 | sibling 8 | low fence, high fence, where leaves have them |
//! entry   | versions 1 | hop bitmap 2 | key | value |
//! ```
//!
//! Leaves may lack hop bitmaps. Leaves that are not hash tables have one replica, which ends with a
//! byte for the level, and entries without hop bitmaps.
//!
//! Because a replica precedes each group, every neighborhood has one in it or directly before it.
//! If the metadata are not replicated, the leaf is one group.

use super::home;
use super::versions::{
    self, NodeSegment, NodeSegments, Objects, TornNodeError, Versions, payload_offset, wire_offset,
};
use super::{
    Arrangement, Geometry, LeafMetadataPosition, LeafSlotRange, Validation, allocation_bytes,
    is_empty_key, lock_offset,
};
use nearfield_fabric::{GlobalAddress, LINE_BYTES};
use std::ops::Range;

const VALID: usize = 1;
const SIBLING: Range<usize> = 2..10;
const FENCES: usize = 10;
const HOP_BITMAP: Range<usize> = 1..3;
const LEVEL_BYTES: usize = 1;

/// The layout of the leaves of an index: sizes and offsets in bytes.
///
/// ```
/// use nearfield_pool::layout::{Geometry, PoolLeafLayout};
/// let leaf = PoolLeafLayout::new(Geometry::default());
/// assert_eq!((leaf.entry_bytes(), leaf.wire_bytes()), (19, 1316));
/// assert_eq!(leaf.neighborhood(0).wire_bytes(), 164);
/// // Homes near the end have neighborhoods that wrap around it.
/// assert_eq!(leaf.neighborhood(60).count(), 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLeafLayout {
    geometry: Geometry,
    /// Number of slots that follow a replica.
    group_span: usize,
    replica_bytes: usize,
    entry_bytes: usize,
    /// Offset of the key in an entry.
    entry_key: usize,
}

impl PoolLeafLayout {
    /// Creates the layout for these sizes.
    pub fn new(geometry: Geometry) -> PoolLeafLayout {
        let shape = geometry.shape();
        let fence_bytes = match shape.validation {
            Validation::Sibling => 0,
            Validation::Fences => 2 * shape.key_bytes,
        };
        let (level_bytes, entry_key) = match shape.arrangement {
            Arrangement::Hopscotch => (0, HOP_BITMAP.end),
            Arrangement::Neighborhood => (0, HOP_BITMAP.start),
            Arrangement::Unordered => (LEVEL_BYTES, HOP_BITMAP.start),
        };
        PoolLeafLayout {
            geometry,
            group_span: match shape.metadata {
                LeafMetadataPosition::Replicated => shape.neighborhood,
                LeafMetadataPosition::Single => shape.leaf_span,
            },
            replica_bytes: FENCES + fence_bytes + level_bytes,
            entry_bytes: entry_key + shape.key_bytes + shape.value_bytes,
            entry_key,
        }
    }

    /// Returns the sizes from which it was created.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the number of slots of a leaf.
    pub fn span(&self) -> usize {
        self.geometry.shape().leaf_span
    }

    /// Returns the size of an entry.
    pub fn entry_bytes(&self) -> usize {
        self.entry_bytes
    }

    /// Returns the size of a replica of the metadata.
    pub fn replica_bytes(&self) -> usize {
        self.replica_bytes
    }

    /// Returns the number of groups, and so of replicas. The last group may have fewer entries.
    pub fn groups(&self) -> usize {
        self.span().div_ceil(self.group_span)
    }

    /// Returns the size of a leaf on the wire, without its lock word.
    pub fn wire_bytes(&self) -> usize {
        wire_offset(self.decoded_bytes())
    }

    /// Returns the offset of the lock word.
    pub fn lock_offset(&self) -> usize {
        lock_offset(self.wire_bytes())
    }

    /// Returns the bytes of a leaf's memory, which must begin at a multiple of [`LINE_BYTES`].
    pub fn allocation_bytes(&self) -> usize {
        allocation_bytes(self.wire_bytes())
    }

    /// Returns the bytes to read for a whole leaf.
    pub fn whole(&self) -> NodeSegments {
        NodeSegments::new(NodeSegment::new(0..self.decoded_bytes()), None)
    }

    /// Returns true if leaves are hash tables.
    pub fn is_hopscotch(&self) -> bool {
        self.geometry.shape().arrangement != Arrangement::Unordered
    }

    /// Returns true if homes have bitmaps of the slots of their keys.
    pub fn has_bitmaps(&self) -> bool {
        self.geometry.shape().arrangement == Arrangement::Hopscotch
    }

    /// Returns true if an entry is in one line, so that it is written atomically.
    pub fn is_in_a_line(&self, slot: usize) -> bool {
        is_in_a_line(&self.entry(slot))
    }

    /// Returns the first slot in which a key may be: [`home`], if leaves are hash tables.
    pub fn home(&self, key: &[u8]) -> usize {
        match self.geometry.shape().arrangement {
            Arrangement::Hopscotch => home(key, self.span()),
            Arrangement::Neighborhood => {
                // No neighborhood wraps around the end, which would cost a reader another message.
                let neighborhood = self.geometry.shape().neighborhood;
                home(key, self.span() + 1 - neighborhood)
            }
            Arrangement::Unordered => 0,
        }
    }

    /// Returns the slots in which a key with the home `home` may be.
    pub fn neighborhood_slots(&self, home: usize) -> LeafSlotRange {
        let count = match self.geometry.shape().arrangement {
            Arrangement::Unordered => self.span(),
            _ => self.geometry.shape().neighborhood,
        };
        LeafSlotRange::new(home, count, self.span())
    }

    /// Returns all slots, from a key's home on.
    pub fn all_slots(&self, key: &[u8]) -> LeafSlotRange {
        LeafSlotRange::new(self.home(key), self.span(), self.span())
    }

    /// Returns the bytes to read to find a key that hashes to slot `home`: its neighborhood and the
    /// metadata.
    pub fn neighborhood(&self, home: usize) -> NodeSegments {
        self.with_metadata(self.neighborhood_slots(home))
    }

    /// Returns the bytes to read to check that a key is still in a slot: its entry, and the replica
    /// if there is one directly before it.
    pub fn single_entry(&self, slot: usize) -> NodeSegments {
        NodeSegments::new(self.entries_and_replica(slot..slot + 1), None)
    }

    /// Returns the bytes to read for some slots and at least one replica of the metadata: if there
    /// is none among the slots, these include some entries more, or the metadata as a separate
    /// segment.
    pub fn with_metadata(&self, slots: LeafSlotRange) -> NodeSegments {
        if slots.count() == self.span() {
            return self.whole();
        }
        let (first, wrapped) = slots.ranges();
        // Slots on both sides of the end include slot 0, which follows a replica.
        if wrapped.is_some() {
            let wrapped = wrapped.map(|range| self.entries_and_replica(range));
            return NodeSegments::new(self.entries_and_replica(first), wrapped);
        }
        let (group, last_group) = (self.group(first.start), self.group(first.end - 1));
        let begins_group = first.start == group * self.group_span;
        if begins_group || group != last_group {
            return NodeSegments::new(self.entries_and_replica(first), None);
        }
        if self.groups() == 1 {
            // The only replica may be far away, so it is a segment of its own, read in the same
            // round trip.
            let metadata = NodeSegment::new(self.replica(0));
            return NodeSegments::new(self.entries_and_replica(first), Some(metadata));
        }
        // Reads back to the replica of the group, or on to that of the next, whichever is nearer.
        let before = first.start - group * self.group_span;
        let after = (group + 1) * self.group_span - first.end;
        let segment = if group + 1 == self.groups() || before <= after {
            NodeSegment::new(self.replica(group).start..self.entry(first.end - 1).end)
        } else {
            NodeSegment::new(self.entry(first.start).start..self.replica(group + 1).end)
        };
        NodeSegments::new(segment, None)
    }

    /// Returns the bytes to write when these entries have changed.
    pub fn entries(&self, slots: LeafSlotRange) -> NodeSegments {
        let segment = |range: Range<usize>| {
            let last = range.end - 1;
            NodeSegment::new(self.entry(range.start).start..self.entry(last).end)
        };
        // A range that wraps is two messages, but all slots are adjacent without wrapping.
        if slots.count() == self.span() {
            return NodeSegments::new(segment(0..self.span()), None);
        }
        let (first, wrapped) = slots.ranges();
        NodeSegments::new(segment(first), wrapped.map(segment))
    }

    /// Returns the wire offset of the value in a slot, if its bytes are in one line: a reader then
    /// sees one whole value, whatever the versions are. Returns `None` if not, or if values have no
    /// bytes.
    pub fn value_in_a_line(&self, slot: usize) -> Option<usize> {
        let end = self.entry(slot).end;
        let value = end - self.geometry.shape().value_bytes..end;
        let is_one = !value.is_empty() && is_in_a_line(&value);
        is_one.then(|| payload_offset(value.start))
    }

    /// Returns a group with a replica in the bytes that
    /// [`with_metadata`](PoolLeafLayout::with_metadata) reads for some slots.
    pub fn replica_within(&self, segments: &NodeSegments) -> Option<usize> {
        (0..self.groups()).find(|&group| {
            let replica = self.replica(group);
            segments.iter().any(|segment| {
                let decoded = segment.decoded();
                decoded.start <= replica.start && replica.end <= decoded.end
            })
        })
    }

    fn entries_and_replica(&self, slots: Range<usize>) -> NodeSegment {
        let group = self.group(slots.start);
        let start = if slots.start == group * self.group_span {
            self.replica(group).start
        } else {
            self.entry(slots.start).start
        };
        NodeSegment::new(start..self.entry(slots.end - 1).end)
    }

    fn group(&self, slot: usize) -> usize {
        slot / self.group_span
    }

    fn group_bytes(&self) -> usize {
        self.replica_bytes + self.group_span * self.entry_bytes
    }

    /// Returns the wire offset of a group's first byte; of the byte behind the last entry, for the
    /// number behind the last group, if that is whole.
    pub(crate) fn group_place(&self, group: usize) -> usize {
        payload_offset(group * self.group_bytes())
    }

    /// Returns the decoded bytes of the replica in front of a group.
    fn replica(&self, group: usize) -> Range<usize> {
        debug_assert!(group < self.groups());
        let start = group * self.group_bytes();
        start..start + self.replica_bytes
    }

    /// Returns the offset of the decoded byte of a group's replica that is set if the leaf is
    /// valid.
    pub(crate) fn valid(&self, group: usize) -> usize {
        self.replica(group).start + VALID
    }

    /// Returns the decoded bytes of a group's replica that contain the address of the leaf to the
    /// right.
    pub(crate) fn sibling(&self, group: usize) -> Range<usize> {
        let start = self.replica(group).start;
        start + SIBLING.start..start + SIBLING.end
    }

    /// Returns the decoded bytes of the key in a slot.
    pub(crate) fn key(&self, slot: usize) -> Range<usize> {
        let start = self.entry(slot).start + self.entry_key;
        start..start + self.geometry.shape().key_bytes
    }

    /// Returns the decoded bytes of the value in a slot.
    pub(crate) fn value(&self, slot: usize) -> Range<usize> {
        let start = self.key(slot).end;
        start..start + self.geometry.shape().value_bytes
    }

    /// Returns the decoded bytes of the entry of a slot.
    fn entry(&self, slot: usize) -> Range<usize> {
        debug_assert!(slot < self.span(), "a leaf has no slot {slot}");
        let start = (self.group(slot) + 1) * self.replica_bytes + slot * self.entry_bytes;
        start..start + self.entry_bytes
    }
}

impl Objects for PoolLeafLayout {
    fn decoded_bytes(&self) -> usize {
        self.groups() * self.replica_bytes + self.span() * self.entry_bytes
    }

    fn object_start(&self, decoded: usize) -> usize {
        let within = decoded % self.group_bytes();
        let group_start = decoded - within;
        match within.checked_sub(self.replica_bytes) {
            None => group_start,
            Some(entries) => decoded - entries % self.entry_bytes,
        }
    }

    fn object_end(&self, start: usize) -> usize {
        if start.is_multiple_of(self.group_bytes()) {
            start + self.replica_bytes
        } else {
            start + self.entry_bytes
        }
    }
}

/// Returns true if decoded bytes, at least one, are in one line.
fn is_in_a_line(decoded: &Range<usize>) -> bool {
    debug_assert!(!decoded.is_empty());
    let wire = wire_offset(decoded.start)..wire_offset(decoded.end);
    let line = LINE_BYTES as usize;
    wire.start / line == (wire.end - 1) / line
}

/// The decoded bytes of a leaf. A reader may know only a part of them: the other bytes keep the
/// content of the leaf into which it decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolLeaf {
    layout: PoolLeafLayout,
    bytes: Vec<u8>,
}

impl PoolLeaf {
    /// Creates a leaf without entries, valid, without a sibling and, if it has fence keys, with all
    /// zeros for both.
    pub fn new(layout: PoolLeafLayout) -> PoolLeaf {
        let bytes = vec![0; layout.decoded_bytes()];
        let mut leaf = PoolLeaf { layout, bytes };
        leaf.set_valid(true);
        leaf
    }

    /// Returns its layout.
    pub fn layout(&self) -> &PoolLeafLayout {
        &self.layout
    }

    /// Decodes a read, a buffer for each segment in order.
    ///
    /// # Errors
    /// A write intervened: read the same again. The content of the segments is invalid then.
    ///
    /// # Panics
    /// If a buffer differs in length from its segment, or if their numbers differ.
    pub fn decode(&mut self, segments: &NodeSegments, wire: &[&[u8]]) -> Result<(), TornNodeError> {
        assert_eq!(wire.len(), segments.count(), "each segment has a buffer");
        let mut node_version = None;
        for (segment, wire) in segments.iter().zip(wire) {
            segment.decode(&self.layout, wire, &mut self.bytes, &mut node_version)?;
        }
        Ok(())
    }

    /// Copies a read that another check has found free of concurrent writes.
    pub(crate) fn copy<'w>(
        &mut self,
        segments: &NodeSegments,
        wire: impl Iterator<Item = &'w [u8]>,
    ) {
        for (segment, wire) in segments.iter().zip(wire) {
            segment.copy(wire, &mut self.bytes);
        }
    }

    /// Returns the wire bytes of segments, one buffer for each.
    pub fn encode(&self, segments: &NodeSegments) -> Vec<Vec<u8>> {
        let encode = |segment: &NodeSegment| {
            let mut wire = vec![0; segment.wire().len()];
            segment.encode(&self.layout, &self.bytes, &mut wire);
            wire
        };
        segments.iter().map(encode).collect()
    }

    /// Returns the key in a slot; `None` if the slot is empty.
    pub fn key(&self, slot: usize) -> Option<&[u8]> {
        let key = &self.bytes[self.key_range(slot)];
        (!is_empty_key(key)).then_some(key)
    }

    /// Returns true if a key, which is not all zeros, is in a slot.
    pub fn holds(&self, slot: usize, key: &[u8]) -> bool {
        let found = &self.bytes[self.key_range(slot)];
        // The first bytes distinguish most keys.
        match (found.first_chunk::<8>(), key.first_chunk::<8>()) {
            (Some(one), Some(other)) if one != other => false,
            _ => found == key,
        }
    }

    /// Returns the value in a slot, which is meaningless if the slot is empty.
    pub fn value(&self, slot: usize) -> &[u8] {
        &self.bytes[self.value_range(slot)]
    }

    /// Returns the occupied slots, in order.
    pub fn occupied(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.layout.span()).filter(|&slot| self.key(slot).is_some())
    }

    /// Returns the slot with the greatest key, if there is a key.
    pub fn max_slot(&self) -> Option<usize> {
        self.occupied().max_by_key(|&slot| self.key(slot))
    }

    /// Returns the hop bitmap of a slot. It has the lower H bits, for neighborhoods of H slots. Bit
    /// H − 1 − i is set if the key in the slot i further on hashes to this one.
    pub fn hop_bitmap(&self, home: usize) -> u16 {
        debug_assert!(self.layout.has_bitmaps());
        let bytes = &self.bytes[self.entry_part(home, HOP_BITMAP)];
        u16::from_le_bytes([bytes[0], bytes[1]])
    }

    /// Returns the versions of the entry in a slot.
    pub fn entry_versions(&self, slot: usize) -> Versions {
        Versions::from_byte(self.bytes[self.layout.entry(slot).start])
    }

    /// Returns false if the leaf is no leaf any more, according to the replica of a group.
    pub fn is_valid(&self, group: usize) -> bool {
        self.bytes[self.layout.valid(group)] != 0
    }

    /// Returns the leaf to the right, according to the replica of a group.
    pub fn sibling(&self, group: usize) -> GlobalAddress {
        super::internal::address(&self.bytes[self.layout.sibling(group)])
    }

    /// Returns the least key that may be here and the least that may not, according to the replica
    /// of a group; `None` if leaves have no fence keys.
    pub fn fences(&self, group: usize) -> Option<(&[u8], &[u8])> {
        let shape = self.layout.geometry.shape();
        let bytes = match shape.validation {
            Validation::Sibling => return None,
            Validation::Fences => 2 * shape.key_bytes,
        };
        let fences = &self.bytes[self.layout.replica(group)][FENCES..FENCES + bytes];
        Some(fences.split_at(shape.key_bytes))
    }

    /// Makes the leaf valid or not, in all replicas.
    pub fn set_valid(&mut self, valid: bool) {
        self.write_replicas(VALID, &[u8::from(valid)]);
    }

    /// Sets the leaf to the right, in all replicas.
    pub fn set_sibling(&mut self, sibling: GlobalAddress) {
        self.write_replicas(SIBLING.start, &sibling.to_bits().to_le_bytes());
    }

    /// Sets the fence keys in all replicas. Has no effect if leaves have none.
    ///
    /// # Panics
    /// If a fence differs in length from keys.
    pub fn set_fences(&mut self, low: &[u8], high: &[u8]) {
        let key_bytes = self.layout.geometry.shape().key_bytes;
        assert_eq!((low.len(), high.len()), (key_bytes, key_bytes));
        if self.fences(0).is_some() {
            self.write_replicas(FENCES, low);
            self.write_replicas(FENCES + key_bytes, high);
        }
    }

    /// Counts a write of the whole leaf in the versions of all objects.
    pub fn count_node_write(&mut self) {
        versions::count_node_write(&self.layout, &mut self.bytes);
    }

    /// Counts a write of an entry in its versions.
    pub(crate) fn count_entry_write(&mut self, slot: usize) {
        let start = self.layout.entry(slot).start;
        let versions = self.entry_versions(slot).after_entry_write();
        self.bytes[start] = versions.to_byte();
    }

    /// Counts all writes of an entry since it had these versions as one.
    pub(crate) fn count_entry_once(&mut self, slot: usize, before: Versions) {
        if self.entry_versions(slot) != before {
            let start = self.layout.entry(slot).start;
            self.bytes[start] = before.after_entry_write().to_byte();
        }
    }

    /// Puts a key and a value into a slot.
    pub(crate) fn put(&mut self, slot: usize, key: &[u8], value: &[u8]) {
        debug_assert!(!is_empty_key(key), "zeros mark an empty slot");
        let (key_range, value_range) = (self.key_range(slot), self.value_range(slot));
        self.bytes[key_range].copy_from_slice(key);
        self.bytes[value_range].copy_from_slice(value);
    }

    /// Puts a value into an occupied slot.
    pub(crate) fn set_value(&mut self, slot: usize, value: &[u8]) {
        let range = self.value_range(slot);
        self.bytes[range].copy_from_slice(value);
    }

    /// Copies the key and the value of one slot to another.
    pub(crate) fn copy_entry(&mut self, source: usize, target: usize) {
        let range = self.key_range(source).start..self.value_range(source).end;
        let target = self.key_range(target).start;
        self.bytes.copy_within(range, target);
    }

    /// Empties a slot.
    pub(crate) fn clear(&mut self, slot: usize) {
        let range = self.key_range(slot).start..self.value_range(slot).end;
        self.bytes[range].fill(0);
    }

    pub(crate) fn set_hop_bitmap(&mut self, home: usize, bitmap: u16) {
        debug_assert!(self.layout.has_bitmaps());
        let range = self.entry_part(home, HOP_BITMAP);
        self.bytes[range].copy_from_slice(&bitmap.to_le_bytes());
    }

    fn write_replicas(&mut self, offset: usize, bytes: &[u8]) {
        for group in 0..self.layout.groups() {
            let start = self.layout.replica(group).start + offset;
            self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        }
    }

    fn entry_part(&self, slot: usize, part: Range<usize>) -> Range<usize> {
        let start = self.layout.entry(slot).start;
        start + part.start..start + part.end
    }

    fn key_range(&self, slot: usize) -> Range<usize> {
        self.layout.key(slot)
    }

    fn value_range(&self, slot: usize) -> Range<usize> {
        self.layout.value(slot)
    }
}
