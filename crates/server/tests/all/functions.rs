//! Libraries of functions: they are kept, move to Redis and back, and stop on request.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server::config::ServerOptions;
use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::redis::RedisPeerProcess;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::saving::{logging_into, saving_into};
use nearfield_server_testkit::steps::{
    ask, connect, eventually, info, on_both, receive_reply, send_command,
};

const COUNTS: &str = "#!lua name=counts\nredis.register_function('count', function(keys) \
    return redis.call('incr', keys[1]) end)";
const READS: &str = "#!lua name=reads\nredis.register_function{function_name='read', \
    description='reads', flags={'no-writes'}, \
    callback=function(keys) return redis.call('get', keys[1]) end}";

fn load(connection: &mut TestkitConnection, code: &str) -> RespReplyValue {
    let words = [&b"FUNCTION"[..], b"LOAD", b"REPLACE", code.as_bytes()];
    connection.command(&words).unwrap()
}

/// Returns the libraries, with their code.
fn listed(connection: &mut TestkitConnection) -> String {
    ask(connection, "FUNCTION LIST WITHCODE")
}

/// Changes the libraries in all ways, and returns the resulting list.
fn change(server: &Nearfield) -> String {
    let connection = &mut server.connect();
    for code in [COUNTS, READS] {
        load(connection, code);
    }
    let RespReplyValue::Bulk(dump) = connection.command(&[b"FUNCTION", b"DUMP"]).unwrap() else {
        panic!("no payload");
    };
    assert_eq!(ask(connection, "FUNCTION DELETE counts"), "OK");
    assert_eq!(ask(connection, "FUNCTION FLUSH"), "OK");
    load(
        connection,
        "#!lua name=old\nredis.register_function('old', function() end)",
    );
    let words = [&b"FUNCTION"[..], b"RESTORE", &dump, b"FLUSH"];
    assert_eq!(
        connection.command(&words).unwrap(),
        RespReplyValue::simple("OK")
    );
    // The load is refused, and not logged either.
    let failed = load(connection, &COUNTS.replace("end)", "end) x = 1"));
    assert!(matches!(failed, RespReplyValue::Error(_)), "{failed:?}");
    let other = COUNTS.replace("name=counts", "name=other");
    let failed = load(connection, &other);
    assert!(matches!(failed, RespReplyValue::Error(_)), "{failed:?}");
    for _ in 0..3 {
        ask(connection, "FCALL count 1 counter");
    }
    let listed = listed(connection);
    assert!(listed.contains("counts") && listed.contains("reads") && !listed.contains("old"));
    listed
}

/// Checks the libraries of a server that was started again.
fn check(server: &Nearfield, expected: &str) {
    let connection = &mut server.connect();
    assert_eq!(listed(connection), expected);
    assert_eq!(ask(connection, "FCALL_RO read 1 counter"), "\"3\"");
    assert_eq!(info(connection, "number_of_functions"), 2);
    assert_eq!(info(connection, "number_of_libraries"), 2);
}

#[test]
fn libraries_come_back_from_the_log_and_from_its_base() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(logging_into(&folder, 2));
    let expected = change(&server);
    drop(server);
    let server = Nearfield::start(logging_into(&folder, 2));
    check(&server, &expected);
    let rewrites = || server.server.persistence.status().rewrites;
    ask(&mut server.connect(), "BGREWRITEAOF");
    eventually("it is rewritten", || rewrites() > 0);
    drop(server);
    let server = Nearfield::start(logging_into(&folder, 2));
    check(&server, &expected);
    let connection = &mut server.connect();
    assert_eq!(ask(connection, "DEBUG LOADAOF"), "OK");
    check(&server, &expected);
    assert_eq!(ask(connection, "FCALL count 1 counter"), "(integer) 4");
}

#[test]
fn libraries_come_back_from_snapshots() {
    for how in ["SAVE", "BGSAVE"] {
        let folder = TestkitFolder::new();
        let server = Nearfield::start(saving_into(&folder, 2));
        let expected = change(&server);
        let connection = &mut server.connect();
        ask(connection, how);
        eventually("it is saved", || {
            server.server.persistence.status().saves > 0
        });
        assert_eq!(ask(connection, "DEBUG RELOAD"), "OK");
        check(&server, &expected);
        drop(server);
        check(&Nearfield::start(saving_into(&folder, 2)), &expected);
    }
}

#[test]
fn a_server_that_begins_to_log_keeps_libraries_without_keys() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(saving_into(&folder, 1));
    let connection = &mut server.connect();
    load(connection, READS);
    let expected = listed(connection);
    assert_eq!(ask(connection, "SAVE"), "OK");
    drop(server);
    for _ in 0..2 {
        let server = Nearfield::start(logging_into(&folder, 2));
        assert_eq!(listed(&mut server.connect()), expected);
    }
    // A server that no longer logs has them in its dump.
    let server = Nearfield::start(saving_into(&folder, 1));
    assert_eq!(listed(&mut server.connect()), expected);
}

#[test]
fn libraries_move_to_redis_and_back() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(saving_into(&folder, 1));
    let expected = change(&server);
    let ours = &mut server.connect();
    assert_eq!(ask(ours, "SAVE"), "OK");
    let directory = folder.0.to_str().unwrap();
    let Some(redis) = RedisPeerProcess::start(&["--dir", directory]) else {
        return;
    };
    // Redis loads our snapshot, and our payload.
    let theirs = &mut connect(redis.address);
    assert_eq!(ask(theirs, "FCALL_RO read 1 counter"), "\"3\"");
    assert_eq!(ask(theirs, "FCALL count 1 counter"), "(integer) 4");
    let dump = |from: &mut TestkitConnection| match from.command(&[b"FUNCTION", b"DUMP"]).unwrap() {
        RespReplyValue::Bulk(payload) => payload,
        other => panic!("no payload: {other:?}"),
    };
    let restore = |into: &mut TestkitConnection, payload: &[u8]| {
        let words = [&b"FUNCTION"[..], b"RESTORE", payload, b"REPLACE"];
        assert_eq!(into.command(&words).unwrap(), RespReplyValue::simple("OK"));
    };
    assert_eq!(ask(theirs, "FUNCTION FLUSH"), "OK");
    restore(theirs, &dump(ours));
    assert_eq!(ask(theirs, "FCALL count 1 counter"), "(integer) 5");
    // Our server loads theirs.
    assert_eq!(ask(ours, "FUNCTION FLUSH"), "OK");
    restore(ours, &dump(theirs));
    assert_eq!(listed(ours), expected);
    drop(server);
    assert_eq!(ask(theirs, "SAVE"), "OK");
    drop(redis);
    let server = Nearfield::start(saving_into(&folder, 1));
    let ours = &mut server.connect();
    assert_eq!(listed(ours), expected);
    assert_eq!(ask(ours, "FCALL count 1 counter"), "(integer) 6");
}

#[test]
fn a_function_is_killed_by_its_own_command() {
    const BUSY: &str = "(error) BUSY Redis is busy running a script. You can only call FUNCTION \
        KILL or SHUTDOWN NOSAVE.";
    on_both(|address| {
        let (mut first, mut second) = (connect(address), connect(address));
        assert_eq!(ask(&mut first, "CONFIG SET busy-reply-threshold 20"), "OK");
        load(
            &mut first,
            "#!lua name=l\nredis.register_function('forever', function() while true do end end)",
        );
        for _ in 0..2 {
            send_command(&mut first, "FCALL forever 1 key argument");
            eventually("the server is busy", || ask(&mut second, "PING") == BUSY);
            let stats = ask(&mut second, "FUNCTION STATS");
            for told in ["\"forever\"", "\"argument\"", "duration_ms"] {
                assert!(stats.contains(told), "{stats}");
            }
            assert_eq!(ask(&mut second, "SCRIPT KILL"), BUSY);
            assert_eq!(ask(&mut second, "FUNCTION LIST"), BUSY);
            assert_eq!(ask(&mut second, "FUNCTION KILL"), "OK");
            let answer = receive_reply(&mut first);
            assert!(
                answer.contains("killed by user with SCRIPT KILL"),
                "{answer}"
            );
            eventually("it serves", || ask(&mut second, "PING") == "PONG");
            assert!(!ask(&mut second, "FUNCTION STATS").contains("forever"));
        }
    });
}

#[test]
fn functions_keep_to_the_limit_of_memory_and_to_pauses() {
    on_both(|address| {
        let (mut first, mut second) = (connect(address), connect(address));
        load(&mut first, COUNTS);
        load(&mut first, READS);
        assert_eq!(ask(&mut first, "SET key value"), "OK");
        assert_eq!(ask(&mut first, "CONFIG SET maxmemory 1"), "OK");
        let refused = ask(&mut first, "FCALL count 1 n");
        assert!(
            refused.starts_with("(error) OOM command not allowed"),
            "{refused}"
        );
        assert_eq!(ask(&mut first, "FCALL read 1 key"), "\"value\"");
        let refused = load(
            &mut first,
            "#!lua name=l\nredis.register_function('f', error)",
        );
        assert!(matches!(refused, RespReplyValue::Error(_)), "{refused:?}");
        assert_eq!(ask(&mut first, "CONFIG SET maxmemory 0"), "OK");
        assert_eq!(ask(&mut first, "CLIENT PAUSE 100000 WRITE"), "OK");
        assert_eq!(ask(&mut second, "FCALL read 1 key"), "\"value\"");
        send_command(&mut second, "FCALL count 1 n");
        eventually("it waits", || info(&mut first, "blocked_clients") == 1);
        assert_eq!(ask(&mut first, "CLIENT UNPAUSE"), "OK");
        assert_eq!(receive_reply(&mut second), "(integer) 1");
    });
}

#[test]
fn a_library_that_takes_too_long_is_refused_whatever_it_catches() {
    let server = Nearfield::start(ServerOptions::default());
    let connection = &mut server.connect();
    load(connection, COUNTS);
    let before = listed(connection);
    for code in [
        "while true do end",
        "for i = 1, 1e12 do local t = {i} end",
        "local function f() while true do end end f()",
        "redis.register_function('f', function() end) while true do end",
    ] {
        let code = format!("#!lua name=slow\n{code}");
        let answer = connection.command(&[b"FUNCTION", b"LOAD", code.as_bytes()]);
        let answer = answer.unwrap().to_string();
        assert!(answer.contains("FUNCTION LOAD timeout"), "{answer}");
        assert_eq!(listed(connection), before);
    }
    assert_eq!(ask(connection, "FCALL count 1 n"), "(integer) 1");
}
