//! dashmap: a sharded hash map with a lock for each shard, as the unordered reference.

use crate::{PeerKey, PeerMap, PeerSession};
use dashmap::DashMap;
use foldhash::fast::FixedState;
use std::hash::Hash;

type Map<K> = DashMap<K, u64, FixedState>;

/// The peer of this module, hashed by foldhash.
pub struct Dashmap<S: PeerKey>(Map<S::Native>);

/// One thread's access.
pub struct DashmapSession<'p, K>(&'p Map<K>);

impl<S: PeerKey> PeerMap<S> for Dashmap<S> {
    type Key = S::Native;
    type Session<'p> = DashmapSession<'p, S::Native>;

    fn new() -> Self {
        // The seed is fixed, so that keys have the same shards in each run.
        Dashmap(DashMap::with_hasher(FixedState::default()))
    }

    fn key(source: S) -> Result<S::Native, &'static str> {
        Ok(source.native())
    }

    fn sessions(&mut self, count: usize) -> Vec<DashmapSession<'_, S::Native>> {
        (0..count).map(|_| DashmapSession(&self.0)).collect()
    }
}

impl<K: Copy + Eq + Hash> PeerSession for DashmapSession<'_, K> {
    type Key = K;
    type Guard = ();

    fn pin(&self) {}

    #[inline]
    fn get(&mut self, (): &(), key: K) -> Option<u64> {
        // The value is copied at once: the entry holds the lock of its shard.
        self.0.get(&key).map(|entry| *entry)
    }

    #[inline]
    fn insert(&mut self, (): &(), key: K, value: u64) {
        self.0.insert(key, value);
    }

    #[inline]
    fn update(&mut self, (): &(), key: K, value: u64) -> bool {
        self.0
            .get_mut(&key)
            .map(|mut entry| *entry = value)
            .is_some()
    }

    #[inline]
    fn remove(&mut self, (): &(), key: K) -> bool {
        self.0.remove(&key).is_some()
    }

    fn scan(&mut self, (): &(), _: K, _: usize, _: impl FnMut(u64)) -> usize {
        // Keys have no order here.
        0
    }
}
