//! Exact sequences of commands, which show the decisions of the controller.

use super::*;
use DramCommand::{Activate, Precharge, Read, Write};

fn read(clock: u64, place: DramLocation) -> (u64, DramAccess, DramLocation) {
    (clock, DramAccess::Read, place)
}

fn write(clock: u64, place: DramLocation) -> (u64, DramAccess, DramLocation) {
    (clock, DramAccess::Write, place)
}

fn to(command: DramCommand, place: DramLocation) -> DramCommandRecord {
    let row = if command == Precharge { 0 } else { place.row };
    DramCommandRecord::Bank(command, place.bank as usize, row)
}

#[test]
fn a_read_opens_a_row_and_a_conflict_closes_it() {
    let (one, other) = (place(0, 7, 0), place(0, 8, 0));
    let log = commands(&ddr4(), &[read(100, one), read(100, other)], 1000);
    assert_eq!(
        log,
        [
            (101, to(Activate, one)),
            (123, to(Read, one)),
            // tRAS is longer than tRCD + tRTP.
            (153, to(Precharge, one)),
            (175, to(Activate, other)),
            (197, to(Read, other)),
        ]
    );
}

#[test]
fn four_columns_of_a_row_go_before_an_older_request_of_another() {
    let mut parameters = ddr4();
    // So that the row may be closed before its next column: each read delays that.
    (parameters.t_rtp, parameters.t_ras) = (4, 30);
    let (hit, other) = (|column| place(0, 7, column), place(0, 8, 0));
    let mut requests = vec![read(0, hit(0)), read(1, other)];
    requests.extend((2..8).map(|clock| read(clock, hit(clock as u32))));
    let log = commands(&parameters, &requests, 1000);
    let reads = |row| {
        let is_read =
            move |(_, it): &&(u64, DramCommandRecord)| *it == DramCommandRecord::Bank(Read, 0, row);
        log.iter().filter(is_read)
    };
    let clocks: Vec<_> = reads(7).map(|(clock, _)| *clock).collect();
    assert_eq!(clocks[..4], [23, 31, 39, 47]);
    assert_eq!(log[5], (51, to(Precharge, other)));
    assert_eq!(log[7], (95, to(Read, other)));
    assert!(
        clocks.len() == 7 && clocks[4] > 95,
        "the rest waits: {log:?}"
    );
}

#[test]
fn rows_that_nobody_else_wants_stay_open() {
    let requests: Vec<_> = (0..20)
        .map(|clock| read(clock * 40, place(3, 7, clock as u32)))
        .collect();
    let log = commands(&ddr4(), &requests, 2000);
    let opened = log
        .iter()
        .filter(|(_, issued)| matches!(issued, DramCommandRecord::Bank(Activate, ..)));
    assert_eq!(opened.count(), 1);
    assert_eq!(log.len(), 21);
}

#[test]
fn writes_wait_until_more_than_eight_have_nothing_before_them() {
    let requests: Vec<_> = (0..8).map(|row| write(0, place(row, row, 0))).collect();
    assert_eq!(commands(&ddr4(), &requests, 10_000), []);
    let requests: Vec<_> = (0..9).map(|row| write(0, place(row, row, 0))).collect();
    let log = commands(&ddr4(), &requests, 10_000);
    let written = log
        .iter()
        .filter(|(_, issued)| matches!(issued, DramCommandRecord::Bank(Write, ..)));
    assert_eq!(written.count(), 9);
}

#[test]
fn writes_go_first_when_their_buffer_is_full() {
    let mut requests: Vec<_> = (0..200).map(|row| read(0, place(0, row, 0))).collect();
    requests.extend((0..32).map(|column| write(0, place(1, 5, column))));
    let log = commands(&ddr4(), &requests, 1_000_000);
    let first_write = log
        .iter()
        .position(|(_, issued)| matches!(issued, DramCommandRecord::Bank(Write, ..)))
        .unwrap();
    let reads_before = log[..first_write]
        .iter()
        .filter(|(_, issued)| matches!(issued, DramCommandRecord::Bank(Read, ..)))
        .count();
    // 8 reads wait in the bank's queue, 32 in that of the channel: the writes come with the
    // remaining reads.
    assert!((160..=172).contains(&reads_before), "{reads_before}");
    assert_eq!(
        log.iter()
            .filter(|(_, it)| matches!(it, DramCommandRecord::Bank(Write, ..)))
            .count(),
        32
    );
}

#[test]
fn reads_are_merged_and_answered_by_writes_that_wait() {
    let (line, other) = (place(0, 7, 0), place(0, 7, 1));
    let mut channel = Channel::new(&ddr4(), DramCommandLog::default());
    for (access, place) in [
        (DramAccess::Write, other),
        (DramAccess::Read, other),
        (DramAccess::Read, line),
        (DramAccess::Read, line),
        (DramAccess::Write, other),
    ] {
        channel.submit(address(place), place, access);
    }
    channel.advance(1000);
    let requests = channel.requests();
    assert_eq!((requests.reads_merged, requests.writes_merged), (2, 1));
    assert_eq!((channel.commands().read, channel.commands().write), (1, 0));
    let latency = channel.latencies().report(1.0);
    // The reads of the line take 49 clocks each; the one of the other, 1.
    assert_eq!(latency.mean, (49.0 + 49.0 + 1.0) / 3.0);
}

#[test]
fn a_write_follows_an_older_read_of_its_line() {
    let line = place(0, 7, 0);
    let mut requests = vec![read(0, line)];
    requests.extend((0..12).map(|column| write(0, place(0, 7, column))));
    let log = commands(&ddr4(), &requests, 10_000);
    let clock = |issued: DramCommandRecord| log.iter().find(|it| it.1 == issued).unwrap().0;
    assert!(clock(to(Read, line)) < clock(to(Write, line)));
}

#[test]
fn two_buses_carry_a_row_and_a_column_at_one_clock() {
    let mut parameters = DramParameters {
        t_refi: 0,
        ..DramPreset::Hbm2.parameters()
    };
    let requests: Vec<_> = (0..64)
        .map(|row| read(0, place(row % 16, row, 0)))
        .collect();
    let together = |log: Vec<(u64, DramCommandRecord)>| {
        log.windows(2).filter(|pair| pair[0].0 == pair[1].0).count()
    };
    assert!(together(commands(&parameters, &requests, 10_000)) > 0);
    parameters.dual_command = false;
    assert_eq!(together(commands(&parameters, &requests, 10_000)), 0);
}

#[test]
fn ranks_are_refreshed_in_turn() {
    let parameters = DramParameters {
        ranks: 2,
        ..DramPreset::Ddr4X8.parameters()
    };
    let log = commands(&parameters, &[], 12480 * 10 + 1);
    let expected: Vec<_> = (1..=20)
        .map(|turn| {
            (
                turn * 6240,
                DramCommandRecord::Refresh((turn as usize - 1) % 2),
            )
        })
        .collect();
    // All except the last rounds are skipped: compare those that were executed.
    assert_eq!(log, expected[expected.len() - log.len()..]);
    let mut channel = Channel::new(&parameters, ());
    channel.advance(12480 * 10 + 1);
    assert_eq!(channel.commands().refresh, 20);
}

#[test]
fn a_refresh_closes_rows_and_the_reads_wait() {
    let mut parameters = DramPreset::Ddr4X8.parameters();
    parameters.t_refi = 5000;
    let (one, other) = (place(0, 7, 0), place(0, 7, 1));
    let log = commands(&parameters, &[read(4900, one), read(5001, other)], 6000);
    assert_eq!(
        log,
        [
            (4901, to(Activate, one)),
            (4923, to(Read, one)),
            (5000, to(Precharge, one)),
            (5022, DramCommandRecord::Refresh(0)),
            (5582, to(Activate, other)),
            (5604, to(Read, other)),
        ]
    );
}
