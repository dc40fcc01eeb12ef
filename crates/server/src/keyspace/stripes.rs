//! Locks for keys: each key has one, shared with others of the same hash.

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

/// The number of locks. Two threads with different keys contend for one lock by accident once in
/// this many times.
const STRIPES: usize = 1024;

// A set has a bit for each stripe in its words, and a stripe's number is an `u16`.
const _: () = assert!(STRIPES / 64 * 64 == STRIPES && STRIPES <= 1 << 16);

/// The locks for keys. A thread that changes a key, or works on the object of one, holds the key's
/// stripe, so that the log has the changes of each key in the order in which they were made.
#[derive(Debug)]
pub struct KeyStripes {
    locks: Box<[Mutex<()>]>,
    hasher: foldhash::fast::FixedState,
}

/// A stripe that is held.
pub type StripeGuard<'s> = MutexGuard<'s, ()>;

impl Default for KeyStripes {
    fn default() -> Self {
        KeyStripes {
            locks: (0..STRIPES).map(|_| Mutex::new(())).collect(),
            hasher: foldhash::fast::FixedState::default(),
        }
    }
}

impl KeyStripes {
    /// Returns the stripe of a key.
    #[inline]
    pub fn of(&self, key: &[u8]) -> u16 {
        (self.hash(key) % STRIPES as u64) as u16
    }

    /// Returns the hash of a key, which determines its stripe.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        use std::hash::BuildHasher;
        self.hasher.hash_one(key)
    }

    /// Takes a stripe, if no thread holds it.
    #[inline]
    pub fn try_lock(&self, stripe: u16) -> Option<StripeGuard<'_>> {
        debug_assert!(usize::from(stripe) < STRIPES);
        self.locks.get(usize::from(stripe))?.try_lock()
    }

    /// Waits for a stripe. A thread that holds one must not wait for another, except by
    /// [`lock_all`](KeyStripes::lock_all).
    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "`of` returns only existing stripes"
    )]
    pub fn lock(&self, stripe: u16) -> StripeGuard<'_> {
        self.locks[usize::from(stripe)].lock()
    }

    /// Waits for several stripes.
    pub fn lock_all<'s>(&'s self, set: &StripeSet) -> StripeGuards<'s> {
        // Otherwise threads might wait for each other in a circle.
        debug_assert!(set.iter().is_sorted_by(|one, next| one < next));
        set.iter().map(|stripe| self.lock(stripe)).collect()
    }
}

/// Several stripes that are held.
pub type StripeGuards<'s> = SmallVec<[StripeGuard<'s>; 32]>;

/// A set of stripes.
#[derive(Clone, Copy, Debug, Default)]
pub struct StripeSet([u64; STRIPES / 64]);

impl StripeSet {
    /// Adds the stripe of the key with this hash.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        let stripe = (hash % STRIPES as u64) as usize;
        if let Some(bits) = self.0.get_mut(stripe / 64) {
            *bits |= 1 << (stripe % 64);
        }
    }

    /// Returns the stripes, in ascending order.
    fn iter(&self) -> impl Iterator<Item = u16> {
        (0..).zip(self.0).flat_map(|(number, mut bits)| {
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros() as u16)?;
                bits &= bits - 1;
                Some(number * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_each_stripe_once_and_in_order() {
        let mut set = StripeSet::default();
        for hash in [1023, 0, 64, 63, 64 + 1024, 5, 1023] {
            set.add(hash);
        }
        let stripes: Vec<u16> = set.iter().collect();
        assert_eq!(stripes, [0, 5, 63, 64, 1023]);
    }
}
