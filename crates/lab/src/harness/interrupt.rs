//! Stopping early: Ctrl-C ends the contestants' processes, and the measurements are kept.

use rustix::process::{Pid, Signal, kill_process};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A wish to stop, raised by a signal handler and seen by the conductor.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<State>);

#[derive(Debug, Default)]
struct State {
    raised: AtomicBool,
    processes: Mutex<Vec<Pid>>,
}

impl Interrupt {
    /// Asks to stop: ends all processes at once, so that a conductor that waits for one of them
    /// goes on.
    pub fn raise(&self) {
        self.0.raised.store(true, Ordering::SeqCst);
        for &process in &*self.processes() {
            // It may have ended by itself; either way it is over.
            let _ = kill_process(process, Signal::KILL);
        }
    }

    /// Whether the user has asked to stop.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.0.raised.load(Ordering::SeqCst)
    }

    /// Registers a process, or ends it at once if it comes too late.
    pub(crate) fn enter(&self, process: Pid) {
        self.processes().push(process);
        if self.is_raised() {
            self.raise();
        }
    }

    /// Forgets a process. To be called before it is waited for, while its number is still its
    /// own.
    pub(crate) fn leave(&self, process: Pid) {
        self.processes().retain(|&other| other != process);
    }

    fn processes(&self) -> std::sync::MutexGuard<'_, Vec<Pid>> {
        self.0
            .processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// Everything was measured.
    Finished,
    /// The user interrupted. The rows that were reported until then are complete.
    Interrupted,
}
