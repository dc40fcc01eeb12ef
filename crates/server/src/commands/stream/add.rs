//! Commands that add entries or remove single ones.

use super::GROUP;
use super::id::{StreamIdArgument, new_id, strict};
use super::trim::TrimArguments;
use crate::command::{Answer, CommandCall, CommandDefinition, is};
use crate::error::CommandError;
use crate::keyspace::{Class, KeyView};
use crate::object::{StreamId, StreamObject};

pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("xadd", -5, xadd)
        .grows()
        .fast()
        .key(1)
        .about(
            GROUP,
            "5.0.0",
            "O(1), and O(N) for N entries that are trimmed",
        )
        .summary("Appends an entry to a stream. Creates the key if it does not exist."),
    CommandDefinition::new("xdel", -3, xdel)
        .writes()
        .fast()
        .key(1)
        .about(GROUP, "5.0.0", "O(log N) for each identifier")
        .summary("Deletes entries of a stream."),
    CommandDefinition::new("xsetid", -3, xsetid)
        .grows()
        .fast()
        .key(1)
        .about(GROUP, "5.0.0", "O(1)")
        .summary("Sets the last identifier of a stream, and its counters.")
        .differs(
            "An identifier before the greatest that was deleted is refused, as in Redis 8 and \
                  Valkey 9.",
        ),
];

const NOT_GREATER: CommandError = CommandError::text(
    "ERR The ID specified in XADD is equal or smaller than the target stream top item",
);
const EXHAUSTED: CommandError = CommandError::text(
    "ERR The stream has exhausted the last possible ID, unable to add more items",
);
const TOO_LARGE: CommandError = CommandError::text("ERR Elements are too large to be stored");

/// Returns the identifier of the next entry of a stream.
fn choose(
    written: Option<StreamIdArgument>,
    last: StreamId,
    now_ms: u64,
) -> Result<StreamId, CommandError> {
    if last == StreamId::MAX {
        return Err(EXHAUSTED);
    }
    let id = match written {
        None if now_ms > last.ms => StreamId { ms: now_ms, seq: 0 },
        // As in Redis, identifiers grow even if the clock is set back.
        None => last.next().ok_or(NOT_GREATER)?,
        Some(StreamIdArgument::Next(ms)) if ms == last.ms => {
            let seq = last.seq.checked_add(1).ok_or(NOT_GREATER)?;
            StreamId { ms, seq }
        }
        Some(StreamIdArgument::Next(ms) | StreamIdArgument::Time(ms)) => StreamId { ms, seq: 0 },
        Some(StreamIdArgument::Whole(id)) => id,
    };
    if id > last { Ok(id) } else { Err(NOT_GREATER) }
}

fn xadd(call: &mut CommandCall<'_>) -> Answer {
    let (arguments, at) = TrimArguments::parse(call, true)?;
    let fields = call.rest(at + 1);
    if fields.len() < 2 || fields.len() % 2 == 1 {
        return Err(CommandError::WrongArity("xadd".into()));
    }
    let written = match call.arg(at)? {
        b"*" => None,
        id => Some(new_id(id)?),
    };
    // This has an error of its own in Redis, since no entry can have the identifier.
    let is_zero = match written {
        Some(StreamIdArgument::Whole(id)) => id == StreamId::MIN,
        Some(StreamIdArgument::Time(ms)) => ms == 0,
        _ => false,
    };
    if is_zero {
        return Err(CommandError::text(
            "ERR The ID specified in XADD must be greater than 0-0",
        ));
    }
    let key = call.args[1];
    // A refused entry must not create the key: a stream that does not exist takes any identifier.
    let bytes: usize = fields.iter().map(|word| word.len()).sum();
    let is_there = call.keys.kind(key)?.is_some();
    if arguments.only_present && !is_there {
        call.reply.null();
        return Ok(());
    }
    debug_assert!(
        fields.len().is_multiple_of(2),
        "fields and values alternate"
    );
    if !is_there && bytes > crate::object::stream::ENTRY_BYTES_MAX {
        return Err(TOO_LARGE);
    }
    let (now_ms, trim) = (call.keys.now_ms(), arguments.trim);
    let added = call.keys.edit::<StreamObject, _>(key, |stream, limits| {
        let id = choose(written, stream.last_id(), now_ms)?;
        if bytes > crate::object::stream::ENTRY_BYTES_MAX {
            return Err(TOO_LARGE);
        }
        stream.append(limits, id, fields);
        debug_assert_eq!(stream.last_id(), id);
        let trimmed = trim.map_or(0, |trim| stream.trim(&trim));
        Ok((id, trimmed, stream.len()))
    })?;
    let (id, trimmed, len) = added?;
    call.keys.changed(key, Class::Stream, "xadd");
    if trimmed > 0 {
        call.keys.changed(key, Class::Stream, "xtrim");
    }
    // The log has the identifier, which a replay at another time would not choose.
    let (id, len) = (id.to_string(), len.to_string());
    let mut words: Vec<&[u8]> = vec![b"XADD", key];
    if trimmed > 0 {
        // The log has the exact length, because the effect of an approximate bound depends on the
        // nodes.
        words.extend([&b"MAXLEN"[..], b"=", len.as_bytes()]);
    }
    words.push(id.as_bytes());
    words.extend_from_slice(fields);
    call.keys.effects().log_instead(&words);
    call.reply.bulk(id.as_bytes());
    Ok(())
}

fn xdel(call: &mut CommandCall<'_>) -> Answer {
    let key = call.args[1];
    let ids = || call.args[2..].iter().map(|id| strict(id, 0));
    let deleted = call.keys.edit_present::<StreamObject, _>(key, |stream| {
        // As in Redis, all identifiers are parsed before an entry is deleted, and none without a
        // key.
        let ids = ids().collect::<Result<Vec<_>, _>>()?;
        Ok::<_, CommandError>(ids.into_iter().filter(|&id| stream.delete(id)).count())
    })?;
    let deleted = deleted.unwrap_or(Ok(0))?;
    if deleted > 0 {
        call.keys.changed(key, Class::Stream, "xdel");
    }
    call.reply.count(deleted);
    Ok(())
}

fn xsetid(call: &mut CommandCall<'_>) -> Answer {
    let (key, id) = (call.args[1], strict(call.args[2], 0)?);
    let (mut added, mut max_deleted) = (None, None);
    let mut words = call.rest(3);
    while let [name, value, rest @ ..] = words {
        if is(name, "entriesadded") {
            let count = crate::command::integer(value)?;
            let refused = CommandError::text("ERR entries_added must be positive");
            added = Some(u64::try_from(count).map_err(|_| refused)?);
        } else if is(name, "maxdeletedid") {
            let greatest = strict(value, 0)?;
            if id < greatest {
                return Err(CommandError::text(
                    "ERR The ID specified in XSETID is smaller than the provided \
                     max_deleted_entry_id",
                ));
            }
            max_deleted = Some(greatest).filter(|&id| id != StreamId::MIN);
        } else {
            return Err(CommandError::Syntax);
        }
        words = rest;
    }
    if !words.is_empty() {
        return Err(CommandError::Syntax);
    }
    let set = call.keys.edit_present::<StreamObject, _>(key, |stream| {
        let progress = stream.progress();
        let text = CommandError::text;
        if id < progress.max_deleted {
            return Err(text(
                "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id",
            ));
        }
        if stream.last().is_some_and(|entry| id < entry.id) {
            return Err(text(
                "ERR The ID specified in XSETID is smaller than the target stream top item",
            ));
        }
        if added.is_some_and(|added| progress.len > 0 && added < progress.len) {
            return Err(text(
                "ERR The entries_added specified in XSETID is smaller than the target stream \
                 length",
            ));
        }
        stream.set_last_id(id, added, max_deleted);
        Ok(())
    })?;
    set.ok_or(CommandError::NoSuchKey)??;
    // The entries are the same as before for clients that watch or cache the key.
    call.keys.changed_aside(key, Class::Stream, "xsetid");
    call.reply.ok();
    Ok(())
}
