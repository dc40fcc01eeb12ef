//! Pipelines of several connections get the same replies when their commands are executed as
//! batches as when these are executed one at a time, and their log rebuilds the same keyspace.
//!
//! Each connection has keys of its own, so that its replies do not depend on the others, while the
//! batches hold commands of all connections. The comparison is a server with a slow log that takes
//! all commands, so that none of them is part of a batch. Times at which keys expire are far away
//! or in the past, so that only replies that are such times depend on the clock.
//!
//! A server with its keys in modules or in a pool gives the same replies as one with its keys in
//! its own memory.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield::{Pim, PoolPlacement};
use nearfield_fabric_testkit::ShmNodes;
use nearfield_server::commands::TABLE;
use nearfield_server::config::ServerOptions;
use nearfield_server::keyspace::Home;
use nearfield_server_testkit::connection::{TestkitConnection, encode};
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::saving::{logging_into, saving_into};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

const CONNECTIONS: usize = 4;
const KEYS: u32 = 6;
const ROUNDS: usize = 60;
/// Number of commands of a connection in one round.
const PIPELINE: usize = 40;

/// Commands in which `K` is a key, `V` a value, `N` a number, `L` a long value, `A` a time far away
/// and `P` a time in the past.
const BATCHED: &[&str] = &[
    "GET K",
    "GET K",
    "SET K V",
    "SET K N",
    "SET K V NX",
    "SET K V XX GET",
    "SET K N GET",
    "SET K N KEEPTTL",
    "SET K V PXAT A",
    "SET K N PXAT P",
    "SET K V PXAT P GET",
    "SET K V EX 0",
    "SET K V NX XX",
    "SETEX K 100000 V",
    "PSETEX K 0 V",
    "SETNX K V",
    "GETSET K N",
    "GETDEL K",
    "MGET K K K",
    "MGET K K K K K K K K",
    "MSET K V K N",
    "MSET K V K",
    "MSETNX K V K N",
    "DEL K",
    "DEL K K K",
    "UNLINK K K",
    "EXISTS K",
    "EXISTS K K K K",
    "TOUCH K K",
    "TYPE K",
    "STRLEN K",
    "GETRANGE K 1 -2",
    "GETRANGE K x -2",
    "SUBSTR K 0 2",
    "INCR K",
    "INCR K",
    "DECR K",
    "INCRBY K N",
    "DECRBY K N",
    "INCRBY K V",
    "INCRBYFLOAT K 0.5",
    "INCRBY K 9223372036854775807",
    "TTL absent",
    "PTTL absent",
    "EXPIRETIME K",
    "PEXPIRETIME K",
    "EXPIRE K 100000",
    "EXPIRE K 200000 NX",
    "EXPIREAT K 4100000000 XX GT",
    "EXPIREAT K 3900000000 LT",
    "EXPIRE K -1",
    "EXPIRE K x",
    "PEXPIRE K 0",
    "EXPIREAT K 4000000000",
    "PERSIST K",
    "GETEX K",
    "GETEX K PXAT A",
    "GETEX K PERSIST",
    "HGET K f",
    "HMGET K f g",
    "HSET K f V",
    "HSET K f V g N",
    "HSET K f V g",
    "HMSET K V N",
    "HSETNX K f V",
    "PFADD K",
    "PFADD K V",
    "PFADD K N N N",
    "KNEAREST K",
    "KNEAREST K BEFORE",
    "KNEAREST K AFTER WITHVALUE",
    "KNEAREST K BEFORE WITHVALUE",
    "KNEAREST K BEFORE AFTER",
];

const OTHERS: &[&str] = &[
    "GET",
    "GET K K",
    "NOSUCH K",
    "SET K L",
    "APPEND K V",
    "SETRANGE K 3 V",
    "SETBIT K 7 1",
    "RPUSH K V",
    "SADD K V",
    "HDEL K f g",
    "RENAME K K",
    "PEXPIREAT K A",
    "COPY K K REPLACE",
    "MULTI",
    "EXEC",
    "CLIENT REPLY SKIP",
    "PING",
];

type Words = Vec<Vec<u8>>;

struct BatchCommandGenerator {
    random: SmallRng,
    prefix: String,
    /// The filter for lines that may be used.
    is_possible: fn(&str) -> bool,
}

impl BatchCommandGenerator {
    fn new(seed: u64, connection: usize, is_possible: fn(&str) -> bool) -> BatchCommandGenerator {
        BatchCommandGenerator {
            random: SmallRng::seed_from_u64(seed * CONNECTIONS as u64 + connection as u64),
            prefix: format!("c{connection}:"),
            is_possible,
        }
    }

    /// Returns a command, mostly one that can be part of a batch.
    fn next(&mut self) -> Words {
        let all = if self.random.random_bool(0.92) {
            BATCHED
        } else {
            OTHERS
        };
        let line = loop {
            let line = all.choose(&mut self.random).unwrap();
            if (self.is_possible)(line) {
                break line;
            }
        };
        line.split(' ').map(|word| self.word(word)).collect()
    }

    fn word(&mut self, word: &str) -> Vec<u8> {
        let random = &mut self.random;
        match word {
            "K" => format!("{}{}", self.prefix, random.random_range(0..KEYS)).into_bytes(),
            "V" => [&b"v"[..], b"", b"17", b"\r\n", b"a longer value"]
                .choose(random)
                .unwrap()
                .to_vec(),
            "N" => random.random_range(-20..100).to_string().into_bytes(),
            "L" => vec![b'l'; random.random_range(4090..70_000)],
            "A" => random
                .random_range(4_000_000_000_000_u64..4_100_000_000_000)
                .to_string()
                .into_bytes(),
            "P" => b"1".to_vec(),
            other => other.as_bytes().to_vec(),
        }
    }

    /// Returns commands that set a key before and a key after the connection's own keys. They stay,
    /// so that no key of another connection is nearest to one of these.
    fn ends(&self) -> Vec<Words> {
        [format!("{}!", self.prefix), format!("{}~", self.prefix)]
            .map(|key| vec![b"SET".to_vec(), key.into_bytes(), b"end".to_vec()])
            .to_vec()
    }
}

/// Returns a generator for each connection.
fn generators(seed: u64, is_possible: fn(&str) -> bool) -> Vec<BatchCommandGenerator> {
    (0..CONNECTIONS)
        .map(|connection| BatchCommandGenerator::new(seed, connection, is_possible))
        .collect()
}

/// Sends a round of commands by all connections.
fn send_round(connections: &mut [TestkitConnection], lines: &mut [BatchCommandGenerator]) {
    let commands: Vec<Vec<Words>> = lines
        .iter_mut()
        .map(|lines| (0..PIPELINE).map(|_| lines.next()).collect())
        .collect();
    at_once(connections, &commands);
}

/// Appends a command in one of the forms in which a client may send it.
fn encode_in_form(request: &mut Vec<u8>, words: &[&[u8]], form: usize) {
    let start = request.len();
    encode(request, words);
    match form % 8 {
        // A line of quoted words, unless the line would be too long.
        1 if request.len() - start < 8 << 10 => {
            let quoted = words.iter().map(|word| {
                let bytes = word.iter().map(|byte| format!("\\x{byte:02x}"));
                format!("\"{}\"", bytes.collect::<String>())
            });
            let line = quoted.collect::<Vec<_>>().join(" ");
            request.truncate(start);
            request.extend_from_slice(line.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        // Zeros before the number of words.
        3 => drop(request.splice(start + 1..start + 1, *b"00")),
        5 => {
            // The byte after the last word's carriage return, which the server ignores.
            let end = request.len();
            request[end - 1] = b'x';
        }
        _ => {}
    }
}

fn request(commands: &[Words]) -> Vec<u8> {
    let mut request = Vec::new();
    for (number, words) in commands.iter().enumerate() {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        encode_in_form(&mut request, &words, number);
    }
    // The end of the replies is marked, because some commands get no reply. The mark is not part of
    // a transaction.
    encode(&mut request, &[b"CLIENT", b"REPLY", b"ON"]);
    encode(&mut request, &[b"DISCARD"]);
    encode(&mut request, &[b"ECHO", b"the end"]);
    request
}

/// Returns the replies up to the end mark.
fn replies(connection: &mut TestkitConnection) -> Vec<RespReplyValue> {
    let mut replies = Vec::new();
    loop {
        let reply = connection.receive().unwrap();
        if reply == RespReplyValue::Bulk(b"the end".to_vec()) {
            return replies;
        }
        replies.push(reply);
    }
}

/// Returns the replies to the commands of all connections when these are sent at once.
fn at_once(
    connections: &mut [TestkitConnection],
    commands: &[Vec<Words>],
) -> Vec<Vec<RespReplyValue>> {
    for (connection, commands) in connections.iter_mut().zip(commands) {
        connection.send(&request(commands)).unwrap();
    }
    connections.iter_mut().map(replies).collect()
}

fn open(server: &Nearfield) -> Vec<TestkitConnection> {
    (0..CONNECTIONS).map(|_| server.connect()).collect()
}

/// Starts a server that executes each command by itself.
fn without_batches(folder: &TestkitFolder) -> Nearfield {
    let server = Nearfield::start(saving_into(folder, 1));
    let mut connection = server.connect();
    let words: [&[u8]; 4] = [b"CONFIG", b"SET", b"slowlog-log-slower-than", b"0"];
    assert_eq!(
        connection.command(&words).unwrap(),
        RespReplyValue::simple("OK")
    );
    server
}

/// Returns true if two replies are equal; times may differ by a minute.
fn is_same(one: &RespReplyValue, other: &RespReplyValue) -> bool {
    const TIMES: std::ops::Range<i64> = 1_000_000_000..5_000_000_000_000;
    match (one, other) {
        (RespReplyValue::Integer(one), RespReplyValue::Integer(other)) if TIMES.contains(one) => {
            one.abs_diff(*other) < 60_000
        }
        // Replies of a transaction.
        (RespReplyValue::Array(one), RespReplyValue::Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| is_same(one, other))
        }
        (one, other) => one == other,
    }
}

/// Returns the first reply that differs between two servers. They are sent the same commands,
/// except for the changes that `disturb` makes to those of the second one.
fn compare(
    batching: &Nearfield,
    single: &Nearfield,
    seed: u64,
    is_possible: fn(&str) -> bool,
    mut disturb: impl FnMut(usize, &mut Vec<Words>),
) -> Result<(), String> {
    let mut lines = generators(seed, is_possible);
    let (mut together, mut apart) = (open(batching), open(single));
    for round in 0..ROUNDS {
        let commands: Vec<Vec<Words>> = lines
            .iter_mut()
            .map(|lines| match round {
                0 => lines.ends(),
                _ => (0..PIPELINE).map(|_| lines.next()).collect(),
            })
            .collect();
        let ours = at_once(&mut together, &commands);
        for (connection, (mut commands, ours)) in commands.into_iter().zip(ours).enumerate() {
            let sent = commands.clone();
            disturb(round, &mut commands);
            let mut expected = Vec::new();
            apart[connection].send(&request(&commands)).unwrap();
            expected.extend(replies(&mut apart[connection]));
            let differs = ours.iter().zip(&expected).position(|(a, b)| !is_same(a, b));
            if differs.is_some() || ours.len() != expected.len() {
                return Err(format!(
                    "seed {seed}, round {round}, connection {connection}: reply {differs:?} of\n\
                     {}\nin a batch:\n{ours:?}\nalone:\n{expected:?}",
                    shown(&sent)
                ));
            }
        }
    }
    Ok(())
}

fn shown(commands: &[Words]) -> String {
    let line = |words: &Words| {
        let words = words.iter().map(|word| word.escape_ascii().to_string());
        words.collect::<Vec<_>>().join(" ")
    };
    commands.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_batch_answers_as_its_commands_do_alone() {
    seeds::each(2, |seed| {
        let folders = [TestkitFolder::new(), TestkitFolder::new()];
        let batching = Nearfield::start(saving_into(&folders[0], 1 + seed as usize % 2));
        let single = without_batches(&folders[1]);
        compare(&batching, &single, seed, |_| true, |_, _| ())
            .unwrap_or_else(|error| panic!("{error}"));
        let batched = batching.server.batches.counts();
        let sent = (CONNECTIONS * ROUNDS * PIPELINE) as u64;
        assert!(batched.commands > sent / 2, "{batched:?}");
        let large: u64 = batched.batches.iter().skip(4).sum();
        assert!(large > ROUNDS as u64 / 4, "{batched:?}");
        assert_eq!(single.server.batches.counts().commands, 0);
    });
}

/// Compares a server with its keys elsewhere with one that has its keys in its own memory.
fn compare_placement(home: impl Fn() -> Home, is_possible: fn(&str) -> bool) {
    seeds::each(2, |seed| {
        let folder = TestkitFolder::new();
        let elsewhere = Nearfield::start(ServerOptions {
            threads: 1 + seed as usize % 2,
            home: home(),
            ..ServerOptions::default()
        });
        let single = without_batches(&folder);
        compare(&elsewhere, &single, seed, is_possible, |_, _| ())
            .unwrap_or_else(|error| panic!("{error}"));
        let batched = elsewhere.server.batches.counts();
        let sent = (CONNECTIONS * ROUNDS * PIPELINE) as u64;
        assert!(batched.commands > sent / 2, "{batched:?}");
    });
}

#[test]
fn keys_in_modules_are_answered_as_keys_in_memory() {
    compare_placement(|| Home::Modules(Pim::workers().threads(1)), |_| true);
}

#[test]
fn keys_in_a_pool_are_answered_as_keys_in_memory() {
    /// Transactions here change several keys.
    fn is_possible(line: &str) -> bool {
        let name = line.split(' ').next().unwrap_or(line);
        let is_for_pools = |name: &str| match TABLE.find(name.as_bytes()) {
            Some(command) => command.is_for_pools(),
            None => true,
        };
        is_for_pools(name) && !["MULTI", "EXEC"].contains(&name)
    }
    let nodes = std::cell::RefCell::new(Vec::new());
    let home = || {
        let served = ShmNodes::serve(2, 256 << 20).expect("nodes");
        // The slots of every other pool hold nothing of a key beside the fields of notes.
        let slot = (nodes.borrow().len() % 2 == 1).then_some(0);
        let home = Home::open_pool(PoolPlacement::shm(served.names()), 64, slot).expect("a pool");
        nodes.borrow_mut().push(served);
        home
    };
    compare_placement(home, is_possible);
}

#[test]
fn a_command_that_is_left_out_is_noticed() {
    let folders = [TestkitFolder::new(), TestkitFolder::new()];
    let batching = Nearfield::start(saving_into(&folders[0], 1));
    let single = without_batches(&folders[1]);
    let mut left_out = false;
    let difference = compare(
        &batching,
        &single,
        1,
        |_| true,
        |round, commands| {
            let counter = commands.iter_mut().find(|words| words[0] == b"INCR");
            if let (2.., false, Some(words)) = (round, left_out, counter) {
                // Its reply would be one more.
                *words = vec![b"ECHO".to_vec(), b"nothing".to_vec()];
                left_out = true;
            }
        },
    );
    assert!(left_out && difference.is_err());
}

/// Returns all keys with their values and expiry times.
fn contents(server: &Nearfield) -> Vec<RespReplyValue> {
    let mut connection = server.connect();
    let mut contents = vec![connection.command(&[b"KEYS", b"*"]).unwrap()];
    let RespReplyValue::Array(keys) = contents[0].clone() else {
        panic!("KEYS replied {}", contents[0]);
    };
    for key in keys {
        let RespReplyValue::Bulk(key) = key else {
            panic!("a key is {key}");
        };
        for name in [&b"DUMP"[..], b"PEXPIRETIME"] {
            contents.push(connection.command(&[name, &key]).unwrap());
        }
    }
    contents
}

/// Executes batches, and lets `change` work on the server after its contents were noted. Returns
/// true if another server that reads its log has these contents.
fn is_replayed(seed: u64, change: impl FnOnce(&mut TestkitConnection)) -> bool {
    let folder = TestkitFolder::new();
    let noted = {
        let server = Nearfield::start(logging_into(&folder, 2));
        let mut lines = generators(seed, |_| true);
        let mut connections = open(&server);
        for _ in 0..ROUNDS {
            send_round(&mut connections, &mut lines);
        }
        let noted = contents(&server);
        assert!(server.server.batches.counts().commands > 0);
        change(&mut connections[0]);
        noted
    };
    contents(&Nearfield::start(logging_into(&folder, 2))) == noted
}

#[test]
fn the_log_of_batches_makes_the_same_keyspace() {
    seeds::each(2, |seed| {
        assert!(is_replayed(seed, |_| ()), "seed {seed}");
    });
}

#[test]
fn batches_leave_no_objects_of_keys_that_are_gone() {
    seeds::each(2, |seed| {
        let server = Nearfield::with_threads(1 + seed as usize % 2);
        let mut lines = generators(seed, |line| line != "MULTI");
        let mut connections = open(&server);
        let keyspace = &server.server.keyspace;
        let mut has_had_objects = false;
        for _ in 0..ROUNDS {
            send_round(&mut connections, &mut lines);
            has_had_objects |= keyspace.heap.used_bytes() > 0;
        }
        assert!(has_had_objects, "seed {seed}");
        assert!(server.server.batches.counts().commands > 0);
        for command in [&[&b"FLUSHALL"[..]], &[&b"PING"[..]]] {
            connections[0].command(command).unwrap();
        }
        // Memory that was given up is freed at the end of a round.
        for _ in 0..1000 {
            if keyspace.heap.used_bytes() == 0 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("seed {seed}: {} bytes", keyspace.heap.used_bytes());
    });
}

#[test]
fn a_change_after_the_contents_were_noted_is_noticed() {
    let change = |connection: &mut TestkitConnection| {
        connection.command(&[b"INCR", b"another"]).unwrap();
    };
    assert!(!is_replayed(100, change));
}
