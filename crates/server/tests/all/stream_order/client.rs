//! A client that sends random commands on streams, and notes the effects of each.

use super::model::{Asked, Did, Done, Entry, Id, STREAMS};
use nearfield_server_testkit::connection::{Connection, encode};
use nearfield_server_testkit::reply::Value;
use nearfield_testkit::history::{Interval, Recorder};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};

/// Timeout of blocking reads, in milliseconds.
const BLOCK_MS: &str = "3";

#[derive(Clone, Debug)]
enum Command {
    Add {
        asked: Asked,
        value: i64,
        keep: Option<usize>,
    },
    Range(Id, usize),
    /// A read of one stream; the last field is true if it waits for an entry.
    Read(Id, usize, bool),
    /// A read of all streams at once.
    ReadAll(Id, usize),
    Newest,
    Length,
    Delete(Vec<Id>),
    Trim(usize),
    Deliver(usize, bool),
    Acknowledge(Vec<Id>),
}

pub struct Client<'r> {
    number: u32,
    random: SmallRng,
    connection: Connection,
    recorder: &'r Recorder,
    /// The source of values that differ.
    values: &'r AtomicI64,
    /// The ids that it has seen, and that it may delete or acknowledge.
    seen: [Vec<Id>; STREAMS],
    done: Vec<Done>,
}

pub fn key(stream: usize) -> Vec<u8> {
    format!("s{stream}").into_bytes()
}

fn text((ms, number): Id) -> String {
    format!("{ms}-{number}")
}

impl Command {
    fn append_to(&self, request: &mut Vec<u8>, stream: usize, client: u32) {
        let key = format!("s{stream}");
        let line = match self {
            Command::Add { asked, value, keep } => {
                let keep = keep.map_or(String::new(), |keep| format!("MAXLEN = {keep} "));
                let id = match asked {
                    Asked::Next => "*".to_owned(),
                    Asked::NextOf(ms) => format!("{ms}-*"),
                    Asked::Id(id) => text(*id),
                };
                format!("XADD {key} {keep}{id} v {value}")
            }
            Command::Range(after, count) => {
                format!("XRANGE {key} ({} + COUNT {count}", text(*after))
            }
            Command::Read(after, count, blocks) => {
                let block = blocks
                    .then(|| format!("BLOCK {BLOCK_MS} "))
                    .unwrap_or_default();
                let after = text(*after);
                format!("XREAD {block}COUNT {count} STREAMS {key} {after}")
            }
            Command::ReadAll(after, count) => {
                let after = text(*after);
                format!("XREAD COUNT {count} STREAMS s0 s1 {after} {after}")
            }
            Command::Newest => format!("XREVRANGE {key} + - COUNT 1"),
            Command::Length => format!("XLEN {key}"),
            Command::Delete(ids) => format!("XDEL {key} {}", texts(ids)),
            Command::Trim(keep) => format!("XTRIM {key} MAXLEN = {keep}"),
            Command::Deliver(count, blocks) => {
                let block = blocks
                    .then(|| format!("BLOCK {BLOCK_MS} "))
                    .unwrap_or_default();
                format!("XREADGROUP GROUP g c{client} COUNT {count} {block}STREAMS {key} >")
            }
            Command::Acknowledge(ids) => format!("XACK {key} g {}", texts(ids)),
        };
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        encode(request, &words);
    }

    /// Returns the effects on streams.
    fn did(&self, stream: usize, reply: &Value) -> Vec<(usize, Did)> {
        let did = match (self.clone(), reply) {
            (Command::Add { asked, value, keep }, reply) => Did::Added {
                asked,
                value,
                keep,
                id: match reply {
                    Value::Bulk(id) => Some(parse(id)),
                    Value::Error(why) if why.starts_with(b"ERR The ID specified in XADD is") => {
                        None
                    }
                    other => panic!("{self:?} is answered {other}"),
                },
            },
            (Command::Range(after, count), reply) => Did::Listed {
                after,
                count,
                found: entries(reply),
            },
            (Command::Read(after, count, _) | Command::ReadAll(after, count), reply) => {
                let streams = match self {
                    Command::ReadAll(..) => 0..STREAMS,
                    _ => stream..stream + 1,
                };
                let listed = |stream| Did::Listed {
                    after,
                    count,
                    found: entries_of(stream, reply),
                };
                return streams.map(|stream| (stream, listed(stream))).collect();
            }
            (Command::Newest, reply) => Did::Newest(entries(reply).first().copied()),
            (Command::Length, &Value::Integer(length)) => Did::Measured(length),
            (Command::Delete(ids), &Value::Integer(count)) => Did::Deleted(ids, count),
            (Command::Trim(keep), &Value::Integer(count)) => Did::Trimmed(keep, count),
            (Command::Deliver(count, _), reply) => Did::Delivered {
                count,
                found: entries_of(stream, reply),
            },
            (Command::Acknowledge(ids), &Value::Integer(count)) => Did::Acknowledged(ids, count),
            (command, reply) => panic!("{command:?} is answered {reply}"),
        };
        vec![(stream, did)]
    }
}

fn texts(ids: &[Id]) -> String {
    let texts: Vec<String> = ids.iter().map(|&id| text(id)).collect();
    texts.join(" ")
}

fn parse(id: &[u8]) -> Id {
    let (ms, number) = std::str::from_utf8(id).unwrap().split_once('-').unwrap();
    (ms.parse().unwrap(), number.parse().unwrap())
}

fn entries(reply: &Value) -> Vec<Entry> {
    let Value::Array(entries) = reply else {
        panic!("no entries: {reply}");
    };
    let entry = |entry: &Value| match entry {
        Value::Array(parts) => match &parts[..] {
            [Value::Bulk(id), Value::Array(fields)] => match &fields[..] {
                [Value::Bulk(field), Value::Bulk(value)] if field == b"v" => (
                    parse(id),
                    std::str::from_utf8(value).unwrap().parse().unwrap(),
                ),
                other => panic!("no fields of ours: {other:?}"),
            },
            other => panic!("no entry: {other:?}"),
        },
        other => panic!("no entry: {other}"),
    };
    entries.iter().map(entry).collect()
}

/// Returns the entries of one stream in a reply that names the streams which have some.
fn entries_of(stream: usize, reply: &Value) -> Vec<Entry> {
    let streams = match reply {
        Value::NullArray => return Vec::new(),
        Value::Array(streams) => streams,
        other => panic!("no streams: {other}"),
    };
    let own = streams.iter().find_map(|pair| match pair {
        Value::Array(pair) if pair[0] == Value::Bulk(key(stream)) => Some(&pair[1]),
        _ => None,
    });
    own.map(entries).unwrap_or_default()
}

impl<'r> Client<'r> {
    pub fn new(
        number: u32,
        seed: u64,
        address: SocketAddr,
        recorder: &'r Recorder,
        values: &'r AtomicI64,
    ) -> Client<'r> {
        Client {
            number,
            random: SmallRng::seed_from_u64(seed),
            connection: Connection::open(address).unwrap(),
            recorder,
            values,
            seen: Default::default(),
            done: Vec::new(),
        }
    }

    pub fn run(mut self, turns: usize) -> Vec<Done> {
        for _ in 0..turns {
            match self.random.random_bool(0.7) {
                true => self.pipeline(),
                false => self.transaction(),
            }
        }
        self.done
    }

    /// Returns one of the ids that it has seen last.
    fn id(&mut self, stream: usize) -> Id {
        let seen = &self.seen[stream];
        let back = self.random.random_range(0..8).min(seen.len());
        seen.iter().rev().nth(back).copied().unwrap_or_default()
    }

    fn ids(&mut self, stream: usize) -> Vec<Id> {
        let mut ids: Vec<Id> = (0..3).map(|_| self.id(stream)).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    fn command(&mut self) -> (usize, Command) {
        let stream = self.random.random_range(0..STREAMS);
        let newest = self.seen[stream].iter().max().copied().unwrap_or_default();
        let count = self.random.random_range(1..5);
        let blocks = self.random.random_bool(0.3);
        let command = match self.random.random_range(0..20) {
            0..7 => Command::Add {
                asked: match self.random.random_range(0..4) {
                    0 => Asked::NextOf(newest.0 + self.random.random_range(0..2)),
                    1 => Asked::Id((newest.0, newest.1 + self.random.random_range(1..3))),
                    _ => Asked::Next,
                },
                value: self.values.fetch_add(1, Ordering::Relaxed),
                keep: self.random.random_bool(0.2).then_some(count + 4),
            },
            7 => Command::Range(self.id(stream), count),
            8..10 => Command::Read(self.id(stream), count, blocks),
            10 => Command::ReadAll(self.id(stream), count),
            11 => Command::Newest,
            12 => Command::Length,
            13 => Command::Delete(self.ids(stream)),
            14 => Command::Trim(count + 2),
            15..18 => Command::Deliver(count, blocks),
            _ => Command::Acknowledge(self.ids(stream)),
        };
        (stream, command)
    }

    fn commands(&mut self) -> Vec<(usize, Command)> {
        let count = self.random.random_range(1..=3);
        (0..count).map(|_| self.command()).collect()
    }

    /// Sends requests at once and reads `replies` replies.
    fn exchange(&mut self, request: &[u8], replies: usize) -> (Interval, Vec<Value>) {
        let connection = &mut self.connection;
        self.recorder
            .call(|| connection.exchange(request, replies).unwrap())
    }

    fn pipeline(&mut self) {
        let commands = self.commands();
        let mut request = Vec::new();
        for (stream, command) in &commands {
            command.append_to(&mut request, *stream, self.number);
        }
        let (interval, replies) = self.exchange(&request, commands.len());
        for ((stream, command), reply) in commands.iter().zip(&replies) {
            self.note(interval, command.did(*stream, reply));
        }
    }

    fn transaction(&mut self) {
        let commands = self.commands();
        let mut request = Vec::new();
        encode(&mut request, &[b"MULTI"]);
        for (stream, command) in &commands {
            command.append_to(&mut request, *stream, self.number);
        }
        encode(&mut request, &[b"EXEC"]);
        let (interval, replies) = self.exchange(&request, commands.len() + 2);
        let Some(Value::Array(replies)) = replies.last() else {
            panic!("EXEC is answered {:?}", replies.last());
        };
        assert_eq!(replies.len(), commands.len());
        let steps = commands.iter().zip(replies);
        let steps = steps.flat_map(|((stream, command), reply)| command.did(*stream, reply));
        self.note(interval, steps.collect());
    }

    fn note(&mut self, interval: Interval, steps: Vec<(usize, Did)>) {
        for (stream, did) in &steps {
            let seen = &mut self.seen[*stream];
            match did {
                Did::Added { id: Some(id), .. } => seen.push(*id),
                Did::Listed { found, .. } | Did::Delivered { found, .. } => {
                    seen.extend(found.iter().map(|entry| entry.0));
                }
                _ => {}
            }
        }
        self.done.push(Done {
            client: self.number,
            interval,
            steps,
        });
    }
}
