//! Clients that add, take, acknowledge and claim entries until their connection breaks.

use super::{GROUPS, Id, STREAMS};
use nearfield_server_testkit::connection::{TestkitConnection, encode_lines};
use nearfield_server_testkit::reply::RespReplyValue;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::io;
use std::net::SocketAddr;

/// The requests of a client and their replies.
#[derive(Clone, Debug, Default)]
pub struct DeliveryRecord {
    pub name: String,
    /// The values that it has sent in entries.
    pub sent: Vec<String>,
    /// The entries that were acknowledged: stream, value and id.
    pub added: Vec<(usize, String, Id)>,
    /// The entries that it got as new ones: stream, group and id.
    pub delivered: Vec<(usize, usize, Id)>,
    /// The entries that it has claimed, in the same form.
    pub claimed: Vec<(usize, usize, Id)>,
    /// The entries that it has acknowledged, each with the reply.
    pub acknowledged: Vec<(usize, usize, Id, AckOutcome)>,
    /// The group in which it may have got entries in a reply that never arrived.
    pub unanswered: Option<usize>,
}

/// The outcome of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckOutcome {
    /// The entry was pending.
    Counted,
    NotPending,
    Unanswered,
}

/// A client, and the replies that it got.
pub struct DeliveryClient {
    random: SmallRng,
    count: u64,
    told: DeliveryRecord,
}

/// The end of the connection.
struct DeliveryDisconnect;

impl From<io::Error> for DeliveryDisconnect {
    fn from(_: io::Error) -> DeliveryDisconnect {
        DeliveryDisconnect
    }
}

pub fn send(connection: &mut TestkitConnection, line: &str) -> io::Result<RespReplyValue> {
    match connection.run(line)? {
        RespReplyValue::Error(why) => panic!("{line}: {}", why.escape_ascii()),
        value => Ok(value),
    }
}

pub fn flush(address: SocketAddr) {
    let mut connection = TestkitConnection::open(address).expect("the server listens");
    send(&mut connection, "FLUSHALL").expect("a reply");
}

pub fn text((ms, number): Id) -> String {
    format!("{ms}-{number}")
}

pub fn parse(id: &RespReplyValue) -> Id {
    let RespReplyValue::Bulk(id) = id else {
        panic!("no id: {id}");
    };
    let text = std::str::from_utf8(id).expect("digits");
    let (ms, number) = text.split_once('-').expect("two numbers");
    (
        ms.parse().expect("a number"),
        number.parse().expect("a number"),
    )
}

pub fn elements(value: &RespReplyValue) -> &[RespReplyValue] {
    match value {
        RespReplyValue::Array(elements) => elements,
        RespReplyValue::NullArray => &[],
        other => panic!("no array: {other}"),
    }
}

fn ids(entries: &RespReplyValue) -> Vec<Id> {
    let entries = elements(entries).iter();
    entries.map(|entry| parse(&elements(entry)[0])).collect()
}

impl DeliveryClient {
    pub fn new(name: String, seed: u64) -> DeliveryClient {
        DeliveryClient {
            random: SmallRng::seed_from_u64(seed),
            count: 0,
            told: DeliveryRecord {
                name,
                ..DeliveryRecord::default()
            },
        }
    }

    pub fn into_told(self) -> DeliveryRecord {
        self.told
    }

    pub fn note_sent(&mut self, value: &str) {
        self.told.sent.push(value.to_owned());
    }

    pub fn note_added(&mut self, stream: usize, value: &str, id: Id) {
        self.told.added.push((stream, value.to_owned(), id));
    }

    pub fn note_delivered(&mut self, stream: usize, group: usize, id: Id) {
        self.told.delivered.push((stream, group, id));
    }

    pub fn note_acknowledged(&mut self, stream: usize, group: usize, id: Id) {
        let told = (stream, group, id, AckOutcome::Counted);
        self.told.acknowledged.push(told);
    }

    /// Adds entries until the connection breaks.
    pub fn produce(mut self, address: SocketAddr) -> DeliveryRecord {
        if let Ok(mut connection) = TestkitConnection::open(address) {
            while self.add(&mut connection).is_ok() {}
        }
        self.told
    }

    /// Adds several entries at once; some in a transaction, some with ids that follow the last.
    fn add(&mut self, connection: &mut TestkitConnection) -> Result<(), DeliveryDisconnect> {
        let (mut request, mut values) = (Vec::new(), Vec::new());
        let mut send = |line: &str| request.extend(encode_lines([line]));
        let is_transaction = self.random.random_bool(0.3);
        if is_transaction {
            send("MULTI");
        }
        for _ in 0..self.random.random_range(1..6) {
            self.count += 1;
            let value = format!("{}:{}", self.told.name, self.count);
            let stream = self.random.random_range(0..STREAMS);
            send(&format!("XADD s{stream} * v {value}"));
            self.told.sent.push(value.clone());
            values.push((stream, value));
        }
        if is_transaction {
            send("EXEC");
        }
        let upkeep = match self.random.random_range(0..40) {
            0 => Some("BGREWRITEAOF"),
            1 => Some("BGSAVE"),
            _ => None,
        };
        upkeep.into_iter().for_each(&mut send);
        connection.send(&request)?;
        let mut ids = Vec::new();
        if is_transaction {
            for _ in 0..=values.len() {
                connection.receive()?;
            }
            ids.extend_from_slice(elements(&connection.receive()?));
            assert_eq!(ids.len(), values.len(), "half of a transaction");
            self.note_ids(&values, &ids);
        } else {
            for value in &values {
                let id = connection.receive()?;
                self.note_ids(std::slice::from_ref(value), &[id]);
            }
        }
        if upkeep.is_some() {
            // It may be running already.
            connection.receive()?;
        }
        Ok(())
    }

    fn note_ids(&mut self, values: &[(usize, String)], ids: &[RespReplyValue]) {
        for ((stream, value), id) in values.iter().zip(ids) {
            self.note_added(*stream, value, parse(id));
        }
    }

    /// Takes, claims and acknowledges entries until the connection breaks.
    pub fn consume(mut self, address: SocketAddr, group: usize) -> DeliveryRecord {
        self.told.unanswered = Some(group);
        if let Ok(mut connection) = TestkitConnection::open(address) {
            let mut held = Vec::new();
            while self.take(&mut connection, group, &mut held).is_ok() {}
        }
        self.told
    }

    /// Takes entries, or claims some, and acknowledges some of those held.
    fn take(
        &mut self,
        connection: &mut TestkitConnection,
        group: usize,
        held: &mut Vec<(usize, Id)>,
    ) -> Result<(), DeliveryDisconnect> {
        let name = self.told.name.clone();
        let stream = self.random.random_range(0..STREAMS);
        let count = self.random.random_range(1..8);
        match self.random.random_range(0..20) {
            0 => {
                let line = format!("XAUTOCLAIM s{stream} g{group} {name} 0 0 COUNT {count}");
                let reply = send(connection, &line)?;
                self.note_claimed(stream, group, &ids(&elements(&reply)[1]), held);
            }
            1 => {
                let line = format!("XPENDING s{stream} g{group} - + {count}");
                let found = ids(&send(connection, &line)?);
                if !found.is_empty() {
                    let texts: Vec<String> = found.into_iter().map(text).collect();
                    let texts = texts.join(" ");
                    let line = format!("XCLAIM s{stream} g{group} {name} 0 {texts}");
                    let reply = send(connection, &line)?;
                    self.note_claimed(stream, group, &ids(&reply), held);
                }
            }
            choice => {
                let wait = match choice {
                    2..9 => "",
                    // A wait ends only with an entry or with the server's end.
                    9..15 => "BLOCK 0 ",
                    _ => "BLOCK 5 ",
                };
                let all = "STREAMS s0 s1 > >";
                let line = format!("XREADGROUP GROUP g{group} {name} COUNT {count} {wait}{all}");
                let reply = send(connection, &line)?;
                for pair in elements(&reply) {
                    let pair = elements(pair);
                    let stream = (0..STREAMS).find(|stream| {
                        pair[0] == RespReplyValue::Bulk(format!("s{stream}").into_bytes())
                    });
                    let stream = stream.expect("a stream of ours");
                    for id in ids(&pair[1]) {
                        self.note_delivered(stream, group, id);
                        held.push((stream, id));
                    }
                }
            }
        }
        while !held.is_empty() && self.random.random_bool(0.7) {
            let (stream, id) = held.swap_remove(self.random.random_range(0..held.len()));
            let place = self.told.acknowledged.len();
            let told = (stream, group, id, AckOutcome::Unanswered);
            self.told.acknowledged.push(told);
            let reply = send(connection, &format!("XACK s{stream} g{group} {}", text(id)))?;
            self.told.acknowledged[place].3 = match reply {
                RespReplyValue::Integer(1) => AckOutcome::Counted,
                RespReplyValue::Integer(0) => AckOutcome::NotPending,
                other => panic!("XACK received the reply {other}"),
            };
        }
        Ok(())
    }

    fn note_claimed(
        &mut self,
        stream: usize,
        group: usize,
        ids: &[Id],
        held: &mut Vec<(usize, Id)>,
    ) {
        for &id in ids {
            self.told.claimed.push((stream, group, id));
            held.push((stream, id));
        }
    }

    /// Takes and claims all entries that are left in all groups.
    pub fn drain(mut self, address: SocketAddr) -> DeliveryRecord {
        let mut connection = TestkitConnection::open(address).expect("the server listens");
        let name = self.told.name.clone();
        for group in 0..GROUPS {
            for stream in 0..STREAMS {
                let line = format!("XREADGROUP GROUP g{group} {name} STREAMS s{stream} >");
                let reply = send(&mut connection, &line).expect("entries");
                for pair in elements(&reply) {
                    for id in ids(&elements(pair)[1]) {
                        self.note_delivered(stream, group, id);
                    }
                }
                let line = format!("XAUTOCLAIM s{stream} g{group} {name} 0 0 COUNT 1000000");
                let reply = send(&mut connection, &line).expect("entries");
                self.note_claimed(stream, group, &ids(&elements(&reply)[1]), &mut Vec::new());
            }
        }
        self.told
    }
}
