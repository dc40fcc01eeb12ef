//! blart's `TreeMap`: an adaptive radix tree for one thread.

use crate::peer::{only_session, visit_values};
use crate::{PeerKey, PeerMap, PeerSession, PeerTextKey};
use blart::{AsBytes, TreeMap};

/// The peer of this module. Keys are big-endian bytes, or strings with their NUL byte, because no
/// key may be a prefix of another.
pub struct Blart<K>(TreeMap<K, u64>);

/// A key in the form that blart takes.
pub trait BlartKey: Copy + AsBytes + Send + Sync + 'static {}
impl BlartKey for [u8; 8] {}
impl BlartKey for &'static [u8] {}

/// The blart key that stands for a key of the lab.
pub trait BlartSource: PeerKey {
    /// The key in the form that blart takes.
    type Bytes: BlartKey;
    /// Converts the key.
    fn prefix_free(self) -> Self::Bytes;
}

impl BlartSource for u64 {
    type Bytes = [u8; 8];

    fn prefix_free(self) -> [u8; 8] {
        // Big-endian bytes have the order of the numbers.
        self.to_be_bytes()
    }
}

impl BlartSource for PeerTextKey {
    type Bytes = &'static [u8];

    fn prefix_free(self) -> &'static [u8] {
        // The NUL byte ends each key where a longer one with the same beginning goes on.
        self.terminated()
    }
}

impl<S: BlartSource> PeerMap<S> for Blart<S::Bytes> {
    type Key = S::Bytes;
    type Session<'p> = &'p mut TreeMap<S::Bytes, u64>;

    fn new() -> Self {
        Blart(TreeMap::new())
    }

    fn key(source: S) -> Result<S::Bytes, &'static str> {
        Ok(source.prefix_free())
    }

    fn sessions(&mut self, count: usize) -> Vec<&mut TreeMap<S::Bytes, u64>> {
        only_session(&mut self.0, count)
    }
}

impl<K: BlartKey> PeerSession for &mut TreeMap<K, u64> {
    type Key = K;
    type Guard = ();

    fn pin(&self) {}

    #[inline]
    fn get(&mut self, (): &(), key: K) -> Option<u64> {
        TreeMap::get(self, &key).copied()
    }

    #[inline]
    fn insert(&mut self, (): &(), key: K, value: u64) {
        // blart refuses a key that is a prefix of another, or begins with one.
        if self.try_insert(key, value).is_err() {
            unreachable!("keys with a terminator are no prefixes of each other");
        }
    }

    #[inline]
    fn update(&mut self, (): &(), key: K, value: u64) -> bool {
        self.get_mut(&key).map(|stored| *stored = value).is_some()
    }

    #[inline]
    fn remove(&mut self, (): &(), key: K) -> bool {
        TreeMap::remove(self, &key).is_some()
    }

    #[inline]
    fn scan(&mut self, (): &(), start: K, limit: usize, visit: impl FnMut(u64)) -> usize {
        // The range is lazy, so the limit ends the walk.
        visit_values(self.range(start..).map(|(_, value)| *value), limit, visit)
    }
}
