//! The content of a server, for comparisons.

use nearfield_server::keyspace::{Keyspace, RecordPayload, ValueRecord};
use nearfield_server::object::{RedisType, StoredObject, StreamId, StreamObject};
use std::collections::BTreeMap;
use std::ops::Bound;

/// All keys, each with its database, its value in words, and its expiry time.
pub type State = BTreeMap<(usize, Vec<u8>), (String, Option<u64>)>;

/// Returns the complete content of a keyspace.
pub fn state(keyspace: &Keyspace) -> State {
    let databases = keyspace.exclude();
    let mut state = State::new();
    for (number, database) in databases.iter().enumerate() {
        let all = (Bound::Unbounded, Bound::Unbounded);
        let entries = database.entries().into_iter();
        let mut notes = Vec::new();
        for entry in entries.flat_map(|entries| entries.range(all)) {
            let (key, stored) = entry.expect("the placement replies");
            let record = ValueRecord::parse(&stored);
            let value = match record.payload {
                RecordPayload::Inline(value) => format!("string {}", value.escape_ascii()),
                RecordPayload::InSlot(slot) => {
                    describe(keyspace.slots.open(slot).as_ref().expect("an object"))
                }
                RecordPayload::InTier(place) if record.kind == RedisType::String => keyspace
                    .read_place(&key, place, |value| {
                        format!("string {}", value.escape_ascii())
                    })
                    .expect("the tier replies"),
                RecordPayload::InTier(place) => {
                    let object = keyspace.thaw(&key, record.kind, place, &keyspace.heap);
                    describe(&object.expect("the tier replies"))
                }
            };
            notes.extend(record.note().map(|time| (time, key.to_vec())));
            state.insert((number, key.to_vec()), (value, record.expires_at_ms));
        }
        assert_eq!(Ok(notes.len()), database.expiring());
        // Keys of a shared index have the database's number before them.
        if !database.is_shared() {
            notes.sort();
            assert_eq!(Ok(notes), database.notes(u64::MAX, usize::MAX));
        }
    }
    state
}

fn describe(object: &StoredObject) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let mut words: Vec<String> = match object {
        StoredObject::Text(string) => return format!("string {}", text(string.bytes())),
        StoredObject::List(list) => {
            let words: Vec<String> = list.iter().map(text).collect();
            return format!("list {words:?}");
        }
        StoredObject::Hash(hash) => hash
            .iter()
            .map(|(field, value)| match hash.expires_at_ms(field) {
                None => format!("{}={}", text(field), text(value)),
                Some(time_ms) => format!("{}={} until {time_ms}", text(field), text(value)),
            })
            .collect(),
        StoredObject::Set(set) => set.iter().map(|member| text(&member)).collect(),
        StoredObject::Stream(stream) => return describe_stream(stream),
        StoredObject::SortedSet(sorted_set) => sorted_set
            .iter()
            .map(|(member, score)| format!("{}={score:?}", text(member)))
            .collect(),
    };
    words.sort();
    format!("{} {words:?}", object.kind().name())
}

/// Describes a stream, except the placement of entries in nodes, and the times at which consumers
/// were seen and active.
fn describe_stream(stream: &StreamObject) -> String {
    let mut parts = stream.parts();
    parts.nodes.clear();
    // The log lacks the times of a consumer that was given nothing.
    for consumer in parts.groups.iter_mut().flat_map(|it| &mut it.consumers) {
        consumer.seen_ms = 0;
        consumer.active_ms = None;
    }
    let entries = stream.range(StreamId::MIN, StreamId::MAX, false);
    let entries = entries.map(|entry| {
        let mut text = entry.id.to_string();
        entry.for_each(|field, value| {
            text += &format!(" {}={}", field.escape_ascii(), value.escape_ascii());
        });
        text
    });
    let entries: Vec<String> = entries.collect();
    format!("stream {entries:?} {parts:?}")
}
