//! The state of the streams and their groups in a server.

use super::client::{elements, parse, send};
use super::{GROUPS, Id, STREAMS};
use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::reply::RespReplyValue;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// All streams.
#[derive(Clone, Debug, Default)]
pub struct StoredStreams {
    pub streams: [StoredStream; STREAMS],
}

/// A stream.
#[derive(Clone, Debug, Default)]
pub struct StoredStream {
    /// The entries in their order: their ids and values.
    pub entries: Vec<(Id, String)>,
    pub last: Id,
    pub groups: [StoredGroup; GROUPS],
}

/// A group of a stream.
#[derive(Clone, Debug, Default)]
pub struct StoredGroup {
    pub delivered: Id,
    /// The holder of each pending entry, and the number of its deliveries.
    pub pending: BTreeMap<Id, (String, i64)>,
}

fn string(value: &RespReplyValue) -> String {
    match value {
        RespReplyValue::Bulk(text) => String::from_utf8(text.clone()).expect("letters"),
        other => panic!("no text: {other}"),
    }
}

fn integer(value: &RespReplyValue) -> i64 {
    match value {
        RespReplyValue::Integer(number) => *number,
        other => panic!("no number: {other}"),
    }
}

/// Returns a field of a flat list of names and values.
fn field<'v>(fields: &'v RespReplyValue, name: &str) -> &'v RespReplyValue {
    let (pairs, _) = elements(fields).as_chunks::<2>();
    let pair = pairs.iter().find(|pair| string(&pair[0]) == name);
    &pair.expect("a known field")[1]
}

impl StoredStreams {
    pub fn read(address: SocketAddr) -> StoredStreams {
        let mut connection = TestkitConnection::open(address).expect("the server listens");
        let mut ask = |line: String| send(&mut connection, &line).expect("a reply");
        let mut stored = StoredStreams::default();
        for (number, stream) in stored.streams.iter_mut().enumerate() {
            let entries = ask(format!("XRANGE s{number} - +"));
            let entries = elements(&entries).iter().map(|entry| {
                let [id, fields] = elements(entry) else {
                    panic!("no entry: {entry}");
                };
                (parse(id), string(&elements(fields)[1]))
            });
            stream.entries = entries.collect();
            stream.last = parse(field(
                &ask(format!("XINFO STREAM s{number}")),
                "last-generated-id",
            ));
            let groups = ask(format!("XINFO GROUPS s{number}"));
            assert_eq!(elements(&groups).len(), GROUPS, "groups of s{number}");
            for (group, found) in stream.groups.iter_mut().enumerate() {
                let fields = elements(&groups).iter();
                let name = format!("g{group}");
                let fields = fields
                    .clone()
                    .find(|fields| string(field(fields, "name")) == name);
                let fields = fields.expect("a group of ours");
                found.delivered = parse(field(fields, "last-delivered-id"));
                let pending = ask(format!("XPENDING s{number} g{group} - + 1000000"));
                let pending = elements(&pending).iter().map(|entry| {
                    let [id, holder, _, times] = elements(entry) else {
                        panic!("not pending: {entry}");
                    };
                    (parse(id), (string(holder), integer(times)))
                });
                found.pending = pending.collect();
                let count = integer(field(fields, "pending"));
                assert_eq!(
                    found.pending.len() as i64,
                    count,
                    "pending of s{number} {name}"
                );
            }
        }
        stored
    }
}
