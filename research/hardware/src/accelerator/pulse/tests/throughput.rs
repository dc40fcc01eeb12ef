//! Throughput against its bound.

use super::super::super::RackNode;
use super::super::super::testing::Loop;
use super::super::bound::{PulsePart, PulseRequestProfile};
use super::super::{PulseDesign, PulseParameters};
use super::{PLAIN, WITHOUT_BANKS, accelerator, design, run};
use crate::VirtualTime;

/// Returns the rate of many requests like `work`, whose nodes are at random addresses, and its
/// bound.
fn rate(parameters: PulseParameters, design: PulseDesign, work: &Loop) -> (f64, f64, PulsePart) {
    const REQUESTS: u64 = 600;
    let mut accelerator = accelerator(parameters, design);
    let mut state = 1_u64;
    for _ in 0..REQUESTS {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let address = (state >> 36) & !255;
        accelerator.submit(
            VirtualTime::ZERO,
            Loop {
                address: address % (1 << 29),
                ..work.clone()
            },
        );
    }
    let departures = run(&mut accelerator);
    let seconds = departures.last().unwrap().at.as_seconds();
    let profile = PulseRequestProfile {
        iterations: vec![(work.bytes, work.instructions); work.left as usize],
        request_bytes: 128,
        reply_bytes: 128,
    };
    let (bound, part) = parameters.bound(design, &profile);
    (REQUESTS as f64 / seconds, bound, part)
}

#[test]
fn no_run_exceeds_its_bound_and_those_of_one_slow_part_come_close() {
    use PulsePart::{Channels, Interconnect, Logic, Memory, Workspaces};
    // Strides that are odd multiples of a burst use the channels in turn.
    let work = |instructions| Loop {
        instructions,
        stride: 256 * 7,
        ..Loop::new(0, 40)
    };
    // Memory that takes long to find a row needs many requests in flight.
    let distant = PulseParameters {
        access: VirtualTime::from_nanoseconds(500),
        ..PLAIN
    };
    let cores = PulseDesign::Coupled { cores: 2 };
    let cases = [
        ("slow logic", PLAIN, design(1, 4), work(1600), Logic),
        ("more of it", PLAIN, design(3, 4), work(1600), Logic),
        ("one memory pipeline", PLAIN, design(4, 1), work(8), Memory),
        ("channels", PLAIN, design(4, 8), work(8), Channels),
        (
            "interconnect",
            WITHOUT_BANKS,
            design(4, 8),
            work(8),
            Interconnect,
        ),
        ("few workspaces", distant, design(1, 2), work(8), Workspaces),
        ("cores", distant, cores, work(8), Workspaces),
    ];
    for (name, parameters, design, work, expected) in cases {
        let (rate, bound, part) = rate(parameters, design, &work);
        println!("{name}: {rate:.0} of {bound:.0}, {}", part.name());
        assert_eq!(part, expected, "{name}");
        assert!(rate <= bound * 1.000_001, "{name}: {rate} {bound}");
        assert!(rate >= bound * 0.9, "{name}: {rate} {bound}");
    }
}

#[test]
fn no_design_exceeds_its_bound() {
    for logic in 1..=4 {
        for memory in 1..=4 {
            for instructions in [8, 80, 200] {
                let work = Loop {
                    instructions,
                    stride: 256 * 3,
                    ..Loop::new(0, 20)
                };
                let design = design(logic, memory);
                let (rate, bound, part) = rate(WITHOUT_BANKS, design, &work);
                let name = part.name();
                assert!(
                    rate <= bound * 1.000_001,
                    "{design}, {instructions}: {name}"
                );
                assert!(
                    rate > bound * 0.6,
                    "{design}, {instructions}: {rate} {bound}"
                );
            }
        }
    }
}

#[test]
fn short_traversals_are_bound_by_the_network_stack() {
    let parameters = PulseParameters {
        network_bytes_per_cycle: 1,
        ..WITHOUT_BANKS
    };
    let (rate, bound, part) = rate(parameters, design(4, 8), &Loop::new(0, 1));
    assert_eq!(part, PulsePart::Network);
    assert!(rate <= bound && rate > 0.9 * bound, "{rate} {bound}");
}

#[test]
fn a_model_that_is_too_fast_would_be_seen() {
    // The canary: twice the channels, against the bound of two.
    let faster = PulseParameters {
        channels: 4,
        ..PLAIN
    };
    let work = Loop {
        stride: 256 * 7,
        ..Loop::new(0, 40)
    };
    let (rate, _, _) = rate(faster, design(4, 8), &work);
    let profile = PulseRequestProfile {
        iterations: vec![(256, 8); 40],
        request_bytes: 128,
        reply_bytes: 128,
    };
    let (bound, _) = PLAIN.bound(design(4, 8), &profile);
    assert!(rate > bound);
}
