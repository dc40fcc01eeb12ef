//! Scripts that do not end by themselves: other clients get an error on all connections, also on
//! those of the script's own thread, and may end the script or the server.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server::config::SavePoint;
use nearfield_server::persistence;
use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::redis::RedisPeerProcess;
use nearfield_server_testkit::saving::{logging_into, saving_into};
use nearfield_server_testkit::steps::{
    ask, connect, eventually, receive_reply, send_command, until_closed,
};
use std::net::SocketAddr;
use std::time::Duration;

const BUSY: &str = "(error) BUSY Redis is busy running a script. You can only call SCRIPT KILL or \
    SHUTDOWN NOSAVE.";
const ENDLESS: &str = "while true do end";
const WRITES: &str = "redis.call('SET', 'half', 'done') while true do end";

/// Runs a test against our server, with one thread and with several, and against redis-server if
/// it is installed.
fn on_all(test: impl Fn(SocketAddr)) {
    for threads in [1, 3] {
        test(Nearfield::with_threads(threads).address);
    }
    if let Some(redis) = RedisPeerProcess::start(&[]) {
        test(redis.address);
    }
}

/// Returns a connection to a server on which scripts soon count as slow.
fn impatient(address: SocketAddr) -> TestkitConnection {
    let mut connection = connect(address);
    assert_eq!(
        ask(&mut connection, "CONFIG SET busy-reply-threshold 20"),
        "OK"
    );
    connection
}

fn eval(connection: &mut TestkitConnection, text: &str) {
    let words = [&b"EVAL"[..], text.as_bytes(), b"0"];
    connection.send_words(&words).unwrap();
}

fn until_busy(connection: &mut TestkitConnection) {
    eventually("the server is busy", || {
        ask(connection, "GET key") == BUSY && ask(connection, "PING") == BUSY
    });
}

#[test]
fn all_connections_hear_that_the_server_is_busy_and_may_end_the_script() {
    on_all(|address| {
        let mut first = impatient(address);
        // More connections than the server has threads, so that some are served by the script's
        // thread.
        let mut others: Vec<_> = (0..6).map(|_| connect(address)).collect();
        for other in &mut others {
            assert_eq!(ask(other, "SET key value"), "OK");
        }
        for _ in 0..2 {
            // Replies to commands before the script come before its reply, and later ones after it.
            send_command(&mut first, "SET before 1");
            eval(&mut first, ENDLESS);
            send_command(&mut first, "INCR before");
            until_busy(&mut others[0]);
            others.push(connect(address));
            for other in &mut others {
                for refused in [
                    "PING",
                    "SET key other",
                    "GET key",
                    "MSET a b c d",
                    "EVAL return 0",
                    "DBSIZE",
                    "CLIENT LIST",
                    "INFO",
                    "SHUTDOWN",
                    "FUNCTION KILL",
                    "FUNCTION STATS",
                ] {
                    assert_eq!(ask(other, refused), BUSY, "{refused}");
                }
                assert_eq!(ask(other, "MULTI"), "OK");
                assert_eq!(ask(other, "GET key"), BUSY);
                let aborted = ask(other, "EXEC");
                assert!(aborted.contains("EXECABORT"), "{aborted}");
                assert_eq!(ask(other, "MULTI"), "OK");
                assert_eq!(ask(other, "DISCARD"), "OK");
                assert_eq!(ask(other, "UNWATCH"), "OK");
                assert_eq!(ask(other, "RESET"), "RESET");
                assert!(ask(other, "HELLO 2").contains("server"));
                assert!(ask(other, "AUTH no password").contains("WRONGPASS"));
            }
            let last = others.last_mut().unwrap();
            assert_eq!(ask(last, "SCRIPT KILL"), "OK");
            assert_eq!(receive_reply(&mut first), "OK");
            let answer = receive_reply(&mut first);
            assert!(
                answer.contains("killed by user with SCRIPT KILL"),
                "{answer}"
            );
            assert_eq!(receive_reply(&mut first), "(integer) 2");
            for other in &mut others {
                assert_eq!(ask(other, "GET key"), "\"value\"");
            }
        }
    });
}

#[test]
fn a_script_in_a_transaction_is_killed_alone() {
    on_all(|address| {
        let (mut first, mut second) = (impatient(address), connect(address));
        for command in ["MULTI", "INCR counter"] {
            ask(&mut first, command);
        }
        eval(&mut first, ENDLESS);
        assert_eq!(receive_reply(&mut first), "QUEUED");
        assert_eq!(ask(&mut first, "INCR counter"), "QUEUED");
        send_command(&mut first, "EXEC");
        until_busy(&mut second);
        assert_eq!(ask(&mut second, "SCRIPT KILL"), "OK");
        let answer = receive_reply(&mut first);
        assert!(answer.contains("killed by user"), "{answer}");
        assert_eq!(ask(&mut second, "GET counter"), "\"2\"");
    });
}

#[test]
fn a_script_whose_client_is_gone_is_killed() {
    on_all(|address| {
        let (mut first, mut second) = (impatient(address), connect(address));
        eval(&mut first, ENDLESS);
        until_busy(&mut second);
        drop(first);
        until_busy(&mut second);
        assert_eq!(ask(&mut second, "SCRIPT KILL"), "OK");
        eventually("it serves", || ask(&mut second, "PING") == "PONG");
        assert_eq!(ask(&mut connect(address), "PING"), "PONG");
    });
}

#[test]
fn a_script_in_one_long_call_of_a_library_does_not_keep_others_waiting() {
    for threads in [1, 3] {
        let server = Nearfield::with_threads(threads);
        let (mut first, mut second) = (impatient(server.address), server.connect());
        // The library searches for an absent text, in time that grows with the cube of the length.
        let mut length = 600;
        loop {
            let text = format!(
                "return string.find(string.rep('a', {length}), string.rep('a-', 2) .. 'b')"
            );
            eval(&mut first, &text);
            let mut was_busy = false;
            std::thread::scope(|scope| {
                let hearing = scope.spawn(|| receive_reply(&mut first));
                while !hearing.is_finished() {
                    was_busy |= ask(&mut second, "PING") == BUSY;
                    std::thread::sleep(Duration::from_millis(1));
                }
                assert_eq!(hearing.join().unwrap(), "(nil)");
            });
            if was_busy {
                break;
            }
            length += length / 3;
            assert!(length < 100_000, "never found while it ran");
        }
    }
}

#[test]
fn shutdown_ends_a_script_that_has_written_and_keeps_nothing_of_it() {
    for threads in [1, 3] {
        let folder = TestkitFolder::new();
        let options = || logging_into(&folder, threads);
        let server = Nearfield::start(options());
        let (mut first, mut second) = (impatient(server.address), server.connect());
        assert_eq!(ask(&mut second, "SET whole done"), "OK");
        eval(&mut first, WRITES);
        until_busy(&mut second);
        let answer = ask(&mut second, "SCRIPT KILL");
        assert!(answer.contains("UNKILLABLE"), "{answer}");
        assert_eq!(ask(&mut second, "SHUTDOWN"), BUSY);
        send_command(&mut second, "SHUTDOWN NOSAVE");
        // No client gets a reply that reports success or failure.
        assert_eq!(until_closed(&mut second), 0);
        assert_eq!(until_closed(&mut first), 0);
        drop(server);
        let server = Nearfield::start(options());
        let mut client = server.connect();
        assert_eq!(ask(&mut client, "GET whole"), "\"done\"");
        assert_eq!(ask(&mut client, "GET half"), "(nil)");
    }
}

#[test]
fn a_signal_to_end_saves_what_is_whole() {
    for threads in [1, 3] {
        let folder = TestkitFolder::new();
        let options = || {
            let mut options = saving_into(&folder, threads);
            let (seconds, changes) = (3600, 1);
            options.persistence.save = Some(vec![SavePoint { seconds, changes }]);
            options
        };
        for text in [ENDLESS, WRITES] {
            let server = Nearfield::start(options());
            let (mut first, mut second) = (impatient(server.address), server.connect());
            ask(&mut second, "INCR starts");
            eval(&mut first, text);
            until_busy(&mut second);
            // The same call as by the thread that handles signals.
            assert!(persistence::shut_down(&server.server, None, false));
            assert!(until_closed(&mut first) <= 1);
            drop(server);
            let server = Nearfield::start(options());
            let mut client = server.connect();
            // The changes of the second script would be saved in part.
            assert_eq!(ask(&mut client, "GET starts"), "\"1\"", "{text}");
            assert_eq!(ask(&mut client, "GET half"), "(nil)");
        }
    }
}
