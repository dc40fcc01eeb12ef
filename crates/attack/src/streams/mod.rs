//! The byte streams that attackers send. Each is determined by the seed and its number.

mod hello;
mod lua;
mod spoil;

use crate::samples::AttackSamples;
use crate::target::{ATTACKER, ATTACKER_PASSWORD};
use crc::{CRC_64_REDIS, Crc};
use nearfield_server::command::{CommandDefinition, CommandImplementation};
use nearfield_server::commands::TABLE;
use nearfield_server_testkit::commands::Generator;
use nearfield_server_testkit::connection::encode;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use std::fmt;

/// Kind of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamKind {
    /// Commands of the generators of random tests.
    Commands,
    /// Any commands with any words.
    AnyCommand,
    /// Lines in place of arrays.
    Inline,
    /// Commands in RESP3, with tracking.
    Resp3,
    /// A client that does not log in.
    Stranger,
    /// Payloads of RESTORE.
    Payload,
    /// Libraries of functions, as text and as payloads.
    Library,
    /// Scripts.
    Script,
    /// Bytes of HyperLogLogs.
    Registers,
    /// Records of TLS.
    Hello,
    /// Commands in a session of TLS.
    Session,
    /// Many commands with long replies.
    Flood,
}

impl fmt::Display for StreamKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = serde_json::to_string(self).unwrap_or_default();
        formatter.write_str(name.trim_matches('"'))
    }
}

/// Share of each kind, in thousandths.
const WEIGHTS: &[(StreamKind, u32)] = &[
    (StreamKind::Commands, 270),
    (StreamKind::AnyCommand, 180),
    (StreamKind::Inline, 70),
    (StreamKind::Resp3, 90),
    (StreamKind::Stranger, 80),
    (StreamKind::Payload, 120),
    (StreamKind::Library, 40),
    (StreamKind::Script, 60),
    (StreamKind::Registers, 35),
    (StreamKind::Hello, 40),
    (StreamKind::Session, 5),
    (StreamKind::Flood, 10),
];

/// Listener that a connection is made to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamDoor {
    Tcp,
    Socket,
    /// The port for TLS, without speaking TLS.
    Tls,
    /// The port for TLS, in a TLS session.
    Session,
}

/// Treatment of replies by a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadingManner {
    Reads,
    /// The client reads nothing for some milliseconds, and disconnects.
    NeverReads(u16),
    /// The client disconnects when all is sent.
    Leaves,
}

/// A byte stream, and the way it is sent.
#[derive(Clone, Debug)]
pub(crate) struct ByteStream {
    pub(crate) number: u64,
    pub(crate) kind: StreamKind,
    pub(crate) door: StreamDoor,
    pub(crate) manner: ReadingManner,
    pub(crate) bytes: Vec<u8>,
    /// Length of the pieces in which it is sent.
    pub(crate) piece: usize,
}

/// The author of streams.
pub(crate) struct StreamAuthor<'s> {
    seed: u64,
    samples: &'s AttackSamples,
    generators: [Generator; 3],
    commands: Vec<&'static CommandDefinition>,
}

impl StreamAuthor<'_> {
    /// Creates an author of the streams of a seed.
    pub(crate) fn new(seed: u64, samples: &AttackSamples) -> StreamAuthor<'_> {
        let random = || SmallRng::seed_from_u64(seed);
        let known = |name: &[u8]| TABLE.find(name).is_some();
        StreamAuthor {
            seed,
            samples,
            generators: [
                Generator::new(random(), known),
                Generator::of_streams(random(), known),
                Generator::of_fields(random(), known),
            ],
            commands: TABLE.all().collect(),
        }
    }

    /// Returns the stream of a number.
    pub(crate) fn write(&mut self, number: u64) -> ByteStream {
        let random = &mut random(self.seed, number);
        let kind = kind(random);
        let mut bytes = Vec::new();
        let is_stranger = kind == StreamKind::Stranger;
        if kind == StreamKind::Resp3 {
            let words = [&b"HELLO"[..], b"3", b"AUTH", ATTACKER.as_bytes()];
            encode(
                &mut bytes,
                &[&words[..], &[ATTACKER_PASSWORD.as_bytes()]].concat(),
            );
        } else if !is_stranger && kind != StreamKind::Hello {
            let words = [b"AUTH", ATTACKER.as_bytes(), ATTACKER_PASSWORD.as_bytes()];
            encode(&mut bytes, &words);
        }
        let mut rest = match kind {
            StreamKind::Hello => hello::records(random),
            StreamKind::Inline => self.lines(random),
            StreamKind::Stranger => self.strange(random),
            StreamKind::Flood => flood(random),
            _ => {
                let commands = self.commands(kind, random);
                encoded(commands, random)
            }
        };
        if kind != StreamKind::Flood && random.random_bool(0.3) {
            spoil::bytes(&mut rest, random);
        }
        bytes.append(&mut rest);
        let door = match kind {
            StreamKind::Hello => StreamDoor::Tls,
            StreamKind::Session => StreamDoor::Session,
            _ if random.random_bool(0.5) => StreamDoor::Socket,
            _ => StreamDoor::Tcp,
        };
        let manner = match random.random_range(0..100) {
            _ if kind == StreamKind::Flood => {
                ReadingManner::NeverReads(random.random_range(20..400))
            }
            0 => ReadingManner::NeverReads(random.random_range(5..100)),
            1..=9 => ReadingManner::Leaves,
            _ => ReadingManner::Reads,
        };
        let piece = [usize::MAX, usize::MAX, 4096, 100, 7][random.random_range(0..5)];
        ByteStream {
            number,
            kind,
            door,
            manner,
            // Sending a long stream in pieces of a few bytes would take long.
            piece: piece.max(bytes.len() / 50).max(1),
            bytes,
        }
    }

    fn commands(&mut self, kind: StreamKind, random: &mut SmallRng) -> Vec<Vec<Vec<u8>>> {
        match kind {
            StreamKind::Payload => self.payload(random),
            StreamKind::Library => self.library(random),
            StreamKind::Registers => registers(random),
            StreamKind::Script => (0..random.random_range(1..4))
                .map(|_| {
                    let mut text = lua::script(random).into_bytes();
                    if random.random_bool(0.2) {
                        spoil::bytes(&mut text, random);
                    }
                    lua::call(text, random)
                })
                .collect(),
            StreamKind::AnyCommand => (0..random.random_range(1..8))
                .map(|_| self.any_command(random))
                .collect(),
            _ => {
                let mut commands = self.generated(random);
                if kind == StreamKind::Resp3 {
                    const TRACKING: &[&str] = &[
                        "CLIENT TRACKING ON",
                        "CLIENT TRACKING ON BCAST PREFIX k PREFIX {k",
                        "CLIENT TRACKING ON OPTIN NOLOOP",
                        "CLIENT TRACKING OFF",
                        "CLIENT CACHING YES",
                        "PSUBSCRIBE * k*",
                        "SUBSCRIBE k1 k2",
                        "MONITOR",
                        "CLIENT REPLY SKIP",
                    ];
                    let line = TRACKING[random.random_range(0..TRACKING.len())];
                    let at = random.random_range(0..=commands.len());
                    commands.insert(at, line.split(' ').map(|it| it.into()).collect());
                }
                commands
            }
        }
    }

    /// Returns commands of one of the generators.
    fn generated(&mut self, random: &mut SmallRng) -> Vec<Vec<Vec<u8>>> {
        let which = [0, 0, 0, 1, 2][random.random_range(0..5)];
        let generator = &mut self.generators[which];
        generator.restart(SmallRng::seed_from_u64(random.random()));
        let count = [1, 3, 10, 40][random.random_range(0..4)];
        (0..count).map(|_| generator.next_command().words).collect()
    }

    /// Returns a command of the table, with words that have a meaning in some command.
    fn any_command(&mut self, random: &mut SmallRng) -> Vec<Vec<u8>> {
        let command = self.commands[random.random_range(0..self.commands.len())];
        let mut words = vec![command.name.as_bytes().to_vec()];
        if let CommandImplementation::Container(subcommands) = command.run {
            let subcommand = &subcommands[random.random_range(0..subcommands.len())];
            words.push(subcommand.name.as_bytes().to_vec());
        }
        let least = command.arity.unsigned_abs() as usize;
        let more = match command.arity < 0 {
            true => [0, 1, 2, 5, 300][random.random_range(0..5)],
            false => 0,
        };
        while words.len() < least + more {
            words.push(match random.random_range(0..4) {
                0 => format!("k{}", random.random_range(1..7)).into_bytes(),
                _ => spoil::extreme(random).to_vec(),
            });
        }
        words
    }

    /// Returns inline commands, as typed by a person.
    fn lines(&mut self, random: &mut SmallRng) -> Vec<u8> {
        let mut bytes = Vec::new();
        for command in self.generated(random) {
            for word in command {
                match random.random_range(0..6) {
                    0 => bytes.extend(format!("{:?}", String::from_utf8_lossy(&word)).bytes()),
                    1 => bytes.extend([b"'", &word[..], b"'"].concat()),
                    _ => bytes.extend(word),
                }
                bytes.push(b' ');
            }
            bytes.extend_from_slice(if random.random() { b"\r\n" } else { b"\n" });
        }
        match random.random_range(0..12) {
            0 => bytes.extend_from_slice(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nPING\r\n"),
            1 => bytes.extend(spoil::noise(random, 70_000)),
            2 => bytes.extend(b"\"".repeat(1000)),
            _ => {}
        }
        bytes
    }

    /// Appends requests of a client that has not logged in.
    fn strange(&mut self, random: &mut SmallRng) -> Vec<u8> {
        let mut bytes = match random.random_range(0..8) {
            0 => b"PING\r\n".repeat(random.random_range(1..30_000)),
            1 => b"*1048576\r\n$16384\r\n".to_vec(),
            2 => b"*-1\r\n*0\r\n\r\n*2147483647\r\n".to_vec(),
            3 => b"HELLO 3 AUTH default wrong SETNAME x\r\n".repeat(random.random_range(1..50)),
            4 => b"*3\r\n$4\r\nAUTH\r\n$10\r\n".to_vec(),
            5 => spoil::noise(random, 500),
            6 => b"MULTI\r\nEXEC\r\nRESET\r\nQUIT\r\n".to_vec(),
            _ => Vec::new(),
        };
        let length = [0, 10, 10_000, 200_000][random.random_range(0..4)];
        bytes.extend(std::iter::repeat_n(b'x', length));
        let commands = self.generated(random);
        bytes.append(&mut encoded(commands, random));
        bytes
    }

    /// Returns commands that restore a damaged payload and use its value.
    fn payload(&mut self, random: &mut SmallRng) -> Vec<Vec<Vec<u8>>> {
        const USES: &[&str] = &[
            "TYPE r",
            "OBJECT ENCODING r",
            "DEBUG OBJECT r",
            "DEBUG DIGEST-VALUE r",
            "DUMP r",
            "MEMORY USAGE r SAMPLES 0",
            "GET r",
            "STRLEN r",
            "APPEND r x",
            "SETRANGE r 100 x",
            "BITCOUNT r",
            "PFCOUNT r",
            "PFADD r x y",
            "PFMERGE r2 r",
            "LRANGE r 0 -1",
            "LPOS r a RANK -1",
            "LREM r 0 a",
            "LINSERT r BEFORE a b",
            "RPUSH r x",
            "LPOP r 3",
            "LTRIM r 1 -2",
            "HGETALL r",
            "HSCAN r 0",
            "HSET r a b c d",
            "HEXPIRE r 100 FIELDS 1 a",
            "HPTTL r FIELDS 2 a b",
            "HDEL r a b",
            "HRANDFIELD r 5 WITHVALUES",
            "SMEMBERS r",
            "SPOP r 2",
            "SADD r 1 2 a",
            "SINTER r r",
            "SSCAN r 0",
            "ZRANGE r 0 -1 WITHSCORES",
            "ZADD r 1 a 2 b",
            "ZRANGEBYSCORE r -inf +inf",
            "ZRANK r a",
            "ZREMRANGEBYRANK r 0 1",
            "ZUNIONSTORE r2 2 r r",
            "GEOPOS r a b",
            "XRANGE r - +",
            "XREVRANGE r + - COUNT 3",
            "XINFO STREAM r FULL",
            "XINFO GROUPS r",
            "XADD r * f v",
            "XDEL r 1-1 5-1",
            "XTRIM r MAXLEN 1",
            "XREADGROUP GROUP g alice STREAMS r >",
            "XPENDING r g - + 10",
            "XAUTOCLAIM r g bob 0 0",
            "XACK r g 1-1 5-1 5-2",
            "XGROUP DELCONSUMER r g alice",
            "SORT r ALPHA",
            "COPY r r3 REPLACE",
            "RENAME r r4",
            "PERSIST r",
            "EXPIRE r 1",
            "DEL r",
        ];
        let payloads = &self.samples.payloads;
        let mut commands = Vec::new();
        for _ in 0..random.random_range(1..3) {
            let sample = &payloads[random.random_range(0..payloads.len())];
            let mut restore = vec![b"RESTORE".to_vec(), b"r".to_vec(), b"0".to_vec()];
            restore.push(damaged(sample, random));
            restore.push(b"REPLACE".to_vec());
            commands.push(restore);
            for _ in 0..random.random_range(3..10) {
                let line = USES[random.random_range(0..USES.len())];
                commands.push(line.split(' ').map(|word| word.into()).collect());
            }
        }
        commands
    }

    fn library(&mut self, random: &mut SmallRng) -> Vec<Vec<Vec<u8>>> {
        let libraries = &self.samples.libraries;
        let sample = &libraries[random.random_range(0..libraries.len())];
        let load = match random.random() {
            true => {
                let payload = damaged(sample, random);
                let policy = ["FLUSH", "REPLACE", "APPEND", "x"][random.random_range(0..4)];
                vec![
                    b"FUNCTION".to_vec(),
                    b"RESTORE".to_vec(),
                    payload,
                    policy.into(),
                ]
            }
            false => {
                let script = lua::script(random);
                let mut text = format!(
                    "#!lua name=l{}\n{script}\nredis.register_function('f', function(keys, args) \
                     {} end)",
                    random.random_range(1..4),
                    lua::script(random),
                )
                .into_bytes();
                if random.random_bool(0.3) {
                    spoil::bytes(&mut text, random);
                }
                let replace = b"REPLACE".to_vec();
                vec![b"FUNCTION".to_vec(), b"LOAD".to_vec(), replace, text]
            }
        };
        let mut commands = vec![load];
        for line in [
            "FCALL f 1 k1 v",
            "FUNCTION LIST WITHCODE",
            "FCALL g 0",
            "FUNCTION STATS",
        ] {
            if random.random() {
                commands.push(line.split(' ').map(|word| word.into()).collect());
            }
        }
        commands
    }
}

/// Returns the generator from which everything of a stream is drawn.
fn random(seed: u64, number: u64) -> SmallRng {
    // A step of an odd number keeps the numbers of a seed apart.
    SmallRng::seed_from_u64(seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

fn kind(random: &mut SmallRng) -> StreamKind {
    let total: u32 = WEIGHTS.iter().map(|(_, weight)| weight).sum();
    debug_assert_eq!(total, 1000, "the shares are thousandths");
    let mut choice = random.random_range(0..total);
    for (kind, weight) in WEIGHTS {
        match choice.checked_sub(*weight) {
            Some(rest) => choice = rest,
            None => return *kind,
        }
    }
    // The choice is less than the sum of all weights, so the loop has returned.
    StreamKind::Commands
}

/// Encodes commands, some of them damaged.
fn encoded(commands: Vec<Vec<Vec<u8>>>, random: &mut SmallRng) -> Vec<u8> {
    let spoils = [0.0, 0.1, 0.5][random.random_range(0..3)];
    let mut bytes = Vec::new();
    for mut command in commands {
        if random.random_bool(spoils) {
            spoil::words(&mut command, random);
        }
        if random.random_bool(spoils / 4.0) {
            spoil::write_lying(&mut bytes, &command, random);
        } else {
            let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
            encode(&mut bytes, &words);
        }
    }
    bytes
}

/// Trailer of `DUMP` payloads.
static CHECKSUM: Crc<u64> = Crc::<u64>::new(&CRC_64_REDIS);

/// Returns a damaged payload, mostly with a correct checksum.
fn damaged(sample: &[u8], random: &mut SmallRng) -> Vec<u8> {
    const VERSION: usize = 2;
    const CHECKSUM_BYTES: usize = 8;
    let mut payload = sample[..sample.len().saturating_sub(VERSION + CHECKSUM_BYTES)].to_vec();
    let version = &sample[payload.len()..sample.len().min(payload.len() + VERSION)];
    if random.random_bool(0.85) {
        spoil::bytes(&mut payload, random);
    }
    payload.extend(version);
    match random.random_bool(0.9) {
        true => {
            let checksum = CHECKSUM.checksum(&payload);
            payload.extend(checksum.to_le_bytes());
        }
        false => payload.extend(spoil::noise(random, CHECKSUM_BYTES)),
    }
    payload
}

/// Returns commands on strings that have the header of HyperLogLogs.
fn registers(random: &mut SmallRng) -> Vec<Vec<Vec<u8>>> {
    const DENSE_BYTES: usize = 12_288;
    let mut bytes = b"HYLL".to_vec();
    let form = [0, 1, 1, 2, 255][random.random_range(0..5)];
    bytes.extend([form, 0, 0, 0]);
    bytes.extend(spoil::noise(random, 8));
    let length = match (form, random.random_range(0..4)) {
        (0, 0..3) => DENSE_BYTES,
        (_, 0) => 3,
        (_, 1) => 100_000,
        _ => random.random_range(0..400),
    };
    let pattern = random.random::<u8>();
    bytes.extend((0..length).map(|_| match random.random_bool(0.3) {
        true => random.random(),
        false => pattern,
    }));
    let mut commands = vec![vec![b"SET".to_vec(), b"p1".to_vec(), bytes]];
    let lines = [
        "PFCOUNT p1",
        "PFADD p1 a b c",
        "PFMERGE p2 p1 p3",
        "PFCOUNT p1 p2",
        "PFDEBUG GETREG p1",
        "PFDEBUG TODENSE p1",
        "GETRANGE p1 0 20",
        "DUMP p1",
    ];
    for line in lines {
        if random.random() {
            commands.push(line.split(' ').map(|word| word.into()).collect());
        }
    }
    commands
}

/// Returns many commands with long replies.
fn flood(random: &mut SmallRng) -> Vec<u8> {
    let mut bytes = Vec::new();
    let size = [100, 20_000, 1_000_000][random.random_range(0..3)];
    let end = size.to_string();
    encode(&mut bytes, &[b"SETRANGE", b"flood", end.as_bytes(), b"x"]);
    encode(&mut bytes, &[b"SADD", b"floods", &[b'm'; 300]]);
    let lines = [
        "GET flood",
        "MGET flood flood flood flood",
        "SRANDMEMBER floods -100000",
        "LRANGE k1 0 -1",
        "COMMAND",
        "INFO everything",
        "ECHO x",
    ];
    let line = lines[random.random_range(0..lines.len())];
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    for _ in 0..random.random_range(10..3000) {
        encode(&mut bytes, &words);
    }
    bytes
}

/// Returns a damaged file. If the damage leaves the end of a snapshot, the checksum is corrected,
/// or set to the value for none.
pub(crate) fn damaged_file(sample: &[u8], seed: u64, number: u64) -> Vec<u8> {
    const CHECKSUM_BYTES: usize = 8;
    let random = &mut random(seed, number);
    let mut bytes = sample.to_vec();
    spoil::bytes(&mut bytes, random);
    if sample.starts_with(b"REDIS") && bytes.len() > CHECKSUM_BYTES && random.random_bool(0.8) {
        let body = bytes.len() - CHECKSUM_BYTES;
        let checksum = match random.random() {
            true => CHECKSUM.checksum(&bytes[..body]),
            false => 0,
        };
        bytes[body..].copy_from_slice(&checksum.to_le_bytes());
    }
    bytes
}
