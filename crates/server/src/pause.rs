//! The pause that holds commands back (`CLIENT PAUSE`).

use crate::connection::ClientRegistry;
use crate::singly::{SequentialReason, Singly};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicIsize, Ordering};

/// The commands that are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PauseMode {
    /// Commands that may write.
    Write,
    /// All commands.
    All,
}

/// The pause: the commands that are held back, and its end by
/// [`steady_ms`](crate::clock::steady_ms).
#[derive(Debug, Default)]
pub struct Pause {
    state: Mutex<Option<(PauseMode, u64)>>,
    /// Number of clients with held-back commands.
    held: AtomicIsize,
}

impl Pause {
    /// Begins a pause. A longer or stricter pause that is in progress stays so. Call it in the
    /// exclusive phase.
    pub fn begin(&self, singly: &Singly, mode: PauseMode, until_ms: u64, steady_ms: u64) {
        let mut state = self.state.lock();
        let old = state.filter(|(_, until)| *until > steady_ms);
        *state = Some(match old {
            None => (mode, until_ms),
            Some((old_mode, old_until)) => (old_mode.max(mode), old_until.max(until_ms)),
        });
        singly.set(SequentialReason::Pause, true);
    }

    /// Ends the pause.
    pub fn end(&self, singly: &Singly, clients: &ClientRegistry) {
        *self.state.lock() = None;
        singly.set(SequentialReason::Pause, false);
        clients.wake_all();
    }

    /// Adds to the number of clients that are held back; `clients` may be negative.
    pub fn note_held(&self, clients: isize) {
        let before = self.held.fetch_add(clients, Ordering::Relaxed);
        debug_assert!(
            before + clients >= 0,
            "a thread takes back what it has added"
        );
    }

    /// Returns the number of clients with held-back commands.
    pub fn held(&self) -> usize {
        usize::try_from(self.held.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Returns the current pause and its end. Ends a pause after its time.
    pub fn current(&self, singly: &Singly, steady_ms: u64) -> Option<(PauseMode, u64)> {
        let mut state = self.state.lock();
        let current = state.filter(|(_, until)| *until > steady_ms);
        if state.is_some() && current.is_none() {
            *state = None;
            singly.set(SequentialReason::Pause, false);
        }
        current
    }
}
