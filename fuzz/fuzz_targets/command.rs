//! No command makes the server panic with any arguments, and each gets one reply.
//!
//! Clients of one server without a listener send commands of the table. The arguments are mostly
//! words of its options, keys and numbers. Commands that work on files or processes, or are meant
//! to take time, are left out.

#![no_main]

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use nearfield_server::client::{ClientSession, ClientShared, ReplyMode};
use nearfield_server::command::{CommandDefinition, CommandImplementation};
use nearfield_server::commands::TABLE;
use nearfield_server::config::ServerOptions;
use nearfield_server::execute::Executor;
use nearfield_server::keyspace::Keyspace;
use nearfield_server::resp::{Protocol, RespReply};
use nearfield_server::server::ServerCore;
use nearfield_server_testkit::reply::RespReplyValue;
use std::sync::{Arc, LazyLock};

/// Commands on files and processes, commands that run code for a long time, and commands that stop
/// clients or the server.
const LEFT_OUT: &[&str] = &[
    "save",
    "bgsave",
    "bgrewriteaof",
    "shutdown",
    "debug",
    "config",
    "acl",
    "eval",
    "evalsha",
    "eval_ro",
    "evalsha_ro",
    "fcall",
    "fcall_ro",
    "script",
    "function",
    "replicaof",
    "slaveof",
    "migrate",
    "wait",
    "waitaof",
    "failover",
    "module",
    "pause",
];

/// Commands that get one reply for each argument.
const ANSWERED_OFTEN: &[&str] = &[
    "subscribe",
    "unsubscribe",
    "psubscribe",
    "punsubscribe",
    "ssubscribe",
    "sunsubscribe",
];

static COMMANDS: LazyLock<Vec<&'static CommandDefinition>> = LazyLock::new(|| {
    let all = TABLE.all();
    all.filter(|command| !LEFT_OUT.contains(&command.name))
        .collect()
});

const WORDS: &[&str] = &[
    "",
    "0",
    "1",
    "2",
    "-1",
    "10",
    "-0",
    "0.5",
    "-2.5",
    "1e300",
    "inf",
    "-inf",
    "nan",
    "(1",
    "[a",
    "(a",
    "-",
    "+",
    "*",
    "a*",
    "[^a]",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "4294967296",
    "18446744073709551616",
    "NX",
    "XX",
    "GT",
    "LT",
    "CH",
    "INCR",
    "GET",
    "EX",
    "PX",
    "EXAT",
    "PXAT",
    "KEEPTTL",
    "PERSIST",
    "LIMIT",
    "COUNT",
    "MATCH",
    "TYPE",
    "WITHSCORES",
    "WITHVALUES",
    "WEIGHTS",
    "AGGREGATE",
    "SUM",
    "MIN",
    "MAX",
    "BYSCORE",
    "BYLEX",
    "REV",
    "LEFT",
    "RIGHT",
    "BEFORE",
    "AFTER",
    "RANK",
    "MAXLEN",
    "BY",
    "ASC",
    "DESC",
    "ALPHA",
    "STORE",
    "REPLACE",
    "DB",
    "ABSTTL",
    "IDLETIME",
    "FREQ",
    "OVERFLOW",
    "WRAP",
    "SAT",
    "FAIL",
    "SET",
    "INCRBY",
    "u8",
    "i64",
    "u63",
    "#1",
    "AND",
    "NOT",
    "BIT",
    "BYTE",
    "IDX",
    "LEN",
    "MINMATCHLEN",
    "WITHMATCHLEN",
    "ASYNC",
    "SYNC",
    "ON",
    "OFF",
    "SKIP",
    "BCAST",
    "PREFIX",
    "OPTIN",
    "ID",
    "string",
    "zset",
    "2",
    "3",
];

fuzz_target!(|input: &[u8]| {
    // An input that ends early is executed up to its end.
    let _ = run(&mut Unstructured::new(input));
});

struct CommandFuzzClient {
    client: ClientSession,
    reply: RespReply,
}

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    let server = ServerCore::new(TABLE.registry(), ServerOptions::default());
    let mut executor = Executor::new(&server);
    let mut now_ms = 1_700_000_000_000;
    let mut clients: Vec<CommandFuzzClient> = Vec::new();
    for _ in 0..2 {
        let id = server.clients.next_id();
        let shared = ClientShared::new(id, 0, "peer".to_owned(), "here".to_owned(), now_ms);
        let shared = Arc::new(shared);
        server.clients.lock().insert(id, Arc::clone(&shared));
        clients.push(CommandFuzzClient {
            client: ClientSession::new(shared, true),
            reply: RespReply::new(Protocol::Resp2),
        });
    }
    while !input.is_empty() {
        let CommandFuzzClient { client, reply } =
            &mut clients[usize::from(input.ratio(1_u8, 4_u8)?)];
        let (command, words) = request(input)?;
        if client.closing || server.blocked.remove(client.shared.id).is_some() {
            continue;
        }
        let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let answered = client.replies == ReplyMode::On;
        let wait = executor.run(client, &args, now_ms, reply);
        let bytes = reply.take();
        let shown = words.iter().map(|word| word.escape_ascii().to_string());
        let shown = || shown.clone().collect::<Vec<_>>().join(" ");
        if wait.is_some() {
            assert!(
                bytes.is_empty(),
                "{}: a reply, and the client is blocked",
                shown()
            );
        } else if answered && client.replies == ReplyMode::On {
            let often = ANSWERED_OFTEN.contains(&command.name) && client.transaction.is_none();
            let mut rest = bytes.as_slice();
            let mut count = 0;
            while !rest.is_empty() {
                let value = RespReplyValue::parse(rest);
                let value = value.unwrap_or_else(|error| panic!("{}: {}", shown(), error.0));
                let Some((value, length)) = value else {
                    panic!("{}: half a reply {}", shown(), bytes.escape_ascii());
                };
                // Pushes are not replies.
                count += u32::from(!matches!(value, RespReplyValue::Push(_)) || often);
                rest = &rest[length..];
            }
            let right = count == 1 || (often && count > 0);
            assert!(
                right,
                "{}: {count} replies {}",
                shown(),
                bytes.escape_ascii()
            );
        }
        now_ms += input.int_in_range(0..=3000)?;
        server.keyspace.reclaim_by(Keyspace::try_exclude);
    }
    for CommandFuzzClient { client, .. } in &mut clients {
        server.forget(client);
    }
    Ok(())
}

fn request(input: &mut Unstructured<'_>) -> Result<(&'static CommandDefinition, Vec<Vec<u8>>)> {
    let command = *input.choose(&COMMANDS)?;
    let mut words = vec![command.name.as_bytes().to_vec()];
    let mut found = command;
    if let CommandImplementation::Container(subcommands) = command.run {
        let subcommand = input.choose(subcommands)?;
        if !LEFT_OUT.contains(&subcommand.name) {
            found = subcommand;
            words.push(subcommand.name.as_bytes().to_vec());
        }
    }
    // The number of arguments is mostly valid.
    let least = found.arity.unsigned_abs() as usize;
    let more = [0, 0, 0, 1, 2, 3, 5, 8][usize::from(input.int_in_range(0..=7_u8)?)];
    let more = if found.arity < 0 { more } else { more / 5 };
    while words.len() < least + more {
        words.push(word(input, words.len())?);
    }
    if input.ratio(1_u8, 32_u8)? && words.len() > 1 {
        words.pop();
    }
    Ok((command, words))
}

fn word(input: &mut Unstructured<'_>, position: usize) -> Result<Vec<u8>> {
    // The first argument is mostly a key.
    let kind = input.int_in_range(0..=15_u8)?;
    Ok(match kind {
        0..4 => input.choose(&["a", "b", "c", "k"])?.as_bytes().to_vec(),
        4..10 if position == 1 => input.choose(&["k", "k2", "k3"])?.as_bytes().to_vec(),
        4..13 => input.choose(WORDS)?.as_bytes().to_vec(),
        13 => input
            .int_in_range(-100..=2000_i32)?
            .to_string()
            .into_bytes(),
        _ => {
            let length = input.int_in_range(0..=20_usize)?.min(input.len());
            let mut bytes = input.bytes(length)?.to_vec();
            // Numbers of many digits request much memory legitimately.
            if bytes.iter().filter(|byte| byte.is_ascii_digit()).count() > 4 {
                bytes.retain(|byte| !byte.is_ascii_digit());
            }
            bytes
        }
    })
}
