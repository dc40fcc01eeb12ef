//! Memory that the program's allocator holds and that is free: has it given back to the system.
//!
//! The program chooses the allocator, so it says by which function that is done. Allocators keep
//! memory by thread, so each thread that serves connections calls it. Indexes free what was taken
//! out of them, or a whole index, when no thread can be reading there. The last of it waits at the
//! threads that have changed the index, until each of them has looked a few times.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Gives back what the allocator holds for the thread that calls it.
static GIVE_BACK: OnceLock<fn()> = OnceLock::new();

/// Number of requests to all threads.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// Says by which function a thread gives back what the allocator holds for it. The first one
/// stays.
pub fn use_to_give_back(give_back: fn()) {
    GIVE_BACK.get_or_init(|| give_back);
}

/// True if it is known how memory is given back. Then all of the process's memory is the server's.
pub fn is_known() -> bool {
    GIVE_BACK.get().is_some()
}

/// Asks all threads that serve connections to give back what is free. Each does soon.
pub fn ask() {
    ASKED.fetch_add(1, Ordering::Release);
}

/// Gives back what the allocator holds for this thread.
pub fn give_back() {
    if let Some(give_back) = GIVE_BACK.get() {
        give_back();
    }
}

/// Number of looks of a thread for memory that indexes free late. *Assumed*: an index is
/// free after three steps of the epochs, of which one may fail as a thread is at work.
const LOOKS: u32 = 6;

/// Progress of a thread with [requests](ask).
#[derive(Debug, Default)]
pub struct FollowedRequests {
    asked: u64,
    looks_left: u32,
}

impl FollowedRequests {
    /// Gives back what the allocator holds for this thread, if that was asked for of late. To be
    /// called several times a second, while the thread reads no index.
    pub fn follow(&mut self) {
        let asked = ASKED.load(Ordering::Acquire);
        if asked != self.asked {
            self.asked = asked;
            self.looks_left = LOOKS;
            give_back();
        }
        if self.looks_left > 0 {
            self.looks_left -= 1;
            crossbeam_epoch::pin().flush();
            if self.looks_left == 0 {
                give_back();
            }
        }
    }
}
