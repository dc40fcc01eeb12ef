//! Streams: waiting clients, values that move between servers, and the memory that they take.

use nearfield_server::config::ServerOptions;
use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::redis::RedisPeerProcess;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::steps::{
    ask, ask_number, connect, eventually, info, on_both, receive_reply, send_command,
};

/// Waits until `count` clients are blocked.
fn until_blocked(connection: &mut TestkitConnection, count: u64) {
    eventually("clients are blocked", || {
        info(connection, "blocked_clients") == count
    });
}

#[test]
fn readers_wait_for_what_comes_after_they_began() {
    on_both(|address| {
        let (mut one, mut other) = (connect(address), connect(address));
        let mut third = connect(address);
        ask(&mut one, "XADD s 1-1 f old");
        send_command(&mut other, "XREAD COUNT 5 BLOCK 0 STREAMS s absent $ $");
        send_command(&mut third, "XREAD BLOCK 0 STREAMS s 0-5");
        let old = receive_reply(&mut third);
        assert!(old.contains("\"old\""), "{old}");
        until_blocked(&mut one, 1);
        // Nothing that is new to it: another type, and a stream with the same identifiers.
        ask(&mut one, "SET absent string");
        ask(&mut one, "DEL absent");
        assert_eq!(ask(&mut one, "XADD s NOMKSTREAM 1-2 f new"), "\"1-2\"");
        let new = receive_reply(&mut other);
        assert!(new.contains("\"new\"") && !new.contains("\"old\""), "{new}");
        send_command(&mut other, "XREAD BLOCK 5 STREAMS s $");
        assert_eq!(receive_reply(&mut other), "(nil)");
        // In a transaction no client waits.
        ask(&mut one, "MULTI");
        ask(&mut one, "XREAD BLOCK 0 STREAMS s $");
        assert_eq!(ask(&mut one, "EXEC"), "1) (nil)");
    });
}

#[test]
fn consumers_wait_and_each_entry_goes_to_one_of_them() {
    on_both(|address| {
        let mut one = connect(address);
        ask(&mut one, "XGROUP CREATE s g $ MKSTREAM");
        let mut consumers = [connect(address), connect(address)];
        for (number, consumer) in consumers.iter_mut().enumerate() {
            let command = format!("XREADGROUP GROUP g c{number} COUNT 1 BLOCK 0 STREAMS s >");
            send_command(consumer, &command);
            until_blocked(&mut one, number as u64 + 1);
        }
        for number in 1..=2 {
            ask(&mut one, &format!("XADD s {number}-0 f v{number}"));
            let got = receive_reply(&mut consumers[number - 1]);
            assert!(got.contains(&format!("\"v{number}\"")), "{got}");
        }
        let pending = ask(&mut one, "XPENDING s g");
        assert!(pending.starts_with("1) (integer) 2"), "{pending}");
        // A client that waits for a group gets an error if the group is deleted.
        for (command, number) in [("XGROUP DESTROY s g", 0), ("DEL s", 1)] {
            ask(&mut one, "XGROUP CREATE s g $ MKSTREAM");
            send_command(
                &mut consumers[number],
                "XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
            );
            until_blocked(&mut one, 1);
            ask(&mut one, command);
            let told = receive_reply(&mut consumers[number]);
            let is_told = told.contains("NOGROUP") || told.contains("UNBLOCKED");
            assert!(is_told, "{told}");
        }
    });
}

/// Starts both servers, ours first; `None` without redis-server.
fn both() -> Option<(Nearfield, RedisPeerProcess)> {
    let redis = RedisPeerProcess::start(&[])?;
    Some((Nearfield::start(ServerOptions::default()), redis))
}

fn bytes(connection: &mut TestkitConnection, words: &[&[u8]]) -> Vec<u8> {
    match connection.command(words) {
        Ok(RespReplyValue::Bulk(bytes)) => bytes,
        other => panic!("no payload: {other:?}"),
    }
}

/// Fills a stream with entries of several forms, deletes some, and makes groups read.
fn fill(connection: &mut TestkitConnection, key: &str) {
    for number in 1..=700 {
        let more = if number % 7 == 0 { " more 1" } else { "" };
        let entry = format!("XADD {key} {number}-{number} field {number} name n{number}{more}");
        ask(connection, &entry);
    }
    for number in (5..200).step_by(3) {
        ask(connection, &format!("XDEL {key} {number}-{number}"));
    }
    ask(connection, &format!("XTRIM {key} MINID 40"));
    ask(connection, &format!("XGROUP CREATE {key} one 0"));
    ask(connection, &format!("XGROUP CREATE {key} two 300"));
    for (group, consumer) in [("one", "a"), ("one", "b"), ("two", "a")] {
        let read = format!("XREADGROUP GROUP {group} {consumer} COUNT 150 STREAMS {key} >");
        ask(connection, &read);
    }
    ask(connection, &format!("XACK {key} one 50-50 51-51 60-60"));
    ask(connection, &format!("XDEL {key} 301-301"));
    ask(connection, &format!("XGROUP CREATECONSUMER {key} two idle"));
}

/// Returns everything that Redis 7.0 reports about a stream.
fn facts(connection: &mut TestkitConnection, key: &str) -> String {
    let command = format!("XINFO STREAM {key} FULL COUNT 0");
    let facts = connection.run(&command).expect("facts");
    facts.without(&["active-time"]).to_string()
}

#[test]
fn streams_move_between_servers_both_ways() {
    let Some((nearfield, redis)) = both() else {
        return;
    };
    let mut ours = connect(nearfield.address);
    let mut theirs = connect(redis.address);
    let directions = [(&mut ours, "ours"), (&mut theirs, "theirs")];
    let mut payloads = Vec::new();
    for (connection, key) in directions {
        fill(connection, key);
        let payload = bytes(connection, &[b"DUMP", key.as_bytes()]);
        let facts = facts(connection, key);
        payloads.push((key, payload, facts));
    }
    for (key, payload, facts) in &payloads {
        for (connection, name) in [(&mut ours, "ours"), (&mut theirs, "theirs")] {
            let copy = format!("copy:{key}");
            let words = [&b"RESTORE"[..], copy.as_bytes(), b"0", payload];
            let restored = connection.command(&words).expect("a reply");
            assert_eq!(restored, RespReplyValue::simple("OK"), "{key} in {name}");
            assert!(self::facts(connection, &copy) == *facts, "{key} in {name}");
            // The copy works like a stream.
            let added = ask(connection, &format!("XADD {copy} 700-* f v"));
            assert_eq!(added, "\"700-701\"");
            let read = format!("XREADGROUP GROUP one c STREAMS {copy} >");
            assert!(
                ask(connection, &read).contains("700-701"),
                "{key} in {name}"
            );
        }
    }
}

#[test]
fn damaged_payloads_are_refused() {
    let nearfield = Nearfield::start(ServerOptions::default());
    let mut ours = connect(nearfield.address);
    fill(&mut ours, "s");
    let payload = bytes(&mut ours, &[b"DUMP", b"s"]);
    for at in (0..payload.len()).step_by(101) {
        let mut damaged = payload.clone();
        damaged[at] ^= 0x55;
        let words = [&b"RESTORE"[..], b"copy", b"0", &damaged];
        let reply = ours.command(&words).expect("a reply");
        assert!(matches!(reply, RespReplyValue::Error(_)), "{reply}");
    }
}

/// Our memory for streams of usual entries is compared with Redis's.
#[test]
fn streams_take_as_much_memory_as_in_redis() {
    const ENTRIES: usize = 20_000;
    let Some((nearfield, redis)) = both() else {
        return;
    };
    let used = |address| {
        let mut connection = connect(address);
        let before = info(&mut connection, "used_memory");
        for number in 0..ENTRIES {
            let words = format!(
                "XADD s {} user user:{number} action click page /items/{} device mobile \
                 duration {}",
                format_args!("{}-0", 1_700_000_000_000_u64 + number as u64 * 7),
                number % 1000,
                number % 977,
            );
            send_command(&mut connection, &words);
            if number % 100 == 99 {
                (0..100).for_each(|_| drop(receive_reply(&mut connection)));
            }
        }
        assert_eq!(ask_number(&mut connection, "XLEN s"), ENTRIES as i64);
        let usage = ask_number(&mut connection, "MEMORY USAGE s SAMPLES 0");
        let after = info(&mut connection, "used_memory");
        ((after - before) as f64 / ENTRIES as f64, usage)
    };
    let ((ours, our_usage), (theirs, their_usage)) = (used(nearfield.address), used(redis.address));
    eprintln!(
        "bytes an entry: {ours:.1}, and in Redis {theirs:.1}; MEMORY USAGE {our_usage} and \
         {their_usage}"
    );
    assert!(ours <= 1.1 * theirs, "{ours} and {theirs}");
}
