//! masstree: a concurrent trie of B+trees over slices of 8 bytes, values inline.

use crate::{PeerKey, PeerMap, PeerSession, PeerTextKey};
use masstree::{MassTree, RangeBound};
use seize::LocalGuard;

/// The longest key in bytes: masstree panics above.
const MAX_KEY_BYTES: usize = 256;

/// The peer of this module.
pub struct Masstree(MassTree<u64>);

/// One thread's access, with the type of key it takes.
pub struct MasstreeSession<'p, K> {
    map: &'p MassTree<u64>,
    key: std::marker::PhantomData<K>,
}

/// The bytes that stand for a key of the lab.
pub trait MasstreeSource: PeerKey {
    /// The key in bytes.
    type Bytes: AsRef<[u8]> + Copy + Send + Sync + 'static;
    /// Converts the key.
    fn ordered_bytes(self) -> Result<Self::Bytes, &'static str>;
}

impl MasstreeSource for u64 {
    type Bytes = [u8; 8];

    fn ordered_bytes(self) -> Result<[u8; 8], &'static str> {
        // Big-endian bytes have the order of the numbers.
        Ok(self.to_be_bytes())
    }
}

impl MasstreeSource for PeerTextKey {
    type Bytes = &'static [u8];

    fn ordered_bytes(self) -> Result<&'static [u8], &'static str> {
        let bytes = self.bytes();
        (bytes.len() <= MAX_KEY_BYTES)
            .then_some(bytes)
            .ok_or("masstree's keys end at 256 bytes")
    }
}

impl<S: MasstreeSource> PeerMap<S> for Masstree {
    type Key = S::Bytes;
    type Session<'p> = MasstreeSession<'p, S::Bytes>;

    fn new() -> Self {
        Masstree(MassTree::new())
    }

    fn key(source: S) -> Result<S::Bytes, &'static str> {
        source.ordered_bytes()
    }

    fn sessions(&mut self, count: usize) -> Vec<MasstreeSession<'_, S::Bytes>> {
        // The map itself takes bytes. The session keeps the type of keys with which it was asked
        // for.
        let session = || MasstreeSession {
            map: &self.0,
            key: std::marker::PhantomData,
        };
        (0..count).map(|_| session()).collect()
    }
}

impl<'p, K: AsRef<[u8]> + Copy> PeerSession for MasstreeSession<'p, K> {
    type Key = K;
    type Guard = LocalGuard<'p>;

    fn pin(&self) -> LocalGuard<'p> {
        self.map.guard()
    }

    #[inline]
    fn get(&mut self, guard: &LocalGuard<'p>, key: K) -> Option<u64> {
        self.map.get_with_guard(key.as_ref(), guard)
    }

    #[inline]
    fn insert(&mut self, guard: &LocalGuard<'p>, key: K, value: u64) {
        debug_assert!(key.as_ref().len() <= MAX_KEY_BYTES);
        self.map.insert_with_guard(key.as_ref(), value, guard);
    }

    #[inline]
    fn update(&mut self, guard: &LocalGuard<'p>, key: K, value: u64) -> bool {
        // An insert replaces the value and returns the old one. It would also add an absent key.
        self.map
            .insert_with_guard(key.as_ref(), value, guard)
            .is_some()
    }

    #[inline]
    fn remove(&mut self, guard: &LocalGuard<'p>, key: K) -> bool {
        matches!(self.map.remove_with_guard(key.as_ref(), guard), Ok(Some(_)))
    }

    #[inline]
    fn scan(
        &mut self,
        guard: &LocalGuard<'p>,
        start: K,
        limit: usize,
        mut visit: impl FnMut(u64),
    ) -> usize {
        // The map passes an entry before it asks if it shall go on.
        if limit == 0 {
            return 0;
        }
        let mut count = 0;
        let take = |value: u64| {
            visit(value);
            count += 1;
            // The scan ends with the last wanted entry, before it looks for the next one.
            count < limit
        };
        let start = RangeBound::Included(start.as_ref());
        self.map
            .scan_values(start, RangeBound::Unbounded, take, guard);
        count
    }
}
