//! Commands that read new entries, for one client or for a group of consumers, and block until
//! there are some.

use super::GROUP;
use super::arguments::{XreadArguments, keys, parse};
use super::claim::log_delivery;
use super::group::{read_text, text};
use super::id::strict;
use super::range::{put_entry, put_id};
use crate::blocking::WaitLine;
use crate::command::{Answer, CommandCall, CommandDefinition, Flags};
use crate::error::CommandError;
use crate::keyspace::{Class, KeyView};
use crate::object::stream::PendingStreamEntry;
use crate::object::{Container, StreamId, StreamObject};
use crate::resp::reply::Mark;
use crate::resp::{Protocol, RespReply};

pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("xread", -4, xread)
        .reads()
        .flag(WAITS)
        .keys_found(keys)
        .about(GROUP, "5.0.0", "O(N) for N entries")
        .summary(
            "Returns the entries of streams after given identifiers, or blocks until there are \
             any.",
        ),
    CommandDefinition::new("xreadgroup", -7, xreadgroup)
        .flag(Flags::WAKES_ALWAYS)
        .slowly_grows()
        .flag(WAITS)
        .keys_found(keys)
        .about(
            GROUP,
            "5.0.0",
            "O(N log M) for N entries, and M that are pending",
        )
        .summary("Returns new or pending entries to a consumer, or blocks until there are any.")
        .differs("A blocked client receives NOGROUP if the key or its group is deleted."),
];

const WAITS: Flags = Flags(Flags::BLOCKING.0 | Flags::EXCLUSIVE.0);

/// The entries of one stream that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// The entries after this one; for a group, those that are pending.
    Behind(StreamId),
    /// The entries that are added from now on (`$`).
    New,
    /// The last entry (`+`). If there is none, the entries that are added from now on.
    Last,
    /// The entries that the group has not received (`>`).
    Undelivered,
}

fn xread(call: &mut CommandCall<'_>) -> Answer {
    let arguments = parse(call, false)?;
    let mut from = Vec::with_capacity(arguments.keys.len());
    for (&key, &word) in arguments.keys.iter().zip(arguments.from) {
        check_type(call, key)?;
        from.push(match word {
            b"$" => From::New,
            b"+" => From::Last,
            b">" => {
                return Err(CommandError::text(
                    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP \
                     <group> <consumer> option.",
                ));
            }
            word => From::Behind(strict(word, 0)?),
        });
    }
    let limit = arguments.count.unwrap_or(usize::MAX);
    let (mark, mut served) = (call.reply.begin(), 0);
    for (&key, from) in arguments.keys.iter().zip(&mut from) {
        let reply = &mut *call.reply;
        call.keys.read::<StreamObject, _>(key, |stream| {
            let last = stream.map_or(StreamId::MIN, StreamObject::last_id);
            let start = match *from {
                From::Behind(behind) => behind.next(),
                From::Last => stream.and_then(StreamObject::last).map(|entry| entry.id),
                // `$` finds no entry that is there already.
                From::New | From::Undelivered => None,
            };
            if !matches!(from, From::Behind(_)) {
                // The position from which it continues if it must block.
                *from = From::Behind(last);
            }
            let Some((stream, start)) = stream.zip(start) else {
                return;
            };
            let mut entries = stream
                .range(start, StreamId::MAX, false)
                .take(limit)
                .peekable();
            // As in Redis, a stream without new entries is left out of the reply.
            if entries.peek().is_none() {
                return;
            }
            served += 1;
            begin_stream(reply, key);
            let (mark, mut length) = (reply.begin(), 0);
            for entry in entries {
                put_entry(reply, &entry);
                length += 1;
            }
            reply.end_array(mark, length);
        })?;
    }
    if served > 0 {
        end_streams(call.reply, mark, served);
        return Ok(());
    }
    let Some(block_ms) = arguments.block_ms else {
        call.reply.null_array();
        return Ok(());
    };
    let line = WaitLine::Entries;
    call.wait_for(arguments.keys, line, block_ms, |reply| {
        reply.null_array();
    });
    // A nested command has not been blocked.
    if let Some(wait) = &mut call.wait {
        for (awaited, from) in wait.keys.iter_mut().zip(&from) {
            if let From::Behind(id) = from {
                awaited.behind = *id;
            }
        }
        debug_assert_eq!(from.len(), arguments.keys.len(), "each key has a position");
        // After the wait the command runs again; `$` must be the last entry from before it blocked.
        let (keys, ids) = (arguments.keys.iter(), from.iter());
        let ids = ids.map(|from| match from {
            From::Behind(id) => id.to_string().into_bytes(),
            _ => b"$".to_vec(),
        });
        let before = call.args.len() - 2 * arguments.keys.len();
        let words = call.args.iter().take(before).chain(keys);
        let words = words.map(|word| word.to_vec()).chain(ids);
        wait.words = Some(words.collect());
    }
    Ok(())
}

/// Begins the entries of one stream: a pair of RESP2's array, or of RESP3's map.
fn begin_stream(reply: &mut RespReply, key: &[u8]) {
    if reply.protocol() == Protocol::Resp2 {
        reply.array(2);
    }
    reply.bulk(key);
}

fn end_streams(reply: &mut RespReply, mark: Mark, count: usize) {
    match reply.protocol() {
        Protocol::Resp2 => reply.end_array(mark, count),
        Protocol::Resp3 => reply.end_map(mark, count),
    }
}

fn check_type(call: &mut CommandCall<'_>, key: &[u8]) -> Answer {
    match call.keys.kind(key)? {
        Some(kind) if kind != StreamObject::KIND => Err(CommandError::WrongType),
        _ => Ok(()),
    }
}

fn xreadgroup(call: &mut CommandCall<'_>) -> Answer {
    let arguments = parse(call, true)?;
    let Some((group, _)) = arguments.group else {
        return Err(CommandError::Syntax);
    };
    let mut from = Vec::with_capacity(arguments.keys.len());
    for (&key, &word) in arguments.keys.iter().zip(arguments.from) {
        check_type(call, key)?;
        // All keys are checked before any entry is delivered.
        let has_group =
            |stream: Option<&StreamObject>| stream.is_some_and(|it| it.group(group).is_some());
        if !call.keys.read::<StreamObject, _>(key, has_group)? {
            let (key, group) = (text(key), text(group));
            return Err(CommandError::owned(format!(
                "NOGROUP No such key '{key}' or consumer group '{group}' in XREADGROUP with GROUP \
                 option"
            )));
        }
        from.push(match word {
            b"$" => {
                return Err(CommandError::text(
                    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read \
                     the history of this consumer by specifying a proper ID, or use the > ID to \
                     get new messages. The $ ID would just return an empty result set.",
                ));
            }
            b"+" => {
                return Err(CommandError::text(
                    "ERR The + ID is meaningless in the context of XREADGROUP: you want to read \
                     the history of this consumer by specifying a proper ID, or use the > ID to \
                     get new messages. The + ID would just return an empty result set.",
                ));
            }
            b">" => From::Undelivered,
            word => From::Behind(strict(word, 0)?),
        });
    }
    let (mark, mut served) = (call.reply.begin(), 0);
    for (&key, from) in arguments.keys.iter().zip(from) {
        served += usize::from(serve(call, &arguments, key, from)?);
    }
    if served > 0 {
        end_streams(call.reply, mark, served);
    } else if let Some(block_ms) = arguments.block_ms {
        let line = WaitLine::Group(group.to_vec());
        call.wait_for(arguments.keys, line, block_ms, |reply| {
            reply.null_array();
        });
    } else {
        call.reply.null_array();
    }
    Ok(())
}

/// The changes to a group, to be logged.
#[derive(Default)]
struct StreamDeliveryEffects {
    created: bool,
    /// True if there is a reply, though it may be empty.
    served: bool,
    /// The entries that are pending from now on, or were delivered again.
    pending: Vec<PendingStreamEntry>,
    /// The group's last identifier and the number of entries read, if they have changed.
    advanced: Option<(StreamId, Option<u64>)>,
}

/// Replies with the entries of one stream for a consumer. Returns true if there is such a reply.
fn serve(
    call: &mut CommandCall<'_>,
    arguments: &XreadArguments<'_>,
    key: &[u8],
    from: From,
) -> Result<bool, CommandError> {
    let Some((name, consumer)) = arguments.group else {
        return Ok(false);
    };
    let now_ms = call.keys.now_ms() as i64;
    let limit = arguments.count.unwrap_or(usize::MAX);
    let reply = &mut *call.reply;
    let delivered = call.keys.edit_present::<StreamObject, _>(key, |stream| {
        let progress = stream.progress();
        let last_id = stream.group(name)?.last_id;
        let has_new = stream.last().is_some_and(|last| last.id > last_id);
        let (number, created) = stream.group_mut(name)?.find_or_create(consumer, now_ms);
        stream.group_mut(name)?.see(number, now_ms);
        let mut delivered = StreamDeliveryEffects {
            created,
            ..StreamDeliveryEffects::default()
        };
        // As in Redis, the consumer exists from here on, even if it gets nothing.
        if from == From::Undelivered && !has_new {
            return Some(delivered);
        }
        delivered.served = true;
        begin_stream(reply, key);
        if let From::Behind(id) = from {
            delivered.pending = put_history(reply, stream, name, number, id, limit);
            let group = stream.group_mut(name)?;
            for pending in &mut delivered.pending {
                // As in Redis, reading the history is another delivery.
                pending.delivered_ms = now_ms;
                pending.deliveries = pending.deliveries.wrapping_add(1);
                group.set_pending(*pending);
            }
            return Some(delivered);
        }
        let (mark, mut ids) = (reply.begin(), Vec::new());
        for entry in stream
            .range(last_id.next()?, StreamId::MAX, false)
            .take(limit)
        {
            put_entry(reply, &entry);
            ids.push(entry.id);
        }
        reply.end_array(mark, ids.len());
        let group = stream.group_mut(name)?;
        for id in ids {
            group.advance(id, &progress);
            debug_assert!(id > last_id, "only new entries are delivered");
            if arguments.no_ack {
                continue;
            }
            let pending = PendingStreamEntry {
                id,
                consumer: number,
                delivered_ms: now_ms,
                deliveries: 1,
            };
            group.set_pending(pending);
            delivered.pending.push(pending);
        }
        // As in Redis, a consumer that need not acknowledge is not active.
        if !arguments.no_ack {
            group.see_active(number, now_ms);
        }
        // With NOACK nothing is pending, but the group has advanced all the same.
        delivered.advanced = Some((group.last_id, group.entries_read));
        Some(delivered)
    })?;
    let Some(delivered) = delivered.flatten() else {
        return Ok(false);
    };
    log(call, key, arguments, &delivered);
    Ok(delivered.served)
}

/// Replies with the entries after `behind` that a consumer has not acknowledged. Returns those of
/// them that were delivered again.
fn put_history(
    reply: &mut RespReply,
    stream: &StreamObject,
    group: &[u8],
    consumer: u32,
    behind: StreamId,
    limit: usize,
) -> Vec<PendingStreamEntry> {
    let (mark, mut length) = (reply.begin(), 0);
    let mut again = Vec::new();
    if let Some((group, start)) = stream.group(group).zip(behind.next()) {
        for pending in group.pending_of(consumer, start).take(limit) {
            debug_assert!(pending.id > behind);
            match stream.get(pending.id) {
                Some(entry) => {
                    put_entry(reply, &entry);
                    again.push(*pending);
                }
                None => {
                    // The entry was deleted.
                    reply.array(2);
                    put_id(reply, pending.id);
                    reply.null_array();
                }
            }
            length += 1;
        }
    }
    reply.end_array(mark, length);
    again
}

/// Logs the deliveries.
fn log(
    call: &mut CommandCall<'_>,
    key: &[u8],
    arguments: &XreadArguments<'_>,
    delivered: &StreamDeliveryEffects,
) {
    let Some((group, consumer)) = arguments.group else {
        return;
    };
    if delivered.created {
        call.keys
            .changed_aside(key, Class::Stream, "xgroup-createconsumer");
        let words = [&b"XGROUP"[..], b"CREATECONSUMER", key, group, consumer];
        call.keys.effects().log_instead(&words);
    }
    if delivered.pending.is_empty() && delivered.advanced.is_none() {
        return;
    }
    let effects = call.keys.effects();
    effects.changes += 1;
    if !effects.logging {
        return;
    }
    // A replay must not read, so the log has the deliveries themselves.
    for pending in &delivered.pending {
        let (time, count) = (pending.delivered_ms, pending.deliveries);
        let texts = [pending.id.to_string(), time.to_string(), count.to_string()];
        log_delivery(effects, [key, group, consumer], &texts);
    }
    let Some((last_id, read)) = delivered.advanced else {
        return;
    };
    let (last_id, read) = (last_id.to_string(), read_text(read));
    let words = [
        &b"XGROUP"[..],
        b"SETID",
        key,
        group,
        last_id.as_bytes(),
        b"ENTRIESREAD",
        read.as_bytes(),
    ];
    effects.log_instead(&words);
}
