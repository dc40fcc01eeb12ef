//! A disk that becomes full at any write loses no acknowledged write, and reads are served.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use super::durability::{copy, failing, is_misconf, load, ok, run};
use nearfield_server::log::{Damage, LogSyncPolicy};
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::steps::eventually;
use std::path::Path;

/// Runs a history with a log, a rewrite and a snapshot on a disk that is full after `writes`
/// writes. Returns false if it had room for all.
fn go_until_full(writes: u64, policy: LogSyncPolicy) -> bool {
    let (folder, disk, server) = failing(true, policy);
    disk.faults.lock().writes_left = Some(writes);
    let status = || server.server.persistence.status();
    let is_idle = || status().running.is_none() && status().scheduled.is_none();
    // Values that must exist, and those that may exist: they were sent and not acknowledged.
    let (mut acknowledged, mut unknown) = (Vec::new(), Vec::new());
    let mut connection = server.connect();
    for number in 0..6 {
        match connection.command(&[b"SET", format!("k{number}").as_bytes(), b"v"]) {
            Ok(reply) if reply == ok() => acknowledged.push(number),
            Ok(reply) => assert!(is_misconf(&reply), "{writes}: {reply}"),
            Err(_) => {
                unknown.push(number);
                connection = server.connect();
            }
        }
        if number == 2 {
            run(&mut connection, "BGREWRITEAOF");
            eventually("the rewrite has ended", is_idle);
        }
        if number == 4 {
            run(&mut connection, "BGSAVE");
            eventually("the snapshot has ended", is_idle);
        }
        // Reads are served, whichever write failed.
        let read = run(&mut connection, "MGET k0 k1 k2 k3 k4 k5");
        let RespReplyValue::Array(values) = read else {
            panic!("{writes}: {read}")
        };
        for &number in &acknowledged {
            assert_eq!(
                values[number],
                RespReplyValue::Bulk(b"v".to_vec()),
                "{writes}"
            );
        }
        assert!(
            matches!(run(&mut connection, "INFO"), RespReplyValue::Bulk(_)),
            "{writes}"
        );
    }
    let is_full = disk.faults.lock().failed > 0;
    let check = |folder: &Path| {
        let state = load(folder, true, Damage::Refuse).unwrap();
        for number in 0..6 {
            let is_there = state.contains_key(&(0, format!("k{number}").into_bytes()));
            assert!(
                is_there || !acknowledged.contains(&number),
                "{writes}: k{number}"
            );
            let may_be = acknowledged.contains(&number) || unknown.contains(&number);
            assert!(!is_there || may_be, "{writes}: k{number}");
        }
    };
    check(&copy(&folder).0);
    // With room again, writes are accepted again.
    disk.faults.lock().writes_left = None;
    eventually("there is room", || !server.server.refuses_writes());
    assert_eq!(run(&mut server.connect(), "SET again v"), ok());
    drop(server);
    check(&folder.0);
    is_full
}

#[test]
fn a_disk_that_is_full_at_any_write_loses_nothing() {
    let mut writes = 0;
    let policy = |writes: u64| match writes.is_multiple_of(2) {
        true => LogSyncPolicy::Always,
        false => LogSyncPolicy::EverySecond,
    };
    while go_until_full(writes, policy(writes)) {
        writes += 1;
        assert!(writes < 100, "there is no end");
    }
    assert!(writes > 8, "{writes}");
}
