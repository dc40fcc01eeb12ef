//! The leaves that the clients of a compute node know, by their lower bounds.

use nearfield_fabric::GlobalAddress;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Leaves by their lower bounds. An entry may be outdated: its leaf may have been divided since.
/// The leaf itself shows that.
#[derive(Debug)]
pub(super) struct MarlinLeafMap {
    budget_bytes: usize,
    known: RwLock<MarlinKnownLeaves>,
}

#[derive(Clone, Debug, Default)]
struct MarlinKnownLeaves {
    by_low: BTreeMap<Box<[u8]>, GlobalAddress>,
    bytes: usize,
    /// The bound of the leaf that was evicted last. The next one is evicted next.
    evicted: Box<[u8]>,
}

/// Returns the bytes of a leaf: its entry in a map with nodes that are two thirds full, and its
/// bound.
fn bytes_of(low: &[u8]) -> usize {
    size_of::<(Box<[u8]>, GlobalAddress)>() * 3 / 2 + low.len()
}

impl MarlinLeafMap {
    /// Creates an empty map with a budget of `budget_bytes`.
    pub fn new(budget_bytes: usize) -> MarlinLeafMap {
        MarlinLeafMap {
            budget_bytes,
            known: RwLock::default(),
        }
    }

    pub fn bytes(&self) -> usize {
        self.known.read().bytes
    }

    /// Copies the leaves of another map, which has the same budget.
    pub fn learn_from(&self, other: &MarlinLeafMap) {
        // Copied first, so that only one lock is held at a time.
        let known = other.known.read().clone();
        *self.known.write() = known;
    }

    /// Returns up to `count` known leaves in ascending order, the first of which is the last one
    /// with a bound that is at most the key.
    pub fn leaves_from(&self, key: &[u8], count: usize) -> Vec<GlobalAddress> {
        let known = self.known.read();
        let up_to = (Bound::Unbounded, Bound::Included(key));
        let Some((low, _)) = known.by_low.range::<[u8], _>(up_to).next_back() else {
            return Vec::new();
        };
        let from = (Bound::Included(&**low), Bound::Unbounded);
        let leaves = known.by_low.range::<[u8], _>(from).take(count);
        leaves.map(|(_, &leaf)| leaf).collect()
    }

    /// Notes a leaf, in place of the one that had its bound.
    pub fn note(&self, low: &[u8], leaf: GlobalAddress) {
        let cost = bytes_of(low);
        if cost > self.budget_bytes {
            return;
        }
        let mut guard = self.known.write();
        let known = &mut *guard;
        if known.by_low.insert(low.into(), leaf).is_none() {
            known.bytes += cost;
        }
        while known.bytes > self.budget_bytes {
            let behind = (Bound::Excluded(&*known.evicted), Bound::Unbounded);
            let next = known.by_low.range::<[u8], _>(behind).next();
            let next = next.or_else(|| known.by_low.iter().next());
            let Some(low) = next.map(|(low, _)| low.clone()) else {
                return;
            };
            known.by_low.remove(&low);
            known.bytes -= bytes_of(&low);
            known.evicted = low;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_fabric::NodeId;

    #[test]
    fn leaves_are_found_by_keys_behind_their_bounds_within_the_budget() {
        let leaf = |number: u64| GlobalAddress::new(NodeId(1), number * 64);
        let map = MarlinLeafMap::new(8 * bytes_of(&[0]));
        assert!(map.leaves_from(&[5], 1).is_empty());
        for low in [10, 20, 30] {
            map.note(&[low], leaf(u64::from(low)));
        }
        assert!(map.leaves_from(&[9], 3).is_empty());
        assert_eq!(map.leaves_from(&[10], 1), [leaf(10)]);
        assert_eq!(map.leaves_from(&[29], 3), [leaf(20), leaf(30)]);
        map.note(&[20], leaf(7));
        assert_eq!(map.leaves_from(&[29], 1), [leaf(7)]);
        for low in 40..=255 {
            map.note(&[low], leaf(u64::from(low)));
            assert!(map.bytes() <= 8 * bytes_of(&[0]));
        }
        assert_eq!(map.leaves_from(&[0xff], 9).len(), 1);
        let other = MarlinLeafMap::new(8 * bytes_of(&[0]));
        other.learn_from(&map);
        assert_eq!(other.bytes(), map.bytes());
        MarlinLeafMap::new(3).note(&[1], leaf(1));
    }
}
