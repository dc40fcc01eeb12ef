//! Internal nodes as the cache keeps them: what leads to children, and nothing of entries that are
//! not used.

use crate::cache::{Cached, HEADER_BYTES, not_greater, prefix as prefix_of};
use crate::layout::InternalNode;
use crate::layout::internal::{Route, address};
use nearfield_fabric::epochs::Epoch;
use nearfield_fabric::{GlobalAddress, prefetch};

const ADDRESS_BYTES: usize = 8;

/// What an internal node said when it was read.
///
/// ```text
/// low fence | high fence | separators | children, and the leftmost child of the sibling |
/// ```
#[derive(Debug)]
pub struct CachedNode {
    address: GlobalAddress,
    level: u8,
    has_sibling: bool,
    key_bytes: u16,
    /// When it was read.
    epoch: Epoch,
    /// How many separators there are: one less than children.
    count: u32,
    bytes: Box<[u8]>,
}

impl CachedNode {
    /// What the node says that was read at an address.
    pub(super) fn new(address: GlobalAddress, node: &InternalNode, epoch: Epoch) -> CachedNode {
        let count = node.count();
        let key_bytes = node.low_fence().len();
        let mut bytes = Vec::with_capacity((2 + count) * key_bytes + (count + 2) * ADDRESS_BYTES);
        bytes.extend_from_slice(node.low_fence());
        bytes.extend_from_slice(node.high_fence());
        for index in 0..count {
            bytes.extend_from_slice(node.separator(index));
        }
        let children = (0..count).map(|index| node.child(index));
        let children = std::iter::once(node.leftmost()).chain(children);
        for child in children.chain([node.sibling_leftmost()]) {
            bytes.extend_from_slice(&child.to_bits().to_le_bytes());
        }
        CachedNode {
            address,
            epoch,
            level: node.level(),
            has_sibling: !node.sibling().is_null(),
            // Layouts have keys of up to 4,096 bytes, and 4,096 entries.
            key_bytes: key_bytes as u16,
            count: count as u32,
            bytes: bytes.into(),
        }
    }

    /// The epoch of the operation that has read it.
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The child that a key leads to, and the sibling that it should have.
    pub(super) fn route(&self, key: &[u8]) -> Route {
        self.route_at(self.position(key))
    }

    fn separators(&self) -> &[u8] {
        let key_bytes = usize::from(self.key_bytes);
        &self.bytes[2 * key_bytes..][..self.count as usize * key_bytes]
    }

    /// The child of a position, and the sibling that it should have.
    pub(super) fn route_at(&self, position: usize) -> Route {
        let (child, sibling) = self.route_bytes(position).split_at(ADDRESS_BYTES);
        Route {
            child: address(child),
            sibling: address(sibling),
        }
    }

    /// The least key right of a child; `None` if the node is the last one and so is the child.
    pub(super) fn bound(&self, position: usize) -> Option<&[u8]> {
        if position == self.count as usize {
            return self.high();
        }
        let key_bytes = usize::from(self.key_bytes);
        Some(&self.bytes[(2 + position) * key_bytes..][..key_bytes])
    }

    /// The least key that may be below a child.
    pub(super) fn least(&self, position: usize) -> &[u8] {
        let key_bytes = usize::from(self.key_bytes);
        match position {
            0 => self.low(),
            _ => &self.bytes[(1 + position) * key_bytes..][..key_bytes],
        }
    }

    /// How many children it has.
    pub(super) fn children(&self) -> usize {
        self.count as usize + 1
    }

    /// Where a child stands, and the one behind it.
    fn route_bytes(&self, position: usize) -> &[u8] {
        let start = (2 + self.count as usize) * usize::from(self.key_bytes);
        &self.bytes[start + position * ADDRESS_BYTES..][..2 * ADDRESS_BYTES]
    }
}

impl Cached for CachedNode {
    fn address(&self) -> GlobalAddress {
        self.address
    }

    fn level(&self) -> u8 {
        self.level
    }

    fn low(&self) -> &[u8] {
        &self.bytes[..usize::from(self.key_bytes)]
    }

    fn high(&self) -> Option<&[u8]> {
        let key_bytes = usize::from(self.key_bytes);
        self.has_sibling
            .then(|| &self.bytes[key_bytes..2 * key_bytes])
    }

    fn bytes(&self) -> usize {
        size_of::<CachedNode>() + HEADER_BYTES + self.bytes.len()
    }

    fn prefetch(&self) {
        prefetch(self.separators());
    }

    /// How many of its separators are not greater than a key.
    fn position(&self, key: &[u8]) -> usize {
        let (count, separators) = (self.count as usize, self.separators());
        let key_bytes = usize::from(self.key_bytes);
        let key_at = |index: usize| &separators[index * key_bytes..][..key_bytes];
        let prefix_at = |index: usize| prefix_of(key_at(index));
        let position = not_greater(count, prefix_at, key_at, key, prefix_of(key));
        prefetch(self.route_bytes(position));
        position
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Geometry, InternalLayout, Shape};
    use nearfield_fabric::NodeId;

    #[test]
    fn keys_of_any_length_lead_where_the_node_says() {
        for key_bytes in [2, 7, 8, 9, 16] {
            let shape = Shape {
                key_bytes,
                ..Shape::default()
            };
            let geometry = Geometry::new(shape).expect("the shape is possible");
            let at = |number: u64| GlobalAddress::new(NodeId(1), number * 64);
            // Signed or little-endian numbers would be in another order.
            let key = |number: u16| {
                let mut key = vec![0; key_bytes];
                key[..2].copy_from_slice(&(number * 1000).to_be_bytes());
                key[key_bytes - 1] |= 1;
                key
            };
            let mut node = InternalNode::new(InternalLayout::new(geometry), 2, at(1000));
            node.set_sibling(at(900), at(500));
            for number in 1..=60 {
                let inserted = node.insert(&key(number), at(u64::from(number)));
                inserted.expect("there is room");
            }
            let cached = CachedNode::new(at(7), &node, Epoch::default());
            for number in 0..=60 {
                for last in [0, 1, 2] {
                    let mut key = key(number);
                    key[key_bytes - 1] = last;
                    assert_eq!(cached.route(&key), node.route(&key), "{key:?}");
                }
            }
        }
    }
}
