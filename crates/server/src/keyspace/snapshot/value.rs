//! The conversion of values between the keyspace and snapshots.

use crate::error::CommandError;
use crate::keyspace::Keys;
use crate::object::{Container, Hash, List, Object, Set, SortedSet, Stream, Unread};
use crate::rdb::{Attributes, Error, Value, Writer};
use std::io::Write;

/// Writes the object of a key.
///
/// # Errors
/// Those of the writer; `unread` creates one from a node that cannot be read.
pub fn write<W: Write>(
    writer: &mut Writer<W>,
    key: &[u8],
    object: &Object,
    attributes: Attributes,
    unread: impl Fn(Unread) -> Error,
) -> Result<(), Error> {
    let count = object.len() as u64;
    match object {
        Object::Text(text) => writer.string(key, text.bytes(), attributes),
        Object::List(list) => {
            writer.begin_list(key, count, attributes)?;
            list.visit(unread, |element| writer.element(element))
        }
        Object::Hash(hash) => match hash.soonest_ms() {
            None => {
                writer.begin_hash(key, count, attributes)?;
                hash.visit(unread, |field, value, _| {
                    writer.element(field)?;
                    writer.element(value)
                })
            }
            Some(soonest_ms) => {
                writer.begin_timed_hash(key, count, soonest_ms, attributes)?;
                hash.visit(unread, |field, value, time_ms| {
                    writer.timed_field(field, value, time_ms)
                })
            }
        },
        Object::Set(set) => {
            writer.begin_set(key, count, attributes)?;
            set.iter().try_for_each(|member| writer.element(&member))
        }
        Object::Stream(stream) => writer.stream(key, &stream.parts(), attributes),
        Object::SortedSet(sorted_set) => {
            writer.begin_sorted_set(key, count, attributes)?;
            // Redis reads falling scores fastest.
            let mut members = sorted_set.range(0..sorted_set.len(), true);
            members.try_for_each(|(member, score)| {
                writer.element(member)?;
                writer.score(score)
            })
        }
    }
}

/// Sets a key to a value that a snapshot holds.
///
/// # Errors
/// The value does not fit the keyspace.
pub fn put(
    keys: &mut Keys<'_>,
    key: &[u8],
    value: Value,
    expires_at_ms: Option<u64>,
) -> Result<(), CommandError> {
    let (limits, heap) = (keys.limits(), &keys.keyspace().heap);
    let object = match value {
        Value::String(value) => return keys.set_string(key, &value, expires_at_ms),
        Value::List(elements) => {
            let mut list = List::create(heap);
            for element in &elements {
                list.push_back(&limits, element);
            }
            list.wrap()
        }
        Value::Hash(fields) => {
            let mut hash = Hash::create(heap);
            for (field, value) in &fields {
                hash.set(&limits, field, value);
            }
            hash.wrap()
        }
        Value::TimedHash(fields) => {
            let mut hash = Hash::create(heap);
            for (field, value, time_ms) in &fields {
                hash.set(&limits, field, value);
                hash.set_time(&limits, field, *time_ms);
            }
            hash.wrap()
        }
        Value::Set(members) => {
            let mut set = Set::create(heap);
            for member in &members {
                set.add(&limits, member);
            }
            set.wrap()
        }
        Value::SortedSet(members) => {
            let mut sorted_set = SortedSet::create(heap);
            for (member, score) in &members {
                sorted_set.insert(&limits, member, *score);
            }
            sorted_set.wrap()
        }
        Value::Stream(parts) => match Stream::of_parts(&parts, heap) {
            Some(stream) => stream.wrap(),
            None => {
                return Err(CommandError::text(
                    "ERR the parts of a stream do not fit together",
                ));
            }
        },
    };
    keys.put_object(key, object, expires_at_ms)
}
