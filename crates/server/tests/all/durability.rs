//! Acknowledged writes exist after a restart, whatever the disk did; and each snapshot is that of
//! one instant.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server::config::{Durability, ServerOptions};
use nearfield_server::keyspace::{DatabaseAccess, DatabaseKeys, Effects, KeyView};
use nearfield_server::log::manifest::Manifest;
use nearfield_server::log::{Damage, LogSyncPolicy};
use nearfield_server::object::{Container, Hash, ListObject, Set, SortedSet};
use nearfield_server::persistence;
use nearfield_server::persistence::load::LoadError;
use nearfield_server::server::{ServerCore, SnapshotTask};
use nearfield_server_testkit::connection::{TestkitConnection, encode, encode_lines};
use nearfield_server_testkit::faulty::{EIO, ENOSPC, FaultyDisk};
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::{Nearfield, UnservedServer};
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::state::{State, state};
use nearfield_server_testkit::steps::eventually;
use nearfield_testkit::seeds;
use parking_lot::Mutex;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const POLICIES: [LogSyncPolicy; 3] = [
    LogSyncPolicy::Always,
    LogSyncPolicy::EverySecond,
    LogSyncPolicy::No,
];

pub(super) fn options(folder: &Path, log: bool, policy: LogSyncPolicy) -> ServerOptions {
    ServerOptions {
        threads: 2,
        persistence: Durability {
            directory: Some(folder.to_owned()),
            log: Some(log),
            policy: Some(policy),
            save: Some(Vec::new()),
            ..Durability::default()
        },
        ..ServerOptions::default()
    }
}

/// Loads a folder without serving clients.
pub(super) fn load(folder: &Path, log: bool, damage: Damage) -> Result<State, LoadError> {
    let mut options = options(folder, log, LogSyncPolicy::Always);
    options.persistence.damage = damage;
    let server = UnservedServer::new(options);
    persistence::start(&server, nearfield_server::commands::repeat)?;
    Ok(state(&server.keyspace))
}

pub(super) fn run(connection: &mut TestkitConnection, line: &str) -> RespReplyValue {
    connection.run(line).expect("a reply")
}

pub(super) fn ok() -> RespReplyValue {
    RespReplyValue::simple("OK")
}

/// Fills the keyspace with values of each type, in every form.
fn fill(server: &ServerCore) {
    let mut databases = server.keyspace.exclude();
    let mut effects = Effects::default();
    let access = DatabaseAccess::Exclusive(&mut databases);
    let mut keys = DatabaseKeys::new(&server.keyspace, access, 0, 0, &mut effects);
    let later = Some(4_000_000_000_000);
    for database in [0, 3, 15] {
        keys.select(database);
        for size in [1_usize, 5, 200, 70_000] {
            let name = |kind: &str| format!("{kind}:{database}:{size}").into_bytes();
            let text = vec![b'x'; size];
            keys.set_string(&name("string"), &text, None).unwrap();
            keys.set_string(&name("expiring"), b"12", later).unwrap();
            let edited = keys.edit_string(&name("raw"), |string| string.append(&text));
            edited.unwrap();
            let count = size.min(3000);
            let element = |index: usize| format!("element {index}\r\n\0\u{ff}").into_bytes();
            keys.edit::<ListObject<_>, _>(&name("list"), |list, limits| {
                (0..count).for_each(|index| list.push_back(limits, &element(index)));
            })
            .unwrap();
            keys.edit::<Hash<_>, _>(&name("hash"), |hash, limits| {
                for index in 0..count {
                    hash.set(limits, &element(index), b"value");
                }
            })
            .unwrap();
            keys.edit::<Set<_>, _>(&name("set"), |set, limits| {
                for index in 0..count {
                    set.add(limits, &element(index));
                }
            })
            .unwrap();
            keys.edit::<Set<_>, _>(&name("integers"), |set, limits| {
                for index in 0..count {
                    set.add(limits, format!("{}", index as i64 - 50).as_bytes());
                }
            })
            .unwrap();
            let mut sorted_set = SortedSet::create(&keys.keyspace().heap);
            let limits = keys.limits();
            let scores = [f64::INFINITY, f64::NEG_INFINITY, -0.0, 1.0 / 3.0];
            for index in 0..count {
                let score = scores.get(index).copied().unwrap_or(index as f64);
                sorted_set.insert(&limits, &element(index), score);
            }
            keys.put_object(&name("zset"), sorted_set.wrap(), later)
                .unwrap();
        }
    }
    keys.select(1);
    keys.set_string(b"", b"", None).unwrap();
}

#[test]
fn every_kind_of_value_comes_back_from_a_dump() {
    let folder = TestkitFolder::new();
    let saved = {
        let server = Nearfield::start(options(&folder.0, false, LogSyncPolicy::No));
        fill(&server.server);
        let mut connection = server.connect();
        assert_eq!(run(&mut connection, "SAVE"), ok());
        let before = state(&server.server.keyspace);
        assert_eq!(run(&mut connection, "DEBUG RELOAD"), ok());
        assert_eq!(state(&server.server.keyspace), before);
        before
    };
    assert_eq!(saved.len(), 3 * 4 * 8 + 1);
    assert_eq!(load(&folder.0, false, Damage::Refuse).unwrap(), saved);
    // The same state comes from a base, when logging begins.
    assert_eq!(load(&folder.0, true, Damage::Refuse).unwrap(), saved);
    fs::remove_file(folder.join("dump.rdb")).unwrap();
    assert_eq!(load(&folder.0, true, Damage::Refuse).unwrap(), saved);
    // And from a dump again, when logging ends.
    assert_eq!(load(&folder.0, false, Damage::Refuse).unwrap(), saved);
    assert!(!has_log(&folder.0));
    assert_eq!(load(&folder.0, false, Damage::Refuse).unwrap(), saved);
}

#[test]
fn what_was_done_comes_back_from_the_log() {
    for policy in POLICIES {
        let folder = TestkitFolder::new();
        let mut expected = None;
        for restart in 0..3 {
            let server = Nearfield::start(options(&folder.0, true, policy));
            if let Some(expected) = &expected {
                assert_eq!(&state(&server.server.keyspace), expected);
            }
            let mut connection = server.connect();
            for index in 0..200 {
                run(&mut connection, &format!("SET k{index} v{restart}"));
            }
            run(&mut connection, "MULTI");
            run(&mut connection, &format!("SET a {restart}"));
            run(&mut connection, "DEL k7 k8");
            run(&mut connection, &format!("SET b {restart}"));
            run(&mut connection, "EXEC");
            run(&mut connection, "DEL k9");
            if restart == 1 {
                assert_eq!(run(&mut connection, "DEBUG LOADAOF"), ok());
            }
            expected = Some(state(&server.server.keyspace));
        }
        assert_eq!(expected.unwrap().len(), 199);
    }
}

/// Returns the log of a small history, and the states after each of its frames.
fn small_history() -> (TestkitFolder, PathBuf, Vec<State>) {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(options(&folder.0, true, LogSyncPolicy::Always));
    let mut connection = server.connect();
    let mut states = vec![State::new()];
    for line in ["SET a 1", "SET b 2", "DEL a", "SET b 3", "SET c 4"] {
        run(&mut connection, line);
        states.push(state(&server.server.keyspace));
    }
    drop(server);
    let path = folder.join("log-1.aof");
    (folder, path, states)
}

#[test]
fn a_log_cut_anywhere_loads_as_far_as_it_goes() {
    let (folder, path, states) = small_history();
    let whole = fs::read(&path).unwrap();
    let opening_bytes = nearfield_server::log::frame::OPENING_BYTES as usize;
    // A seed has a third of the lengths, and three in a row have all.
    seeds::each(1, |seed| {
        let mut seen = 0;
        let is_tried = |length: &usize| *length as u64 % 3 == seed % 3 || *length == whole.len();
        for length in (0..=whole.len()).filter(is_tried) {
            fs::write(&path, &whole[..length]).unwrap();
            let loaded = load(&folder.0, true, Damage::Refuse);
            if length < opening_bytes {
                // The head was on the medium before the manifest named the log.
                let refused = matches!(loaded, Err(LoadError::Damaged { offset: 0, .. }));
                assert!(refused, "{loaded:?}");
                continue;
            }
            let loaded = loaded.unwrap();
            let position = states.iter().position(|state| *state == loaded).unwrap();
            assert!(position >= seen, "a longer log has less");
            seen = position;
            // The bytes that are cut off stay cut off.
            assert_eq!(load(&folder.0, true, Damage::Refuse).unwrap(), loaded);
        }
        assert_eq!(seen, states.len() - 1);
    });
}

#[test]
fn no_flipped_byte_of_a_log_makes_a_wrong_state() {
    let (folder, path, states) = small_history();
    let whole = fs::read(&path).unwrap();
    let (mut refused, mut cut) = (0, 0);
    for position in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[position] ^= 1 << (position % 8);
        fs::write(&path, &damaged).unwrap();
        match load(&folder.0, true, Damage::Refuse) {
            Ok(loaded) => {
                assert_eq!(loaded, states[states.len() - 2], "at {position}");
                cut += 1;
            }
            Err(LoadError::Damaged { offset, .. }) => {
                assert!(offset <= position as u64);
                assert_eq!(fs::read(&path).unwrap(), damaged, "it was not changed");
                refused += 1;
                if position % 16 == 0 {
                    let repaired = load(&folder.0, true, Damage::Repair).unwrap();
                    assert!(states.contains(&repaired));
                    let opening = nearfield_server::log::frame::OPENING_BYTES;
                    let left = fs::metadata(&path).unwrap().len();
                    assert_eq!(left, offset.max(opening));
                }
            }
            Err(other) => panic!("at {position}: {other}"),
        }
    }
    // Only damage to the last trailer, which is then no such command, looks like a trailer that was
    // not written.
    assert!(refused > 5 * cut && cut > 3, "{refused} and {cut}");
}

#[test]
fn a_command_that_cannot_be_repeated_is_refused() {
    let (folder, path, _) = small_history();
    for command in ["*1\r\n$5\r\nNOSUC\r\n", "*2\r\n$3\r\nSET\r\n$1\r\nk\r\n"] {
        let mut frame = command.as_bytes().to_vec();
        nearfield_server::log::frame::seal(&mut frame, None, 0, 0);
        fs::write(&path, &frame).unwrap();
        let error = load(&folder.0, true, Damage::Refuse).unwrap_err();
        assert!(
            matches!(error, LoadError::Command { offset: 0, .. }),
            "{error}"
        );
    }
}

#[test]
fn two_servers_do_not_share_a_folder() {
    let folder = TestkitFolder::new();
    let _server = Nearfield::start(options(&folder.0, true, LogSyncPolicy::No));
    let error = load(&folder.0, true, Damage::Refuse).unwrap_err();
    assert!(matches!(error, LoadError::Refused { .. }), "{error}");
}

// ---- Snapshots while clients write -------------------------------------------------------------

/// Writes until `stop`: pairs of keys that are equal at each instant and far apart in the keys'
/// order, and keys that are moved from one end to the other.
fn write_pairs(server: &Nearfield, number: usize, stop: &AtomicBool) {
    let mut connection = server.connect();
    let mut count = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        count += 1;
        let (pair, at) = (count % 50, count.is_multiple_of(2));
        let (here, there) = if at { ("a", "z") } else { ("z", "a") };
        let commands = [
            "MULTI".to_owned(),
            format!("SET a:pair:{number}:{pair} {count}"),
            format!("SET z:pair:{number}:{pair} {count}"),
            format!("DEL {here}:moved:{number}"),
            format!("SET {there}:moved:{number} {count}"),
            "EXEC".to_owned(),
        ];
        let request = encode_lines(&commands);
        connection.send(&request).unwrap();
        for _ in commands {
            connection.receive().unwrap();
        }
    }
}

/// Runs `work` while two clients write pairs.
pub(super) fn while_pairs_are_written(server: &Nearfield, work: impl FnOnce()) {
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..2 {
            scope.spawn(move || write_pairs(server, number, stop));
        }
        work();
        stop.store(true, Ordering::Relaxed);
    });
}

pub(super) fn check_pairs(state: &State) {
    let string = |key: String| state.get(&(0, key.into_bytes()));
    for number in 0..2 {
        for pair in 0..50 {
            let first = string(format!("a:pair:{number}:{pair}"));
            assert_eq!(first, string(format!("z:pair:{number}:{pair}")));
        }
        let here = string(format!("a:moved:{number}"));
        let there = string(format!("z:moved:{number}"));
        assert!(here.is_none() || there.is_none(), "{here:?} {there:?}");
    }
}

#[test]
fn snapshots_are_of_one_instant_while_clients_write() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(options(&folder.0, false, LogSyncPolicy::No));
    let filler = 60_000;
    let mut connection = server.connect();
    for index in 0..filler {
        let key = format!("m:{index}");
        let words = [&b"SET"[..], key.as_bytes(), b"filler"];
        connection.send_words(&words).unwrap();
        if index % 500 == 499 {
            (0..500).for_each(|_| assert_eq!(connection.receive().unwrap(), ok()));
        }
    }
    for _ in filler / 500 * 500..filler {
        connection.receive().unwrap();
    }
    while_pairs_are_written(&server, || {
        for round in 0..3 {
            let saves = server.server.persistence.status().saves;
            let mut connection = server.connect();
            run(&mut connection, "BGSAVE");
            eventually("a snapshot", || {
                server.server.persistence.status().saves > saves
            });
            let copy = TestkitFolder::new();
            fs::copy(folder.join("dump.rdb"), copy.join("dump.rdb")).unwrap();
            let loaded = load(&copy.0, false, Damage::Refuse).unwrap();
            assert!(loaded.len() >= filler, "{round}: {}", loaded.len());
            check_pairs(&loaded);
        }
    });
}

#[test]
fn a_flush_does_not_reach_a_snapshot_that_has_begun() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(options(&folder.0, false, LogSyncPolicy::No));
    fill(&server.server);
    let before = state(&server.server.keyspace);
    let path = folder.join("other.rdb");
    let disk = nearfield_server::disk::RealPersistenceDisk;
    let keyspace = &server.server.keyspace;
    let flushed = AtomicBool::new(false);
    let flush = || {
        if !flushed.swap(true, Ordering::Relaxed) {
            let mut connection = server.connect();
            run(&mut connection, "SET integers:0:1 other");
            run(&mut connection, "SET new value");
            run(&mut connection, "FLUSHALL");
        }
        false
    };
    nearfield_server::keyspace::snapshot::take(keyspace, &disk, &path, Vec::new, flush).unwrap();
    assert!(state(keyspace).is_empty());
    let copy = TestkitFolder::new();
    fs::rename(path, copy.join("dump.rdb")).unwrap();
    assert_eq!(load(&copy.0, false, Damage::Refuse).unwrap(), before);
}

#[test]
fn the_log_is_rewritten_while_clients_write() {
    let folder = TestkitFolder::new();
    let expected = {
        let server = Nearfield::start(options(&folder.0, true, LogSyncPolicy::Always));
        while_pairs_are_written(&server, || {
            for _ in 0..10 {
                let rewrites = server.server.persistence.status().rewrites;
                let mut connection = server.connect();
                run(&mut connection, "BGREWRITEAOF");
                eventually("a rewrite", || {
                    server.server.persistence.status().rewrites > rewrites
                });
            }
        });
        state(&server.server.keyspace)
    };
    assert!(folder.join("base-11.rdb").exists());
    assert!(!folder.join("log-1.aof").exists());
    let loaded = load(&folder.0, true, Damage::Refuse).unwrap();
    assert_eq!(loaded, expected);
    check_pairs(&loaded);
}

#[test]
fn the_log_is_rewritten_when_it_has_grown() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(options(&folder.0, true, LogSyncPolicy::No));
    let mut connection = server.connect();
    let smaller = "CONFIG SET auto-aof-rewrite-min-size 50000";
    assert_eq!(run(&mut connection, smaller), ok());
    let value = "x".repeat(1000);
    for _ in 0..100 {
        run(&mut connection, &format!("SET k {value}"));
    }
    eventually("a rewrite", || {
        server.server.persistence.status().rewrites == 1
    });
    assert!(server.server.log.counts().file_bytes < 50_000);
}

/// Copies a folder, in the state in which a kill at this moment would leave it.
pub(super) fn copy(folder: &TestkitFolder) -> TestkitFolder {
    let copy = TestkitFolder::new();
    for entry in fs::read_dir(&folder.0).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    copy
}

/// Returns true if the manifest of a folder names a log.
pub(super) fn has_log(folder: &Path) -> bool {
    let manifest = Manifest::read(folder).unwrap();
    manifest.is_some_and(|manifest| manifest.has_log())
}

// ---- A disk that fails -------------------------------------------------------------------------

/// Starts a server in a folder on a disk that fails on request.
pub(super) fn failing(log: bool, policy: LogSyncPolicy) -> (TestkitFolder, FaultyDisk, Nearfield) {
    let (folder, disk) = (TestkitFolder::new(), FaultyDisk::default());
    let mut options = options(&folder.0, log, policy);
    options.persistence.disk = Arc::new(disk.clone());
    let server = Nearfield::start(options);
    (folder, disk, server)
}

pub(super) fn is_misconf(value: &RespReplyValue) -> bool {
    matches!(value, RespReplyValue::Error(text) if text.starts_with(b"MISCONF Errors writing"))
}

#[test]
fn replies_after_a_change_to_always_wait_for_a_sync() {
    let (folder, disk, server) = failing(true, LogSyncPolicy::No);
    let mut connection = server.connect();
    for (number, before) in ["no", "everysec"].into_iter().enumerate() {
        let policy = format!("CONFIG SET appendfsync {before}");
        assert_eq!(run(&mut connection, &policy), ok());
        assert_eq!(run(&mut connection, &format!("SET a{number} 1")), ok());
        let syncs = server.server.log.counts().syncs;
        let always = "CONFIG SET appendfsync always";
        assert_eq!(run(&mut connection, always), ok());
        // All earlier writes are on the medium, without another write.
        assert!(server.server.log.counts().syncs > syncs, "{before}");
        assert_eq!(server.server.log.durable(), server.server.log.position());
        assert_eq!(run(&mut connection, "PING"), RespReplyValue::simple("PONG"));
    }
    // In one round, and with a sync that fails: a success reply would not be true.
    assert_eq!(run(&mut connection, "CONFIG SET appendfsync no"), ok());
    assert_eq!(run(&mut connection, "SET b 1"), ok());
    disk.faults.lock().syncs = Some(EIO);
    let mut pipeline = Vec::new();
    encode(&mut pipeline, &[b"SET", b"c", b"1"]);
    encode(
        &mut pipeline,
        &[b"CONFIG", b"SET", b"appendfsync", b"always"],
    );
    connection.send(&pipeline).unwrap();
    assert!(connection.receive().is_err());
    disk.faults.lock().syncs = None;
    eventually("a new base", || !server.server.refuses_writes());
    let mut connection = server.connect();
    assert_eq!(run(&mut connection, "SET d 1"), ok());
    drop(server);
    assert_eq!(load(&folder.0, true, Damage::Refuse).unwrap().len(), 5);
}

#[test]
fn without_space_nothing_is_acknowledged_and_reads_go_on() {
    for policy in POLICIES {
        let (folder, disk, server) = failing(true, policy);
        let mut connection = server.connect();
        assert_eq!(run(&mut connection, "SET a 1"), ok());
        disk.faults.lock().space = Some(50);
        // Memory has changed but the log has not: neither success nor failure would be true.
        assert!(connection.command(&[b"SET", b"b", b"2"]).is_err());
        let mut connection = server.connect();
        assert!(is_misconf(&run(&mut connection, "SET c 3")));
        assert!(is_misconf(&run(&mut connection, "DEL a")));
        assert_eq!(
            run(&mut connection, "GET a"),
            RespReplyValue::Bulk(b"1".to_vec())
        );
        assert_eq!(run(&mut connection, "PING"), RespReplyValue::simple("PONG"));
        // The file is unchanged.
        let copy = TestkitFolder::new();
        for name in ["nearfield.manifest", "log-1.aof"] {
            fs::copy(folder.join(name), copy.join(name)).unwrap();
        }
        assert_eq!(load(&copy.0, true, Damage::Refuse).unwrap().len(), 1);
        disk.faults.lock().space = None;
        eventually("the log", || !server.server.refuses_writes());
        assert_eq!(run(&mut connection, "SET d 4"), ok());
        drop(server);
        assert_eq!(load(&folder.0, true, Damage::Refuse).unwrap().len(), 3);
    }
}

/// Commands that are served while nothing can be written.
const READS: &str = "PING|ECHO a|GET s|MGET s gone|STRLEN s|GETRANGE s 0 1|TYPE s|EXISTS s|TTL s|\
    PTTL late|OBJECT ENCODING s|OBJECT IDLETIME s|MEMORY USAGE s|DUMP s|DBSIZE|RANDOMKEY|KEYS *|\
    SCAN 0|KPREFIX s|KNEAREST s|BITCOUNT s|BITPOS s 1|GETBIT s 1|LCS s s|SUBSTR s 0 1|\
    HGETALL h|HGET h f|HMGET h f g|HKEYS h|HVALS h|HLEN h|HSCAN h 0|HRANDFIELD h|HTTL h FIELDS 1 f|\
    LRANGE l 0 -1|LLEN l|LINDEX l 0|LPOS l a|SMEMBERS m|SCARD m|SISMEMBER m a|SRANDMEMBER m|\
    SSCAN m 0|SINTER m m|SUNION m m|SDIFF m m|SINTERCARD 1 m|ZRANGE z 0 -1|ZSCORE z a|ZRANK z a|\
    ZCARD z|ZCOUNT z 0 9|ZSCAN z 0|ZUNION 1 z|GEOHASH z a|XRANGE x - +|XLEN x|XINFO STREAM x|\
    XREAD STREAMS x 0|XPENDING x g|INFO|CONFIG GET maxmemory|CLIENT LIST|CLIENT ID|COMMAND COUNT|\
    SLOWLOG GET|LATENCY LATEST|TIME|LASTSAVE|ROLE|ACL WHOAMI|PUBSUB CHANNELS|FUNCTION LIST|\
    FUNCTION DUMP|SCRIPT EXISTS a|SUBSCRIBE c|UNSUBSCRIBE c|WATCH s|UNWATCH|SORT_RO l ALPHA|\
    HGETALL over|GET over|LRANGE over 0 -1|EVAL return(redis.call('GET','s')) 0|\
    EVAL_RO return(redis.call('GET','s')) 0|MULTI|GET s|GET over2|EXEC|CLIENT UNBLOCK 1 ERROR|\
    CONFIG SET maxmemory-samples 7|PUBLISH c d|METRICS|WAIT 0 1|DEBUG OBJECT s";

#[test]
fn whatever_reads_is_answered_while_the_disk_is_full() {
    for policy in POLICIES {
        let (folder, disk) = (TestkitFolder::new(), FaultyDisk::default());
        let mut options = options(&folder.0, true, policy);
        // One thread, so that all clients share the state that a thread keeps from one command to
        // the next.
        options.threads = 1;
        options.persistence.disk = Arc::new(disk.clone());
        let server = Nearfield::start(options);
        let mut connection = server.connect();
        for line in [
            "CONFIG SET enable-debug-command yes",
            "SET s text",
            "SET late x EX 1000",
            "HSET h f v",
            "RPUSH l a",
            "SADD m a",
            "ZADD z 1 a",
            "XADD x 1-1 f v",
            "XGROUP CREATE x g 0",
            "SET over x PX 100",
            "SET over2 x PX 100",
            "SET over3 x PX 100",
            "DEBUG SET-ACTIVE-EXPIRE 0",
        ] {
            run(&mut connection, line);
        }
        let mut waiting = server.connect();
        run(&mut waiting, "CLIENT ID");
        waiting
            .send(b"*3\r\n$5\r\nBLPOP\r\n$7\r\nnothing\r\n$1\r\n0\r\n")
            .unwrap();
        disk.faults.lock().space = Some(0);
        assert!(connection.command(&[b"SET", b"b", b"2"]).is_err());
        std::thread::sleep(Duration::from_millis(110));
        let mut connection = server.connect();
        assert!(is_misconf(&run(&mut connection, "SET c 3")));
        for line in READS
            .split('|')
            .chain(["EVAL redis.call('SET','s','v') 0", "GET over3"])
        {
            let line = line.trim();
            let answer = connection.run(line);
            assert!(answer.is_ok(), "{policy:?} {line}: {answer:?}");
        }
        let RespReplyValue::Bulk(list) = run(&mut connection, "CLIENT LIST") else {
            panic!("no list of clients");
        };
        let list = String::from_utf8(list).unwrap();
        let blocked = list
            .lines()
            .find(|line| line.contains("cmd=blpop"))
            .unwrap();
        let id = blocked
            .split(' ')
            .next()
            .unwrap()
            .strip_prefix("id=")
            .unwrap();
        assert_eq!(
            run(&mut connection, &format!("CLIENT UNBLOCK {id}")),
            RespReplyValue::Integer(1)
        );
        assert_eq!(waiting.receive().unwrap(), RespReplyValue::NullArray);
        disk.faults.lock().space = None;
        eventually("the log", || !server.server.refuses_writes());
        assert_eq!(run(&mut connection, "SET d 4"), ok());
    }
}

#[test]
fn writes_in_pieces_are_whole() {
    let (folder, disk, server) = failing(true, LogSyncPolicy::Always);
    disk.faults.lock().short = Some(3);
    let mut connection = server.connect();
    assert_eq!(run(&mut connection, "SET a 1"), ok());
    assert_eq!(run(&mut connection, "SAVE"), ok());
    drop(server);
    assert_eq!(load(&folder.0, true, Damage::Refuse).unwrap().len(), 1);
}

#[test]
fn after_a_sync_that_failed_a_new_base_is_made() {
    for policy in [LogSyncPolicy::Always, LogSyncPolicy::EverySecond] {
        let (folder, disk, server) = failing(true, policy);
        let mut connection = server.connect();
        assert_eq!(run(&mut connection, "SET a 1"), ok());
        server.server.log.flush().unwrap();
        disk.faults.lock().syncs = Some(EIO);
        let told = connection.command(&[b"SET", b"b", b"2"]).is_ok();
        assert_eq!(told, policy == LogSyncPolicy::EverySecond);
        eventually("the failure", || server.server.refuses_writes());
        let mut connection = server.connect();
        assert!(is_misconf(&run(&mut connection, "SET c 3")));
        assert!(server.server.log.failure().unwrap().1);
        disk.faults.lock().syncs = None;
        eventually("a new base", || !server.server.refuses_writes());
        assert_eq!(run(&mut connection, "SET d 4"), ok());
        assert!(!folder.join("log-1.aof").exists());
        drop(server);
        assert_eq!(load(&folder.0, true, Damage::Refuse).unwrap().len(), 3);
    }
}

#[test]
fn a_file_that_cannot_be_cut_back_is_replaced() {
    let (folder, disk, server) = failing(true, LogSyncPolicy::Always);
    let mut connection = server.connect();
    assert_eq!(run(&mut connection, "SET a 1"), ok());
    {
        let mut faults = disk.faults.lock();
        faults.space = Some(50);
        faults.truncates = Some(EIO);
    }
    assert!(connection.command(&[b"SET", b"b", b"2"]).is_err());
    disk.faults.lock().space = None;
    eventually("a new base", || !server.server.refuses_writes());
    drop(server);
    assert_eq!(load(&folder.0, true, Damage::Refuse).unwrap().len(), 2);
}

#[test]
fn a_snapshot_that_fails_leaves_the_last_one() {
    let (folder, disk, server) = failing(false, LogSyncPolicy::No);
    let mut connection = server.connect();
    run(&mut connection, "SET a 1");
    assert_eq!(run(&mut connection, "SAVE"), ok());
    run(&mut connection, "SET b 2");
    for _ in 0..2 {
        disk.faults.lock().writes = Some(ENOSPC);
        assert!(matches!(
            run(&mut connection, "SAVE"),
            RespReplyValue::Error(_)
        ));
        disk.faults.lock().writes = None;
        disk.faults.lock().names = Some(EIO);
        run(&mut connection, "BGSAVE");
        let status = || server.server.persistence.status();
        eventually("the end", || {
            status().running.is_none() && status().scheduled.is_none()
        });
        assert!(!status().last_save_ok);
        disk.faults.lock().names = None;
    }
    // No save point requested it, so writes are still accepted.
    assert_eq!(run(&mut connection, "SET c 3"), ok());
    drop(server);
    assert_eq!(load(&folder.0, false, Damage::Refuse).unwrap().len(), 1);
}

#[test]
fn a_rewrite_without_a_log_saves_what_the_next_start_reads() {
    let folder = TestkitFolder::new();
    let server = Nearfield::start(options(&folder.0, false, LogSyncPolicy::No));
    let mut connection = server.connect();
    let status = || server.server.persistence.status();
    for round in 1..=2 {
        assert_eq!(run(&mut connection, &format!("SET k{round} v")), ok());
        let answer = run(&mut connection, "BGREWRITEAOF").to_string();
        assert_eq!(answer, "Background append only file rewriting started");
        eventually("the end", || status().saves == round);
        eventually("the end", || status().running.is_none());
        // A start reads the dump, whether it begins a log or not.
        for log in [false, true] {
            let loaded = load(&copy(&folder).0, log, Damage::Refuse).unwrap();
            assert_eq!(loaded.len() as u64, round);
        }
    }
    let info = run(&mut connection, "INFO persistence").to_string();
    assert!(info.contains("rdb_changes_since_last_save:0"), "{info}");
    assert!(info.contains("aof_last_bgrewrite_status:ok"), "{info}");
}

#[test]
fn a_rewrite_that_fails_anywhere_loses_nothing() {
    let expected = Mutex::new(0);
    let (folder, disk, server) = failing(true, LogSyncPolicy::Always);
    let mut connection = server.connect();
    for round in 0..20 {
        assert_eq!(run(&mut connection, &format!("SET k{round} v")), ok());
        *expected.lock() += 1;
        let attempts = server.server.persistence.status();
        {
            let mut faults = disk.faults.lock();
            match round % 4 {
                0 => faults.names = Some(EIO),
                1 => faults.space = Some(round * 10),
                2 => faults.syncs = Some(EIO),
                _ => {}
            }
        }
        run(&mut connection, "BGREWRITEAOF");
        let status = || server.server.persistence.status();
        eventually("the end", || {
            status().running.is_none() && status().scheduled != Some(SnapshotTask::Rewrite)
        });
        {
            let mut faults = disk.faults.lock();
            (faults.names, faults.space, faults.syncs) = (None, None, None);
        }
        assert_eq!(
            status().rewrites > attempts.rewrites,
            round % 4 == 3,
            "{round}"
        );
        eventually("the log", || !server.server.refuses_writes());
        let loaded = load(&copy(&folder).0, true, Damage::Refuse).unwrap();
        assert_eq!(loaded.len(), *expected.lock(), "{round}");
    }
}
