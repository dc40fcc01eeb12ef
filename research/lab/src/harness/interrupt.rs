//! Interrupts: Ctrl-C ends the contestants' processes, and the measurements are kept.

use rustix::process::{Pid, Signal, kill_process};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A flag that requests a stop. A signal handler raises it, and the conductor checks it.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<InterruptState>);

#[derive(Debug, Default)]
struct InterruptState {
    raised: AtomicBool,
    processes: Mutex<Vec<Pid>>,
}

impl Interrupt {
    /// Requests a stop and kills all registered processes, so that a conductor that waits for one
    /// of them continues.
    pub fn raise(&self) {
        // Before the kills, so that a process that enters meanwhile is not missed.
        self.0.raised.store(true, Ordering::SeqCst);
        for &process in &*self.processes() {
            // The kill fails if the process has ended by itself.
            let _ = kill_process(process, Signal::KILL);
        }
    }

    /// Returns true if the user has requested a stop.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.0.raised.load(Ordering::SeqCst)
    }

    /// Registers a process, or kills it at once if a stop has been requested already.
    pub(crate) fn enter(&self, process: Pid) {
        // Before the check, so that an interrupt in between finds the process.
        self.processes().push(process);
        if self.is_raised() {
            self.raise();
        }
    }

    /// Unregisters a process. Call it before waiting for the process, while its number cannot be
    /// reused.
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

/// The way in which a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// A complete run: everything was measured.
    Finished,
    /// An interrupted run. The rows that were reported until then are complete.
    Interrupted,
}
