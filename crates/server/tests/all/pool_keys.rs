//! Keys that are longer than the slots of a pool are served by all its servers.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield::PoolPlacement;
use nearfield_fabric_testkit::ShmNodes;
use nearfield_server::config::ServerOptions;
use nearfield_server::keyspace::Home;
use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::reply::RespReplyValue;
use std::thread;
use std::time::Duration;

const KEYS: usize = 300;

/// Returns a key of up to 448 bytes; many have the same beginning.
fn key(number: usize) -> String {
    format!("{}{number}", "long:".repeat(number % 90))
}

fn bulk(text: &str) -> RespReplyValue {
    RespReplyValue::Bulk(text.as_bytes().to_vec())
}

fn ask(connection: &mut TestkitConnection, line: &str) -> RespReplyValue {
    connection.run(line).unwrap()
}

/// Returns all keys that `SCAN` lists, in order.
fn scanned(connection: &mut TestkitConnection) -> Vec<RespReplyValue> {
    let mut found = Vec::new();
    let mut cursor = "0".to_owned();
    loop {
        let reply = ask(connection, &format!("SCAN {cursor} COUNT 50"));
        let RespReplyValue::Array(parts) = &reply else {
            panic!("no list: {reply}");
        };
        let [RespReplyValue::Bulk(next), RespReplyValue::Array(keys)] = &parts[..] else {
            panic!("no cursor and keys: {reply}");
        };
        found.extend(keys.iter().cloned());
        cursor = String::from_utf8(next.clone()).unwrap();
        if cursor == "0" {
            found.sort();
            return found;
        }
    }
}

#[test]
fn keys_that_slots_do_not_hold_are_served_by_all_servers() {
    let nodes = ShmNodes::serve(2, 64 << 20).unwrap();
    let start = |_| {
        let home = Home::open_pool(PoolPlacement::shm(nodes.names()), 500, Some(4)).unwrap();
        Nearfield::start(ServerOptions {
            home,
            ..ServerOptions::default()
        })
    };
    let servers = [0, 1].map(start);
    let mut connections = servers.each_ref().map(Nearfield::connect);
    for number in 0..KEYS {
        let line = format!("SET {} v{number}", key(number));
        let reply = ask(&mut connections[number % 2], &line);
        assert_eq!(reply, RespReplyValue::simple("OK"));
    }
    for number in 0..KEYS {
        let reply = ask(
            &mut connections[(number + 1) % 2],
            &format!("GET {}", key(number)),
        );
        assert_eq!(reply, bulk(&format!("v{number}")));
    }
    let mut all: Vec<RespReplyValue> = (0..KEYS).map(|number| bulk(&key(number))).collect();
    all.sort();
    assert_eq!(scanned(&mut connections[0]), all);
    // The notes of times at which keys expire are long as well.
    for number in (0..KEYS).step_by(2) {
        let reply = ask(&mut connections[0], &format!("PEXPIRE {} 1", key(number)));
        assert_eq!(reply, RespReplyValue::Integer(1));
    }
    thread::sleep(Duration::from_millis(20));
    for number in 0..KEYS {
        let reply = ask(&mut connections[1], &format!("GET {}", key(number)));
        let expected = match number % 2 {
            0 => RespReplyValue::NullBulk,
            _ => bulk(&format!("v{number}")),
        };
        assert_eq!(reply, expected);
    }
    let too_long = ask(&mut connections[0], &format!("SET {} v", "x".repeat(600)));
    assert!(matches!(too_long, RespReplyValue::Error(_)), "{too_long}");
}
