//! Times of each unit, alone and with two users.

use super::super::super::testing::Loop;
use super::super::super::{DepartureReason, RackNode, TranslationRefusal};
use super::super::{PulseDesign, PulseParameters};
use super::{BARE, ONE, accelerator, design, run, times};
use crate::VirtualTime;

/// The time at which a request begins. A packet of `BARE` takes two picoseconds, so this is the
/// next edge: 4 ns.
const BEGIN: f64 = 4.0;
/// Time from the scheduler to a memory pipeline, translation, row and column, burst, to the next
/// edge.
const FETCH: f64 = 4.0 + 60.0;
/// Time of the scheduler, and a cycle of logic.
const LOGIC: f64 = 4.0 + 4.0;
/// Time of the scheduler.
const LEAVE: f64 = 4.0;

fn close(got: f64, expected: f64) {
    assert!((got - expected).abs() < 0.1, "{got} {expected}");
}

#[test]
fn an_iteration_alone_takes_the_sum_of_its_parts() {
    for iterations in [1, 2, 48] {
        let got = times(BARE, ONE, &[Loop::new(0, iterations)]);
        close(
            got[0],
            BEGIN + f64::from(iterations) * (FETCH + LOGIC) + LEAVE,
        );
    }
}

#[test]
fn each_parameter_counts_where_it_belongs() {
    let alone = times(BARE, ONE, &[Loop::new(0, 10)])[0];
    let more = |change: fn(&mut PulseParameters)| {
        let mut parameters = BARE;
        change(&mut parameters);
        times(parameters, ONE, &[Loop::new(0, 10)])[0] - alone
    };
    // One cycle more of translation, in each of ten iterations.
    close(more(|it| it.translate_cycles += 1), 40.0);
    // One cycle more of the scheduler: two events per iteration, and the reply.
    close(more(|it| it.schedule_cycles += 1), 84.0);
    let access = more(|it| it.access = BARE.access + VirtualTime::from_nanoseconds(40));
    close(access, 400.0);
    // A channel half as fast: 20.48 ns more, of which 3.2 were lost to the edge: five cycles.
    close(more(|it| it.channel_bytes_per_second /= 2.0), 200.0);
    // A pipeline that takes 8 bytes per cycle: 32 cycles for the 5.12 of the channel, to the edge.
    close(more(|it| it.bus_bytes_per_cycle = 8), 10.0 * 108.0);
    close(more(|it| it.instructions_per_cycle = 1), 10.0 * 28.0);
}

#[test]
fn the_network_stack_takes_its_cycles_on_both_ways() {
    let with = PulseParameters {
        network_cycle: VirtualTime::from_nanoseconds(4),
        network_cycles: 100,
        ..BARE
    };
    // 128 bytes are two cycles, and the request is at an edge.
    let got = times(with, ONE, &[Loop::new(0, 1)])[0];
    close(got, 2.0 * 408.0 + FETCH + LOGIC + LEAVE);
}

#[test]
fn fetches_of_one_channel_follow_each_other_and_those_of_two_do_not() {
    let design = design(2, 2);
    let pair = |distance| times(BARE, design, &[Loop::new(0, 1), Loop::new(distance, 1)]);
    // The scheduler takes the second one a cycle later, and lets it leave a cycle later.
    let apart = pair(256);
    close(apart[1] - apart[0], 4.0);
    // On the same channel it waits for a burst of 20.48 ns, of which the cycle is 4.
    let together = pair(512);
    close(together[0], apart[0]);
    close(together[1] - together[0], 20.0);
}

#[test]
fn a_pipeline_is_free_while_dram_looks_for_a_row() {
    let design = design(2, 1);
    let got = times(BARE, design, &[Loop::new(0, 1), Loop::new(256, 1)]);
    // The second is translated meanwhile, and its burst follows the first's: 20.48 ns.
    close(got[1] - got[0], 20.0);
    // In the coupled design a core has two workspaces, and no scheduler. The third request waits
    // for a whole iteration, and for the burst of the second.
    let one = PulseDesign::Coupled { cores: 1 };
    let works = [0, 256, 512].map(|address| Loop::new(address, 1));
    let got = times(BARE, one, &works);
    close(got[0], BEGIN + 60.0 + 4.0);
    close(got[1] - got[0], 20.0);
    close(got[2] - got[0], 16.0 + 60.0 + 4.0);
}

#[test]
fn a_shared_interconnect_carries_one_burst_at_a_time() {
    let design = design(2, 2);
    let shared = PulseParameters {
        shares_interconnect: true,
        ..BARE
    };
    let pair = |parameters| {
        let works = [Loop::new(0, 1), Loop::new(256, 1)];
        let got = times(parameters, design, &works);
        got[1] - got[0]
    };
    // On two channels only the scheduler holds the second up, and with a shared interconnect a
    // burst of 20.48 ns, of which the cycle is 4.
    close(pair(BARE), 4.0);
    close(pair(shared), 20.0);
}

#[test]
fn the_logic_of_one_pipeline_follows_each_other() {
    let slow = |address| Loop {
        instructions: 800,
        ..Loop::new(address, 1)
    };
    let pair = |logic| {
        let got = times(BARE, design(logic, 2), &[slow(0), slow(256)]);
        got[1] - got[0]
    };
    close(pair(1), 400.0);
    close(pair(2), 4.0);
}

#[test]
fn a_traversal_waits_for_a_workspace() {
    // Four workspaces for five.
    let works: Vec<Loop> = (0..5).map(|number| Loop::new(256 * number, 10)).collect();
    let got = times(BARE, ONE, &works);
    assert!(got[4] - got[0] > 10.0 * FETCH);
    let got = times(BARE, design(1, 2), &works);
    assert!(got[4] - got[0] < 3.0 * FETCH);
}

#[test]
fn long_fetches_alternate_between_channels() {
    let long = Loop {
        bytes: 8192,
        ..Loop::new(0, 1)
    };
    let got = times(BARE, ONE, &[long])[0];
    // 32 bursts one after another on one pipeline.
    let fetch: f64 = 8.0 + 28.32 + 32.0 * 20.48;
    close(
        got,
        BEGIN + 4.0 + (fetch / 4.0).ceil() * 4.0 + LOGIC + LEAVE,
    );
}

#[test]
fn stores_come_before_the_next_fetch() {
    let storing = Loop {
        stored: 8,
        ..Loop::new(0, 3)
    };
    let mut accelerator = accelerator(BARE, ONE);
    accelerator.submit(VirtualTime::ZERO, storing);
    let departures = run(&mut accelerator);
    let plain = times(BARE, ONE, &[Loop::new(0, 3)])[0];
    assert_eq!(departures[0].traversal.stores_made, 3);
    // The scheduler, two cycles of translation, 8 bytes in a cycle.
    let took = departures[0].at.as_nanoseconds() - plain;
    close(took, 3.0 * 16.0);
}

#[test]
fn what_may_not_be_accessed_ends_a_traversal() {
    let read_only = 1 << 30;
    let ends = |work: Loop| {
        let mut accelerator = accelerator(BARE, ONE);
        accelerator.submit(VirtualTime::ZERO, work);
        let departure = run(&mut accelerator).remove(0);
        let Loop {
            left, stores_made, ..
        } = departure.traversal;
        (departure.end, left, stores_made)
    };
    assert_eq!(
        ends(Loop::new(read_only, 2)),
        (DepartureReason::Returned, 0, 0)
    );
    let storing = Loop {
        stored: 8,
        ..Loop::new(read_only, 2)
    };
    // The logic has run, and nothing became visible.
    assert_eq!(
        ends(storing),
        (DepartureReason::Refused(TranslationRefusal::Denied), 1, 0)
    );
    let foreign = Loop::new((2 << 30) - 256, 2);
    assert_eq!(
        ends(foreign),
        (DepartureReason::Refused(TranslationRefusal::Miss), 1, 0)
    );
    let split = Loop::new((2 << 30) - 128, 2);
    assert_eq!(
        ends(split),
        (DepartureReason::Refused(TranslationRefusal::Split), 2, 0)
    );
}

#[test]
fn the_time_of_a_traversal_is_all_accounted_for() {
    let mut accelerator = accelerator(PulseParameters::PAPER, PulseDesign::PROTOTYPE);
    for number in 0..500 {
        let work = Loop {
            stored: (number % 3) as u32 * 8,
            instructions: 10 + (number % 7) as u32 * 30,
            ..Loop::new(number * 4096, 20)
        };
        accelerator.submit(VirtualTime::ZERO, work);
    }
    let departures = run(&mut accelerator);
    let sum = departures
        .iter()
        .map(|one| one.at.as_picoseconds())
        .sum::<u64>();
    let usage = accelerator.usage();
    let parts = usage.breakdown;
    let seen = parts.network + parts.memory + parts.logic + parts.schedule + parts.waiting;
    let seen = seen.as_picoseconds();
    // Everything except the time that packets wait for each other in the network stack, all of
    // which come at once.
    let packets: u64 = (0..500)
        .map(|number| PulseParameters::PAPER.packet(128).as_picoseconds() * number)
        .sum();
    let difference = sum - packets - seen;
    assert!(
        (difference as f64) < 0.001 * sum as f64,
        "{difference} of {sum}"
    );
    assert_eq!(usage.iterations, 500 * 20);
    assert_eq!(usage.departures, 500);
}
