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
    Closed {
        /// The think time: number of clocks from a completion to the next request. With 0, a
        /// request leaves in the clock in which the data before it has arrived. The front end of
        /// DRAMsim3 sends it one clock later.
        think: u32,
    },
}

/// The replay, which sends requests in order: one that finds no room delays all that follow.
#[derive(Clone, Debug)]
pub struct Replay {
    memory: DramMemory,
    pace: DramReplayPace,
    /// True if addresses past the end of the memory begin again at its first byte.
    wrap: bool,
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
            wrap: false,
            clock: 0,
            accepted: 0,
        }
    }

    /// Takes addresses modulo the size of the memory. Without it, an address past the end is an
    /// error: two objects that are far apart would share a line, and their requests would merge.
    pub fn with_wrapped_addresses(self) -> Replay {
        Replay { wrap: true, ..self }
    }

    /// Sends a request at the first clock, at or after its time, at which its channel has room.
    ///
    /// # Errors
    /// [`DramError::Late`] and [`DramError::PastEnd`]; nothing is sent then.
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
        let address = self.address_in_memory(request.address)?;
        // Requests keep their order, so a late one delays those after it.
        let mut clock = due.max(self.clock);
        if let DramReplayPace::Open { per_clock } = self.pace
            && clock == self.clock
            && self.accepted >= per_clock
        {
            // The controller accepts only a given number of requests at a clock.
            clock += 1;
        }
        let clock = self.memory.submit(address, request.access, clock);
        debug_assert!(clock >= self.clock);
        if clock != self.clock {
            (self.clock, self.accepted) = (clock, 0);
        }
        self.accepted += 1;
        if let DramReplayPace::Closed { think } = self.pace {
            self.clock = self.memory.settle() + u64::from(think);
        }
        Ok(())
    }

    fn address_in_memory(&self, address: u64) -> Result<u64, DramError> {
        let bytes = self.memory.parameters().bytes();
        match (address < bytes, self.wrap) {
            (true, _) => Ok(address),
            (false, true) => Ok(address % bytes),
            (false, false) => Err(DramError::PastEnd { address, bytes }),
        }
    }

    /// Waits until all requests have completed, and reports.
    pub fn finish(self) -> DramReport {
        self.memory.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DramAccess, DramPreset};
    use super::*;

    fn replay(pace: DramReplayPace) -> Replay {
        let mut parameters = DramPreset::Hbm2.parameters();
        parameters.t_refi = 0;
        Replay::new(DramMemory::new(parameters).unwrap(), pace)
    }

    fn request(address: u64, access: DramAccess) -> DramRequest {
        DramRequest {
            address,
            access,
            picoseconds: 0,
        }
    }

    #[test]
    fn the_next_request_leaves_after_the_think_time() {
        // An unloaded read of HBM2 takes 1 + 14 + 14 + 2 clocks of 1 ns, a hit 1 + 14 + 2.
        for (think, expected) in [(0, 31 + 17), (1, 31 + 1 + 17), (100, 31 + 100 + 17)] {
            let mut replay = replay(DramReplayPace::Closed { think });
            for address in [0, 64] {
                replay.send(&request(address, DramAccess::Read)).unwrap();
            }
            let report = replay.finish();
            assert_eq!(report.time_us * 1000.0, f64::from(expected), "{think}");
            // The think time belongs to the client.
            assert_eq!(report.latency_ns.mean, 24.0);
        }
    }

    #[test]
    fn a_think_time_does_not_delay_a_later_request() {
        let mut replay = replay(DramReplayPace::Closed { think: 10 });
        replay.send(&request(0, DramAccess::Read)).unwrap();
        let later = DramRequest {
            picoseconds: 500_000,
            ..request(64, DramAccess::Read)
        };
        replay.send(&later).unwrap();
        assert_eq!(replay.finish().time_us * 1000.0, 517.0);
    }

    #[test]
    fn an_address_past_the_end_is_refused_or_wrapped() {
        let open = DramReplayPace::Open { per_clock: 1 };
        let end = DramPreset::Hbm2.parameters().bytes();
        for address in [end, u64::MAX] {
            let mut replay = replay(open);
            let error = replay
                .send(&request(address, DramAccess::Read))
                .unwrap_err();
            let expected = format!("address {address:#x} is past the end of the memory");
            assert!(error.to_string().starts_with(&expected), "{error}");
            assert_eq!(replay.finish().requests.reads, 0);
        }
        let mut last = replay(open);
        last.send(&request(end - 1, DramAccess::Read)).unwrap();
        assert_eq!(last.finish().requests.reads, 1);
        // The first line and its alias are one line, so the two reads are one command.
        let mut wrapped = replay(open).with_wrapped_addresses();
        for address in [0, end, 3 * end] {
            wrapped.send(&request(address, DramAccess::Read)).unwrap();
        }
        let report = wrapped.finish();
        assert_eq!((report.commands.read, report.requests.reads_merged), (1, 2));
    }

    #[test]
    fn a_merged_write_uses_no_bus_and_no_energy() {
        let mut replay = replay(DramReplayPace::Open { per_clock: 1 });
        for access in [DramAccess::Write, DramAccess::Read, DramAccess::Write] {
            replay.send(&request(0x40, access)).unwrap();
        }
        let report = replay.finish();
        let requests = report.requests;
        assert_eq!((requests.reads_merged, requests.writes_merged), (1, 1));
        assert_eq!(requests.writes_waiting, 1);
        assert_eq!((report.commands.read, report.commands.write), (0, 0));
        assert_eq!(
            (report.bandwidth_gbps, report.energy_uj.dynamic()),
            (0.0, 0.0)
        );
    }
}
