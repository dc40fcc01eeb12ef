//! What is to be read for a key of a leaf, and where in that the key may lie.

use crate::layout::{Leaf, LeafLayout, OnWire, Segments, Slots, Validation, WORD};
use nearfield_fabric::{GlobalAddress, WORD_BYTES};
use smallvec::SmallVec;
use std::ops::Range;

pub(super) const COUNTER_BYTES: usize = WORD_BYTES as usize;
/// So many slots are looked at before a branch depends on what they hold.
const LOOKED_AT: usize = 16;

/// What is to be read for the keys of one home.
#[derive(Debug)]
pub(super) struct Neighborhood {
    segments: Segments,
    /// Where the segments lie in the leaf.
    pub wire: SmallVec<[Range<usize>; 2]>,
    /// The replica of the metadata among them.
    pub group: usize,
    /// What it takes to read it, between two looks at a counter.
    pub bytes: usize,
    /// Where things lie in what was read; `None` where only a decoded leaf tells.
    pub direct: Option<Direct>,
}

impl Neighborhood {
    /// Those of all homes.
    pub fn all(layout: LeafLayout) -> Box<[Neighborhood]> {
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

    /// True if versions say that what was read of the segments is of one write.
    pub fn is_consistent(&self, layout: &LeafLayout, wire: &[u8]) -> bool {
        self.segments.check(layout, self.parts(wire)).is_ok()
    }

    /// Takes what was read of the segments into a leaf.
    pub fn copy(&self, wire: &[u8], leaf: &mut Leaf) {
        leaf.copy(&self.segments, self.parts(wire));
    }

    /// The bytes of each segment.
    fn parts<'w>(&self, wire: &'w [u8]) -> impl Iterator<Item = &'w [u8]> {
        let mut rest = wire;
        self.wire.iter().map(move |wire| {
            let (part, others) = rest.split_at(wire.len());
            rest = others;
            part
        })
    }
}

/// Where things lie in what was read of the segments, so that a key is found without decoding them.
#[derive(Debug)]
pub(super) struct Direct {
    valid: OnWire,
    sibling: OnWire,
    pub slots: Slots,
    /// By the distance of the slot from the home.
    keys: Box<[OnWire]>,
    values: Box<[OnWire]>,
}

impl Direct {
    /// `None` if keys are shorter than a word, values have no bytes, or fences tell where keys belong.
    fn new(layout: &LeafLayout, home: usize, group: usize, segments: &Segments) -> Option<Direct> {
        let shape = layout.geometry().shape();
        if shape.key_bytes < WORD || shape.validation == Validation::Fences {
            return None;
        }
        let slots = layout.neighborhood_slots(home);
        let at = |decoded: Range<usize>| OnWire::new(decoded.start, segments);
        Some(Direct {
            valid: OnWire::new(layout.valid(group), segments)?,
            sibling: at(layout.sibling(group))?,
            slots,
            keys: slots
                .iter()
                .map(|slot| at(layout.key(slot)))
                .collect::<Option<_>>()?,
            values: match shape.value_bytes {
                0 => return None,
                _ => slots
                    .iter()
                    .map(|slot| at(layout.value(slot)))
                    .collect::<Option<_>>()?,
            },
        })
    }

    /// False if the leaf is none any more.
    pub fn is_valid(&self, wire: &[u8]) -> bool {
        self.valid.byte(wire) != 0
    }

    /// The leaf to the right.
    pub fn sibling(&self, wire: &[u8]) -> GlobalAddress {
        GlobalAddress::from_bits(self.sibling.word(wire))
    }

    /// How far from the home a key lies.
    pub fn find(&self, wire: &[u8], key: &[u8]) -> Option<usize> {
        let first = u64::from_le_bytes(*key.first_chunk()?);
        // The first bytes tell most keys apart. Where a key lies nobody can predict.
        for (number, keys) in self.keys.chunks(LOOKED_AT).enumerate() {
            let hits = keys.iter().enumerate();
            let hits = hits.fold(0_u32, |hits, (at, key)| {
                hits | u32::from(key.word(wire) == first) << at
            });
            let mut left = hits;
            while left != 0 {
                let at = left.trailing_zeros() as usize;
                if keys[at].holds(wire, key) {
                    return Some(number * LOOKED_AT + at);
                }
                left &= left - 1;
            }
        }
        None
    }

    /// Puts the value of a slot, so far from the home, behind others.
    pub fn append_value(&self, slot: usize, wire: &[u8], bytes: usize, values: &mut Vec<u8>) {
        self.values[slot].append(wire, bytes, values);
    }
}
