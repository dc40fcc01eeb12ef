//! The notes of the times at which keys expire: each key that expires has one, at its time or
//! before, and is deleted at its time, whatever was done to it.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use super::replay::execute_at;
use nearfield_server::client::ClientSession;
use nearfield_server::clock::now_ms;
use nearfield_server::config::ServerOptions;
use nearfield_server::keyspace::notes::Note;
use nearfield_server::keyspace::{DatabaseAccess, DatabaseKeys, Effects, Home, KeyView, Keyspace};
use nearfield_server_testkit::connection::{TestkitConnection, encode_lines};
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::{Nearfield, UnservedServer};
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::saving::logging_into;
use nearfield_server_testkit::state::state;
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

/// Executes `act` on the keys of a keyspace at a given time.
fn at<R>(keyspace: &Keyspace, now_ms: u64, act: impl FnOnce(&mut DatabaseKeys<'_>) -> R) -> R {
    let mut databases = keyspace.exclude();
    let mut effects = Effects::default();
    let access = DatabaseAccess::Exclusive(&mut databases);
    act(&mut DatabaseKeys::new(
        keyspace,
        access,
        0,
        now_ms,
        &mut effects,
    ))
}

fn notes(keyspace: &Keyspace) -> Vec<(u64, String)> {
    let notes = keyspace.share()[0].notes(u64::MAX, usize::MAX).unwrap();
    let text = |(time, key): Note| (time, String::from_utf8(key).unwrap());
    notes.into_iter().map(text).collect()
}

fn note(time_ms: u64, key: &str) -> (u64, String) {
    (time_ms, key.to_owned())
}

fn is_there(keyspace: &Keyspace, key: &str) -> bool {
    keyspace.share()[0].read(key.as_bytes(), |_| ()).unwrap() == Some(())
}

fn set(keyspace: &Keyspace, key: &str, expires_at_ms: Option<u64>) {
    at(keyspace, 0, |keys| {
        keys.set_string(key.as_bytes(), b"v", expires_at_ms)
    })
    .unwrap();
}

#[test]
fn a_later_time_leaves_the_note_until_it_is_due() {
    let keyspace = Keyspace::new(Home::Local);
    set(&keyspace, "k", Some(1000));
    set(&keyspace, "k", Some(5000));
    assert_eq!(notes(&keyspace), [note(1000, "k")]);
    at(&keyspace, 0, |keys| keys.set_expiry(b"k", Some(6000))).unwrap();
    assert_eq!(notes(&keyspace), [note(1000, "k")]);
    assert_eq!(at(&keyspace, 999, |keys| keys.expire_due(10)), Ok(0));
    assert_eq!(at(&keyspace, 1000, |keys| keys.expire_due(10)), Ok(1));
    assert!(is_there(&keyspace, "k"));
    assert_eq!(notes(&keyspace), [note(6000, "k")]);
    let ttl = at(&keyspace, 1000, |keys| keys.peek(b"k").unwrap().unwrap());
    assert_eq!(ttl.expires_at_ms, Some(6000));
    assert_eq!(at(&keyspace, 5999, |keys| keys.expire_due(10)), Ok(0));
    assert_eq!(at(&keyspace, 6000, |keys| keys.expire_due(10)), Ok(1));
    assert!(!is_there(&keyspace, "k"));
    assert_eq!(notes(&keyspace), []);
}

#[test]
fn an_earlier_time_moves_the_note_at_once() {
    let keyspace = Keyspace::new(Home::Local);
    set(&keyspace, "k", Some(5000));
    set(&keyspace, "k", Some(1000));
    assert_eq!(notes(&keyspace), [note(1000, "k")]);
    set(&keyspace, "k", Some(5000));
    // Later than the note, though earlier than the key's time.
    at(&keyspace, 0, |keys| keys.set_expiry(b"k", Some(2000))).unwrap();
    assert_eq!(notes(&keyspace), [note(1000, "k")]);
    at(&keyspace, 0, |keys| keys.set_expiry(b"k", Some(900))).unwrap();
    assert_eq!(notes(&keyspace), [note(900, "k")]);
    assert_eq!(at(&keyspace, 900, |keys| keys.expire_due(10)), Ok(1));
    assert!(!is_there(&keyspace, "k"));
}

#[test]
fn keys_that_are_gone_or_do_not_expire_have_no_note() {
    let keyspace = Keyspace::new(Home::Local);
    let prolonged = |key: &str| {
        set(&keyspace, key, Some(1000));
        set(&keyspace, key, Some(5000));
    };
    prolonged("k");
    assert_eq!(at(&keyspace, 0, |keys| keys.remove(b"k")), Ok(true));
    assert_eq!(notes(&keyspace), []);
    prolonged("k");
    set(&keyspace, "k", None);
    assert_eq!(notes(&keyspace), []);
    prolonged("k");
    at(&keyspace, 0, |keys| keys.set_expiry(b"k", None)).unwrap();
    assert_eq!(notes(&keyspace), []);
    prolonged("k");
    // A read that finds the key expired.
    assert_eq!(at(&keyspace, 5000, |keys| keys.exists(b"k")), Ok(false));
    assert_eq!(notes(&keyspace), []);
    // A string that is changed in place keeps its time, and so its note.
    prolonged("k");
    at(&keyspace, 0, |keys| {
        keys.edit_string(b"k", |text| text.append(b"w"))
    })
    .unwrap();
    assert_eq!(notes(&keyspace), [note(1000, "k")]);
}

#[test]
fn a_renamed_key_takes_its_time_and_no_note_along() {
    let keyspace = Keyspace::new(Home::Local);
    let rename = |from: &str, to: &str| {
        let (from, to) = (from.as_bytes(), to.as_bytes());
        at(&keyspace, 0, |keys| keys.rename(from, 0, to)).unwrap();
    };
    set(&keyspace, "a", Some(1000));
    set(&keyspace, "a", Some(5000));
    rename("a", "b");
    assert_eq!(notes(&keyspace), [note(5000, "b")]);
    set(&keyspace, "c", Some(2000));
    rename("b", "c");
    assert_eq!(notes(&keyspace), [note(2000, "c")]);
    assert_eq!(at(&keyspace, 2000, |keys| keys.expire_due(10)), Ok(1));
    assert_eq!(notes(&keyspace), [note(5000, "c")]);
    set(&keyspace, "d", None);
    rename("d", "c");
    assert_eq!(notes(&keyspace), []);
    state(&keyspace);
}

/// Prolonged keys are skipped, and a search that finds only prolonged keys still ends.
#[test]
fn the_key_that_expires_next_is_found_behind_early_notes() {
    const KEYS: u64 = 2000;
    for exact in [Some(40), Some(KEYS + 500), None] {
        let keyspace = Keyspace::new(Home::Local);
        for number in 0..KEYS {
            set(&keyspace, &format!("k{number}"), Some(1000 + number));
            set(&keyspace, &format!("k{number}"), Some(100_000 + number));
        }
        if let Some(behind) = exact {
            set(&keyspace, "exact", Some(1000 + behind));
        }
        let soonest = keyspace.exclude()[0].soonest().unwrap().unwrap();
        state(&keyspace);
        match exact {
            Some(40) => assert_eq!(soonest, (1040, b"exact".to_vec())),
            _ => assert_eq!(soonest, (100_000, b"k0".to_vec())),
        }
    }
}

/// Commands in which `K` is a key and `A` a time since 1970.
const COMMANDS: &[&str] = &[
    "SET K 1 PXAT A",
    "SET K 1 PXAT A",
    "SET K 1 PXAT A",
    "SET K 1",
    "SET K 1 KEEPTTL",
    "INCR K",
    "APPEND K 1",
    "PEXPIREAT K A",
    "PEXPIREAT K A GT",
    "PEXPIREAT K A LT",
    "PERSIST K",
    "GETEX K PXAT A",
    "DEL K",
    "GETDEL K",
    "RENAME K K",
    "COPY K K REPLACE",
    "RPUSH l K",
    "PEXPIREAT l A",
    "LPOP l",
    "GET K",
];

#[test]
fn keys_expire_at_their_times_whatever_was_done_to_them() {
    seeds::each(60, |seed| {
        let mut random = SmallRng::seed_from_u64(seed);
        let server = UnservedServer::new(ServerOptions::default());
        let mut now = 1_000_000;
        for _ in 0..400 {
            let line = COMMANDS.choose(&mut random).unwrap();
            let word = |word: &str, random: &mut SmallRng| match word {
                "K" => format!("k{}", random.random_range(0..5)).into_bytes(),
                // Some of these times have passed already.
                "A" => format!("{}", now + random.random_range(0..60) - 3).into_bytes(),
                word => word.as_bytes().to_vec(),
            };
            let words: Vec<Vec<u8>> = line.split(' ').map(|w| word(w, &mut random)).collect();
            let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            execute_at(&server, &mut ClientSession::internal(), &args, now, false);
            if random.random_bool(0.2) {
                now += random.random_range(0..20);
                let limit = random.random_range(1..4);
                while at(&server.keyspace, now, |keys| keys.expire_due(limit)).unwrap() == limit {}
                let keys = state(&server.keyspace);
                let times = keys.values().filter_map(|(_, time)| *time);
                assert!(times.min() > Some(now) || keys.values().all(|(_, time)| time.is_none()));
                assert!(!server.keyspace.share()[0].is_note_due(now));
            }
        }
    });
}

fn exchange(connection: &mut TestkitConnection, lines: &[String]) -> Vec<RespReplyValue> {
    connection
        .exchange(&encode_lines(lines), lines.len())
        .unwrap()
}

/// Keys keep the times that batches of commands set, in batches that are applied and in batches
/// that are folded.
#[test]
fn batches_leave_one_note_for_each_key_that_expires() {
    let folder = TestkitFolder::new();
    let options = || logging_into(&folder, 1);
    let far = now_ms() + 1_000_000;
    let mut random = SmallRng::seed_from_u64(7);
    let mut times: BTreeMap<u32, Option<u64>> = BTreeMap::new();
    let server = Nearfield::start(options());
    let mut connection = server.connect();
    for round in 0..300 {
        let mut lines = Vec::new();
        for _ in 0..random.random_range(1..30) {
            let (key, time) = (
                random.random_range(0..10),
                far + random.random_range(0..9) * 1000,
            );
            let choice = match round % 3 {
                0 => random.random_range(4..6),
                _ => random.random_range(0..6),
            };
            match choice {
                0..=2 => lines.push(format!("SET k{key} 1 PXAT {time}")),
                3 => lines.push(format!("INCR k{key}")),
                4 => lines.push(format!("SET k{key} 1")),
                _ => lines.push(format!("DEL k{key}")),
            }
            match choice {
                0..=2 => drop(times.insert(key, Some(time))),
                3 => drop(times.entry(key).or_insert(None)),
                4 => drop(times.insert(key, None)),
                _ => drop(times.remove(&key)),
            }
        }
        exchange(&mut connection, &lines);
        let kept = state(&server.server.keyspace);
        let kept = kept.into_iter().map(|((_, key), (_, time))| (key, time));
        let expected = times
            .iter()
            .map(|(key, time)| (format!("k{key}").into_bytes(), *time));
        assert_eq!(kept.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
    // After a restart each note is at its key's time or before, and each key has its time.
    let before = state(&server.server.keyspace);
    drop((connection, server));
    let server = Nearfield::start(options());
    assert_eq!(state(&server.server.keyspace), before);
    let info = server.connect().command(&[b"INFO", b"keyspace"]).unwrap();
    let expiring = times.values().flatten().count();
    let expected = format!("keys={},expires={expiring}", times.len());
    assert!(
        info.to_string().contains(&expected),
        "{info} without {expected}"
    );
}

#[test]
fn a_key_that_was_prolonged_is_deleted_at_its_time_by_a_server() {
    let server = Nearfield::with_threads(1);
    let mut connection = server.connect();
    let lines = [
        "SET k 1 PX 150",
        "SET k 1 PX 700",
        "SET gone 1 PX 150",
        "SET l 1 PX 150",
    ];
    exchange(&mut connection, &lines.map(String::from));
    let noted = notes(&server.server.keyspace);
    exchange(&mut connection, &["EXPIRE l 1000".to_owned()]);
    let began = std::time::Instant::now();
    let keys = || server.server.keyspace.share()[0].len().unwrap();
    while keys() > 1 {
        assert!(began.elapsed().as_secs() < 20, "keys are left");
        let early = notes(&server.server.keyspace);
        if keys() == 2 {
            // The note of `k` has moved, or is about to.
            assert_eq!(early.len(), 2);
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(noted.len(), 3);
    assert!(began.elapsed().as_millis() > 500);
    assert!(is_there(&server.server.keyspace, "l"));
    let [(time, key)] = &notes(&server.server.keyspace)[..] else {
        panic!("notes")
    };
    assert!(key == "l" && *time > now_ms() + 900_000);
}

/// Note of the expiry does not fit the index, although the key does.
#[test]
fn a_key_that_is_too_long_for_a_note_is_as_before() {
    let server = Nearfield::with_threads(1);
    let mut connection = server.connect();
    // A command with such a long word is executed alone; a key within a batch is shorter.
    let long = "k".repeat(64 << 10);
    for _ in 0..2 {
        let lines = [format!("SETEX {long} 100 v"), format!("EXISTS {long}")];
        let answers = exchange(&mut connection, &lines);
        assert!(
            matches!(answers[0], RespReplyValue::Error(_)),
            "{}",
            answers[0]
        );
        assert_eq!(answers[1], RespReplyValue::Integer(0));
    }
    state(&server.server.keyspace);
}
