//! The wait of clients for room that a disk makes.
//!
//! While a disk does not respond to a write, the thread of a client that needs room must not wait
//! for it, because the thread also serves clients that need none. So commands that take memory are
//! held back ([`SequentialReason::Room`]), as by `CLIENT PAUSE`, and the keeper's own thread waits
//! for the disk. The commands continue when there is room, or are refused once the disk has made
//! none for [`PATIENCE`]. Commands that were read before that are executed, so the memory may
//! exceed its tier by what a round of each thread takes.

use crate::singly::{SequentialReason, Singly};
use nearfield_tiers::disk::PATIENCE;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Time between two looks for the end of the wait.
const LOOK: Duration = Duration::from_millis(5);

/// The wait, if there is one. See the [module](self).
#[derive(Debug, Default)]
pub struct RoomWait(Mutex<Option<RoomWaitProgress>>);

#[derive(Clone, Copy, Debug)]
struct RoomWaitProgress {
    /// Number of bytes that had left the memory at the last look.
    carried_bytes: u64,
    /// Time since when none has.
    since: Instant,
    looked_at: Instant,
}

/// The state of the memory, as the wait sees it.
#[derive(Clone, Copy, Debug)]
pub struct RoomWaitLook {
    /// True if room may be made soon, and is needed.
    pub awaits_room: bool,
    /// Number of bytes that have left the memory since the start.
    pub carried_bytes: u64,
}

impl RoomWait {
    /// Begins the wait, unless it has begun.
    pub fn begin(&self, singly: &Singly, carried_bytes: u64, now: Instant) {
        let mut wait = self.0.lock();
        if wait.is_none() {
            *wait = Some(RoomWaitProgress {
                carried_bytes,
                since: now,
                looked_at: now,
            });
        }
        singly.set(SequentialReason::Room, true);
    }

    /// Ends the wait if there is room, or no value has left the memory for [`PATIENCE`]. Returns
    /// true in the second case: the disk hangs. Looks rarely, by `look`.
    pub fn end(&self, singly: &Singly, now: Instant, look: impl FnOnce() -> RoomWaitLook) -> bool {
        // Another thread looks already.
        let Some(mut wait) = self.0.try_lock() else {
            return false;
        };
        let Some(progress) = wait.as_mut() else {
            return false;
        };
        if now.saturating_duration_since(progress.looked_at) < LOOK {
            return false;
        }
        progress.looked_at = now;
        let RoomWaitLook {
            awaits_room,
            carried_bytes,
        } = look();
        if carried_bytes != progress.carried_bytes {
            (progress.carried_bytes, progress.since) = (carried_bytes, now);
        }
        let hangs = awaits_room && now.saturating_duration_since(progress.since) >= PATIENCE;
        if hangs || !awaits_room {
            *wait = None;
            singly.set(SequentialReason::Room, false);
        }
        hangs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_wait_ends_with_room_or_when_nothing_was_carried_for_long() {
        let (wait, singly, start) = (RoomWait::default(), Singly::default(), Instant::now());
        let look = |awaits_room: bool, carried_bytes: u64| RoomWaitLook {
            awaits_room,
            carried_bytes,
        };
        let at = |seconds: u32| start + seconds * SECOND;
        // No wait has begun.
        assert!(!wait.end(&singly, at(0), || look(true, 0)));
        wait.begin(&singly, 7, at(1));
        assert!(singly.has(SequentialReason::Room));
        // A second wait does not prolong the first.
        wait.begin(&singly, 7, at(3));
        assert!(!wait.end(&singly, at(5), || look(true, 7)));
        // A value has left.
        assert!(!wait.end(&singly, at(8), || look(true, 9)));
        assert!(!wait.end(&singly, at(12), || look(true, 9)));
        assert!(singly.has(SequentialReason::Room));
        assert!(wait.end(&singly, at(13), || look(true, 9)));
        assert!(!singly.has(SequentialReason::Room));
        wait.begin(&singly, 9, at(14));
        // Two looks in a row are one.
        assert!(!wait.end(&singly, at(14), || look(false, 9)));
        assert!(singly.has(SequentialReason::Room));
        assert!(!wait.end(&singly, at(15), || look(false, 9)));
        assert!(!singly.has(SequentialReason::Room));
    }
}
