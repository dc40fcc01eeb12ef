//! The return of memory to the system that the program's allocator holds and that is free.
//!
//! The program chooses the allocator, so it sets the function that returns memory. Allocators keep
//! memory by thread, so each thread that serves connections calls it. Indexes free removed entries,
//! or a whole index, when no thread can be reading there. The last of this memory waits at the
//! threads that have changed the index, until each of them has advanced the epoch a few times.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The function that returns the memory which the allocator holds for the calling thread.
static GIVE_BACK: OnceLock<fn()> = OnceLock::new();

/// Number of requests to all threads.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// Sets the function by which a thread returns the memory that the allocator holds for it. The
/// first call wins.
pub fn set_release(give_back: fn()) {
    GIVE_BACK.get_or_init(|| give_back);
}

/// Returns true if that function is set. Then all of the process's memory is the server's.
pub fn is_known() -> bool {
    GIVE_BACK.get().is_some()
}

/// Asks all threads that serve connections to return free memory. Each does so soon.
pub fn ask() {
    ASKED.fetch_add(1, Ordering::Release);
}

/// Returns the memory that the allocator holds for this thread.
pub fn give_back() {
    if let Some(give_back) = GIVE_BACK.get() {
        give_back();
    }
}

/// Number of times that a thread tries to free memory of indexes after a request. *Assumed*: an
/// index is free after three steps of the epochs, of which one may fail because a thread is pinned.
const LOOKS: u32 = 6;

/// The progress of a thread with [requests](ask).
#[derive(Debug, Default)]
pub struct FollowedRequests {
    asked: u64,
    looks_left: u32,
}

impl FollowedRequests {
    /// Returns the memory that the allocator holds for this thread, if that was requested recently.
    /// Call it several times a second, while the thread reads no index.
    pub fn follow(&mut self) {
        let asked = ASKED.load(Ordering::Acquire);
        if asked != self.asked {
            self.asked = asked;
            self.looks_left = LOOKS;
            give_back();
        }
        if self.looks_left > 0 {
            self.looks_left -= 1;
            // Entries that this thread removed from an index wait with this thread, and are freed
            // after the epoch has advanced a few times.
            crossbeam_epoch::pin().flush();
            // The memory of indexes that was freed meanwhile was not part of the first return.
            if self.looks_left == 0 {
                give_back();
            }
        }
    }
}
