//! The rule that decides if a thread may change blocks under their latch alone.
//!
//! A thread that changes a block holds the lock of the node above it. It may also set the payload
//! of an existing key, or add an entry if there is room, under the block's own
//! [latch](crate::leaf::block::Latch), which is in a line that the lookup has read anyway. The
//! price is that a holder of the node's lock also needs the latch. If many operations are executed
//! under one lock, the price exceeds the gain, so a tree can be set to work without latches.
//!
//! ```text
//!   ALLOWED ◀──▶ CHANGING ◀──▶ FORBIDDEN
//!   all latch                  none latches
//! ```
//!
//! Between the two, all threads take latches and none relies on a latch alone. This lasts until all
//! threads have passed an epoch: threads that still follow the former state have then finished.

use crossbeam_epoch::Guard;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const ALLOWED: u64 = 0;
const CHANGING: u64 = 1;
const FORBIDDEN: u64 = 2;
const STATE: u64 = 3;
/// The increment of the number of changes, which is stored above the state bits.
const ONE_CHANGE: u64 = 4;

/// The current rule; see the [module](self).
#[derive(Debug, Default)]
pub struct LatchPolicy(AtomicU64);

/// The rule that holds for a thread while it is pinned.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// True if a latch alone is enough for a change that affects only the block.
    pub alone: bool,
    /// True if other threads may hold a latch alone.
    pub needed: bool,
}

impl LatchPolicy {
    /// Returns the rule for as long as a thread is pinned by `_guard`.
    pub fn rule(&self, _guard: &Guard) -> Rule {
        let state = self.0.load(Ordering::Acquire) & STATE;
        Rule {
            alone: state == ALLOWED,
            needed: state != FORBIDDEN,
        }
    }

    /// Allows or forbids changes under a latch alone. The change takes effect later.
    pub fn allow(self: &Arc<Self>, allowed: bool) {
        let wanted = if allowed { ALLOWED } else { FORBIDDEN };
        let word = self.0.load(Ordering::Relaxed);
        // A change in progress to the same state is not recognized, and only starts again.
        if word & STATE == wanted {
            return;
        }
        let changing = (word & !STATE).wrapping_add(ONE_CHANGE) | CHANGING;
        // A concurrent change is ordered before or after this one.
        if self
            .0
            .compare_exchange(word, changing, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            return self.allow(allowed);
        }
        let latching = Arc::clone(self);
        let guard = crossbeam_epoch::pin();
        // Runs when all guards under which the former state was read are gone. A later change has
        // another number, and cancels this one.
        guard.defer(move || {
            let changed = (changing & !STATE) | wanted;
            let _ =
                latching
                    .0
                    .compare_exchange(changing, changed, Ordering::AcqRel, Ordering::Relaxed);
        });
        guard.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settle(latching: &LatchPolicy, state: u64) {
        while latching.0.load(Ordering::Relaxed) & STATE != state {
            crossbeam_epoch::pin().flush();
        }
    }

    #[test]
    fn a_change_waits_for_those_that_are_pinned() {
        let latching = Arc::new(LatchPolicy::default());
        let guard = crossbeam_epoch::pin();
        assert!(latching.rule(&guard).alone);
        latching.allow(false);
        for _ in 0..1000 {
            crossbeam_epoch::pin().flush();
            let rule = latching.rule(&guard);
            assert!(rule.needed && !rule.alone);
        }
        drop(guard);
        settle(&latching, FORBIDDEN);
    }

    #[test]
    fn the_last_of_several_changes_counts() {
        let latching = Arc::new(LatchPolicy::default());
        for allowed in [false, true, false, true, true] {
            latching.allow(allowed);
        }
        settle(&latching, ALLOWED);
        latching.allow(true);
        latching.allow(true);
        latching.allow(false);
        settle(&latching, FORBIDDEN);
    }
}
