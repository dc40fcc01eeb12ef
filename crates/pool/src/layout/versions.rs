//! Versions of cache lines, and the two forms of a node's bytes (reference: CHIME, three-level
//! optimistic synchronization, levels 1 and 2).
//!
//! A byte of versions holds the *node version* in its lower 4 bits and the *entry version* in its
//! upper 4. One is at the start of each object, and one at the start of each line of 64 wire bytes
//! except the first; the latter is a copy of the version of its *owner*, the object to which the
//! line's first payload byte belongs.
//!
//! ```text
//! decoded  0 ........ 63 64 ....... 126 127 ...
//! wire     0 ........ 63 v 65 ..... 127 v 129 ...
//! ```
//!
//! A client that writes a whole node adds one to all node versions. A client that writes an entry
//! adds one to its entry version, and so to the lines it owns. A line is atomic, so a reader that
//! finds one node version everywhere, and in each line its owner's versions, has read one state of
//! each object. Versions wrap: a reader does not detect 16 writes of one object during one read.

use crate::canary::Check;
use nearfield_fabric::LINE_BYTES;
use std::ops::Range;

pub(super) const LINE: usize = LINE_BYTES as usize;
/// Number of bytes of a line besides its byte of versions.
pub(super) const LINE_PAYLOAD: usize = LINE - 1;

/// A node version and an entry version, 4 bits each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Versions(u8);

impl Versions {
    /// Creates the versions from a byte.
    pub const fn from_byte(byte: u8) -> Versions {
        Versions(byte)
    }

    /// Returns the byte that holds them.
    pub const fn to_byte(self) -> u8 {
        self.0
    }

    /// Returns the node version, 0 to 15.
    pub const fn node(self) -> u8 {
        self.0 & 0xf
    }

    /// Returns the entry version, 0 to 15.
    pub const fn entry(self) -> u8 {
        self.0 >> 4
    }

    /// Returns the versions after a write of the whole node.
    ///
    /// ```
    /// use nearfield_pool::layout::Versions;
    /// let versions = Versions::from_byte(0x3f);
    /// assert_eq!(versions.after_node_write().to_byte(), 0x30);
    /// assert_eq!(versions.after_entry_write().to_byte(), 0x4f);
    /// ```
    pub const fn after_node_write(self) -> Versions {
        Versions(self.0 & 0xf0 | (self.node() + 1) & 0xf)
    }

    /// After a write of the object.
    pub const fn after_entry_write(self) -> Versions {
        Versions(self.0.wrapping_add(0x10))
    }
}

/// The concurrent change that a reader has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TornNodeError {
    /// Level 1: the node as a whole.
    #[error("the node was written while it was read")]
    Node,
    /// Level 2: an object of the node.
    #[error("an entry was written while it was read")]
    Entry,
}

/// Returns the wire offset of the end of the bytes before decoded offset `decoded`. If a line
/// begins there, a segment from there on begins with the byte of versions.
///
/// ```
/// use nearfield_pool::layout::versions::wire_offset;
/// assert_eq!([64, 65, 127, 128].map(wire_offset), [64, 66, 128, 130]);
/// ```
pub const fn wire_offset(decoded: usize) -> usize {
    if decoded <= LINE {
        decoded
    } else {
        let beyond = decoded - LINE;
        LINE + beyond + beyond.div_ceil(LINE_PAYLOAD)
    }
}

/// Returns the decoded offset of the end of the bytes before wire offset `wire`: the inverse of
/// [`wire_offset`]. The byte of versions of a line and the payload byte behind it have the same.
pub const fn decoded_offset(wire: usize) -> usize {
    if wire <= LINE {
        wire
    } else {
        let beyond = wire - LINE;
        LINE + beyond - beyond.div_ceil(LINE)
    }
}

/// The offsets of the objects of a kind of node.
pub trait Objects {
    /// Returns the number of decoded bytes of the node.
    fn decoded_bytes(&self) -> usize;

    /// Returns the first decoded byte of the object that the byte at `decoded` belongs to.
    fn object_start(&self, decoded: usize) -> usize;

    /// Returns the first decoded byte of the object behind the one that begins at `start`, or the
    /// end.
    fn object_end(&self, start: usize) -> usize;
}

/// Consecutive whole objects of a node: decoded bytes from the start of one to the end of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSegment {
    decoded: Range<usize>,
}

impl NodeSegment {
    /// Creates the segment of these decoded bytes, which must be whole objects.
    pub fn new(decoded: Range<usize>) -> NodeSegment {
        debug_assert!(!decoded.is_empty());
        NodeSegment { decoded }
    }

    /// Returns the decoded bytes.
    pub fn decoded(&self) -> Range<usize> {
        self.decoded.clone()
    }

    /// Returns the wire bytes to read or write, as offsets from the start of the node.
    pub fn wire(&self) -> Range<usize> {
        wire_offset(self.decoded.start)..wire_offset(self.decoded.end)
    }

    /// Returns the starts of the lines in it that begin with a byte of versions.
    fn line_starts(&self) -> impl Iterator<Item = usize> + use<> {
        let wire = self.wire();
        // The first line begins with the versions of the first object, and needs no others.
        let first = wire.start.max(LINE).next_multiple_of(LINE);
        (first..wire.end).step_by(LINE)
    }

    /// Copies this segment of `node`, all decoded bytes of a node, to `wire`, the segment's wire
    /// bytes.
    ///
    /// # Panics
    /// If `wire` differs in length from [`wire`](NodeSegment::wire).
    pub fn encode(&self, objects: &impl Objects, node: &[u8], wire: &mut [u8]) {
        let range = self.wire();
        assert_eq!(wire.len(), range.len(), "the buffer is one for the segment");
        for start in self.line_starts() {
            let owner = objects.object_start(decoded_offset(start));
            wire[start - range.start] = node[owner];
        }
        for (decoded, at) in self.pieces() {
            wire[at..at + decoded.len()].copy_from_slice(&node[decoded]);
        }
    }

    /// Checks that `wire`, the bytes read for the segment, are consistent, and copies them into
    /// `node`, all decoded bytes of a node. If several segments of a node were read, the earlier
    /// ones have left their version in `node_version`; it is `None` initially.
    ///
    /// # Errors
    /// A write intervened. Then `node` is not changed.
    ///
    /// # Panics
    /// If `wire` differs in length from [`wire`](NodeSegment::wire).
    pub fn decode(
        &self,
        objects: &impl Objects,
        wire: &[u8],
        node: &mut [u8],
        node_version: &mut Option<u8>,
    ) -> Result<(), TornNodeError> {
        self.check(objects, wire, node_version)?;
        self.copy(wire, node);
        Ok(())
    }

    /// Copies `wire`, which another check has found consistent, into `node`, like
    /// [`decode`](NodeSegment::decode).
    pub(crate) fn copy(&self, wire: &[u8], node: &mut [u8]) {
        for (decoded, at) in self.pieces() {
            let length = decoded.len();
            node[decoded].copy_from_slice(&wire[at..at + length]);
        }
    }

    /// Checks the bytes for [`decode`](NodeSegment::decode). Node versions come first: a difference
    /// in both is a write of the node.
    fn check(
        &self,
        objects: &impl Objects,
        wire: &[u8],
        node_version: &mut Option<u8>,
    ) -> Result<(), TornNodeError> {
        let range = self.wire();
        assert_eq!(
            wire.len(),
            range.len(),
            "the bytes are those of the segment"
        );
        let versions_at = |offset: usize| Versions(wire[offset - range.start]);
        let of_object = |decoded: usize| versions_at(payload_offset(decoded));

        let mut object = self.decoded.start;
        // Segments of one node were read in one round trip, so they must be of one write.
        let expected = *node_version.get_or_insert_with(|| of_object(object).node());
        let is_of_node =
            |versions: Versions| versions.node() == expected || !Check::NodeVersions.is_made();
        while object < self.decoded.end {
            if !is_of_node(of_object(object)) {
                return Err(TornNodeError::Node);
            }
            object = objects.object_end(object);
        }
        let mut entries_agree = true;
        for start in self.line_starts() {
            let line = versions_at(start);
            if !is_of_node(line) {
                return Err(TornNodeError::Node);
            }
            // Both node versions were checked above.
            let owner = of_object(objects.object_start(decoded_offset(start)));
            entries_agree &= line.entry() == owner.entry();
        }
        if entries_agree || !Check::EntryVersions.is_made() {
            Ok(())
        } else {
            Err(TornNodeError::Entry)
        }
    }

    /// Returns the payload line by line: decoded bytes, and their offsets in the segment's wire
    /// bytes.
    fn pieces(&self) -> impl Iterator<Item = (Range<usize>, usize)> + use<> {
        let Range { mut start, end } = self.decoded();
        let origin = self.wire().start;
        std::iter::from_fn(move || {
            if start >= end {
                return None;
            }
            let at = payload_offset(start);
            let piece = start..end.min(start + LINE - at % LINE);
            start = piece.end;
            Some((piece, at - origin))
        })
    }
}

/// Returns the wire offset of the byte at a decoded offset.
pub(super) const fn payload_offset(decoded: usize) -> usize {
    if decoded < LINE {
        decoded
    } else {
        decoded + 1 + (decoded - LINE) / LINE_PAYLOAD
    }
}

/// The parts of a node that one access needs: one segment, or two if it wraps around the end of a
/// leaf or if metadata are elsewhere. Two are read in one round trip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSegments {
    first: NodeSegment,
    second: Option<NodeSegment>,
}

impl NodeSegments {
    pub(crate) fn new(first: NodeSegment, second: Option<NodeSegment>) -> NodeSegments {
        NodeSegments { first, second }
    }

    /// Returns the segments.
    pub fn iter(&self) -> impl Iterator<Item = &NodeSegment> {
        std::iter::once(&self.first).chain(&self.second)
    }

    /// Returns the number of segments, and so of messages.
    pub fn count(&self) -> usize {
        self.iter().count()
    }

    /// Checks that the bytes of each segment are consistent, and that all are of one write of the
    /// node.
    pub(crate) fn check<'w>(
        &self,
        objects: &impl Objects,
        wire: impl Iterator<Item = &'w [u8]>,
    ) -> Result<(), TornNodeError> {
        let mut node_version = None;
        self.iter()
            .zip(wire)
            .try_for_each(|(segment, wire)| segment.check(objects, wire, &mut node_version))
    }

    /// Returns the number of their bytes on the wire.
    pub fn wire_bytes(&self) -> usize {
        self.iter().map(|segment| segment.wire().len()).sum()
    }
}

/// Adds one to the node version of all objects, as a write of the whole node must.
/// `node` has the decoded bytes.
pub fn count_node_write(objects: &impl Objects, node: &mut [u8]) {
    let mut object = 0;
    while object < objects.decoded_bytes() {
        node[object] = Versions(node[object]).after_node_write().to_byte();
        object = objects.object_end(object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_each_others_reverse() {
        assert_eq!(
            [0, 63, 64, 65, 126, 127, 128, 190, 191].map(wire_offset),
            [0, 63, 64, 66, 127, 128, 130, 192, 194]
        );
        for decoded in 0..10_000 {
            assert_eq!(decoded_offset(wire_offset(decoded)), decoded);
            // A byte is at the end of the bytes before it, or behind the versions of its line.
            let starts_line = decoded >= 64 && wire_offset(decoded).is_multiple_of(64);
            let payload = wire_offset(decoded) + usize::from(starts_line);
            assert_eq!(payload_offset(decoded), payload);
            assert_eq!(decoded_offset(payload), decoded);
        }
    }
}
