//! The bytes to read for a key of a leaf, and the offsets in them at which the key may be.

use crate::layout::{
    LeafSlotRange, NodeSegments, OnWire, PoolLeaf, PoolLeafLayout, Validation, WORD,
};
use nearfield_fabric::{GlobalAddress, WORD_BYTES};
use smallvec::SmallVec;
use std::ops::Range;

pub(super) const COUNTER_BYTES: usize = WORD_BYTES as usize;
/// Number of bits for the slots of a neighborhood, which has 16 at most.
const SLOTS_MAX: usize = u32::BITS as usize;

/// The bytes to read for the keys of one home.
#[derive(Debug)]
pub(super) struct Neighborhood {
    segments: NodeSegments,
    /// The offsets of the segments in the leaf.
    pub wire: SmallVec<[Range<usize>; 2]>,
    /// The replica of the metadata among them.
    pub group: usize,
    /// Number of bytes of the buffer for a read, between two reads of a counter.
    pub bytes: usize,
    /// The offsets in the bytes read; `None` if only a decoded leaf has them.
    pub direct: Option<Direct>,
}

impl Neighborhood {
    /// Returns the neighborhoods of all homes.
    pub fn all(layout: PoolLeafLayout) -> Box<[Neighborhood]> {
        // Readers of other leaves read all of them, whatever the key.
        let homes = if layout.is_hopscotch() {
            layout.span()
        } else {
            1
        };
        let of = |home| {
            let segments = layout.neighborhood(home);
            let group = layout.replica_within(&segments).unwrap_or(0);
            Neighborhood {
                wire: segments.iter().map(|segment| segment.wire()).collect(),
                group,
                bytes: segments.wire_bytes() + 2 * COUNTER_BYTES,
                direct: Direct::new(&layout, home, group, &segments),
                segments,
            }
        };
        (0..homes).map(of).collect()
    }

    /// Returns true if the versions of the segments are of one write.
    pub fn is_consistent(&self, layout: &PoolLeafLayout, wire: &[u8]) -> bool {
        self.segments.check(layout, self.parts(wire)).is_ok()
    }

    /// Copies the bytes of the segments into a leaf.
    pub fn copy(&self, wire: &[u8], leaf: &mut PoolLeaf) {
        leaf.copy(&self.segments, self.parts(wire));
    }

    /// Returns the bytes of each segment.
    fn parts<'w>(&self, wire: &'w [u8]) -> impl Iterator<Item = &'w [u8]> {
        debug_assert_eq!(wire.len() + 2 * COUNTER_BYTES, self.bytes);
        let mut rest = wire;
        self.wire.iter().map(move |wire| {
            let (part, others) = rest.split_at(wire.len());
            rest = others;
            part
        })
    }
}

/// The offsets in the bytes of the segments, which allow a search for a key without decoding.
#[derive(Debug)]
pub(super) struct Direct {
    valid: OnWire,
    sibling: OnWire,
    pub slots: LeafSlotRange,
    /// Offsets by the distance of the slot from the home.
    keys: Box<[OnWire]>,
    values: Box<[OnWire]>,
}

impl Direct {
    /// Creates the offsets; returns `None` if keys are shorter than a word, values have no bytes,
    /// or fences define the range of a leaf.
    fn new(
        layout: &PoolLeafLayout,
        home: usize,
        group: usize,
        segments: &NodeSegments,
    ) -> Option<Direct> {
        let shape = layout.geometry().shape();
        // `find` compares first words. Fence keys would have to be compared as well, for which the
        // leaf is decoded.
        let has_no_word = shape.key_bytes < WORD || shape.value_bytes == 0;
        if has_no_word || shape.validation == Validation::Fences {
            return None;
        }
        let slots = layout.neighborhood_slots(home);
        // `find` has a bit for each slot.
        if slots.count() > SLOTS_MAX {
            return None;
        }
        let at = |decoded: Range<usize>| OnWire::new(decoded.start, segments);
        Some(Direct {
            valid: OnWire::new(layout.valid(group), segments)?,
            sibling: at(layout.sibling(group))?,
            slots,
            keys: slots
                .iter()
                .map(|slot| at(layout.key(slot)))
                .collect::<Option<_>>()?,
            values: slots
                .iter()
                .map(|slot| at(layout.value(slot)))
                .collect::<Option<_>>()?,
        })
    }

    /// Returns false if the leaf is no leaf any more.
    pub fn is_valid(&self, wire: &[u8]) -> bool {
        self.valid.byte(wire) != 0
    }

    /// Returns the leaf to the right.
    pub fn sibling(&self, wire: &[u8]) -> GlobalAddress {
        GlobalAddress::from_bits(self.sibling.word(wire))
    }

    /// Returns the distance of a key from its home.
    pub fn find(&self, wire: &[u8], key: &[u8]) -> Option<usize> {
        let first = u64::from_le_bytes(*key.first_chunk()?);
        debug_assert!(self.keys.len() <= SLOTS_MAX && self.keys.len() == self.slots.count());
        // The first bytes distinguish most keys. The slot of a key is unpredictable, so no branch
        // depends on it.
        let hits = self.keys.iter().enumerate();
        let mut hits = hits.fold(0_u32, |hits, (slot, key)| {
            hits | u32::from(key.word(wire) == first) << slot
        });
        while hits != 0 {
            let slot = hits.trailing_zeros() as usize;
            if self.keys[slot].holds(wire, key) {
                return Some(slot);
            }
            hits &= hits - 1;
        }
        None
    }

    /// Appends the value of a slot, which has this distance from the home, to others.
    pub fn append_value(&self, slot: usize, wire: &[u8], bytes: usize, values: &mut Vec<u8>) {
        self.values[slot].append(wire, bytes, values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hopscotch::{self, NeighborhoodLookup};
    use crate::layout::{Arrangement, Geometry, LeafMetadataPosition, PoolIndexShape};

    fn layouts() -> impl Iterator<Item = PoolLeafLayout> {
        let kinds = [
            (Arrangement::Hopscotch, LeafMetadataPosition::Replicated, 8),
            (
                Arrangement::Neighborhood,
                LeafMetadataPosition::Replicated,
                8,
            ),
            (Arrangement::Neighborhood, LeafMetadataPosition::Single, 16),
        ];
        let shape = |(arrangement, metadata, neighborhood), key_bytes| PoolIndexShape {
            key_bytes,
            arrangement,
            metadata,
            neighborhood,
            ..PoolIndexShape::default()
        };
        let shapes = kinds
            .into_iter()
            .flat_map(move |kind| [8, 9, 40].map(|bytes| shape(kind, bytes)));
        shapes
            .map(|shape| PoolLeafLayout::new(Geometry::new(shape).expect("the shape is possible")))
    }

    /// Leaves are as full as possible, also with keys that begin with the same eight bytes.
    #[test]
    fn keys_are_found_in_what_was_read_where_they_are_in_the_leaf() {
        for layout in layouts() {
            let key_bytes = layout.geometry().shape().key_bytes;
            let key = |number: u64| {
                let mut key = vec![1; key_bytes];
                key[..8].copy_from_slice(&(number * 3 / 4).to_be_bytes());
                key[key_bytes - 1] = number as u8 + 1;
                key
            };
            let mut leaf = PoolLeaf::new(layout);
            let sibling = GlobalAddress::new(nearfield_fabric::NodeId(3), 0x1122_3344_5580);
            leaf.set_sibling(sibling);
            for number in 0..80_u64 {
                let key = key(number);
                let value = number.to_be_bytes().map(|byte| byte ^ 0x5a);
                // A key without room is absent.
                let _ = hopscotch::insert(&mut leaf, layout.all_slots(&key), &key, &value);
            }
            let neighborhoods = Neighborhood::all(layout);
            let mut found = 0;
            for number in 0..100 {
                let key = key(number);
                let neighborhood = &neighborhoods[layout.home(&key)];
                let wire = leaf.encode(&neighborhood.segments).concat();
                assert!(neighborhood.is_consistent(&layout, &wire));
                let direct = neighborhood
                    .direct
                    .as_ref()
                    .expect("siblings have the range");
                assert!(direct.is_valid(&wire));
                assert_eq!(direct.sibling(&wire), sibling);
                let slot = direct.find(&wire, &key);
                let NeighborhoodLookup::Found(expected) = hopscotch::lookup(&leaf, &key) else {
                    assert_eq!(slot, None, "key {number}");
                    continue;
                };
                found += 1;
                let slot = slot.expect("it exists");
                assert_eq!(direct.slots.at(slot), expected);
                let mut value = Vec::new();
                direct.append_value(slot, &wire, 8, &mut value);
                assert_eq!(value, leaf.value(expected));
                let mut part = PoolLeaf::new(layout);
                neighborhood.copy(&wire, &mut part);
                assert_eq!(part.key(expected), Some(&key[..]));
            }
            assert!(found > layout.span() / 2, "{found} of {}", layout.span());
            hopscotch::retire(&mut leaf);
            let first = &neighborhoods[0];
            let wire = leaf.encode(&first.segments).concat();
            assert!(
                first
                    .direct
                    .as_ref()
                    .is_some_and(|direct| !direct.is_valid(&wire))
            );
        }
    }

    #[test]
    fn where_fences_tell_or_keys_are_short_leaves_are_decoded() {
        for (key_bytes, validation) in [(7, Validation::Sibling), (9, Validation::Fences)] {
            let shape = PoolIndexShape {
                key_bytes,
                validation,
                ..PoolIndexShape::default()
            };
            let layout = PoolLeafLayout::new(Geometry::new(shape).expect("the shape is possible"));
            let all = Neighborhood::all(layout);
            assert!(all.iter().all(|neighborhood| neighborhood.direct.is_none()));
        }
    }
}
