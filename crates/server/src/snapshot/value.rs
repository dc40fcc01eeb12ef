//! Values on their way between the keyspace and snapshots.

use crate::error::CommandError;
use crate::keyspace::Keys;
use crate::object::Object;
use crate::rdb::{Attributes, Error, Value, Writer};
use std::io::Write;

/// Writes the object of a key.
pub fn write<W: Write>(
    writer: &mut Writer<W>,
    key: &[u8],
    object: &Object,
    attributes: Attributes,
) -> Result<(), Error> {
    match object {
        Object::Text(text) => writer.string(key, text.bytes(), attributes),
    }
}

/// Sets a key to a value that a snapshot holds.
pub fn put(
    keys: &mut Keys<'_>,
    key: &[u8],
    value: Value,
    expires_at_ms: Option<u64>,
) -> Result<(), CommandError> {
    match value {
        Value::String(value) => keys.set_string(key, &value, expires_at_ms),
        _ => Err(CommandError::text("ERR the type is not supported")),
    }
}
