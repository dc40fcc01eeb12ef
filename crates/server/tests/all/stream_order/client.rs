//! A client that sends random commands on streams, and notes the effects of each.

use super::model::{
    Entry, Id, RequestedStreamId, STREAMS, StreamHistoryEffect, StreamHistoryOperation,
};
use nearfield_server_testkit::connection::{TestkitConnection, encode, encode_lines};
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_testkit::history::{CallInterval, HistoryRecorder};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};

/// Timeout of blocking reads, in milliseconds.
const BLOCK_MS: &str = "3";

#[derive(Clone, Debug)]
enum StreamHistoryCommand {
    Add {
        asked: RequestedStreamId,
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

pub struct StreamHistoryClient<'r> {
    number: u32,
    random: SmallRng,
    connection: TestkitConnection,
    recorder: &'r HistoryRecorder,
    /// The source of values that differ.
    values: &'r AtomicI64,
    /// The ids that it has seen, and that it may delete or acknowledge.
    seen: [Vec<Id>; STREAMS],
    done: Vec<StreamHistoryOperation>,
}

pub fn key(stream: usize) -> Vec<u8> {
    format!("s{stream}").into_bytes()
}

fn text((ms, number): Id) -> String {
    format!("{ms}-{number}")
}

impl StreamHistoryCommand {
    fn append_to(&self, request: &mut Vec<u8>, stream: usize, client: u32) {
        let key = format!("s{stream}");
        let line = match self {
            StreamHistoryCommand::Add { asked, value, keep } => {
                let keep = keep.map_or(String::new(), |keep| format!("MAXLEN = {keep} "));
                let id = match asked {
                    RequestedStreamId::Next => "*".to_owned(),
                    RequestedStreamId::NextOf(ms) => format!("{ms}-*"),
                    RequestedStreamId::Id(id) => text(*id),
                };
                format!("XADD {key} {keep}{id} v {value}")
            }
            StreamHistoryCommand::Range(after, count) => {
                format!("XRANGE {key} ({} + COUNT {count}", text(*after))
            }
            StreamHistoryCommand::Read(after, count, blocks) => {
                let block = blocks
                    .then(|| format!("BLOCK {BLOCK_MS} "))
                    .unwrap_or_default();
                let after = text(*after);
                format!("XREAD {block}COUNT {count} STREAMS {key} {after}")
            }
            StreamHistoryCommand::ReadAll(after, count) => {
                let after = text(*after);
                format!("XREAD COUNT {count} STREAMS s0 s1 {after} {after}")
            }
            StreamHistoryCommand::Newest => format!("XREVRANGE {key} + - COUNT 1"),
            StreamHistoryCommand::Length => format!("XLEN {key}"),
            StreamHistoryCommand::Delete(ids) => format!("XDEL {key} {}", texts(ids)),
            StreamHistoryCommand::Trim(keep) => format!("XTRIM {key} MAXLEN = {keep}"),
            StreamHistoryCommand::Deliver(count, blocks) => {
                let block = blocks
                    .then(|| format!("BLOCK {BLOCK_MS} "))
                    .unwrap_or_default();
                format!("XREADGROUP GROUP g c{client} COUNT {count} {block}STREAMS {key} >")
            }
            StreamHistoryCommand::Acknowledge(ids) => format!("XACK {key} g {}", texts(ids)),
        };
        request.extend(encode_lines([line]));
    }

    /// Returns the effects on streams.
    fn did(&self, stream: usize, reply: &RespReplyValue) -> Vec<(usize, StreamHistoryEffect)> {
        let did = match (self.clone(), reply) {
            (StreamHistoryCommand::Add { asked, value, keep }, reply) => {
                StreamHistoryEffect::Added {
                    asked,
                    value,
                    keep,
                    id: match reply {
                        RespReplyValue::Bulk(id) => Some(parse(id)),
                        RespReplyValue::Error(why)
                            if why.starts_with(b"ERR The ID specified in XADD is") =>
                        {
                            None
                        }
                        other => panic!("{self:?} received the reply {other}"),
                    },
                }
            }
            (StreamHistoryCommand::Range(after, count), reply) => StreamHistoryEffect::Listed {
                after,
                count,
                found: entries(reply),
            },
            (
                StreamHistoryCommand::Read(after, count, _)
                | StreamHistoryCommand::ReadAll(after, count),
                reply,
            ) => {
                let streams = match self {
                    StreamHistoryCommand::ReadAll(..) => 0..STREAMS,
                    _ => stream..stream + 1,
                };
                let listed = |stream| StreamHistoryEffect::Listed {
                    after,
                    count,
                    found: entries_of(stream, reply),
                };
                return streams.map(|stream| (stream, listed(stream))).collect();
            }
            (StreamHistoryCommand::Newest, reply) => {
                StreamHistoryEffect::Newest(entries(reply).first().copied())
            }
            (StreamHistoryCommand::Length, &RespReplyValue::Integer(length)) => {
                StreamHistoryEffect::Measured(length)
            }
            (StreamHistoryCommand::Delete(ids), &RespReplyValue::Integer(count)) => {
                StreamHistoryEffect::Deleted(ids, count)
            }
            (StreamHistoryCommand::Trim(keep), &RespReplyValue::Integer(count)) => {
                StreamHistoryEffect::Trimmed(keep, count)
            }
            (StreamHistoryCommand::Deliver(count, _), reply) => StreamHistoryEffect::Delivered {
                count,
                found: entries_of(stream, reply),
            },
            (StreamHistoryCommand::Acknowledge(ids), &RespReplyValue::Integer(count)) => {
                StreamHistoryEffect::Acknowledged(ids, count)
            }
            (command, reply) => panic!("{command:?} received the reply {reply}"),
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

fn entries(reply: &RespReplyValue) -> Vec<Entry> {
    let RespReplyValue::Array(entries) = reply else {
        panic!("no entries: {reply}");
    };
    let entry = |entry: &RespReplyValue| match entry {
        RespReplyValue::Array(parts) => match &parts[..] {
            [RespReplyValue::Bulk(id), RespReplyValue::Array(fields)] => match &fields[..] {
                [RespReplyValue::Bulk(field), RespReplyValue::Bulk(value)] if field == b"v" => (
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
fn entries_of(stream: usize, reply: &RespReplyValue) -> Vec<Entry> {
    let streams = match reply {
        RespReplyValue::NullArray => return Vec::new(),
        RespReplyValue::Array(streams) => streams,
        other => panic!("no streams: {other}"),
    };
    let own = streams.iter().find_map(|pair| match pair {
        RespReplyValue::Array(pair) if pair[0] == RespReplyValue::Bulk(key(stream)) => {
            Some(&pair[1])
        }
        _ => None,
    });
    own.map(entries).unwrap_or_default()
}

impl<'r> StreamHistoryClient<'r> {
    pub fn new(
        number: u32,
        seed: u64,
        address: SocketAddr,
        recorder: &'r HistoryRecorder,
        values: &'r AtomicI64,
    ) -> StreamHistoryClient<'r> {
        StreamHistoryClient {
            number,
            random: SmallRng::seed_from_u64(seed),
            connection: TestkitConnection::open(address).unwrap(),
            recorder,
            values,
            seen: Default::default(),
            done: Vec::new(),
        }
    }

    pub fn run(mut self, turns: usize) -> Vec<StreamHistoryOperation> {
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

    fn command(&mut self) -> (usize, StreamHistoryCommand) {
        let stream = self.random.random_range(0..STREAMS);
        let newest = self.seen[stream].iter().max().copied().unwrap_or_default();
        let count = self.random.random_range(1..5);
        let blocks = self.random.random_bool(0.3);
        let command = match self.random.random_range(0..20) {
            0..7 => StreamHistoryCommand::Add {
                asked: match self.random.random_range(0..4) {
                    0 => RequestedStreamId::NextOf(newest.0 + self.random.random_range(0..2)),
                    1 => {
                        RequestedStreamId::Id((newest.0, newest.1 + self.random.random_range(1..3)))
                    }
                    _ => RequestedStreamId::Next,
                },
                value: self.values.fetch_add(1, Ordering::Relaxed),
                keep: self.random.random_bool(0.2).then_some(count + 4),
            },
            7 => StreamHistoryCommand::Range(self.id(stream), count),
            8..10 => StreamHistoryCommand::Read(self.id(stream), count, blocks),
            10 => StreamHistoryCommand::ReadAll(self.id(stream), count),
            11 => StreamHistoryCommand::Newest,
            12 => StreamHistoryCommand::Length,
            13 => StreamHistoryCommand::Delete(self.ids(stream)),
            14 => StreamHistoryCommand::Trim(count + 2),
            15..18 => StreamHistoryCommand::Deliver(count, blocks),
            _ => StreamHistoryCommand::Acknowledge(self.ids(stream)),
        };
        (stream, command)
    }

    fn commands(&mut self) -> Vec<(usize, StreamHistoryCommand)> {
        let count = self.random.random_range(1..=3);
        (0..count).map(|_| self.command()).collect()
    }

    /// Sends requests at once and reads `replies` replies.
    fn exchange(&mut self, request: &[u8], replies: usize) -> (CallInterval, Vec<RespReplyValue>) {
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
        let Some(RespReplyValue::Array(replies)) = replies.last() else {
            panic!("EXEC received the reply {:?}", replies.last());
        };
        assert_eq!(replies.len(), commands.len());
        let steps = commands.iter().zip(replies);
        let steps = steps.flat_map(|((stream, command), reply)| command.did(*stream, reply));
        self.note(interval, steps.collect());
    }

    fn note(&mut self, interval: CallInterval, steps: Vec<(usize, StreamHistoryEffect)>) {
        for (stream, did) in &steps {
            let seen = &mut self.seen[*stream];
            match did {
                StreamHistoryEffect::Added { id: Some(id), .. } => seen.push(*id),
                StreamHistoryEffect::Listed { found, .. }
                | StreamHistoryEffect::Delivered { found, .. } => {
                    seen.extend(found.iter().map(|entry| entry.0));
                }
                _ => {}
            }
        }
        self.done.push(StreamHistoryOperation {
            client: self.number,
            interval,
            steps,
        });
    }
}
