//! The replay of a trace's requests on a memory.

use super::{DramError, DramMemory, DramReport, DramRequest};

/// The maximum clock at which a request may be due: more than a week. Sums of clocks after it do
/// not overflow.
const CLOCKS_MAX: u64 = 1 << 50;

/// The times at which the requests of a trace are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DramReplayPace {
    /// Each request at its time, with at most this many per clock.
    Open {
        /// The maximum number of requests per clock.
        per_clock: u32,
    },
    /// Each request after the one before it has completed, but not before its time.
    Closed,
}

/// The replay, which sends requests in order: one that finds no room delays all that follow.
#[derive(Clone, Debug)]
pub struct Replay {
    memory: DramMemory,
    pace: DramReplayPace,
    /// The clock of the last request, and the number of requests accepted at it.
    clock: u64,
    accepted: u32,
}

impl Replay {
    /// Creates a replay that has sent nothing.
    pub fn new(memory: DramMemory, pace: DramReplayPace) -> Replay {
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
    /// [`DramError::Late`]; nothing is sent then.
    pub fn send(&mut self, request: &DramRequest) -> Result<(), DramError> {
        let due = request
            .picoseconds
            .div_ceil(self.memory.parameters().t_ck_ps);
        if due > CLOCKS_MAX {
            return Err(DramError::Late {
                picoseconds: request.picoseconds,
                clocks_max: CLOCKS_MAX,
            });
        }
        // Requests keep their order, so a late one delays those after it.
        let mut clock = due.max(self.clock);
        if let DramReplayPace::Open { per_clock } = self.pace
            && clock == self.clock
            && self.accepted >= per_clock
        {
            // The controller accepts only a given number of requests at a clock.
            clock += 1;
        }
        let clock = self.memory.submit(request.address, request.access, clock);
        debug_assert!(clock >= self.clock);
        if clock != self.clock {
            (self.clock, self.accepted) = (clock, 0);
        }
        self.accepted += 1;
        if self.pace == DramReplayPace::Closed {
            self.clock = self.memory.settle();
        }
        Ok(())
    }

    /// Waits until all requests have completed, and reports.
    pub fn finish(self) -> DramReport {
        self.memory.finish()
    }
}
