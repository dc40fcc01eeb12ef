//! crossbeam's `SkipMap`: a concurrent skip list.

use crate::peer::visit_values;
use crate::{PeerKey, PeerMap, PeerSession};
use crossbeam_epoch::Guard;
use crossbeam_skiplist::SkipMap;
use std::sync::atomic::{AtomicU64, Ordering};

type Map<K> = SkipMap<K, AtomicU64>;

/// The peer of this module. Values are atomic and updated in place.
pub struct Skiplist<S: PeerKey>(Map<S::Native>);

/// One thread's access.
pub struct SkiplistSession<'p, K>(&'p Map<K>);

impl<S: PeerKey> PeerMap<S> for Skiplist<S> {
    type Key = S::Native;
    type Session<'p> = SkiplistSession<'p, S::Native>;

    fn new() -> Self {
        Skiplist(SkipMap::new())
    }

    fn key(source: S) -> Result<S::Native, &'static str> {
        Ok(source.native())
    }

    fn sessions(&mut self, count: usize) -> Vec<SkiplistSession<'_, S::Native>> {
        (0..count).map(|_| SkiplistSession(&self.0)).collect()
    }
}

impl<K: Copy + Ord + Send + 'static> PeerSession for SkiplistSession<'_, K> {
    type Key = K;
    /// The skip list pins crossbeam's epoch in each call; while this guard is held that only
    /// increments a counter.
    type Guard = Guard;

    fn pin(&self) -> Guard {
        crossbeam_epoch::pin()
    }

    #[inline]
    fn get(&mut self, _: &Guard, key: K) -> Option<u64> {
        // The load pairs with the store of an update, which another thread may make meanwhile.
        self.0
            .get(&key)
            .map(|entry| entry.value().load(Ordering::Acquire))
    }

    #[inline]
    fn insert(&mut self, _: &Guard, key: K, value: u64) {
        self.0.insert(key, AtomicU64::new(value));
    }

    #[inline]
    fn update(&mut self, _: &Guard, key: K, value: u64) -> bool {
        // An insert of a key that exists removes it first, and a get at that moment misses it. So
        // the value is changed in place.
        self.0
            .get(&key)
            .map(|entry| entry.value().store(value, Ordering::Release))
            .is_some()
    }

    #[inline]
    fn remove(&mut self, _: &Guard, key: K) -> bool {
        self.0.remove(&key).is_some()
    }

    #[inline]
    fn scan(&mut self, _: &Guard, start: K, limit: usize, visit: impl FnMut(u64)) -> usize {
        // The range is lazy, so the limit ends the walk.
        let values = self
            .0
            .range(start..)
            .map(|entry| entry.value().load(Ordering::Acquire));
        visit_values(values, limit, visit)
    }
}
