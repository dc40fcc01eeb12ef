//! The events that the latency monitor gets for keys that expire.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server::keyspace::{DatabaseAccess, DatabaseKeys, Effects, KeyView};
use nearfield_server_testkit::connection::{PATIENCE, TestkitConnection};
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::redis::RedisPeerProcess;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::saving::saving_into;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

fn ask(connection: &mut TestkitConnection, line: &str) -> RespReplyValue {
    let words: Vec<&[u8]> = line.split('|').map(str::as_bytes).collect();
    connection.command(&words).unwrap()
}

/// Lets many keys expire at once, which takes longer than a millisecond on any machine.
fn a_long_cycle_is_noted(address: SocketAddr) {
    let mut connection = TestkitConnection::open(address).unwrap();
    ask(&mut connection, "CONFIG|SET|latency-monitor-threshold|1");
    ask(&mut connection, "DEBUG|SET-ACTIVE-EXPIRE|0");
    let fill = "for i = 1, 50000 do redis.call('SET', 'k' .. i, 'v', 'PX', 1) end";
    ask(&mut connection, &format!("EVAL|{fill}|0"));
    // A pause, so that all have expired.
    std::thread::sleep(Duration::from_millis(20));
    ask(&mut connection, "DEBUG|SET-ACTIVE-EXPIRE|1");
    let began = Instant::now();
    loop {
        let RespReplyValue::Array(samples) = ask(&mut connection, "LATENCY|HISTORY|expire-cycle")
        else {
            panic!("no samples");
        };
        if !samples.is_empty() {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "no cycle is noted");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn cycles_that_delete_many_keys_are_noted() {
    let folder = TestkitFolder::new();
    a_long_cycle_is_noted(Nearfield::start(saving_into(&folder, 2)).address);
    if let Some(redis) = RedisPeerProcess::start(&["--enable-debug-command", "yes"]) {
        a_long_cycle_is_noted(redis.address);
    }
}

#[test]
fn deletions_of_keys_that_are_over_are_noted() {
    let folder = TestkitFolder::new();
    let nearfield = Nearfield::start(saving_into(&folder, 1));
    let server = &nearfield.server;
    let mut connection = nearfield.connect();
    ask(&mut connection, "DEBUG|SET-ACTIVE-EXPIRE|0");
    ask(&mut connection, "CONFIG|SET|latency-monitor-threshold|1000");
    ask(&mut connection, "SET|k|v|PX|1");
    std::thread::sleep(Duration::from_millis(20));
    let mut effects = Effects::default();
    {
        let mut databases = server.keyspace.exclude();
        let now_ms = nearfield_server::clock::now_ms();
        let access = DatabaseAccess::Exclusive(&mut databases);
        let mut keys = DatabaseKeys::new(&server.keyspace, access, 0, now_ms, &mut effects);
        assert!(!keys.exists(b"k").unwrap());
    }
    assert!(effects.longest_expiry > Duration::ZERO);
    // The expiry was short.
    server.log_effects(&mut effects);
    let latest = "LATENCY|HISTORY|expire-del";
    assert_eq!(
        ask(&mut connection, latest),
        RespReplyValue::Array(Vec::new())
    );
    effects.longest_expiry = Duration::from_secs(7);
    server.log_effects(&mut effects);
    let RespReplyValue::Array(samples) = ask(&mut connection, latest) else {
        panic!("no samples");
    };
    let [RespReplyValue::Array(sample)] = &samples[..] else {
        panic!("not one sample: {samples:?}");
    };
    assert_eq!(sample[1], RespReplyValue::Integer(7000));
    assert_eq!(effects.longest_expiry, Duration::ZERO);
}
