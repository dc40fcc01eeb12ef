//! Snapshots of Redis 8 and Valkey 9 are loaded here, and ours there: everything that can be read
//! is the same. Servers that are not installed are left out, which the test reports.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::peer::PeerServer;
use nearfield_server_testkit::redis::RedisPeerProcess;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::saving::saving_into;
use nearfield_server_testkit::steps::ask;
use std::fmt::Write as _;

/// Data of each type in its small and its large encoding, in two databases. Each command is
/// repeated as often as its number says, with `#` replaced by 1, 2 and so on.
const DATA: &[(usize, &str)] = &[
    (1, "SET string value"),
    (1, "SET integer 12345"),
    (1, "SET expires value PXAT 4000000000123"),
    (1, "SETRANGE long 20000 end"),
    (1, "SETBIT bits 1000 1"),
    (1, "RPUSH small-list a 1 -5 300000"),
    (300, "RPUSH large-list element-of-the-list-#"),
    (1, "SADD integers 1 2 300 70000"),
    (1, "SADD small-set a b 3"),
    (700, "SADD large-set member-#"),
    (1, "HSET small-hash a 1 b two"),
    (700, "HSET large-hash field-# value-#"),
    (1, "ZADD small-zset 1 a 2.5 b -inf c inf d"),
    (300, "ZADD large-zset # member-#"),
    (
        1,
        "GEOADD places 13.361389 38.115556 Palermo 15.087269 37.502669 Catania",
    ),
    (1, "PFADD few a b c"),
    (3000, "PFADD many element-#"),
    (250, "XADD stream #-1 field value-# other #"),
    (1, "XDEL stream 3-1 77-1"),
    (1, "XGROUP CREATE stream group 100-1"),
    (1, "XREADGROUP GROUP group someone COUNT 5 STREAMS stream >"),
    (1, "XACK stream group 101-1"),
    (1, "XGROUP CREATECONSUMER stream group idler"),
    (1, "SELECT 3"),
    (1, "SET other value"),
    (1, "EXPIREAT other 4000000000"),
    (1, "SELECT 0"),
];

/// Hashes with fields that expire, in the same form.
const TIMES: &[(usize, &str)] = &[
    (1, "HSET small-times a 1 b 2 c 3"),
    (1, "HPEXPIREAT small-times 4000000000123 FIELDS 1 a"),
    (1, "HPEXPIREAT small-times 4100000000123 FIELDS 1 c"),
    (700, "HSET large-times field-# value-#"),
    (700, "HPEXPIREAT large-times 40000000##00 FIELDS 1 field-#"),
    (1, "HPERSIST large-times FIELDS 2 field-5 field-700"),
    (1, "HSET one-time a 1"),
    (1, "HPEXPIREAT one-time 4000000000000 FIELDS 1 a"),
    (1, "EXPIREAT one-time 4200000000"),
];

const LIBRARY: &[u8] = b"#!lua name=mine\nredis.register_function('f', function() return 1 end)";

fn fill(connection: &mut TestkitConnection, data: &[(usize, &str)]) {
    let load: [&[u8]; 4] = [b"FUNCTION", b"LOAD", b"REPLACE", LIBRARY];
    let loaded = connection.command(&load).unwrap();
    assert_eq!(loaded, RespReplyValue::Bulk(b"mine".to_vec()));
    for &(count, template) in data {
        for number in 1..=count {
            let number = number.to_string();
            let command = template
                .replace("##", &format!("{:0>4}", number))
                .replace('#', &number);
            let reply = ask(connection, &command);
            assert!(!reply.starts_with("(error)"), "{command}: {reply}");
        }
    }
}

/// Returns everything that can be read of the databases. Elements without order are sorted.
fn contents(connection: &mut TestkitConnection, times: bool) -> String {
    let mut contents = ask(connection, "FUNCTION LIST WITHCODE").replace('\n', " ") + "\n";
    for database in [0, 3] {
        ask(connection, &format!("SELECT {database}"));
        let keys = lines(connection, &["KEYS", "*"]);
        let _ = writeln!(contents, "database {database}: {keys:?}");
        for key in keys {
            let kind = ask(connection, &format!("TYPE {key}"));
            let time = ask(connection, &format!("PEXPIRETIME {key}"));
            let value = match kind.as_str() {
                "string" => vec![ask(connection, &format!("GET {key}"))],
                "list" => vec![ask(connection, &format!("LRANGE {key} 0 -1"))],
                "set" => lines(connection, &["SMEMBERS", &key]),
                "zset" => vec![ask(connection, &format!("ZRANGE {key} 0 -1 WITHSCORES"))],
                "stream" => vec![
                    ask(connection, &format!("XRANGE {key} - +")),
                    ask(connection, &format!("XPENDING {key} group")),
                    ask(connection, &format!("XINFO GROUPS {key}")),
                    ask(
                        connection,
                        &format!("XREADGROUP GROUP group someone STREAMS {key} 0"),
                    ),
                ],
                "hash" => hash(connection, &key, times),
                other => panic!("{key} is {other}"),
            };
            let _ = writeln!(contents, "{key}: {kind} until {time}: {value:?}");
        }
    }
    contents
}

fn lines(connection: &mut TestkitConnection, command: &[&str]) -> Vec<String> {
    let words: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
    let RespReplyValue::Array(elements) = connection.command(&words).unwrap() else {
        panic!("{command:?} does not reply with an array");
    };
    let text = |element: RespReplyValue| match element {
        RespReplyValue::Bulk(bytes) => String::from_utf8(bytes).unwrap(),
        other => panic!("{other} in place of a string"),
    };
    let mut lines: Vec<String> = elements.into_iter().map(text).collect();
    lines.sort();
    lines
}

/// Returns the fields of a hash, their values, and their expiry times.
fn hash(connection: &mut TestkitConnection, key: &str, times: bool) -> Vec<String> {
    let fields = lines(connection, &["HKEYS", key]);
    let described = fields.into_iter().map(|field| {
        let value = ask(connection, &format!("HGET {key} {field}"));
        match times {
            true => {
                let time = ask(connection, &format!("HPEXPIRETIME {key} FIELDS 1 {field}"));
                format!("{field}={value} {time}")
            }
            false => format!("{field}={value}"),
        }
    });
    described.collect()
}

/// Returns the description of the groups of a stream and their consumers, except the progress of
/// groups, which not all servers know exactly.
fn consumers(connection: &mut TestkitConnection) -> String {
    ask(connection, "SELECT 0");
    let words: [&[u8]; 4] = [b"XINFO", b"STREAM", b"stream", b"FULL"];
    let facts = connection.command(&words).unwrap();
    let RespReplyValue::Array(facts) = facts.without(&["lag", "entries-read"]) else {
        panic!("no facts");
    };
    let groups = facts.last().unwrap().to_string();
    assert_eq!(groups.matches("active-time").count(), 2, "{groups}");
    groups
}

/// Starts another server, with a folder that it saves into and loads from.
fn start(peer: PeerServer, folder: &TestkitFolder) -> Option<RedisPeerProcess> {
    peer.start(&["--dir", &folder.0.to_string_lossy()])
}

/// Waits until the server has loaded its snapshot.
fn loaded(server: &RedisPeerProcess) -> TestkitConnection {
    let mut connection = TestkitConnection::open(server.address).unwrap();
    while ask(&mut connection, "PING") != "PONG" {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    connection
}

#[test]
fn snapshots_of_rivals_are_loaded() {
    for (peer, times) in [
        (PeerServer::Redis7, false),
        (PeerServer::Redis8, true),
        (PeerServer::Valkey9, true),
    ] {
        let folder = TestkitFolder::new();
        let Some(server) = start(peer, &folder) else {
            continue;
        };
        let mut connection = TestkitConnection::open(server.address).unwrap();
        fill(&mut connection, DATA);
        if times {
            fill(&mut connection, TIMES);
        }
        let expected = contents(&mut connection, times);
        // Redis 7.0 does not know when consumers were active.
        let consumers = (peer != PeerServer::Redis7).then(|| consumers(&mut connection));
        assert_eq!(ask(&mut connection, "SAVE"), "OK");
        drop(server);
        let ours = Nearfield::start(saving_into(&folder, 2));
        let mut connection = ours.connect();
        if let Some(consumers) = consumers {
            assert_eq!(
                self::consumers(&mut connection),
                consumers,
                "{}",
                peer.name()
            );
        }
        let found = contents(&mut connection, times);
        same_lines(&found, &expected, peer.name());
    }
}

#[test]
fn our_snapshots_are_loaded_by_rivals() {
    // Only our server reads both formats of hashes with fields that expire.
    for (peer, times, format) in [
        (PeerServer::Redis7, false, "redis"),
        (PeerServer::Redis8, true, "redis"),
        (PeerServer::Valkey9, false, "redis"),
        (PeerServer::Valkey9, true, "valkey"),
    ] {
        let folder = TestkitFolder::new();
        let ours = Nearfield::start(saving_into(&folder, 2));
        let mut connection = ours.connect();
        set_format(&mut connection, format);
        fill(&mut connection, DATA);
        if times {
            fill(&mut connection, TIMES);
        }
        let expected = contents(&mut connection, times);
        assert_eq!(ask(&mut connection, "SAVE"), "OK");
        drop(ours);
        let again = Nearfield::start(saving_into(&folder, 1));
        let found = contents(&mut again.connect(), times);
        same_lines(&found, &expected, "ours");
        drop(again);
        let Some(server) = start(peer, &folder) else {
            continue;
        };
        let found = contents(&mut loaded(&server), times);
        same_lines(&found, &expected, peer.name());
    }
}

fn set_format(connection: &mut TestkitConnection, format: &str) {
    let command = format!("CONFIG SET rdb-format {format}");
    assert_eq!(ask(connection, &command), "OK");
}

#[test]
fn hashes_whose_fields_expire_move_to_and_from_redis_by_dump() {
    move_by_dump(PeerServer::Redis8, "redis");
}

#[test]
fn hashes_whose_fields_expire_move_to_and_from_valkey_by_dump() {
    move_by_dump(PeerServer::Valkey9, "valkey");
}

fn move_by_dump(peer: PeerServer, format: &str) {
    let folder = TestkitFolder::new();
    let Some(rival) = start(peer, &folder) else {
        return;
    };
    let ours = Nearfield::start(saving_into(&folder, 1));
    let (mut rival, mut ours) = (loaded(&rival), ours.connect());
    set_format(&mut ours, format);
    for from_rival in [true, false] {
        let (source, target) = match from_rival {
            true => (&mut rival, &mut ours),
            false => (&mut ours, &mut rival),
        };
        for connection in [&mut *source, &mut *target] {
            ask(connection, "FLUSHALL");
        }
        fill(source, TIMES);
        for key in ["small-times", "large-times", "one-time"] {
            let RespReplyValue::Bulk(payload) = source.command(&[b"DUMP", key.as_bytes()]).unwrap()
            else {
                panic!("no payload");
            };
            let words: [&[u8]; 4] = [b"RESTORE", key.as_bytes(), b"0", &payload];
            assert_eq!(
                target.command(&words).unwrap(),
                RespReplyValue::simple("OK")
            );
            assert_eq!(hash(target, key, true), hash(source, key, true), "{key}");
        }
    }
}

/// Fails with the first line that differs, because the whole would be megabytes.
fn same_lines(found: &str, expected: &str, name: &str) {
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(found, expected, "{name}");
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "{name}");
}
