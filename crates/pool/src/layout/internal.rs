//! Internal nodes: sorted entries, and the fields with which a parent predicts its children's
//! siblings (reference: CHIME, sibling-based validation).
//!
//! ```text
//! node   | header | entry | entry | ...
//! header | versions 1 | level 1 | valid 1 | sibling 8 | leftmost child 8
//!        | sibling's leftmost child 8 | low fence | high fence |
//! entry  | versions 1 | separator | child 8 |
//! ```
//!
//! The keys below an entry's child are at least its separator, and less than the next entry's.
//! Those below the leftmost child are less than all separators. Unused entries are behind the
//! others, and have a separator of zeros.

use super::versions::{self, NodeSegment, NodeSegments, Objects, TornNodeError, wire_offset};
use super::{Geometry, allocation_bytes, is_empty_key, lock_offset};
use nearfield_fabric::GlobalAddress;
use std::ops::Range;

const ADDRESS_BYTES: usize = 8;
const LEVEL: usize = 1;
const VALID: usize = 2;
const SIBLING: usize = 3;
const LEFTMOST: usize = 11;
const SIBLING_LEFTMOST: usize = 19;
const FENCES: usize = 27;
const SEPARATOR: usize = 1;

/// Returns the address in 8 bytes of a node.
pub(crate) fn address(bytes: &[u8]) -> GlobalAddress {
    let mut word = [0; ADDRESS_BYTES];
    word.copy_from_slice(bytes);
    GlobalAddress::from_bits(u64::from_le_bytes(word))
}

/// The layout of the internal nodes of an index: sizes and offsets in bytes.
///
/// ```
/// use nearfield_pool::layout::{Geometry, InternalLayout};
/// let layout = InternalLayout::new(Geometry::default());
/// assert_eq!((layout.wire_bytes(), layout.lock_offset()), (1148, 1152));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InternalLayout {
    key_bytes: usize,
    span: usize,
}

impl InternalLayout {
    /// Creates the layout for these sizes.
    pub fn new(geometry: Geometry) -> InternalLayout {
        InternalLayout {
            key_bytes: geometry.shape().key_bytes,
            span: geometry.shape().internal_span,
        }
    }

    /// Returns the number of entries that a node may have.
    pub fn span(&self) -> usize {
        self.span
    }

    /// Returns the size of the header.
    pub fn header_bytes(&self) -> usize {
        FENCES + 2 * self.key_bytes
    }

    /// Returns the size of an entry.
    pub fn entry_bytes(&self) -> usize {
        SEPARATOR + self.key_bytes + ADDRESS_BYTES
    }

    /// Returns the size of a node on the wire, without its lock word.
    pub fn wire_bytes(&self) -> usize {
        wire_offset(self.decoded_bytes())
    }

    /// Returns the offset of the lock word.
    pub fn lock_offset(&self) -> usize {
        lock_offset(self.wire_bytes())
    }

    /// Returns the bytes of a node's memory, which must begin at a multiple of
    /// [`LINE_BYTES`](nearfield_fabric::LINE_BYTES).
    pub fn allocation_bytes(&self) -> usize {
        allocation_bytes(self.wire_bytes())
    }

    /// Returns the bytes to read or write for a node.
    pub fn whole(&self) -> NodeSegments {
        NodeSegments::new(NodeSegment::new(0..self.decoded_bytes()), None)
    }

    fn entry(&self, index: usize) -> Range<usize> {
        debug_assert!(index < self.span, "a node has no entry {index}");
        let start = self.header_bytes() + index * self.entry_bytes();
        start..start + self.entry_bytes()
    }
}

impl Objects for InternalLayout {
    fn decoded_bytes(&self) -> usize {
        self.header_bytes() + self.span * self.entry_bytes()
    }

    fn object_start(&self, decoded: usize) -> usize {
        match decoded.checked_sub(self.header_bytes()) {
            None => 0,
            Some(entries) => decoded - entries % self.entry_bytes(),
        }
    }

    fn object_end(&self, start: usize) -> usize {
        if start == 0 {
            self.header_bytes()
        } else {
            start + self.entry_bytes()
        }
    }
}

/// The child that a key leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The child.
    pub child: GlobalAddress,
    /// The sibling that the child should have. If it has another it was divided since, and the key
    /// may be to the right of it.
    pub sibling: GlobalAddress,
}

/// The node has no free entry, so it must be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the internal node is full")]
pub struct NodeFull;

/// The right half of a node that was split, and the key between the halves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RightHalf {
    /// The least key that belongs into the right half: the separator for the parent.
    pub separator: Box<[u8]>,
    /// The node.
    pub node: InternalNode,
}

/// The decoded bytes of an internal node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalNode {
    layout: InternalLayout,
    bytes: Vec<u8>,
}

impl InternalNode {
    /// Creates a node with one child, valid, without siblings, with zeros for fence keys. Leaves
    /// have level 1, their parents level 2.
    pub fn new(layout: InternalLayout, level: u8, leftmost: GlobalAddress) -> InternalNode {
        let bytes = vec![0; layout.decoded_bytes()];
        let mut node = InternalNode { layout, bytes };
        node.bytes[LEVEL] = level;
        node.set_valid(true);
        node.write_address(LEFTMOST, leftmost);
        node
    }

    /// Returns its layout.
    pub fn layout(&self) -> &InternalLayout {
        &self.layout
    }

    /// Decodes a node from all its wire bytes.
    ///
    /// # Errors
    /// A write intervened: read it again.
    ///
    /// # Panics
    /// If `wire` differs in length from a node's wire bytes.
    pub fn decode(layout: InternalLayout, wire: &[u8]) -> Result<InternalNode, TornNodeError> {
        let mut bytes = vec![0; layout.decoded_bytes()];
        for segment in layout.whole().iter() {
            segment.decode(&layout, wire, &mut bytes, &mut None)?;
        }
        Ok(InternalNode { layout, bytes })
    }

    /// Returns all its wire bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut wire = vec![0; self.layout.wire_bytes()];
        for segment in self.layout.whole().iter() {
            segment.encode(&self.layout, &self.bytes, &mut wire);
        }
        wire
    }

    /// Returns its level above the leaves, which have level 1.
    pub fn level(&self) -> u8 {
        self.bytes[LEVEL]
    }

    /// Returns false if it is no node any more.
    pub fn is_valid(&self) -> bool {
        self.bytes[VALID] != 0
    }

    /// Returns the node to the right, of the same level.
    pub fn sibling(&self) -> GlobalAddress {
        self.read_address(SIBLING)
    }

    /// Returns the child that is left of all separators.
    pub fn leftmost(&self) -> GlobalAddress {
        self.read_address(LEFTMOST)
    }

    /// Returns the leftmost child of the node to the right: the sibling of this node's last child.
    pub fn sibling_leftmost(&self) -> GlobalAddress {
        self.read_address(SIBLING_LEFTMOST)
    }

    /// Returns the least key that may be below the node.
    pub fn low_fence(&self) -> &[u8] {
        &self.bytes[FENCES..FENCES + self.layout.key_bytes]
    }

    /// Returns the least key that is right of the node. Meaningless if it has no sibling: then no
    /// key is.
    pub fn high_fence(&self) -> &[u8] {
        let start = FENCES + self.layout.key_bytes;
        &self.bytes[start..start + self.layout.key_bytes]
    }

    /// Returns true if keys like this one are below the node, false if they are left or right of
    /// it.
    pub fn covers(&self, key: &[u8]) -> bool {
        self.low_fence() <= key && (self.sibling().is_null() || key < self.high_fence())
    }

    /// Returns the number of entries: one less than children.
    pub fn count(&self) -> usize {
        partition(self.layout.span, |index| {
            !is_empty_key(self.separator(index))
        })
    }

    /// Returns the separator of an entry.
    pub fn separator(&self, index: usize) -> &[u8] {
        let start = self.layout.entry(index).start + SEPARATOR;
        &self.bytes[start..start + self.layout.key_bytes]
    }

    /// Returns the child of an entry.
    pub fn child(&self, index: usize) -> GlobalAddress {
        self.read_address(self.layout.entry(index).end - ADDRESS_BYTES)
    }

    /// Returns all children, from left to right.
    pub fn child_addresses(&self) -> impl Iterator<Item = GlobalAddress> + '_ {
        let rest = (0..self.count()).map(|index| self.child(index));
        std::iter::once(self.leftmost()).chain(rest)
    }

    /// Returns the child of a key that is not left or right of the node.
    ///
    /// ```
    /// use nearfield_fabric::{GlobalAddress, NodeId};
    /// use nearfield_pool::layout::{Geometry, InternalLayout, InternalNode};
    /// let leaf = |offset| GlobalAddress::new(NodeId(0), offset);
    /// let layout = InternalLayout::new(Geometry::default());
    /// let mut node = InternalNode::new(layout, 2, leaf(64));
    /// node.insert(b"mmmmmmmm", leaf(128))?;
    /// let route = node.route(b"aaaaaaaa");
    /// assert_eq!((route.child, route.sibling), (leaf(64), leaf(128)));
    /// assert_eq!(node.route(b"mmmmmmmm").child, leaf(128));
    /// # Ok::<(), nearfield_pool::layout::internal::NodeFull>(())
    /// ```
    pub fn route(&self, key: &[u8]) -> Route {
        let count = self.count();
        let position = partition(count, |index| self.separator(index) <= key);
        let child_at = |position: usize| match position {
            0 => self.leftmost(),
            // The sibling of the last child is the first child of the next node.
            _ if position > count => self.sibling_leftmost(),
            _ => self.child(position - 1),
        };
        Route {
            child: child_at(position),
            sibling: child_at(position + 1),
        }
    }

    /// Inserts an entry in order. If the separator exists, its child is replaced. The write is not
    /// counted: [`count_node_write`](InternalNode::count_node_write).
    ///
    /// # Errors
    /// `NodeFull`; then nothing is changed.
    ///
    /// # Panics
    /// If the separator differs in length from keys, or is all zeros.
    pub fn insert(&mut self, separator: &[u8], child: GlobalAddress) -> Result<(), NodeFull> {
        assert_eq!(separator.len(), self.layout.key_bytes);
        assert!(
            !is_empty_key(separator),
            "a separator of zeros marks an unused entry"
        );
        let count = self.count();
        let index = partition(count, |index| self.separator(index) < separator);
        if index == count || self.separator(index) != separator {
            if count == self.layout.span {
                return Err(NodeFull);
            }
            // From the last one on, so that no entry is overwritten before it has moved.
            for source in (index..count).rev() {
                self.copy_entry(source, source + 1);
            }
        }
        self.write_entry(index, separator, child);
        Ok(())
    }

    /// Returns the position of a child that a separator leads to; `None` if there is no such entry.
    pub fn find(&self, separator: &[u8], child: GlobalAddress) -> Option<usize> {
        let count = self.count();
        let index = partition(count, |index| self.separator(index) < separator);
        let is_it = index < count && self.separator(index) == separator;
        (is_it && self.child(index) == child).then_some(index)
    }

    /// Replaces the child at a position, from 0 on. The write is not counted.
    ///
    /// # Panics
    /// If there is no such child.
    pub fn replace_child(&mut self, position: usize, child: GlobalAddress) {
        let start = match position.checked_sub(1) {
            None => LEFTMOST,
            Some(index) => {
                assert!(index < self.count(), "the child exists");
                self.layout.entry(index).end - ADDRESS_BYTES
            }
        };
        self.write_address(start, child);
    }

    /// Removes an entry. The write is not counted.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn remove(&mut self, index: usize) {
        let count = self.count();
        assert!(index < count, "the entry exists");
        for target in index..count - 1 {
            self.copy_entry(target + 1, target);
        }
        self.clear_entry(count - 1);
    }

    /// Adds the children of the node to the right, which begin at `separator`, and takes over its
    /// sibling. The write is not counted.
    ///
    /// # Errors
    /// `NodeFull`; then nothing is changed.
    pub fn merge(&mut self, separator: &[u8], right: &InternalNode) -> Result<(), NodeFull> {
        let (count, more) = (self.count(), right.count());
        if count + 1 + more > self.layout.span {
            return Err(NodeFull);
        }
        self.write_entry(count, separator, right.leftmost());
        for index in 0..more {
            let entry = right.separator(index).to_vec();
            self.write_entry(count + 1 + index, &entry, right.child(index));
        }
        self.set_sibling(right.sibling(), right.sibling_leftmost());
        let low = self.low_fence().to_vec();
        self.set_fences(&low, right.high_fence());
        Ok(())
    }

    /// Moves the upper half of the children to a new node at the address `right`, and returns that
    /// with the separator that leads to it. Counts one node write.
    ///
    /// # Panics
    /// If the node has less than three entries.
    pub fn split(&mut self, right: GlobalAddress) -> RightHalf {
        let count = self.count();
        assert!(count >= 3, "each half keeps an entry");
        // The middle entry goes up: its separator leads to the right half, whose leftmost child is
        // its child.
        let middle = count / 2;
        let separator: Box<[u8]> = self.separator(middle).into();
        let leftmost = self.child(middle);
        let key_bytes = self.layout.key_bytes;

        // The right half keeps the level, the sibling, the high fence and the versions.
        let mut node = self.clone();
        node.write_address(LEFTMOST, leftmost);
        node.bytes[FENCES..FENCES + key_bytes].copy_from_slice(&separator);
        for index in 0..count {
            if middle + 1 + index < count {
                node.copy_entry(middle + 1 + index, index);
            } else {
                node.clear_entry(index);
            }
        }
        for index in middle..count {
            self.clear_entry(index);
        }
        self.write_address(SIBLING, right);
        // A route to the last child of this half needs the sibling that the child should have.
        self.write_address(SIBLING_LEFTMOST, leftmost);
        self.bytes[FENCES + key_bytes..FENCES + 2 * key_bytes].copy_from_slice(&separator);
        self.count_node_write();
        RightHalf { separator, node }
    }

    /// Makes the node valid or not.
    pub fn set_valid(&mut self, valid: bool) {
        self.bytes[VALID] = u8::from(valid);
    }

    /// Sets the fence keys.
    ///
    /// # Panics
    /// If a fence differs in length from keys.
    pub fn set_fences(&mut self, low: &[u8], high: &[u8]) {
        let key_bytes = self.layout.key_bytes;
        assert_eq!((low.len(), high.len()), (key_bytes, key_bytes));
        self.bytes[FENCES..FENCES + key_bytes].copy_from_slice(low);
        self.bytes[FENCES + key_bytes..FENCES + 2 * key_bytes].copy_from_slice(high);
    }

    /// Sets the node to the right and the leftmost child of that.
    pub fn set_sibling(&mut self, sibling: GlobalAddress, sibling_leftmost: GlobalAddress) {
        self.write_address(SIBLING, sibling);
        self.write_address(SIBLING_LEFTMOST, sibling_leftmost);
    }

    /// Counts a write of the whole node in the versions of all objects.
    pub fn count_node_write(&mut self) {
        versions::count_node_write(&self.layout, &mut self.bytes);
    }

    fn read_address(&self, start: usize) -> GlobalAddress {
        address(&self.bytes[start..start + ADDRESS_BYTES])
    }

    fn write_address(&mut self, start: usize, address: GlobalAddress) {
        let bytes = address.to_bits().to_le_bytes();
        self.bytes[start..start + ADDRESS_BYTES].copy_from_slice(&bytes);
    }

    fn write_entry(&mut self, index: usize, separator: &[u8], child: GlobalAddress) {
        let entry = self.layout.entry(index);
        let child_start = entry.end - ADDRESS_BYTES;
        self.bytes[entry.start + SEPARATOR..child_start].copy_from_slice(separator);
        self.write_address(child_start, child);
    }

    /// Copies all of an entry except its versions.
    fn copy_entry(&mut self, source: usize, target: usize) {
        // Versions belong to the place: readers compare them with those of their line.
        let Range { start, end } = self.layout.entry(source);
        let target = self.layout.entry(target).start + SEPARATOR;
        self.bytes.copy_within(start + SEPARATOR..end, target);
    }

    fn clear_entry(&mut self, index: usize) {
        let Range { start, end } = self.layout.entry(index);
        self.bytes[start + SEPARATOR..end].fill(0);
    }
}

/// Returns the number of indexes, of the first `count`, before the first that is not `below`.
fn partition(count: usize, below: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if below(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::super::PoolIndexShape;
    use super::*;
    use nearfield_fabric::NodeId;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;
    use rand::seq::SliceRandom;

    fn at(number: u64) -> GlobalAddress {
        GlobalAddress::new(NodeId(1), number * 64)
    }

    fn key(number: u64) -> [u8; 8] {
        number.to_be_bytes()
    }

    /// Creates a node of children 0, 1, ... with separators 10, 20, ..., and a sibling with 500 as
    /// its first child.
    fn full(layout: InternalLayout, seed: u64) -> InternalNode {
        let mut node = InternalNode::new(layout, 2, at(1000));
        node.set_sibling(at(900), at(500));
        node.set_fences(&key(5), &key(10_000));
        let mut numbers: Vec<u64> = (1..=layout.span() as u64).collect();
        numbers.shuffle(&mut SmallRng::seed_from_u64(seed));
        for number in numbers {
            assert_eq!(node.insert(&key(10 * number), at(number)), Ok(()));
        }
        node
    }

    #[test]
    fn keys_are_routed_with_the_sibling_to_expect() {
        let layout = InternalLayout::new(Geometry::default());
        let mut node = full(layout, 1);
        assert_eq!(node.insert(&key(15), at(7)), Err(NodeFull));
        assert_eq!(node.insert(&key(20), at(2)), Ok(()), "replaces");
        for number in 10..700 {
            let route = node.route(&key(number));
            let child = (number / 10).min(64);
            let sibling = if child == 64 { 500 } else { child + 1 };
            assert_eq!((route.child, route.sibling), (at(child), at(sibling)));
        }
        assert_eq!(node.route(&key(5)).child, at(1000));
        assert!(node.covers(&key(5)) && !node.covers(&key(4)) && !node.covers(&key(10_000)));
    }

    #[test]
    fn halves_route_as_the_whole_did() {
        for internal_span in [3, 4, 5, 17, 64] {
            let shape = PoolIndexShape {
                internal_span,
                ..PoolIndexShape::default()
            };
            let geometry = Geometry::new(shape).expect("the shape is possible");
            let whole = full(InternalLayout::new(geometry), 2);
            let mut left = whole.clone();
            let RightHalf { separator, node } = left.split(at(901));
            assert_eq!((left.sibling(), node.sibling()), (at(901), at(900)));
            assert_eq!(left.high_fence(), &*separator);
            assert_eq!(node.low_fence(), &*separator);
            assert_eq!(left.count() + node.count() + 1, internal_span);
            assert!(left.count().abs_diff(node.count()) <= 1);
            for number in 5..700 {
                let half = if left.covers(&key(number)) {
                    &left
                } else {
                    &node
                };
                assert!(half.covers(&key(number)));
                assert_eq!(half.route(&key(number)), whole.route(&key(number)));
            }
            let decoded = InternalNode::decode(*node.layout(), &node.encode());
            assert_eq!(decoded.as_ref(), Ok(&node));
            assert_eq!((node.level(), node.is_valid()), (2, true));
        }
    }

    #[test]
    fn a_node_between_two_writes_is_torn_wherever_it_was_cut() {
        let layout = InternalLayout::new(Geometry::default());
        let old = full(layout, 3);
        let mut new = old.clone();
        new.split(at(901));
        let (old, new) = (old.encode(), new.encode());
        for cut in (64..old.len()).step_by(64) {
            let mixed = [&new[..cut], &old[cut..]].concat();
            assert_eq!(
                InternalNode::decode(layout, &mixed),
                Err(TornNodeError::Node)
            );
        }
    }
}
