//! The conversion of values between the keyspace and snapshots.

use crate::error::CommandError;
use crate::keyspace::{DatabaseKeys, KeyView};
use crate::object::{
    ColdNodeError, Container, Hash, ListObject, Set, SortedSet, StoredObject, StreamObject,
};
use crate::rdb::{Attributes, RdbError, RdbValue, RdbWriter};
use std::io::Write;

/// Writes the object of a key.
///
/// # Errors
/// Those of the writer; `unread` creates one from a node that cannot be read.
pub fn write<W: Write>(
    writer: &mut RdbWriter<W>,
    key: &[u8],
    object: &StoredObject,
    attributes: Attributes,
    unread: impl Fn(ColdNodeError) -> RdbError,
) -> Result<(), RdbError> {
    // Includes expired fields of a hash, as `visit` does.
    let count = object.len() as u64;
    match object {
        StoredObject::Text(text) => writer.string(key, text.bytes(), attributes),
        StoredObject::List(list) => {
            writer.begin_list(key, count, attributes)?;
            list.visit(unread, |element| writer.element(element))
        }
        StoredObject::Hash(hash) => match hash.soonest_ms() {
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
        StoredObject::Set(set) => {
            writer.begin_set(key, count, attributes)?;
            set.iter().try_for_each(|member| writer.element(&member))
        }
        StoredObject::Stream(stream) => writer.stream(key, &stream.parts(), attributes),
        StoredObject::SortedSet(sorted_set) => {
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
    keys: &mut DatabaseKeys<'_>,
    key: &[u8],
    value: RdbValue,
    expires_at_ms: Option<u64>,
) -> Result<(), CommandError> {
    let (limits, heap) = (keys.limits(), &keys.keyspace().heap);
    let object = match value {
        RdbValue::String(value) => return keys.set_string(key, &value, expires_at_ms),
        RdbValue::List(elements) => {
            let mut list = ListObject::create(heap);
            for element in &elements {
                list.push_back(&limits, element);
            }
            list.wrap()
        }
        RdbValue::Hash(fields) => {
            let mut hash = Hash::create(heap);
            for (field, value) in &fields {
                hash.set(&limits, field, value);
            }
            hash.wrap()
        }
        RdbValue::TimedHash(fields) => {
            let mut hash = Hash::create(heap);
            for (field, value, time_ms) in &fields {
                hash.set(&limits, field, value);
                // After the value, because `set` removes the time of a field.
                hash.set_time(&limits, field, *time_ms);
            }
            hash.wrap()
        }
        RdbValue::Set(members) => {
            let mut set = Set::create(heap);
            for member in &members {
                set.add(&limits, member);
            }
            set.wrap()
        }
        RdbValue::SortedSet(members) => {
            let mut sorted_set = SortedSet::create(heap);
            for (member, score) in &members {
                sorted_set.insert(&limits, member, *score);
            }
            sorted_set.wrap()
        }
        RdbValue::Stream(parts) => match StreamObject::of_parts(&parts, heap) {
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
