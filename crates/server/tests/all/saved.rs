//! Everything that commands accept can be saved and loaded again: after each command of a random
//! history another server loads a snapshot, and `RESTORE` accepts the `DUMP` of each key.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server::config::ServerOptions;
use nearfield_server::disk::RealPersistenceDisk;
use nearfield_server::keyspace::{Keyspace, snapshot};
use nearfield_server::persistence::load::KeyspaceLoader;
use nearfield_server::server::ServerCore;
use nearfield_server_testkit::commands::Generator;
use nearfield_server_testkit::connection::{PATIENCE, TestkitConnection};
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::{Nearfield, UnservedServer};
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::state::{State, state};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::time::{Duration, Instant};

/// The database into which keys are restored.
const ASIDE: usize = 9;

/// Commands at the limits of accepted values. `_` is an empty word, `M` the greatest half of an
/// identifier, `L` a long word.
const EDGES: &str = "SET _ _|HSET _ _ _|HSET h f _|ZADD z inf a -inf b|ZADD z -0 c 1e-320 d|\
    ZADD z 1.7976931348623157e308 a|ZINCRBY z -inf c|PEXPIREAT s 9223372036854775807|SET s v|\
    PEXPIREAT s 1|SETBIT s 9000 1|SETRANGE s 70000 x|APPEND s L|LPUSH l _ L|RPUSH l 007 -0 +1|\
    LSET l 0 _|SADD m _ L 9223372036854775807 -9223372036854775808|SADD n 1 2 3|SADD n x|\
    HPEXPIREAT h 1 FIELDS 1 f|HPEXPIREAT h 70368744177663 FIELDS 1 f|HSET h L L|\
    HEXPIRE h 1 FIELDS 1 L|\
    HPEXPIRE h 1 FIELDS 2 f _|XADD x 1-1 a 1|XADD x 1-3 b 1|XDEL x 1-3|XSETID x 1-2|\
    XSETID x 1-3 MAXDELETEDID 0-1|XSETID x 1-2|XADD x 1-3 c 3|XDEL x 1-3|XTRIM x MINID 1-3|\
    XADD x 2-1 a 1|XDEL x 2-1|XSETID x 2-3 ENTRIESADDED 0|\
    XADD x M-M _ _|XADD x M-* f v|XSETID x M-M ENTRIESADDED 9223372036854775807|XTRIM x MAXLEN 0|\
    XSETID x 0-0|XSETID x 5-0 MAXDELETEDID 5-0|XADD y 0-1 _ _|XADD y * L L|XDEL y 0-1|DEL x|\
    XGROUP CREATE x _ 0 MKSTREAM|XGROUP CREATE x g M-M ENTRIESREAD 9223372036854775807|\
    XGROUP SETID x g 0 ENTRIESREAD -1|XGROUP SETID x _ 7-7 ENTRIESREAD 0|XGROUP CREATE y g 0|\
    XREADGROUP GROUP g _ STREAMS x >|XREADGROUP GROUP g c NOACK STREAMS y >|XADD y * f v|\
    XREADGROUP GROUP g c STREAMS y >|XCLAIM y g _ 0 0-1 FORCE RETRYCOUNT 9223372036854775807|\
    XCLAIM y g c 0 0-1 FORCE TIME 9223372036854775807|XCLAIM y g c 0 0-1 IDLE 9223372036854775807|\
    XCLAIM y g d 0 0-1 JUSTID LASTID M-M|XGROUP DELCONSUMER y g c|XGROUP CREATECONSUMER x g c|\
    XAUTOCLAIM y g e 0 - COUNT 1|PFADD p a b c|PFCOUNT p|PFMERGE q p|\
    GEOADD geo 180 85 a -180 -85 b|\
    CONFIG SET hash-max-listpack-entries 0|CONFIG SET set-max-intset-entries 0|\
    CONFIG SET list-max-listpack-size 1|DEL h|DEL z|DEL m|\
    CONFIG SET hash-max-listpack-entries 128|CONFIG SET list-max-listpack-size -2|\
    CONFIG SET stream-node-max-entries 2|CONFIG SET stream-node-max-bytes 1|RENAME x _|COPY y x|\
    FUNCTION FLUSH|SORT l ALPHA STORE t|INCRBYFLOAT i 1e15|INCRBY j 9223372036854775807|MOVE s 3";

/// Returns one of [`EDGES`].
fn edge(number: usize) -> Vec<Vec<u8>> {
    let edges: Vec<&str> = EDGES.split('|').collect();
    let line = edges[number % edges.len()];
    let word = |word: &str| match word {
        "_" => String::new(),
        "L" => "long ".repeat(2000),
        other => other.replace('M', "18446744073709551615"),
    };
    let name = line.split(' ').next().unwrap();
    let first = [name.as_bytes().to_vec()].into_iter();
    let rest = line.split(' ').skip(1).map(|text| match text.len() {
        1..=4 if text.starts_with(['_', 'L', 'M']) => word(text).into_bytes(),
        _ => text.as_bytes().to_vec(),
    });
    first.chain(rest).collect()
}

/// Saves the keyspace and loads it into another server. Returns the saved state.
fn reload(server: &ServerCore, other: &ServerCore, folder: &TestkitFolder) -> State {
    let path = folder.join("saved.rdb");
    let began = Instant::now();
    loop {
        let before = state(&server.keyspace);
        {
            let databases = server.keyspace.exclude();
            let codes = server.functions.codes();
            let keyspace: &Keyspace = &server.keyspace;
            snapshot::take_exclusively(keyspace, &databases, &codes, &RealPersistenceDisk, &path)
                .unwrap();
        }
        let mut databases = other.keyspace.exclude();
        databases
            .iter_mut()
            .for_each(|database| drop(database.replace()));
        other.functions.flush();
        let mut loader =
            KeyspaceLoader::new(other, &mut databases, nearfield_server::commands::repeat);
        let loaded = loader.snapshot(&path, None);
        drop(databases);
        assert!(loaded.is_ok(), "{loaded:?} of {before:#?}");
        assert_eq!(other.functions.codes(), server.functions.codes());
        let after = state(&other.keyspace);
        if before == after {
            return before;
        }
        // A key or field may have expired meanwhile. An expired field is saved until it is removed.
        assert!(began.elapsed() < PATIENCE, "{before:#?} became {after:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Restores each key of `keys` from its `DUMP`, in another database.
fn restore<'k>(
    server: &Nearfield,
    connection: &mut TestkitConnection,
    keys: impl Iterator<Item = &'k (usize, Vec<u8>)>,
) {
    for (database, key) in keys {
        let mut tell = |words: &[&[u8]]| connection.command(words).unwrap();
        tell(&[b"SELECT", database.to_string().as_bytes()]);
        let RespReplyValue::Bulk(payload) = tell(&[b"DUMP", key]) else {
            continue;
        };
        tell(&[b"SELECT", ASIDE.to_string().as_bytes()]);
        let restored = tell(&[b"RESTORE", key, b"0", &payload, b"REPLACE"]);
        let shown = payload.escape_ascii();
        assert_eq!(restored, RespReplyValue::simple("OK"), "{shown}");
        let all = state(&server.server.keyspace);
        let (from, to) = (
            all.get(&(*database, key.clone())),
            all.get(&(ASIDE, key.clone())),
        );
        if let (Some(from), Some(to)) = (from, to) {
            assert_eq!(from.0, to.0, "{shown}");
        }
        tell(&[b"FLUSHDB"]);
    }
}

#[test]
fn what_a_command_accepts_can_be_saved_and_loaded() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let commands = number("NEARFIELD_COMMANDS").unwrap_or(600) as usize / 4;
    let seed = number("NEARFIELD_SEED").unwrap_or(1);
    let known = |_: &[u8]| true;
    let folder = TestkitFolder::new();
    for form in 0..4 {
        let mut random = SmallRng::seed_from_u64(seed + form);
        let fork = SmallRng::seed_from_u64(random.random());
        let mut generator = match form {
            0 | 1 => Generator::new(fork, known),
            2 => Generator::of_streams(fork, known),
            _ => Generator::of_fields(fork, known),
        };
        let server = Nearfield::start(ServerOptions::default());
        let (mut connection, mut aside) = (server.connect(), server.connect());
        let other = UnservedServer::new(ServerOptions::default());
        let mut before = State::new();
        let mut history = Vec::new();
        for number in 0..commands {
            let words = match form {
                // All edges, in their order.
                1 => edge(number),
                _ if random.random_bool(0.2) => edge(random.random_range(0..usize::MAX)),
                _ => generator.next_command().words,
            };
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let shown = words.join(&b' ').escape_ascii().to_string();
            history.push(format!("{shown:.200}"));
            let ends = [
                &b"quit"[..],
                b"shutdown",
                b"debug",
                b"reset",
                b"monitor",
                b"subscribe",
            ];
            if ends.contains(&&*words[0].to_ascii_lowercase()) {
                continue;
            }
            connection.command(&words).unwrap();
            let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let saved = reload(&server.server, &other, &folder);
                let changed = saved
                    .iter()
                    .filter(|&(key, value)| before.get(key) != Some(value));
                restore(&server, &mut aside, changed.map(|(key, _)| key));
                saved
            }));
            let Ok(saved) = told else {
                panic!("seed {seed}, form {form}, after:\n{}", history.join("\n"));
            };
            before = saved;
        }
        assert!(!before.is_empty());
    }
}
