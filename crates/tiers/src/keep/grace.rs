//! Waiting until no reader can use what was replaced.

use crossbeam_epoch::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The time until every thread that reads an index now has ended that read. Memory that was removed
/// from the index before it began is freed at its end. Initially none is under way.
#[derive(Debug, Default)]
pub(super) struct GracePeriod {
    /// Set to true when the period under way has ended.
    is_over: Option<Arc<AtomicBool>>,
}

impl GracePeriod {
    /// Begins a period, in place of one that is under way.
    pub(super) fn begin(&mut self) {
        let is_over = Arc::new(AtomicBool::new(false));
        self.is_over = Some(Arc::clone(&is_over));
        let guard = pin();
        guard.defer(move || is_over.store(true, Ordering::Release));
        guard.flush();
    }

    /// Returns true if a period is under way. Helps it to end.
    pub(super) fn is_under_way(&self) -> bool {
        pin().flush();
        let is_over = self.is_over.as_ref();
        is_over.is_some_and(|it| !it.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_period_lasts_as_long_as_a_reader_of_before_reads() {
        let mut grace = GracePeriod::default();
        assert!(!grace.is_under_way());
        let reader = pin();
        grace.begin();
        for _ in 0..100 {
            assert!(grace.is_under_way());
        }
        drop(reader);
        while grace.is_under_way() {
            std::thread::yield_now();
        }
    }
}
