//! The standard library's `BTreeMap`: one thread, the best-known baseline.

use std::collections::BTreeMap;

/// Defines a peer for one thread, whose map has the interface of the standard library's `BTreeMap`.
macro_rules! btreemap_peer {
    ($(#[$doc:meta])* $peer:ident, $map:ident) => {
        $(#[$doc])*
        pub struct $peer<S: $crate::PeerKey>($map<S::Native, u64>);

        impl<S: $crate::PeerKey> $crate::PeerMap<S> for $peer<S> {
            type Key = S::Native;
            type Session<'p> = &'p mut $map<S::Native, u64>;

            fn new() -> Self {
                $peer($map::new())
            }

            fn key(source: S) -> Result<S::Native, &'static str> {
                Ok(source.native())
            }

            fn sessions(&mut self, count: usize) -> Vec<&mut $map<S::Native, u64>> {
                $crate::peer::only_session(&mut self.0, count)
            }
        }

        impl<K: Copy + Ord> $crate::PeerSession for &mut $map<K, u64> {
            type Key = K;
            type Guard = ();

            fn pin(&self) {}

            #[inline]
            fn get(&mut self, (): &(), key: K) -> Option<u64> {
                $map::get(self, &key).copied()
            }

            #[inline]
            fn insert(&mut self, (): &(), key: K, value: u64) {
                $map::insert(self, key, value);
            }

            #[inline]
            fn update(&mut self, (): &(), key: K, value: u64) -> bool {
                self.get_mut(&key).map(|stored| *stored = value).is_some()
            }

            #[inline]
            fn remove(&mut self, (): &(), key: K) -> bool {
                $map::remove(self, &key).is_some()
            }

            #[inline]
            fn scan(&mut self, (): &(), start: K, limit: usize, visit: impl FnMut(u64)) -> usize {
                // The range is lazy, so the limit ends the walk.
                let values = self.range(start..).map(|(_, value)| *value);
                $crate::peer::visit_values(values, limit, visit)
            }
        }
    };
}

pub(crate) use btreemap_peer;

btreemap_peer!(
    /// The peer of this module.
    StdBTreeMap,
    BTreeMap
);
