//! The header of a block: its version, which shows readers that the block has changed, and its
//! state, which includes the latch that excludes other writers.

use super::state::State;
use crate::lock::{VersionLock, pause};
use crate::primitive::{AtomicU32, Ordering};

/// The beginning of every block.
#[derive(Debug)]
#[repr(C)]
pub struct Header {
    /// The lock whose version readers validate.
    pub lock: VersionLock,
    state: AtomicU32,
}

/// Guard that keeps other threads from changing a block.
#[derive(Debug)]
pub struct Latch<'m> {
    header: &'m Header,
    taken: bool,
}

impl Header {
    /// Creates the header of a block that no other thread can reach.
    pub fn new(state: State) -> Header {
        Header {
            lock: VersionLock::new(),
            state: AtomicU32::new(state.0),
        }
    }

    /// Returns the state of the block. Entries that it counts have been written.
    #[inline]
    pub fn state(&self) -> State {
        State(self.state.load(Ordering::Acquire))
    }

    /// Takes the latch, if no other thread holds it.
    #[inline]
    pub fn try_latch(&self) -> Option<Latch<'_>> {
        let state = self.state.load(Ordering::Relaxed);
        let free = state & State::LATCHED == 0
            && self
                .state
                .compare_exchange(
                    state,
                    state | State::LATCHED,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                )
                .is_ok();
        // Created only if this thread holds it: dropping it would release the latch of another
        // thread.
        free.then(|| Latch {
            header: self,
            taken: true,
        })
    }

    /// Takes the latch, after waiting for others, if it is `needed`: see
    /// [`latching`](crate::latching).
    #[inline]
    pub fn latch(&self, needed: bool) -> Latch<'_> {
        let mut waits = 0;
        loop {
            if !needed {
                return Latch {
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
    /// [change](Header::change).
    #[inline]
    pub fn set(&self, count: usize, end: usize) {
        let now = State(self.state.load(Ordering::Relaxed));
        // Pairs with the load of a reader that follows the offsets of entries.
        self.state.store(now.with(count, end).0, Ordering::Release);
    }

    /// Marks the block as replaced. Only under the latch, and before it is unlinked.
    pub fn retire(&self) {
        self.lock.retire_alone();
    }
}

impl Drop for Latch<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.taken {
            let state = self.header.state.load(Ordering::Relaxed);
            self.header
                .state
                .store(state & !State::LATCHED, Ordering::Release);
        }
    }
}
