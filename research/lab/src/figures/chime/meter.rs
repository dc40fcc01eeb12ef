//! A meter that counts the operations of a phase when they end.

use crate::figures::job::PointError;
use crate::harness::{Durations, LatencySummary};
use nearfield_pool::PoolError;
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// A meter of operations and their time between the moments when a fifth and nine tenths of them
/// have ended.
pub(super) struct PhaseMeter {
    operations: u64,
    ended: Cell<u64>,
    begin: Cell<Duration>,
    end: Cell<Duration>,
    last: Cell<Duration>,
    wrong: Cell<u64>,
    first_wrong: RefCell<String>,
    error: RefCell<Option<PoolError>>,
    durations: RefCell<Durations>,
}

impl PhaseMeter {
    pub(super) fn new(operations: usize) -> PhaseMeter {
        PhaseMeter {
            operations: operations as u64,
            ended: Cell::default(),
            begin: Cell::default(),
            end: Cell::default(),
            last: Cell::default(),
            wrong: Cell::default(),
            first_wrong: RefCell::default(),
            error: RefCell::default(),
            durations: RefCell::new(Durations::new()),
        }
    }

    /// Returns the number of the operation at which counting begins, and of that at which it ends.
    fn window(&self) -> (u64, u64) {
        // Initially all clients begin at once, and in the end not all have work.
        (self.operations / 5, (self.operations * 9 / 10).max(1))
    }

    pub(super) fn start(&self, now: Duration) {
        self.begin.set(now);
        self.end.set(now);
        self.last.set(now);
    }

    /// Records an operation that has ended, and whether its outcome was right. Returns false if no
    /// more operations must be done.
    pub(super) fn note(
        &self,
        begin: Duration,
        now: Duration,
        done: Result<bool, PoolError>,
        describe: impl FnOnce() -> String,
    ) -> bool {
        match done {
            Err(error) => {
                // The first error is the cause; others may follow from it.
                self.error.borrow_mut().get_or_insert(error);
                return false;
            }
            Ok(false) => {
                if self.wrong.replace(self.wrong.get() + 1) == 0 {
                    *self.first_wrong.borrow_mut() = describe();
                }
            }
            Ok(true) => {}
        }
        debug_assert!(begin <= now, "an operation ends after its begin");
        let number = self.ended.get() + 1;
        debug_assert!(number <= self.operations);
        let (first, last) = self.window();
        self.ended.set(number);
        self.last.set(now);
        if number == first {
            self.begin.set(now);
        }
        if number == last {
            self.end.set(now);
        }
        if number > first && number <= last {
            self.durations.borrow_mut().record(now - begin);
        }
        // A failure of one task ends the others, too.
        self.error.borrow().is_none()
    }

    /// Returns true if there is no operation left to wait for.
    pub(super) fn is_over(&self) -> bool {
        self.error.borrow().is_some() || self.ended.get() == self.operations
    }

    /// Returns the time at which the last operation ended.
    pub(super) fn last(&self) -> Duration {
        self.last.get()
    }

    /// Returns millions of operations a second, and latencies; `waiting` tasks have not ended.
    pub(super) fn result(&self, waiting: usize) -> Result<(f64, LatencySummary), PointError> {
        if let Some(error) = self.error.take() {
            return Err(error.into());
        }
        if self.ended.get() < self.operations {
            return Err(PointError::Hangs { clients: waiting });
        }
        if self.wrong.get() > 0 {
            return Err(PointError::Wrong {
                wrong: self.wrong.get(),
                operations: self.operations,
                first: self.first_wrong.take(),
            });
        }
        let (first, last) = self.window();
        debug_assert!(first < last && self.begin.get() <= self.end.get());
        let seconds = (self.end.get() - self.begin.get()).as_secs_f64();
        let latency = self.durations.borrow().percentiles();
        // With less than a few operations the window is empty.
        let latency = latency.ok_or(PointError::Hangs { clients: 0 })?;
        Ok(((last - first) as f64 / seconds.max(1e-12) / 1e6, latency))
    }
}
