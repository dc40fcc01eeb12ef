//! Internal nodes in the form of the cache: children and separators, without unused entries.

use crate::cache::{CacheableNode, HEADER_BYTES, partition, prefix};
use crate::layout::InternalNode;
use crate::layout::internal::{Route, address};
use nearfield_fabric::recovery::epochs::Epoch;
use nearfield_fabric::{GlobalAddress, prefetch};

const ADDRESS_BYTES: usize = 8;
/// Number of bytes of a separator that are compared as a number. Without the common bytes of all
/// keys of the node, they distinguish most of its separators.
const HEAD_BYTES: usize = 4;

/// The content of an internal node when it was read.
///
/// ```text
/// heads 4 each | children, sibling's leftmost child, 8 each | low fence | high fence | tails
/// ```
///
/// A separator consists of `skipped` bytes that it shares with the fences, a head, padded with
/// zeros if the separator is short, and a tail. The parts that a search reads are adjacent, so that
/// it waits for few lines.
#[derive(Debug)]
pub struct CachedNode {
    address: GlobalAddress,
    level: u8,
    has_sibling: bool,
    key_bytes: u16,
    /// Number of first bytes that are the same in all keys below the node.
    skipped: u16,
    /// Number of separators: one less than children. Layouts have 4,096 at most.
    count: u16,
    /// The epoch of the operation that read the node.
    epoch: Epoch,
    bytes: Box<[u8]>,
}

/// Splits a key behind its skipped bytes into its head and its tail.
fn split(rest: &[u8]) -> (u32, &[u8]) {
    let head = (prefix(rest) >> (8 * HEAD_BYTES)) as u32;
    (head, rest.get(HEAD_BYTES..).unwrap_or_default())
}

impl CachedNode {
    /// Creates the content of a node that was read at an address.
    pub(super) fn new(address: GlobalAddress, node: &InternalNode, epoch: Epoch) -> CachedNode {
        let count = node.count();
        let (low, high) = (node.low_fence(), node.high_fence());
        let has_sibling = !node.sibling().is_null();
        let separators = || (0..count).map(|index| node.separator(index));
        // The greatest key of the last node of a level may begin with anything.
        let is_same = |(one, other): &(&u8, &u8)| has_sibling && one == other;
        let skipped = low.iter().zip(high).take_while(is_same).count();
        let tail_bytes = low.len().saturating_sub(skipped + HEAD_BYTES);
        let length =
            count * (HEAD_BYTES + tail_bytes) + (count + 2) * ADDRESS_BYTES + 2 * low.len();
        let mut bytes = Vec::with_capacity(length);
        for separator in separators() {
            bytes.extend_from_slice(&split(&separator[skipped..]).0.to_le_bytes());
        }
        // A child and the one behind it, its sibling, are adjacent, so that a route is one slice.
        // The last child's sibling is the sibling's leftmost one.
        let children = (0..count).map(|index| node.child(index));
        let children = std::iter::once(node.leftmost()).chain(children);
        for child in children.chain([node.sibling_leftmost()]) {
            bytes.extend_from_slice(&child.to_bits().to_le_bytes());
        }
        bytes.extend_from_slice(low);
        bytes.extend_from_slice(high);
        for separator in separators() {
            bytes.extend_from_slice(split(&separator[skipped..]).1);
        }
        debug_assert_eq!(
            bytes.len(),
            length,
            "searches compute the offsets of all parts"
        );
        debug_assert!(count.max(low.len()) <= usize::from(u16::MAX));
        CachedNode {
            address,
            epoch,
            level: node.level(),
            has_sibling,
            // Layouts have keys of up to 4,096 bytes, and 4,096 entries.
            key_bytes: low.len() as u16,
            skipped: skipped as u16,
            count: count as u16,
            bytes: bytes.into(),
        }
    }

    /// Returns the epoch of the operation that read it.
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the child that a key below the node leads to, and the sibling that it should have.
    pub(super) fn route(&self, key: &[u8]) -> Route {
        self.route_at(self.position(key))
    }

    /// Returns the child of a position, and the sibling that it should have.
    pub(super) fn route_at(&self, position: usize) -> Route {
        let (child, sibling) = self.route_bytes(position).split_at(ADDRESS_BYTES);
        Route {
            child: address(child),
            sibling: address(sibling),
        }
    }

    /// Returns the least key right of a child; `None` if the node is the last one and so is the
    /// child.
    pub(super) fn bound(&self, position: usize) -> Option<Vec<u8>> {
        if position == usize::from(self.count) {
            return self.high().map(<[u8]>::to_vec);
        }
        Some(self.separator(position))
    }

    /// Returns the least key that may be below a child.
    pub(super) fn least(&self, position: usize) -> Vec<u8> {
        match position.checked_sub(1) {
            None => self.low().to_vec(),
            Some(before) => self.separator(before),
        }
    }

    /// Returns the number of children.
    pub(super) fn children(&self) -> usize {
        usize::from(self.count) + 1
    }

    fn separator(&self, index: usize) -> Vec<u8> {
        let mut separator = self.low()[..usize::from(self.skipped)].to_vec();
        // The zeros that pad the head of a short separator are no part of it.
        let head_bytes = HEAD_BYTES.min(usize::from(self.key_bytes - self.skipped));
        separator.extend_from_slice(&self.head(index).to_be_bytes()[..head_bytes]);
        separator.extend_from_slice(self.tail(index));
        separator
    }

    fn heads(&self) -> &[[u8; HEAD_BYTES]] {
        let (heads, _) = self.bytes.as_chunks();
        &heads[..usize::from(self.count)]
    }

    fn head(&self, index: usize) -> u32 {
        u32::from_le_bytes(self.heads()[index])
    }

    fn tail(&self, index: usize) -> &[u8] {
        let not_in_tail = usize::from(self.skipped) + HEAD_BYTES;
        let tail_bytes = usize::from(self.key_bytes).saturating_sub(not_in_tail);
        let start = self.fences_start() + 2 * usize::from(self.key_bytes);
        &self.bytes[start + index * tail_bytes..][..tail_bytes]
    }

    /// Returns the bytes of a child, and of the one behind it.
    fn route_bytes(&self, position: usize) -> &[u8] {
        debug_assert!(
            position <= usize::from(self.count),
            "there is one child more than separators"
        );
        let start = usize::from(self.count) * HEAD_BYTES;
        &self.bytes[start + position * ADDRESS_BYTES..][..2 * ADDRESS_BYTES]
    }

    fn fences_start(&self) -> usize {
        let count = usize::from(self.count);
        count * HEAD_BYTES + (count + 2) * ADDRESS_BYTES
    }

    fn fence(&self, number: usize) -> &[u8] {
        let key_bytes = usize::from(self.key_bytes);
        &self.bytes[self.fences_start() + number * key_bytes..][..key_bytes]
    }
}

impl CacheableNode for CachedNode {
    fn address(&self) -> GlobalAddress {
        self.address
    }

    fn level(&self) -> u8 {
        self.level
    }

    fn low(&self) -> &[u8] {
        self.fence(0)
    }

    fn high(&self) -> Option<&[u8]> {
        self.has_sibling.then(|| self.fence(1))
    }

    fn bytes(&self) -> usize {
        size_of::<CachedNode>() + HEADER_BYTES + self.bytes.len()
    }

    fn prefetch(&self) {
        prefetch(self.heads());
    }

    /// Returns the number of separators that are not greater than a key below the node.
    fn position(&self, key: &[u8]) -> usize {
        let heads = self.heads();
        let head_at = |index: usize| u32::from_le_bytes(heads[index]);
        let rest = key.get(usize::from(self.skipped)..).unwrap_or_default();
        let (head, tail) = split(rest);
        // Heads distinguish most separators, so the tails, which are on other lines, are rarely
        // read.
        let mut position = partition(0..heads.len(), |index| head_at(index) <= head);
        if position > 0 && head_at(position - 1) == head {
            let start = partition(0..position, |index| head_at(index) < head);
            position = partition(start..position, |index| self.tail(index) <= tail);
        }
        // The caller reads the child next.
        prefetch(self.route_bytes(position));
        position
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Geometry, InternalLayout, PoolIndexShape};
    use nearfield_fabric::NodeId;

    #[test]
    fn keys_of_any_length_lead_where_the_node_says() {
        for key_bytes in [2, 7, 8, 9, 16] {
            let shape = PoolIndexShape {
                key_bytes,
                ..PoolIndexShape::default()
            };
            let geometry = Geometry::new(shape).expect("the shape is possible");
            let at = |number: u64| GlobalAddress::new(NodeId(1), number * 64);
            // Signed or little-endian numbers would have another order.
            let key = |number: u16| {
                let mut key = vec![0; key_bytes];
                key[..2].copy_from_slice(&(number * 1000).to_be_bytes());
                key[key_bytes - 1] |= 1;
                key
            };
            let mut node = InternalNode::new(InternalLayout::new(geometry), 2, at(1000));
            node.set_sibling(at(900), at(500));
            let fences = [vec![0; key_bytes], vec![0xff; key_bytes]];
            node.set_fences(&fences[0], &fences[1]);
            for number in 1..=60 {
                let inserted = node.insert(&key(number), at(u64::from(number)));
                inserted.expect("there is room");
            }
            let cached = CachedNode::new(at(7), &node, Epoch::default());
            assert_eq!(
                cached.bytes(),
                size_of::<CachedNode>() + HEADER_BYTES + cached.bytes.len()
            );
            for position in 0..60 {
                assert_eq!(
                    cached.bound(position).as_deref(),
                    Some(node.separator(position))
                );
                assert_eq!(cached.least(position + 1), node.separator(position));
            }
            assert_eq!([Some(cached.least(0)), cached.bound(60)], fences.map(Some));
            for number in 0..=60 {
                for last in [0, 1, 2] {
                    let mut key = key(number);
                    key[key_bytes - 1] = last;
                    assert_eq!(cached.route(&key), node.route(&key), "{key:?}");
                }
            }
        }
    }

    /// The fences have some first bytes in common, the heads of separators are the same or not, and
    /// there are tails or not.
    #[test]
    fn what_separators_have_in_common_is_kept_once() {
        for (key_bytes, common) in [
            (9, 0),
            (9, 3),
            (9, 5),
            (9, 6),
            (9, 8),
            (4, 2),
            (16, 3),
            (16, 13),
        ] {
            let shape = PoolIndexShape {
                key_bytes,
                ..PoolIndexShape::default()
            };
            let geometry = Geometry::new(shape).expect("the shape is possible");
            let at = |number: u64| GlobalAddress::new(NodeId(1), number * 64);
            for varied in common..key_bytes {
                let key = |number: u8| {
                    let mut key = vec![7; key_bytes];
                    key[varied] = number;
                    key
                };
                let mut node = InternalNode::new(InternalLayout::new(geometry), 2, at(1000));
                let right = node.clone();
                for number in 1..=30 {
                    node.insert(&key(4 * number), at(u64::from(number)))
                        .expect("there is room");
                }
                let (mut low, mut high) = (vec![7; key_bytes], vec![7; key_bytes]);
                low[common..].fill(0);
                high[common] = 255;
                node.set_fences(&low, &high);
                node.set_sibling(at(900), right.leftmost());
                let cached = CachedNode::new(at(7), &node, Epoch::default());
                assert_eq!(usize::from(cached.skipped), common);
                assert_eq!((cached.low(), cached.high()), (&low[..], Some(&high[..])));
                let fewer = 30 * common.min(key_bytes.saturating_sub(HEAD_BYTES));
                let all = 30 * key_bytes.max(HEAD_BYTES) + 32 * ADDRESS_BYTES + 2 * key_bytes;
                assert_eq!(cached.bytes.len(), all - fewer);
                for number in 0..=124 {
                    let key = key(number);
                    assert_eq!(cached.route(&key), node.route(&key), "{key:?}");
                }
                for position in 0..30 {
                    assert_eq!(
                        cached.bound(position).as_deref(),
                        Some(node.separator(position))
                    );
                }
                assert_eq!(cached.bound(30), Some(high));
            }
        }
    }
}
