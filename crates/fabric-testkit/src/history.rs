//! The operations of clients, and their outcomes.

use nearfield_testkit::history::CallInterval;
use nearfield_testkit::linearizability::LinearizableOperation;
use std::cell::{Cell, RefCell};
use std::fmt;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteIndexOperation {
    Get,
    Insert(u64),
    /// An `Insert` without the result: the value before may be any.
    Put(u64),
    Update(u64),
    /// An `Update` that reports only if there was a value, not which one.
    Overwrite(u64),
    Remove,
}

/// An operation on a key. One without an outcome may have taken effect or not; it may do so at any
/// time, even after all others.
#[derive(Clone, Copy, Debug)]
pub struct RemoteIndexCall {
    pub session: u32,
    pub key: u64,
    pub asked: RemoteIndexOperation,
    pub interval: CallInterval,
    /// The value before it; the outer `None`: no outcome.
    pub met: Option<Option<u64>>,
}

impl LinearizableOperation for RemoteIndexCall {
    type State = Option<u64>;

    fn session(&self) -> u32 {
        self.session
    }

    fn interval(&self) -> CallInterval {
        self.interval
    }

    fn after(&self, state: &Option<u64>) -> Option<Option<u64>> {
        let is_met = |met: Option<u64>| match self.asked {
            // The outcome of an overwrite has another value, which stands for presence.
            RemoteIndexOperation::Overwrite(_) => met.is_some() == state.is_some(),
            // A put returns nothing that a state could contradict.
            RemoteIndexOperation::Put(_) => true,
            _ => met == *state,
        };
        // Without an outcome the call may have found any value.
        if self.met.is_some_and(|met| !is_met(met)) {
            return None;
        }
        Some(match self.asked {
            RemoteIndexOperation::Get => *state,
            RemoteIndexOperation::Insert(value) | RemoteIndexOperation::Put(value) => Some(value),
            RemoteIndexOperation::Update(value) | RemoteIndexOperation::Overwrite(value) => {
                state.map(|_| value)
            }
            RemoteIndexOperation::Remove => None,
        })
    }

    fn is_read(&self) -> bool {
        self.asked == RemoteIndexOperation::Get
    }
}

impl fmt::Display for RemoteIndexCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CallInterval { invoked, returned } = self.interval;
        write!(formatter, "client {}, ", self.session)?;
        match self.met {
            Some(_) => write!(formatter, "from {invoked} to {returned}: ")?,
            None => write!(formatter, "from {invoked} on, without outcome: ")?,
        }
        match self.asked {
            RemoteIndexOperation::Get => write!(formatter, "get {}", self.key)?,
            RemoteIndexOperation::Insert(value) => {
                write!(formatter, "insert {} = {value}", self.key)?
            }
            RemoteIndexOperation::Put(value) => write!(formatter, "put {} = {value}", self.key)?,
            RemoteIndexOperation::Update(value) => {
                write!(formatter, "update {} = {value}", self.key)?
            }
            RemoteIndexOperation::Overwrite(value) => {
                write!(formatter, "overwrite {} = {value}", self.key)?
            }
            RemoteIndexOperation::Remove => write!(formatter, "remove {}", self.key)?,
        }
        match self.met {
            Some(_) if matches!(self.asked, RemoteIndexOperation::Put(_)) => Ok(()),
            Some(Some(_)) if matches!(self.asked, RemoteIndexOperation::Overwrite(_)) => {
                write!(formatter, " found a value")
            }
            Some(Some(value)) => write!(formatter, " found {value}"),
            Some(None) => write!(formatter, " found no value"),
            None => Ok(()),
        }
    }
}

/// The calls in the order in which they began, and a clock that counts beginnings and ends.
#[derive(Debug, Default)]
pub struct RemoteIndexHistory {
    ticks: Cell<u64>,
    calls: RefCell<Vec<RemoteIndexCall>>,
}

impl RemoteIndexHistory {
    fn tick(&self) -> u64 {
        self.ticks.replace(self.ticks.get() + 1)
    }

    /// Records that a call begins. Returns its number.
    pub fn begin(&self, session: u32, key: u64, asked: RemoteIndexOperation) -> usize {
        let interval = CallInterval {
            invoked: self.tick(),
            // A call without an outcome may take effect at any later time.
            returned: u64::MAX,
        };
        let mut calls = self.calls.borrow_mut();
        calls.push(RemoteIndexCall {
            session,
            key,
            asked,
            interval,
            met: None,
        });
        calls.len() - 1
    }

    /// Records the outcome of a call.
    pub fn end(&self, call: usize, met: Option<u64>) {
        let returned = self.tick();
        if let Some(call) = self.calls.borrow_mut().get_mut(call) {
            debug_assert!(call.met.is_none(), "a call ends once");
            debug_assert!(call.interval.invoked < returned);
            call.interval.returned = returned;
            call.met = Some(met);
        }
    }

    /// Returns all calls except reads without an outcome, which prove nothing.
    pub fn calls(&self) -> Vec<RemoteIndexCall> {
        let calls = self.calls.borrow();
        let says =
            |call: &&RemoteIndexCall| call.met.is_some() || call.asked != RemoteIndexOperation::Get;
        calls.iter().filter(says).copied().collect()
    }
}
