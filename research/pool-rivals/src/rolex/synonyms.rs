//! The addresses of synonym leaves that clients of a compute node know.

use nearfield_fabric::GlobalAddress;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;

/// The synonyms of a leaf: its number, and their addresses in order.
pub(super) type Known = (u64, Arc<[GlobalAddress]>);

/// Synonym leaves by the least key that belongs to their leaf, so that a key finds the only leaf
/// with known synonyms to which it may belong. Synonyms are never removed from a leaf, so no entry
/// becomes wrong; there may be further synonyms.
#[derive(Debug, Default)]
pub(super) struct Synonyms {
    known: RwLock<RolexSynonymMap>,
}

#[derive(Clone, Debug, Default)]
struct RolexSynonymMap {
    /// Synonyms by the bound of their leaf. The first leaf's bound is the empty string.
    by_bound: BTreeMap<Box<[u8]>, Known>,
    bytes: usize,
}

/// Returns the bytes of a leaf with synonyms: its entry in a map with nodes that are two thirds
/// full, its bound and the addresses with their two counters.
fn bytes_of(bound: &[u8], addresses: usize) -> usize {
    size_of::<(Box<[u8]>, Known)>() * 3 / 2 + bound.len() + 16 + addresses * 8
}

impl Synonyms {
    pub fn bytes(&self) -> usize {
        self.known.read().bytes
    }

    /// Copies the synonyms of another one, which has the same budget.
    pub fn learn_from(&self, other: &Synonyms) {
        // Copied first, so that only one lock is held at a time.
        let known = other.known.read().clone();
        *self.known.write() = known;
    }

    /// Returns the known synonyms of the last leaf with a bound that is at most a key, if they are
    /// of one of `leaves`.
    pub fn of_key(&self, key: &[u8], leaves: &RangeInclusive<u64>) -> Option<Known> {
        let kept = self.known.read();
        let up_to = (Bound::Unbounded, Bound::Included(key));
        let (_, known) = kept.by_bound.range::<[u8], _>(up_to).next_back()?;
        leaves.contains(&known.0).then(|| known.clone())
    }

    /// Returns the known synonyms of leaves in ascending order, none of which has its bound below
    /// `from`.
    pub fn of_leaves(&self, from: &[u8], leaves: &RangeInclusive<u64>) -> Vec<Known> {
        let kept = self.known.read();
        let from = (Bound::Included(from), Bound::Unbounded);
        let known = kept.by_bound.range::<[u8], _>(from).map(|(_, known)| known);
        let before = known.skip_while(|(leaf, _)| leaf < leaves.start());
        let within = before.take_while(|(leaf, _)| leaf <= leaves.end());
        // Bounds were read from memory, and may be in another order than their leaves.
        let within = within.filter(|(leaf, _)| leaf >= leaves.start());
        within.cloned().collect()
    }

    /// Records the synonyms of a leaf, unless more of them are known, or there would be more bytes
    /// than `budget`.
    pub fn note(&self, bound: &[u8], leaf: u64, addresses: Vec<GlobalAddress>, budget: usize) {
        let mut kept = self.known.write();
        let RolexSynonymMap { by_bound, bytes } = &mut *kept;
        let cost = bytes_of(bound, addresses.len());
        match by_bound.entry(bound.into()) {
            Entry::Occupied(mut entry) => {
                let before = entry.get().1.len();
                let grown = *bytes - bytes_of(bound, before) + cost;
                // Another task may have followed the chain further.
                if before < addresses.len() && grown <= budget {
                    *bytes = grown;
                    entry.get_mut().1 = addresses.into();
                }
            }
            Entry::Vacant(entry) if *bytes + cost <= budget => {
                *bytes += cost;
                entry.insert((leaf, addresses.into()));
            }
            Entry::Vacant(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_fabric::NodeId;

    fn addresses(count: u64) -> Vec<GlobalAddress> {
        let address = |number| GlobalAddress::new(NodeId(1), 64 * number);
        (1..=count).map(address).collect()
    }

    #[test]
    fn leaves_are_found_by_key_and_by_number() {
        let synonyms = Synonyms::default();
        synonyms.note(b"", 0, addresses(1), 10_000);
        synonyms.note(b"f", 5, addresses(2), 10_000);
        synonyms.note(b"k", 9, addresses(1), 10_000);
        let of_key = |key: &[u8], leaves| synonyms.of_key(key, &leaves).map(|known| known.0);
        assert_eq!(of_key(b"e", 0..=3), Some(0));
        assert_eq!(of_key(b"e", 1..=3), None);
        assert_eq!(of_key(b"f", 4..=6), Some(5));
        let numbers = |from: &[u8], leaves| {
            let known = synonyms.of_leaves(from, &leaves);
            known.into_iter().map(|known| known.0).collect::<Vec<_>>()
        };
        assert_eq!(numbers(b"", 0..=5), [0, 5]);
        assert_eq!(numbers(b"b", 1..=9), [5, 9]);
        assert_eq!(numbers(b"", 6..=8), [0; 0]);
        let other = Synonyms::default();
        other.learn_from(&synonyms);
        let known = other.of_key(b"f", &(4..=6));
        assert_eq!(known, synonyms.of_key(b"f", &(4..=6)));
        assert_eq!(other.bytes(), synonyms.bytes());
    }

    #[test]
    fn the_budget_holds_and_fewer_addresses_replace_none() {
        let synonyms = Synonyms::default();
        let budget = bytes_of(b"f", 2) + bytes_of(b"g", 1) - 1;
        synonyms.note(b"f", 5, addresses(2), budget);
        synonyms.note(b"f", 5, addresses(1), budget);
        synonyms.note(b"g", 6, addresses(1), budget);
        assert_eq!(synonyms.bytes(), bytes_of(b"f", 2));
        let known = synonyms.of_key(b"z", &(0..=9));
        assert_eq!(known, Some((5, addresses(2).into())));
    }
}
