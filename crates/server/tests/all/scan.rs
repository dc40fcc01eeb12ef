//! Whole iterations over the keyspace.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server::client::ClientSession;
use nearfield_server::clock::now_ms;
use nearfield_server::config::ServerOptions;
use nearfield_server::execute::Executor;
use nearfield_server::resp::{Protocol, RespReply};
use nearfield_server::server::ServerCore;
use nearfield_server_testkit::nearfield::UnservedServer;
use std::collections::{BTreeMap, BTreeSet};

struct ScanTestSession<'s> {
    executor: Executor<'s>,
    client: ClientSession,
}

impl<'s> ScanTestSession<'s> {
    fn new(server: &'s ServerCore) -> Self {
        ScanTestSession {
            executor: Executor::new(server),
            client: ClientSession::internal(),
        }
    }

    /// Returns the lines of a reply that are neither lengths nor heads.
    fn ask(&mut self, words: &[&str]) -> Vec<String> {
        let mut reply = RespReply::new(Protocol::Resp2);
        let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.executor
            .run(&mut self.client, &args, now_ms(), &mut reply);
        let text = String::from_utf8(reply.take()).unwrap();
        let lines = text.split("\r\n").filter(|line| !line.is_empty());
        let lines = lines.filter(|line| !line.starts_with(['$', '*']));
        lines.map(str::to_owned).collect()
    }

    fn scan(&mut self, cursor: &str, options: &[&str]) -> (String, Vec<String>) {
        let words = [&["SCAN", cursor], options].concat();
        let mut lines = self.ask(&words).into_iter();
        (lines.next().unwrap(), lines.collect())
    }
}

#[test]
fn a_scan_meets_each_key_that_stays_once() {
    let server = UnservedServer::new(ServerOptions::default());
    let mut session = ScanTestSession::new(&server);
    let key = |number: usize| format!("key:{number}");
    for number in 0..1000 {
        session.ask(&["SET", &key(number), "v"]);
    }
    for count in ["1", "7", "10", "999", "1000", "5000"] {
        let mut met = Vec::new();
        let mut cursor = "0".to_owned();
        let mut step = 0;
        loop {
            let (next, keys) = session.scan(&cursor, &["COUNT", count]);
            met.extend(keys);
            if next == "0" {
                break;
            }
            cursor = next;
            // Other keys are created and deleted, also the one at the position of the scan.
            step += 1;
            session.ask(&["SET", &format!("new:{step}"), "v"]);
            session.ask(&["DEL", &format!("new:{}", step / 2)]);
            let last = met.last().unwrap().clone();
            session.ask(&["DEL", &last]);
            session.ask(&["SET", &last, "v"]);
        }
        met.retain(|key| key.starts_with("key:"));
        let distinct: BTreeSet<_> = met.iter().collect();
        assert_eq!((met.len(), distinct.len()), (1000, 1000), "COUNT {count}");
        session.ask(&["KPREFIX", "new:", "DEL"]);
    }
}

#[test]
fn a_scan_with_a_prefix_looks_at_no_other_keys() {
    let server = UnservedServer::new(ServerOptions::default());
    let mut session = ScanTestSession::new(&server);
    for number in 0..500 {
        session.ask(&["SET", &format!("a:{number}"), "v"]);
        session.ask(&["SET", &format!("b:{number}"), "v"]);
    }
    let (mut cursor, mut steps, mut met) = ("0".to_owned(), 0, 0);
    loop {
        let (next, keys) = session.scan(&cursor, &["MATCH", "b:*", "COUNT", "100"]);
        met += keys.len();
        steps += 1;
        cursor = next;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!((met, steps), (500, 5));
}

#[test]
fn a_cursor_may_be_used_again_and_is_forgotten_at_last() {
    let server = UnservedServer::new(ServerOptions::default());
    let mut session = ScanTestSession::new(&server);
    session.ask(&["MSET", "a", "1", "b", "2", "c", "3"]);
    let (cursor, _) = session.scan("0", &["COUNT", "1"]);
    for _ in 0..3 {
        assert_eq!(session.scan(&cursor, &["COUNT", "1"]).1, ["b"]);
    }
    for _ in 0..1 << 16 {
        session.scan("0", &["COUNT", "1"]);
    }
    let (error, _) = session.scan(&cursor, &[]);
    assert!(error.starts_with("-ERR unknown cursor"), "{error}");
}

#[test]
fn every_key_may_be_the_random_one() {
    let server = UnservedServer::new(ServerOptions::default());
    let mut session = ScanTestSession::new(&server);
    let keys = [
        "", "\0", "a", "a\0", "ab", "abc", "abcdef", "b", "user:1", "user:10", "user:2",
    ];
    for key in keys {
        session.ask(&["SET", key, "v"]);
    }
    let mut met = BTreeMap::new();
    for _ in 0..20_000 {
        let key = session.ask(&["RANDOMKEY"]).pop().unwrap_or_default();
        *met.entry(key).or_insert(0) += 1;
    }
    assert_eq!(met.len(), keys.len(), "{met:?}");
}

#[test]
fn flushed_objects_are_freed() {
    let server = UnservedServer::new(ServerOptions::default());
    let mut session = ScanTestSession::new(&server);
    for count in [10, 5000] {
        for number in 0..count {
            session.ask(&["RPUSH", &format!("list:{number}"), "a", "b"]);
        }
        assert!(server.keyspace.heap.used_bytes() > 0);
        session.ask(&["FLUSHALL"]);
        assert_eq!(session.ask(&["DBSIZE"]), [":0"]);
        let started = std::time::Instant::now();
        while server.keyspace.heap.used_bytes() > 0 {
            assert!(started.elapsed().as_secs() < 10, "objects are not freed");
            std::thread::yield_now();
        }
    }
}

#[test]
fn keys_are_deleted_when_their_time_is_over_though_nobody_asks() {
    let server = UnservedServer::new(ServerOptions::default());
    let mut session = ScanTestSession::new(&server);
    for number in 0..500 {
        session.ask(&["SET", &number.to_string(), "v", "PXAT", "1"]);
    }
    session.ask(&["SET", "long", "v", "EX", "1000"]);
    assert_eq!(session.executor.expire_due(0, 200, now_ms()), 200);
    assert_eq!(session.executor.expire_due(1, 200, now_ms()), 0);
    assert_eq!(session.executor.expire_due(0, 400, now_ms()), 300);
    assert_eq!(session.executor.expire_due(0, 200, now_ms()), 0);
    assert_eq!(session.ask(&["DBSIZE"]), [":1"]);
}
