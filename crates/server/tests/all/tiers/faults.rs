//! Disks that are full or fail, and values that no tier accepts: the client gets an error that
//! names the key, nothing is lost, and all accounts are exact.

use super::*;
use crate::hash_expiry::expire_at;
use nearfield_server::clock::now_ms;
use nearfield_server::disk::RealPersistenceDisk;
use nearfield_server::keyspace::snapshot;
use nearfield_server_testkit::faulty::{EIO, ENOSPC};
use nearfield_server_testkit::faulty_tier::{FaultyTierDisk, TierFaults};
use nearfield_tiers::TierReadRing;
use nearfield_tiers::disk::TierDisk;
use std::cell::{Cell, RefCell};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A server with small tiers, with files on a disk that fails on request, and a client.
struct FaultyTierServer {
    server: Nearfield,
    disk: FaultyTierDisk,
    connection: RefCell<TestkitConnection>,
    folder: TestkitFolder,
}

impl FaultyTierServer {
    fn new(memory_mebibytes: u64) -> FaultyTierServer {
        let (folder, disk) = (TestkitFolder::new(), FaultyTierDisk::default());
        let tiers = [
            Specification::memory(memory_mebibytes << 20),
            Specification::compressed(1 << 20),
            Specification::file(&folder.0, 8 << 20),
        ];
        let on = Arc::new(disk.clone()) as Arc<dyn TierDisk>;
        let options = ServerOptions {
            tiers: Some(Arc::new(Tiers::open_on(&tiers, &on).unwrap())),
            ..saving_into(&folder, 1)
        };
        let server = Nearfield::start(options);
        FaultyTierServer {
            connection: RefCell::new(server.connect()),
            server,
            disk,
            folder,
        }
    }

    fn set(&self, faults: TierFaults) {
        *self.disk.faults.lock() = faults;
    }

    fn run(&self, words: &[&[u8]]) -> RespReplyValue {
        self.connection.borrow_mut().command(words).unwrap()
    }

    fn info(&self) -> String {
        self.run(&[b"INFO", b"tiers"]).to_string()
    }

    fn move_to(&self, key: &[u8], to: &[u8]) -> RespReplyValue {
        self.run(&[b"NEARFIELD.TIER", b"MOVE", key, to])
    }

    /// Moves all values, and returns the errors of those that stay.
    fn move_all(&self, values: &[(Vec<u8>, RespReplyValue)], to: &[u8]) -> Vec<String> {
        let moved = values.iter().map(|(key, _)| self.move_to(key, to));
        let errors = moved.filter(|reply| !matches!(reply, RespReplyValue::Integer(_)));
        errors.map(|reply| text_of(&reply)).collect()
    }

    /// Repairs the disk, and checks that all accounts are exact, all values are there, and all
    /// move.
    fn check_all(&self, values: &[(Vec<u8>, RespReplyValue)], to: &[u8]) {
        self.set(TierFaults::default());
        self.check(values);
        assert_eq!(self.move_all(values, to), Vec::<String>::new());
        self.check(values);
    }

    /// Checks that the first `count` keys have the values that [`set`] gives them.
    fn check_set(&self, count: u64) {
        for number in 0..count {
            let found = self.run(&[b"GET", &name(number)]);
            assert_eq!(found, RespReplyValue::Bulk(noise(number, 1000)));
        }
    }

    /// Checks that all accounts are exact, and that all values are there.
    fn check(&self, values: &[(Vec<u8>, RespReplyValue)]) {
        check_settled(&self.server.server.keyspace);
        for (key, dump) in values {
            assert_eq!(&self.run(&[b"DUMP", key]), dump, "{}", key.escape_ascii());
        }
    }

    /// Reads all values, some of which are errors that name their key and the reason. Returns the
    /// number of errors.
    fn read_all(&self, values: &[(Vec<u8>, RespReplyValue)], reason: &str) -> usize {
        let is_wrong = |(key, dump): &&(Vec<u8>, RespReplyValue)| match self.run(&[b"DUMP", key]) {
            RespReplyValue::Error(text) => {
                let (text, key) = (
                    String::from_utf8_lossy(&text),
                    key.escape_ascii().to_string(),
                );
                assert!(text.contains(&key) && text.contains(reason), "{text}");
                true
            }
            // The values that were appended last are still in memory.
            found => {
                assert_eq!(&found, dump);
                false
            }
        };
        values.iter().filter(is_wrong).count()
    }
}

fn text_of(value: &RespReplyValue) -> String {
    match value {
        RespReplyValue::Error(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("no error: {other}"),
    }
}

fn reads_fail() -> TierFaults {
    TierFaults {
        reads: Some(EIO),
        ..TierFaults::default()
    }
}

fn reads_flip() -> TierFaults {
    TierFaults {
        flips: true,
        ..TierFaults::default()
    }
}

fn is_ok(reply: &RespReplyValue) -> bool {
    *reply == RespReplyValue::simple("OK")
}

/// Sets a key to a value of a kilobyte that cannot be compressed.
fn set(connection: &mut TestkitConnection, number: u64) -> RespReplyValue {
    let words: [&[u8]; 3] = [b"SET", &name(number), &noise(number, 1000)];
    connection.command(&words).unwrap()
}

/// Sets keys from `kept` on until one is refused for its memory.
fn set_until_refused(connection: &mut TestkitConnection, kept: &mut u64) {
    let refused = loop {
        match set(connection, *kept) {
            RespReplyValue::Error(text) => break String::from_utf8(text).unwrap(),
            reply => assert!(is_ok(&reply), "{reply}"),
        }
        *kept += 1;
        assert!(*kept < 20_000, "the tier takes more than the memory has");
    };
    assert!(refused.starts_with("OOM"), "{refused}");
}

const KEYS: u64 = 60;

/// Creates values of all types by their key, each of some kilobytes that cannot be compressed.
fn fill(at: &FaultyTierServer) -> Vec<(Vec<u8>, RespReplyValue)> {
    let commands: [&[&[u8]]; 5] = [
        &[b"SET"],
        &[b"RPUSH"],
        &[b"HSET", b"field"],
        &[b"SADD"],
        &[b"ZADD", b"1.5"],
    ];
    let mut values = Vec::new();
    for number in 0..KEYS {
        let (key, value) = (name(number), noise(number, 3000));
        let [command, rest @ ..] = commands[number as usize % commands.len()] else {
            continue;
        };
        let mut words: Vec<&[u8]> = vec![command, &key];
        words.extend(rest);
        words.push(&value);
        let reply = at.run(&words);
        assert!(!matches!(reply, RespReplyValue::Error(_)), "{reply}");
        let dump = at.run(&[b"DUMP", &key]);
        values.push((key, dump));
    }
    values
}

#[test]
fn a_disk_that_takes_nothing_is_named_and_values_stay_where_they_are() {
    let at = FaultyTierServer::new(16);
    let _still = at.server.server.tiering.pause();
    let values = fill(&at);
    let writes = |error| TierFaults {
        writes: Some(error),
        ..TierFaults::default()
    };
    let creates = |error| TierFaults {
        creates: Some(error),
        ..TierFaults::default()
    };
    for (faults, reason) in [
        (writes(ENOSPC), "No space left"),
        (writes(EIO), "Input/output error"),
        (creates(ENOSPC), "No space left"),
    ] {
        at.set(faults);
        let errors = at.move_all(&values, b"2");
        // The buffer's contents are written later.
        assert!(errors.len() > 5, "{reason}: {errors:?}");
        assert!(at.disk.faults.lock().failed > 0);
        let named = at.folder.0.display().to_string();
        for error in &errors {
            assert!(error.contains(reason) && error.contains(&named), "{error}");
        }
        at.check(&values);
        // The disk works again: the buffer's contents are not lost, and the rest moves.
        at.check_all(&values, b"2");
        at.check_all(&values, b"0");
    }
}

#[test]
fn reads_that_fail_or_answer_other_bytes_name_the_key_and_the_rest_goes_on() {
    let at = FaultyTierServer::new(16);
    let _still = at.server.server.tiering.pause();
    let values = fill(&at);
    at.check_all(&values, b"2");
    at.run(&[b"SET", b"hot", b"value"]);
    for (faults, reason) in [
        (reads_fail(), "Input/output error"),
        (reads_flip(), "differ from those"),
    ] {
        at.set(faults);
        let wrong = at.read_all(&values, reason);
        assert!(wrong as u64 > KEYS / 2, "{wrong}");
        // Neither a move to memory nor one to the other cold tier loses the value.
        for to in [b"0", b"1"] {
            let error = text_of(&at.move_to(&values[0].0, to));
            assert!(error.contains(reason), "{error}");
        }
        let first = values[0].0.as_slice();
        let read = at.run(&[b"MGET", b"hot", first]);
        assert!(read.to_string().contains(reason), "{read}");
        assert_eq!(
            at.run(&[b"GET", b"hot"]),
            RespReplyValue::Bulk(b"value".to_vec())
        );
        assert_eq!(at.run(&[b"EXISTS", first]), RespReplyValue::Integer(1));
        at.run(&[b"MULTI"]);
        at.run(&[b"APPEND", first, b"more"]);
        at.run(&[b"SET", b"hot", b"value"]);
        let replies = at.run(&[b"EXEC"]).to_string();
        assert!(
            replies.contains(reason) && replies.contains("OK"),
            "{replies}"
        );
        at.set(TierFaults::default());
        at.check(&values);
    }
    let info = at.info();
    assert!(
        figure(&info[info.find("tier_2").unwrap()..], "unreadable=") > 0.0,
        "{info}"
    );
}

#[test]
fn a_node_that_cannot_be_read_names_the_key_and_nothing_changes() {
    let at = FaultyTierServer::new(16);
    let _still = at.server.server.tiering.pause();
    for number in 0..4000 {
        at.run(&[b"RPUSH", b"list", &noise(number, 1000)]);
    }
    assert_eq!(at.move_to(b"list", b"2"), RespReplyValue::Integer(1));
    // The ends of the list come back into memory.
    for index in [&b"0"[..], b"-1"] {
        at.run(&[b"LSET", b"list", index, b"end"]);
    }
    let all = at.run(&[b"LRANGE", b"list", b"0", b"-1"]);
    for (faults, reason) in [
        (reads_fail(), "Input/output error"),
        (reads_flip(), "differ from those"),
    ] {
        at.set(faults);
        let commands: [&[&[u8]]; 8] = [
            &[b"LINDEX", b"list", b"500"],
            &[b"LSET", b"list", b"500", b"other"],
            &[b"LRANGE", b"list", b"0", b"-1"],
            &[b"LREM", b"list", b"0", b"nowhere"],
            &[b"LINSERT", b"list", b"AFTER", b"nowhere", b"other"],
            &[b"LPOP", b"list", b"1000"],
            &[b"COPY", b"list", b"other"],
            &[b"DUMP", b"list"],
        ];
        for words in commands {
            let error = text_of(&at.run(words));
            assert!(error.contains("'list'"), "{error}");
            assert!(error.contains(reason), "{error}");
        }
        // The elements in memory are there, and can be changed.
        assert_eq!(at.run(&[b"LLEN", b"list"]), RespReplyValue::Integer(4000));
        assert_eq!(
            at.run(&[b"LPUSH", b"list", b"one"]),
            RespReplyValue::Integer(4001)
        );
        let popped = at.run(&[b"LPOP", b"list"]);
        assert_eq!(popped, RespReplyValue::Bulk(b"one".to_vec()));
        at.set(TierFaults::default());
        check_settled(&at.server.server.keyspace);
        assert!(at.run(&[b"LRANGE", b"list", b"0", b"-1"]) == all);
    }
    // A snapshot that would lack a node fails.
    at.set(reads_fail());
    assert!(matches!(at.run(&[b"SAVE"]), RespReplyValue::Error(_)));
}

/// The disk works again before the snapshot goes on, so that the error is that of the change.
#[test]
fn a_snapshot_fails_by_name_if_a_value_that_is_changed_meanwhile_cannot_be_read() {
    let at = FaultyTierServer::new(16);
    let _still = at.server.server.tiering.pause();
    let values = fill(&at);
    at.check_all(&values, b"2");
    let keyspace = &at.server.server.keyspace;
    let path = at.folder.0.join("taken.rdb");
    let taken_during = |words: &[&[u8]]| {
        let is_begun = Cell::new(false);
        // Called in no phase, before each part of the snapshot is written.
        let change = || {
            if !is_begun.replace(true) {
                at.set(reads_fail());
                let reply = at.run(words);
                assert!(!matches!(reply, RespReplyValue::Error(_)), "{reply}");
                at.set(TierFaults::default());
            }
            false
        };
        snapshot::take(keyspace, &RealPersistenceDisk, &path, Vec::new, change)
    };
    let [first, second, third] = [&values[0].0, &values[1].0, &values[2].0];
    let changes: [(&[&[u8]], &[u8]); 4] = [
        (&[b"SET", first, b"other"], first),
        (&[b"DEL", second], second),
        // All keys are written before it, of which the first one is not in a tier any more.
        (&[b"SWAPDB", b"0", b"1"], third),
        (&[b"FLUSHALL"], third),
    ];
    for (words, key) in changes {
        let error = taken_during(words).unwrap_err().to_string();
        let key = key.escape_ascii().to_string();
        assert!(error.contains(&key), "{error}");
        assert!(error.contains("Input/output error"), "{error}");
    }
    let taken = taken_during(&[b"SET", first, b"last"]).unwrap();
    assert_eq!(taken.keys, 0);
}

/// A command alone and a command of a batch fail alike, and the cycle returns to the hash.
#[test]
fn expired_fields_of_a_hash_that_cannot_be_read_are_removed_when_it_can() {
    let at = FaultyTierServer::new(16);
    let _still = at.server.server.tiering.pause();
    let server = &at.server.server;
    server.expires_actively.store(false, Ordering::Relaxed);
    let hashes = [b"swept", b"batch", b"alone"];
    for hash in hashes {
        for field in 0..10 {
            at.run(&[b"HSET", hash, &name(field), &noise(field, 300)]);
        }
        at.run(&[b"HPEXPIRE", hash, b"1", b"FIELDS", b"1", &name(0)]);
        assert_eq!(at.move_to(hash, b"2"), RespReplyValue::Integer(1));
    }
    // The values that are appended last are read from memory.
    let values = fill(&at);
    at.check_all(&values, b"2");
    let noted = || server.keyspace.share()[0].field_notes().len();
    assert_eq!(noted(), hashes.len());
    at.set(reads_fail());
    let script = b"return redis.call('HSET', KEYS[1], ARGV[1], 'v')";
    let set = |hash: &[u8]| at.run(&[b"HSET", hash, &name(0), b"v"]);
    let set_alone = |hash: &[u8]| at.run(&[b"EVAL", script, b"1", hash, &name(0)]);
    let due_ms = now_ms() + 1000;
    for _ in 0..2 {
        for error in [set(b"batch"), set_alone(b"alone")].map(|reply| text_of(&reply)) {
            assert!(error.contains("Input/output error"), "{error}");
        }
        assert_eq!(expire_at(server, 0, due_ms), 0);
        assert_eq!(noted(), hashes.len());
    }
    at.set(TierFaults::default());
    // The field has expired, although the cycle comes later.
    assert_eq!(set(b"batch"), RespReplyValue::Integer(1));
    assert_eq!(set_alone(b"alone"), RespReplyValue::Integer(1));
    assert_eq!(expire_at(server, 0, due_ms), 0);
    assert_eq!(at.run(&[b"HLEN", b"swept"]), RespReplyValue::Integer(10));
    assert_eq!(expire_at(server, 0, due_ms + 60_000), 1);
    assert_eq!(at.run(&[b"HLEN", b"swept"]), RespReplyValue::Integer(9));
    assert_eq!(noted(), 0);
    at.check(&values);
}

/// Other reads do not fail meanwhile, so that the errors are those of the ring.
#[test]
fn errors_that_the_ring_of_a_thread_answers_name_the_key_and_the_rest_goes_on() {
    if let Err(error) = TierReadRing::new(1) {
        println!("skipped: this process has no ring: {error}");
        return;
    }
    let at = FaultyTierServer::new(16);
    let _still = at.server.server.tiering.pause();
    let values = fill(&at);
    at.check_all(&values, b"2");
    at.set(TierFaults {
        ring_reads: true,
        ..TierFaults::default()
    });
    let wrong = at.read_all(&values, "Input/output error");
    assert!(wrong as u64 > KEYS / 2, "{wrong}");
    // A move reads the disk by itself.
    assert_eq!(at.move_to(&values[0].0, b"0"), RespReplyValue::Integer(1));
    at.check_all(&values[1..], b"0");
    at.check(&values);
}

#[test]
fn a_full_disk_refuses_writes_by_name_and_loses_nothing_and_goes_on_when_it_has_room() {
    let at = FaultyTierServer::new(2);
    let full = TierFaults {
        writes: Some(ENOSPC),
        creates: Some(ENOSPC),
        ..TierFaults::default()
    };
    at.set(full);
    let mut kept = 0;
    set_until_refused(&mut at.connection.borrow_mut(), &mut kept);
    assert!(kept > 1000, "{kept}");
    let info = at.info();
    let file = &info[info.find("tier_2").unwrap()..];
    assert!(figure(file, "unwritable=") > 0.0, "{info}");
    assert!(info.contains("No space left"), "{info}");
    check(&at.server).unwrap();
    at.check_set(kept);
    at.set(TierFaults::default());
    eventually("writes are accepted again", || {
        is_ok(&set(&mut at.server.connect(), kept))
    });
    at.check_set(kept + 1);
    check(&at.server).unwrap();
    let info = at.info();
    assert!(!info.contains("No space left"), "{info}");
}

/// The mover of values is blocked, as if the disk did not respond. The server's only thread waits
/// for room once, and then no more.
#[test]
fn clients_go_on_while_who_moves_values_waits_for_a_disk() {
    let at = FaultyTierServer::new(1);
    let still = at.server.server.tiering.pause();
    let mut kept = 0;
    let mut other = at.server.connect();
    for _ in 0..100 {
        set_until_refused(&mut at.connection.borrow_mut(), &mut kept);
        let found = other.command(&[b"GET", &name(0)]).unwrap();
        assert_eq!(found, RespReplyValue::Bulk(noise(0, 1000)));
    }
    drop(still);
    eventually("writes are accepted again", || {
        is_ok(&set(&mut other, kept))
    });
    at.check_set(kept + 1);
    check(&at.server).unwrap();
}

/// The server's only thread waits once for a write, then for a read, and then no more.
#[test]
fn clients_go_on_while_the_disk_hangs_and_those_that_need_room_are_refused() {
    let at = FaultyTierServer::new(1);
    let set_next = |kept: u64| set(&mut at.connection.borrow_mut(), kept);
    let mut kept = 0;
    while is_ok(&set_next(kept)) {
        kept += 1;
        if at.server.server.keyspace.cold.tiers().unwrap().values(2) > 1000 {
            break;
        }
        assert!(kept < 10_000, "no value is written to the file");
    }
    at.set(TierFaults {
        hangs: true,
        ..TierFaults::default()
    });
    set_until_refused(&mut at.connection.borrow_mut(), &mut kept);
    let began = Instant::now();
    for _ in 0..100 {
        assert!(!is_ok(&set_next(kept)));
        assert_eq!(at.run(&[b"EXISTS", &name(0)]), RespReplyValue::Integer(1));
    }
    // A wait for each would take minutes.
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "{:?}",
        began.elapsed()
    );
    at.set(TierFaults::default());
    eventually("writes are accepted again", || is_ok(&set_next(kept)));
    at.check_set(kept + 1);
    check(&at.server).unwrap();
}

/// The server has one thread. It would wait for the disk with the client that needs room.
#[test]
fn a_disk_that_hangs_in_a_write_stops_no_client_that_needs_no_room() {
    let at = FaultyTierServer::new(1);
    let (mut writer, mut other) = (at.server.connect(), at.server.connect());
    at.run(&[b"SET", b"hot", b"value"]);
    let mut kept = 0;
    while at.server.server.keyspace.cold.tiers().unwrap().values(2) <= 1000 {
        assert!(is_ok(&set(&mut writer, kept)));
        kept += 1;
        assert!(kept < 10_000, "no value is written to the file");
    }
    at.set(TierFaults {
        hangs: true,
        ..TierFaults::default()
    });
    let (mut longest, mut served) = (Duration::ZERO, 0);
    let first = kept;
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| set_until_refused(&mut writer, &mut kept));
        while !writing.is_finished() {
            let began = Instant::now();
            let found = other.command(&[b"GET", b"hot"]).unwrap();
            assert_eq!(found, RespReplyValue::Bulk(b"value".to_vec()));
            let deleted = other.command(&[b"DEL", b"absent"]).unwrap();
            assert_eq!(deleted, RespReplyValue::Integer(0));
            longest = longest.max(began.elapsed());
            served += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
        writing.join().unwrap();
    });
    // The client that needs room has waited for seconds.
    assert!(kept > first && served > 100, "{served} commands");
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    at.set(TierFaults::default());
    eventually("writes are accepted again", || {
        is_ok(&set(&mut at.connection.borrow_mut(), kept))
    });
    at.check_set(kept + 1);
    check(&at.server).unwrap();
}

/// A disk that hangs for less than the patience is only slow.
#[test]
fn clients_that_need_room_wait_for_a_slow_disk_and_are_not_refused() {
    let at = FaultyTierServer::new(1);
    let disk = at.disk.clone();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Bounded, so that a failure of the other thread ends the test.
            for _ in 0..300 {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                for hangs in [true, false] {
                    disk.faults.lock().hangs = hangs;
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        });
        for number in 0..3000 {
            let reply = at.run(&[b"SET", &name(number), &noise(number, 1000)]);
            assert_eq!(reply, RespReplyValue::simple("OK"), "{number}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    at.check_set(3000);
    check(&at.server).unwrap();
}

#[test]
fn values_that_a_tier_does_not_take_stay_and_the_reason_is_told() {
    let at = FaultyTierServer::new(16);
    let keyspace = &at.server.server.keyspace;
    let _still = at.server.server.tiering.pause();
    // A file tier of 8 MiB has segments of half a mebibyte.
    for (key, value, to, reason) in [
        (b"noise", noise(1, 5000), b"1", "cannot be made smaller"),
        (b"long1", noise(2, 600_000), b"2", "exceeds the"),
        (b"long2", b"xy".repeat(40 << 20), b"1", "exceeds the"),
        (b"long3", noise(3, 3 << 20), b"2", "exceeds the"),
    ] {
        let (key, to): (&[u8], &[u8]) = (key, to);
        at.run(&[b"SET", key, &value]);
        let error = text_of(&at.move_to(key, to));
        assert!(error.contains(reason), "{error}");
        check_settled(keyspace);
        assert_eq!(at.run(&[b"GET", key]), RespReplyValue::Bulk(value));
        at.run(&[b"DEL", key]);
    }
    check_settled(keyspace);
}
