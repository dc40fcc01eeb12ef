//! The encoder of values, in the one form of each type that is written.

use super::error::{RdbError, RdbResult};
use super::format::{Dialect, RdbValue, TIME_MS_MAX, kind};
use super::sink::RdbSink;
use super::stream;
use std::io::Write;

/// Returns the type byte, which comes before the value.
pub(super) fn type_byte(value: &RdbValue, dialect: Dialect) -> u8 {
    match value {
        RdbValue::String(_) => kind::STRING,
        RdbValue::List(_) => kind::LIST,
        RdbValue::Set(_) => kind::SET,
        RdbValue::Hash(_) => kind::HASH,
        RdbValue::TimedHash(_) => dialect.kind_of_timed_hash(),
        RdbValue::SortedSet(_) => kind::SORTED_SET,
        RdbValue::Stream(_) => kind::STREAM_2,
    }
}

/// Writes the part that follows the type and the key.
pub(super) fn write<W: Write>(
    value: &RdbValue,
    dialect: Dialect,
    sink: &mut RdbSink<W>,
) -> RdbResult<()> {
    match value {
        RdbValue::String(bytes) => sink.string(bytes)?,
        RdbValue::List(elements) | RdbValue::Set(elements) => {
            sink.length(elements.len() as u64)?;
            for element in elements {
                sink.string(element)?;
            }
        }
        RdbValue::Hash(fields) => {
            sink.length(fields.len() as u64)?;
            for (field, value) in fields {
                sink.string(field)?;
                sink.string(value)?;
            }
        }
        RdbValue::TimedHash(fields) => {
            let times = fields.iter().filter_map(|(_, _, time_ms)| *time_ms);
            let times = RdbHashTimes {
                dialect,
                // A caller may pass fields none of which expires.
                soonest_ms: times.min().unwrap_or(0),
            };
            times.begin(fields.len() as u64, sink)?;
            for (field, value, time_ms) in fields {
                times.field((field, value, *time_ms), sink)?;
            }
        }
        RdbValue::Stream(parts) => stream::write(parts, sink)?,
        RdbValue::SortedSet(members) => {
            sink.length(members.len() as u64)?;
            for (member, score) in members {
                sink.string(member)?;
                self::score(*score, sink)?;
            }
        }
    }
    Ok(())
}

/// The form of the times of a hash's fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct RdbHashTimes {
    pub dialect: Dialect,
    /// The time at which the first field expires.
    pub soonest_ms: u64,
}

impl RdbHashTimes {
    /// Writes the part before the fields.
    pub(super) fn begin<W: Write>(self, count: u64, sink: &mut RdbSink<W>) -> RdbResult<()> {
        if self.dialect == Dialect::Redis {
            sink.bytes(&self.soonest_ms.to_le_bytes())?;
        }
        sink.length(count)
    }

    /// Writes a field.
    pub(super) fn field<W: Write>(
        self,
        (field, value, time_ms): (&[u8], &[u8], Option<u64>),
        sink: &mut RdbSink<W>,
    ) -> RdbResult<()> {
        debug_assert!(time_ms.is_none_or(|time_ms| time_ms >= self.soonest_ms));
        if self.dialect == Dialect::Redis {
            // 0 means no time, so that the first time is 1.
            let after_ms = |time_ms: u64| time_ms.saturating_sub(self.soonest_ms) + 1;
            sink.length(time_ms.map_or(0, after_ms))?;
        }
        sink.string(field)?;
        sink.string(value)?;
        if self.dialect == Dialect::Valkey {
            // No time is written as -1.
            let time_ms = time_ms.map_or(-1, |time_ms| time_ms.min(TIME_MS_MAX) as i64);
            sink.bytes(&time_ms.to_le_bytes())?;
        }
        Ok(())
    }
}

/// Writes a score, which must be a number, because no reader accepts anything else.
pub(super) fn score<W: Write>(score: f64, sink: &mut RdbSink<W>) -> RdbResult<()> {
    if score.is_nan() {
        return Err(RdbError::BadScore {
            score: score.to_string(),
            offset: sink.offset(),
        });
    }
    sink.bytes(&score.to_le_bytes())
}
