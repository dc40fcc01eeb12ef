//! brie-tree: a B+-tree of integer keys, one thread. Its search in a node uses the vector
//! instructions that the program is compiled for.

use crate::peer::{only_session, visit_values};
use crate::{PeerMap, PeerSession};
use brie_tree::BTree;
use brie_tree::nonmax::NonMaxU64;
use std::ops::Bound;

type Map = BTree<NonMaxU64, u64>;

/// The peer of this module.
pub struct BrieTree(Map);

impl PeerMap<u64> for BrieTree {
    type Key = NonMaxU64;
    type Session<'p> = &'p mut Map;

    fn new() -> Self {
        BrieTree(Map::new())
    }

    fn key(source: u64) -> Result<NonMaxU64, &'static str> {
        NonMaxU64::new(source).ok_or("brie-tree reserves the greatest number")
    }

    fn sessions(&mut self, count: usize) -> Vec<&mut Map> {
        only_session(&mut self.0, count)
    }
}

impl PeerSession for &mut Map {
    type Key = NonMaxU64;
    type Guard = ();

    fn pin(&self) {}

    #[inline]
    fn get(&mut self, (): &(), key: NonMaxU64) -> Option<u64> {
        BTree::get(self, key).copied()
    }

    #[inline]
    fn insert(&mut self, (): &(), key: NonMaxU64, value: u64) {
        BTree::insert(self, key, value);
    }

    #[inline]
    fn update(&mut self, (): &(), key: NonMaxU64, value: u64) -> bool {
        self.get_mut(key).map(|stored| *stored = value).is_some()
    }

    #[inline]
    fn remove(&mut self, (): &(), key: NonMaxU64) -> bool {
        BTree::remove(self, key).is_some()
    }

    #[inline]
    fn scan(&mut self, (): &(), start: NonMaxU64, limit: usize, visit: impl FnMut(u64)) -> usize {
        // The entries are found one by one, so the limit ends the walk.
        let entries = self.iter_from(Bound::Included(start));
        visit_values(entries.map(|(_, value)| *value), limit, visit)
    }
}
