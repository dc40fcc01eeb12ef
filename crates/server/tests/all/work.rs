//! The work of a command grows with its own data. It does not grow with the product of two sizes
//! that a client chooses, nor with the number of unrelated clients.

use crate::waiting::StepCountedServer;
use nearfield_server::client::ClientSession;
use nearfield_server::config::ServerOptions;
use nearfield_server::keyspace::Keyspace;
use nearfield_server::steps;
use nearfield_server_testkit::connection::encode;
use nearfield_server_testkit::nearfield::{Nearfield, UnservedServer};
use nearfield_server_testkit::steps::{
    ask, ask_number, connect, eventually, info, on_both, receive_reply, send_command,
};
use std::collections::HashSet;
use std::time::{Duration, Instant};

// ---- Other clients -----------------------------------------------------------------------------

/// Commands of clients that use neither the key `k` nor the channel `c`.
const ELSEWHERE: &[&str] = &[
    "BLPOP q{} 0",
    "BZPOPMIN z{} 0",
    "XREAD BLOCK 0 STREAMS s{} $",
    "WATCH w{} x{} y{}",
    "CLIENT TRACKING ON|GET t{}",
    "CLIENT TRACKING ON BCAST PREFIX p{}",
    "SUBSCRIBE c{}",
    "PSUBSCRIBE p{}*",
    "PSUBSCRIBE k{}?x",
];

#[test]
fn a_write_costs_the_same_however_many_clients_have_to_do_with_other_keys() {
    let writes: &[&[&str]] = &[
        &["RPUSH", "k", "v"],
        &["LPOP", "k"],
        &["ZADD", "z", "1", "m"],
        &["XADD", "s", "*", "f", "v"],
        &["MSET", "a", "1", "b", "2", "c", "3"],
        &["PUBLISH", "c", "message"],
        &["DEL", "a", "b", "c", "z", "s"],
    ];
    let taken = [3, 300].map(|clients| {
        let server = UnservedServer::new(ServerOptions::default());
        let mut counted = StepCountedServer::new(&server);
        let mut writer = counted.client(&["PING"]);
        counted.run(
            &mut writer,
            &["CONFIG", "SET", "notify-keyspace-events", "KEA"],
        );
        let mut others = Vec::new();
        for number in 0..clients {
            for commands in ELSEWHERE {
                let mut client = counted.client(&["HELLO", "3"]);
                for command in commands.split('|') {
                    let command = command.replace("{}", &number.to_string());
                    let words: Vec<&str> = command.split(' ').collect();
                    counted.run(&mut client, &words);
                }
                others.push(client);
            }
        }
        let steps = writes.iter().map(|words| counted.steps(&mut writer, words));
        steps.collect::<Vec<u64>>()
    });
    for (words, (few, many)) in writes.iter().zip(taken[0].iter().zip(&taken[1])) {
        // Prefixes that are between these are skipped.
        assert!(*many <= 2 * few + 40, "{words:?}: {few} steps, then {many}");
    }
}

#[test]
fn who_leaves_costs_as_much_as_it_has_had() {
    let leave = |counted: &mut StepCountedServer<'_>, clients: &mut Vec<ClientSession>| -> u64 {
        let mut client = clients.pop().unwrap();
        let server = counted.server;
        nearfield_server::steps::taken_by(|| server.forget(&mut client)).unwrap_or(0)
    };
    for command in ["BLPOP q 0", "WATCH k", "SUBSCRIBE c", "PSUBSCRIBE c*"] {
        let taken = [2, 1000].map(|count| {
            let server = UnservedServer::new(ServerOptions::default());
            let mut counted = StepCountedServer::new(&server);
            let words: Vec<&str> = command.split(' ').collect();
            let mut clients: Vec<ClientSession> =
                (0..count).map(|_| counted.client(&words)).collect();
            leave(&mut counted, &mut clients)
        });
        assert!(taken[1] <= taken[0], "{command}: {taken:?}");
    }
}

// ---- Products ----------------------------------------------------------------------------------

#[test]
fn work_grows_with_the_number_of_words() {
    let words_of = |name: &str, count: usize, pairs: bool| -> Vec<String> {
        let mut words = vec![name.to_owned()];
        for number in 0..count {
            words.push(format!("k{number}"));
            words.extend(pairs.then(|| "v".to_owned()));
        }
        words
    };
    for (name, pairs) in [
        ("MSET", true),
        ("WATCH", false),
        ("UNLINK", false),
        ("PSUBSCRIBE", false),
    ] {
        let taken = [100, 10_000].map(|count| {
            let server = UnservedServer::new(ServerOptions::default());
            let mut counted = StepCountedServer::new(&server);
            let mut tracker = counted.client(&["HELLO", "3"]);
            counted.run(&mut tracker, &["CLIENT", "TRACKING", "ON"]);
            counted.run(&mut tracker, &["GET", "k1"]);
            let mut client = counted.client(&["PING"]);
            if name == "UNLINK" {
                let words = words_of("MSET", count, true);
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                counted.run(&mut client, &words);
            }
            let words = words_of(name, count, pairs);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            counted.steps(&mut client, &words) + {
                let server = counted.server;
                nearfield_server::steps::taken_by(|| server.forget(&mut client)).unwrap_or(0)
            }
        });
        assert!(taken[1] <= taken[0] * 120 + 1000, "{name}: {taken:?}");
    }
}

#[test]
fn prefixes_of_one_client_are_compared_in_order() {
    let taken = [100, 5_000].map(|count| {
        let server = UnservedServer::new(ServerOptions::default());
        let mut counted = StepCountedServer::new(&server);
        let mut client = counted.client(&["HELLO", "3"]);
        let prefixes: Vec<String> = (0..count).map(|number| format!("p{number:05}:")).collect();
        let mut words = vec!["CLIENT", "TRACKING", "ON", "BCAST"];
        for prefix in &prefixes {
            words.extend(["PREFIX", prefix]);
        }
        counted.steps(&mut client, &words)
    });
    assert!(taken[1] <= taken[0] * 120, "{taken:?}");
}

#[test]
fn lcs_takes_little_time_and_refuses_what_takes_much() {
    let ours = Nearfield::start(ServerOptions::default());
    let mut client = ours.connect();
    let mut set = |key: &str, length: usize| {
        let value: Vec<u8> = (0..length).map(|at| b'a' + (at * at % 7) as u8).collect();
        client.command(&[b"SET", key.as_bytes(), &value]).unwrap();
    };
    for (key, length) in [("x", 10_000), ("y", 11_000), ("long", 100_000)] {
        set(key, length);
    }
    let begun = Instant::now();
    assert!(ask_number(&mut client, "LCS x y LEN") > 5000);
    assert!(ask(&mut client, "LCS x y IDX MINMATCHLEN 4").contains("matches"));
    // Each takes some 10 ms; a table of all lengths takes seconds in builds for tests.
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    let refused = "(error) ERR Insufficient memory, transient memory for LCS exceeds \
                   proto-max-bulk-len";
    for command in ["LCS long long", "LCS long y LEN", "LCS y long IDX"] {
        assert_eq!(ask(&mut client, command), refused);
    }
}

#[test]
fn a_pattern_that_takes_too_much_work_is_refused() {
    let ours = Nearfield::start(ServerOptions::default());
    let mut client = ours.connect();
    let text = vec![b'a'; 50_000];
    let costly = [b"*".as_slice(), &vec![b'?'; 20_000], b"b"].concat();
    client.command(&[b"SADD", b"s", &text]).unwrap();
    client.command(&[b"SET", &text, b"v"]).unwrap();
    let error = "(error) ERR the pattern takes too much work, because it is long and has wildcards";
    for words in [
        &[&b"SSCAN"[..], b"s", b"0", b"MATCH", &costly][..],
        &[b"KEYS", &costly],
        &[b"SCAN", b"0", b"MATCH", &costly],
    ] {
        let name = String::from_utf8_lossy(words[0]);
        assert_eq!(client.command(words).unwrap().to_string(), error, "{name}");
    }
    // Plain patterns of any length are fast.
    let plain = [b"*".as_slice(), &vec![b'a'; 20_000], b"b"].concat();
    let answer = client
        .command(&[b"SSCAN", b"s", b"0", b"MATCH", &plain])
        .unwrap();
    assert!(answer.to_string().contains("empty array"), "{answer}");
    let found = client
        .command(&[b"SSCAN", b"s", b"0", b"MATCH", b"*aa*a?a"])
        .unwrap();
    assert!(found.to_string().len() > text.len());
    // A subscriber with such a pattern gets no message, and others do.
    let mut subscriber = ours.connect();
    subscriber.command(&[b"PSUBSCRIBE", &costly]).unwrap();
    let mut other = ours.connect();
    assert!(ask(&mut other, "PSUBSCRIBE a*").contains("psubscribe"));
    let published = client.command(&[b"PUBLISH", &text, b"message"]);
    assert_eq!(published.unwrap().to_string(), "(integer) 1");
    assert!(receive_reply(&mut other).contains("message"));
}

// ---- Other costs for others --------------------------------------------------------------------

#[test]
fn reads_during_a_pause_delete_nothing() {
    on_both(|address| {
        let mut client = connect(address);
        let mut other = connect(address);
        for reads in [
            &["GET f"][..],
            &["MGET f f"],
            &["STRLEN f"],
            &["EXISTS f"],
            &["MULTI", "GET f", "EXEC"],
        ] {
            assert_eq!(ask(&mut client, "CONFIG RESETSTAT"), "OK");
            assert_eq!(ask(&mut client, "SET f 1 PX 20"), "OK");
            assert_eq!(ask(&mut other, "CLIENT PAUSE 60000 WRITE"), "OK");
            std::thread::sleep(Duration::from_millis(40));
            for command in reads {
                ask(&mut client, command);
            }
            assert_eq!(info(&mut other, "expired_keys"), 0, "{reads:?}");
            assert_eq!(ask_number(&mut other, "DBSIZE"), 1, "{reads:?}");
            assert_eq!(ask(&mut other, "CLIENT UNPAUSE"), "OK");
            eventually("it is deleted", || {
                ask(&mut client, "GET f") == "(nil)" && ask_number(&mut other, "DBSIZE") == 0
            });
        }
    });
}

#[test]
fn a_watched_key_whose_time_is_over_has_changed_also_if_it_is_kept() {
    on_both(|address| {
        let mut client = connect(address);
        let mut other = connect(address);
        assert_eq!(ask(&mut client, "SET f 1 PX 20"), "OK");
        assert_eq!(ask(&mut client, "WATCH f"), "OK");
        assert_eq!(ask(&mut other, "CLIENT PAUSE 60000 WRITE"), "OK");
        std::thread::sleep(Duration::from_millis(40));
        assert_eq!(ask(&mut client, "MULTI"), "OK");
        assert_eq!(ask(&mut client, "PING"), "QUEUED");
        assert_eq!(ask(&mut client, "EXEC"), "(nil)");
        // The key is absent when it is watched, and stays absent.
        assert_eq!(ask(&mut client, "WATCH f"), "OK");
        assert_eq!(ask(&mut client, "MULTI"), "OK");
        assert_eq!(ask(&mut client, "PING"), "QUEUED");
        assert_eq!(ask(&mut client, "EXEC"), "1) PONG");
        assert_eq!(ask(&mut other, "CLIENT UNPAUSE"), "OK");
    });
}

#[test]
fn draws_from_many_integers_end() {
    let server = UnservedServer::new(ServerOptions::default());
    let mut counted = StepCountedServer::new(&server);
    let mut client = counted.client(&["CONFIG", "SET", "set-max-intset-entries", "100000"]);
    let numbers: Vec<String> = (1000..4000).map(|number| number.to_string()).collect();
    let add = ["SADD", "s"].into_iter();
    let add: Vec<&str> = add.chain(numbers.iter().map(String::as_str)).collect();
    counted.run(&mut client, &add);
    let encoding = counted.run(&mut client, &["OBJECT", "ENCODING", "s"]);
    assert!(encoding.contains("intset"), "{encoding}");
    for count in [1, 20, 900, 2900, 3000] {
        let drawn = counted.run(&mut client, &["SRANDMEMBER", "s", &count.to_string()]);
        let drawn: HashSet<&str> = drawn
            .lines()
            .filter(|line| numbers.iter().any(|n| n == line))
            .collect();
        assert_eq!(drawn.len(), count);
    }
}

/// Expired fields stay during a pause.
#[test]
fn draws_beside_expired_fields_are_not_quadratic() {
    let server = UnservedServer::new(ServerOptions::default());
    let mut counted = StepCountedServer::new(&server);
    let mut client = counted.client(&["HELLO", "3"]);
    const FIELDS: usize = 3000;
    for number in 0..FIELDS {
        counted.run(&mut client, &["HSET", "h", &format!("f{number}"), "v"]);
    }
    counted.run(
        &mut client,
        &["HPEXPIRE", "h", "5", "FIELDS", "2", "f7", "f8"],
    );
    counted.run(&mut client, &["CLIENT", "PAUSE", "60000", "WRITE"]);
    std::thread::sleep(Duration::from_millis(10));
    for count in ["1", "900", "-900", "2000"] {
        for values in [&[][..], &["WITHVALUES"]] {
            let draw = [&["HRANDFIELD", "h", count][..], values].concat();
            let drawn = counted.run(&mut client, &draw);
            let names = drawn.lines().filter(|line| line.starts_with('f'));
            let names: Vec<&str> = names.collect();
            let wanted: isize = count.parse().expect("a number");
            assert_eq!(names.len(), wanted.unsigned_abs(), "{draw:?}");
            assert!(!names.contains(&"f7") && !names.contains(&"f8"));
            let steps = counted.steps(&mut client, &draw);
            assert!(steps < 3 * FIELDS as u64, "{draw:?}: {steps}");
        }
    }
}

#[test]
fn reads_delete_what_has_expired_where_nobody_else_does() {
    let ours = Nearfield::start(ServerOptions::default());
    let mut client = ours.connect();
    let mut watcher = ours.connect();
    // The state that DEBUG SET-ACTIVE-EXPIRE 0 sets.
    let server = &ours.server;
    server
        .expires_actively
        .store(false, std::sync::atomic::Ordering::Relaxed);
    server
        .singly
        .set(nearfield_server::singly::SequentialReason::LazyExpiry, true);
    for watches in [false, true] {
        if watches {
            assert_eq!(ask(&mut watcher, "WATCH other"), "OK");
        }
        for read in ["GET a", "STRLEN a", "TTL a", "MGET a b"] {
            assert_eq!(ask(&mut client, "SET a 1 PX 10"), "OK");
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(ask_number(&mut client, "DBSIZE"), 1);
            ask(&mut client, read);
            assert_eq!(ask_number(&mut client, "DBSIZE"), 0, "{read}");
        }
    }
}

#[test]
fn a_read_behind_a_write_of_its_transaction_is_news_to_nobody() {
    on_both(|address| {
        let mut client = connect(address);
        let mut other = connect(address);
        ask(&mut client, "HELLO 3");
        assert_eq!(ask(&mut client, "CLIENT TRACKING ON"), "OK");
        for command in ["MULTI", "SET y 2", "GET y", "EXEC"] {
            ask(&mut client, command);
        }
        assert_eq!(ask(&mut client, "PING"), "PONG");
        assert_eq!(ask(&mut other, "SET y 3"), "OK");
        assert!(receive_reply(&mut client).contains("invalidate"));
    });
}

#[test]
fn who_is_killed_in_a_transaction_gets_nothing_more() {
    on_both(|address| {
        let mut subscriber = connect(address);
        let id = ask_number(&mut subscriber, "CLIENT ID");
        ask(&mut subscriber, "SSUBSCRIBE ch");
        let mut other = connect(address);
        for command in [
            "MULTI",
            "SPUBLISH ch 1",
            &format!("CLIENT KILL ID {id}"),
            "SPUBLISH ch 2",
            "PUBSUB SHARDNUMSUB ch",
        ] {
            ask(&mut other, command);
        }
        let answer = ask(&mut other, "EXEC");
        let expected =
            "1) (integer) 1\n2) (integer) 1\n3) (integer) 0\n4) 1) \"ch\"\n   2) (integer) 0";
        assert_eq!(answer, expected);
    });
}

#[test]
fn clients_are_listed_and_killed_by_many_numbers() {
    on_both(|address| {
        let mut client = connect(address);
        let mut other = connect(address);
        let id = ask_number(&mut other, "CLIENT ID");
        let numbers: Vec<String> = (1..2000).rev().map(|number| number.to_string()).collect();
        let list = ask(
            &mut client,
            &format!("CLIENT LIST ID {}", numbers.join(" ")),
        );
        assert!(list.contains(&format!("id={id} ")));
        let kill = format!("CLIENT KILL ID {id} SKIPME yes");
        assert_eq!(ask_number(&mut client, &kill), 1);
        send_command(&mut client, "CLIENT KILL ID 999999");
        assert_eq!(receive_reply(&mut client), "(integer) 0");
    });
}

#[test]
fn what_was_published_before_comes_before_the_end_of_a_subscription() {
    // All clients of one thread have one mailbox.
    let server = Nearfield::with_threads(1);
    let mut publisher = server.connect();
    let mut listener = server.connect();
    let mut other = server.connect();
    assert!(ask(&mut other, "SUBSCRIBE busy").contains("busy"));
    let names: Vec<String> = (0..1000).map(|number| format!("c{number}")).collect();
    ask(&mut listener, "HELLO 3");
    send_command(&mut listener, &format!("SUBSCRIBE {}", names.join(" ")));
    names
        .iter()
        .for_each(|_| drop(receive_reply(&mut listener)));
    // All of it arrives in a few rounds: messages to others, and to the client that leaves.
    let mut requests = Vec::new();
    for name in &names {
        encode(&mut requests, &[b"PUBLISH", b"busy", b"m"]);
        encode(&mut requests, &[b"PUBLISH", name.as_bytes(), b"last"]);
        encode(&mut requests, &[b"UNSUBSCRIBE", name.as_bytes()]);
    }
    listener.send(&requests).expect("the connection is open");
    let mut heard = Vec::new();
    while heard.len() < 4 * names.len() {
        heard.push(receive_reply(&mut listener));
    }
    for name in &names {
        let place = |verb: &str| {
            let is = |it: &String| {
                it.contains(&format!("\"{verb}\"")) && it.contains(&format!("\"{name}\""))
            };
            heard.iter().position(is)
        };
        assert!(place("message") < place("unsubscribe"), "{name}");
        assert!(place("message").is_some(), "{name}");
    }
    assert_eq!(ask(&mut publisher, "PING"), "PONG");
}

#[test]
fn large_values_that_are_given_up_are_freed_by_another_thread() {
    const MEMBERS: usize = 18_000;
    let server = UnservedServer::new(ServerOptions::default());
    let mut counted = StepCountedServer::new(&server);
    let mut client = counted.client(&["PING"]);
    let members: Vec<String> = (0..MEMBERS).map(|it| it.to_string() + "m").collect();
    let adds = |first: &'static [&'static str], before: Option<&'static str>| -> Vec<&str> {
        let of_member = |member| before.into_iter().chain([member]);
        let words = members.iter().map(String::as_str).flat_map(of_member);
        first.iter().copied().chain(words).collect()
    };
    let makes = [
        adds(&["SADD", "k"], None),
        adds(&["RPUSH", "k"], None),
        adds(&["ZADD", "k"], Some("1")),
        adds(&["HSET", "k"], Some("f")),
    ];
    // All fields of a hash differ.
    let makes = makes.map(|mut words| {
        if words[0] == "HSET" {
            words[2..].chunks_mut(2).for_each(|pair| pair.reverse());
        }
        words
    });
    let gives_up: &[&[&str]] = &[
        &["DEL", "k"],
        &["UNLINK", "k"],
        &["GETDEL", "k"],
        &["SET", "k", "v"],
        &["MSET", "a", "1", "k", "v"],
        &["RENAME", "small", "k"],
        &["COPY", "small", "k", "REPLACE"],
        &["SUNIONSTORE", "k", "small", "small"],
        &["ZINTERSTORE", "k", "1", "nothing"],
        &["SORT", "small", "STORE", "k"],
        &[
            "GEOSEARCHSTORE",
            "k",
            "nothing",
            "FROMLONLAT",
            "1",
            "1",
            "BYRADIUS",
            "1",
            "m",
        ],
        &["PEXPIREAT", "k", "1"],
        &["EVAL", "return redis.call('DEL', 'k')", "0"],
        &["KPREFIX", "k", "DEL"],
        &["FLUSHDB"],
        &["FLUSHALL"],
        &["FLUSHALL", "SYNC"],
    ];
    let mut freed = 0;
    for gives_up in gives_up {
        for makes in &makes {
            counted.run(&mut client, &["DEL", "k"]);
            server.keyspace.reclaim_by(Keyspace::try_exclude);
            counted.run(&mut client, &["SADD", "small", "1", "2"]);
            let made = counted.run(&mut client, makes);
            assert_eq!(made.trim_end(), format!(":{MEMBERS}"));
            freed = server.keyspace.freeing.freed_objects();
            let steps = steps::taken_by(|| {
                let answer = counted.run(&mut client, gives_up);
                let is_other = answer.contains("WRONGTYPE") || answer.contains("unknown");
                assert!(
                    !answer.starts_with('-') || is_other,
                    "{gives_up:?}: {answer}"
                );
                server.keyspace.reclaim_by(Keyspace::try_exclude);
            });
            let is_there = counted.run(&mut client, &["OBJECT", "ENCODING", "k"]);
            let is_large = is_there.contains("table") || is_there.contains("list");
            if !is_large {
                assert!(steps.unwrap_or(0) < 20_000, "{gives_up:?}: {steps:?}");
                eventually("it is freed", || {
                    server.keyspace.freeing.waiting_objects() == 0
                });
                let now = server.keyspace.freeing.freed_objects();
                assert!(now > freed, "{gives_up:?} of {}", makes[0]);
            }
        }
    }
    assert!(freed > 60, "{freed}");
}

#[test]
fn one_step_of_a_scan_is_bounded_whatever_its_count() {
    let server = UnservedServer::new(ServerOptions::default());
    let mut counted = StepCountedServer::new(&server);
    let mut client = counted.client(&["PING"]);
    let words: Vec<String> = (0..120_000).map(|number| format!("n{number}")).collect();
    let mut fill = |first: &[&str], fields: bool| {
        for part in words.chunks(10_000) {
            let of_word = |word| std::iter::once(word).chain(fields.then_some("1"));
            let words = part.iter().map(String::as_str).flat_map(of_word);
            let words: Vec<&str> = first.iter().copied().chain(words).collect();
            let answer = counted.run(&mut client, &words);
            assert!(!answer.starts_with('-'), "{answer}");
        }
    };
    fill(&["SADD", "s"], false);
    fill(&["HSET", "h"], true);
    fill(&["MSET"], true);
    for command in [&["SCAN"][..], &["SSCAN", "s"], &["HSCAN", "h"]] {
        let (mut cursor, mut found, mut calls) = ("0".to_owned(), 0, 0);
        loop {
            let words = [command, &[&cursor, "COUNT", "9223372036854775807"]].concat();
            let answer = counted.run(&mut client, &words);
            let each = if command[0] == "HSCAN" { 2 } else { 1 };
            let mut lines = answer.split("\r\n");
            cursor = lines.nth(2).unwrap_or_default().to_owned();
            let count = lines.next().and_then(|line| line.strip_prefix('*'));
            let count: usize = count.and_then(|it| it.parse().ok()).expect("a length");
            // The last bucket of a table is returned as a whole.
            assert!(count / each <= 100_100, "{command:?}: {count}");
            (found, calls) = (found + count / each, calls + 1);
            if cursor == "0" {
                break;
            }
        }
        assert!(
            found >= words.len() && calls >= 2,
            "{command:?}: {found}, {calls}"
        );
    }
}

#[test]
fn who_sends_many_long_commands_lets_others_be_served_in_between() {
    let ours = Nearfield::with_threads(1);
    let mut other = ours.connect();
    let loops = b"for i = 1, 3000000 do end";
    for long in [
        &[&b"DEBUG"[..], b"SLEEP", b"0.03"][..],
        &[b"EVAL", loops, b"0"],
    ] {
        const COMMANDS: usize = 60;
        ask(&mut other, "DEL last");
        let mut requests = Vec::new();
        (0..COMMANDS).for_each(|_| encode(&mut requests, long));
        encode(&mut requests, &[b"SET", b"last", b"1"]);
        let mut client = ours.connect();
        client.send(&requests).expect("the connection is open");
        for _ in 0..5 {
            assert_eq!(ask(&mut other, "PING"), "PONG");
        }
        assert_eq!(ask_number(&mut other, "EXISTS last"), 0, "{long:?}");
        (0..COMMANDS).for_each(|_| drop(receive_reply(&mut client)));
        assert_eq!(receive_reply(&mut client), "OK");
    }
    // A client that ends its side of the connection has all its commands executed, too.
    let mut client = ours.connect();
    let requests = b"DEBUG SLEEP 0.03\r\n".repeat(10);
    client.send(&requests).expect("the connection is open");
    assert_eq!(client.close(), b"+OK\r\n".repeat(10));
}

#[test]
fn a_key_that_is_named_often_is_read_once() {
    let server = UnservedServer::new(ServerOptions::default());
    let mut counted = StepCountedServer::new(&server);
    let mut client = counted.client(&["PING"]);
    let members: Vec<String> = (0..1000).map(|number| format!("m{number}")).collect();
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    counted.run(&mut client, &[&["SADD", "s"][..], &members].concat());
    counted.run(&mut client, &[&["PFADD", "p"][..], &members].concat());
    counted.run(&mut client, &["SET", "b", "bits", "EX", "100"]);
    for (command, key) in [
        (&["SUNION"][..], "s"),
        (&["SUNIONSTORE", "d"], "s"),
        (&["SINTER"], "s"),
        (&["SINTERSTORE", "d"], "s"),
        (&["SDIFF", "s"], "s"),
        (&["SDIFFSTORE", "d", "s"], "s"),
        (&["PFCOUNT"], "p"),
        (&["PFMERGE", "d2"], "p"),
        (&["BITOP", "AND", "d"], "b"),
        (&["BITOP", "OR", "d"], "b"),
        (&["BITOP", "XOR", "d"], "b"),
    ] {
        let taken = [2, 200].map(|times| {
            let words = [command, &vec![key; times]].concat();
            counted.steps(&mut client, &words)
        });
        assert_eq!(taken[0], taken[1], "{command:?}");
        assert_eq!(taken[0] > 0, cfg!(debug_assertions), "{command:?}");
    }
    for (words, result) in [
        ("BITOP XOR d b b", "\0\0\0\0"),
        ("BITOP XOR d b b b", "bits"),
        ("BITOP OR d b b", "bits"),
        ("BITOP AND d b b x", "\0\0\0\0"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        assert_eq!(counted.run(&mut client, &words), ":4\r\n");
        let read = counted.run(&mut client, &["GET", "d"]);
        assert_eq!(read, format!("$4\r\n{result}\r\n"), "{words:?}");
    }
    assert!(counted.run(&mut client, &["SDIFF", "s", "s"]).contains("0"));
    let union = counted.run(&mut client, &["SUNIONSTORE", "d", "s", "s"]);
    assert_eq!(union, ":1000\r\n");
}

#[test]
fn a_sorted_set_that_is_named_often_is_read_once() {
    let server = UnservedServer::new(ServerOptions::default());
    let mut counted = StepCountedServer::new(&server);
    let mut client = counted.client(&["PING"]);
    let members: Vec<String> = (0..1000).map(|number| format!("m{number}")).collect();
    let pairs: Vec<&str> = members.iter().flat_map(|member| ["1", &**member]).collect();
    counted.run(&mut client, &[&["ZADD", "z"][..], &pairs].concat());
    counted.run(&mut client, &["ZADD", "y", "1", "m0", "1", "other"]);
    let cases: [(&[&str], &[&str]); 8] = [
        (&["ZUNION"], &[]),
        (&["ZUNION"], &["AGGREGATE", "MIN"]),
        (&["ZUNIONSTORE", "d"], &["AGGREGATE", "MAX"]),
        (&["ZINTER"], &[]),
        (&["ZINTERSTORE", "d"], &[]),
        (&["ZINTERCARD"], &["LIMIT", "5"]),
        (&["ZDIFF"], &[]),
        (&["ZDIFFSTORE", "d"], &[]),
    ];
    for (command, options) in cases {
        // The first run makes the destination, which the others replace.
        let taken = [2, 2, 200].map(|times| {
            let number = (times + 1).to_string();
            let keys = vec!["z"; times];
            let words = [command, &[&*number, "y"], &keys, options].concat();
            counted.steps(&mut client, &words)
        });
        assert_eq!(taken[1], taken[2], "{command:?}");
        assert_eq!(taken[0] > 0, cfg!(debug_assertions), "{command:?}");
    }
    // Each name of a key counts, with its weight.
    counted.run(&mut client, &["ZADD", "g", "3", "m"]);
    counted.run(&mut client, &["ZADD", "f", "0.1", "m"]);
    for (command, result) in [
        ("ZUNION 3 f f f WITHSCORES", ",0.30000000000000004\r\n"),
        ("ZUNION 3 g g g WEIGHTS 1 10 100 WITHSCORES", ",333\r\n"),
        ("ZINTER 3 g g g WEIGHTS 1 10 100 WITHSCORES", ",333\r\n"),
        (
            "ZUNION 3 g g g WEIGHTS 5 2 5 AGGREGATE MIN WITHSCORES",
            ",6\r\n",
        ),
        (
            "ZINTER 3 g g g WEIGHTS 5 2 5 AGGREGATE MAX WITHSCORES",
            ",15\r\n",
        ),
        ("ZUNION 3 y g g WITHSCORES", ",6\r\n"),
        ("ZINTERCARD 3 g g g", ":1\r\n"),
        ("ZDIFF 2 g g", "*0\r\n"),
        ("ZDIFF 3 g none none", "*1\r\n"),
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let reply = counted.run(&mut client, &words);
        assert!(reply.contains(result), "{command}: {reply}");
    }
}

#[test]
fn a_sort_reads_a_long_value_once_for_equal_elements() {
    let server = UnservedServer::new(ServerOptions::default());
    let mut counted = StepCountedServer::new(&server);
    let mut client = counted.client(&["PING"]);
    let weight = "1".repeat(300);
    counted.run(&mut client, &["SET", "w_x", &weight]);
    counted.run(&mut client, &["HSET", "h_x", "f", &weight]);
    for (pattern, order) in [("w_*", "ALPHA"), ("w_*", "ASC"), ("h_*->f", "ALPHA")] {
        let taken = [2, 200].map(|times| {
            counted.run(&mut client, &["DEL", "l"]);
            counted.run(
                &mut client,
                &[&["RPUSH", "l"][..], &vec!["x"; times]].concat(),
            );
            counted.steps(&mut client, &["SORT", "l", "BY", pattern, order])
        });
        assert_eq!(taken[0], taken[1], "{pattern} {order}");
        assert_eq!(taken[0] > 0, cfg!(debug_assertions), "{pattern} {order}");
    }
    // Short values, and those of different elements, are read for each.
    counted.run(&mut client, &["DEL", "l"]);
    counted.run(&mut client, &["RPUSH", "l", "x", "y", "x", "z"]);
    counted.run(&mut client, &["MSET", "w_y", "2", "w_z", "0"]);
    let sorted = counted.run(&mut client, &["SORT", "l", "BY", "w_*", "ALPHA"]);
    let expected = "*4\r\n$1\r\nz\r\n$1\r\nx\r\n$1\r\nx\r\n$1\r\ny\r\n";
    assert_eq!(sorted, expected);
}
