//! The effects of clients on one another: they unblock and close others, redirect invalidations to
//! others, kill scripts, and take permissions away. Each test runs against redis-server, too.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server::config::ServerOptions;
use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::redis::RedisPeerProcess;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::steps::{
    ask, ask_number, ask_text, connect, eventually, info, listed, on_both, receive_reply,
    send_command, until_closed,
};
use nearfield_testkit::stop::AtEnd;
use std::net::SocketAddr;

/// Returns a connection that waits in a command, and the client's number.
fn waiting(address: SocketAddr, command: &str) -> (TestkitConnection, i64) {
    let mut connection = connect(address);
    let id = ask_number(&mut connection, "CLIENT ID");
    let mut observer = connect(address);
    let before = info(&mut observer, "blocked_clients");
    send_command(&mut connection, command);
    eventually("it waits", || {
        info(&mut observer, "blocked_clients") == before + 1
    });
    (connection, id)
}

/// Returns a connection that listens to a channel, and the client's number.
fn listening(address: SocketAddr, command: &str) -> (TestkitConnection, i64) {
    let mut connection = connect(address);
    let id = ask_number(&mut connection, "CLIENT ID");
    assert!(ask(&mut connection, command).contains("subscribe"));
    (connection, id)
}

// ---- CLIENT UNBLOCK ----------------------------------------------------------------------------

#[test]
fn who_waits_is_unblocked_as_if_in_vain() {
    on_both(|address| {
        let mut other = connect(address);
        for command in [
            "BLPOP key 0",
            "BRPOP key other 0",
            "BLMOVE key other LEFT LEFT 0",
            "BRPOPLPUSH key other 0",
            "BLMPOP 0 1 key LEFT",
            "BZPOPMIN key 0",
            "BZMPOP 0 1 key MIN",
        ] {
            for how in ["", " TIMEOUT", " timeout"] {
                let (mut client, id) = waiting(address, command);
                let unblock = format!("CLIENT UNBLOCK {id}{how}");
                assert_eq!(ask_number(&mut other, &unblock), 1);
                assert_eq!(
                    client.receive().unwrap(),
                    RespReplyValue::NullArray,
                    "{command}"
                );
                // It does not wait any more.
                assert_eq!(ask_number(&mut other, &unblock), 0);
                assert_eq!(ask(&mut client, "PING"), "PONG");
            }
        }
        assert_eq!(ask_number(&mut other, "RPUSH key left"), 1);
        assert_eq!(ask_number(&mut other, "LLEN key"), 1);
    });
}

#[test]
fn who_waits_is_unblocked_with_an_error() {
    on_both(|address| {
        let mut other = connect(address);
        let (mut client, id) = waiting(address, "BLPOP key 0");
        // The commands that it has sent afterwards are executed then.
        send_command(&mut client, "PING behind");
        let unblock = format!("CLIENT UNBLOCK {id} ERROR");
        assert_eq!(ask_number(&mut other, &unblock), 1);
        let error = "(error) UNBLOCKED client unblocked via CLIENT UNBLOCK";
        assert_eq!(receive_reply(&mut client), error);
        assert_eq!(receive_reply(&mut client), "\"behind\"");
        assert_eq!(ask_number(&mut other, &unblock), 0);
        assert_eq!(info(&mut other, "blocked_clients"), 0);
    });
}

#[test]
fn nothing_is_lost_where_waiting_ends_while_something_comes() {
    const PUSHED: i64 = 1000;
    const CLIENTS: usize = 4;
    let ours = Nearfield::with_threads(2);
    let address = ours.address;
    let done = std::sync::atomic::AtomicBool::new(false);
    let received: usize = std::thread::scope(|scope| {
        let receive = || {
            let mut client = connect(address);
            let mut received = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let answer = ask(&mut client, "BLPOP key 0.001");
                received += usize::from(answer != "(nil)");
            }
            received
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(receive)).collect();
        let stopping = AtEnd(&done);
        let mut pusher = connect(address);
        for number in 0..PUSHED {
            ask_number(&mut pusher, &format!("RPUSH key {number}"));
        }
        drop(stopping);
        clients.into_iter().map(|it| it.join().unwrap()).sum()
    });
    let left = ask_number(&mut connect(address), "LLEN key");
    assert_eq!(received as i64 + left, PUSHED);
}

// ---- CLIENT KILL -------------------------------------------------------------------------------

#[test]
fn a_client_that_waits_is_killed_and_takes_nothing() {
    on_both(|address| {
        let mut other = connect(address);
        for round in 0..20 {
            let (mut client, id) = waiting(address, "BLPOP key 0");
            let kill = match round % 2 {
                0 => format!("CLIENT KILL ID {id}"),
                _ => {
                    let peer = listed(&mut other, id, "addr").unwrap();
                    format!("CLIENT KILL ADDR {peer} SKIPME yes")
                }
            };
            assert_eq!(ask_number(&mut other, &kill), 1);
            assert_eq!(ask_number(&mut other, "RPUSH key value"), 1);
            assert_eq!(ask(&mut other, "LPOP key"), "\"value\"");
            assert_eq!(until_closed(&mut client), 0);
            assert_eq!(listed(&mut other, id, "addr"), None);
            assert_eq!(ask_number(&mut other, &kill), 0);
        }
    });
}

#[test]
fn clients_are_killed_by_their_types() {
    on_both(|address| {
        let mut other = connect(address);
        let (mut subscriber, _) = listening(address, "SUBSCRIBE channel");
        let (mut listener, id) = listening(address, "PSUBSCRIBE *");
        let (mut client, _) = waiting(address, "BLPOP key 0");
        // The connections that only observed are closed by now, or will be.
        eventually("only these are left", || {
            info(&mut other, "connected_clients") == 4
        });
        let kill = format!("CLIENT KILL TYPE normal ID {id}");
        assert_eq!(ask_number(&mut other, &kill), 0);
        let kill = format!("CLIENT KILL TYPE pubsub ID {id}");
        assert_eq!(ask_number(&mut other, &kill), 1);
        assert_eq!(until_closed(&mut listener), 0);
        assert_eq!(ask_number(&mut other, "CLIENT KILL TYPE pubsub"), 1);
        assert_eq!(until_closed(&mut subscriber), 0);
        assert_eq!(ask_number(&mut other, "CLIENT KILL TYPE normal"), 1);
        assert_eq!(until_closed(&mut client), 0);
        eventually("there are no subscribers", || {
            ask_number(&mut other, "PUBSUB NUMPAT") == 0
        });
        assert_eq!(
            ask_number(&mut other, "CLIENT KILL TYPE normal SKIPME no"),
            1
        );
        assert_eq!(until_closed(&mut other), 0);
    });
}

#[test]
fn clients_that_are_not_evicted_are_listed_so() {
    on_both(|address| {
        let mut client = connect(address);
        let id = ask_number(&mut client, "CLIENT ID");
        assert_eq!(listed(&mut client, id, "flags").unwrap(), "N");
        assert_eq!(ask(&mut client, "CLIENT NO-EVICT on"), "OK");
        assert_eq!(listed(&mut client, id, "flags").unwrap(), "e");
        assert_eq!(ask(&mut client, "CLIENT NO-EVICT off"), "OK");
        assert_eq!(listed(&mut client, id, "flags").unwrap(), "N");
    });
}

// ---- CLIENT TRACKING REDIRECT ------------------------------------------------------------------

#[test]
fn commands_of_a_pipeline_are_counted_one_by_one() {
    let server = Nearfield::start(ServerOptions::default());
    let mut client = connect(server.address);
    let mut request = Vec::new();
    for word in ["1", "2", "3"] {
        let set = format!("SET key {word}\r\nGET key\r\nGET key\r\n");
        request.extend_from_slice(set.as_bytes());
    }
    client.send(&request).unwrap();
    for _ in 0..9 {
        client.receive().unwrap();
    }
    let shown = ask_text(&mut client, "CLIENT INFO");
    assert!(shown.ends_with("tot-cmds=9\n"), "{shown}");
}

#[test]
fn another_client_is_told_what_is_written() {
    on_both(|address| {
        let mut writer = connect(address);
        let (mut told, id) = listening(address, "SUBSCRIBE __redis__:invalidate");
        let mut reader = connect(address);
        let on = format!("CLIENT TRACKING on REDIRECT {id}");
        assert_eq!(ask(&mut reader, &on), "OK");
        assert_eq!(ask_number(&mut reader, "CLIENT GETREDIR"), id);
        assert_eq!(ask(&mut reader, "GET key"), "(nil)");
        assert_eq!(ask(&mut writer, "SET key value"), "OK");
        let message = "1) \"message\"\n2) \"__redis__:invalidate\"\n3) 1) \"key\"";
        assert_eq!(receive_reply(&mut told), message);
        // The invalidation arrives only once.
        assert_eq!(ask(&mut writer, "SET key value"), "OK");
        assert_eq!(ask(&mut reader, "GET key"), "\"value\"");
        assert_eq!(ask(&mut writer, "FLUSHALL"), "OK");
        let message = "1) \"message\"\n2) \"__redis__:invalidate\"\n3) (nil)";
        assert_eq!(receive_reply(&mut told), message);
    });
}

#[test]
fn a_client_is_told_when_the_other_is_gone() {
    on_both(|address| {
        let mut writer = connect(address);
        let (told, id) = listening(address, "SUBSCRIBE __redis__:invalidate");
        let on = format!("CLIENT TRACKING on REDIRECT {id}");
        let mut readers = [connect(address), connect(address)];
        assert!(ask(&mut readers[0], "HELLO 3").contains("proto"));
        for reader in &mut readers {
            assert_eq!(ask(reader, &on), "OK");
            assert_eq!(ask(reader, "GET key"), "(nil)");
        }
        drop(told);
        eventually("it is gone", || listed(&mut writer, id, "addr").is_none());
        assert_eq!(ask(&mut writer, "SET key value"), "OK");
        let [third, second] = &mut readers;
        let pushed = receive_reply(third);
        assert_eq!(
            pushed,
            format!("1> \"tracking-redir-broken\"\n2> (integer) {id}")
        );
        for reader in [third, second] {
            assert_eq!(ask_number(reader, "CLIENT GETREDIR"), id);
            assert!(ask(reader, "CLIENT TRACKINGINFO").contains("broken_redirect"));
            let error = "(error) ERR The client ID you want redirect to does not exist";
            assert_eq!(ask(reader, &on), error);
            assert_eq!(ask(reader, "CLIENT TRACKING off"), "OK");
            assert!(!ask(reader, "CLIENT TRACKINGINFO").contains("broken_redirect"));
        }
    });
}

// ---- SCRIPT KILL -------------------------------------------------------------------------------

fn script(connection: &mut TestkitConnection, text: &str, keys: &[&[u8]]) {
    let count = keys.len().to_string();
    let mut words = vec![&b"EVAL"[..], text.as_bytes(), count.as_bytes()];
    words.extend(keys);
    connection.send_words(&words).unwrap();
}

const BUSY: &str = "(error) BUSY Redis is busy running a script. You can only call SCRIPT KILL or \
    SHUTDOWN NOSAVE.";

#[test]
fn a_script_that_has_written_nothing_is_killed() {
    on_both(|address| {
        // One of our server's two threads serves the first client, and the other one the second.
        let (mut first, mut second) = (connect(address), connect(address));
        for client in [&mut first, &mut second] {
            assert_eq!(ask(client, "CONFIG SET busy-reply-threshold 20"), "OK");
            assert_eq!(ask(client, "SET key value"), "OK");
        }
        for _ in 0..2 {
            script(
                &mut first,
                "while redis.call('EXISTS', KEYS[1]) do end",
                &[b"k"],
            );
            eventually("the server is busy", || ask(&mut second, "GET key") == BUSY);
            for refused in ["SET key other", "MSET a b c d", "EVAL return 0", "DBSIZE"] {
                assert_eq!(ask(&mut second, refused), BUSY, "{refused}");
            }
            assert_eq!(ask(&mut second, "SCRIPT KILL"), "OK");
            let answer = receive_reply(&mut first);
            assert!(
                answer.contains("Script killed by user with SCRIPT KILL"),
                "{answer}"
            );
            let error = "(error) NOTBUSY No scripts in execution right now.";
            assert_eq!(ask(&mut second, "SCRIPT KILL"), error);
            assert_eq!(ask(&mut second, "GET key"), "\"value\"");
            assert_eq!(ask(&mut first, "PING"), "PONG");
            std::mem::swap(&mut first, &mut second);
        }
    });
}

#[test]
fn a_script_that_has_written_is_not_killed() {
    on_both(|address| {
        let (mut first, mut second) = (connect(address), connect(address));
        assert_eq!(ask(&mut first, "CONFIG SET busy-reply-threshold 20"), "OK");
        assert_eq!(ask(&mut second, "PING"), "PONG");
        // The script ends by itself. It is made longer until the other client comes in time.
        let mut rounds = 10_000_000_u64;
        loop {
            let text = format!("redis.call('INCR', KEYS[1]) for i = 1, {rounds} do end return 1");
            script(&mut first, &text, &[b"key"]);
            let mut answers = Vec::new();
            eventually("the script is not killed, or over", || {
                answers.push(ask(&mut second, "SCRIPT KILL"));
                let answer = answers.last().unwrap();
                answer.contains("UNKILLABLE")
                    || answer == "OK"
                    || ask(&mut second, "EXISTS key").ends_with('1')
            });
            let reply = receive_reply(&mut first);
            if answers.last().is_some_and(|it| it == "OK") {
                // On a busy machine the script may be killed before it writes.
                assert!(reply.contains("Script killed by user"), "{reply}");
                assert_eq!(ask(&mut second, "EXISTS key"), "(integer) 0");
                continue;
            }
            assert_eq!(reply, "(integer) 1");
            if let Some(answer) = answers.iter().find(|it| it.contains("UNKILLABLE")) {
                assert_eq!(
                    answer,
                    "(error) UNKILLABLE Sorry the script already executed write commands against \
                     the dataset. You can either wait the script termination or kill the server \
                     in a hard way using the SHUTDOWN NOSAVE command."
                );
                break;
            }
            assert_eq!(ask(&mut second, "DEL key"), "(integer) 1");
            rounds *= 2;
            assert!(rounds < 10_000_000_000, "never found while it ran");
        }
        assert_eq!(ask(&mut second, "GET key"), "\"1\"");
    });
}

// ---- Permissions that are taken away -----------------------------------------------------------

/// Returns a connection of a user.
fn log_in(address: SocketAddr, user: &str) -> TestkitConnection {
    let mut connection = connect(address);
    assert_eq!(ask(&mut connection, &format!("AUTH {user} secret")), "OK");
    connection
}

#[test]
fn subscribers_are_closed_that_may_not_listen_any_more() {
    on_both(|address| {
        let mut admin = connect(address);
        for user in ["alice", "bob"] {
            let set = format!("ACL SETUSER {user} on >secret allkeys allchannels +@all");
            assert_eq!(ask(&mut admin, &set), "OK");
        }
        let listen = |user: &str, command: &str| {
            let mut connection = log_in(address, user);
            assert!(ask(&mut connection, command).contains("subscribe"));
            connection
        };
        let mut first = listen("alice", "SUBSCRIBE a1");
        let mut pattern = listen("alice", "PSUBSCRIBE a*");
        let mut shard = listen("alice", "SSUBSCRIBE b1");
        let mut both = listen("alice", "SUBSCRIBE a2");
        assert!(ask(&mut both, "SUBSCRIBE c1").contains("subscribe"));
        let mut bob = listen("bob", "SUBSCRIBE c1");
        let mut silent = log_in(address, "alice");
        assert_eq!(ask(&mut silent, "PING"), "PONG");

        // With the same permissions or more, no client is closed.
        assert_eq!(
            ask(&mut admin, "ACL SETUSER alice allchannels -flushall"),
            "OK"
        );
        let set = "ACL SETUSER alice resetchannels &a* &b*";
        assert_eq!(ask(&mut admin, set), "OK");
        assert_eq!(until_closed(&mut both), 0);
        assert_eq!(ask(&mut admin, "ACL SETUSER alice resetchannels &a*"), "OK");
        assert_eq!(until_closed(&mut shard), 0);
        assert!(ask(&mut pattern, "PING").contains("pong"));
        // A pattern is allowed only by exactly itself.
        assert_eq!(ask(&mut admin, "ACL SETUSER alice resetchannels &a?"), "OK");
        assert_eq!(until_closed(&mut pattern), 0);
        // A selector allows it, too.
        assert_eq!(
            ask(
                &mut admin,
                "ACL SETUSER alice resetchannels (+subscribe &a1)"
            ),
            "OK"
        );
        assert_eq!(ask_number(&mut admin, "PUBLISH a1 message"), 1);
        assert!(receive_reply(&mut first).contains("message"));
        assert_eq!(ask(&mut admin, "ACL SETUSER alice clearselectors"), "OK");
        assert_eq!(until_closed(&mut first), 0);
        assert!(ask(&mut bob, "PING").contains("pong"));
        assert_eq!(ask(&mut silent, "PING"), "PONG");
    });
}

#[test]
fn a_client_that_takes_its_own_channel_away_is_answered_first() {
    // Redis 7.0.15 crashes on this.
    let ours = Nearfield::with_threads(2);
    let address = ours.address;
    let mut admin = connect(address);
    let set = "ACL SETUSER alice on >secret allkeys allchannels +@all";
    assert_eq!(ask(&mut admin, set), "OK");
    let mut alice = log_in(address, "alice");
    assert!(ask(&mut alice, "HELLO 3").contains("proto"));
    assert!(ask(&mut alice, "SUBSCRIBE channel").contains("subscribe"));
    assert_eq!(ask(&mut alice, "ACL SETUSER alice resetchannels"), "OK");
    assert_eq!(until_closed(&mut alice), 0);
    eventually("there are no subscribers", || {
        ask(&mut admin, "PUBSUB CHANNELS") == "(empty array)"
    });
}

#[test]
fn the_connections_of_a_deleted_user_are_closed() {
    on_both(|address| {
        let mut admin = connect(address);
        for user in ["alice", "bob"] {
            let set = format!("ACL SETUSER {user} on >secret allkeys allchannels +@all");
            assert_eq!(ask(&mut admin, &set), "OK");
        }
        let mut subscriber = log_in(address, "alice");
        assert!(ask(&mut subscriber, "SUBSCRIBE channel").contains("subscribe"));
        let mut client = log_in(address, "alice");
        send_command(&mut client, "BLPOP key 0");
        eventually("it waits", || info(&mut admin, "blocked_clients") == 1);
        let mut queueing = log_in(address, "alice");
        assert_eq!(ask(&mut queueing, "MULTI"), "OK");
        let mut bob = log_in(address, "bob");
        assert_eq!(ask(&mut bob, "PING"), "PONG");
        assert_eq!(ask_number(&mut admin, "ACL DELUSER alice"), 1);
        assert_eq!(ask_number(&mut admin, "RPUSH key value"), 1);
        assert_eq!(ask_number(&mut admin, "LLEN key"), 1);
        for closed in [&mut subscriber, &mut client, &mut queueing] {
            assert_eq!(until_closed(closed), 0);
        }
        assert_eq!(ask(&mut bob, "PING"), "PONG");
        assert!(!ask_text(&mut admin, "CLIENT LIST").contains("user=alice"));
    });
}

/// Threads recognize a command by the name of the one before, which is not sufficient here.
#[test]
fn a_command_that_is_sent_alone_has_subcommands_the_next_time() {
    on_both(|address| {
        let mut connection = connect(address);
        for _ in 0..2 {
            let RespReplyValue::Array(all) = connection.command(&[b"COMMAND"]).unwrap() else {
                panic!("no array")
            };
            let count = ask_number(&mut connection, "COMMAND COUNT");
            assert_eq!(count, all.len() as i64);
            assert_eq!(ask_number(&mut connection, "command Count"), count);
        }
    });
}

// ---- DEBUG -------------------------------------------------------------------------------------

/// Checks that `DEBUG ERROR` replies with any error. Clients use it to test their error handling.
fn check_debug_error(address: SocketAddr) {
    let mut connection = connect(address);
    for text in [
        "OOM blah blah",
        "LOADING fake message",
        "READONLY a b",
        "one",
    ] {
        let reply = connection.command(&[b"DEBUG", b"ERROR", text.as_bytes()]);
        assert_eq!(reply.unwrap(), RespReplyValue::Error(text.into()));
    }
    let reply = connection.command(&[b"DEBUG", b"ERROR", b"two\r\nlines"]);
    assert_eq!(reply.unwrap(), RespReplyValue::Error(b"two  lines".into()));
    assert_eq!(ask(&mut connection, "PING"), "PONG");
}

#[test]
fn errors_that_are_hard_to_have_are_had_for_tests() {
    check_debug_error(Nearfield::start(ServerOptions::default()).address);
    if let Some(redis) = RedisPeerProcess::start(&["--enable-debug-command", "yes"]) {
        check_debug_error(redis.address);
    }
}
