//! The standard library's `BTreeMap`: one thread, the best-known baseline.

use crate::peer::{only_session, visit_values};
use crate::{PeerKey, PeerMap, PeerSession};
use std::collections::BTreeMap;

type Map<S> = BTreeMap<<S as PeerKey>::Native, u64>;

/// The peer of this module.
pub struct StdBTreeMap<S: PeerKey>(Map<S>);

impl<S: PeerKey> PeerMap<S> for StdBTreeMap<S> {
    type Key = S::Native;
    type Session<'p> = &'p mut Map<S>;

    fn new() -> Self {
        StdBTreeMap(BTreeMap::new())
    }

    fn key(source: S) -> Result<S::Native, &'static str> {
        Ok(source.native())
    }

    fn sessions(&mut self, count: usize) -> Vec<&mut Map<S>> {
        only_session(&mut self.0, count)
    }
}

impl<K: Copy + Ord> PeerSession for &mut BTreeMap<K, u64> {
    type Key = K;
    type Guard = ();

    fn pin(&self) {}

    #[inline]
    fn get(&mut self, (): &(), key: K) -> Option<u64> {
        BTreeMap::get(self, &key).copied()
    }

    #[inline]
    fn insert(&mut self, (): &(), key: K, value: u64) {
        BTreeMap::insert(self, key, value);
    }

    #[inline]
    fn update(&mut self, (): &(), key: K, value: u64) -> bool {
        self.get_mut(&key).map(|stored| *stored = value).is_some()
    }

    #[inline]
    fn remove(&mut self, (): &(), key: K) -> bool {
        BTreeMap::remove(self, &key).is_some()
    }

    #[inline]
    fn scan(&mut self, (): &(), start: K, limit: usize, visit: impl FnMut(u64)) -> usize {
        // The range is lazy, so the limit ends the walk.
        visit_values(self.range(start..).map(|(_, value)| *value), limit, visit)
    }
}
