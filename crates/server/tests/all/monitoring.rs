//! The fields of `INFO` and `MEMORY STATS` that monitoring programs read.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::redis::RedisPeerProcess;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::saving::saving_into;
use nearfield_server_testkit::steps::{ask, ask_text, connect, info};
use std::collections::BTreeSet;

/// Fields of Redis 7.0 that describe its build, or quantities that are not counted here.
const ABSENT: &[&str] = &[
    "aof_rewrites_consecutive_failures",
    "atomicvar_api",
    "expire_cycle_cpu_milliseconds",
    "gcc_version",
    "io_threaded_reads_processed",
    "io_threaded_writes_processed",
    "monotonic_clock",
    "process_supervised",
    "total_reads_processed",
    "total_writes_processed",
    "used_cpu_sys_main_thread",
    "used_cpu_user_main_thread",
];

fn fields(connection: &mut TestkitConnection) -> BTreeSet<String> {
    let text = ask_text(connection, "INFO");
    let names = text.lines().filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.to_owned()).collect()
}

/// Returns the names of `MEMORY STATS`.
fn figures(connection: &mut TestkitConnection) -> BTreeSet<String> {
    let RespReplyValue::Array(elements) = connection.command(&[b"MEMORY", b"STATS"]).unwrap()
    else {
        panic!("no array");
    };
    let names = elements.chunks(2).map(|pair| pair[0].to_string());
    names
        .map(|name| name.trim_matches('"').to_owned())
        .collect()
}

#[test]
fn those_of_redis_are_there() {
    let Some(redis) = RedisPeerProcess::start(&[]) else {
        return;
    };
    let folder = TestkitFolder::new();
    let ours = Nearfield::start(saving_into(&folder, 2));
    let (mut ours, mut redis) = (ours.connect(), connect(redis.address));
    for connection in [&mut ours, &mut redis] {
        ask(connection, "SET key value");
    }
    let lacking: Vec<String> = fields(&mut redis)
        .difference(&fields(&mut ours))
        .cloned()
        .collect();
    assert_eq!(lacking, ABSENT);
    let lacking: Vec<String> = figures(&mut redis)
        .difference(&figures(&mut ours))
        .cloned()
        .collect();
    assert_eq!(lacking, Vec::<String>::new());
}

#[test]
fn what_was_loaded_and_denied_is_counted() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(saving_into(&folder, 2));
    let mut client = server.connect();
    for command in ["SET a 1", "SET b 1", "LPUSH c 1", "SAVE"] {
        ask(&mut client, command);
    }
    assert_eq!(info(&mut client, "rdb_last_load_keys_loaded"), 0);
    assert_eq!(info(&mut client, "current_save_keys_total"), 0);
    drop((client, server));
    let server = Nearfield::start(saving_into(&folder, 2));
    let mut client = server.connect();
    assert_eq!(info(&mut client, "rdb_last_load_keys_loaded"), 3);
    assert_eq!(info(&mut client, "rdb_last_load_keys_expired"), 0);
    ask(&mut client, "ACL SETUSER u on nopass ~k* &c* +get +auth");
    let mut user = server.connect();
    for command in [
        "AUTH u x",
        "GET key",
        "GET other",
        "SET key 1",
        "AUTH nobody x",
    ] {
        ask(&mut user, command);
    }
    for (name, count) in [("cmd", 1), ("key", 1), ("channel", 0), ("auth", 1)] {
        assert_eq!(
            info(&mut client, &format!("acl_access_denied_{name}")),
            count,
            "{name}"
        );
    }
}
