//! A check in tests and debug builds: no command waits for a phase while its own thread is in one,
//! because it would wait for ever.

use std::cell::Cell;

thread_local! {
    /// Number of nested commands that this thread executes in a phase.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// A phase that the thread is in until this is dropped.
#[derive(Debug)]
pub struct HeldPhase(());

impl HeldPhase {
    /// Notes that the thread is in a phase. Returns `None` in builds without the check.
    #[inline]
    pub fn note(is_held: bool) -> Option<HeldPhase> {
        if !cfg!(debug_assertions) || !is_held {
            return None;
        }
        DEPTH.set(DEPTH.get() + 1);
        Some(HeldPhase(()))
    }

    /// Panics in debug builds if the thread is in a phase and therefore must not wait for one.
    #[inline]
    pub fn forbid() {
        debug_assert_eq!(
            DEPTH.get(),
            0,
            "a command that is in a phase of the keyspace waits for one"
        );
    }
}

impl Drop for HeldPhase {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{Home, Keyspace};

    #[test]
    #[should_panic(expected = "waits for one")]
    fn who_is_in_a_phase_waits_for_none() {
        let keyspace = Keyspace::new(Home::Local);
        let _held = HeldPhase::note(true);
        drop(keyspace.share());
    }

    #[test]
    fn who_has_left_a_phase_enters_another() {
        let keyspace = Keyspace::new(Home::Local);
        drop(HeldPhase::note(true));
        drop(keyspace.share());
        drop(keyspace.exclude());
    }
}
