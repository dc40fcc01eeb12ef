//! Keys move to other servers. Behaviour that depends on the target's replies is also tested with
//! redis-server.

use nearfield_server::config::{Durability, ServerOptions};
use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::peer::PeerServer;
use nearfield_server_testkit::redis::RedisPeerProcess;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::steps::{
    ask, ask_number, ask_text, connect, eventually, info, on_both, receive_reply, send_command,
};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Keys of each type, with the commands that read them.
const KEYS: &[(&str, &str, &str)] = &[
    ("string", "SET string value", "GET string"),
    ("long", "SETRANGE long 100000 end", "GET long"),
    ("list", "RPUSH list a 1 -5 300000", "LRANGE list 0 -1"),
    ("set", "SADD set 1 5 3", "SMEMBERS set"),
    ("hash", "HSET hash f 1 g two", "HGETALL hash"),
    (
        "zset",
        "ZADD zset 1 a 2.5 b -inf c",
        "ZRANGE zset 0 -1 WITHSCORES",
    ),
    ("stream", "XADD stream 1-1 f v", "XRANGE stream - +"),
];

const IO_ERROR: &str = "(error) IOERR error or timeout reading to target instance";

/// Returns the reply to a client whose target has replied with an error.
fn target_error(text: &str) -> String {
    format!("(error) ERR Target instance replied with error: {text}")
}

/// A target that sends the replies that a test chooses.
struct FakeMigrateTarget {
    listener: TcpListener,
}

/// A connection to the target.
struct FakeTargetConnection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl FakeMigrateTarget {
    fn new() -> FakeMigrateTarget {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        FakeMigrateTarget { listener }
    }

    /// Returns `host port`, as the command takes it.
    fn place(&self) -> String {
        place(self.listener.local_addr().expect("an address"))
    }

    /// Sends a command that moves keys to the target.
    fn migrate(&self, connection: &mut TestkitConnection, arguments: &str) {
        send_command(connection, &format!("MIGRATE {} {arguments}", self.place()));
    }

    fn accept(&self) -> FakeTargetConnection {
        let (stream, _) = self.listener.accept().expect("a connection");
        let patience = Some(Duration::from_secs(20));
        stream.set_read_timeout(patience).expect("an open socket");
        FakeTargetConnection {
            stream,
            received: Vec::new(),
        }
    }
}

fn place(address: SocketAddr) -> String {
    format!("{} {}", address.ip(), address.port())
}

impl FakeTargetConnection {
    /// Returns the next request.
    fn request(&mut self) -> Vec<Vec<u8>> {
        loop {
            let parsed = RespReplyValue::parse(&self.received).expect("a request");
            if let Some((RespReplyValue::Array(words), length)) = parsed {
                self.received.drain(..length);
                let word = |word| match word {
                    RespReplyValue::Bulk(word) => word,
                    other => panic!("no word: {other}"),
                };
                return words.into_iter().map(word).collect();
            }
            let mut bytes = [0; 65536];
            let length = self.stream.read(&mut bytes).expect("more of a request");
            assert!(length > 0, "the connection is closed");
            self.received.extend_from_slice(&bytes[..length]);
        }
    }

    /// Returns the next request, which restores a key, without its payload.
    fn restored(&mut self) -> String {
        let mut words = self.request();
        assert!(words.len() >= 4 && words[0] == b"RESTORE", "{words:?}");
        words.remove(3);
        String::from_utf8(words.join(&b' ')).expect("a plain key")
    }

    fn say(&mut self, answer: &str) {
        let bytes = answer.as_bytes();
        self.stream
            .write_all(bytes)
            .expect("the requesting server listens");
    }
}

#[test]
fn keys_of_all_types_move_to_all_servers_and_back() {
    let ours = Nearfield::start(ServerOptions::default());
    let second = Nearfield::start(ServerOptions::default());
    let mut targets = vec![("Nearfield", second.address)];
    let mut peers: Vec<RedisPeerProcess> = Vec::new();
    for peer in PeerServer::ALL {
        if let Some(server) = peer.start(&[]) {
            targets.push((peer.name(), server.address));
            peers.push(server);
        }
    }
    for (name, target) in targets {
        let (mut here, mut there) = (connect(ours.address), connect(target));
        let mut read = Vec::new();
        for (_, write, get) in KEYS {
            ask(&mut here, write);
            read.push(ask(&mut here, get));
        }
        ask(&mut here, "PEXPIRE list 100000000");
        let names: Vec<&str> = KEYS.iter().map(|(key, ..)| *key).collect();
        let names = names.join(" ");
        let one = format!("MIGRATE {} string 0 5000", place(target));
        assert_eq!(ask(&mut here, &one), "OK", "{name}");
        let check = |connection: &mut TestkitConnection| {
            for ((key, _, get), read) in KEYS.iter().zip(&read) {
                assert_eq!(ask(connection, get), *read, "{key} in {name}");
                let time = ask_number(connection, &format!("PTTL {key}"));
                match *key {
                    "list" => assert!((90_000_000..=100_000_000).contains(&time), "{time}"),
                    _ => assert_eq!(time, -1),
                }
            }
        };
        let all = |from: SocketAddr| format!("MIGRATE {}  0 5000 KEYS {names}", place(from));
        assert_eq!(ask(&mut here, &all(target)), "OK", "{name}");
        check(&mut there);
        assert_eq!(ask_number(&mut here, "DBSIZE"), 0, "{name}");
        assert_eq!(ask(&mut there, &all(ours.address)), "OK", "{name}");
        check(&mut here);
        assert_eq!(ask_number(&mut there, "DBSIZE"), 0, "{name}");
        // A copy leaves the key in place, and so does a failure because the target has it already.
        let copy = format!("MIGRATE {} string 3 5000 COPY", place(target));
        assert_eq!(ask(&mut here, &copy), "OK", "{name}");
        let busy = target_error("BUSYKEY Target key name already exists.");
        let refused = ask(&mut here, &copy.replace(" COPY", ""));
        assert_eq!(refused, busy, "{name}");
        assert_eq!(ask(&mut here, "GET string"), "\"value\"");
        assert_eq!(ask(&mut here, &copy.replace("COPY", "REPLACE")), "OK");
        assert_eq!(ask(&mut here, "GET string"), "(nil)");
        ask(&mut there, "SELECT 3");
        assert_eq!(ask(&mut there, "GET string"), "\"value\"", "{name}");
        let database = format!("MIGRATE {} list 100 5000", place(target));
        let refused = ask(&mut here, &database);
        assert_eq!(refused, target_error("ERR DB index is out of range"));
        ask(&mut here, "FLUSHALL");
        ask(&mut there, "FLUSHALL");
    }
}

#[test]
fn only_what_is_acknowledged_is_deleted() {
    on_both(|address| {
        let mut connection = connect(address);
        ask(&mut connection, "MSET a 1 b 2 c 3 d 4");
        ask(&mut connection, "EXPIRE d 1000");
        let target = FakeMigrateTarget::new();
        target.migrate(&mut connection, " 7 5000 REPLACE KEYS a b absent c d");
        let mut caller = target.accept();
        assert_eq!(caller.request(), [&b"SELECT"[..], b"7"]);
        assert_eq!(caller.restored(), "RESTORE a 0 REPLACE");
        assert_eq!(caller.restored(), "RESTORE b 0 REPLACE");
        assert_eq!(caller.restored(), "RESTORE c 0 REPLACE");
        let timed = caller.restored();
        let words: Vec<&str> = timed.split(' ').collect();
        let time: u64 = words[2].parse().expect("a time to live");
        assert!(
            words[1] == "d" && (1..=1_000_000).contains(&time),
            "{timed}"
        );
        caller.say("+OK\r\n+OK\r\n-ERR no b\r\n+OK\r\n-ERR no d\r\n");
        assert_eq!(receive_reply(&mut connection), target_error("ERR no b"));
        assert_eq!(
            ask(&mut connection, "MGET a b c d"),
            "1) (nil)\n2) \"2\"\n3) (nil)\n4) \"4\""
        );
        drop(caller);
        // A target that closes the connection in the middle keeps the keys that it has
        // acknowledged.
        ask(&mut connection, "MSET a 1 b 2 c 3");
        target.migrate(&mut connection, " 0 5000 KEYS a b c");
        let mut caller = target.accept();
        assert_eq!(caller.request(), [&b"SELECT"[..], b"0"]);
        for key in ["a", "b", "c"] {
            assert_eq!(caller.restored(), format!("RESTORE {key} 0"));
        }
        caller.say("+OK\r\n+OK\r\n+O");
        drop(caller);
        assert_eq!(receive_reply(&mut connection), IO_ERROR);
        assert_eq!(
            ask(&mut connection, "MGET a b c"),
            "1) (nil)\n2) \"2\"\n3) \"3\""
        );
        // Without a login nothing is acknowledged, whatever the target replies for the key.
        target.migrate(&mut connection, "b 0 5000 AUTH2 user pw");
        let mut caller = target.accept();
        assert_eq!(caller.request(), [&b"AUTH"[..], b"user", b"pw"]);
        assert_eq!(caller.request(), [&b"SELECT"[..], b"0"]);
        assert_eq!(caller.restored(), "RESTORE b 0");
        caller.say("-WRONGPASS no\r\n+OK\r\n+OK\r\n");
        assert_eq!(receive_reply(&mut connection), target_error("WRONGPASS no"));
        assert_eq!(ask(&mut connection, "GET b"), "\"2\"");
        drop(caller);
        // A silent target is waited for up to the given timeout.
        let command = format!("MIGRATE {} b 0 60", target.place());
        assert_eq!(ask(&mut connection, &command), IO_ERROR);
        assert_eq!(ask(&mut connection, "GET b"), "\"2\"");
    });
}

#[test]
fn what_is_no_answer_deletes_nothing() {
    let ours = Nearfield::start(ServerOptions::default());
    let mut connection = ours.connect();
    ask(&mut connection, "SET k v");
    let target = FakeMigrateTarget::new();
    let long = format!("-{}", "x".repeat(100_000));
    for answer in [
        "+OK\r\n:1\r\n",
        "+OK\r\n\r\n",
        "$2\r\nOK\r\n",
        "HTTP/1.1 400\r\n",
        &long,
    ] {
        target.migrate(&mut connection, "k 0 5000");
        let mut caller = target.accept();
        caller.request();
        caller.request();
        caller.say(answer);
        assert_eq!(receive_reply(&mut connection), IO_ERROR);
        assert_eq!(ask(&mut connection, "GET k"), "\"v\"");
    }
}

/// Starts a server with one thread, so that no other client would be served if that thread waited.
fn of_one_thread() -> Nearfield {
    Nearfield::with_threads(1)
}

#[test]
fn others_are_served_and_what_they_change_is_sent_again() {
    let ours = of_one_thread();
    let (mut mover, mut other) = (ours.connect(), ours.connect());
    ask(&mut mover, "MSET a 1 b 2");
    let target = FakeMigrateTarget::new();
    target.migrate(&mut mover, " 0 10000 KEYS a b");
    // It is sent three times while others continue, and then exclusively.
    for attempt in 1..=4 {
        let mut caller = target.accept();
        caller.request();
        match attempt {
            1 => {
                assert_eq!(caller.restored(), "RESTORE a 0");
                assert_eq!(caller.restored(), "RESTORE b 0");
            }
            _ => assert_eq!(caller.restored(), "RESTORE b 0 REPLACE"),
        }
        if attempt < 4 {
            assert_eq!(ask(&mut other, "PING"), "PONG");
            assert_eq!(ask_number(&mut other, "APPEND b x"), attempt + 1);
            assert_eq!(info(&mut other, "blocked_clients"), 1);
        }
        caller.say(if attempt == 1 {
            "+OK\r\n+OK\r\n+OK\r\n"
        } else {
            "+OK\r\n+OK\r\n"
        });
    }
    assert_eq!(receive_reply(&mut mover), "OK");
    assert_eq!(ask(&mut other, "MGET a b"), "1) (nil)\n2) (nil)");
    assert_eq!(info(&mut other, "blocked_clients"), 0);
    // A key that others delete meanwhile is not sent again, and one with a new value is.
    ask(&mut mover, "MSET a 1 b 2 c 3");
    target.migrate(&mut mover, " 0 10000 KEYS a b c");
    let mut caller = target.accept();
    for _ in 0..4 {
        caller.request();
    }
    ask(&mut other, "DEL a");
    ask(&mut other, "PEXPIRE c 10000000");
    caller.say("+OK\r\n+OK\r\n+OK\r\n+OK\r\n");
    let mut caller = target.accept();
    caller.request();
    assert!(caller.restored().starts_with("RESTORE c "));
    caller.say("+OK\r\n-ERR full\r\n");
    assert_eq!(receive_reply(&mut mover), target_error("ERR full"));
    assert_eq!(
        ask(&mut other, "MGET a b c"),
        "1) (nil)\n2) (nil)\n3) \"3\""
    );
}

#[test]
fn transactions_and_scripts_move_keys_at_once() {
    let (ours, second) = (of_one_thread(), of_one_thread());
    let (mut here, mut there) = (ours.connect(), second.connect());
    ask(&mut here, "MSET a 1 b 2");
    let place = place(second.address);
    ask(&mut here, "MULTI");
    ask(&mut here, &format!("MIGRATE {place} a 0 5000"));
    ask(&mut here, "GET a");
    assert_eq!(ask(&mut here, "EXEC"), "1) OK\n2) (nil)");
    let words = place.split(' ').collect::<Vec<_>>();
    let script = format!(
        "return redis.call('MIGRATE','{}','{}',KEYS[1],0,5000)",
        words[0], words[1]
    );
    let words = [&b"EVAL"[..], script.as_bytes(), b"1", b"b"];
    let answer = here.command(&words).expect("a reply");
    assert_eq!(answer, RespReplyValue::simple("OK"));
    assert_eq!(ask(&mut there, "MGET a b"), "1) \"1\"\n2) \"2\"");
    assert_eq!(ask_number(&mut here, "DBSIZE"), 0);
}

#[test]
fn a_server_does_not_lose_keys_to_itself() {
    let ours = Nearfield::start(ServerOptions::default());
    let mut connection = ours.connect();
    ask(&mut connection, "SET k v");
    let place = place(ours.address);
    let to_itself = format!("MIGRATE {place} k 0 5000 REPLACE");
    assert_eq!(ask(&mut connection, &to_itself), IO_ERROR);
    assert_eq!(ask(&mut connection, "GET k"), "\"v\"");
    let to_another = format!("MIGRATE {place} k 5 5000");
    assert_eq!(ask(&mut connection, &to_another), "OK");
    assert_eq!(ask(&mut connection, "GET k"), "(nil)");
    ask(&mut connection, "SELECT 5");
    assert_eq!(ask(&mut connection, "GET k"), "\"v\"");
}

#[test]
fn passwords_are_said_and_not_shown() {
    let ours = Nearfield::start(ServerOptions::default());
    let second = Nearfield::start(ServerOptions {
        password: Some(b"sesame".to_vec()),
        ..ServerOptions::default()
    });
    let (mut here, mut there) = (ours.connect(), second.connect());
    ask(&mut there, "AUTH sesame");
    ask(&mut there, "ACL SETUSER mover on >secret +@all ~*");
    let mut monitor = ours.connect();
    assert_eq!(ask(&mut monitor, "MONITOR"), "OK");
    ask(&mut here, "CONFIG SET slowlog-log-slower-than 0");
    ask(&mut here, "MSET a 1 b 2 c 3");
    let place = place(second.address);
    let without = ask(&mut here, &format!("MIGRATE {place} a 0 5000"));
    assert!(without.contains("replied with error: NOAUTH"), "{without}");
    for said in ["a 0 5000 AUTH sesame", "b 0 5000 AUTH2 mover secret"] {
        assert_eq!(ask(&mut here, &format!("MIGRATE {place} {said}")), "OK");
    }
    let wrong = ask(&mut here, &format!("MIGRATE {place} c 0 5000 AUTH guess"));
    assert!(wrong.contains("replied with error: WRONGPASS"), "{wrong}");
    assert_eq!(
        ask(&mut there, "MGET a b c"),
        "1) \"1\"\n2) \"2\"\n3) (nil)"
    );
    let log = ask(&mut here, "SLOWLOG GET 100");
    ask(&mut here, "ECHO end");
    let mut shown = String::new();
    while !shown.contains("end") {
        shown += &receive_reply(&mut monitor);
    }
    for seen in [&log, &shown] {
        let secrets = ["sesame", "mover", "secret", "guess"];
        assert!(secrets.iter().all(|it| !seen.contains(it)), "{seen}");
        assert_eq!(seen.matches("(redacted)").count(), 4, "{seen}");
    }
}

#[test]
fn the_log_has_the_deletions() {
    let folder = TestkitFolder::new();
    let options = || ServerOptions {
        persistence: Durability {
            directory: Some(folder.0.clone()),
            ..Durability::default()
        },
        ..ServerOptions::default()
    };
    let ours = Nearfield::start(options());
    let second = Nearfield::start(ServerOptions::default());
    let mut here = ours.connect();
    ask(&mut here, "MSET a 1 b 2 c 3");
    let place = place(second.address);
    assert_eq!(
        ask(
            &mut here,
            &format!("MIGRATE {place}  0 5000 KEYS a b absent")
        ),
        "OK"
    );
    assert_eq!(
        ask(&mut here, &format!("MIGRATE {place} c 0 5000 COPY")),
        "OK"
    );
    drop(here);
    drop(ours);
    let again = Nearfield::start(options());
    assert_eq!(
        ask(&mut again.connect(), "MGET a b c"),
        "1) (nil)\n2) (nil)\n3) \"3\""
    );
}

#[test]
fn who_is_gone_or_impatient_has_its_keys_moved_all_the_same() {
    let ours = of_one_thread();
    let (mut mover, mut other) = (ours.connect(), ours.connect());
    ask(&mut mover, "MSET a 1 b 2");
    let id = ask_number(&mut mover, "CLIENT ID");
    let target = FakeMigrateTarget::new();
    target.migrate(&mut mover, "a 0 10000");
    let mut caller = target.accept();
    caller.request();
    caller.request();
    assert_eq!(ask_number(&mut other, &format!("CLIENT UNBLOCK {id}")), 0);
    mover.close();
    eventually("it is gone", || {
        !ask_text(&mut other, "CLIENT LIST").contains("cmd=migrate")
    });
    caller.say("+OK\r\n+OK\r\n");
    eventually("the key is deleted", || {
        ask_number(&mut other, "EXISTS a") == 0
    });
}

#[test]
fn a_server_stops_while_a_target_is_silent() {
    let ours = of_one_thread();
    let mut mover = ours.connect();
    ask(&mut mover, "SET a 1");
    let target = FakeMigrateTarget::new();
    target.migrate(&mut mover, "a 0 100000000");
    let mut caller = target.accept();
    caller.request();
    // The command would wait for a day.
    drop(ours);
}
