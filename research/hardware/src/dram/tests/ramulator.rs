//! Published results of an independent simulator.
//!
//! ramulator2 ran 16 channels of DDR5-4800AN, 16 Gb x8 devices, for *Cleaning up the Mess* (arXiv
//! 2510.15744). Its raw results lie in `mess/ddr5_4800an_16ch/` of `CMU-SAFARI/ramulator2` (commit
//! 56eae607), one file for each share of reads and number of pauses. All channels get the same
//! requests, so one channel has the results. The request generator is `MessReqGenerator` of the
//! same branch: a chase of random reads, of which the next leaves when the one before has been sent
//! to its bank, beside a stream over groups, then banks, then eight columns, then rows, in which
//! each request is a write by chance.

use super::traffic::XorshiftNumbers;
use super::*;

/// Returns the timings of ramulator2's speed bin, on our structure and with our refresh. It takes
/// `tCCD_L_WR` between writes of one group, and not the shorter `tCCD_L_WR2` of x8 devices.
fn ddr5_4800an() -> DramParameters {
    let mut parameters = DramPreset::Ddr5.parameters();
    for (name, value) in [("CL", "34"), ("CWL", "32"), ("tRCD", "34"), ("tRP", "34")] {
        parameters.set(name, value).unwrap();
    }
    parameters.set("tCCD_L_WR", "48").unwrap();
    parameters
}

fn random_place(parameters: &DramParameters, numbers: &mut XorshiftNumbers) -> DramLocation {
    place(
        numbers.next(parameters.banks().into()) as u32,
        numbers.next(parameters.rows.into()) as u32,
        numbers.next(parameters.columns.into()) as u32,
    )
}

/// Returns the mean latency of random reads, in clocks, and the clocks from one to the next.
fn chase(parameters: &DramParameters, reads: u64) -> (f64, f64) {
    let mut numbers = XorshiftNumbers(342);
    let mut channel = Channel::new(parameters, ());
    for _ in 0..reads {
        let place = random_place(parameters, &mut numbers);
        channel.submit(address(place), place, DramAccess::Read);
        // A read is no longer pending once it has been sent to its bank.
        while channel.has_reads() {
            channel.step();
        }
    }
    let per_read = |clocks: u64| clocks as f64 / reads as f64;
    (
        per_read(channel.latencies().total()),
        per_read(channel.clock()),
    )
}

/// `custom_60/output_10000.txt`: 20,000 random reads, with one request of the stream for every
/// 10,000 pauses. `avg_random_read_latency_0` is 110.757202, `memory_system_cycles` 1,385,080.
#[test]
fn an_unloaded_chase_takes_as_long_as_in_ramulator() {
    const TOLERANCE: f64 = 0.02;
    let is_near = |found: f64, published: f64| (found / published - 1.0).abs() < TOLERANCE;
    let (latency, interval) = chase(&ddr5_4800an(), 20_000);
    assert!(is_near(latency, 110.757), "{latency}");
    assert!(is_near(interval, 1_385_080.0 / 20_000.0), "{interval}");
    // Twice the refresh, or six clocks more in each read, would be seen.
    for (name, value) in [("tRFC", "1418"), ("CL", "40")] {
        let mut other = ddr5_4800an();
        other.set(name, value).unwrap();
        let latency = chase(&other, 20_000).0;
        assert!(
            !is_near(latency, 110.757),
            "{name} has no effect: {latency}"
        );
    }
}

/// Returns the clocks for each line that a full bus carries, with this share of reads, in percent,
/// in the stream.
fn saturated(parameters: &DramParameters, percent: u64, clocks: u64) -> f64 {
    let mut numbers = XorshiftNumbers(342);
    let mut channel = Channel::new(parameters, ());
    channel.keep_completions();
    let (groups, banks) = (parameters.groups, parameters.banks_per_group);
    let mut stream = (0_u32..).map(|index| {
        let (group, rest) = (index % groups, index / groups);
        place(
            group * banks + rest % banks,
            rest / banks / 8,
            rest / banks % 8,
        )
    });
    let mut next_of_stream = None;
    // The line of the chase that has not been sent to its bank.
    let mut chased = None;
    let mut is_chase = false;
    for clock in 0..clocks {
        channel.advance(clock);
        for sent in channel.take_completions() {
            if chased == Some(sent.line) {
                chased = None;
            }
        }
        // One request enters at a clock. After one of the stream, the chase has its turn.
        if !is_chase {
            let (line, access) = *next_of_stream.get_or_insert_with(|| {
                let access = match numbers.next(100) < percent {
                    true => DramAccess::Read,
                    false => DramAccess::Write,
                };
                (stream.next().unwrap_or_default(), access)
            });
            if channel.has_room(access) {
                channel.submit(address(line), line, access);
                next_of_stream = None;
                is_chase = true;
            }
        } else if chased.is_some() {
            is_chase = false;
        } else if channel.has_room(DramAccess::Read) {
            let line = random_place(parameters, &mut numbers);
            channel.submit(address(line), line, DramAccess::Read);
            chased = Some(address(line));
            is_chase = false;
        }
    }
    let commands = channel.commands();
    clocks as f64 / (commands.read + commands.write) as f64
}

/// `custom_60/output_1.txt` and `custom_90/output_1.txt`, without pauses: `memory_system_cycles` by
/// the sum of the hits, misses and conflicts of channel 0.
///
/// At 16 channels these are 247 and 267 GB/s of 308. Latencies are not compared: our queues are
/// deeper than ramulator's, so that requests wait longer for the same bus.
#[test]
fn a_full_bus_carries_as_much_as_in_ramulator() {
    const TOLERANCE: f64 = 0.10;
    for (percent, lines, cycles) in [(60, 850_656.0, 8_488_405.0), (90, 612_774.0, 5_643_563.0)] {
        let published: f64 = cycles / lines;
        let is_near = |found: f64| (found / published - 1.0).abs() < TOLERANCE;
        let found = saturated(&ddr5_4800an(), percent, 100_000);
        assert!(
            is_near(found),
            "{percent} %: {found} clocks a line, not {published}"
        );
        if percent > 60 {
            // Too few requests are writes.
            continue;
        }
        // Writes of one group that are four times as far apart would be seen.
        let mut other = ddr5_4800an();
        other.set("tCCD_L_WR", "200").unwrap();
        let found = saturated(&other, percent, 100_000);
        assert!(!is_near(found), "{percent} %: tCCD_L_WR has no effect");
    }
}
