//! Keys with values that stay in memory.

use hashbrown::HashSet;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Largest number of pinned keys.
const PINS_MAX: usize = 1 << 20;

/// Keys with values that stay in memory, however rarely they are used. They are forgotten when the
/// server ends.
#[derive(Debug, Default)]
pub struct Pins {
    keys: Mutex<HashSet<(usize, Vec<u8>)>>,
    count: AtomicUsize,
}

impl Pins {
    /// Pins a key of a database. Returns false if there are too many.
    pub fn pin(&self, database: usize, key: &[u8]) -> bool {
        let mut keys = self.keys.lock();
        debug_assert_eq!(self.count(), keys.len());
        if keys.len() >= PINS_MAX {
            return false;
        }
        keys.insert((database, key.to_vec()));
        self.count.store(keys.len(), Ordering::Relaxed);
        true
    }

    /// Unpins a key. Returns true if it was pinned.
    pub fn unpin(&self, database: usize, key: &[u8]) -> bool {
        let mut keys = self.keys.lock();
        debug_assert_eq!(self.count(), keys.len());
        let was_pinned = keys.remove(&(database, key.to_vec()));
        self.count.store(keys.len(), Ordering::Relaxed);
        was_pinned
    }

    /// Returns true if a key is pinned.
    pub fn has(&self, database: usize, key: &[u8]) -> bool {
        // Most servers have no pins, and then need no lock.
        self.count() > 0 && self.keys.lock().contains(&(database, key.to_vec()))
    }

    /// Returns the number of pinned keys.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}
