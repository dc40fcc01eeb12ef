//! papaya's `HashMap`: a concurrent hash map without locks, as the unordered reference.

use crate::{PeerKey, PeerMap, PeerSession};
use foldhash::fast::FixedState;
use papaya::{HashMap, LocalGuard};
use std::hash::Hash;

type Map<K> = HashMap<K, u64, FixedState>;

/// The peer of this module, hashed by foldhash.
pub struct Papaya<S: PeerKey>(Map<S::Native>);

/// One thread's access.
pub struct PapayaSession<'p, K>(&'p Map<K>);

impl<S: PeerKey> PeerMap<S> for Papaya<S> {
    type Key = S::Native;
    type Session<'p> = PapayaSession<'p, S::Native>;

    fn new() -> Self {
        // The seed is fixed, so that keys have the same slots in each run.
        Papaya(HashMap::with_hasher(FixedState::default()))
    }

    fn key(source: S) -> Result<S::Native, &'static str> {
        Ok(source.native())
    }

    fn sessions(&mut self, count: usize) -> Vec<PapayaSession<'_, S::Native>> {
        (0..count).map(|_| PapayaSession(&self.0)).collect()
    }
}

impl<'p, K: Copy + Eq + Hash> PeerSession for PapayaSession<'p, K> {
    type Key = K;
    type Guard = LocalGuard<'p>;

    fn pin(&self) -> LocalGuard<'p> {
        self.0.guard()
    }

    #[inline]
    fn get(&mut self, guard: &LocalGuard<'p>, key: K) -> Option<u64> {
        self.0.get(&key, guard).copied()
    }

    #[inline]
    fn insert(&mut self, guard: &LocalGuard<'p>, key: K, value: u64) {
        self.0.insert(key, value, guard);
    }

    #[inline]
    fn update(&mut self, guard: &LocalGuard<'p>, key: K, value: u64) -> bool {
        // An insert replaces the value and returns the old one. It would also add an absent key.
        self.0.insert(key, value, guard).is_some()
    }

    #[inline]
    fn remove(&mut self, guard: &LocalGuard<'p>, key: K) -> bool {
        self.0.remove(&key, guard).is_some()
    }

    fn scan(&mut self, _: &LocalGuard<'p>, _: K, _: usize, _: impl FnMut(u64)) -> usize {
        // Keys have no order here.
        0
    }
}
