//! Snapshots and payloads, exchanged with a real Redis 7 both ways.
//!
//! Without a `redis-server` of version 7 on the path, these tests report that and check nothing.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server::object::stream::StreamParts;
use nearfield_server::object::{StreamId, StreamObject};
use nearfield_server::rdb::{
    Attributes, Dialect, RdbError, RdbItem, RdbReader, RdbUnsupportedPolicy, RdbValue, RdbWriter,
    dump, restore,
};
use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::redis::RedisPeerProcess;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_tiers::AccountedHeap;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

/// A date in 2055, which keeps keys from expiring while they are compared.
const EXPIRES_MS: u64 = 2_700_000_000_123;
const LIBRARY: &str = "#!lua name=mine\nredis.register_function('f', function() return 1 end)";

/// A running server and a connection to it.
struct RdbTestRedis {
    connection: TestkitConnection,
    _process: RedisPeerProcess,
}

impl RdbTestRedis {
    /// Starts a server on the snapshot in `folder`, if there is one. Returns `None`, with the
    /// reason on the standard error, if there is no server to start.
    fn start(folder: &TestkitFolder, options: &[&str]) -> Option<Self> {
        let dir = folder.0.to_str().unwrap();
        let own = ["--enable-debug-command", "yes", "--dir", dir];
        let process = RedisPeerProcess::start(&[&own[..], options].concat())?;
        Some(Self {
            connection: TestkitConnection::open(process.address).unwrap(),
            _process: process,
        })
    }

    fn command(&mut self, words: &[&[u8]]) -> RespReplyValue {
        self.connection.command(words).unwrap()
    }

    /// Runs a command of words without spaces, which must succeed.
    fn run(&mut self, command: &str) -> RespReplyValue {
        let words: Vec<_> = command.split(' ').map(str::as_bytes).collect();
        let reply = self.command(&words);
        assert!(
            !matches!(reply, RespReplyValue::Error(_)),
            "{command}: {reply:?}"
        );
        reply
    }

    fn select(&mut self, database: u64) {
        self.run(&format!("SELECT {database}"));
    }

    /// Creates `value` by ordinary commands.
    fn put(&mut self, key: &[u8], value: &RdbValue) {
        let scores: Vec<String>;
        let (command, words): (&str, Vec<&[u8]>) = match value {
            RdbValue::String(bytes) => ("SET", vec![bytes]),
            RdbValue::List(elements) => ("RPUSH", elements.iter().map(Vec::as_slice).collect()),
            RdbValue::Set(members) => ("SADD", members.iter().map(Vec::as_slice).collect()),
            RdbValue::Hash(fields) => {
                let words = fields
                    .iter()
                    .flat_map(|(field, value)| [&field[..], &value[..]]);
                ("HSET", words.collect())
            }
            RdbValue::Stream(_) | RdbValue::TimedHash(_) => panic!("these have tests of their own"),
            RdbValue::SortedSet(members) => {
                scores = members.iter().map(|(_, score)| score.to_string()).collect();
                let words = members.iter().zip(&scores);
                let words = words.flat_map(|((member, _), score)| [score.as_bytes(), member]);
                ("ZADD", words.collect())
            }
        };
        // An even number, so that pairs stay together.
        for some in words.chunks(1000) {
            let words = [&[command.as_bytes(), key], some].concat();
            let reply = self.command(&words);
            assert!(!matches!(reply, RespReplyValue::Error(_)), "{reply:?}");
        }
    }

    fn get(&mut self, key: &[u8]) -> RdbValue {
        let RespReplyValue::Simple(kind) = self.command(&[b"TYPE", key]) else {
            panic!("TYPE fails");
        };
        match &kind[..] {
            b"string" => RdbValue::String(bytes(self.command(&[b"GET", key]))),
            b"list" => RdbValue::List(array(self.command(&[b"LRANGE", key, b"0", b"-1"]))),
            b"set" => RdbValue::Set(array(self.command(&[b"SMEMBERS", key]))),
            b"hash" => RdbValue::Hash(pairs(array(self.command(&[b"HGETALL", key])))),
            b"zset" => {
                let reply = self.command(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]);
                let members = pairs(array(reply)).into_iter();
                let members = members.map(|(member, score)| {
                    let score = String::from_utf8(score).unwrap();
                    (member, score.parse().unwrap())
                });
                RdbValue::SortedSet(members.collect())
            }
            kind => panic!("{}: {}", key.escape_ascii(), kind.escape_ascii()),
        }
    }
}

fn bytes(reply: RespReplyValue) -> Vec<u8> {
    match reply {
        RespReplyValue::Bulk(bytes) => bytes,
        other => panic!("{other} in place of a string"),
    }
}

fn array(reply: RespReplyValue) -> Vec<Vec<u8>> {
    match reply {
        RespReplyValue::Array(replies) => replies.into_iter().map(bytes).collect(),
        other => panic!("{other} in place of an array"),
    }
}

fn pairs(words: Vec<Vec<u8>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pairs = words.chunks_exact(2);
    pairs
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect()
}

/// The keys of all databases, with their values and expiry times.
type Keyspace = BTreeMap<(u64, Vec<u8>), (RdbValue, Option<u64>)>;

fn random_bytes(random: &mut impl Rng, length: usize) -> Vec<u8> {
    (0..length).map(|_| random.random()).collect()
}

/// Returns integers of all sizes, short strings, and some long ones.
fn elements(random: &mut impl Rng, count: usize) -> Vec<Vec<u8>> {
    let mut elements: Vec<_> = (0..count)
        .map(|number| match number % 5 {
            0 => number.to_string().into_bytes(),
            1 => (random.random::<i64>() >> random.random_range(0..64))
                .to_string()
                .into_bytes(),
            2 => format!("element {number}").into_bytes(),
            3 if number % 100 == 3 => vec![b'x'; 100 * number],
            3 => [b"prefix ".as_slice(), &random_bytes(random, 60)].concat(),
            _ => random_bytes(random, 8),
        })
        .collect();
    elements.sort_unstable();
    elements.dedup();
    elements
}

/// Returns values of all types, around the sizes at which Redis changes their encodings.
fn values(random: &mut impl Rng) -> Vec<RdbValue> {
    let integers = [
        "0",
        "12",
        "13",
        "63",
        "64",
        "127",
        "128",
        "-1",
        "-128",
        "-129",
        "4095",
        "-4096",
        "32767",
        "-32768",
        "32768",
        "8388607",
        "-8388608",
        "8388608",
        "2147483647",
        "-2147483648",
        "2147483648",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "-0",
        "007",
        "1.5",
        "",
    ];
    let integers: Vec<_> = integers.map(|text| text.as_bytes().to_vec()).to_vec();
    let mut values: Vec<_> = integers.iter().cloned().map(RdbValue::String).collect();
    for length in [20, 21, 63, 64, 300, 16_383, 16_384, 1_000_000] {
        values.push(RdbValue::String(vec![b'a'; length]));
        values.push(RdbValue::String(random_bytes(random, length)));
        let text = (0..length).map(|position| b"abcdefghij"[position * position % 10]);
        values.push(RdbValue::String(text.collect()));
    }
    values.extend([
        RdbValue::List(integers.clone()),
        RdbValue::Set(integers.clone()),
    ]);
    for range in [
        -100..100,
        -40_000..-39_900,
        3_000_000_000..3_000_000_100_i64,
    ] {
        let members = range.map(|member| member.to_string().into_bytes());
        values.push(RdbValue::Set(members.collect()));
    }
    for count in [1, 2, 10, 100, 127, 129, 513, 5000] {
        let elements = elements(random, count);
        let fields = elements
            .iter()
            .map(|field| (field.clone(), random_bytes(random, 10)));
        values.push(RdbValue::Hash(fields.collect()));
        let fields = elements
            .iter()
            .take(100)
            .map(|field| (field.clone(), field.clone()));
        values.push(RdbValue::Hash(fields.collect()));
        let members = elements.iter().enumerate().map(|(number, member)| {
            let score = match number % 4 {
                0 => number as f64,
                1 => random.random::<f64>() - 0.5,
                2 => 1e300 * random.random::<f64>(),
                _ => [f64::INFINITY, f64::NEG_INFINITY, -4e15, 0.0][number / 4 % 4],
            };
            (member.clone(), score)
        });
        values.push(RdbValue::SortedSet(members.collect()));
        values.push(RdbValue::Set(elements.clone()));
        values.push(RdbValue::List(elements));
    }
    values
}

fn keyspace(seed: u64) -> Keyspace {
    let random = &mut SmallRng::seed_from_u64(seed);
    let values = values(random);
    let entries = values.into_iter().enumerate().map(|(number, value)| {
        let database = [0, 3, 15][number % 3];
        let key = match number % 7 {
            0 => number.to_string(),
            1 => format!("{number}{}", "k".repeat(100)),
            _ => format!("key:{number}"),
        };
        let expires_at_ms = (number % 4 == 0).then(|| EXPIRES_MS + number as u64);
        ((database, key.into_bytes()), (value, expires_at_ms))
    });
    entries.collect()
}

/// Returns the value with unordered elements sorted by bytes.
fn sorted(mut value: RdbValue) -> RdbValue {
    match &mut value {
        RdbValue::String(_) | RdbValue::List(_) | RdbValue::Stream(_) => {}
        RdbValue::Set(members) => members.sort_unstable(),
        RdbValue::Hash(fields) => fields.sort_unstable(),
        RdbValue::TimedHash(fields) => fields.sort_unstable(),
        RdbValue::SortedSet(members) => members.sort_by(|a, b| a.0.cmp(&b.0)),
    }
    value
}

fn check_value(key: &[u8], found: RdbValue, expected: &RdbValue) {
    // Not `assert_eq`, which would print megabytes.
    let same = sorted(found) == sorted(expected.clone());
    assert!(same, "the value of {} differs", key.escape_ascii());
}

/// The properties of a key besides its value and expiry time.
type Uses = (Option<u64>, Option<u8>);

/// Reads a whole snapshot and checks its keys, all of which must be there.
fn check_snapshot(path: &Path, expected: &Keyspace) -> Vec<Uses> {
    let mut reader =
        RdbReader::new(File::open(path).unwrap(), RdbUnsupportedPolicy::Refuse).unwrap();
    let mut database = None;
    let mut resized = (0, 0);
    let mut library = None;
    let mut uses = Vec::new();
    let mut expiring = 0;
    let mut aux = BTreeMap::new();
    for item in reader.by_ref() {
        match item.unwrap() {
            RdbItem::Select(number) => database = Some(number),
            RdbItem::ResizeDb { keys, expires } => {
                resized = (resized.0 + keys, resized.1 + expires);
            }
            RdbItem::Function(code) => library = Some(code),
            RdbItem::Entry {
                key,
                value,
                expires_at_ms,
                idle_s,
                frequency,
            } => {
                let (right, expires) = &expected[&(database.unwrap(), key.clone())];
                check_value(&key, value, right);
                assert_eq!(expires_at_ms, *expires);
                expiring += u64::from(expires.is_some());
                uses.push((idle_s, frequency));
            }
            RdbItem::Aux(key, value) => {
                aux.insert(key, value);
            }
            _ => {}
        }
    }
    assert_eq!(uses.len(), expected.len());
    assert_eq!(resized, (expected.len() as u64, expiring));
    assert_eq!(library.as_deref(), Some(LIBRARY.as_bytes()));
    assert!(aux[b"redis-ver".as_slice()].starts_with(b"7."));
    assert_eq!(aux[b"redis-bits".as_slice()], b"64");
    assert_eq!(reader.offset(), fs::metadata(path).unwrap().len());
    uses
}

fn fill(redis: &mut RdbTestRedis, keyspace: &Keyspace) {
    for ((database, key), (value, expires_at_ms)) in keyspace {
        redis.select(*database);
        redis.put(key, value);
        if let Some(time_ms) = expires_at_ms {
            let time_ms = time_ms.to_string();
            let reply = redis.command(&[b"PEXPIREAT", key, time_ms.as_bytes()]);
            assert_eq!(reply, RespReplyValue::Integer(1));
        }
    }
}

#[test]
fn snapshots_of_redis_are_read() {
    let folder = TestkitFolder::new();
    let Some(mut redis) = RdbTestRedis::start(&folder, &[]) else {
        return;
    };
    // Elements of 2,000 bytes and more become nodes of their own, like those of 1 GiB usually do.
    redis.run("DEBUG QUICKLIST-PACKED-THRESHOLD 2000b");
    redis.command(&[b"FUNCTION", b"LOAD", LIBRARY.as_bytes()]);
    let keyspace = keyspace(1);
    fill(&mut redis, &keyspace);
    let mut forms = String::new();
    for (database, key) in keyspace.keys() {
        redis.select(*database);
        let form = bytes(redis.command(&[b"OBJECT", b"ENCODING", key]));
        forms.push_str(&format!("{} ", form.escape_ascii()));
    }
    for form in [
        "int",
        "raw",
        "quicklist",
        "intset",
        "hashtable",
        "listpack",
        "skiplist",
    ] {
        assert!(forms.contains(&format!("{form} ")), "no key is a {form}");
    }
    type Check = fn(&Uses) -> bool;
    let settings: [(&str, Check); 5] = [
        ("maxmemory-policy allkeys-lfu", |uses| {
            matches!(uses, (None, Some(_)))
        }),
        ("maxmemory-policy allkeys-lru", |uses| {
            matches!(uses, (Some(_), None))
        }),
        ("maxmemory-policy noeviction", |uses| *uses == (None, None)),
        ("rdbcompression no", |uses| *uses == (None, None)),
        ("list-max-listpack-size 20", |uses| *uses == (None, None)),
    ];
    for (setting, check) in settings {
        redis.run(&format!("CONFIG SET {setting}"));
        redis.run("SAVE");
        let uses = check_snapshot(&folder.join("dump.rdb"), &keyspace);
        assert!(uses.iter().all(check), "{setting}: {uses:?}");
    }
}

#[test]
fn a_snapshot_without_a_checksum_is_read() {
    let folder = TestkitFolder::new();
    let Some(mut redis) = RdbTestRedis::start(&folder, &["--rdbchecksum", "no"]) else {
        return;
    };
    redis.run("SET key value");
    redis.run("SAVE");
    let file = fs::read(folder.join("dump.rdb")).unwrap();
    assert!(file.ends_with(&[0; 8]));
    let items = RdbReader::new(file.as_slice(), RdbUnsupportedPolicy::Refuse).unwrap();
    let last = items.last().unwrap().unwrap();
    assert_eq!(last, RdbItem::End);
}

#[test]
fn streams_of_redis_are_read() {
    let folder = TestkitFolder::new();
    let Some(mut redis) = RdbTestRedis::start(&folder, &[]) else {
        return;
    };
    for entry in 0..500 {
        redis.run(&format!("XADD stream * field {entry} other value"));
    }
    redis.run("XDEL stream 1-1");
    for group in ["one", "two"] {
        redis.run(&format!("XGROUP CREATE stream {group} 0"));
        for consumer in ["c", "d"] {
            redis.run(&format!(
                "XREADGROUP GROUP {group} {consumer} COUNT 70 STREAMS stream >"
            ));
        }
    }
    // Not from the beginning, so that the number of entries read is unknown.
    redis.run("XGROUP CREATE stream three 5-5");
    for key in 0..100 {
        redis.run(&format!("SET key:{key} value:{key}"));
    }
    redis.run("SAVE");
    let file = fs::read(folder.join("dump.rdb")).unwrap();
    let reader = RdbReader::new(file.as_slice(), RdbUnsupportedPolicy::Refuse).unwrap();
    let streams = reader.filter_map(|item| match item.unwrap() {
        RdbItem::Entry {
            value: RdbValue::Stream(parts),
            ..
        } => Some(parts),
        _ => None,
    });
    let [parts] = &streams.collect::<Vec<_>>()[..] else {
        panic!("one stream was written");
    };
    assert_eq!((parts.len, parts.entries_added), (500, 500));
    assert_eq!(parts.nodes.len(), 5);
    let pending = parts.groups.iter().map(|group| group.pending.len());
    assert_eq!(pending.collect::<Vec<_>>(), [140, 0, 140]);
    let read = parts.groups.iter().map(|group| group.entries_read);
    assert_eq!(read.collect::<Vec<_>>(), [Some(140), None, Some(140)]);
}

#[test]
fn streams_whose_counters_do_not_fit_their_entries_are_read() {
    let folder = TestkitFolder::new();
    let Some(mut redis) = RdbTestRedis::start(&folder, &[]) else {
        return;
    };
    // Redis 7.0 allows the last identifier to be before a deleted one, and gives that one out
    // again.
    for command in [
        "XADD x 1-1 a 1",
        "XADD x 1-3 b 2",
        "XDEL x 1-3",
        "XSETID x 1-2",
    ] {
        redis.run(command);
    }
    let id = |seq| StreamId { ms: 1, seq };
    let read = |payload: &[u8]| match restore(payload).unwrap() {
        RdbValue::Stream(parts) => {
            let stream = StreamObject::of_parts(&parts, &AccountedHeap::new()).unwrap();
            stream.check_invariants();
            (parts, stream)
        }
        other => panic!("{other:?} is not a stream"),
    };
    let (parts, stream) = read(&bytes(redis.run("DUMP x")));
    assert_eq!((parts.len, parts.last_id), (1, id(2)));
    assert_eq!((stream.len(), stream.last_id()), (1, id(2)));
    redis.run("XADD x 1-3 c 3");
    let payload = bytes(redis.run("DUMP x"));
    let (parts, mut stream) = read(&payload);
    assert_eq!((parts.len, parts.last_id), (2, id(3)));
    assert!(stream.delete(id(3)) && !stream.delete(id(3)));
    assert_eq!(stream.len(), 1);
    // Other programs have written wrong numbers of entries, and last identifiers that are before
    // the last entry.
    for (len, last_id) in [(120, id(3)), (0, id(3)), (2, id(0)), (u64::MAX, id(2))] {
        let said = StreamParts {
            len,
            last_id,
            ..(*parts).clone()
        };
        let payload = dump(&RdbValue::Stream(Box::new(said)), Dialect::Redis);
        let (parts, stream) = read(&payload);
        assert_eq!((parts.len, parts.last_id), (2, id(3)));
        assert_eq!((stream.len(), stream.last_id()), (2, id(3)));
    }
}

/// Writes `keyspace` as a server would.
fn write_snapshot(path: &Path, keyspace: &Keyspace) -> Result<(), RdbError> {
    let mut writer = RdbWriter::new(File::create(path).unwrap())?;
    writer.aux(b"redis-ver", b"7.0.15")?;
    writer.aux(b"redis-bits", b"64")?;
    writer.aux(b"ctime", b"1700000000")?;
    writer.aux(b"used-mem", b"1000000")?;
    writer.function(LIBRARY.as_bytes())?;
    for database in [0, 3, 15] {
        let keys = keyspace.range((database, vec![])..(database + 1, vec![]));
        writer.select(database)?;
        let expires = keys.clone().filter(|(_, (_, expires))| expires.is_some());
        writer.resize(keys.clone().count() as u64, expires.count() as u64)?;
        for ((_, key), (value, expires_at_ms)) in keys {
            let attributes = Attributes {
                expires_at_ms: *expires_at_ms,
                idle_s: Some(5000),
                frequency: Some(77),
            };
            write_entry(&mut writer, key, value, attributes)?;
        }
    }
    writer.finish()?;
    Ok(())
}

fn write_entry(
    writer: &mut RdbWriter<File>,
    key: &[u8],
    value: &RdbValue,
    attributes: Attributes,
) -> Result<(), RdbError> {
    let RdbValue::SortedSet(members) = value else {
        return writer.entry(key, value, attributes);
    };
    writer.begin_sorted_set(key, members.len() as u64, attributes)?;
    for (member, score) in members {
        writer.element(member)?;
        writer.score(*score)?;
    }
    Ok(())
}

#[test]
fn redis_loads_what_is_written() {
    let keyspace = keyspace(2);
    for (policy, used, expected) in [
        ("allkeys-lfu", "FREQ", 77..=77),
        ("allkeys-lru", "IDLETIME", 5000..=5300),
    ] {
        let folder = TestkitFolder::new();
        write_snapshot(&folder.join("dump.rdb"), &keyspace).unwrap();
        let options = ["--maxmemory-policy", policy, "--lfu-decay-time", "0"];
        let Some(mut redis) = RdbTestRedis::start(&folder, &options) else {
            return;
        };
        for ((database, key), (value, expires_at_ms)) in &keyspace {
            redis.select(*database);
            // Before any other command uses the key.
            let reply = redis.command(&[b"OBJECT", used.as_bytes(), key]);
            assert!(
                matches!(&reply, RespReplyValue::Integer(n) if expected.contains(n)),
                "{reply:?}"
            );
            check_value(key, redis.get(key), value);
            let expires = redis.command(&[b"PEXPIRETIME", key]);
            let right = expires_at_ms.map_or(-1, |time_ms| time_ms as i64);
            assert_eq!(expires, RespReplyValue::Integer(right));
        }
        for database in [0, 3, 15] {
            redis.select(database);
            let count = keyspace
                .keys()
                .filter(|(number, _)| *number == database)
                .count();
            assert_eq!(redis.run("DBSIZE"), RespReplyValue::Integer(count as i64));
        }
        assert_eq!(redis.run("FCALL f 0"), RespReplyValue::Integer(1));
    }
}

#[test]
fn payloads_go_both_ways() {
    let folder = TestkitFolder::new();
    let Some(mut redis) = RdbTestRedis::start(&folder, &[]) else {
        return;
    };
    redis.run("DEBUG QUICKLIST-PACKED-THRESHOLD 2000b");
    for ((_, key), (value, _)) in &keyspace(3) {
        redis.put(key, value);
        let payload = bytes(redis.command(&[b"DUMP", key]));
        check_value(key, restore(&payload).unwrap(), value);
        let reply = redis.command(&[
            b"RESTORE",
            b"ours",
            b"0",
            &dump(value, Dialect::Redis),
            b"REPLACE",
        ]);
        assert_eq!(
            reply,
            RespReplyValue::simple("OK"),
            "{}",
            key.escape_ascii()
        );
        check_value(key, redis.get(b"ours"), value);
    }
}

/// Entries of listpacks are followed by their length, in as many bytes as it takes.
#[test]
fn entries_of_listpacks_are_as_long_as_redis_says() {
    let folder = TestkitFolder::new();
    let Some(mut redis) = RdbTestRedis::start(&folder, &[]) else {
        return;
    };
    redis.run("CONFIG SET hash-max-listpack-value 10000000");
    for limit in [1 << 7, 1 << 12, 1 << 14, 1 << 21] {
        for length in limit - 10..limit + 3 {
            let value = RdbValue::Hash(vec![(vec![b'f'; length], b"1".to_vec())]);
            redis.run("DEL hash");
            redis.put(b"hash", &value);
            assert_eq!(bytes(redis.run("OBJECT ENCODING hash")), b"listpack");
            let payload = bytes(redis.run("DUMP hash"));
            let restored = restore(&payload).unwrap_or_else(|error| panic!("{length}: {error}"));
            check_value(b"hash", restored, &value);
        }
    }
}

#[test]
fn payloads_are_refused_alike() {
    let folder = TestkitFolder::new();
    let Some(mut redis) = RdbTestRedis::start(&folder, &[]) else {
        return;
    };
    let whole = dump(
        &RdbValue::List(vec![b"a".to_vec(), b"b".to_vec()]),
        Dialect::Redis,
    );
    let footer = whole.len() - 10;
    let unsummed = [&whole[..footer + 2], &[0; 8]].concat();
    let mut newer = whole.clone();
    newer[footer] = 99;
    let mut flipped = whole.clone();
    flipped[2] ^= 1;
    for wrong in [
        &unsummed,
        &newer,
        &flipped,
        &whole[1..].to_vec(),
        &whole[..9].to_vec(),
    ] {
        assert!(restore(wrong).is_err());
        let reply = redis.command(&[b"RESTORE", b"key", b"0", wrong]);
        assert!(matches!(reply, RespReplyValue::Error(_)), "{reply:?}");
    }
    // No container of a key is empty.
    let empty = dump(&RdbValue::Set(vec![]), Dialect::Redis);
    assert!(matches!(
        restore(&empty),
        Err(RdbError::EmptyContainer { .. })
    ));
    let reply = redis.command(&[b"RESTORE", b"key", b"0", &empty]);
    assert_eq!(
        reply,
        RespReplyValue::Error(b"ERR Bad data format".to_vec())
    );
}
