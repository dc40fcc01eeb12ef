//! Fields that expire while the server runs: in batches, with a log, under other names.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server::config::{Durability, Options};
use nearfield_server_testkit::connection::{Connection, encode};
use nearfield_server_testkit::folder::Folder;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::reply::Value;
use nearfield_server_testkit::state::{State, state};
use nearfield_server_testkit::steps::{ask, ask_number, ask_text, eventually, info};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

fn logging(folder: &Folder) -> Options {
    Options {
        threads: 2,
        persistence: Durability {
            directory: Some(folder.0.clone()),
            log: Some(true),
            save: Some(Vec::new()),
            ..Durability::default()
        },
        ..Options::default()
    }
}

/// Sends commands together, so that they are executed in batches.
fn send(connection: &mut Connection, commands: &[String]) {
    let mut request = Vec::new();
    for command in commands {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        encode(&mut request, &words);
    }
    connection.send(&request).unwrap();
    for command in commands {
        let reply = connection.receive().unwrap();
        // Which keys are there is left to chance.
        let may_fail = command.starts_with("RENAME") || command.starts_with("COPY");
        assert!(
            may_fail || !matches!(reply, Value::Error(_)),
            "{command}: {reply}"
        );
    }
}

/// Waits until no field is left that expires.
fn all_expired(server: &Nearfield) {
    eventually("all fields have expired", || {
        let databases = server.server.keyspace.share();
        databases.iter().all(|it| it.field_notes().is_empty())
    });
}

/// What there is, without keys that were given other names.
fn settled(server: &Nearfield) -> State {
    all_expired(server);
    state(&server.server.keyspace)
}

#[test]
fn what_expires_beside_batches_comes_back_from_the_log() {
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
    let folder = Folder::new();
    let server = Nearfield::start(logging(&folder));
    let mut connection = server.connect();
    let random = &mut SmallRng::seed_from_u64(7);
    // Keys that are renamed have to be there.
    let ready: Vec<String> = (0..6).map(|key| format!("HSET k{key} stays 1")).collect();
    for _ in 0..300 {
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
    }
    let expected = settled(&server);
    assert!(info(&mut connection, "expired_subkeys") > 100);
    assert!(expected.len() > 2);
    drop(server);
    let again = Nearfield::start(logging(&folder));
    assert_eq!(settled(&again), expected);
}

#[test]
fn hashes_go_with_their_last_field_under_any_name() {
    let server = Nearfield::start(Options::default());
    let mut connection = server.connect();
    for command in [
        "HSETEX renamed PX 300 FIELDS 1 f v",
        "HSETEX moved PX 300 FIELDS 1 f v",
        "HSETEX swapped PX 300 FIELDS 1 f v",
        "HSETEX copied PX 300 FIELDS 1 f v",
        "HSETEX deleted PX 300 FIELDS 1 f v",
        "HSETEX replaced PX 300 FIELDS 1 f v",
        "HSETEX prolonged PX 300 FIELDS 1 f v",
        "HSETEX partly PX 300 FIELDS 1 f v",
        "HSET partly stays v",
        "RENAME renamed other",
        "MOVE moved 1",
        "COPY copied copy",
        "DEL deleted",
        "SET replaced v",
        "HEXPIRE prolonged 100 FIELDS 1 f",
        "SWAPDB 0 2",
    ] {
        assert!(
            !ask(&mut connection, command).starts_with("(error)"),
            "{command}"
        );
    }
    assert!(
        ask_text(&mut connection, "INFO keyspace")
            .contains("keys=1,expires=0,avg_ttl=0,subexpiry=1")
    );
    eventually("fields expire", || {
        info(&mut connection, "expired_subkeys") == 6
    });
    ask(&mut connection, "SELECT 2");
    assert_eq!(ask_number(&mut connection, "DBSIZE"), 3);
    assert_eq!(
        ask(&mut connection, "HGETALL partly"),
        "1) \"stays\"\n2) \"v\""
    );
    assert_eq!(ask_number(&mut connection, "EXISTS replaced prolonged"), 2);
    ask(&mut connection, "FLUSHALL");
    all_expired(&server);
}

#[test]
fn many_fields_expire_in_turn() {
    let server = Nearfield::start(Options::default());
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
