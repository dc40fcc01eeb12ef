//! Reads of a node's bytes in their wire format, without decoding.

use super::versions::{LINE, LINE_PAYLOAD, NodeSegments, payload_offset};
use std::ops::Range;

/// Number of bytes that are compared as one.
pub(crate) const WORD: usize = size_of::<u64>();

/// The position of decoded bytes of a node, at least one, in the wire bytes of segments, which
/// follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnWire {
    at: u32,
    /// Number of bytes in the first line. The bytes behind them are in lines that begin with
    /// versions.
    unbroken: u32,
}

impl OnWire {
    /// Creates the position of the bytes from a decoded offset on. Returns `None` if the offset is
    /// in none of the segments.
    pub fn new(decoded: usize, segments: &NodeSegments) -> Option<OnWire> {
        // Segments follow each other in the buffer, each from the offset where it begins in the
        // node.
        let mut before = 0;
        for segment in segments.iter() {
            let wire = segment.wire();
            if segment.decoded().contains(&decoded) {
                let at = payload_offset(decoded);
                let unbroken = LINE - at % LINE;
                return Some(OnWire {
                    at: u32::try_from(before + at - wire.start).ok()?,
                    unbroken: unbroken as u32,
                });
            }
            before += wire.len();
        }
        None
    }

    /// Returns the first byte.
    pub fn byte(self, wire: &[u8]) -> u8 {
        wire[self.at as usize]
    }

    /// Returns the first eight bytes, low end first, which must exist. No branch depends on the
    /// position of line starts.
    #[inline]
    pub fn word(self, wire: &[u8]) -> u64 {
        let rest = &wire[self.at as usize..];
        debug_assert!(rest.len() >= WORD, "the bytes end before the word does");
        let lower = rest
            .first_chunk()
            .map_or(0, |word| u64::from_le_bytes(*word));
        // The upper bits skip the byte of versions, if there is one among the nine.
        let last = rest.get(WORD).copied().unwrap_or(0);
        let upper = lower >> 8 | u64::from(last) << 56;
        let mask = match self.unbroken as usize {
            unbroken if unbroken < WORD => (1 << (8 * unbroken)) - 1,
            _ => u64::MAX,
        };
        lower & mask | upper & !mask
    }

    /// Returns true if the bytes are equal to these.
    pub fn holds(self, wire: &[u8], bytes: &[u8]) -> bool {
        let mut pieces = self.pieces(bytes.len());
        pieces.all(|(part, at)| bytes[part.clone()] == wire[at..at + part.len()])
    }

    /// Appends `length` bytes to `to`.
    pub fn append(self, wire: &[u8], length: usize, to: &mut Vec<u8>) {
        for (part, at) in self.pieces(length) {
            to.extend_from_slice(&wire[at..at + part.len()]);
        }
    }

    /// Returns the contiguous pieces of `length` bytes, with their positions.
    fn pieces(self, length: usize) -> impl Iterator<Item = (Range<usize>, usize)> {
        let (mut start, mut at, mut room) = (0, self.at as usize, self.unbroken as usize);
        std::iter::from_fn(move || {
            if start == length {
                return None;
            }
            let part = start..length.min(start + room);
            let piece = (part.clone(), at);
            // The next piece begins behind the versions.
            (start, at, room) = (part.end, at + part.len() + 1, LINE_PAYLOAD);
            Some(piece)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Geometry, PoolIndexShape, PoolLeaf, PoolLeafLayout};

    /// Bytes of up to several lines are equal to the decoded ones in all neighborhoods, also in
    /// those that wrap, with metadata among them or elsewhere.
    #[test]
    fn bytes_are_found_as_they_are_decoded() {
        for (key_bytes, value_bytes) in [(8, 8), (9, 8), (33, 17), (200, 8)] {
            let shape = PoolIndexShape {
                key_bytes,
                value_bytes,
                ..PoolIndexShape::default()
            };
            let layout = PoolLeafLayout::new(Geometry::new(shape).expect("the shape is possible"));
            let mut leaf = PoolLeaf::new(layout);
            for slot in 0..layout.span() {
                let bytes = |from: usize, count: usize| {
                    let bytes = (0..count).map(|at| (slot * 7 + at * 13 + from) as u8 | 1);
                    bytes.collect::<Vec<_>>()
                };
                leaf.put(slot, &bytes(1, key_bytes), &bytes(2, value_bytes));
            }
            for home in 0..layout.span() {
                let segments = layout.neighborhood(home);
                let wire = leaf.encode(&segments).concat();
                for slot in layout.neighborhood_slots(home).iter() {
                    let (key, value) = (leaf.key(slot).expect("it exists"), leaf.value(slot));
                    let at = |decoded| OnWire::new(decoded, &segments).expect("it was read");
                    let (key_at, value_at) =
                        (at(layout.key(slot).start), at(layout.value(slot).start));
                    assert!(key_at.holds(&wire, key) && value_at.holds(&wire, value));
                    assert_eq!(key_at.byte(&wire), key[0]);
                    assert_eq!(key_at.word(&wire).to_le_bytes(), key[..WORD]);
                    for wrong in 0..key_bytes {
                        let mut other = key.to_vec();
                        other[wrong] ^= 0x10;
                        assert!(!key_at.holds(&wire, &other), "byte {wrong} of slot {slot}");
                    }
                    let mut copy = vec![7];
                    value_at.append(&wire, value_bytes, &mut copy);
                    assert_eq!((copy[0], &copy[1..]), (7, value));
                }
                assert_eq!(
                    OnWire::new(
                        layout.whole().iter().next().expect("one").decoded().end,
                        &segments
                    ),
                    None
                );
            }
        }
    }
}
