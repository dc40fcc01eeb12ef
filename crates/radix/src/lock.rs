//! The version lock of a node: optimistic lock coupling.
//!
//! ```text
//!   31                              2          1         0
//!   ┌───────────────────────────────┬──────────┬─────────┐
//!   │ version                       │ obsolete │ locked  │
//!   └───────────────────────────────┴──────────┴─────────┘
//! ```
//!
//! *Readers* take a [version](VersionLock::read), read with relaxed loads, and
//! [validate](VersionLock::validate) that the version has not changed. They never write.
//!
//! *Writers* lock, change the node and unlock with the next version. A writer that changes nothing
//! that readers combine (a payload, say, which is one atomic word) unlocks with the old version.
//!
//! *Obsolete* nodes are unlinked and never change again. A reader that encounters one reads the
//! node's last state, which was the tree's state at an instant after the reader began; it need not
//! restart. A writer must.
//!
//! A version wraps after 2^30 changes. To read a false state, a reader would have to sleep during
//! exactly that many changes of one node.

use crate::primitive::{AtomicU32, Ordering, fence, spin_loop, yield_now};

const LOCKED: u32 = 1;
const OBSOLETE: u32 = 2;
const ONE_VERSION: u32 = 4;

/// Number of spins before a waiting thread yields its core; the holder may have been preempted.
const SPINS_MAX: u32 = 64;

/// The version lock; see the [module](self).
#[repr(transparent)]
#[derive(Debug)]
pub struct VersionLock(AtomicU32);

/// The version that a reader validates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(u32);

impl Version {
    /// The version that no node ever has: a locked node is not obsolete.
    pub const NEVER: Version = Version(u32::MAX);

    /// Returns true if the node was already unlinked when this version was taken.
    #[inline]
    pub fn is_obsolete(self) -> bool {
        self.0 & OBSOLETE != 0
    }

    /// Returns true if a writer held the lock when this version was taken.
    #[inline]
    pub fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }
}

/// Error that the node was unlinked: a writer must restart its walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Obsolete;

/// The outcome of [`VersionLock::try_lock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryLock {
    /// The caller holds the lock.
    Locked,
    /// Another thread holds it.
    Busy,
    /// The node was unlinked.
    Obsolete,
}

impl Default for VersionLock {
    fn default() -> Self {
        Self::new()
    }
}

impl VersionLock {
    /// Creates an unlocked lock of a node that is in use.
    pub fn new() -> Self {
        VersionLock(AtomicU32::new(0))
    }

    /// Prepares the lock of a node that is about to be reused: unlocked, not obsolete, with a
    /// version that has not been used before.
    ///
    /// Only for nodes that no thread can reach through the tree.
    pub fn revive(&self) {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert!(word & LOCKED == 0, "a thread can reach the node");
        // A reader that has read the node in its former use must not validate in the new one.
        let next = (word & !(LOCKED | OBSOLETE)).wrapping_add(ONE_VERSION);
        self.0.store(next, Ordering::Release);
    }

    /// Returns the version, after waiting for a writer that holds the lock.
    #[inline]
    pub fn read(&self) -> Version {
        let word = self.0.load(Ordering::Acquire);
        if word & LOCKED == 0 {
            return Version(word);
        }
        self.read_when_unlocked()
    }

    #[cold]
    fn read_when_unlocked(&self) -> Version {
        let mut spins = 0;
        loop {
            let word = self.0.load(Ordering::Acquire);
            if word & LOCKED == 0 {
                return Version(word);
            }
            pause(&mut spins);
        }
    }

    /// Returns the version, without waiting for a writer that holds the lock.
    #[inline]
    pub fn now(&self) -> Version {
        Version(self.0.load(Ordering::Acquire))
    }

    /// Returns true if nothing has changed since `version` was taken, so that all reads in between
    /// are consistent.
    #[inline]
    pub fn validate(&self, version: Version) -> bool {
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == version.0
    }

    /// Locks, after waiting for other writers; returns the number of waits.
    ///
    /// # Errors
    /// `Obsolete` if the node was unlinked; the lock is not held then.
    #[inline]
    pub fn lock(&self) -> Result<u32, Obsolete> {
        let mut waits = 0;
        loop {
            match self.try_lock() {
                TryLock::Locked => return Ok(waits),
                TryLock::Obsolete => return Err(Obsolete),
                TryLock::Busy => pause(&mut waits),
            }
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> TryLock {
        let word = self.0.load(Ordering::Relaxed);
        if word & LOCKED != 0 {
            return TryLock::Busy;
        }
        // The lock is checked first: a locked node may become obsolete, and only its holder knows.
        if word & OBSOLETE != 0 {
            return TryLock::Obsolete;
        }
        if self
            .0
            .compare_exchange_weak(word, word | LOCKED, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            return TryLock::Busy;
        }
        // Readers that see one of the writes that follow must also see the lock, or the version
        // after it, when they validate.
        fence(Ordering::Release);
        TryLock::Locked
    }

    /// Takes the lock if nothing has changed since `version` was taken; never waits. Everything
    /// read in between then stays true while the lock is held.
    #[inline]
    pub fn upgrade(&self, version: Version) -> bool {
        // A version that was taken without waiting may be that of a locked node.
        if version.0 & (LOCKED | OBSOLETE) != 0 {
            return false;
        }
        let locked = self.0.compare_exchange(
            version.0,
            version.0 | LOCKED,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        // As in `try_lock`.
        fence(Ordering::Release);
        locked.is_ok()
    }

    /// Locks a node that no other writer can change, because the caller holds another lock that
    /// excludes them. Only readers notice it.
    #[inline]
    pub fn lock_alone(&self) {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert!(
            word & (LOCKED | OBSOLETE) == 0,
            "another writer holds the lock, or the node is unlinked"
        );
        self.0.store(word | LOCKED, Ordering::Relaxed);
        // As in `try_lock`.
        fence(Ordering::Release);
    }

    /// Marks a node as unlinked. No other writer can change the node, see
    /// [`lock_alone`](Self::lock_alone).
    #[inline]
    pub fn retire_alone(&self) {
        self.lock_alone();
        self.unlock_obsolete();
    }

    /// Unlocks with the old version: nothing changed that readers combine.
    #[inline]
    pub fn unlock_unchanged(&self) {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert!(word & LOCKED != 0, "unlocked twice");
        self.0.store(word & !LOCKED, Ordering::Release);
    }

    /// Unlocks with the next version.
    #[inline]
    pub fn unlock_changed(&self) {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert!(word & LOCKED != 0, "unlocked twice");
        self.0.store(
            (word & !LOCKED).wrapping_add(ONE_VERSION),
            Ordering::Release,
        );
    }

    /// Unlocks a node that has been unlinked and will never change again.
    #[inline]
    pub fn unlock_obsolete(&self) {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert!(word & LOCKED != 0, "unlocked twice");
        self.0.store(
            (word & !LOCKED).wrapping_add(ONE_VERSION) | OBSOLETE,
            Ordering::Release,
        );
    }

    /// Returns true if the node was unlinked.
    #[inline]
    pub fn is_obsolete(&self) -> bool {
        self.0.load(Ordering::Acquire) & OBSOLETE != 0
    }

    /// Returns true while a writer holds the lock or after the node was unlinked.
    pub fn is_locked_or_obsolete(&self) -> bool {
        self.0.load(Ordering::Relaxed) & (LOCKED | OBSOLETE) != 0
    }
}

/// A lock that is held. Dropping it, for example in a panic, counts as a change.
#[derive(Debug)]
pub struct VersionLockGuard<'l>(&'l VersionLock);

impl<'l> VersionLockGuard<'l> {
    /// Locks after waiting for others; also returns the number of waits.
    ///
    /// # Errors
    /// `Obsolete` if the node was unlinked.
    #[inline]
    pub fn lock(lock: &'l VersionLock) -> Result<(VersionLockGuard<'l>, u32), Obsolete> {
        lock.lock().map(|waits| (VersionLockGuard(lock), waits))
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(lock: &'l VersionLock) -> Option<VersionLockGuard<'l>> {
        (lock.try_lock() == TryLock::Locked).then(|| VersionLockGuard(lock))
    }

    /// Unlocks with the old version; see [`VersionLock::unlock_unchanged`].
    #[inline]
    pub fn unlock_unchanged(self) {
        self.0.unlock_unchanged();
        std::mem::forget(self);
    }

    /// Unlocks a node that has been unlinked; see [`VersionLock::unlock_obsolete`].
    #[inline]
    pub fn unlock_obsolete(self) {
        self.0.unlock_obsolete();
        std::mem::forget(self);
    }
}

impl Drop for VersionLockGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // A panic may have left a part of a change, which readers must not combine with the rest.
        self.0.unlock_changed();
    }
}

/// Waits a moment for the holder of a lock; `waits` counts the calls.
#[cold]
pub fn pause(waits: &mut u32) {
    *waits += 1;
    // loom explores no other thread until this one yields.
    if cfg!(loom) || (*waits).is_multiple_of(SPINS_MAX) {
        yield_now();
    } else {
        spin_loop();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_failed_attempt_leaves_the_lock_to_its_holder() {
        let lock = VersionLock::new();
        let held = VersionLockGuard::try_lock(&lock);
        assert!(held.is_some());
        assert!(VersionLockGuard::try_lock(&lock).is_none());
        assert!(VersionLockGuard::try_lock(&lock).is_none());
        drop(held);
        assert!(VersionLockGuard::try_lock(&lock).is_some());
    }
}
