//! Recording of the point operations of threads, with their times and outcomes.
//!
//! A [`HistoryRecorder`] owns a clock, and each thread owns a [`HistorySession`] that writes to
//! memory of its own. The clock is a counter, not a timer, so that inaccurate hardware clocks
//! cannot cause a false report.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A clock and the count of sessions that read it.
#[derive(Debug, Default)]
pub struct HistoryRecorder {
    ticks: AtomicU64,
    sessions: AtomicU32,
}

/// The calls of one thread, in order.
#[derive(Debug)]
pub struct HistorySession {
    number: u32,
    events: Vec<HistoryEvent>,
}

/// The ticks between which a call ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallInterval {
    /// Tick before the call.
    pub invoked: u64,
    /// Tick after the return.
    pub returned: u64,
}

/// A point operation. Values are numbers that the caller chooses. All writes of a history should
/// write different ones, so that each value found has one writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointOperation {
    /// A read of the value.
    Get,
    /// A write of this value.
    Insert(u64),
    /// A write of `value` if the value was `previous`.
    Update {
        /// The expected value.
        previous: Option<u64>,
        /// The value to set.
        value: u64,
        /// True if the index reports that the value was set.
        applied: bool,
    },
    /// A removal of the value.
    Remove,
    /// A removal if the value was `previous`.
    RemoveIf {
        /// The expected value.
        previous: u64,
        /// True if the index reports that the value was removed.
        applied: bool,
    },
}

/// A point operation that has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryEvent {
    /// The session that called the operation. Operations of a session are ordered; those of one
    /// batch share its interval.
    pub session: u32,
    /// The number of the key.
    pub key: u64,
    /// The interval of the call.
    pub interval: CallInterval,
    /// The action.
    pub action: PointOperation,
    /// The value before the operation.
    pub met: Option<u64>,
}

impl HistoryRecorder {
    /// Creates a recorder and starts its clock.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a session.
    pub fn session(&self) -> HistorySession {
        HistorySession {
            number: self.sessions.fetch_add(1, Ordering::Relaxed),
            events: Vec::new(),
        }
    }

    /// Makes a call and returns its interval and its result.
    pub fn call<T>(&self, body: impl FnOnce() -> T) -> (CallInterval, T) {
        // A call that begins after another has returned reads a later tick. By acquire and release
        // it also happens after that call in the sense of the memory model.
        let invoked = self.ticks.fetch_add(1, Ordering::AcqRel);
        let result = body();
        let returned = self.ticks.fetch_add(1, Ordering::AcqRel);
        debug_assert!(invoked < returned);
        (CallInterval { invoked, returned }, result)
    }
}

impl HistorySession {
    /// Adds an operation of a call that ran during `interval`. `key` is a number that the caller
    /// chooses, and `met` the value before the operation.
    pub fn record(
        &mut self,
        interval: CallInterval,
        key: u64,
        action: PointOperation,
        met: Option<u64>,
    ) {
        self.events.push(HistoryEvent {
            session: self.number,
            key,
            interval,
            action,
            met,
        });
    }

    /// Ends the session and returns its events.
    pub fn into_events(self) -> Vec<HistoryEvent> {
        self.events
    }
}

impl HistoryEvent {
    /// Returns the value after the operation if it was `state` before; `None` if the operation
    /// cannot have taken effect on that state.
    pub fn after(&self, state: Option<u64>) -> Option<Option<u64>> {
        if self.met != state {
            return None;
        }
        match self.action {
            PointOperation::Get => Some(state),
            PointOperation::Insert(value) => Some(Some(value)),
            PointOperation::Remove => Some(None),
            PointOperation::Update {
                previous,
                value,
                applied,
            } => match (applied, state == previous) {
                (true, true) => Some(Some(value)),
                (false, false) => Some(state),
                // The index compared with another value than it returned.
                _ => None,
            },
            PointOperation::RemoveIf { previous, applied } => {
                match (applied, state == Some(previous)) {
                    (true, true) => Some(None),
                    (false, false) => Some(state),
                    _ => None,
                }
            }
        }
    }

    /// Returns the value that the operation set.
    pub fn written(&self) -> Option<u64> {
        match self.action {
            PointOperation::Insert(value)
            | PointOperation::Update {
                value,
                applied: true,
                ..
            } => Some(value),
            _ => None,
        }
    }
}
