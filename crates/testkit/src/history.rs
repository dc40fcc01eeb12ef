//! Records the point operations of threads, with their times and outcomes.
//!
//! A [`Recorder`] owns a clock, and each thread owns a [`Session`] that writes to memory of its
//! own. The clock is a counter, not a watch: a call that begins after another has returned reads a
//! later tick and happens after it in the sense of the memory model, so an index can never be
//! blamed for the inaccuracy of the hardware's clocks.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A clock and the count of sessions that read it.
#[derive(Debug, Default)]
pub struct Recorder {
    ticks: AtomicU64,
    sessions: AtomicU32,
}

/// The calls of one thread, in order.
#[derive(Debug)]
pub struct Session {
    number: u32,
    events: Vec<Event>,
}

/// The ticks between which a call was at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Before the call.
    pub invoked: u64,
    /// After the return.
    pub returned: u64,
}

/// A point operation. Values are numbers of the caller's; no two writes of a history should
/// write the same, so that it shows which one was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Met the value and left it.
    Get,
    /// Set this value.
    Insert(u64),
    /// Set `value` if it met `previous`.
    Update {
        /// The expected value.
        previous: Option<u64>,
        /// The value to set.
        value: u64,
        /// Whether the index says that it did.
        applied: bool,
    },
    /// Left no value.
    Remove,
    /// Left no value if it met `previous`.
    RemoveIf {
        /// What it was to meet.
        previous: u64,
        /// Whether the index says that it did.
        applied: bool,
    },
}

/// A point operation that has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The session that called it. The operations of a session are ordered; those of one batch
    /// share its interval.
    pub session: u32,
    /// The number of its key.
    pub key: u64,
    /// When it was at work.
    pub interval: Interval,
    /// Its action.
    pub action: Action,
    /// The value before it.
    pub met: Option<u64>,
}

impl Recorder {
    /// Starts a clock.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a session.
    pub fn session(&self) -> Session {
        Session {
            number: self.sessions.fetch_add(1, Ordering::Relaxed),
            events: Vec::new(),
        }
    }

    /// Makes a call and answers when it was at work and its result.
    pub fn call<T>(&self, body: impl FnOnce() -> T) -> (Interval, T) {
        let invoked = self.ticks.fetch_add(1, Ordering::AcqRel);
        let result = body();
        let returned = self.ticks.fetch_add(1, Ordering::AcqRel);
        (Interval { invoked, returned }, result)
    }
}

impl Session {
    /// Adds an operation of a call that was at work during `interval`; `key` is a number of the
    /// caller's and `met` the value before the operation.
    pub fn record(&mut self, interval: Interval, key: u64, action: Action, met: Option<u64>) {
        self.events.push(Event {
            session: self.number,
            key,
            interval,
            action,
            met,
        });
    }

    /// Ends the session and answers its events.
    pub fn into_events(self) -> Vec<Event> {
        self.events
    }
}

impl Event {
    /// The value after the operation if it was `state` before; `None` if the operation cannot
    /// have taken effect then.
    pub fn after(&self, state: Option<u64>) -> Option<Option<u64>> {
        if self.met != state {
            return None;
        }
        match self.action {
            Action::Get => Some(state),
            Action::Insert(value) => Some(Some(value)),
            Action::Remove => Some(None),
            Action::Update {
                previous,
                value,
                applied,
            } => match (applied, state == previous) {
                (true, true) => Some(Some(value)),
                (false, false) => Some(state),
                _ => None,
            },
            Action::RemoveIf { previous, applied } => match (applied, state == Some(previous)) {
                (true, true) => Some(None),
                (false, false) => Some(state),
                _ => None,
            },
        }
    }

    /// The value that the operation has set.
    pub fn written(&self) -> Option<u64> {
        match self.action {
            Action::Insert(value)
            | Action::Update {
                value,
                applied: true,
                ..
            } => Some(value),
            _ => None,
        }
    }
}
