//! Clients that wait for keys: they are checked again before they are served, their replies come in
//! order or not at all, and they cost nothing while others are served.

use nearfield_server::client::{ClientSession, ClientShared};
use nearfield_server::clock::now_ms;
use nearfield_server::config::ServerOptions;
use nearfield_server::execute::Executor;
use nearfield_server::resp::{Protocol, RespReply};
use nearfield_server::server::ServerCore;
use nearfield_server::steps;
use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::nearfield::{Nearfield, UnservedServer};
use nearfield_server_testkit::peer::PeerServer;
use nearfield_server_testkit::steps::{
    ask, ask_number, ask_text, connect, eventually, info, on_both, receive_reply, send_command,
};
use std::net::SocketAddr;
use std::sync::Arc;

/// Runs a test against our server and against Redis 8 and Valkey 9, if they are installed.
pub fn on_newest(test: impl Fn(SocketAddr)) {
    let ours = Nearfield::with_threads(2);
    test(ours.address);
    drop(ours);
    for peer in [PeerServer::Redis8, PeerServer::Valkey9] {
        if let Some(server) = peer.start(&[]) {
            test(server.address);
        }
    }
}

/// Makes a client wait in a command.
pub fn wait_in(
    connection: &mut TestkitConnection,
    observer: &mut TestkitConnection,
    command: &str,
) {
    let before = info(observer, "blocked_clients");
    send_command(connection, command);
    eventually("it waits", || {
        info(observer, "blocked_clients") == before + 1
    });
}

// ---- Checked again -----------------------------------------------------------------------------

/// Empties the server, and returns a client of a user `u` with all permissions that waits in a
/// command.
pub fn wait_as_user(
    address: SocketAddr,
    other: &mut TestkitConnection,
    command: &str,
) -> TestkitConnection {
    assert_eq!(ask(other, "FLUSHALL"), "OK");
    if command.starts_with("XREADGROUP") {
        assert_eq!(ask(other, "XGROUP CREATE q g $ MKSTREAM"), "OK");
    }
    let set = "ACL SETUSER u reset on nopass ~* +@all";
    assert_eq!(ask(other, set), "OK");
    let mut client = connect(address);
    assert_eq!(ask(&mut client, "AUTH u any"), "OK");
    wait_in(&mut client, other, command);
    client
}

/// Commands that wait, each with a command that wakes it, one that counts the rest, and that count.
const WAITING: &[(&str, &str, &str)] = &[
    ("BLPOP q 0", "RPUSH q secret", "LLEN q"),
    ("BRPOP q 0", "RPUSH q secret", "LLEN q"),
    ("BLMOVE q to LEFT RIGHT 0", "RPUSH q secret", "LLEN q"),
    ("BRPOPLPUSH q to 0", "RPUSH q secret", "LLEN q"),
    ("BLMPOP 0 1 q LEFT", "RPUSH q secret", "LLEN q"),
    ("BZPOPMIN q 0", "ZADD q 1 secret", "ZCARD q"),
    ("BZPOPMAX q 0", "ZADD q 1 secret", "ZCARD q"),
    ("BZMPOP 0 1 q MIN", "ZADD q 1 secret", "ZCARD q"),
    ("XREAD BLOCK 0 STREAMS q $", "XADD q 1-1 f secret", "XLEN q"),
    (
        "XREADGROUP GROUP g c BLOCK 0 STREAMS q >",
        "XADD q 1-1 f secret",
        "XLEN q",
    ),
];

#[test]
fn who_waits_is_served_by_the_rules_of_then() {
    on_newest(|address| {
        let mut other = connect(address);
        for (command, wakes, left) in WAITING {
            for rules in ["resetkeys", "-@all", "reset", "-@blocking"] {
                ask(&mut other, "ACL LOG RESET");
                let mut client = wait_as_user(address, &mut other, command);
                assert_eq!(ask(&mut other, &format!("ACL SETUSER u {rules}")), "OK");
                send_command(&mut other, wakes);
                receive_reply(&mut other);
                let answer = receive_reply(&mut client);
                assert!(answer.contains("NOPERM"), "{command}, {rules}: {answer}");
                assert_eq!(ask_number(&mut other, left), 1, "{command}, {rules}");
                assert_eq!(ask_number(&mut other, "EXISTS to"), 0);
                assert!(ask(&mut other, "ACL LOG").contains("toplevel"), "{command}");
                // The next client is served in its place.
                assert_eq!(ask(&mut other, "PING"), "PONG");
            }
        }
    });
}

#[test]
fn a_disabled_user_that_waits_is_served_as_one_that_is_connected() {
    on_newest(|address| {
        let mut other = connect(address);
        let mut client = wait_as_user(address, &mut other, "BLPOP q 0");
        assert_eq!(ask(&mut other, "ACL SETUSER u off"), "OK");
        assert_eq!(ask_number(&mut other, "RPUSH q 1"), 1);
        assert_eq!(receive_reply(&mut client), "1) \"q\"\n2) \"1\"");
    });
}

#[test]
fn a_forbidden_target_leaves_the_element() {
    on_newest(|address| {
        let mut other = connect(address);
        let mut client = wait_as_user(address, &mut other, "BLMOVE q to LEFT LEFT 0");
        assert_eq!(ask(&mut other, "ACL SETUSER u resetkeys ~q"), "OK");
        let mut next = connect(address);
        wait_in(&mut next, &mut other, "BLPOP q 0");
        assert_eq!(ask_number(&mut other, "RPUSH q 1"), 1);
        assert!(receive_reply(&mut client).contains("NOPERM"));
        assert_eq!(receive_reply(&mut next), "1) \"q\"\n2) \"1\"");
        assert!(ask(&mut other, "ACL LOG").contains("\"to\""));
    });
}

#[test]
fn who_waits_takes_no_memory_that_there_is_not() {
    on_newest(|address| {
        let mut other = connect(address);
        let mut client = connect(address);
        wait_in(&mut client, &mut other, "BLMOVE q to LEFT LEFT 0");
        let mut next = connect(address);
        wait_in(&mut next, &mut other, "BLPOP q 0");
        // A transaction may write once it has begun.
        send_command(&mut other, "MULTI");
        send_command(&mut other, "RPUSH q 1");
        send_command(&mut other, "CONFIG SET maxmemory 1");
        send_command(&mut other, "EXEC");
        assert_eq!(receive_reply(&mut other), "OK");
        assert_eq!(receive_reply(&mut other), "QUEUED");
        assert_eq!(receive_reply(&mut other), "QUEUED");
        receive_reply(&mut other);
        assert!(receive_reply(&mut client).contains("OOM"));
        assert_eq!(receive_reply(&mut next), "1) \"q\"\n2) \"1\"");
    });
}

#[test]
fn who_waits_gets_nothing_whose_time_is_over() {
    on_both(|address| {
        let mut other = connect(address);
        for (command, pushes, again) in [
            ("BLPOP k 0", "RPUSH k old", "RPUSH k new"),
            ("BZPOPMIN k 0", "ZADD k 1 old", "ZADD k 1 new"),
        ] {
            let mut client = connect(address);
            wait_in(&mut client, &mut other, command);
            let at = now_ms() + 60;
            for command in [
                "MULTI".to_owned(),
                pushes.to_owned(),
                format!("PEXPIREAT k {at}"),
                "DEBUG SLEEP 0.1".to_owned(),
            ] {
                ask(&mut other, &command);
            }
            ask(&mut other, "EXEC");
            assert_eq!(ask_number(&mut other, "EXISTS k"), 0);
            ask_number(&mut other, again);
            assert!(receive_reply(&mut client).contains("new"), "{command}");
        }
    });
}

#[test]
fn who_waits_for_a_group_is_told_that_all_keys_are_gone() {
    on_newest(|address| {
        let mut other = connect(address);
        for gone in [
            &["FLUSHALL"][..],
            &["FLUSHDB"],
            &["FLUSHALL ASYNC"],
            &["SWAPDB 0 1"],
            &["MULTI", "FLUSHALL", "EXEC"],
            &["EVAL_FLUSH"],
        ] {
            ask(&mut other, "FLUSHALL");
            assert_eq!(ask(&mut other, "XGROUP CREATE s g $ MKSTREAM"), "OK");
            let mut client = connect(address);
            wait_in(
                &mut client,
                &mut other,
                "XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
            );
            for command in gone {
                match *command {
                    "EVAL_FLUSH" => {
                        let script = b"return redis.call('FLUSHALL')";
                        other.command(&[b"EVAL", script, b"0"]).expect("a reply");
                    }
                    command => drop(ask(&mut other, command)),
                }
            }
            let answer = receive_reply(&mut client);
            let is_told = answer.contains("NOGROUP") || answer.contains("UNBLOCKED");
            assert!(is_told, "{gone:?}: {answer}");
        }
    });
}

#[test]
fn a_swapped_database_serves_those_who_wait() {
    on_both(|address| {
        let mut other = connect(address);
        ask(&mut other, "SELECT 1");
        assert_eq!(ask_number(&mut other, "RPUSH q 1"), 1);
        let mut client = connect(address);
        wait_in(&mut client, &mut other, "BLPOP q 0");
        assert_eq!(ask(&mut other, "SWAPDB 0 1"), "OK");
        assert_eq!(receive_reply(&mut client), "1) \"q\"\n2) \"1\"");
    });
}

// ---- Answers and pushes ------------------------------------------------------------------------

#[test]
fn who_wants_no_answer_gets_none_later() {
    on_both(|address| {
        let mut other = connect(address);
        for (command, wakes) in [
            ("BLPOP q 0.05", None),
            ("BLPOP q 0", Some("RPUSH q 1")),
            ("BLMOVE q to LEFT LEFT 0", Some("RPUSH q 1")),
            ("BZPOPMIN z 0", Some("ZADD z 1 m")),
            ("XREAD BLOCK 0 STREAMS s $", Some("XADD s * f v")),
            ("BLPOP q 0", Some("CLIENT UNBLOCK")),
        ] {
            for (before, after) in [("OFF", Some("CLIENT REPLY ON")), ("SKIP", None)] {
                let mut client = connect(address);
                let id = ask_number(&mut client, "CLIENT ID");
                send_command(&mut client, &format!("CLIENT REPLY {before}"));
                wait_in(&mut client, &mut other, command);
                match wakes {
                    Some("CLIENT UNBLOCK") => {
                        ask_number(&mut other, &format!("CLIENT UNBLOCK {id}"));
                    }
                    Some(wakes) => drop(ask(&mut other, wakes)),
                    None => {}
                }
                eventually("no client waits", || {
                    info(&mut other, "blocked_clients") == 0
                });
                if let Some(after) = after {
                    assert_eq!(ask(&mut client, after), "OK", "{command}");
                }
                assert_eq!(ask(&mut client, "PING"), "PONG", "{command}, {before}");
            }
            ask(&mut other, "FLUSHALL");
        }
    });
}

#[test]
fn who_goes_on_is_answered_before_it_is_told_of_its_own_change() {
    on_both(|address| {
        let mut other = connect(address);
        for _ in 0..20 {
            let mut client = connect(address);
            ask(&mut client, "HELLO 3");
            assert_eq!(ask(&mut client, "CLIENT TRACKING ON"), "OK");
            ask(&mut client, "LRANGE l2 0 -1");
            wait_in(&mut client, &mut other, "BLMOVE l1 l2 LEFT LEFT 0");
            ask(&mut other, "RPUSH l1 foo");
            assert_eq!(receive_reply(&mut client), "\"foo\"");
            assert!(receive_reply(&mut client).contains("invalidate"));
            ask(&mut other, "DEL l2");
        }
    });
}

#[test]
fn what_a_client_reads_when_it_goes_on_is_tracked() {
    on_newest(|address| {
        let mut other = connect(address);
        let mut client = connect(address);
        ask(&mut client, "HELLO 3");
        assert_eq!(ask(&mut client, "CLIENT TRACKING ON"), "OK");
        wait_in(&mut client, &mut other, "XREAD BLOCK 0 STREAMS s $");
        ask(&mut other, "XADD s 1-1 f v");
        let heard = [receive_reply(&mut client), receive_reply(&mut client)];
        let is_pushed = heard.iter().filter(|it| it.contains("invalidate")).count();
        assert_eq!(is_pushed, 1, "{heard:?}");
        ask(&mut other, "XADD s 2-1 f v");
        assert!(receive_reply(&mut client).contains("invalidate"));
    });
}

// ---- Work --------------------------------------------------------------------------------------

/// A server that executes its commands on this thread, so that their steps can be counted.
pub struct StepCountedServer<'s> {
    /// The server.
    pub server: &'s ServerCore,
    executor: Executor<'s>,
    clients: u64,
}

impl<'s> StepCountedServer<'s> {
    /// Creates clients of a server.
    pub fn new(server: &'s ServerCore) -> StepCountedServer<'s> {
        StepCountedServer {
            server,
            executor: Executor::new(server),
            clients: 0,
        }
    }

    /// Creates a client that has executed a command.
    pub fn client(&mut self, words: &[&str]) -> ClientSession {
        self.clients += 1;
        let shared = ClientShared::new(self.clients, 0, String::new(), String::new(), 0);
        let shared = Arc::new(shared);
        self.server
            .clients
            .lock()
            .insert(self.clients, Arc::clone(&shared));
        let mut client = ClientSession::new(shared, true);
        self.run(&mut client, words);
        client
    }

    /// Executes a command and returns its reply.
    pub fn run(&mut self, client: &mut ClientSession, words: &[&str]) -> String {
        let mut reply = RespReply::new(Protocol::Resp3);
        let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.executor.run(client, &args, now_ms(), &mut reply);
        String::from_utf8_lossy(&reply.take()).into_owned()
    }

    /// Returns the steps of a command; 0 if they are not counted.
    pub fn steps(&mut self, client: &mut ClientSession, words: &[&str]) -> u64 {
        let mut answer = String::new();
        let steps = steps::taken_by(|| answer = self.run(client, words));
        assert!(!answer.starts_with('-'), "{words:?}: {answer}");
        steps.unwrap_or(0)
    }
}

#[test]
fn a_push_costs_work_for_those_whom_it_serves() {
    for (waits, pushes) in [
        (&["BLPOP", "q", "0"][..], &["RPUSH", "q", "v"][..]),
        (&["BRPOPLPUSH", "q", "to", "0"], &["RPUSH", "q", "v"]),
        (&["BZPOPMIN", "q", "0"], &["ZADD", "q", "1", "v"]),
        (
            &[
                "XREADGROUP",
                "GROUP",
                "g",
                "c",
                "BLOCK",
                "0",
                "STREAMS",
                "q",
                ">",
            ],
            &["XADD", "q", "*", "f", "v"],
        ),
        (
            &["XREAD", "BLOCK", "0", "STREAMS", "q", "9999999999999-1"],
            &["XADD", "q", "*", "f", "v"],
        ),
    ] {
        let taken = [2, 2000].map(|waiters| {
            let server = UnservedServer::new(ServerOptions::default());
            let mut counted = StepCountedServer::new(&server);
            let mut pusher = counted.client(&["PING"]);
            if waits[0] == "XREADGROUP" {
                counted.run(
                    &mut pusher,
                    &["XGROUP", "CREATE", "q", "g", "$", "MKSTREAM"],
                );
            }
            let waiting: Vec<ClientSession> = (0..waiters).map(|_| counted.client(waits)).collect();
            assert_eq!(server.blocked.len(), waiting.len());
            counted.steps(&mut pusher, pushes)
        });
        assert_eq!(taken[0] > 0, cfg!(debug_assertions));
        assert!(taken[1] <= taken[0], "{waits:?}: {taken:?}");
    }
}

#[test]
fn who_waits_for_many_keys_costs_as_much_as_these() {
    let keys: Vec<String> = (0..200).map(|number| format!("q{number}")).collect();
    let mut waits = vec!["BLPOP"];
    waits.extend(keys.iter().map(String::as_str));
    waits.push("0");
    let taken = [2, 500].map(|waiters| {
        let server = UnservedServer::new(ServerOptions::default());
        let mut counted = StepCountedServer::new(&server);
        let mut pusher = counted.client(&["PING"]);
        let waiting: Vec<ClientSession> = (0..waiters).map(|_| counted.client(&waits)).collect();
        assert_eq!(server.blocked.len(), waiting.len());
        counted.steps(&mut pusher, &["RPUSH", "q7", "v"])
    });
    assert!(taken[1] <= taken[0], "{taken:?}");
}

#[test]
fn elements_are_given_in_the_order_in_which_clients_came() {
    on_both(|address| {
        let mut other = connect(address);
        let mut clients: Vec<TestkitConnection> = Vec::new();
        for number in 0..20 {
            let mut client = connect(address);
            let command = match number % 3 {
                0 => "BLPOP q 0".to_owned(),
                1 => "BLPOP other q 0".to_owned(),
                _ => "BLMPOP 0 2 q other LEFT".to_owned(),
            };
            wait_in(&mut client, &mut other, &command);
            clients.push(client);
        }
        // One in the middle leaves.
        drop(clients.remove(7));
        eventually("it has gone", || info(&mut other, "blocked_clients") == 19);
        let words: Vec<String> = (0..25).map(|number| format!("v{number:02}")).collect();
        ask_number(&mut other, &format!("RPUSH q {}", words.join(" ")));
        for (client, word) in clients.iter_mut().zip(&words) {
            let answer = receive_reply(client);
            assert!(answer.contains(word), "{answer} in place of {word}");
        }
        assert_eq!(ask_number(&mut other, "LLEN q"), 6);
        assert!(ask_text(&mut other, "LINDEX q 0").contains("v19"));
    });
}
