//! Closed forms.

use super::super::{DramMemory, DramPagePolicy, DramReplayPace, DramReport, DramRequest, Replay};
use super::*;

/// Returns the latency of the last of some reads, in clocks, each sent when the one before has
/// completed.
fn last_latency(parameters: &DramParameters, places: &[DramLocation]) -> u64 {
    let mut channel = Channel::new(parameters, ());
    let mut before = 0;
    for place in places {
        before = channel.latencies().total();
        channel.submit(address(*place), *place, DramAccess::Read);
        while channel.has_reads() {
            channel.step();
        }
        channel.advance(channel.last_completion() + 500);
    }
    channel.latencies().total() - before
}

#[test]
fn an_unloaded_read_takes_what_its_row_needs() {
    for preset in DramPreset::ALL {
        let parameters = DramParameters {
            t_refi: 0,
            ..preset.parameters()
        };
        let column = 1 + parameters.cl + parameters.burst;
        let (first, hit) = (place(0, 1, 0), place(0, 1, 1));
        let conflict = place(0, 2, 0);
        let row = parameters.t_rcd_read;
        assert_eq!(last_latency(&parameters, &[first]), column + row);
        assert_eq!(last_latency(&parameters, &[first, hit]), column);
        let closing = column + row + parameters.t_rp;
        assert_eq!(last_latency(&parameters, &[first, conflict]), closing);
        let closed = DramParameters {
            page: DramPagePolicy::Closed,
            ..parameters
        };
        assert_eq!(last_latency(&closed, &[first, conflict]), column + row);
    }
}

#[test]
fn the_mean_wait_for_refresh_is_its_square_by_twice_the_interval() {
    for preset in [DramPreset::Ddr4X8, DramPreset::Hbm2] {
        let parameters = preset.parameters();
        let row = 1 + parameters.t_rcd_read;
        let unloaded = row + parameters.cl + parameters.burst;
        let (interval, refresh) = (parameters.t_refi, parameters.t_rfc);
        let wait = |phase| {
            let mut channel = Channel::new(&parameters, ());
            channel.advance(interval + phase);
            channel.submit(0, place(0, 0, 0), DramAccess::Read);
            while channel.has_reads() {
                channel.step();
            }
            channel.latencies().total() - unloaded
        };
        // The controller takes a clock, so a read at the clock of the refresh waits one less.
        let caught = interval - row;
        for phase in 0..caught {
            assert_eq!(wait(phase), refresh.saturating_sub(phase + 1), "{phase}");
        }
        let mean = (0..caught).map(wait).sum::<u64>() as f64 / caught as f64;
        let form = (refresh * refresh) as f64 / (2 * interval) as f64;
        assert!((mean / form - 1.0).abs() < 0.01, "{mean} {form}");
        // The next refresh catches these, most with their row open: it is closed unread.
        for phase in caught..interval {
            assert!(wait(phase) >= refresh, "{phase}");
        }
    }
}

fn run(parameters: &DramParameters, requests: &[(u64, DramAccess, u64)]) -> DramReport {
    let memory = DramMemory::new(parameters.clone()).unwrap();
    let mut replay = Replay::new(memory, DramReplayPace::Open { per_clock: 1 });
    for (address, access, picoseconds) in requests.iter().copied() {
        replay
            .send(&DramRequest {
                address,
                access,
                picoseconds,
            })
            .unwrap();
    }
    replay.finish()
}

/// Requests that are merged, or wait, do not use the bus.
#[test]
fn the_bus_carries_what_the_banks_are_asked_for() {
    let parameters = DramPreset::Ddr4X8.parameters();
    let report = run(&parameters, &[(0, DramAccess::Write, 0)]);
    assert_eq!(
        (report.requests.writes_waiting, report.bandwidth_gbps),
        (1, 0.0)
    );
    let report = run(&parameters, &[(0, DramAccess::Read, 0); 8]);
    assert_eq!((report.commands.read, report.requests.reads_merged), (1, 7));
    assert_eq!(report.bandwidth_gbps * report.time_us * 1e3, 64.0);
    for (reads, writes) in [(1, 64), (64, 1), (40, 40)] {
        let reads = (0..reads).map(|_| (0, DramAccess::Read, 0));
        let writes = (0..writes).map(|line| (line % 3 * 64, DramAccess::Write, 0));
        let report = run(&parameters, &reads.chain(writes).collect::<Vec<_>>());
        assert!(
            report.bandwidth_gbps <= parameters.peak_gbps(),
            "{report:?}"
        );
    }
}

#[test]
fn a_time_that_no_memory_reaches_is_refused() {
    let mut parameters = DramPreset::Ddr4X8.parameters();
    parameters.set("tCK", "0.001").unwrap();
    parameters.set("burst", "10000000").unwrap();
    let memory = DramMemory::new(parameters).unwrap();
    let mut replay = Replay::new(memory, DramReplayPace::Closed { think: 0 });
    let mut send = |picoseconds| {
        replay.send(&DramRequest {
            address: 0,
            access: DramAccess::Read,
            picoseconds,
        })
    };
    for late in [u64::MAX, (1 << 50) + 1] {
        let error = send(late).unwrap_err();
        assert!(
            error.to_string().contains("is past the last clock"),
            "{error}"
        );
    }
    send(1 << 50).unwrap();
    send(0).unwrap();
    assert!(replay.finish().energy_uj.total().is_finite());
}

#[test]
fn energy_is_that_of_the_commands_and_the_time() {
    let parameters = DramPreset::Ddr4X8.parameters();
    let report = run(
        &parameters,
        &[(0, DramAccess::Read, 0), (64, DramAccess::Read, 0)],
    );
    assert_eq!((report.commands.activate, report.commands.read), (1, 2));
    // The second read enters a clock after the first, and is read 8 clocks after it.
    assert_eq!(report.time_us, 57.0 * 0.625 / 1000.0);
    assert_eq!(report.latency_ns.mean, (49.0 + 56.0) / 2.0 * 0.625);
    assert_eq!(report.row_hit_rate, 0.5);
    assert_eq!(report.bandwidth_gbps, 128.0 / (57.0 * 0.625));
    let close = |value: f64, picojoules: f64| assert!((value * 1e6 - picojoules).abs() < 1e-6);
    close(
        report.energy_uj.activate,
        1.2 * (57.0 * 74.0 - 52.0 * 52.0 - 37.0 * 22.0) * 0.625 * 8.0,
    );
    close(
        report.energy_uj.read,
        2.0 * 1.2 * (168.0 - 52.0) * 4.0 * 0.625 * 8.0,
    );
    // Channel 0 has an open row from clock 1 on; channel 1 has none.
    let background = 52.0 * 56.0 + 37.0 * (1.0 + 57.0);
    close(report.energy_uj.background, 1.2 * background * 0.625 * 8.0);
    assert_eq!(
        (report.energy_uj.write, report.energy_uj.refresh),
        (0.0, 0.0)
    );
    assert!(report.energy_uj.total() > report.energy_uj.dynamic());
}

#[test]
fn energy_per_bit_is_that_of_the_currents() {
    // Column energy in pJ per bit, from the table of the reference.
    for (preset, read, write) in [
        (DramPreset::Ddr4X8, 5.4, 4.6),
        (DramPreset::Ddr4X16, 5.8, 5.2),
        (DramPreset::Ddr5, 2.6, 2.6),
        (DramPreset::Hbm2, 1.6, 2.1),
        (DramPreset::Hbm1, 2.9, 3.6),
    ] {
        let parameters = preset.parameters();
        let commands = super::super::DramCommandCounts {
            read: 1,
            write: 1,
            ..Default::default()
        };
        let energy = super::super::DramEnergy::of(&parameters, &commands, 0, 0);
        let per_bit = |microjoules: f64| microjoules * 1e6 / 512.0;
        assert!(
            (per_bit(energy.read) - read).abs() < 0.06,
            "{}",
            per_bit(energy.read)
        );
        assert!(
            (per_bit(energy.write) - write).abs() < 0.06,
            "{}",
            per_bit(energy.write)
        );
    }
}

#[test]
fn a_long_pause_is_refreshed_and_costs_no_time() {
    let parameters = DramPreset::Hbm2.parameters();
    // A week.
    let late = 7 * 24 * 3600 * 1_000_000_000_000;
    let report = run(
        &parameters,
        &[(0, DramAccess::Read, 0), (64, DramAccess::Read, late)],
    );
    let clocks = late / 1000;
    let expected = 8 * (clocks / 3900);
    assert!(report.commands.refresh.abs_diff(expected) <= 8);
    assert_eq!(report.commands.activate, 2);
    assert_eq!(report.latency_ns.p50, 31.0);
}

#[test]
fn requests_enter_at_their_clock_in_order() {
    let mut parameters = DramPreset::Ddr4X8.parameters();
    parameters.t_refi = 0;
    // Time 626 is after the first clock: the request enters at the second.
    let at = |picoseconds| run(&parameters, &[(0, DramAccess::Read, picoseconds)]).time_us * 1000.0;
    assert_eq!(at(0), 49.0 * 0.625);
    assert_eq!(at(625), 50.0 * 0.625);
    assert_eq!(at(626), 51.0 * 0.625);
    // Times that go back do not count, the order does: this one enters at clock 11, in a bank that
    // opens its row tRRD_S after the first, at 11 + 4.
    let requests = [(0, DramAccess::Read, 6250), (1 << 13, DramAccess::Read, 0)];
    let report = run(&parameters, &requests);
    assert_eq!(report.time_us * 1000.0, (15.0 + 22.0 + 22.0 + 4.0) * 0.625);
}

#[test]
fn at_most_so_many_enter_at_a_clock_and_a_closed_pace_waits() {
    let mut parameters = DramPreset::Ddr4X8.parameters();
    parameters.t_refi = 0;
    let pace = |pace| {
        let mut replay = Replay::new(DramMemory::new(parameters.clone()).unwrap(), pace);
        // Each channel's first row, and a row of its next bank.
        for address in [0, 1 << 17, 1 << 13, (1 << 17) + (1 << 13)] {
            replay
                .send(&DramRequest {
                    address,
                    access: DramAccess::Read,
                    picoseconds: 0,
                })
                .unwrap();
        }
        replay.finish()
    };
    let mean = |report: DramReport| report.latency_ns.mean / 0.625;
    // The second of a channel waits for tRRD_S, and for its own clock.
    let one = pace(DramReplayPace::Open { per_clock: 1 });
    let four = pace(DramReplayPace::Open { per_clock: 4 });
    assert!(mean(one) < mean(four));
    let closed = pace(DramReplayPace::Closed { think: 0 });
    assert_eq!(mean(closed), 49.0);
    assert_eq!(closed.time_us, 4.0 * 49.0 * 0.625 / 1000.0);
}
