//! Sends the requests of a trace to a memory.

use super::{Error, Memory, Report, Request};

/// The last clock at which a request may be due: a week and more. Sums of clocks
/// behind it are numbers, too.
const CLOCKS_MAX: u64 = 1 << 50;

/// When the requests of a trace are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At their times, at most this many at a clock.
    Open {
        /// The most at a clock.
        per_clock: u32,
    },
    /// Each when the one before it has been answered, and not before its time.
    Closed,
}

/// Sends requests in their order: one that finds no room holds up all that follow.
#[derive(Clone, Debug)]
pub struct Replay {
    memory: Memory,
    pace: Pace,
    /// The clock of the last request, and how many were accepted at it.
    clock: u64,
    accepted: u32,
}

impl Replay {
    /// A replay that has sent nothing.
    pub fn new(memory: Memory, pace: Pace) -> Replay {
        Replay {
            memory,
            pace,
            clock: 0,
            accepted: 0,
        }
    }

    /// Sends a request at the first clock, at or after its time, at which its channel has room.
    ///
    /// # Errors
    /// [`Error::Late`]. Nothing is sent.
    pub fn send(&mut self, request: &Request) -> Result<(), Error> {
        let due = request
            .picoseconds
            .div_ceil(self.memory.parameters().t_ck_ps);
        if due > CLOCKS_MAX {
            return Err(Error::Late {
                picoseconds: request.picoseconds,
                clocks_max: CLOCKS_MAX,
            });
        }
        let mut clock = due.max(self.clock);
        if let Pace::Open { per_clock } = self.pace
            && clock == self.clock
            && self.accepted >= per_clock
        {
            clock += 1;
        }
        let clock = self.memory.submit(request.address, request.access, clock);
        if clock != self.clock {
            (self.clock, self.accepted) = (clock, 0);
        }
        self.accepted += 1;
        if self.pace == Pace::Closed {
            self.clock = self.memory.settle();
        }
        Ok(())
    }

    /// Waits for all answers, and reports.
    pub fn finish(self) -> Report {
        self.memory.finish()
    }
}
