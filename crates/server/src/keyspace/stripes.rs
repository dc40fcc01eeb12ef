//! Locks for keys: each key has one, shared with others of the same hash.

use parking_lot::{Mutex, MutexGuard};

/// How many locks there are. Two threads meet in one by accident once in so many times.
const STRIPES: usize = 1024;

/// A lock for each key. Whoever changes a key, or works on the object of one, holds its stripe,
/// so that the log has the changes of each key in the order in which they were made.
#[derive(Debug)]
pub struct Stripes {
    locks: Box<[Mutex<()>]>,
    hasher: foldhash::fast::FixedState,
}

/// A stripe that is held.
pub type StripeGuard<'s> = MutexGuard<'s, ()>;

impl Default for Stripes {
    fn default() -> Self {
        Stripes {
            locks: (0..STRIPES).map(|_| Mutex::new(())).collect(),
            hasher: foldhash::fast::FixedState::default(),
        }
    }
}

impl Stripes {
    /// The stripe of a key.
    #[inline]
    pub fn of(&self, key: &[u8]) -> u16 {
        use std::hash::BuildHasher;
        (self.hasher.hash_one(key) % STRIPES as u64) as u16
    }

    /// Takes a stripe, if nobody holds it.
    #[inline]
    pub fn try_lock(&self, stripe: u16) -> Option<StripeGuard<'_>> {
        self.locks.get(usize::from(stripe))?.try_lock()
    }

    /// Waits for a stripe. Who holds one may not wait for another, except by
    /// [`lock_all`](Stripes::lock_all).
    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "`of` answers only stripes that are there"
    )]
    pub fn lock(&self, stripe: u16) -> StripeGuard<'_> {
        self.locks[usize::from(stripe)].lock()
    }

    /// Waits for several stripes, in ascending order, so that nobody waits in a circle. Sorts
    /// `stripes` and removes duplicates.
    pub fn lock_all<'s>(&'s self, stripes: &mut Vec<u16>, guards: &mut Vec<StripeGuard<'s>>) {
        stripes.sort_unstable();
        stripes.dedup();
        guards.extend(stripes.iter().map(|&stripe| self.lock(stripe)));
    }
}
