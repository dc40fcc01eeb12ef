//! Random traffic.

use super::super::{DramMemory, DramPagePolicy, DramReplayPace, DramReport, DramRequest, Replay};
use super::checker::{check, raised};
use super::*;

/// A reproducible sequence of numbers: xorshift.
pub(super) struct XorshiftNumbers(pub(super) u64);

impl XorshiftNumbers {
    pub(super) fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }
}

/// Returns requests in bursts, of few rows or of many, with pauses of all lengths.
fn requests(
    parameters: &DramParameters,
    count: usize,
    seed: u64,
) -> Vec<(u64, DramAccess, DramLocation)> {
    let mut numbers = XorshiftNumbers(seed | 1);
    let mut requests = Vec::new();
    let mut clock = 0;
    let (mut rows, mut writes) = (1, 0);
    for index in 0..count {
        if index % 100 == 0 {
            rows = [1, 2, 8, 10_000][numbers.next(4) as usize];
            writes = [0, 20, 50, 90][numbers.next(4) as usize];
            clock += [0, 1, 500, 30_000][numbers.next(4) as usize];
        }
        clock += numbers.next(4) * numbers.next(6);
        let access = match numbers.next(100) < writes {
            true => DramAccess::Write,
            false => DramAccess::Read,
        };
        let bank = numbers.next(parameters.banks().into()) as u32;
        let row = numbers.next(rows.min(parameters.rows.into())) as u32;
        let column = numbers.next(parameters.columns.into()) as u32;
        requests.push((clock, access, place(bank, row, column)));
    }
    requests
}

fn variants() -> Vec<DramParameters> {
    let mut variants = Vec::new();
    for preset in DramPreset::ALL {
        let open = preset.parameters();
        let closed = DramParameters {
            page: DramPagePolicy::Closed,
            ..open.clone()
        };
        let ranks = DramParameters {
            ranks: 2,
            ..open.clone()
        };
        variants.extend([open, closed, ranks]);
    }
    variants
}

#[test]
fn no_command_is_too_early() {
    for (seed, parameters) in variants().into_iter().enumerate() {
        let requests = requests(&parameters, 4000, 0x9e37_79b9 + seed as u64);
        let log = commands(&parameters, &requests, u64::from(u32::MAX));
        assert_eq!(
            check(&parameters, &log),
            Ok(()),
            "{} {seed}",
            parameters.name
        );
        assert!(log.len() > 4000);
    }
}

#[test]
fn the_checker_sees_a_clock() {
    for page in [DramPagePolicy::Open, DramPagePolicy::Closed] {
        let parameters = DramParameters {
            page,
            ..DramPreset::Ddr4X16.parameters()
        };
        let log: Vec<_> = (1..5)
            .map(|seed| {
                let requests = requests(&parameters, 4000, seed);
                commands(&parameters, &requests, u64::from(u32::MAX))
            })
            .collect();
        for (name, raised) in raised(&parameters) {
            let seen = log.iter().any(|log| check(&raised, log).is_err());
            assert!(seen, "{name} has no effect");
        }
        for log in log {
            assert_eq!(check(&parameters, &log), Ok(()));
        }
    }
}

/// Returns requests over all channels of a memory.
fn trace(parameters: &DramParameters, count: usize, seed: u64) -> Vec<DramRequest> {
    let mut numbers = XorshiftNumbers(seed);
    let mut picoseconds = 0;
    let mut request = || {
        picoseconds += numbers.next(4000);
        DramRequest {
            address: numbers.next(parameters.bytes()),
            access: [DramAccess::Read, DramAccess::Read, DramAccess::Write]
                [numbers.next(3) as usize],
            picoseconds,
        }
    };
    (0..count).map(|_| request()).collect()
}

fn replay(parameters: &DramParameters, pace: DramReplayPace, trace: &[DramRequest]) -> DramReport {
    let memory = DramMemory::new(parameters.clone()).unwrap();
    let mut replay = Replay::new(memory, pace);
    for request in trace {
        replay.send(request).unwrap();
    }
    replay.finish()
}

#[test]
fn runs_repeat_and_lose_nothing() {
    for parameters in variants() {
        let trace = trace(&parameters, 3000, 77);
        for pace in [
            DramReplayPace::Open { per_clock: 2 },
            DramReplayPace::Closed { think: 0 },
        ] {
            let report = replay(&parameters, pace, &trace);
            assert_eq!(report, replay(&parameters, pace, &trace));
            let (requests, commands) = (report.requests, report.commands);
            assert_eq!(requests.reads + requests.writes, 3000);
            assert_eq!(commands.read, requests.reads - requests.reads_merged);
            let written = commands.write + requests.writes_waiting;
            assert_eq!(written, requests.writes - requests.writes_merged);
            assert!(report.latency_ns.p50 <= report.latency_ns.p95);
        }
    }
}

#[test]
fn lines_that_are_read_and_written_all_the_time_block_nothing() {
    // A full buffer of writes whose oldest waits for a read that has not moved.
    for parameters in variants() {
        let mut numbers = XorshiftNumbers(5);
        let mut request = || DramRequest {
            address: numbers.next(64) * 64,
            access: [DramAccess::Read, DramAccess::Write][numbers.next(2) as usize],
            picoseconds: 0,
        };
        let trace: Vec<DramRequest> = (0..5000).map(|_| request()).collect();
        let report = replay(&parameters, DramReplayPace::Open { per_clock: 8 }, &trace);
        assert_eq!(report.requests.reads + report.requests.writes, 5000);
    }
}

#[test]
fn bounds_are_reached_and_not_exceeded() {
    for parameters in variants() {
        let (peak, random) = (parameters.peak_gbps(), parameters.random_gbps());
        let pace = DramReplayPace::Open {
            per_clock: parameters.channels,
        };
        let lines = |map: super::super::AddressMap, stride: u64| {
            let memory = DramMemory::with_map(parameters.clone(), map).unwrap();
            let mut replay = Replay::new(memory, pace);
            for line in 0..40_000 {
                replay
                    .send(&DramRequest {
                        address: line * stride * 64,
                        access: DramAccess::Read,
                        picoseconds: 0,
                    })
                    .unwrap();
            }
            replay.finish()
        };
        let name = parameters.name;
        let streamed = lines(super::super::AddressMap::LINES, 1);
        assert!(streamed.bandwidth_gbps <= peak, "{name}");
        // Every line of the next bank and channel, in its own row.
        let order = "co-ro-ra-ba-bg-ch".parse().unwrap();
        let scattered = lines(order, 1);
        assert!(scattered.row_hit_rate < 0.01, "{name}");
        // The run ends before a part of the time that it takes.
        assert!(scattered.bandwidth_gbps <= random * 1.002, "{name}");
        if parameters.page == DramPagePolicy::Open && parameters.ranks == 1 {
            assert!(
                streamed.bandwidth_gbps > 0.9 * peak * 0.9,
                "{name}: {streamed:?}"
            );
            assert!(
                scattered.bandwidth_gbps > 0.75 * random,
                "{name}: {scattered:?} {random}"
            );
        }
    }
}
