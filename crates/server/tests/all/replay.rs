//! The log of commands rebuilds the same keyspace, whenever it is read: random commands run while
//! time passes, and their log is executed on another server much later.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server::client::ClientSession;
use nearfield_server::command::{CommandAccount, CommandInvocation, invoke};
use nearfield_server::commands::TABLE;
use nearfield_server::config::ServerOptions;
use nearfield_server::keyspace::{DATABASES, DatabaseAccess, DatabaseKeys, Effects};
use nearfield_server::resp::{Protocol, RespReply, Words};
use nearfield_server::server::ServerCore;
use nearfield_server_testkit::nearfield::UnservedServer;
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

const START_MS: u64 = 1_800_000_000_000;

fn execute(
    server: &ServerCore,
    database: usize,
    words: &[Vec<u8>],
    now_ms: u64,
    replaying: bool,
) -> (Vec<(usize, Words)>, Vec<u8>) {
    let mut client = ClientSession::internal();
    client.database = database;
    let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    execute_at(server, &mut client, &args, now_ms, replaying)
}

/// Executes a command at a given time. Returns the logged commands and the reply.
pub(super) fn execute_at(
    server: &ServerCore,
    client: &mut ClientSession,
    args: &[&[u8]],
    now_ms: u64,
    replaying: bool,
) -> (Vec<(usize, Words)>, Vec<u8>) {
    let mut effects = Effects::default();
    let mut reply = RespReply::new(Protocol::Resp2);
    let command = TABLE.lookup(args).unwrap();
    let mut databases = server.keyspace.exclude();
    let access = DatabaseAccess::Exclusive(&mut databases);
    let database = client.database;
    let mut keys = DatabaseKeys::new(&server.keyspace, access, database, now_ms, &mut effects);
    if replaying {
        keys = keys.without_expiry();
    }
    let account = &mut CommandAccount::of(command, server);
    let invocation = CommandInvocation {
        server,
        keys,
        client,
        args,
        reply: &mut reply,
        nested: false,
    };
    invoke(invocation, account);
    (effects.logged, reply.take())
}

/// Returns all keys with their values and expiries, as they are at a given time.
fn contents(server: &ServerCore, now_ms: u64) -> Vec<(usize, Words)> {
    let mut contents = Vec::new();
    for database in 0..DATABASES {
        let ask = |words: &[&[u8]]| {
            let words: Vec<Vec<u8>> = words.iter().map(|word| word.to_vec()).collect();
            execute(server, database, &words, now_ms, false).1
        };
        for number in 0..KEYS {
            let key = format!("key:{number}");
            let key = key.as_bytes();
            let (kind, time) = (ask(&[b"TYPE", key]), ask(&[b"PEXPIRETIME", key]));
            contents.push((
                database,
                vec![key.to_vec(), kind, time, ask(&[b"DUMP", key])],
            ));
        }
    }
    contents
}

const KEYS: u32 = 12;

/// Commands in which `K` is a key, `N` a number, `T` a short time, `A` a time since 1970 and `D`
/// a database.
const COMMANDS: &[&str] = &[
    "SET K v",
    "SET K N EX T",
    "SET K N PX T NX",
    "SET K w XX KEEPTTL",
    "SET K w PXAT A GET",
    "SETNX K N",
    "SETEX K T v",
    "PSETEX K T v",
    "GETSET K N",
    "GETDEL K",
    "GETEX K PX T",
    "GETEX K PERSIST",
    "GETEX K PXAT A",
    "MSET K N K N",
    "MSETNX K N K N",
    "INCR K",
    "DECRBY K N",
    "INCRBYFLOAT K N",
    "APPEND K N",
    "SETRANGE K 3 N",
    "SETBIT K N 1",
    "BITOP OR K K K",
    "BITFIELD K INCRBY u8 N 200",
    "DEL K",
    "UNLINK K K",
    "RENAME K K",
    "RENAMENX K K",
    "COPY K K",
    "COPY K K DB D REPLACE",
    "MOVE K D",
    "SWAPDB D D",
    "FLUSHDB",
    "EXPIRE K 1",
    "PEXPIRE K T",
    "PEXPIREAT K A",
    "PEXPIRE K T GT",
    "EXPIRE K -1",
    "PERSIST K",
    "RPUSH K N N",
    "HSET K f N",
    "HSET K g N h N",
    "HINCRBY K g N",
    "HINCRBYFLOAT K f N",
    "HSETNX K f N",
    "HDEL K f",
    "HPEXPIRE K T FIELDS 2 f g",
    "HPEXPIREAT K A FIELDS 1 f",
    "HPEXPIREAT K A GT FIELDS 2 g h",
    "HPERSIST K FIELDS 2 f g",
    "HGETEX K PX T FIELDS 1 f",
    "HGETEX K PERSIST FIELDS 1 g",
    "HGETEX K PXAT A FIELDS 1 h",
    "HSETEX K PX T FIELDS 2 f N i N",
    "HSETEX K PXAT A FNX FIELDS 1 i N",
    "HSETEX K KEEPTTL FXX FIELDS 1 f N",
    "HGETDEL K FIELDS 1 g",
    "SORT K BY nosort STORE K",
    "SORT K ALPHA STORE K",
    "KRANGE - + DEL LIMIT N 2",
    "KPREFIX key:1 DEL",
    "MGET K K K",
    "EXISTS K",
];

fn random_command(random: &mut SmallRng, now_ms: u64) -> Vec<Vec<u8>> {
    let template = COMMANDS.choose(random).unwrap();
    // Whole databases are rarely deleted, because all keys would be lost.
    if template.starts_with("FLUSH") && random.random_range(0..10) > 0 {
        return vec![b"INCR".to_vec(), b"key:0".to_vec()];
    }
    let mut word = |word: &str| match word {
        "K" => format!("key:{}", random.random_range(0..KEYS)),
        "N" => random.random_range(0..50).to_string(),
        "T" => random.random_range(1..40).to_string(),
        "A" => (now_ms + random.random_range(0..60) - 20).to_string(),
        "D" => random.random_range(0..2).to_string(),
        other => other.to_owned(),
    };
    let words = template.split(' ').map(|text| word(text).into_bytes());
    words.collect()
}

#[test]
fn the_log_makes_the_same_keyspace_at_any_time() {
    let (mut present, mut runs) = (0, 0);
    seeds::each(40, |seed| {
        runs += 1;
        let random = &mut SmallRng::seed_from_u64(seed);
        let server = UnservedServer::new(ServerOptions::default());
        server.keyspace.set_logging(true);
        let mut log = Vec::new();
        let mut now_ms = START_MS;
        for _ in 0..1500 {
            now_ms += random.random_range(0..4);
            let words = random_command(random, now_ms);
            let database = random.random_range(0..2);
            log.extend(execute(&server, database, &words, now_ms, false).0);
        }
        let replayed = UnservedServer::new(ServerOptions::default());
        for (database, words) in &log {
            let (_, reply) = execute(&replayed, *database, words, now_ms + 1_000_000, true);
            let shown = String::from_utf8_lossy(&reply).into_owned();
            assert!(!reply.starts_with(b"-"), "seed {seed}: {words:?}: {shown}");
        }
        let (expected, found) = (contents(&server, now_ms), contents(&replayed, now_ms));
        for (expected, found) in expected.iter().zip(&found) {
            assert_eq!(expected, found, "seed {seed}");
            present += usize::from(expected.1[3] != b"$-1\r\n");
        }
    });
    assert!(present * 2 > runs * 5, "hardly any keys are left");
}
