//! Commands that read ranges of entries.

use super::GROUP;
use super::id::{end, start};
use crate::command::{Answer, CommandCall, CommandDefinition, integer, is};
use crate::error::CommandError;
use crate::keyspace::KeyView;
use crate::object::stream::StreamEntry;
use crate::object::{StreamId, StreamObject};
use crate::resp::RespReply;

pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("xlen", 2, xlen)
        .reads()
        .fast()
        .key(1)
        .about(GROUP, "5.0.0", "O(1)")
        .summary("Returns the number of entries of a stream."),
    CommandDefinition::new("xrange", -4, |call| range(call, false))
        .reads()
        .key(1)
        .about(GROUP, "5.0.0", "O(log N + M) for M entries of N")
        .summary("Returns the entries between two identifiers."),
    CommandDefinition::new("xrevrange", -4, |call| range(call, true))
        .reads()
        .key(1)
        .about(GROUP, "5.0.0", "O(log N + M) for M entries of N")
        .summary("Returns the entries between two identifiers, the last one first."),
];

/// Replies with an identifier.
pub(super) fn put_id(reply: &mut RespReply, id: StreamId) {
    reply.bulk(id.to_string().as_bytes());
}

/// Replies with an entry: its identifier, and its fields and values.
pub(super) fn put_entry(reply: &mut RespReply, entry: &StreamEntry<'_>) {
    reply.array(2);
    put_id(reply, entry.id);
    reply.array(2 * entry.len());
    entry.for_each(|field, value| {
        reply.bulk(field);
        reply.bulk(value);
    });
}

fn xlen(call: &mut CommandCall<'_>) -> Answer {
    let len = |stream: Option<&StreamObject>| stream.map_or(0, StreamObject::len);
    call.reply.count(call.keys.read(call.args[1], len)?);
    Ok(())
}

fn range(call: &mut CommandCall<'_>, reverse: bool) -> Answer {
    let (first, last) = match reverse {
        false => (call.args[2], call.args[3]),
        // XREVRANGE names the end of the interval first.
        true => (call.args[3], call.args[2]),
    };
    let (first, last) = (start(first)?, end(last)?);
    let mut count = None;
    let mut words = call.rest(4);
    while let [name, value, rest @ ..] = words {
        if !is(name, "count") {
            return Err(CommandError::Syntax);
        }
        // A negative count is the same as 0, for which the reply is a null array.
        count = Some(integer(value)?.max(0));
        words = rest;
    }
    if !words.is_empty() {
        return Err(CommandError::Syntax);
    }
    let reply = &mut *call.reply;
    call.keys.read::<StreamObject, _>(call.args[1], |stream| {
        let Some(stream) = stream else {
            reply.array(0);
            return;
        };
        if count == Some(0) {
            reply.null_array();
            return;
        }
        let limit = count.map_or(usize::MAX, |count| count as usize);
        let (mark, mut length) = (reply.begin(), 0);
        for entry in stream.range(first, last, reverse).take(limit) {
            put_entry(reply, &entry);
            length += 1;
        }
        reply.end_array(mark, length);
    })
}
