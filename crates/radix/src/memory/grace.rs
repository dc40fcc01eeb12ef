//! Grace periods by number, which tell whether a thread may still read memory that was replaced
//! some time ago.
//!
//! A thread that replaces memory takes the number of the next grace period as a *ticket*. That
//! period may begin before the memory is replaced, but it ends after the thread was pinned, so the
//! one behind it begins later. When that has ended as well, all threads are gone that were pinned
//! when the memory was replaced.
//!
//! One period runs at a time, and one is begun only when there is memory to free.

use crossbeam_epoch::Guard;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::Memory;

/// The grace periods of a tree.
#[derive(Debug, Default)]
pub struct Grace {
    /// How many have begun.
    begun: AtomicU32,
    /// How many have ended.
    ended: AtomicU32,
    running: AtomicBool,
}

impl Grace {
    /// A ticket for memory that is about to be replaced by a thread that is pinned.
    #[inline]
    pub fn ticket(&self, _guard: &Guard) -> u32 {
        // The fence of the pin comes before, that of the epoch at which a period begins behind the
        // count: a thread that reads an old count keeps the period that it misses from ending.
        self.begun.load(Ordering::Relaxed)
    }

    /// True if no thread reads memory any more that was replaced with a ticket.
    #[inline]
    pub fn has_passed(&self, ticket: u32) -> bool {
        let ended = self.ended.load(Ordering::Acquire);
        // As a difference, because the counts wrap.
        ended.wrapping_sub(ticket) as i32 >= 2
    }
}

impl Memory {
    /// Begins a grace period, unless one is running.
    pub fn begin_grace(self: &Arc<Self>, guard: &Guard) {
        if self.grace.running.swap(true, Ordering::AcqRel) {
            return;
        }
        self.grace.begun.fetch_add(1, Ordering::SeqCst);
        let memory = Arc::clone(self);
        guard.defer(move || {
            memory.grace.ended.fetch_add(1, Ordering::Release);
            memory.grace.running.store(false, Ordering::Release);
        });
    }
}
