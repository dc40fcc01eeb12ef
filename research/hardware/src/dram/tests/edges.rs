//! Each constraint: the second command is refused one clock early, and accepted at the clock.

use super::super::DramDevice;
use super::*;
use DramCommand::{Activate, Precharge, Read, ReadAndPrecharge, Write, WriteAndPrecharge};

/// Returns parameters of two ranks of two groups of two banks, in which no two times are equal, so
/// that a wrong one is detected. Banks 0 and 1 are a group, 2 and 3 another, 4 to 7 the other rank.
fn distinct() -> DramParameters {
    let mut parameters = DramPreset::Ddr4X8.parameters();
    for (name, value) in [
        ("ranks", "2"),
        ("bankgroups", "2"),
        ("banks_per_group", "2"),
        ("burst", "4"),
        ("CL", "23"),
        ("CWL", "17"),
        ("tRCDRD", "19"),
        ("tRCDWR", "15"),
        ("tRP", "21"),
        ("tRAS", "53"),
        ("tRRD_S", "7"),
        ("tRRD_L", "9"),
        ("tFAW", "47"),
        ("tCCD_S", "5"),
        ("tCCD_L", "8"),
        ("tCCD_L_WR", "10"),
        ("tRTP", "13"),
        ("tWR", "25"),
        ("tWTR_S", "3"),
        ("tWTR_L", "11"),
        ("tRTRS", "2"),
        ("tRFC", "301"),
    ] {
        parameters.set(name, value).unwrap();
    }
    parameters.check().unwrap();
    parameters
}

/// A clock long after everything else.
const NOW: u64 = 10_000;

/// Checks that `second` is accepted by its bank `gap` clocks after `first`, and not before. Banks
/// that need an open row have one.
#[track_caller]
fn edge(first: (DramCommand, usize), second: (DramCommand, usize), gap: u64) {
    let mut device = DramDevice::new(&distinct());
    let mut clock = 0;
    for (command, bank) in [first, second] {
        let opened_by_first = first == (Activate, bank);
        if command != Activate && !opened_by_first && device.open_row(bank).is_none() {
            device.issue(Activate, bank, 1, clock);
            clock += 1000;
        }
    }
    device.issue(first.0, first.1, 1, NOW);
    assert_eq!(
        device.earliest(second.0, second.1),
        Some(NOW + gap),
        "{second:?} after {first:?}"
    );
    assert!(!device.accepts(second.0, second.1, NOW + gap - 1));
    assert!(device.accepts(second.0, second.1, NOW + gap));
    device.issue(second.0, second.1, 1, NOW + gap);
}

#[test]
fn rows_open_and_close() {
    edge((Activate, 0), (Read, 0), 19);
    edge((Activate, 0), (ReadAndPrecharge, 0), 19);
    edge((Activate, 0), (Write, 0), 15);
    edge((Activate, 0), (WriteAndPrecharge, 0), 15);
    edge((Activate, 0), (Precharge, 0), 53);
    edge((Precharge, 0), (Activate, 0), 21);
    edge((Read, 0), (Precharge, 0), 13);
    edge((Write, 0), (Precharge, 0), 17 + 4 + 25);
    edge((ReadAndPrecharge, 0), (Activate, 0), 4 + 13 + 21);
    edge((WriteAndPrecharge, 0), (Activate, 0), 17 + 4 + 25 + 21);
}

#[test]
fn rows_of_other_banks_open() {
    edge((Activate, 0), (Activate, 1), 9);
    edge((Activate, 0), (Activate, 2), 7);
    // Another rank is not affected.
    let mut device = DramDevice::new(&distinct());
    device.issue(Activate, 0, 1, NOW);
    assert!(device.accepts(Activate, 4, NOW));
}

#[test]
fn a_row_is_open_for_its_cycle() {
    // A write would close it later, so a read closes it at once.
    let mut parameters = distinct();
    parameters.t_rcd_read = 1;
    let mut device = DramDevice::new(&parameters);
    device.issue(Activate, 0, 1, NOW);
    device.issue(ReadAndPrecharge, 0, 1, NOW + 1);
    assert!(!device.accepts(Activate, 0, NOW + 53 + 21 - 1));
    assert!(device.accepts(Activate, 0, NOW + 53 + 21));
}

#[test]
fn a_fifth_row_waits_for_the_window() {
    let mut parameters = distinct();
    parameters.banks_per_group = 8;
    let mut device = DramDevice::new(&parameters);
    // Both groups in turn, as fast as possible.
    for (index, bank) in [0, 8, 1, 9].into_iter().enumerate() {
        let clock = NOW + 7 * index as u64;
        assert_eq!(device.earliest(Activate, bank).unwrap().max(NOW), clock);
        device.issue(Activate, bank, 1, clock);
    }
    assert!(!device.accepts(Activate, 2, NOW + 46));
    assert!(device.accepts(Activate, 2, NOW + 47));
    device.issue(Activate, 2, 1, NOW + 47);
    // The window slides: the second of the four was 7 clocks after the first.
    assert!(!device.accepts(Activate, 10, NOW + 53));
    assert!(device.accepts(Activate, 10, NOW + 54));
    // The other rank has its own window.
    assert!(device.accepts(Activate, 16, NOW));
}

#[test]
fn columns_share_the_bus() {
    for read in [Read, ReadAndPrecharge] {
        edge((Read, 0), (read, 0), 8);
        edge((read, 0), (Read, 1), 8);
        edge((read, 0), (Read, 2), 5);
        edge((read, 0), (Read, 4), 4 + 2);
    }
    for write in [Write, WriteAndPrecharge] {
        edge((Write, 0), (write, 0), 10);
        edge((write, 0), (Write, 1), 10);
        edge((write, 0), (Write, 2), 5);
        edge((write, 0), (Write, 4), 4);
    }
}

#[test]
fn the_bus_turns_around() {
    for (read, write) in [(Read, Write), (ReadAndPrecharge, WriteAndPrecharge)] {
        edge((Read, 0), (write, 0), 23 + 4 - 17 + 2);
        edge((read, 0), (Write, 1), 23 + 4 - 17 + 2);
        edge((read, 0), (Write, 2), 23 + 4 - 17 + 2);
        edge((read, 0), (Write, 4), 23 + 4 + 2 - 17);
        edge((Write, 0), (read, 0), 17 + 4 + 11);
        edge((write, 0), (Read, 1), 17 + 4 + 11);
        edge((write, 0), (Read, 2), 17 + 4 + 3);
        // The data of the read comes late enough by itself: CWL + burst + tRTRS is CL.
        edge((write, 0), (Read, 4), 0);
    }
}

#[test]
fn columns_of_a_single_group_are_those_of_different_groups() {
    let mut parameters = distinct();
    parameters.groups = 1;
    parameters.banks_per_group = 4;
    let mut device = DramDevice::new(&parameters);
    device.issue(Activate, 0, 1, 0);
    assert!(!device.accepts(Activate, 1, 6));
    assert!(device.accepts(Activate, 1, 7));
    device.issue(Activate, 1, 1, 7);
    device.issue(Read, 0, 1, NOW);
    assert!(!device.accepts(Read, 1, NOW + 4));
    assert!(device.accepts(Read, 1, NOW + 5));
    device.issue(Write, 0, 1, NOW + 100);
    assert!(!device.accepts(Read, 1, NOW + 100 + 17 + 4 + 2));
    assert!(device.accepts(Read, 1, NOW + 100 + 17 + 4 + 3));
}

#[test]
fn a_refresh_needs_closed_rows_and_keeps_them_closed() {
    let mut device = DramDevice::new(&distinct());
    device.issue(Activate, 3, 1, 0);
    assert_eq!(device.earliest_refresh(0), None);
    device.issue(Precharge, 3, 1, NOW);
    assert_eq!(device.earliest_refresh(0), Some(NOW + 21));
    device.refresh(0, NOW + 21);
    assert!(!device.accepts(Activate, 0, NOW + 21 + 300));
    assert!(device.accepts(Activate, 0, NOW + 21 + 301));
    assert_eq!(device.earliest_refresh(0), Some(NOW + 21 + 301));
    // Not the other rank.
    assert!(device.accepts(Activate, 4, NOW));
    // Rows that a column closes.
    for (command, gap) in [
        (ReadAndPrecharge, 13 + 21),
        (WriteAndPrecharge, 17 + 4 + 25 + 21),
    ] {
        let mut device = DramDevice::new(&distinct());
        device.issue(Activate, 3, 1, 0);
        device.issue(command, 3, 1, NOW);
        assert_eq!(device.earliest_refresh(0), Some(NOW + gap));
    }
}

#[test]
fn the_state_of_the_row_decides_what_is_possible() {
    let mut device = DramDevice::new(&distinct());
    for command in [Precharge, Read, Write, ReadAndPrecharge, WriteAndPrecharge] {
        assert_eq!(device.earliest(command, 0), None);
    }
    device.issue(Activate, 0, 7, 0);
    assert_eq!(device.earliest(Activate, 0), None);
    assert_eq!(device.open_row(0), Some(7));
    device.issue(Read, 0, 7, 500);
    assert_eq!(device.columns_since_open(0), 1);
    device.issue(Precharge, 0, 7, 600);
    assert_eq!(
        (device.open_row(0), device.columns_since_open(0)),
        (None, 0)
    );
}
