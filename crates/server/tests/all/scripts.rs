//! Scripts that a connection sends one after the other are executed in one go. They get the same
//! replies as scripts that are sent one at a time, however their bytes arrive.
//!
//! `NEARFIELD_SEED` sets the seed.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server_testkit::connection::{TestkitConnection, encode};
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::steps::{ask, eventually, receive_reply};
use nearfield_testkit::seeds;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::time::Duration;

const LIBRARY: &str = "#!lua name=counts
redis.register_function('count', function(keys, args)
    return redis.call('incrby', keys[1], args[1] or 1)
end)
redis.register_function('fail', function() return redis.call('incr', 'text') end)
redis.register_function{function_name='read', flags={'no-writes'},
    callback=function(keys) return redis.call('mget', unpack(keys)) end}";

/// Commands, most of which run scripts. Words are separated by bars.
const COMMANDS: &[&str] = &[
    "FCALL|count|1|a",
    "FCALL|count|1|b|7",
    "FCALL|COUNT|1|a",
    "FCALL_RO|read|2|a|b",
    "FCALL_RO|count|1|a",
    "FCALL|read|1|a",
    "FCALL|fail|0",
    "FCALL|nosuch|0",
    "FCALL|count",
    "FCALL|count|x|a",
    "EVAL|return redis.call('incr', KEYS[1])|1|a",
    "EVAL|return {ARGV[1], redis.call('get', 'b'), 1, false}|0|word",
    "EVAL|return string.rep('x', 600000)|0",
    "EVAL|local",
    "EVAL_RO|return redis.call('get', KEYS[1])|1|a",
    "EVALSHA|0000000000000000000000000000000000000000|0",
    "MULTI",
    "EXEC",
    "EXEC",
    "GET|a",
    "SET|text|word",
    "DEL|a",
    "SELECT|1",
    "SELECT|0",
    "ECHO|word",
];

/// Appends a command, in either of the forms in which a client may send it.
fn append(request: &mut Vec<u8>, command: &str, inline: bool) {
    if inline {
        let words = command.split('|').map(|word| format!("\"{word}\""));
        let line = words.collect::<Vec<_>>().join(" ");
        request.extend_from_slice(format!("{line}\r\n").as_bytes());
    } else {
        let words: Vec<&[u8]> = command.split('|').map(str::as_bytes).collect();
        encode(request, &words);
    }
}

fn start(threads: usize) -> (Nearfield, TestkitConnection) {
    let server = Nearfield::with_threads(threads);
    let mut connection = server.connect();
    let words = [&b"FUNCTION"[..], b"LOAD", LIBRARY.as_bytes()];
    assert!(matches!(
        connection.command(&words).unwrap(),
        RespReplyValue::Bulk(_)
    ));
    (server, connection)
}

/// A request that violates the protocol, after half of a command that runs scripts. Nothing follows
/// the wrong byte: a server that closes a connection with unread bytes discards replies that were
/// not received yet.
const WRONG: &[u8] = b"*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n:";

/// Returns the first difference between the replies to commands that are sent in pieces and those
/// to the same commands after `disturb`, sent one at a time.
fn compare(seed: u64, disturb: impl FnOnce(&mut Vec<&str>)) -> Result<(), String> {
    const COUNT: usize = 150;
    let mut random = SmallRng::seed_from_u64(seed);
    let chosen = |_| *COMMANDS.choose(&mut random).unwrap();
    let mut commands: Vec<&str> = (0..COUNT).map(chosen).collect();
    let (_one, mut together) = start(1 + seed as usize % 2);
    let (_other, mut apart) = start(1);
    let mut request = Vec::new();
    for command in &commands {
        append(&mut request, command, random.random_range(0..8) == 0);
    }
    request.extend_from_slice(WRONG);
    // Some pieces arrive after the server has executed all before.
    let mut rest = &request[..];
    while !rest.is_empty() {
        let most = if random.random() { 40 } else { 4000 };
        let length = random.random_range(1..=rest.len().min(most));
        let (piece, behind) = rest.split_at(length);
        together.send(piece).unwrap();
        rest = behind;
        if random.random_range(0..4) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    disturb(&mut commands);
    for (number, command) in commands.iter().enumerate() {
        let mut alone = Vec::new();
        append(&mut alone, command, false);
        apart.send(&alone).unwrap();
        let (one, other) = (together.receive().unwrap(), apart.receive().unwrap());
        if one != other {
            return Err(format!("seed {seed}, command {number}: {command}"));
        }
    }
    match together.receive().unwrap() {
        RespReplyValue::Error(error) if error == b"ERR Protocol error: expected '$', got ':'" => {
            Ok(())
        }
        other => Err(format!("seed {seed}: HELLO replied {other:?}")),
    }
}

#[test]
fn scripts_of_a_pipeline_are_answered_as_alone() {
    seeds::each(6, |seed| {
        compare(seed, |_| ()).unwrap_or_else(|error| panic!("{error}"));
    });
}

#[test]
fn a_script_that_is_left_out_is_noticed() {
    let mut is_left_out = false;
    let difference = compare(1, |commands| {
        let is = |it: &&mut &str| it.starts_with("FCALL|count|1|b");
        if let Some(count) = commands.iter_mut().find(is) {
            *count = "ECHO|nothing";
            is_left_out = true;
        }
    });
    assert!(is_left_out && difference.is_err());
}

#[test]
fn a_slow_script_among_others_keeps_nobody_waiting() {
    for threads in [1, 2] {
        let (server, mut first) = start(threads);
        let mut other = server.connect();
        assert_eq!(ask(&mut other, "CONFIG SET busy-reply-threshold 20"), "OK");
        let mut request = Vec::new();
        for command in [
            "FCALL|count|1|a",
            "FCALL|count|1|a",
            "EVAL|while true do end|0",
            "FCALL|count|1|a",
            "EVAL|return redis.call('incr', 'a')|0",
            "GET|a",
        ] {
            append(&mut request, command, false);
        }
        for round in 0..3 {
            first.send(&request).unwrap();
            eventually("the script is slow", || {
                ask(&mut other, "PING").contains("BUSY")
            });
            assert_eq!(ask(&mut other, "SCRIPT KILL"), "OK");
            let before = 4 * round;
            for expected in 1..=2 {
                let reply = receive_reply(&mut first);
                assert_eq!(reply, format!("(integer) {}", before + expected));
            }
            let killed = receive_reply(&mut first);
            assert!(killed.contains("Script killed by user"), "{killed}");
            for expected in 3..=4 {
                let reply = receive_reply(&mut first);
                assert_eq!(reply, format!("(integer) {}", before + expected));
            }
            assert_eq!(receive_reply(&mut first), format!("\"{}\"", before + 4));
            assert_eq!(ask(&mut other, "PING"), "PONG");
        }
    }
}
