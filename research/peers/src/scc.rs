//! scc's `TreeIndex`: a concurrent B+tree with reads that take no lock.

use crate::peer::visit_values;
use crate::{PeerKey, PeerMap, PeerSession};
use scc::{Guard, TreeIndex};

/// The peer of this module.
pub struct Scc<S: PeerKey>(TreeIndex<S::Native, u64>);

/// One thread's access.
pub struct SccSession<'p, K>(&'p TreeIndex<K, u64>);

impl<S: PeerKey> PeerMap<S> for Scc<S> {
    type Key = S::Native;
    type Session<'p> = SccSession<'p, S::Native>;

    fn new() -> Self {
        Scc(TreeIndex::new())
    }

    fn key(source: S) -> Result<S::Native, &'static str> {
        Ok(source.native())
    }

    fn sessions(&mut self, count: usize) -> Vec<SccSession<'_, S::Native>> {
        (0..count).map(|_| SccSession(&self.0)).collect()
    }
}

impl<K: Copy + Ord + 'static> PeerSession for SccSession<'_, K> {
    type Key = K;
    type Guard = Guard;

    fn pin(&self) -> Guard {
        Guard::new()
    }

    #[inline]
    fn get(&mut self, guard: &Guard, key: K) -> Option<u64> {
        // Peeking takes no lock: the guard keeps the entry alive.
        self.0.peek(&key, guard).copied()
    }

    #[inline]
    fn insert(&mut self, _: &Guard, key: K, value: u64) {
        self.0.upsert_sync(key, value);
    }

    #[inline]
    fn update(&mut self, _: &Guard, key: K, value: u64) -> bool {
        // scc's upsert does not tell an update from an insert, so every update returns true.
        self.0.upsert_sync(key, value);
        true
    }

    #[inline]
    fn remove(&mut self, _: &Guard, key: K) -> bool {
        self.0.remove_sync(&key)
    }

    #[inline]
    fn scan(&mut self, guard: &Guard, start: K, limit: usize, visit: impl FnMut(u64)) -> usize {
        // The range is lazy, so the limit ends the walk.
        let values = self.0.range(start.., guard).map(|(_, value)| *value);
        visit_values(values, limit, visit)
    }
}
