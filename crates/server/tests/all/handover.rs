//! Connections that move from thread to thread while they are used: no reply is lost, doubled or
//! out of order.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server_testkit::connection::{TestkitConnection, encode};
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::reply::RespReplyValue;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const THREADS: usize = 3;
/// Number of changes of the number of threads that serve.
const CHANGES: usize = 60;

/// Counts up by pipelines of a random length, which also have plain reads and writes.
fn count(mut connection: TestkitConnection, seed: u64, done: &AtomicBool) -> i64 {
    let random = &mut SmallRng::seed_from_u64(seed);
    let (counter, plain) = (format!("counter:{seed}"), format!("plain:{seed}"));
    let (mut expected, mut round) = (0, 0);
    while !done.load(Ordering::Relaxed) {
        round += 1;
        let text = round.to_string();
        let length = random.random_range(1..20);
        let mut request = Vec::new();
        encode(&mut request, &[b"SET", plain.as_bytes(), text.as_bytes()]);
        for _ in 0..length {
            encode(&mut request, &[b"INCR", counter.as_bytes()]);
        }
        encode(&mut request, &[b"GET", plain.as_bytes()]);
        // Some requests are sent in two parts, so that half a request is handed over.
        let cut = random.random_range(0..request.len());
        connection.send(&request[..cut]).unwrap();
        if random.random_ratio(1, 4) {
            std::thread::sleep(Duration::from_millis(random.random_range(0..15)));
        }
        connection.send(&request[cut..]).unwrap();
        assert_eq!(connection.receive().unwrap(), RespReplyValue::simple("OK"));
        for _ in 0..length {
            expected += 1;
            assert_eq!(
                connection.receive().unwrap(),
                RespReplyValue::Integer(expected)
            );
        }
        assert_eq!(
            connection.receive().unwrap(),
            RespReplyValue::Bulk(text.into_bytes())
        );
    }
    expected
}

/// Sends numbers through a list to a client that waits for each.
fn pass_on(mut giver: TestkitConnection, mut taker: TestkitConnection, done: &AtomicBool) -> i64 {
    let mut number = 0;
    while !done.load(Ordering::Relaxed) {
        number += 1;
        let text = number.to_string();
        taker.send_words(&[b"BLPOP", b"queue", b"0"]).unwrap();
        let pushed = giver.command(&[b"RPUSH", b"queue", text.as_bytes()]);
        assert_eq!(pushed.unwrap(), RespReplyValue::Integer(1));
        let expected =
            [&b"queue"[..], text.as_bytes()].map(|word| RespReplyValue::Bulk(word.to_vec()));
        assert_eq!(
            taker.receive().unwrap(),
            RespReplyValue::Array(expected.to_vec())
        );
    }
    number
}

/// Subscribes, receives published messages, and unsubscribes, again and again.
fn listen(
    mut speaker: TestkitConnection,
    mut listener: TestkitConnection,
    done: &AtomicBool,
) -> i64 {
    let mut number = 0;
    while !done.load(Ordering::Relaxed) {
        number += 1;
        let text = number.to_string();
        listener.command(&[b"SUBSCRIBE", b"channel"]).unwrap();
        let heard = speaker.command(&[b"PUBLISH", b"channel", text.as_bytes()]);
        assert_eq!(heard.unwrap(), RespReplyValue::Integer(1));
        let expected = [&b"message"[..], b"channel", text.as_bytes()];
        let expected = expected.map(|word| RespReplyValue::Bulk(word.to_vec()));
        assert_eq!(
            listener.receive().unwrap(),
            RespReplyValue::Array(expected.to_vec())
        );
        listener.command(&[b"UNSUBSCRIBE", b"channel"]).unwrap();
        let pong = listener.command(&[b"PING"]).unwrap();
        assert_eq!(pong, RespReplyValue::simple("PONG"));
    }
    number
}

/// Connects, and makes another client close the connection.
fn kill(server: &Nearfield, mut killer: TestkitConnection, done: &AtomicBool) -> i64 {
    let mut number = 0;
    while !done.load(Ordering::Relaxed) {
        number += 1;
        let mut victim = server.connect();
        let RespReplyValue::Integer(id) = victim.command(&[b"CLIENT", b"ID"]).unwrap() else {
            panic!("no number")
        };
        std::thread::sleep(Duration::from_millis(3));
        let id = id.to_string();
        let killed = killer.command(&[b"CLIENT", b"KILL", b"ID", id.as_bytes()]);
        assert_eq!(killed.unwrap(), RespReplyValue::Integer(1));
        victim.receive().unwrap_err();
    }
    number
}

#[test]
fn connections_are_handed_over_while_they_are_used() {
    let server = &Nearfield::with_threads(THREADS);
    let balance = &server.server.balance;
    assert_eq!(balance.active(), THREADS);
    let done = &AtomicBool::new(false);
    let mut served_by = BTreeSet::new();
    std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for seed in 0..5 {
            let connection = server.connect();
            workers.push(scope.spawn(move || count(connection, seed, done)));
        }
        let (one, other) = (server.connect(), server.connect());
        workers.push(scope.spawn(move || pass_on(one, other, done)));
        let (one, other) = (server.connect(), server.connect());
        workers.push(scope.spawn(move || listen(one, other, done)));
        let killer = server.connect();
        workers.push(scope.spawn(move || kill(server, killer, done)));
        for change in 0..CHANGES {
            balance.set_active(1 + change * 7 % THREADS);
            std::thread::sleep(Duration::from_millis(20));
            let clients = server.server.clients.lock();
            served_by.extend(clients.values().map(|client| (client.id, client.thread())));
        }
        done.store(true, Ordering::Relaxed);
        for worker in workers {
            assert!(worker.join().unwrap() > 0);
        }
    });
    let moved = |id| served_by.range((id, 0)..=(id, THREADS)).count() > 1;
    let clients: BTreeSet<u64> = served_by.iter().map(|(id, _)| *id).collect();
    assert!(clients.into_iter().filter(|id| moved(*id)).count() >= 5);
    // Rested threads keep only connections that cannot be moved.
    balance.set_active(1);
    let mut connection = server.connect();
    for number in 0..5 {
        let key = format!("counter:{number}");
        let counted = connection.command(&[b"GET", key.as_bytes()]).unwrap();
        assert!(matches!(counted, RespReplyValue::Bulk(_)), "{counted}");
    }
}
