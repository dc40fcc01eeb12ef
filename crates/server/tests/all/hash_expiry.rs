//! Fields that expire while the server runs: in batches, with a log, and in renamed hashes.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use super::replay::execute_at;
use nearfield_server::client::ClientSession;
use nearfield_server::config::ServerOptions;
use nearfield_server::keyspace::{DatabaseAccess, DatabaseKeys, Effects, ValueMoveError};
use nearfield_server::server::ServerCore;
use nearfield_server_testkit::connection::{TestkitConnection, encode_lines};
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::{Nearfield, UnservedServer};
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::saving::logging_into;
use nearfield_server_testkit::state::{State, state};
use nearfield_server_testkit::steps::{ask, ask_number, eventually, info};
use nearfield_server_testkit::stir::{TierMoveCounts, small_tiers, stir};
use nearfield_testkit::stop::AtEnd;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Sends commands together, so that they are executed in batches.
fn send(connection: &mut TestkitConnection, commands: &[String]) {
    let request = encode_lines(commands);
    connection.send(&request).unwrap();
    for command in commands {
        let reply = connection.receive().unwrap();
        // The existence of keys is left to chance.
        let may_fail = command.starts_with("RENAME") || command.starts_with("COPY");
        assert!(
            may_fail || !matches!(reply, RespReplyValue::Error(_)),
            "{command}: {reply}"
        );
    }
}

/// Waits until no fields with expiry times are left.
fn all_expired(server: &Nearfield) {
    eventually("all fields have expired", || {
        let databases = server.server.keyspace.share();
        databases.iter().all(|it| it.field_notes().is_empty())
    });
    assert!(server.server.keyspace.cold_notes.is_empty());
}

/// Returns the keyspace after all fields have expired.
fn settled(server: &Nearfield) -> State {
    all_expired(server);
    state(&server.server.keyspace)
}

#[test]
fn what_expires_beside_batches_comes_back_from_the_log() {
    let folder = TestkitFolder::new();
    expire_beside_batches(|| logging_into(&folder, 2), |_, run| run());
}

#[test]
fn what_expires_while_hashes_move_between_tiers_comes_back_from_the_log() {
    let (folder, tiers) = (TestkitFolder::new(), TestkitFolder::new());
    let options = || ServerOptions {
        tiers: Some(small_tiers(&tiers.0)),
        ..logging_into(&folder, 2)
    };
    expire_beside_batches(options, |server, run| {
        let (stop, moved) = (AtomicBool::new(false), TierMoveCounts::default());
        thread::scope(|scope| {
            scope.spawn(|| stir(&server.server.keyspace, &stop, &moved));
            let _stop = AtEnd(&stop);
            run();
        });
        assert!(moved.values.load(Ordering::Relaxed) > 0);
    });
}

/// Executes random commands in batches, while `beside` does something else.
fn expire_beside_batches(
    options: impl Fn() -> ServerOptions,
    beside: impl FnOnce(&Nearfield, &mut dyn FnMut()),
) {
    const COMMANDS: &[&str] = &[
        "HSETEX K PX T FIELDS 2 F N F N",
        "HPEXPIRE K T FIELDS 2 F F",
        "HPEXPIRE K 1 FIELDS 1 F",
        "HINCRBY K F N",
        "HINCRBY K F 1",
        "HSET K F N",
        "HSETNX K F N",
        "HDEL K F",
        "HGET K F",
        "HMGET K F F",
        "HINCRBYFLOAT K F N",
        "RENAME K K",
        "COPY K K REPLACE",
        "GET other",
    ];
    let server = Nearfield::start(options());
    let mut connection = server.connect();
    let random = &mut SmallRng::seed_from_u64(7);
    // Keys that are renamed must exist.
    let ready: Vec<String> = (0..6).map(|key| format!("HSET k{key} stays 1")).collect();
    let mut run = || {
        send(&mut connection, &ready);
        let commands = (0..40).map(|_| {
            let words = COMMANDS
                .choose(random)
                .unwrap()
                .split(' ')
                .map(|word| match word {
                    "K" => format!("k{}", random.random_range(0..6)),
                    "F" => format!("f{}", random.random_range(0..5)),
                    "N" => random.random_range(0..9).to_string(),
                    "T" => random.random_range(1..30).to_string(),
                    other => other.to_owned(),
                });
            words.collect::<Vec<_>>().join(" ")
        });
        let commands: Vec<String> = commands.collect();
        send(&mut connection, &commands);
    };
    beside(&server, &mut || (0..300).for_each(|_| run()));
    let expected = settled(&server);
    assert!(info(&mut connection, "expired_subkeys") > 0);
    assert!(expected.len() > 2);
    drop(server);
    let again = Nearfield::start(options());
    assert_eq!(settled(&again), expected);
}

#[test]
fn a_field_that_was_over_before_a_batch_is_so_when_the_log_is_read() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(logging_into(&folder, 2));
    let mut connection = server.connect();
    for number in 0..50 {
        let set = format!("HSET k{number} f 10 g 10");
        let expire = format!("HPEXPIRE k{number} 1 FIELDS 1 f");
        send(&mut connection, &[set, expire]);
        // The field has expired then, whether the server has removed it or not.
        thread::sleep(Duration::from_millis(2));
        let add = format!("HINCRBY k{number} f 1");
        send(&mut connection, &[add.clone(), "GET other".to_owned(), add]);
        assert_eq!(ask(&mut connection, &format!("HGET k{number} f")), "\"2\"");
    }
    let expected = settled(&server);
    drop(server);
    let again = Nearfield::start(logging_into(&folder, 2));
    assert_eq!(settled(&again), expected);
}

/// Executes a command at a given time, which must not fail, and returns the reply.
fn run_at(server: &ServerCore, client: &mut ClientSession, command: &str, now_ms: u64) -> String {
    let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    let (_, reply) = execute_at(server, client, &args, now_ms, false);
    let reply = String::from_utf8(reply).unwrap();
    assert!(!reply.starts_with('-'), "{command}: {reply}");
    reply
}

/// Returns the number of fields that the cycle removes from a database at a given time.
pub(crate) fn expire_at(server: &ServerCore, database: usize, now_ms: u64) -> u64 {
    let expired = || server.keyspace.expired_fields.load(Ordering::Relaxed);
    let before = expired();
    let mut effects = Effects::default();
    let mut databases = server.keyspace.exclude();
    let access = DatabaseAccess::Exclusive(&mut databases);
    let mut keys = DatabaseKeys::new(&server.keyspace, access, database, now_ms, &mut effects);
    while keys.expire_fields(2).unwrap() >= 2 {}
    expired() - before
}

#[test]
fn hashes_go_with_their_last_field_under_any_name() {
    go_with_their_last_field(ServerOptions::default(), |_| {});
}

#[test]
fn hashes_in_cold_tiers_go_with_their_last_field_under_any_name() {
    let tiers = TestkitFolder::new();
    let options = ServerOptions {
        tiers: Some(small_tiers(&tiers.0)),
        ..ServerOptions::default()
    };
    // Files, because compressed memory does not accept such small hashes.
    let notes = go_with_their_last_field(options, |server| move_all(server, 2));
    assert_eq!(notes, 0);
}

/// Moves all values to a tier.
fn move_all(server: &ServerCore, tier: usize) {
    let databases = server.keyspace.exclude();
    for (number, database) in databases.iter().enumerate() {
        let all = (Bound::Unbounded, Bound::Unbounded);
        let entries = database.entries().into_iter();
        let keys = entries.flat_map(|entries| entries.range(all));
        let keys: Vec<Vec<u8>> = keys.map(|entry| entry.unwrap().0).collect();
        for key in keys {
            let moved = server
                .keyspace
                .move_value(&databases, (number, &key), tier, 0);
            assert!(
                matches!(moved, Ok(()) | Err(ValueMoveError::There)),
                "{moved:?}"
            );
        }
    }
}

/// Calls `before` before each command. Returns the number of notes of cold hashes that are left.
fn go_with_their_last_field(options: ServerOptions, before: impl Fn(&ServerCore)) -> usize {
    const START_MS: u64 = 1_800_000_000_000;
    let (server, mut client) = (UnservedServer::new(options), ClientSession::internal());
    let mut run = |command: &str, after_ms| {
        before(&server);
        let reply = run_at(&server, &mut client, command, START_MS + after_ms);
        before(&server);
        reply
    };
    for command in [
        "HSETEX renamed PX 300 FIELDS 1 f v",
        "HSETEX moved PX 300 FIELDS 1 f v",
        "HSETEX swapped PX 300 FIELDS 1 f v",
        "HSETEX copied PX 300 FIELDS 1 f v",
        "HSETEX deleted PX 300 FIELDS 1 f v",
        "HSETEX replaced PX 300 FIELDS 1 f v",
        "HSETEX prolonged PX 300 FIELDS 1 f v",
        "HSETEX partly PX 300 FIELDS 2 f v g v",
        "HSET partly stays v",
        "RENAME renamed other",
        "MOVE moved 1",
        "COPY copied copy",
        "DEL deleted",
        "SET replaced v",
        "HPEXPIRE prolonged 500 FIELDS 1 f",
        "SWAPDB 0 2",
    ] {
        run(command, 0);
    }
    assert_eq!(
        [1, 2].map(|number| expire_at(&server, number, START_MS + 299)),
        [0, 0]
    );
    assert_eq!(
        [0, 1, 2].map(|number| expire_at(&server, number, START_MS + 300)),
        [0, 1, 6]
    );
    run("SELECT 2", 300);
    assert_eq!(run("DBSIZE", 300), ":3\r\n");
    assert_eq!(
        run("HGETALL partly", 300),
        "*2\r\n$5\r\nstays\r\n$1\r\nv\r\n"
    );
    assert_eq!(expire_at(&server, 2, START_MS + 499), 0);
    assert_eq!(expire_at(&server, 2, START_MS + 500), 1);
    assert_eq!(run("EXISTS replaced prolonged", 500), ":1\r\n");
    server.keyspace.cold_notes.len()
}

#[test]
fn many_fields_expire_in_turn() {
    let server = Nearfield::start(ServerOptions::default());
    let mut connection = server.connect();
    for number in 0..2000 {
        let key = number % 3;
        let command = format!("HSETEX k{key} PX 100 FIELDS 1 f{number} v");
        ask(&mut connection, &command);
    }
    eventually("no key is left", || {
        ask_number(&mut connection, "DBSIZE") == 0
    });
    assert_eq!(info(&mut connection, "expired_subkeys"), 2000);
}
