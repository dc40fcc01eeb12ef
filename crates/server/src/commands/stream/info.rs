//! Commands that describe streams, groups and consumers.

use super::GROUP;
use super::group::{text, wrong_subcommand};
use super::range::{put_entry, put_id};
use crate::command::help::help;
use crate::command::{Answer, CommandCall, CommandDefinition, Flags, integer, is};
use crate::error::CommandError;
use crate::keyspace::KeyView;
use crate::object::stream::{ConsumerGroup, NEVER_ACTIVE, StreamCounters, StreamEntry};
use crate::object::{StreamId, StreamObject};
use crate::resp::RespReply;

pub const COMMANDS: &[CommandDefinition] = &[CommandDefinition::container("xinfo", SUBCOMMANDS)
    .about(GROUP, "5.0.0", "Depends on subcommand.")
    .summary("A container for commands that describe streams.")];

const SUBCOMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("consumers", 4, consumers)
        .reads()
        .key(2)
        .about(GROUP, "5.0.0", "O(N) for N consumers")
        .summary("Describes the consumers of a group."),
    CommandDefinition::new("groups", 3, groups)
        .reads()
        .key(2)
        .about(GROUP, "5.0.0", "O(N) for N groups")
        .summary("Describes the groups of a stream."),
    CommandDefinition::new("help", 2, about)
        .flag(Flags::LOADING)
        .about(GROUP, "5.0.0", "O(1)")
        .summary("Describes the subcommands."),
    CommandDefinition::new("stream", -3, stream)
        .reads()
        .key(2)
        .about(GROUP, "5.0.0", "O(N) for N nodes")
        .summary("Describes a stream."),
];

/// The default number of entries that `FULL` shows.
const USUAL_COUNT: usize = 10;

fn read(
    call: &mut CommandCall<'_>,
    put: impl FnOnce(&mut RespReply, &StreamObject) -> Answer,
) -> Answer {
    let reply = &mut *call.reply;
    call.keys.read::<StreamObject, _>(call.args[2], |stream| {
        put(reply, stream.ok_or(CommandError::NoSuchKey)?)
    })?
}

fn consumers(call: &mut CommandCall<'_>) -> Answer {
    let (key, name, now_ms) = (call.args[2], call.args[3], call.keys.now_ms() as i64);
    read(call, |reply, stream| {
        let Some(group) = stream.group(name) else {
            let (name, key) = (text(name), text(key));
            return Err(CommandError::owned(format!(
                "NOGROUP No such consumer group '{name}' for key name '{key}'"
            )));
        };
        reply.array(group.consumer_count());
        for (_, consumer) in group.consumers() {
            reply.map(4);
            reply.bulk(b"name");
            reply.bulk(consumer.name());
            reply.bulk(b"pending");
            reply.count(consumer.pending_count());
            reply.bulk(b"idle");
            // The clock may have been set back since.
            reply.integer(now_ms.saturating_sub(consumer.seen_ms).max(0));
            reply.bulk(b"inactive");
            let inactive_ms = consumer
                .active_ms
                .map(|active| now_ms.saturating_sub(active));
            reply.integer(inactive_ms.unwrap_or(NEVER_ACTIVE));
        }
        Ok(())
    })
}

fn put_number(reply: &mut RespReply, number: Option<i64>) {
    match number {
        Some(number) => reply.integer(number),
        None => reply.null(),
    }
}

/// Replies with the progress of a group.
fn put_progress(reply: &mut RespReply, group: &ConsumerGroup, progress: &StreamCounters) {
    reply.bulk(b"last-delivered-id");
    put_id(reply, group.last_id);
    reply.bulk(b"entries-read");
    put_number(reply, group.entries_read.map(|read| read as i64));
    reply.bulk(b"lag");
    // The lag is unknown if entries between were deleted, or the counter was set by hand.
    put_number(reply, group.lag(progress));
}

fn groups(call: &mut CommandCall<'_>) -> Answer {
    read(call, |reply, stream| {
        let progress = stream.progress();
        reply.array(stream.groups().len());
        for group in stream.groups() {
            reply.map(6);
            reply.bulk(b"name");
            reply.bulk(group.name());
            reply.bulk(b"consumers");
            reply.count(group.consumer_count());
            reply.bulk(b"pending");
            reply.count(group.pending_count());
            put_progress(reply, group, &progress);
        }
        Ok(())
    })
}

fn stream(call: &mut CommandCall<'_>) -> Answer {
    if call.args.len() > 3 {
        // A missing key, or one of another type, is reported before invalid options.
        read(call, |_, _| Ok(()))?;
    }
    let full = match *call.rest(3) {
        [] => None,
        [full] if is(full, "full") => Some(USUAL_COUNT),
        [full, count, number] if is(full, "full") && is(count, "count") => {
            // As in Redis, a negative count means the default.
            let count = usize::try_from(integer(number)?).unwrap_or(USUAL_COUNT);
            // 0 means all.
            Some(if count == 0 { usize::MAX } else { count })
        }
        _ => return Err(wrong_subcommand(call)),
    };
    read(call, |reply, stream| {
        let progress = stream.progress();
        // The short form has the number of groups and both edges, the long one all of them.
        reply.map(if full.is_some() { 9 } else { 10 });
        reply.bulk(b"length");
        reply.count(stream.len());
        reply.bulk(b"radix-tree-keys");
        reply.count(stream.node_count());
        reply.bulk(b"radix-tree-nodes");
        reply.count(stream.radix_nodes());
        reply.bulk(b"last-generated-id");
        put_id(reply, progress.last_id);
        reply.bulk(b"max-deleted-entry-id");
        put_id(reply, progress.max_deleted);
        reply.bulk(b"entries-added");
        reply.integer(progress.entries_added as i64);
        reply.bulk(b"recorded-first-entry-id");
        put_id(reply, progress.first_id);
        match full {
            None => put_edges(reply, stream),
            Some(count) => put_all(reply, stream, &progress, count),
        }
        Ok(())
    })
}

fn put_edges(reply: &mut RespReply, stream: &StreamObject) {
    reply.bulk(b"groups");
    reply.count(stream.groups().len());
    let mut edge = |name: &str, entry: Option<StreamEntry<'_>>| {
        reply.bulk(name.as_bytes());
        match entry {
            Some(entry) => put_entry(reply, &entry),
            None => reply.null(),
        }
    };
    edge("first-entry", stream.first());
    edge("last-entry", stream.last());
}

fn put_all(reply: &mut RespReply, stream: &StreamObject, progress: &StreamCounters, count: usize) {
    reply.bulk(b"entries");
    let (mark, mut length) = (reply.begin(), 0);
    for entry in stream
        .range(StreamId::MIN, StreamId::MAX, false)
        .take(count)
    {
        put_entry(reply, &entry);
        length += 1;
    }
    reply.end_array(mark, length);
    reply.bulk(b"groups");
    reply.array(stream.groups().len());
    for group in stream.groups() {
        reply.map(7);
        reply.bulk(b"name");
        reply.bulk(group.name());
        put_progress(reply, group, progress);
        reply.bulk(b"pel-count");
        reply.count(group.pending_count());
        reply.bulk(b"pending");
        reply.array(group.pending_count().min(count));
        for pending in group.pending_from(StreamId::MIN).take(count) {
            reply.array(4);
            put_id(reply, pending.id);
            let consumer = group.consumer(pending.consumer);
            reply.bulk(consumer.map_or(&[][..], |consumer| consumer.name()));
            reply.integer(pending.delivered_ms);
            reply.integer(pending.deliveries as i64);
        }
        reply.bulk(b"consumers");
        reply.array(group.consumer_count());
        for (number, consumer) in group.consumers() {
            reply.map(5);
            reply.bulk(b"name");
            reply.bulk(consumer.name());
            reply.bulk(b"seen-time");
            reply.integer(consumer.seen_ms);
            reply.bulk(b"active-time");
            reply.integer(consumer.active_ms.unwrap_or(NEVER_ACTIVE));
            reply.bulk(b"pel-count");
            reply.count(consumer.pending_count());
            reply.bulk(b"pending");
            reply.array(consumer.pending_count().min(count));
            for pending in group.pending_of(number, StreamId::MIN).take(count) {
                reply.array(3);
                put_id(reply, pending.id);
                reply.integer(pending.delivered_ms);
                reply.integer(pending.deliveries as i64);
            }
        }
    }
}

fn about(call: &mut CommandCall<'_>) -> Answer {
    help(
        call,
        &[
            "CONSUMERS <key> <groupname>",
            "    Show consumers of <groupname>.",
            "GROUPS <key>",
            "    Show the stream consumer groups.",
            "STREAM <key> [FULL [COUNT <count>]",
            "    Show information about the stream.",
        ],
    )
}
