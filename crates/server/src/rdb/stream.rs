//! Streams: their nodes unchanged, counters, and groups of consumers.
//!
//! ```text
//! nodes  (identifier listpack) ...  entries  last
//!   [first  greatest deleted  added]                                  since 7.0
//! groups  (name  last  [read]  pending  consumers) ...
//! pending:    count  (identifier time deliveries) ...
//! consumers:  count  (name  seen  [active]  count  identifier ...) ...
//! ```
//!
//! `active` came with 7.2. It is read but not written, because Redis 7.0 reads no form that has it.
//! A reader of a form without it uses `seen` instead, and so does Redis.

use super::decode::repeated;
use super::error::{RdbError, RdbResult};
use super::format::kind;
use super::sink::RdbSink;
use super::source::RdbSource;
use crate::object::StreamId;
use crate::object::stream::{ConsumerParts, GroupParts, NEVER_ACTIVE, StreamCounters, StreamParts};
use std::borrow::Cow;
use std::io::{Read, Write};

/// The number of entries read, if it is unknown.
const NOT_KNOWN: u64 = u64::MAX;

/// Writes the part that follows the type and the key, in the form of Redis 7.0.
pub(super) fn write<W: Write>(parts: &StreamParts<'_>, sink: &mut RdbSink<W>) -> RdbResult<()> {
    sink.length(parts.nodes.len() as u64)?;
    for (first, listpack) in &parts.nodes {
        sink.string(&first.to_bytes())?;
        sink.string(listpack)?;
    }
    sink.length(parts.len)?;
    put_id(parts.last_id, sink)?;
    put_id(parts.first_id, sink)?;
    put_id(parts.max_deleted, sink)?;
    sink.length(parts.entries_added)?;
    sink.length(parts.groups.len() as u64)?;
    for group in &parts.groups {
        sink.string(&group.name)?;
        put_id(group.last_id, sink)?;
        sink.length(group.entries_read.unwrap_or(NOT_KNOWN))?;
        sink.length(group.pending.len() as u64)?;
        for (id, delivered_ms, deliveries) in &group.pending {
            sink.bytes(&id.to_bytes())?;
            sink.bytes(&delivered_ms.to_le_bytes())?;
            sink.length(*deliveries)?;
        }
        sink.length(group.consumers.len() as u64)?;
        for consumer in &group.consumers {
            sink.string(&consumer.name)?;
            sink.bytes(&consumer.seen_ms.to_le_bytes())?;
            sink.length(consumer.pending.len() as u64)?;
            for id in &consumer.pending {
                sink.bytes(&id.to_bytes())?;
            }
        }
    }
    Ok(())
}

fn put_id<W: Write>(id: StreamId, sink: &mut RdbSink<W>) -> RdbResult<()> {
    sink.length(id.ms)?;
    sink.length(id.seq)
}

/// Reads a stream and checks that its parts fit together.
pub(super) fn read<R: Read>(
    type_byte: u8,
    source: &mut RdbSource<R>,
) -> RdbResult<StreamParts<'static>> {
    let offset = source.offset();
    let has_counters = type_byte != kind::STREAM;
    let has_active_times = type_byte == kind::STREAM_3;
    let nodes = repeated(source, |source| {
        let offset = source.offset();
        let first = source.string()?;
        let first = <[u8; 16]>::try_from(first).map_err(|first| RdbError::BadLength {
            what: "first identifier of a stream's node",
            length: first.len() as u64,
            offset,
        })?;
        let listpack = Cow::Owned(source.string()?);
        Ok((StreamId::from_bytes(first), listpack))
    })?;
    let mut parts = StreamParts {
        nodes,
        len: source.length()?,
        last_id: id(source)?,
        ..StreamParts::default()
    };
    if has_counters {
        parts.first_id = id(source)?;
        parts.max_deleted = id(source)?;
        parts.entries_added = source.length()?;
    } else {
        parts.entries_added = parts.len;
    }
    parts.groups = repeated(source, |source| {
        group(has_counters, has_active_times, source)
    })?;
    // The correction overwrites the number that the file has.
    let said = parts.len;
    if parts.correct().is_none() {
        return Err(RdbError::BadLength {
            what: "parts of a stream",
            length: said,
            offset,
        });
    }
    if !has_counters {
        // Redis estimates it in the same way for files of earlier versions.
        let progress = StreamCounters {
            len: parts.len,
            first_id: parts.first_id,
            last_id: parts.last_id,
            max_deleted: parts.max_deleted,
            entries_added: parts.entries_added,
        };
        for group in &mut parts.groups {
            group.entries_read = progress.read_up_to(group.last_id);
        }
    }
    Ok(parts)
}

fn group<R: Read>(
    has_counters: bool,
    has_active_times: bool,
    source: &mut RdbSource<R>,
) -> RdbResult<GroupParts> {
    let name = source.string()?;
    let last_id = id(source)?;
    let read = match has_counters {
        true => source.length()?,
        false => NOT_KNOWN,
    };
    let pending = repeated(source, |source| {
        let id = StreamId::from_bytes(source.array()?);
        Ok((id, i64::from_le_bytes(source.array()?), source.length()?))
    })?;
    let consumers = repeated(source, |source| {
        let name = source.string()?;
        let seen_ms = i64::from_le_bytes(source.array()?);
        let active_ms = match has_active_times {
            true => i64::from_le_bytes(source.array()?),
            false => seen_ms,
        };
        let pending = repeated(source, |source| Ok(StreamId::from_bytes(source.array()?)))?;
        Ok(ConsumerParts {
            name,
            seen_ms,
            // -1 has been written for a consumer that never received an entry.
            active_ms: (active_ms != NEVER_ACTIVE).then_some(active_ms),
            pending,
        })
    })?;
    Ok(GroupParts {
        name,
        last_id,
        entries_read: (read != NOT_KNOWN).then_some(read),
        pending,
        consumers,
    })
}

fn id<R: Read>(source: &mut RdbSource<R>) -> RdbResult<StreamId> {
    Ok(StreamId {
        ms: source.length()?,
        seq: source.length()?,
    })
}
