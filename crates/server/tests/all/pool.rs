//! Several servers over one pool serve the same keys, and each key is linearizable over all of
//! them.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use super::linearizability::number;
use nearfield::PoolPlacement;
use nearfield_fabric_testkit::ShmNodes;
use nearfield_server::command::{CommandImplementation, Flags};
use nearfield_server::commands::TABLE;
use nearfield_server::config::{Durability, ServerOptions, check_setting};
use nearfield_server::keyspace::Home;
use nearfield_server_testkit::connection::{TestkitConnection, encode_lines};
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_testkit::history::{CallInterval, HistoryRecorder};
use nearfield_testkit::linearizability::{LinearizableOperation, order};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::fmt::{self, Display, Formatter};
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const SERVERS: usize = 3;
const CLIENTS: u32 = 6;
const KEYS: usize = 2;
const TURNS: usize = 40;
const ROUNDS: u64 = 15;

/// Servers that share two memory nodes.
struct PoolServers {
    servers: Vec<Nearfield>,
    _nodes: ShmNodes,
}

impl PoolServers {
    fn start() -> PoolServers {
        let nodes = ShmNodes::serve(2, 256 << 20).unwrap();
        let server = |number: usize| {
            let home = Home::open_pool(PoolPlacement::shm(nodes.names()), 64, None).unwrap();
            let threads = 1 + number % 2;
            Nearfield::start(ServerOptions {
                threads,
                home,
                ..ServerOptions::default()
            })
        };
        PoolServers {
            servers: (0..SERVERS).map(server).collect(),
            _nodes: nodes,
        }
    }

    fn connect(&self) -> Vec<TestkitConnection> {
        self.servers.iter().map(Nearfield::connect).collect()
    }
}

fn ask(connection: &mut TestkitConnection, line: &str) -> RespReplyValue {
    connection.run(line).unwrap()
}

fn error_of(reply: &RespReplyValue) -> String {
    match reply {
        RespReplyValue::Error(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("no error: {other}"),
    }
}

fn bulk(text: &str) -> RespReplyValue {
    RespReplyValue::Bulk(text.as_bytes().to_vec())
}

// ---- Histories --------------------------------------------------------------------------------

/// The effect of a command, or of a transaction on one key, on that key.
#[derive(Clone, Debug)]
struct PoolHistoryOperation {
    client: u32,
    interval: CallInterval,
    steps: Vec<PoolHistoryEffect>,
}

#[derive(Clone, Copy, Debug)]
enum PoolHistoryEffect {
    Read(Option<i64>),
    Set(i64),
    RaisedTo(i64),
    Deleted(bool),
    /// Setting of the second value if the key was absent; the first is true if it was.
    SetIfAbsent(bool, i64),
    Appended(i64),
}

impl LinearizableOperation for PoolHistoryOperation {
    type State = Option<i64>;

    fn session(&self) -> u32 {
        self.client
    }

    fn interval(&self) -> CallInterval {
        self.interval
    }

    fn after(&self, state: &Option<i64>) -> Option<Option<i64>> {
        let mut met = *state;
        for did in &self.steps {
            met = match *did {
                PoolHistoryEffect::Read(read) => (read == met).then_some(met)?,
                PoolHistoryEffect::Set(value) => Some(value),
                PoolHistoryEffect::RaisedTo(value) => {
                    (value == met.unwrap_or(0) + 1).then_some(Some(value))?
                }
                PoolHistoryEffect::Deleted(deleted) => {
                    (deleted == met.is_some()).then_some(None)?
                }
                PoolHistoryEffect::SetIfAbsent(set, value) => match met {
                    None => set.then_some(Some(value))?,
                    Some(_) => (!set).then_some(met)?,
                },
                // Appends a digit to the number.
                PoolHistoryEffect::Appended(length) => {
                    let after = met.map_or(7, |met| met * 10 + 7);
                    (after.to_string().len() as i64 == length).then_some(Some(after))?
                }
            };
        }
        Some(met)
    }

    fn is_read(&self) -> bool {
        let mut steps = self.steps.iter();
        steps.all(|did| {
            matches!(
                did,
                PoolHistoryEffect::Read(_)
                    | PoolHistoryEffect::Deleted(false)
                    | PoolHistoryEffect::SetIfAbsent(false, _)
            )
        })
    }
}

impl Display for PoolHistoryOperation {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let CallInterval { invoked, returned } = self.interval;
        let steps = &self.steps;
        write!(
            formatter,
            "[{invoked}, {returned}] client {}: {steps:?}",
            self.client
        )
    }
}

#[derive(Clone, Copy, Debug)]
enum PoolHistoryCommand {
    Get,
    Set(i64),
    SetIfAbsent(i64),
    Incr,
    Append,
    Del,
    /// Commands on all keys, as the next one.
    Mget,
    Mset(i64),
}

impl PoolHistoryCommand {
    fn line(self, key: usize) -> String {
        let all = |rest: String| {
            (0..KEYS)
                .map(|key| format!(" key{key}{rest}"))
                .collect::<String>()
        };
        match self {
            PoolHistoryCommand::Get => format!("GET key{key}"),
            PoolHistoryCommand::Set(value) => format!("SET key{key} {value}"),
            PoolHistoryCommand::SetIfAbsent(value) => format!("SETNX key{key} {value}"),
            PoolHistoryCommand::Incr => format!("INCR key{key}"),
            PoolHistoryCommand::Append => format!("APPEND key{key} 7"),
            PoolHistoryCommand::Del => format!("DEL key{key}"),
            PoolHistoryCommand::Mget => format!("MGET{}", all(String::new())),
            PoolHistoryCommand::Mset(value) => format!("MSET{}", all(format!(" {value}"))),
        }
    }

    fn did(self, key: usize, reply: &RespReplyValue) -> Vec<(usize, PoolHistoryEffect)> {
        let did = match (self, reply) {
            (PoolHistoryCommand::Get, value) => PoolHistoryEffect::Read(number(value)),
            (PoolHistoryCommand::Set(value), RespReplyValue::Simple(_)) => {
                PoolHistoryEffect::Set(value)
            }
            (PoolHistoryCommand::SetIfAbsent(value), &RespReplyValue::Integer(set)) => {
                PoolHistoryEffect::SetIfAbsent(set == 1, value)
            }
            (PoolHistoryCommand::Incr, &RespReplyValue::Integer(value)) => {
                PoolHistoryEffect::RaisedTo(value)
            }
            (PoolHistoryCommand::Append, &RespReplyValue::Integer(length)) => {
                PoolHistoryEffect::Appended(length)
            }
            (PoolHistoryCommand::Del, &RespReplyValue::Integer(count)) => {
                PoolHistoryEffect::Deleted(count == 1)
            }
            (PoolHistoryCommand::Mget, RespReplyValue::Array(values)) => {
                let reads = values
                    .iter()
                    .map(|value| PoolHistoryEffect::Read(number(value)));
                return reads.enumerate().collect();
            }
            (PoolHistoryCommand::Mset(value), RespReplyValue::Simple(_)) => {
                return (0..KEYS)
                    .map(|key| (key, PoolHistoryEffect::Set(value)))
                    .collect();
            }
            _ => panic!("{self:?} received the reply {reply}"),
        };
        vec![(key, did)]
    }
}

struct PoolHistoryClient<'r> {
    number: u32,
    random: SmallRng,
    connection: TestkitConnection,
    recorder: &'r HistoryRecorder,
    values: &'r AtomicI64,
    done: Vec<(usize, PoolHistoryOperation)>,
}

impl PoolHistoryClient<'_> {
    fn run(mut self) -> Vec<(usize, PoolHistoryOperation)> {
        for _ in 0..TURNS {
            match self.random.random_range(0..3) {
                0 => self.transaction(),
                _ => self.pipeline(),
            }
        }
        self.done
    }

    /// Returns a command on one key.
    fn single(&mut self) -> PoolHistoryCommand {
        let value = || self.values.fetch_add(1000, Ordering::Relaxed);
        match self.random.random_range(0..10) {
            0..3 => PoolHistoryCommand::Get,
            3..6 => PoolHistoryCommand::Incr,
            6 => PoolHistoryCommand::Del,
            7 => PoolHistoryCommand::SetIfAbsent(value()),
            // Appends are rare, so that numbers stay short.
            8 if self.random.random_bool(0.3) => PoolHistoryCommand::Append,
            _ => PoolHistoryCommand::Set(value()),
        }
    }

    fn command(&mut self) -> PoolHistoryCommand {
        match self.random.random_range(0..10) {
            0 => PoolHistoryCommand::Mset(self.values.fetch_add(1000, Ordering::Relaxed)),
            1 => PoolHistoryCommand::Mget,
            _ => self.single(),
        }
    }

    fn exchange(&mut self, lines: &[String]) -> (CallInterval, Vec<RespReplyValue>) {
        let request = encode_lines(lines);
        let connection = &mut self.connection;
        self.recorder
            .call(|| connection.exchange(&request, lines.len()).unwrap())
    }

    fn pipeline(&mut self) {
        let count = self.random.random_range(1..=6);
        let commands: Vec<(usize, PoolHistoryCommand)> = (0..count)
            .map(|_| (self.random.random_range(0..KEYS), self.command()))
            .collect();
        let lines: Vec<String> = commands.iter().map(|(key, it)| it.line(*key)).collect();
        let (interval, replies) = self.exchange(&lines);
        for ((key, command), reply) in commands.iter().zip(&replies) {
            for (key, did) in command.did(*key, reply) {
                let steps = vec![did];
                self.done.push((key, self.did(interval, steps)));
            }
        }
    }

    fn transaction(&mut self) {
        let key = self.random.random_range(0..KEYS);
        let count = self.random.random_range(1..=3);
        let commands: Vec<PoolHistoryCommand> = (0..count).map(|_| self.single()).collect();
        let mut lines = vec!["MULTI".to_owned()];
        lines.extend(commands.iter().map(|command| command.line(key)));
        lines.push("EXEC".to_owned());
        let (interval, replies) = self.exchange(&lines);
        let Some(RespReplyValue::Array(replies)) = replies.last() else {
            panic!("EXEC received the replies {replies:?}");
        };
        let steps = commands.iter().zip(replies);
        let steps = steps.flat_map(|(command, reply)| command.did(key, reply));
        let steps = steps.map(|(_, did)| did).collect();
        self.done.push((key, self.did(interval, steps)));
    }

    fn did(&self, interval: CallInterval, steps: Vec<PoolHistoryEffect>) -> PoolHistoryOperation {
        PoolHistoryOperation {
            client: self.number,
            interval,
            steps,
        }
    }
}

/// Lets clients of all servers work on keys that are absent, and returns their effects on each key.
fn record(servers: &[&Nearfield], seed: u64) -> Vec<Vec<PoolHistoryOperation>> {
    for server in servers {
        assert_eq!(
            ask(&mut server.connect(), "FLUSHALL"),
            RespReplyValue::simple("OK")
        );
    }
    let (recorder, values) = (HistoryRecorder::new(), AtomicI64::new(1000));
    let mut histories = vec![Vec::new(); KEYS];
    thread::scope(|scope| {
        let client = |number: u32| PoolHistoryClient {
            number,
            random: SmallRng::seed_from_u64(seed * u64::from(CLIENTS) + u64::from(number)),
            connection: servers[number as usize % servers.len()].connect(),
            recorder: &recorder,
            values: &values,
            done: Vec::new(),
        };
        let clients: Vec<PoolHistoryClient<'_>> = (0..CLIENTS).map(client).collect();
        let clients = clients.into_iter();
        let threads: Vec<_> = clients.map(|client| scope.spawn(|| client.run())).collect();
        for thread in threads {
            for (key, done) in thread.join().unwrap() {
                histories[key].push(done);
            }
        }
    });
    histories
}

#[test]
fn each_key_is_linearizable_over_all_servers() {
    let servers = PoolServers::start();
    let all: Vec<&Nearfield> = servers.servers.iter().collect();
    seeds::each(ROUNDS, |seed| {
        for (key, history) in record(&all, seed).into_iter().enumerate() {
            order(history).unwrap_or_else(|dead_end| panic!("round {seed}, key{key}: {dead_end}"));
        }
    });
}

#[test]
fn servers_with_keys_of_their_own_are_noticed() {
    let apart: Vec<Nearfield> = (0..SERVERS)
        .map(|_| Nearfield::start(ServerOptions::default()))
        .collect();
    let all: Vec<&Nearfield> = apart.iter().collect();
    let histories = record(&all, 0);
    assert!(histories.into_iter().any(|history| order(history).is_err()));
}

// ---- Single commands --------------------------------------------------------------------------

#[test]
fn what_one_server_writes_all_others_read() {
    let servers = PoolServers::start();
    let mut at = servers.connect();
    let long = format!("SET long {}", "x".repeat(100_000));
    let lines = [
        (0, "SET ann 1", RespReplyValue::simple("OK")),
        (1, "GET ann", bulk("1")),
        (1, "INCRBY ann 41", RespReplyValue::Integer(42)),
        (2, "GETDEL ann", bulk("42")),
        (0, "EXISTS ann", RespReplyValue::Integer(0)),
        (0, long.as_str(), RespReplyValue::simple("OK")),
        (1, "APPEND long y", RespReplyValue::Integer(100_001)),
        (2, "GETRANGE long -2 -1", bulk("xy")),
        // Databases are separate.
        (2, "SELECT 3", RespReplyValue::simple("OK")),
        (2, "EXISTS long", RespReplyValue::Integer(0)),
        (2, "MSET a 1 b 2 c 3", RespReplyValue::simple("OK")),
        (2, "KNEAREST d BEFORE", bulk("c")),
        (2, "KNEAREST d AFTER", RespReplyValue::NullBulk),
        (0, "KNEAREST d AFTER", bulk("long")),
        (2, "DBSIZE", RespReplyValue::Integer(3)),
        (0, "DBSIZE", RespReplyValue::Integer(1)),
        (0, "SELECT 3", RespReplyValue::simple("OK")),
        (
            0,
            "KRANGE [a [b",
            RespReplyValue::Array(vec![bulk("a"), bulk("b")]),
        ),
        (0, "RANDOMKEY", RespReplyValue::NullBulk),
        (0, "KRANGEDEL [b [c", RespReplyValue::Integer(2)),
        (2, "KEYS *", RespReplyValue::Array(vec![bulk("a")])),
        (2, "FLUSHDB", RespReplyValue::simple("OK")),
        (0, "DBSIZE", RespReplyValue::Integer(0)),
        (1, "STRLEN long", RespReplyValue::Integer(100_001)),
    ];
    for (server, line, expected) in lines {
        let reply = ask(&mut at[server], line);
        let shown = line.get(..40).unwrap_or(line);
        match shown {
            "RANDOMKEY" => assert!(matches!(reply, RespReplyValue::Bulk(_)), "{reply}"),
            _ => assert_eq!(reply, expected, "{shown}"),
        }
    }
}

#[test]
fn a_scan_meets_the_keys_of_all_servers() {
    let servers = PoolServers::start();
    let mut at = servers.connect();
    for number in 0..100 {
        ask(
            &mut at[number % SERVERS],
            &format!("SET key:{number:03} {number}"),
        );
    }
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    loop {
        let RespReplyValue::Array(reply) = ask(&mut at[0], &format!("SCAN {cursor} COUNT 7"))
        else {
            panic!("SCAN does not reply with an array");
        };
        let [RespReplyValue::Bulk(next), RespReplyValue::Array(keys)] = &reply[..] else {
            panic!("SCAN replied {reply:?}");
        };
        found.extend(keys.clone());
        cursor = String::from_utf8(next.clone()).unwrap();
        if cursor == "0" {
            break;
        }
    }
    let expected: Vec<RespReplyValue> = (0..100).map(|it| bulk(&format!("key:{it:03}"))).collect();
    assert_eq!(found, expected);
}

#[test]
fn keys_expire_on_all_servers_and_leave_the_pool() {
    let servers = PoolServers::start();
    let mut at = servers.connect();
    // The time is doubled until the other servers change it before it has passed.
    let mut time_ms = 30;
    loop {
        ask(&mut at[0], &format!("SET later 1 PX {time_ms}"));
        ask(&mut at[1], &format!("SET never 1 PX {time_ms}"));
        ask(&mut at[0], &format!("SET soon 1 PX {time_ms}"));
        let later = ask(&mut at[1], "PEXPIRE later 1000000");
        let never = ask(&mut at[2], "PERSIST never");
        if [later, never] == [RespReplyValue::Integer(1), RespReplyValue::Integer(1)] {
            break;
        }
        time_ms *= 2;
    }
    // It was set last, so the first times of the others have passed, too.
    while ask(&mut at[1], "GET soon") != RespReplyValue::NullBulk {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(ask(&mut at[1], "GET later"), bulk("1"));
    assert_eq!(ask(&mut at[0], "TTL never"), RespReplyValue::Integer(-1));
    // No client reads the key again: a server removes it.
    let began = Instant::now();
    while ask(&mut at[2], "DBSIZE") != RespReplyValue::Integer(2) {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "the key is not deleted"
        );
        thread::sleep(Duration::from_millis(10));
    }
    // An expired key counts as absent, also where a command changes it.
    ask(&mut at[0], "SET soon 5 PX 1");
    thread::sleep(Duration::from_millis(5));
    assert_eq!(ask(&mut at[1], "INCR soon"), RespReplyValue::Integer(1));
    assert_eq!(ask(&mut at[1], "TTL soon"), RespReplyValue::Integer(-1));
}

#[test]
fn a_transaction_changes_one_key_and_is_refused_as_a_whole_otherwise() {
    let servers = PoolServers::start();
    let mut at = servers.connect();
    ask(&mut at[0], "SET other 7");
    let exec = |connection: &mut TestkitConnection, lines: &[&str]| {
        ask(connection, "MULTI");
        for line in lines {
            assert_eq!(ask(connection, line), RespReplyValue::simple("QUEUED"));
        }
        ask(connection, "EXEC")
    };
    let reply = exec(
        &mut at[1],
        &["GET other", "INCR ann", "INCR ann", "GET ann"],
    );
    let two = [
        bulk("7"),
        RespReplyValue::Integer(1),
        RespReplyValue::Integer(2),
        bulk("2"),
    ];
    assert_eq!(reply, RespReplyValue::Array(two.to_vec()));
    let refused = exec(&mut at[1], &["INCR ann", "INCR other"]);
    assert!(
        error_of(&refused).contains("one key at a time"),
        "{refused}"
    );
    assert_eq!(
        ask(&mut at[2], "MGET ann other"),
        RespReplyValue::Array(vec![bulk("2"), bulk("7")])
    );
    let refused = exec(&mut at[1], &["INCR ann", "KRANGE [a [z"]);
    let RespReplyValue::Array(replies) = refused else {
        panic!("{refused}");
    };
    assert!(error_of(&replies[1]).contains("ranges"), "{}", replies[1]);
    // A script is one transaction, too.
    let script = "return {redis.call('incr', KEYS[1]), redis.call('get', KEYS[1])}";
    let words: [&[u8]; 4] = [b"EVAL", script.as_bytes(), b"1", b"ann"];
    let reply = at[0].command(&words).unwrap();
    assert_eq!(
        reply,
        RespReplyValue::Array(vec![RespReplyValue::Integer(4), bulk("4")])
    );
}

#[test]
fn a_transaction_fails_if_another_server_has_changed_a_watched_key() {
    let servers = PoolServers::start();
    let mut at = servers.connect();
    ask(&mut at[0], "SET ann 1");
    let exec = |connection: &mut TestkitConnection, lines: &[&str]| {
        ask(connection, "MULTI");
        for line in lines {
            ask(connection, line);
        }
        ask(connection, "EXEC")
    };
    ask(&mut at[0], "WATCH ann");
    let reply = exec(&mut at[0], &["SET ann 2"]);
    assert_eq!(
        reply,
        RespReplyValue::Array(vec![RespReplyValue::simple("OK")])
    );
    // Changes of value and of time, deletion and creation, by any server.
    for (before, between) in [
        ("SET ann 2", "SET ann 3"),
        ("SET ann 2", "EXPIRE ann 100"),
        ("SET ann 2", "DEL ann"),
        ("DEL ann", "SET ann 2"),
    ] {
        for other in [0, 1] {
            ask(&mut at[2], before);
            ask(&mut at[0], "WATCH ann");
            ask(&mut at[other], between);
            let reply = exec(&mut at[0], &["SET ann 9"]);
            assert_eq!(reply, RespReplyValue::NullArray, "{between}");
            assert_ne!(ask(&mut at[1], "GET ann"), bulk("9"));
        }
    }
    // The next transaction watches nothing.
    exec(&mut at[0], &["SET ann 9"]);
    assert_eq!(ask(&mut at[1], "GET ann"), bulk("9"));
    ask(&mut at[0], "WATCH ann other");
    let refused = error_of(&exec(&mut at[0], &["SET ann 1"]));
    assert!(refused.contains("watches another"), "{refused}");
    assert_eq!(ask(&mut at[1], "GET ann"), bulk("9"));
    // A transaction without changes may watch any keys.
    ask(&mut at[0], "WATCH ann other");
    let reply = exec(&mut at[0], &["GET ann"]);
    assert_eq!(reply, RespReplyValue::Array(vec![bulk("9")]));
    // An expired key counts as changed. The time is doubled until the key exists when it is
    // watched.
    let mut time_ms = 50;
    let is_there = |at: &mut TestkitConnection| ask(at, "GET brief") != RespReplyValue::NullBulk;
    loop {
        ask(&mut at[0], &format!("SET brief 1 PX {time_ms}"));
        ask(&mut at[0], "WATCH brief");
        if is_there(&mut at[0]) {
            break;
        }
        ask(&mut at[0], "UNWATCH");
        time_ms *= 2;
    }
    while is_there(&mut at[0]) {
        thread::yield_now();
    }
    assert_eq!(
        exec(&mut at[0], &["SET brief 2"]),
        RespReplyValue::NullArray
    );
}

/// Servers increment one number by optimistic transactions at once. No increment is lost.
#[test]
fn optimistic_transactions_lose_nothing() {
    const ADDITIONS: usize = 40;
    let servers = PoolServers::start();
    thread::scope(|scope| {
        for mut connection in servers.connect() {
            scope.spawn(move || {
                let mut added = 0;
                while added < ADDITIONS {
                    ask(&mut connection, "WATCH sum");
                    let sum = number(&ask(&mut connection, "GET sum")).unwrap_or(0);
                    ask(&mut connection, "MULTI");
                    ask(&mut connection, &format!("SET sum {}", sum + 1));
                    added += usize::from(ask(&mut connection, "EXEC") != RespReplyValue::NullArray);
                }
            });
        }
    });
    let sum = ask(&mut servers.servers[0].connect(), "GET sum");
    assert_eq!(number(&sum), Some((SERVERS * ADDITIONS) as i64));
}

#[test]
fn what_a_pool_cannot_do_is_refused_by_an_error_that_names_it() {
    let servers = PoolServers::start();
    let mut at = servers.connect();
    let mut refused = 0;
    for command in TABLE.all() {
        let (CommandImplementation::Command(_) | CommandImplementation::Planned(_)) = command.run
        else {
            continue;
        };
        if command.is_for_pools() {
            continue;
        }
        let count = command.arity.unsigned_abs() as usize;
        let words: Vec<&[u8]> = std::iter::once(command.name.as_bytes())
            .chain(std::iter::repeat_n(&b"1"[..], count - 1))
            .collect();
        let error = error_of(&at[0].command(&words).unwrap());
        let named = format!(
            "ERR '{}' is not available with the placement pool",
            command.name
        );
        assert!(error.starts_with(&named), "{error}");
        refused += 1;
    }
    assert!(refused > 90, "{refused}");
    let error = error_of(&ask(&mut at[0], "CONFIG SET maxmemory 100mb"));
    assert!(
        error.contains("maxmemory is not possible with the placement pool"),
        "{error}"
    );
    let error = error_of(&ask(&mut at[0], "CLIENT TRACKING ON"));
    assert!(error.contains("'tracking'"), "{error}");
    let key = "k".repeat(100);
    let error = error_of(&ask(&mut at[0], &format!("SET {key} 1")));
    assert!(error.contains("has 100 bytes, the limit is 64"), "{error}");
    assert_eq!(
        ask(&mut at[0], &format!("GET {key}")),
        RespReplyValue::NullBulk
    );
    let RespReplyValue::Array(described) = ask(&mut at[0], "COMMAND INFO lpush get") else {
        panic!("COMMAND INFO does not reply with an array");
    };
    let has_flag = |value: &RespReplyValue| format!("{value}").contains("no_pool");
    assert!(has_flag(&described[0]) && !has_flag(&described[1]));
    assert!(
        TABLE
            .all()
            .filter(|it| it.flags.has(Flags::UNSHARED))
            .count()
            > 8
    );
}

#[test]
fn what_a_server_keeps_on_disk_is_not_possible_over_a_pool() {
    let nodes = ShmNodes::serve(1, 64 << 20).unwrap();
    let home = Home::open_pool(PoolPlacement::shm(nodes.names()), 64, None).unwrap();
    let logging = ServerOptions {
        home,
        persistence: Durability {
            log: Some(true),
            ..Durability::default()
        },
        ..ServerOptions::default()
    };
    assert!(
        logging
            .check_placement()
            .unwrap_err()
            .contains("--appendonly")
    );
    assert_eq!(ServerOptions::default().check_placement(), Ok(()));
    assert!(check_setting("notify-keyspace-events", "KEA").is_err());
    assert!(check_setting("maxmemory", "0").is_ok());
}

// ---- Nodes that do not belong together, and memory that is damaged -----------------------------

fn open(names: &[String]) -> Result<Home, String> {
    Home::open_pool(PoolPlacement::shm(names), 64, None).map_err(|error| error.to_string())
}

#[test]
fn nodes_that_do_not_belong_together_are_refused() {
    let (old, new) = (
        ShmNodes::serve(2, 64 << 20).unwrap(),
        ShmNodes::serve(2, 64 << 20).unwrap(),
    );
    let (one, other) = (&old.names()[0], &old.names()[1]);
    let (empty, empty_too) = (&new.names()[0], &new.names()[1]);
    {
        let home = open(old.names()).unwrap();
        let server = Nearfield::start(ServerOptions {
            home,
            ..ServerOptions::default()
        });
        let mut connection = server.connect();
        for number in 0..200 {
            ask(&mut connection, &format!("SET k{number} v"));
        }
    }
    let refused = |names: [&String; 2], what: &str| {
        let began = Instant::now();
        let error = open(&names.map(Clone::clone)).err();
        let error = error.unwrap_or_else(|| panic!("{names:?} are in use"));
        assert!(error.contains(what), "{error}");
        assert!(error.contains("restart all of them"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(30));
    };
    for _ in 0..2 {
        refused([one, empty_too], "it is new and empty");
        refused([empty, other], "it belongs to another pool");
    }
    refused([other, empty], "it belongs to another pool");
    let _another = open(new.names()).unwrap();
    refused([one, empty_too], "it belongs to another pool");
    let error = open(std::slice::from_ref(one)).err().unwrap();
    assert!(error.contains("it is number 0 of 2 nodes"), "{error}");
    // The nodes that do belong together still work.
    let server = Nearfield::start(ServerOptions {
        home: open(old.names()).unwrap(),
        ..ServerOptions::default()
    });
    assert_eq!(ask(&mut server.connect(), "GET k7"), bulk("v"));
}

#[test]
fn damaged_memory_is_answered_by_errors_and_the_server_ends() {
    seeds::each(2, |seed| {
        let random = &mut SmallRng::seed_from_u64(seed);
        let nodes = ShmNodes::serve(1, 32 << 20).unwrap();
        let server = Nearfield::start(ServerOptions {
            home: open(nodes.names()).unwrap(),
            ..ServerOptions::default()
        });
        let mut connection = server.connect();
        for number in 0..2000 {
            ask(&mut connection, &format!("SET key:{number} value:{number}"));
        }
        // The whole index is overwritten in part, or completely by zeros.
        for words in nodes.words() {
            let used = nodes.allocated_bytes() as usize / 8;
            let words = &words[512..used.min(words.len())];
            for word in words {
                if seed == 0 {
                    word.store(0, Ordering::Relaxed);
                } else if random.random_bool(0.02) {
                    word.store(random.random(), Ordering::Relaxed);
                }
            }
        }
        let (began, mut asked) = (Instant::now(), 0);
        while began.elapsed() < Duration::from_secs(1) && asked < 100 {
            let number = random.random_range(0..2000);
            let line = match random.random_range(0..4) {
                0 => format!("GET key:{number}"),
                1 => format!("SET key:{number} other"),
                2 => "SCAN 0 COUNT 100".to_owned(),
                _ => format!("DEL key:{number}"),
            };
            // A value or an error: a reply at all, before the connection's timeout.
            let _ = ask(&mut connection, &line);
            asked += 1;
        }
        assert!(asked > 0);
    });
}
