//! The header of a block: its version, which shows readers that the block has changed, and its
//! state, which includes the latch that excludes other writers.

use super::state::StringBlockState;
use crate::lock::{VersionLock, pause};
use crate::primitive::{AtomicU32, Ordering};

/// The beginning of every block.
#[derive(Debug)]
#[repr(C)]
pub struct StringBlockHeader {
    /// The lock whose version readers validate.
    pub lock: VersionLock,
    state: AtomicU32,
}

/// Guard that keeps other threads from changing a block.
#[derive(Debug)]
pub struct StringBlockLatch<'m> {
    header: &'m StringBlockHeader,
    taken: bool,
}

impl StringBlockHeader {
    /// Creates the header of a block that no other thread can reach.
    pub fn new(state: StringBlockState) -> StringBlockHeader {
        StringBlockHeader {
            lock: VersionLock::new(),
            state: AtomicU32::new(state.0),
        }
    }

    /// Returns the state of the block. Entries that it counts have been written.
    #[inline]
    pub fn state(&self) -> StringBlockState {
        StringBlockState(self.state.load(Ordering::Acquire))
    }

    /// Takes the latch, if no other thread holds it.
    #[inline]
    pub fn try_latch(&self) -> Option<StringBlockLatch<'_>> {
        let state = self.state.load(Ordering::Relaxed);
        let free = state & StringBlockState::LATCHED == 0
            && self
                .state
                .compare_exchange(
                    state,
                    state | StringBlockState::LATCHED,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                )
                .is_ok();
        // Created only if this thread holds it: dropping it would release the latch of another
        // thread.
        free.then(|| StringBlockLatch {
            header: self,
            taken: true,
        })
    }

    /// Takes the latch, after waiting for others, if it is `needed`: see
    /// [`latching`](crate::latching).
    #[inline]
    pub fn latch(&self, needed: bool) -> StringBlockLatch<'_> {
        let mut waits = 0;
        loop {
            if !needed {
                return StringBlockLatch {
                    header: self,
                    taken: false,
                };
            }
            match self.try_latch() {
                Some(latch) => return latch,
                None => pause(&mut waits),
            }
        }
    }

    /// Makes a change between two versions. Only under the latch.
    #[inline]
    pub fn change(&self, change: impl FnOnce()) {
        self.lock.lock_alone();
        change();
        self.lock.unlock_changed();
    }

    /// Sets the number of entries and the offset of their end. Only within a
    /// [change](StringBlockHeader::change).
    #[inline]
    pub fn set(&self, count: usize, end: usize) {
        debug_assert!(self.lock.is_locked_or_obsolete(), "outside a change");
        let now = StringBlockState(self.state.load(Ordering::Relaxed));
        // Pairs with the load of a reader that follows the offsets of entries.
        self.state.store(now.with(count, end).0, Ordering::Release);
    }

    /// Marks the block as replaced. Only under the latch, and before it is unlinked.
    pub fn retire(&self) {
        self.lock.retire_alone();
    }
}

impl Drop for StringBlockLatch<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.taken {
            let state = self.header.state.load(Ordering::Relaxed);
            debug_assert!(state & StringBlockState::LATCHED != 0, "released twice");
            self.header
                .state
                .store(state & !StringBlockState::LATCHED, Ordering::Release);
        }
    }
}
