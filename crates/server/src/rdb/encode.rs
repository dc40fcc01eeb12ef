//! Values in the one form of each type that is written.

use super::error::Error;
use super::format::{Value, kind};
use super::sink::Sink;
use super::stream;
use std::io::Write;

/// The type that stands before the value.
pub(super) fn type_byte(value: &Value) -> u8 {
    match value {
        Value::String(_) => kind::STRING,
        Value::List(_) => kind::LIST,
        Value::Set(_) => kind::SET,
        Value::Hash(_) => kind::HASH,
        Value::TimedHash(_) => kind::HASH_EXPIRING,
        Value::SortedSet(_) => kind::SORTED_SET,
        Value::Stream(_) => kind::STREAM_2,
    }
}

/// Writes what stands behind the type and the key.
pub(super) fn write<W: Write>(value: &Value, sink: &mut Sink<W>) -> Result<(), Error> {
    match value {
        Value::String(bytes) => sink.string(bytes)?,
        Value::List(elements) | Value::Set(elements) => {
            sink.length(elements.len() as u64)?;
            for element in elements {
                sink.string(element)?;
            }
        }
        Value::Hash(fields) => {
            sink.length(fields.len() as u64)?;
            for (field, value) in fields {
                sink.string(field)?;
                sink.string(value)?;
            }
        }
        Value::TimedHash(fields) => {
            let times = fields.iter().filter_map(|(_, _, time_ms)| *time_ms);
            let soonest_ms = times.min().unwrap_or(0);
            sink.bytes(&soonest_ms.to_le_bytes())?;
            sink.length(fields.len() as u64)?;
            for (field, value, time_ms) in fields {
                timed_field((field, value, *time_ms), soonest_ms, sink)?;
            }
        }
        Value::Stream(parts) => stream::write(parts, sink)?,
        Value::SortedSet(members) => {
            sink.length(members.len() as u64)?;
            for (member, score) in members {
                sink.string(member)?;
                self::score(*score, sink)?;
            }
        }
    }
    Ok(())
}

/// Writes a field of a hash whose first field to expire does so at `soonest_ms`.
pub(super) fn timed_field<W: Write>(
    (field, value, time_ms): (&[u8], &[u8], Option<u64>),
    soonest_ms: u64,
    sink: &mut Sink<W>,
) -> Result<(), Error> {
    let after = time_ms.map_or(0, |time_ms| time_ms.saturating_sub(soonest_ms) + 1);
    sink.length(after)?;
    sink.string(field)?;
    sink.string(value)
}

/// Writes a score, which has to be a number, as no reader takes anything else.
pub(super) fn score<W: Write>(score: f64, sink: &mut Sink<W>) -> Result<(), Error> {
    if score.is_nan() {
        return Err(Error::BadScore {
            score: score.to_string(),
            offset: sink.offset(),
        });
    }
    sink.bytes(&score.to_le_bytes())
}
