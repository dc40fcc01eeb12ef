//! Random commands, for which our server and Debian's redis-server must give the same replies.
//!
//! Each *episode* consists of some hundred commands on few keys, so that types clash. It begins on
//! empty servers and ends with reading all keys. The generated commands are described in
//! `nearfield_server_testkit::commands`; commands that our table lacks are left out. A failure is
//! shrunk to few commands and printed with its seed.
//!
//! `NEARFIELD_COMMANDS` sets the number of commands, `NEARFIELD_SEED` the seed of the first
//! episode, which is always the same otherwise: a run must not fail by chance. Without redis-server
//! the test reports that and checks nothing.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server::commands::TABLE;
use nearfield_server::config::ServerOptions;
use nearfield_server_testkit::commands::{GeneratedCommand, Generator, KEYS, LEX_KEY, Mode};
use nearfield_server_testkit::connection::{TestkitConnection, encode};
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::peer::PeerServer;
use nearfield_server_testkit::redis::RedisPeerProcess;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::saving::saving_into;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const COMMANDS: u64 = 30_000;
const EPISODE_COMMANDS: usize = 400;
const DATABASES: usize = 2;
/// Number of commands that are sent at once; their replies fit into the buffers of the sockets.
const PIPELINE: usize = 50;
/// The seed of the first episode by default.
const SEED: u64 = 1000;
const SHRINK_TIME: Duration = Duration::from_secs(30);

#[test]
fn random_commands_are_answered_as_by_redis() {
    let Some(redis) = redis(&[]) else { return };
    let folder = TestkitFolder::new();
    let ours = Nearfield::start(saving_into(&folder, 2));
    // XSETID to an id before a deleted entry is refused as in Redis 8 and Valkey 9.
    let known = |name: &[u8]| TABLE.find(name).is_some() && !name.eq_ignore_ascii_case(b"xsetid");
    let commands = number("NEARFIELD_COMMANDS").unwrap_or(COMMANDS);
    let seed = number("NEARFIELD_SEED").unwrap_or(SEED);
    let counts = compare([ours.address, redis.address], known, commands, seed);
    let counts = counts.unwrap_or_else(|failure| panic!("{failure}"));
    let _ = writeln!(std::io::stderr(), "compared {counts}");
}

#[test]
fn fields_expire_as_in_redis_8() {
    compare_with(PeerServer::Redis8, DifferentialFamily::Fields);
}

#[test]
fn streams_are_answered_as_by_redis_8() {
    compare_with(PeerServer::Redis8, DifferentialFamily::Streams);
}

/// Compares with a peer by commands that Redis 7.0 lacks, or to which it replies differently.
fn compare_with(peer: PeerServer, of: DifferentialFamily) {
    let Some(rival) = peer.start(&[]) else {
        return;
    };
    let ours = Nearfield::start(ServerOptions::default());
    let commands = number("NEARFIELD_COMMANDS").unwrap_or(COMMANDS) / 4;
    let seed = number("NEARFIELD_SEED").unwrap_or(SEED);
    let addresses = [ours.address, rival.address];
    let counts = compare_of(of, addresses, |_| true, commands, seed);
    let counts = counts.unwrap_or_else(|failure| panic!("{failure}"));
    let _ = writeln!(std::io::stderr(), "compared {counts}");
}

#[test]
fn redis_answers_the_same_twice() {
    let (Some(one), Some(other)) = (redis(&[]), redis(&[])) else {
        return;
    };
    let addresses = [one.address, other.address];
    let commands = number("NEARFIELD_COMMANDS").unwrap_or(COMMANDS) / 5;
    let seed = number("NEARFIELD_SEED").unwrap_or(1);
    if let Err(failure) = compare(addresses, |_| true, commands, seed) {
        panic!("the other server failed: {failure}");
    }
}

#[test]
fn a_difference_is_found_and_shrunk() {
    let options = ["--rename-command", "LPUSH", "MISLAID"];
    let (Some(one), Some(other)) = (redis(&options), redis(&[])) else {
        return;
    };
    let failure = compare([one.address, other.address], |_| true, 20_000, 1).unwrap_err();
    let commands = failure.lines().filter(|line| line.starts_with("> "));
    let commands: Vec<String> = commands.map(str::to_ascii_uppercase).collect();
    assert!(
        matches!(&*commands, [one] if one.starts_with("> LPUSH")),
        "{failure}"
    );
}

fn redis(options: &[&str]) -> Option<RedisPeerProcess> {
    RedisPeerProcess::start(&[&["--enable-debug-command", "yes"], options].concat())
}

/// The families from which commands are chosen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DifferentialFamily {
    /// Commands of Redis 7.0.
    All,
    /// Commands on hashes with fields that expire.
    Fields,
    /// Commands on streams, to which servers after Redis 7.0 reply differently.
    Streams,
}

/// Compares two servers by random commands. Returns their number, or the first difference.
fn compare(
    addresses: [SocketAddr; 2],
    known: fn(&[u8]) -> bool,
    commands: u64,
    first: u64,
) -> Result<String, String> {
    compare_of(DifferentialFamily::All, addresses, known, commands, first)
}

fn compare_of(
    of: DifferentialFamily,
    addresses: [SocketAddr; 2],
    known: fn(&[u8]) -> bool,
    commands: u64,
    first: u64,
) -> Result<String, String> {
    let mut families: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut compared, mut seed) = (0, first);
    while compared < commands {
        let episode = episode(of, seed, known);
        let pair = ServerPair::open(of, addresses, episode.resp3);
        if let Some(difference) = pair.run(&episode.commands) {
            let end = (difference.position + 1).min(episode.commands.len());
            let few = episode.commands[..end].to_vec();
            let few = shrink(of, addresses, episode.resp3, few);
            let difference = ServerPair::open(of, addresses, episode.resp3)
                .run(&few)
                .unwrap_or(difference);
            let shown: Vec<String> = few
                .iter()
                .map(|sent| format!("> {}", sent.shown()))
                .collect();
            return Err(format!(
                "the replies differ{}:\n{}\nours:\n{}\nredis:\n{}\nreplay with \
                 NEARFIELD_SEED={seed} NEARFIELD_COMMANDS=1",
                if episode.resp3 { " (RESP3)" } else { "" },
                shown.join("\n"),
                difference.ours,
                difference.redis,
            ));
        }
        compared += episode.commands.len() as u64;
        for sent in &episode.commands {
            *families.entry(sent.family).or_default() += 1;
        }
        seed += 1;
    }
    let counts = families
        .iter()
        .map(|(family, count)| format!("{family} {count}"));
    let counts = counts.collect::<Vec<_>>().join(", ");
    Ok(format!("{compared} commands from seed {first}: {counts}"))
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

struct Episode {
    resp3: bool,
    commands: Vec<GeneratedCommand>,
}

/// Returns the commands of an episode, with those that read everything at its end.
fn episode(of: DifferentialFamily, seed: u64, known: fn(&[u8]) -> bool) -> Episode {
    let mut random = SmallRng::seed_from_u64(seed);
    let resp3 = known(b"hello") && random.random_bool(0.3);
    let mut generator = match of {
        DifferentialFamily::All => Generator::new(random, known),
        DifferentialFamily::Fields => Generator::of_fields(random, known),
        DifferentialFamily::Streams => Generator::of_streams(random, known),
    };
    let mut commands: Vec<GeneratedCommand> = (0..EPISODE_COMMANDS)
        .map(|_| generator.next_command())
        .filter(|sent| is_answered_alike(of, sent))
        .collect();
    let mut read = |words: &[&[u8]], mode| {
        if known(words[0]) {
            commands.push(GeneratedCommand {
                words: words.iter().map(|word| word.to_vec()).collect(),
                family: "contents",
                mode,
            });
        }
    };
    // This is an error unless a transaction is open.
    read(&[b"EXEC"], Mode::Exact);
    if of == DifferentialFamily::All {
        read(&[b"DEBUG", b"DIGEST"], Mode::Exact);
    }
    for database in 0..DATABASES {
        read(&[b"SELECT", database.to_string().as_bytes()], Mode::Exact);
        read(&[b"DBSIZE"], Mode::Exact);
        read(&[b"KEYS", b"*"], Mode::Unordered);
        for key in [&b"p1"[..], b"p2", b"p3"] {
            read(&[b"PFCOUNT", key], Mode::Exact);
            read(&[b"GET", key], Mode::Exact);
        }
        let places: [&[u8]; 2] = [b"g1", b"g2"];
        for &key in KEYS.iter().chain([&LEX_KEY]).chain(&places) {
            read(&[b"TYPE", key], Mode::Exact);
            // The commands for the other types fail in the same way.
            read(&[b"GET", key], Mode::Exact);
            read(&[b"LRANGE", key, b"0", b"-1"], Mode::Exact);
            read(&[b"SMEMBERS", key], Mode::Unordered);
            read(&[b"HGETALL", key], Mode::Pairs);
            read(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"], Mode::Exact);
            read(&[b"XRANGE", key, b"-", b"+"], Mode::Exact);
            read(&[b"PEXPIRETIME", key], Mode::Near(20_000));
            if of == DifferentialFamily::Fields {
                let fields: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
                let words = [&[b"HPEXPIRETIME", key, b"FIELDS", b"4"], &fields[..]].concat();
                read(&words, Mode::Near(20_000));
            }
        }
        for key in [&b"k1"[..], b"k2", b"x1", b"x2", b"x3"] {
            let words = [&b"XINFO"[..], b"STREAM", key, b"FULL", b"COUNT", b"0"];
            read(&words, Mode::Times(20_000));
        }
    }
    Episode { resp3, commands }
}

/// Returns false for commands that Redis 7.2 refuses and 7.0 does not.
fn is_answered_alike(of: DifferentialFamily, sent: &GeneratedCommand) -> bool {
    let is = |name: &str| sent.words[0].eq_ignore_ascii_case(name.as_bytes());
    let has = |word: &str| sent.words.iter().any(|it| it == word.as_bytes());
    match of {
        // Redis 7.0 lacks `XREAD STREAMS key +`.
        DifferentialFamily::All if is("XREAD") => !has("+"),
        _ => !(is("LPOS") && has(&i64::MIN.to_string())),
    }
}

struct ReplyDifference {
    position: usize,
    ours: String,
    redis: String,
}

/// A connection to either server, both empty.
struct ServerPair {
    of: DifferentialFamily,
    ours: TestkitConnection,
    redis: TestkitConnection,
}

impl ServerPair {
    fn open(of: DifferentialFamily, [ours, redis]: [SocketAddr; 2], resp3: bool) -> ServerPair {
        let mut pair = ServerPair {
            of,
            ours: TestkitConnection::open(ours).unwrap(),
            redis: TestkitConnection::open(redis).unwrap(),
        };
        for connection in [&mut pair.ours, &mut pair.redis] {
            for words in [&[&b"FLUSHALL"[..]][..], &[b"FUNCTION", b"FLUSH"]] {
                let ok = RespReplyValue::simple("OK");
                assert_eq!(connection.command(words).unwrap(), ok);
            }
            if resp3 {
                let reply = connection.command(&[b"HELLO", b"3"]).unwrap();
                assert!(matches!(reply, RespReplyValue::Map(_)), "{reply}");
            }
        }
        pair
    }

    /// Finds the first reply that differs. No command is still being executed afterwards.
    fn run(mut self, commands: &[GeneratedCommand]) -> Option<ReplyDifference> {
        let sent = commands.iter().enumerate().flat_map(|(position, sent)| {
            let before = (self.of == DifferentialFamily::All).then(|| sent.creating_consumer());
            let all = before.into_iter().flatten().chain([sent.clone()]);
            all.map(move |sent| (position, sent))
        });
        let sent: Vec<(usize, GeneratedCommand)> = sent.collect();
        let difference = self.first_difference(&sent);
        self.ours.close();
        self.redis.close();
        difference
    }

    fn first_difference(
        &mut self,
        commands: &[(usize, GeneratedCommand)],
    ) -> Option<ReplyDifference> {
        // The comparisons of the replies to commands that are queued in a transaction.
        let mut queued: Vec<ReplyComparison> = Vec::new();
        for some in commands.chunks(PIPELINE) {
            let mut request = Vec::new();
            for (_, sent) in some {
                let words: Vec<&[u8]> = sent.words.iter().map(Vec::as_slice).collect();
                encode(&mut request, &words);
            }
            self.ours.send(&request).unwrap();
            self.redis.send(&request).unwrap();
            for &(position, ref sent) in some {
                let mut redis = self.redis.receive().expect("redis-server replies");
                let ours = match self.ours.receive() {
                    // Redis 7.0 does not report these fields, or takes their values from the
                    // command.
                    Ok(ours) if self.of == DifferentialFamily::All => {
                        redis = redis.without(&["entries-read", "lag"]);
                        ours.without(&["inactive", "active-time", "entries-read", "lag"])
                    }
                    Ok(ours) => ours,
                    Err(error) => {
                        return Some(ReplyDifference {
                            position,
                            ours: format!("({error})"),
                            redis: redis.to_string(),
                        });
                    }
                };
                let name = sent.words[0].to_ascii_uppercase();
                let comparison = ReplyComparison::of(sent);
                let same = if name == b"EXEC" {
                    same_each(&queued, &ours, &redis)
                } else {
                    comparison.same(&ours, &redis)
                };
                if !same {
                    return Some(ReplyDifference {
                        position,
                        ours: ours.to_string(),
                        redis: redis.to_string(),
                    });
                }
                match name.as_slice() {
                    b"EXEC" | b"DISCARD" | b"MULTI"
                        if !matches!(redis, RespReplyValue::Error(_)) =>
                    {
                        queued.clear();
                    }
                    _ if redis == RespReplyValue::simple("QUEUED") => queued.push(comparison),
                    _ => {}
                }
            }
        }
        None
    }
}

/// The comparison of the replies to a command.
#[derive(Clone, Copy)]
struct ReplyComparison {
    mode: Mode,
    /// True if Redis orders elements like the locale does: it compares them only up to a zero byte,
    /// and leaves equal ones in any order.
    collates: bool,
}

impl ReplyComparison {
    fn of(sent: &GeneratedCommand) -> ReplyComparison {
        let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let sorts = is(&sent.words[0], "SORT") || is(&sent.words[0], "SORT_RO");
        ReplyComparison {
            mode: sent.mode,
            collates: sorts && sent.words.iter().any(|word| is(word, "ALPHA")),
        }
    }

    fn same(self, ours: &RespReplyValue, redis: &RespReplyValue) -> bool {
        self.mode.same(ours, redis)
            || same_numbers(ours, redis)
            || self.collates && up_to_zero(ours).is_some_and(|ours| up_to_zero(redis) == Some(ours))
    }
}

/// Returns true if replies differ only in the form of large numbers: Redis 7.0 uses an exponent
/// from 10^17 on, 7.2 where that is shorter.
fn same_numbers(ours: &RespReplyValue, redis: &RespReplyValue) -> bool {
    match (ours, redis) {
        (RespReplyValue::Array(ours), RespReplyValue::Array(redis)) => {
            ours.len() == redis.len()
                && ours
                    .iter()
                    .zip(redis)
                    .all(|(ours, redis)| same_numbers(ours, redis))
        }
        (RespReplyValue::Bulk(one), RespReplyValue::Bulk(other))
        | (RespReplyValue::Double(one), RespReplyValue::Double(other)) => {
            let number = |text: &[u8]| str::from_utf8(text).ok()?.parse::<f64>().ok();
            let is_large = |number: &f64| number.abs() >= (1_u64 << 52) as f64;
            one == other
                || one.contains(&b'e') != other.contains(&b'e')
                    && number(one).filter(is_large).is_some()
                    && number(one) == number(other)
        }
        _ => ours == redis,
    }
}

#[test]
fn only_the_form_of_large_numbers_may_differ() {
    let same = |one: &str, other: &str| {
        let pair = |text: &str| {
            let text = RespReplyValue::Bulk(text.as_bytes().to_vec());
            RespReplyValue::Array(vec![RespReplyValue::Integer(1), text])
        };
        same_numbers(&pair(one), &pair(other))
    };
    assert!(same("112589990684262400", "1.125899906842624e+17"));
    assert!(same("1e+16", "10000000000000000"));
    assert!(!same("112589990684262400", "1.125899906842625e+17"));
    assert!(!same("9223372036854775807", "9223372036854775806"));
    assert!(!same("10000", "1e+4"));
    assert!(!same("10000", "x"));
}

/// Returns the elements of an array as the locale compares them.
fn up_to_zero(reply: &RespReplyValue) -> Option<Vec<&[u8]>> {
    let RespReplyValue::Array(elements) = reply else {
        return None;
    };
    let element = elements.iter().map(|element| match element {
        RespReplyValue::Bulk(bytes) => bytes.split(|&byte| byte == 0).next(),
        _ => None,
    });
    element.collect()
}

/// Compares the replies within a transaction, each in the mode of its command.
fn same_each(queued: &[ReplyComparison], ours: &RespReplyValue, redis: &RespReplyValue) -> bool {
    match (ours, redis) {
        (RespReplyValue::Array(ours), RespReplyValue::Array(redis))
            if redis.len() == queued.len() =>
        {
            let mut pairs = ours.iter().zip(redis).zip(queued);
            ours.len() == redis.len()
                && pairs.all(|((ours, redis), comparison)| comparison.same(ours, redis))
        }
        (ours, redis) => ours == redis,
    }
}

/// Removes commands that are not needed for some reply to differ.
fn shrink(
    of: DifferentialFamily,
    addresses: [SocketAddr; 2],
    resp3: bool,
    mut commands: Vec<GeneratedCommand>,
) -> Vec<GeneratedCommand> {
    let start = Instant::now();
    let mut size = commands.len().div_ceil(2);
    while size > 0 {
        let mut position = 0;
        let mut fewer = false;
        while position < commands.len() && start.elapsed() < SHRINK_TIME {
            let end = (position + size).min(commands.len());
            let rest = [&commands[..position], &commands[end..]].concat();
            match ServerPair::open(of, addresses, resp3).run(&rest) {
                Some(difference) => {
                    commands = rest;
                    commands.truncate(difference.position + 1);
                    fewer = true;
                }
                None => position = end,
            }
        }
        // Single commands are tried again as long as that helps.
        size = if size == 1 && fewer { 1 } else { size / 2 };
    }
    commands
}
