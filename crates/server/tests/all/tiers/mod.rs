//! Values that move between tiers at every step give the same replies as values that never do, and
//! each tier accounts for them to the byte.
//!
//! A server without tiers and one with small ones get the same random commands. After each few of
//! them, values of the second server move to random tiers, in all directions, and all values are
//! counted again.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod accounts;
mod adm;
mod faults;
mod fields;
mod nodes;
mod room;

use accounts::{check, check_settled, keys_of};
use nearfield_server::commands::TABLE;
use nearfield_server::config::ServerOptions;
use nearfield_server::keyspace::moving::tier_of;
use nearfield_server::keyspace::{
    Databases, Keyspace, Outside, ValueMove, ValueMoveError, ValueRecord,
};
use nearfield_server::object::RedisType;
use nearfield_server_testkit::commands::{GeneratedCommand, Generator, KEYS, Mode};
use nearfield_server_testkit::connection::{TestkitConnection, encode};
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::saving::{logging_into, saving_into};
use nearfield_server_testkit::steps::eventually;
use nearfield_server_testkit::stir::small_tiers;
use nearfield_tiers::keep::ValueName;
use nearfield_tiers::{ColdPlace, Specification, TierKind, TierRefusal, Tiers};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const EPISODE_COMMANDS: usize = 300;
const EPISODES: u64 = 80;

/// Commands that make values longer, so that compression is worthwhile, and some that read them as
/// a whole. `K` is a key, `T` a long text and `N` a number.
const OWN: &[&str] = &[
    "SET K T",
    "APPEND K T",
    "SETRANGE K 900 T",
    "RPUSH K T T T",
    "LPUSH K T N",
    "RPUSH K N T N T N T",
    "LSET K N T",
    "LINSERT K BEFORE N T",
    "LREM K 1 N",
    "LTRIM K 1 -2",
    "LRANGE K N -3",
    "LINDEX K N",
    "LPOS K N",
    "LPOP K 3",
    "RPOP K 2",
    "LMPOP 2 K K RIGHT COUNT 3",
    "HSET K f T g T",
    "HSET K N T",
    "HSET K N T N T N T f T",
    "HSETNX K N T",
    "HGET K f",
    "HMGET K f N g f",
    "HGETALL K",
    "HKEYS K",
    "HVALS K",
    "HSTRLEN K f",
    "HEXISTS K N",
    "HDEL K f N N",
    "HINCRBY K N 7",
    "HINCRBYFLOAT K f 1.5",
    "HSCAN K 0 COUNT 3",
    "HSCAN K 7 COUNT 2 NOVALUES",
    "SADD K T N",
    "SADD K 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30",
    "ZADD K 1.5 T 2 N",
    "GET K",
    "STRLEN K",
    "GETRANGE K 10 200",
    "GETDEL K",
    "GETSET K T",
    "MGET K K K",
    "DUMP K",
    "COPY K K REPLACE",
    "RENAME K K",
    "OBJECT ENCODING K",
    "TYPE K",
    "EXPIRE K 10000",
    "PERSIST K",
    "SORT K ALPHA",
    "SORT K ALPHA BY k*->f GET # GET k*->g",
    "SINTERSTORE K K K",
    "ZUNIONSTORE K 2 K K",
    "LMOVE K K LEFT RIGHT",
    "SMOVE K K 7",
    "KPREFIX k WITHVALUES",
    "KNEAREST K WITHVALUE",
    "KNEAREST K BEFORE WITHVALUE",
    "BITOP OR K K K",
    "FLUSHDB",
];

fn tiered(folder: &TestkitFolder, threads: usize) -> ServerOptions {
    let kinds = [
        TierKind::Memory,
        TierKind::Compressed,
        TierKind::File(folder.0.clone()),
    ];
    small(&kinds, folder, threads)
}

/// Returns options with small tiers of these kinds.
fn small(kinds: &[TierKind], folder: &TestkitFolder, threads: usize) -> ServerOptions {
    let tiers = kinds.iter().map(|kind| Specification {
        kind: kind.clone(),
        capacity_bytes: 1 << 20,
    });
    let tiers: Vec<Specification> = tiers.collect();
    ServerOptions {
        tiers: Some(Arc::new(Tiers::open(&tiers).unwrap())),
        ..saving_into(folder, threads)
    }
}

fn own_command(random: &mut SmallRng) -> GeneratedCommand {
    let line = OWN.choose(random).unwrap();
    let word = |word: &str, random: &mut SmallRng| match word {
        "K" => KEYS.choose(random).unwrap().to_vec(),
        "T" => {
            let words = ["lantern ", "harbour ", "meadow ", "copper "];
            let count = random.random_range(10..120);
            let text: String = (0..count).map(|_| *words.choose(random).unwrap()).collect();
            text.into_bytes()
        }
        "N" => random.random_range(0..50).to_string().into_bytes(),
        other => other.as_bytes().to_vec(),
    };
    GeneratedCommand {
        words: line.split(' ').map(|it| word(it, random)).collect(),
        family: "tiers",
        mode: match *line {
            line if line.starts_with("SORT") => Mode::Unordered,
            _ => Mode::Exact,
        },
    }
}

/// Number of values that have moved, by their type, source tier and target tier.
type Moved = BTreeMap<(&'static str, usize, usize), usize>;

/// Moves values to other tiers.
fn shuffle(keyspace: &Keyspace, random: &mut SmallRng, moved: &mut Moved) {
    let databases = keyspace.exclude();
    for (number, key, stored) in keys_of(&databases) {
        if random.random_bool(0.3) {
            continue;
        }
        let nodes = keyspace.nodes_of(&databases, (number, &key));
        if !nodes.is_empty() {
            let is_parted = nodes.iter().any(|(_, place)| place.is_some());
            if is_parted || random.random_bool(0.6) {
                let kind = ValueRecord::parse(&stored).kind;
                let named = (number, key.as_slice(), kind);
                shuffle_nodes(keyspace, &databases, named, random, moved);
                continue;
            }
        }
        let to = random.random_range(0..keyspace.cold.tiers().unwrap().count());
        match keyspace.move_value(&databases, (number, &key), to, 0) {
            Ok(()) => {
                let record = ValueRecord::parse(&stored);
                let course = (record.kind.name(), tier_of(&record), to);
                *moved.entry(course).or_default() += 1;
            }
            Err(ValueMoveError::There | ValueMoveError::Refused(_)) => {}
            Err(error) => panic!("{}: {error}", key.escape_ascii()),
        }
    }
}

/// Moves nodes of a value to other tiers.
fn shuffle_nodes(
    keyspace: &Keyspace,
    databases: &Databases,
    (part, key, kind): (usize, &[u8], RedisType),
    random: &mut SmallRng,
    moved: &mut Moved,
) {
    let what = match kind {
        RedisType::List => "chunk of a list",
        _ => "value of a hash",
    };
    let count = keyspace.cold.tiers().unwrap().count();
    let all = random.random_bool(0.2);
    let to_all = random.random_range(0..count);
    for (node, place) in keyspace.nodes_of(databases, (part, key)) {
        let to = random.random_range(0..count);
        if !all && random.random_bool(0.5) {
            continue;
        }
        let to = if all { to_all } else { to };
        let named = ValueName {
            part,
            key: key.to_vec(),
            node,
        };
        match keyspace.move_node(databases, &named, to, &mut 0) {
            Ok(()) => {
                let from = place.map_or(0, ColdPlace::tier);
                *moved.entry((what, from, to)).or_default() += 1;
            }
            Err(ValueMoveError::There | ValueMoveError::Refused(_)) => {}
            Err(error) => panic!("{}: {error}", key.escape_ascii()),
        }
    }
}

/// Sends commands at once and returns the replies.
fn ask(connection: &mut TestkitConnection, commands: &[GeneratedCommand]) -> Vec<RespReplyValue> {
    let mut request = Vec::new();
    for sent in commands {
        let words: Vec<&[u8]> = sent.words.iter().map(Vec::as_slice).collect();
        encode(&mut request, &words);
    }
    connection.exchange(&request, commands.len()).unwrap()
}

/// Plays an episode on both servers. `disturb` changes commands before the second one gets them.
fn play(
    servers: [&Nearfield; 2],
    seed: u64,
    disturb: impl Fn(&mut GeneratedCommand),
) -> Result<Moved, String> {
    let [plain, tiered] = servers;
    let mut random = SmallRng::seed_from_u64(seed);
    let known = |name: &[u8]| TABLE.find(name).is_some();
    let mut generator = Generator::new(SmallRng::seed_from_u64(seed), known);
    let (mut one, mut other) = (plain.connect(), tiered.connect());
    for connection in [&mut one, &mut other] {
        connection.command(&[b"FLUSHALL"]).unwrap();
        connection.command(&[b"FUNCTION", b"FLUSH"]).unwrap();
        // Every other time lists have many nodes.
        let size: &[u8] = if seed.is_multiple_of(2) { b"3" } else { b"-2" };
        let words: [&[u8]; 4] = [b"CONFIG", b"SET", b"list-max-listpack-size", size];
        connection.command(&words).unwrap();
    }
    let (mut moved, mut sent) = (Moved::new(), 0);
    let mut is_open = false;
    while sent < EPISODE_COMMANDS {
        let count = [1, 1, 3, 8].choose(&mut random).copied().unwrap();
        let commands: Vec<GeneratedCommand> = (0..count)
            .map(|_| match random.random_bool(0.5) {
                true => own_command(&mut random),
                false => generator.next_command(),
            })
            .collect();
        sent += count;
        let expected = ask(&mut one, &commands);
        let mut disturbed = commands.clone();
        disturbed.iter_mut().for_each(&disturb);
        let found = ask(&mut other, &disturbed);
        for ((command, expected), found) in commands.iter().zip(expected).zip(found) {
            let name = command.words[0].to_ascii_uppercase();
            let ends = matches!(name.as_slice(), b"EXEC" | b"DISCARD");
            // The reply of a transaction is compared as a whole where it has no order.
            let same = match ends && is_open {
                true => same_length(&expected, &found),
                false => command.mode.same(&found, &expected),
            };
            if name == b"MULTI" {
                is_open = true;
            } else if ends {
                is_open = false;
            }
            if !same {
                return Err(format!(
                    "seed {seed}: {}\nwith tiers {found}\nwithout {expected}",
                    command.shown()
                ));
            }
        }
        shuffle(&tiered.server.keyspace, &mut random, &mut moved);
        check(tiered).map_err(|why| format!("seed {seed}: {why}"))?;
    }
    Ok(moved)
}

fn same_length(one: &RespReplyValue, other: &RespReplyValue) -> bool {
    match (one, other) {
        (RespReplyValue::Array(one), RespReplyValue::Array(other)) => one.len() == other.len(),
        (one, other) => one == other,
    }
}

#[test]
fn values_that_move_at_every_step_are_answered_as_values_that_stay() {
    let folders = [TestkitFolder::new(), TestkitFolder::new()];
    let plain = Nearfield::start(saving_into(&folders[0], 1));
    let server = Nearfield::start(tiered(&folders[1], 1));
    let number = |name, default| {
        let text = std::env::var(name).ok();
        text.map_or(default, |text| text.parse().expect("a number"))
    };
    let first = number("NEARFIELD_SEED", 1);
    let mut moved = Moved::new();
    for seed in first..first + number("NEARFIELD_EPISODES", EPISODES) {
        let played = play([&plain, &server], seed, |_| ());
        for (course, count) in played.unwrap_or_else(|error| panic!("{error}")) {
            *moved.entry(course).or_default() += count;
        }
    }
    println!("{moved:?}");
    // All types, and nodes of lists and hashes, in all directions.
    assert_eq!(moved.len(), (RedisType::ALL.len() + 2) * 6);
}

#[test]
fn values_that_move_to_the_memory_of_a_node_and_back_are_answered_as_values_that_stay() {
    let folders = [TestkitFolder::new(), TestkitFolder::new()];
    let plain = Nearfield::start(saving_into(&folders[0], 1));
    let kinds = [
        TierKind::Memory,
        TierKind::Node(0),
        TierKind::Compressed,
        TierKind::File(folders[1].0.clone()),
    ];
    let server = Nearfield::start(small(&kinds, &folders[1], 1));
    let mut moved = Moved::new();
    for seed in 1..50 {
        let played = play([&plain, &server], seed, |_| ());
        for (course, count) in played.unwrap_or_else(|error| panic!("{error}")) {
            *moved.entry(course).or_default() += count;
        }
    }
    // All types, and nodes of lists and hashes, in all directions.
    assert_eq!(moved.len(), (RedisType::ALL.len() + 2) * 12, "{moved:?}");
    let mut connection = server.connect();
    let value = record(1);
    connection.command(&[b"SET", b"key", &value]).unwrap();
    let words: [&[u8]; 4] = [b"NEARFIELD.TIER", b"MOVE", b"key", b"1"];
    assert_eq!(
        connection.command(&words).unwrap(),
        RespReplyValue::Integer(1)
    );
    let tier = connection.command(&[b"OBJECT", b"TIER", b"key"]).unwrap();
    assert_eq!(tier, RespReplyValue::Bulk(b"numa".to_vec()));
    assert_eq!(
        connection.command(&[b"GET", b"key"]).unwrap(),
        RespReplyValue::Bulk(value)
    );
}

#[test]
fn a_command_that_is_left_out_is_noticed() {
    let folders = [TestkitFolder::new(), TestkitFolder::new()];
    let plain = Nearfield::start(saving_into(&folders[0], 1));
    let server = Nearfield::start(tiered(&folders[1], 1));
    let mislay = |sent: &mut GeneratedCommand| {
        if sent.words[0] == b"APPEND" {
            sent.words = vec![b"PING".to_vec()];
        }
    };
    play([&plain, &server], 1, mislay).unwrap_err();
}

#[test]
fn a_place_that_is_lost_or_released_twice_is_noticed() {
    for lost in [true, false] {
        let folder = TestkitFolder::new();
        let server = Nearfield::start(tiered(&folder, 1));
        let keyspace = &server.server.keyspace;
        let value = [b'x'; 1000];
        let mut connection = server.connect();
        connection.command(&[b"SET", b"k1", &value]).unwrap();
        connection.command(&[b"SET", b"k2", &value]).unwrap();
        for key in [b"k1", b"k2"] {
            let words: [&[u8]; 4] = [b"NEARFIELD.TIER", b"MOVE", key, b"2"];
            let moved = connection.command(&words).unwrap();
            assert_eq!(moved, RespReplyValue::Integer(1));
        }
        check(&server).unwrap();
        let databases = keyspace.exclude();
        let (_, key, stored) = keys_of(&databases).swap_remove(0);
        match lost {
            true => drop(databases[0].entries().unwrap().remove(&key)),
            false => match ValueRecord::parse(&stored).outside() {
                Some(Outside::Place(place)) => keyspace.cold.release(place),
                other => panic!("{other:?}"),
            },
        }
        drop(databases);
        check(&server).unwrap_err();
    }
}

/// The points at which a migration ends early.
#[derive(Clone, Copy, Debug)]
enum MoveFailurePoint {
    AfterRead,
    AfterWrite,
    Changed,
    Deleted,
}

/// Returns a value of each type: the command that creates it, and one that changes a part of it.
fn values_of_all_types() -> [[Vec<Vec<u8>>; 2]; 5] {
    let text = String::from_utf8(record(1)).unwrap();
    let words = |line: &str| {
        let word = |word: &str| match word {
            "T" => text.clone().into_bytes(),
            other => other.as_bytes().to_vec(),
        };
        line.split(' ').map(word).collect()
    };
    [
        ["SET string T", "APPEND string more"],
        ["RPUSH list T T", "RPUSH list more"],
        ["HSET hash f T g T", "HSET hash h more"],
        ["SADD set T 1", "SADD set more"],
        ["ZADD zset 1.5 T", "ZADD zset 2 more"],
    ]
    .map(|lines| lines.map(words))
}

fn send(connection: &mut TestkitConnection, words: &[Vec<u8>]) -> RespReplyValue {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    connection.command(&words).unwrap()
}

/// Makes a migration fail, and returns the value that is expected then.
fn fail_at(
    server: &Nearfield,
    kind: &[Vec<Vec<u8>>; 2],
    to: usize,
    failure: MoveFailurePoint,
) -> RespReplyValue {
    let keyspace = &server.server.keyspace;
    let tiers = keyspace.cold.tiers().unwrap();
    let mut connection = server.connect();
    let key = kind[0][1].as_slice();
    let dump = |connection: &mut TestkitConnection| connection.command(&[b"DUMP", key]).unwrap();
    let before = dump(&mut connection);
    let begun = {
        let databases = keyspace.share();
        ValueMove::begin(keyspace, &databases, (0, key), 0).unwrap()
    };
    check_settled(keyspace);
    if matches!(failure, MoveFailurePoint::AfterRead) {
        return before;
    }
    let put = |value: &[u8]| tiers.put(to, &[value]).unwrap()[0];
    let usage = tiers.usage(to);
    let place = (to > 0).then(|| put(&begun.value));
    if let (Some(usage), Some(now)) = (usage, tiers.usage(to)) {
        assert_eq!(now.values, usage.values + 1);
        let bytes = usage.value_bytes + begun.value.len() as u64;
        assert_eq!(now.value_bytes, bytes);
    }
    let after = match failure {
        MoveFailurePoint::AfterRead | MoveFailurePoint::AfterWrite => {
            place.into_iter().for_each(|it| keyspace.cold.release(it));
            return before;
        }
        MoveFailurePoint::Changed => {
            send(&mut connection, &kind[1]);
            dump(&mut connection)
        }
        MoveFailurePoint::Deleted => {
            connection.command(&[b"DEL", key]).unwrap();
            RespReplyValue::NullBulk
        }
    };
    let databases = keyspace.share();
    let published = begun.publish(&databases, place);
    assert!(
        matches!(published, Err(ValueMoveError::Changed)),
        "{published:?}"
    );
    after
}

#[test]
fn a_migration_that_fails_at_any_step_leaves_the_value_and_all_accounts() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(tiered(&folder, 1));
    let keyspace = &server.server.keyspace;
    let mut connection = server.connect();
    let _still = server.server.tiering.pause();
    for kind in values_of_all_types() {
        let key = kind[0][1].as_slice();
        for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            for failure in [
                MoveFailurePoint::AfterRead,
                MoveFailurePoint::AfterWrite,
                MoveFailurePoint::Changed,
                MoveFailurePoint::Deleted,
            ] {
                connection.command(&[b"DEL", key]).unwrap();
                send(&mut connection, &kind[0]);
                if from > 0 {
                    let databases = keyspace.exclude();
                    let moved = keyspace.move_value(&databases, (0, key), from, 0);
                    moved.unwrap();
                }
                let expected = fail_at(&server, &kind, to, failure);
                let found = connection.command(&[b"DUMP", key]).unwrap();
                let shown = key.escape_ascii();
                assert_eq!(found, expected, "{shown} {from} to {to}: {failure:?}");
                check_settled(keyspace);
            }
        }
    }
}

#[test]
fn a_tier_that_is_full_refuses_a_migration_and_nothing_changes() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(tiered(&folder, 1));
    let keyspace = &server.server.keyspace;
    let tiers = keyspace.cold.tiers().unwrap();
    let mut connection = server.connect();
    let _still = server.server.tiering.pause();
    for to in [1, 2] {
        // A dictionary that is trained meanwhile makes records smaller. Values that are smaller
        // than every record fill the rest.
        let mut filler = Vec::new();
        while let Ok(places) = tiers.put(to, &[&record(filler.len() as u64)]) {
            filler.extend(places);
        }
        while let Ok(places) = tiers.put(to, &[&[b'x'; 64]]) {
            filler.extend(places);
        }
        for kind in values_of_all_types() {
            let key = kind[0][1].as_slice();
            connection.command(&[b"DEL", key]).unwrap();
            send(&mut connection, &kind[0]);
            let before = connection.command(&[b"DUMP", key]).unwrap();
            let (usage, heap) = (tiers.usage(to), keyspace.heap.used_bytes());
            let databases = keyspace.exclude();
            let moved = keyspace.move_value(&databases, (0, key), to, 0);
            drop(databases);
            assert!(
                matches!(moved, Err(ValueMoveError::Refused(TierRefusal::Full))),
                "{moved:?}"
            );
            assert_eq!((usage, heap), (tiers.usage(to), keyspace.heap.used_bytes()));
            assert_eq!(connection.command(&[b"DUMP", key]).unwrap(), before);
        }
        filler.into_iter().for_each(|place| tiers.release(place));
        check_settled(keyspace);
    }
}

/// Starts a server with a working mover, and with `mebibytes` in each tier.
fn moving(folder: &TestkitFolder, mebibytes: [u64; 3], options: ServerOptions) -> Nearfield {
    let kinds = [
        TierKind::Memory,
        TierKind::Compressed,
        TierKind::File(folder.0.clone()),
    ];
    let tiers: Vec<Specification> = kinds
        .into_iter()
        .zip(mebibytes)
        .filter(|(_, mebibytes)| *mebibytes > 0)
        .map(|(kind, mebibytes)| Specification {
            kind,
            capacity_bytes: mebibytes << 20,
        })
        .collect();
    Nearfield::start(ServerOptions {
        tiers: Some(Arc::new(Tiers::open(&tiers).unwrap())),
        ..options
    })
}

/// Returns a record that resembles one of an application.
fn record(number: u64) -> Vec<u8> {
    let mut random = SmallRng::seed_from_u64(number);
    let mut word = || {
        let words = ["harbour", "lantern", "violet", "meadow", "copper", "willow"];
        *words.choose(&mut random).unwrap()
    };
    let words: Vec<&str> = (0..40).map(|_| word()).collect();
    format!("{{\"id\":{number},\"tags\":[\"{}\"]}}", words.join("\",\"")).into_bytes()
}

fn name(number: u64) -> Vec<u8> {
    format!("record:{number:08}").into_bytes()
}

/// Returns bytes that cannot be compressed.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = SmallRng::seed_from_u64(seed);
    (0..bytes).map(|_| random.random()).collect()
}

/// Returns a number of INFO tiers.
fn figure(info: &str, field: &str) -> f64 {
    let at = info.find(field).map(|at| at + field.len());
    let rest = at.and_then(|at| info.get(at..)).unwrap();
    let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    rest[..digits.unwrap_or(rest.len())].parse().unwrap()
}

/// Reads values, three of four times one in ten of them, and returns the share that the memory has
/// served.
fn read_hot(server: &Nearfield, connection: &mut TestkitConnection, keys: u64, reads: u64) -> f64 {
    let keyspace = &server.server.keyspace;
    let cold_served = || {
        let tiers = keyspace.cold.tiers().unwrap().count();
        let served = (1..tiers).map(|tier| &keyspace.cold.traffic(tier).unwrap().served);
        served.map(|it| it.load(Ordering::Relaxed)).sum::<u64>()
    };
    let mut random = SmallRng::seed_from_u64(7);
    let before = cold_served();
    for _ in 0..reads / 50 {
        let mut request = Vec::new();
        for _ in 0..50 {
            let number = match random.random_bool(0.75) {
                true => random.random_range(0..keys / 10) * 10,
                false => random.random_range(0..keys),
            };
            encode(&mut request, &[b"GET", &name(number)]);
        }
        connection.send(&request).unwrap();
        for _ in 0..50 {
            let reply = connection.receive().unwrap();
            assert!(matches!(reply, RespReplyValue::Bulk(_)), "{reply}");
        }
    }
    1.0 - (cold_served() - before) as f64 / reads as f64
}

#[test]
fn what_is_used_most_comes_into_memory_and_stays_there() {
    const KEYS: u64 = 12_000;
    let folder = TestkitFolder::new();
    let server = moving(&folder, [2, 8, 0], saving_into(&folder, 2));
    let mut connection = server.connect();
    for number in 0..KEYS {
        let words: [&[u8]; 3] = [b"SET", &name(number), &record(number)];
        connection.command(&words).unwrap();
    }
    // The memory has room for about a sixth of the values.
    let mut share = read_hot(&server, &mut connection, KEYS, 20_000);
    let first = share;
    // Values are moved in the background, as fast as the machine allows.
    for round in 0..100 {
        share = read_hot(&server, &mut connection, KEYS, 15_000);
        if round >= 20 && share > 0.7 {
            break;
        }
    }
    let info = connection.command(&[b"INFO", b"tiers"]).unwrap();
    let info = info.to_string();
    let moved = figure(&info, "moved_in=") + figure(&info, "moved_out=");
    let to_and_fro = figure(&info, "tiers_ping_pong:") / moved;
    println!("{first:.3} initially, {share:.3} later; moved to and fro {to_and_fro:.4}\n{info}");
    assert!(
        share > first && share > 0.7,
        "{first} initially, {share} later"
    );
    // Their number depends on how often the mover runs. The policy's tests, which have no clock,
    // allow one in a hundred.
    assert!(
        to_and_fro < 0.05,
        "{to_and_fro} of {moved} moves are to and fro"
    );
    // Values that are read once, one after the other, push nothing out of the memory.
    for number in 0..KEYS {
        connection.command(&[b"GET", &name(number)]).unwrap();
    }
    let after = read_hot(&server, &mut connection, KEYS, 20_000);
    println!("{after:.3} after a pass over all");
    assert!(
        after > share - 0.03,
        "{share} before a pass, {after} after it"
    );
    check(&server).unwrap();
}

/// Overwrites everything that the files of this process's tiers have on the disk.
fn damage_files() -> usize {
    let mut damaged = 0;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        if !target.to_string_lossy().contains("damaged/nearfield-tier-") {
            continue;
        }
        let file = std::fs::OpenOptions::new().write(true).open(entry.path());
        let file = file.unwrap();
        let bytes = file.metadata().unwrap().len() as usize;
        file.write_all_at(&vec![0x5a; bytes], 0).unwrap();
        damaged += 1;
    }
    damaged
}

#[test]
fn a_value_whose_bytes_are_others_answers_an_error_and_the_log_repairs_it() {
    if !std::path::Path::new("/proc/self/fd").exists() {
        println!("skipped: there is no /proc with the open files");
        return;
    }
    let folder = TestkitFolder::new();
    let options = || ServerOptions {
        tiers: Some(small_tiers(&folder.0.join("damaged"))),
        ..logging_into(&folder, 2)
    };
    const KEYS: u64 = 2000;
    let server = Nearfield::start(options());
    let mut connection = server.connect();
    for number in 0..KEYS {
        let (key, value) = (name(number), record(number));
        connection.command(&[b"SET", &key, &value]).unwrap();
        let words: [&[u8]; 4] = [b"NEARFIELD.TIER", b"MOVE", &key, b"2"];
        let moved = connection.command(&words).unwrap();
        assert!(matches!(moved, RespReplyValue::Integer(0 | 1)), "{moved}");
    }
    connection.command(&[b"SET", b"hot", b"value"]).unwrap();
    assert!(damage_files() > 0);
    let (mut wrong, mut right) = (Vec::new(), 0);
    for number in 0..KEYS {
        let key = name(number);
        match connection.command(&[b"GET", &key]).unwrap() {
            RespReplyValue::Error(text) => {
                let text = String::from_utf8(text).unwrap();
                let named = String::from_utf8(key.clone()).unwrap();
                assert!(
                    text.contains(&named) && text.contains("differ from those"),
                    "{text}"
                );
                wrong.push(number);
            }
            // The values that were appended last are still in memory.
            value => {
                assert_eq!(value, RespReplyValue::Bulk(record(number)));
                right += 1;
            }
        }
    }
    println!("{} damaged, {right} not", wrong.len());
    assert!(wrong.len() > 1000);
    // All else still works: other keys, and commands that need no value.
    let ask =
        |connection: &mut TestkitConnection, words: &[&[u8]]| connection.command(words).unwrap();
    assert_eq!(
        ask(&mut connection, &[b"GET", b"hot"]),
        RespReplyValue::Bulk(b"value".to_vec())
    );
    let wrong_first = wrong[0];
    let [first, second, third] = [wrong[0], wrong[1], wrong[2]].map(name);
    assert_eq!(
        ask(&mut connection, &[b"EXISTS", &first]),
        RespReplyValue::Integer(1)
    );
    let refused = ask(&mut connection, &[b"APPEND", &first, b"more"]);
    assert!(matches!(refused, RespReplyValue::Error(_)), "{refused}");
    assert_eq!(
        ask(&mut connection, &[b"DEL", &second]),
        RespReplyValue::Integer(1)
    );
    ask(&mut connection, &[b"SET", &third, b"anew"]);
    assert_eq!(
        ask(&mut connection, &[b"GET", &third]),
        RespReplyValue::Bulk(b"anew".to_vec())
    );
    // No snapshot lacks a value.
    let saved = ask(&mut connection, &[b"SAVE"]);
    assert!(matches!(saved, RespReplyValue::Error(_)), "{saved}");
    drop(connection);
    drop(server);
    let server = Nearfield::start(options());
    let mut connection = server.connect();
    for number in wrong.into_iter().skip(3) {
        let found = connection.command(&[b"GET", &name(number)]).unwrap();
        assert_eq!(found, RespReplyValue::Bulk(record(number)));
    }
    let found = ask(&mut connection, &[b"GET", &first]);
    assert_eq!(found, RespReplyValue::Bulk(record(wrong_first)));
    check(&server).unwrap();
}

#[test]
fn uses_of_values_are_noted_in_the_database_that_has_their_keys_after_an_exchange() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(tiered(&folder, 1));
    let _still = server.server.tiering.pause();
    let mut connection = server.connect();
    let mut run = |words: &[&[u8]]| connection.command(words).unwrap();
    let (text, hash) = (name(1), name(2));
    run(&[b"SET", &text, &record(1)]);
    run(&[b"HSET", &hash, b"field", &record(2)]);
    for key in [&text, &hash] {
        let moved = run(&[b"NEARFIELD.TIER", b"MOVE", key, b"1"]);
        assert_eq!(moved, RespReplyValue::Integer(1));
    }
    run(&[b"SWAPDB", b"0", b"3"]);
    run(&[b"SELECT", b"3"]);
    assert_eq!(run(&[b"GET", &text]), RespReplyValue::Bulk(record(1)));
    let found = run(&[b"HGET", &hash, b"field"]);
    assert_eq!(found, RespReplyValue::Bulk(record(2)));
    let uses = server.server.keyspace.cold.take_uses();
    let parts: Vec<usize> = uses.iter().map(|it| it.part).collect();
    assert_eq!(parts, [3, 3]);
}

#[test]
fn pipelines_wait_for_files_in_their_order_and_also_when_the_client_sends_no_more() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(tiered(&folder, 2));
    let mut connection = server.connect();
    let values: Vec<Vec<u8>> = (0..300).map(record).collect();
    for (number, value) in (0..).zip(&values) {
        connection.command(&[b"SET", &name(number), value]).unwrap();
        let words: [&[u8]; 4] = [b"NEARFIELD.TIER", b"MOVE", &name(number), b"2"];
        connection.command(&words).unwrap();
    }
    // Some in one tier, some written between, some in a transaction.
    let mut request = Vec::new();
    let mut expected = Vec::new();
    for number in 0..300 {
        let key = name(number);
        encode(&mut request, &[b"GET", &key]);
        expected.push(RespReplyValue::Bulk(values[number as usize].clone()));
        encode(&mut request, &[b"SET", &key, b"new"]);
        expected.push(RespReplyValue::simple("OK"));
        encode(&mut request, &[b"GET", &key]);
        expected.push(RespReplyValue::Bulk(b"new".to_vec()));
    }
    connection.send(&request).unwrap();
    for expected in expected {
        assert_eq!(connection.receive().unwrap(), expected);
    }
    let words: [&[u8]; 4] = [b"SET", b"last", &values[0], b"KEEPTTL"];
    connection.command(&words).unwrap();
    let words: [&[u8]; 4] = [b"NEARFIELD.TIER", b"MOVE", b"last", b"2"];
    assert_eq!(
        connection.command(&words).unwrap(),
        RespReplyValue::Integer(1)
    );
    // A client that ends its side of the connection gets its replies first.
    let mut stream = std::net::TcpStream::connect(server.address).unwrap();
    stream.write_all(b"GET last\r\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    let length = values[0].len();
    assert!(
        reply.starts_with(format!("${length}\r\n").as_bytes()),
        "{}",
        reply.escape_ascii()
    );
    check(&server).unwrap();
}
