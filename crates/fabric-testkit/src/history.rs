//! The operations of clients, and their outcomes.

use nearfield_testkit::history::Interval;
use nearfield_testkit::linearizability::Operation;
use std::cell::{Cell, RefCell};
use std::fmt;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
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
pub struct Call {
    pub session: u32,
    pub key: u64,
    pub asked: Asked,
    pub interval: Interval,
    /// The value before it; the outer `None`: no outcome.
    pub met: Option<Option<u64>>,
}

impl Operation for Call {
    type State = Option<u64>;

    fn session(&self) -> u32 {
        self.session
    }

    fn interval(&self) -> Interval {
        self.interval
    }

    fn after(&self, state: &Option<u64>) -> Option<Option<u64>> {
        let is_met = |met: Option<u64>| match self.asked {
            Asked::Overwrite(_) => met.is_some() == state.is_some(),
            Asked::Put(_) => true,
            _ => met == *state,
        };
        if self.met.is_some_and(|met| !is_met(met)) {
            return None;
        }
        Some(match self.asked {
            Asked::Get => *state,
            Asked::Insert(value) | Asked::Put(value) => Some(value),
            Asked::Update(value) | Asked::Overwrite(value) => state.map(|_| value),
            Asked::Remove => None,
        })
    }

    fn is_read(&self) -> bool {
        self.asked == Asked::Get
    }
}

impl fmt::Display for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Interval { invoked, returned } = self.interval;
        write!(formatter, "client {}, ", self.session)?;
        match self.met {
            Some(_) => write!(formatter, "from {invoked} to {returned}: ")?,
            None => write!(formatter, "from {invoked} on, never answered: ")?,
        }
        match self.asked {
            Asked::Get => write!(formatter, "get {}", self.key)?,
            Asked::Insert(value) => write!(formatter, "insert {} = {value}", self.key)?,
            Asked::Put(value) => write!(formatter, "put {} = {value}", self.key)?,
            Asked::Update(value) => write!(formatter, "update {} = {value}", self.key)?,
            Asked::Overwrite(value) => write!(formatter, "overwrite {} = {value}", self.key)?,
            Asked::Remove => write!(formatter, "remove {}", self.key)?,
        }
        match self.met {
            Some(_) if matches!(self.asked, Asked::Put(_)) => Ok(()),
            Some(Some(_)) if matches!(self.asked, Asked::Overwrite(_)) => {
                write!(formatter, " met something")
            }
            Some(Some(value)) => write!(formatter, " met {value}"),
            Some(None) => write!(formatter, " met nothing"),
            None => Ok(()),
        }
    }
}

/// The calls in the order in which they began, and a clock that counts beginnings and ends.
#[derive(Debug, Default)]
pub struct History {
    ticks: Cell<u64>,
    calls: RefCell<Vec<Call>>,
}

impl History {
    fn tick(&self) -> u64 {
        self.ticks.replace(self.ticks.get() + 1)
    }

    /// Records that a call begins. Returns its number.
    pub fn begin(&self, session: u32, key: u64, asked: Asked) -> usize {
        let interval = Interval {
            invoked: self.tick(),
            returned: u64::MAX,
        };
        let mut calls = self.calls.borrow_mut();
        calls.push(Call {
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
            call.interval.returned = returned;
            call.met = Some(met);
        }
    }

    /// Returns all calls except reads without an outcome, which prove nothing.
    pub fn calls(&self) -> Vec<Call> {
        let calls = self.calls.borrow();
        let says = |call: &&Call| call.met.is_some() || call.asked != Asked::Get;
        calls.iter().filter(says).copied().collect()
    }
}
