//! ferntree: a concurrent B+tree with optimistic lock coupling.

use crate::{PeerKey, PeerMap, PeerSession, PeerTextKey};
use crossbeam_epoch::Guard;
use ferntree::{OptimisticRead, Tree};
use std::ops::Bound;

/// The peer of this module.
pub struct Ferntree<K: OptimisticRead>(Tree<K, u64>);

/// One thread's access.
pub struct FerntreeSession<'p, K: OptimisticRead>(&'p Tree<K, u64>);

/// A key that ferntree can read while it is being written.
pub trait FerntreeSource: PeerKey {
    /// The key in the form that ferntree takes.
    type Optimistic: OptimisticRead + Copy + Ord + Send + Sync;
    /// Converts the key.
    fn optimistic(self) -> Result<Self::Optimistic, &'static str>;
}

impl FerntreeSource for u64 {
    type Optimistic = u64;

    fn optimistic(self) -> Result<u64, &'static str> {
        Ok(self)
    }
}

impl FerntreeSource for PeerTextKey {
    type Optimistic = &'static str;

    fn optimistic(self) -> Result<&'static str, &'static str> {
        std::str::from_utf8(self.bytes()).map_err(|_| "ferntree's static strings are UTF-8")
    }
}

impl<S: FerntreeSource> PeerMap<S> for Ferntree<S::Optimistic> {
    type Key = S::Optimistic;
    type Session<'p> = FerntreeSession<'p, S::Optimistic>;

    fn new() -> Self {
        Ferntree(Tree::new())
    }

    fn key(source: S) -> Result<S::Optimistic, &'static str> {
        source.optimistic()
    }

    fn sessions(&mut self, count: usize) -> Vec<FerntreeSession<'_, S::Optimistic>> {
        (0..count).map(|_| FerntreeSession(&self.0)).collect()
    }
}

impl<K: OptimisticRead + Copy + Ord + Send + Sync> PeerSession for FerntreeSession<'_, K> {
    type Key = K;
    /// ferntree pins crossbeam's epoch in each call; while this guard is held that only increments
    /// a counter.
    type Guard = Guard;

    fn pin(&self) -> Guard {
        crossbeam_epoch::pin()
    }

    #[inline]
    fn get(&mut self, _: &Guard, key: K) -> Option<u64> {
        // The optimistic lookup takes no lock. It may read a key while it is written, so keys must
        // bear that.
        self.0.lookup_optimistic(&key, |value| *value)
    }

    #[inline]
    fn insert(&mut self, _: &Guard, key: K, value: u64) {
        self.0.insert(key, value);
    }

    #[inline]
    fn update(&mut self, _: &Guard, key: K, value: u64) -> bool {
        // An insert replaces the value and returns the old one. It would also add an absent key.
        self.0.insert(key, value).is_some()
    }

    #[inline]
    fn remove(&mut self, _: &Guard, key: K) -> bool {
        self.0.remove(&key).is_some()
    }

    #[inline]
    fn scan(&mut self, _: &Guard, start: K, limit: usize, mut visit: impl FnMut(u64)) -> usize {
        let mut range = self.0.range(Bound::Included(&start), Bound::Unbounded);
        let mut count = 0;
        // The limit is checked first, so that no entry beyond it is fetched.
        while count < limit
            && let Some((_, value)) = range.next()
        {
            visit(*value);
            count += 1;
        }
        count
    }
}
