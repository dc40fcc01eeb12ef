//! Times of the accelerator with DRAM that has banks, compared with channels that have none.

use super::super::super::RackNode;
use super::super::super::testing::Loop;
use super::super::{PulseDesign, PulseMemoryModel, PulseParameters};
use super::{ONE, accelerator, run, times};
use crate::VirtualTime;

/// The distance of two nodes in neighbouring rows of a bank: 16 banks of 8 KiB on two channels.
const ROW: u64 = 2 * 16 * (8 << 10);
/// Time between opening two rows of a bank, in nanoseconds: 39 and 17 clocks.
const CYCLE_OF_ROW: f64 = 56.0 * 0.833;

/// Returns the paper's parameters with this model of memory, and a network stack without delay.
fn with(memory: PulseMemoryModel) -> PulseParameters {
    PulseParameters {
        memory,
        network_cycles: 0,
        network_cycle: VirtualTime::from_picoseconds(1),
        ..PulseParameters::PAPER
    }
}

/// Returns the time after which all of these traversals have left.
fn all(memory: PulseMemoryModel, design: PulseDesign, works: &[Loop]) -> f64 {
    let times = times(with(memory), design, works);
    times.into_iter().fold(0.0, f64::max)
}

/// Returns a traversal of nodes of a line each.
fn lines(address: u64, stride: u64, nodes: u32) -> Loop {
    Loop {
        bytes: 64,
        stride,
        ..Loop::new(address, nodes)
    }
}

#[test]
fn a_bank_with_another_row_open_takes_the_time_of_an_access() {
    let nodes = 40_u32;
    let work = [lines(0, ROW, nodes)];
    let [banks, channels] = [PulseMemoryModel::Dram, PulseMemoryModel::Channels]
        .map(|memory| all(memory, ONE, &work) / f64::from(nodes));
    // Both clocks have their own edges.
    assert!((banks - channels).abs() < 8.0, "{banks} {channels}");
}

#[test]
fn an_open_row_is_faster() {
    let nodes = 20_u32;
    // The next burst of the channel is in the same row.
    let near = all(PulseMemoryModel::Dram, ONE, &[lines(0, 512, nodes)]);
    let far = all(PulseMemoryModel::Dram, ONE, &[lines(0, ROW, nodes)]);
    // 17 clocks to close the row and 17 to open the next.
    let gain = (far - near) / f64::from(nodes);
    assert!((20.0..36.0).contains(&gain), "{near} {far}");
    // Channels have no rows.
    let near = all(PulseMemoryModel::Channels, ONE, &[lines(0, 512, nodes)]);
    let far = all(PulseMemoryModel::Channels, ONE, &[lines(0, ROW, nodes)]);
    assert_eq!(near, far);
}

/// The canary: channels without banks exceed what one bank can do.
#[test]
fn rows_of_one_bank_follow_each_other() {
    let (traversals, nodes) = (8_u64, 50_u32);
    let design = PulseDesign::Disaggregated {
        logic: 4,
        memory: 8,
    };
    let works: Vec<Loop> = (0..traversals)
        .map(|number| lines(number * u64::from(nodes) * ROW, ROW, nodes))
        .collect();
    let least = (traversals * u64::from(nodes)) as f64 * CYCLE_OF_ROW;
    let banks = all(PulseMemoryModel::Dram, design, &works);
    assert!((least..1.5 * least).contains(&banks), "{banks} {least}");
    let channels = all(PulseMemoryModel::Channels, design, &works);
    assert!(channels < least / 1.5, "{channels} {least}");
}

#[test]
fn long_fetches_are_read_ahead() {
    let long = [Loop {
        bytes: 8192,
        ..Loop::new(0, 1)
    }];
    let banks = all(PulseMemoryModel::Dram, ONE, &long);
    let channels = all(PulseMemoryModel::Channels, ONE, &long);
    // The interconnect is slower than rows that are open.
    assert!((banks / channels - 1.0).abs() < 0.15, "{banks} {channels}");
}

#[test]
fn stores_are_made_and_take_their_banks() {
    let all_stores = |stored| {
        let mut accelerator = accelerator(with(PulseMemoryModel::Dram), ONE);
        for number in 0..4 {
            let work = Loop {
                stored,
                ..lines(number * 1000 * ROW, ROW, 200)
            };
            accelerator.submit(VirtualTime::ZERO, work);
        }
        let departures = run(&mut accelerator);
        assert_eq!(departures.len(), 4);
        let made = departures.iter().map(|one| one.traversal.stores_made);
        let last = departures.iter().map(|one| one.at).max();
        (made.sum::<u32>(), last)
    };
    let (without, with_stores) = (all_stores(0), all_stores(64));
    assert_eq!((without.0, with_stores.0), (0, 4 * 200));
    assert!(with_stores.1 > without.1);
}

#[test]
fn traversals_with_the_same_nodes_share_their_lines() {
    let design = PulseDesign::PROTOTYPE;
    let works = vec![lines(0, ROW, 30); 4];
    let together = all(PulseMemoryModel::Dram, design, &works);
    let alone = all(PulseMemoryModel::Dram, design, &works[..1]);
    // Without sharing, rows of one bank would follow each other.
    assert!(together < 1.5 * alone, "{together} {alone}");
}
