//! Acknowledged writes survive `kill -9` at any instant, with and without a disk that fails.
//!
//! The server is another process: this test program executes itself. Clients write under `always`,
//! while snapshots and rewrites run, until the server is killed. It is started again on the same
//! folder, and each key must then hold the last acknowledged value, or one that was sent after that
//! and got no reply. `NEARFIELD_KILLS` sets the number of kills (8), `NEARFIELD_SEED` the seed.

use super::killable::{KillableServer, is_server};
use nearfield_server_testkit::connection::{TestkitConnection, encode};
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::reply::RespReplyValue;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// The values that each key may have: the last acknowledged one, and those sent since; `None`:
/// absent.
type Possible = BTreeMap<String, BTreeSet<Option<u64>>>;

/// The values of keys after a command.
type Outcome = Vec<(String, Option<u64>)>;

const CLIENTS: u64 = 3;
const KEYS: u64 = 12;

/// Writes until the connection breaks. The keys are this client's alone.
fn client(
    address: SocketAddr,
    number: u64,
    first: u64,
    mut possible: Possible,
    acknowledged: &mut u64,
) -> (Possible, u64) {
    let mut random = SmallRng::seed_from_u64(first ^ (number << 32));
    let mut count = first;
    let Ok(mut connection) = TestkitConnection::open(address) else {
        return (possible, count);
    };
    loop {
        // Several requests at once, each with its number of replies.
        let mut requests = Vec::new();
        let mut outcomes: Vec<(usize, Outcome)> = Vec::new();
        for _ in 0..random.random_range(1..8) {
            count += 1;
            let value = count.to_string();
            let key = format!("k:{number}:{}", random.random_range(0..KEYS));
            let mut send = |words: &[&str]| {
                let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
                encode(&mut requests, &words);
            };
            match random.random_range(0..20) {
                0..10 => {
                    send(&["SET", &key, &value]);
                    outcomes.push((1, vec![(key, Some(count))]));
                }
                10..12 => {
                    send(&["DEL", &key]);
                    outcomes.push((1, vec![(key, None)]));
                }
                12..18 => {
                    let other = format!("pair:{number}:{}", key.len() % 2);
                    let third = format!("{other}:z");
                    send(&["MULTI"]);
                    send(&["SET", &other, &value]);
                    send(&["SET", &third, &value]);
                    send(&["EXEC"]);
                    outcomes.push((4, vec![(other, Some(count)), (third, Some(count))]));
                }
                18 => {
                    send(&["BGREWRITEAOF"]);
                    outcomes.push((1, Vec::new()));
                }
                _ => {
                    send(&["BGSAVE"]);
                    outcomes.push((1, Vec::new()));
                }
            }
        }
        for (key, value) in outcomes.iter().flat_map(|(_, outcome)| outcome) {
            let nothing = || BTreeSet::from([None]);
            let values = possible.entry(key.clone()).or_insert_with(nothing);
            values.insert(*value);
        }
        if connection.send(&requests).is_err() {
            return (possible, count);
        }
        // The possible values once these have replies; a later request may have been executed, too.
        let mut later = outcomes.clone();
        for (replies, outcome) in &outcomes {
            let mut last = None;
            for _ in 0..*replies {
                match connection.receive() {
                    Ok(value) => last = Some(value),
                    Err(_) => return (possible, count),
                }
            }
            later.remove(0);
            let refused = matches!(&last, Some(RespReplyValue::Error(_)));
            if let Some(RespReplyValue::Array(values)) = &last {
                let fails = |value| matches!(value, &RespReplyValue::Error(_));
                assert!(
                    !values.iter().any(fails),
                    "half of a transaction: {values:?}"
                );
            }
            if refused {
                // Each value is sent only once, and this one was not stored.
                for (key, value) in outcome.iter().filter(|(_, value)| value.is_some()) {
                    possible.entry(key.clone()).or_default().remove(value);
                }
            } else {
                *acknowledged += 1;
                for (key, value) in outcome {
                    let mut left = BTreeSet::from([*value]);
                    let after = later.iter().flat_map(|(_, outcome)| outcome);
                    left.extend(
                        after
                            .filter(|(other, _)| other == key)
                            .map(|(_, value)| *value),
                    );
                    possible.insert(key.clone(), left);
                }
            }
        }
    }
}

/// Compares the server's values with the possible ones, and keeps the found ones as possible.
fn check(address: SocketAddr, possible: &mut Possible, context: &str) {
    let mut connection = TestkitConnection::open(address).expect("the server listens");
    for (key, values) in possible.iter_mut() {
        let found = match connection.command(&[b"GET", key.as_bytes()]) {
            Ok(RespReplyValue::Bulk(value)) => {
                let text = String::from_utf8(value).expect("digits");
                Some(text.parse().expect("a number"))
            }
            Ok(RespReplyValue::NullBulk) => None,
            other => panic!("{context}: {key}: {other:?}"),
        };
        assert!(
            values.contains(&found),
            "{context}: {key} holds {found:?} and may hold {values:?}"
        );
        *values = BTreeSet::from([found]);
    }
    for (key, values) in possible.iter() {
        let whole = possible.get(&format!("{key}:z"));
        assert!(
            whole.is_none_or(|other| other == values),
            "{context}: half of a transaction at {key}"
        );
    }
    let expected = possible.values().filter(|values| !values.contains(&None));
    let size = connection.command(&[b"DBSIZE"]).expect("a size");
    assert_eq!(
        size,
        RespReplyValue::Integer(expected.count() as i64),
        "{context}"
    );
}

fn kill_often(faulty: bool, tiers: bool) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let kills = number("NEARFIELD_KILLS").unwrap_or(8);
    let seed = number("NEARFIELD_SEED").unwrap_or_else(rand::random);
    let mut random = SmallRng::seed_from_u64(seed);
    let (mut folder, mut possible, mut count) = (TestkitFolder::new(), Possible::new(), 0);
    let mut acknowledged = 0;
    for kill in 0..kills {
        let context = format!(
            "NEARFIELD_SEED={seed}, kill {kill}, in {}",
            folder.0.display()
        );
        if kill % 100 == 99 {
            (folder, possible) = (TestkitFolder::new(), Possible::new());
        }
        let faults = faulty.then(|| random.random());
        let mut process = KillableServer::start(&folder.0, faults, tiers);
        let address = process.address;
        check(address, &mut possible, &context);
        let time = Duration::from_micros(random.random_range(5_000..150_000));
        let before = count;
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|number| {
                    let own =
                        |key: &&String| key.split(':').nth(1) == Some(number.to_string().as_str());
                    let own: Possible = possible
                        .iter()
                        .filter(|(key, _)| own(key))
                        .map(|(key, values)| (key.clone(), values.clone()))
                        .collect();
                    // A server with a bad disk closes connections; the client connects again.
                    scope.spawn(move || {
                        let (mut state, mut acknowledged) = ((own, before), 0);
                        loop {
                            let (own, last) =
                                client(address, number, state.1, state.0, &mut acknowledged);
                            let progress = last > state.1;
                            state = (own, last);
                            if !faulty || !progress || TestkitConnection::open(address).is_err() {
                                return (state, acknowledged);
                            }
                        }
                    })
                })
                .collect();
            std::thread::sleep(time);
            process.kill();
            for client in clients {
                let ((own, last), told) = client.join().expect("a client");
                acknowledged += told;
                count = count.max(last);
                possible.extend(own);
            }
        });
    }
    let process = KillableServer::start(&folder.0, None, tiers);
    check(process.address, &mut possible, "at last");
    println!("{kills} kills, {acknowledged} requests acknowledged");
}

#[test]
fn what_was_acknowledged_survives_kills() {
    if !is_server() {
        kill_often(false, false);
    }
}

#[test]
fn what_was_acknowledged_survives_kills_while_values_move_between_tiers() {
    if !is_server() {
        kill_often(false, true);
    }
}

#[test]
fn what_was_acknowledged_survives_kills_and_a_bad_disk() {
    if !is_server() {
        kill_often(true, false);
    }
}
