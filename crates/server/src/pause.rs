//! Holding commands back for a while (`CLIENT PAUSE`).

use crate::connection::Clients;
use crate::singly::{Reason, Singly};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicIsize, Ordering};

/// Which commands are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PauseMode {
    /// Those that may write.
    Write,
    /// All.
    All,
}

/// Commands that are held back, and the end of the pause by [`steady_ms`](crate::clock::steady_ms).
#[derive(Debug, Default)]
pub struct Pause {
    state: Mutex<Option<(PauseMode, u64)>>,
    /// Clients whose commands are held back.
    held: AtomicIsize,
}

impl Pause {
    /// Holds commands back. A pause that is longer or stricter already stays so. To be called in
    /// the exclusive phase.
    pub fn begin(&self, singly: &Singly, mode: PauseMode, until_ms: u64, steady_ms: u64) {
        let mut state = self.state.lock();
        let old = state.filter(|(_, until)| *until > steady_ms);
        *state = Some(match old {
            None => (mode, until_ms),
            Some((old_mode, old_until)) => (old_mode.max(mode), old_until.max(until_ms)),
        });
        singly.set(Reason::Pause, true);
    }

    /// Lets commands go on.
    pub fn end(&self, singly: &Singly, clients: &Clients) {
        *self.state.lock() = None;
        singly.set(Reason::Pause, false);
        clients.wake_all();
    }

    /// Notes that so many more clients are held back, or so many fewer.
    pub fn note_held(&self, clients: isize) {
        self.held.fetch_add(clients, Ordering::Relaxed);
    }

    /// How many clients are held back.
    pub fn held(&self) -> usize {
        usize::try_from(self.held.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// What is held back now, and until when. Ends a pause whose time is over.
    pub fn current(&self, singly: &Singly, steady_ms: u64) -> Option<(PauseMode, u64)> {
        let mut state = self.state.lock();
        let current = state.filter(|(_, until)| *until > steady_ms);
        if state.is_some() && current.is_none() {
            *state = None;
            singly.set(Reason::Pause, false);
        }
        current
    }
}
