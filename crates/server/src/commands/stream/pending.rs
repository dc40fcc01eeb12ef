//! The command that lists entries which consumers have not acknowledged.

use super::GROUP;
use super::group::no_key_or_group;
use super::id::{end, start};
use super::range::put_id;
use crate::command::{Answer, CommandCall, CommandDefinition, integer, is};
use crate::error::CommandError;
use crate::keyspace::KeyView;
use crate::object::stream::{ConsumerGroup, PendingStreamEntry};
use crate::object::{StreamId, StreamObject};
use crate::resp::RespReply;

pub const COMMANDS: &[CommandDefinition] = &[CommandDefinition::new("xpending", -3, xpending)
    .reads()
    .key(1)
    .about(GROUP, "5.0.0", "O(N) for N visited entries")
    .summary("Returns the pending entries of a group, which no consumer has acknowledged.")];

/// The arguments of the longer form of the command.
struct XpendingQuery<'a> {
    idle_ms: i64,
    first: StreamId,
    last: StreamId,
    count: usize,
    consumer: Option<&'a [u8]>,
}

impl<'a> XpendingQuery<'a> {
    fn parse(words: &'a [&'a [u8]]) -> Result<Option<XpendingQuery<'a>>, CommandError> {
        let (idle_ms, words) = match words {
            [] => return Ok(None),
            [_] | [_, _] => return Err(CommandError::Syntax),
            _ if words.len() > 6 => return Err(CommandError::Syntax),
            [name, idle, rest @ ..] if is(name, "idle") => (integer(idle)?, rest),
            words => (0, words),
        };
        let [first, last, count, rest @ ..] = words else {
            return Err(CommandError::Syntax);
        };
        // As in Redis, a negative count is 0.
        let count = integer(count)?.max(0);
        Ok(Some(XpendingQuery {
            idle_ms,
            count: count as usize,
            first: start(first)?,
            last: end(last)?,
            consumer: rest.first().copied(),
        }))
    }

    fn put(&self, reply: &mut RespReply, group: &ConsumerGroup, now_ms: i64) {
        let pending: &mut dyn Iterator<Item = &PendingStreamEntry> = match self.consumer {
            None => &mut group.pending_from(self.first),
            Some(name) => match group.find(name) {
                Some(number) => &mut group.pending_of(number, self.first),
                // As in Redis, a consumer that does not exist has no pending entries.
                None => return reply.array(0),
            },
        };
        let (mark, mut length) = (reply.begin(), 0);
        let idle = |it: &PendingStreamEntry| now_ms.saturating_sub(it.delivered_ms);
        let is_wanted = |it: &&PendingStreamEntry| self.idle_ms == 0 || idle(it) >= self.idle_ms;
        let pending = pending.take_while(|it| it.id <= self.last);
        for it in pending.filter(is_wanted).take(self.count) {
            reply.array(4);
            put_id(reply, it.id);
            let consumer = group.consumer(it.consumer);
            reply.bulk(consumer.map_or(&[][..], |consumer| consumer.name()));
            reply.integer(idle(it).max(0));
            reply.integer(it.deliveries as i64);
            length += 1;
        }
        reply.end_array(mark, length);
    }
}

fn xpending(call: &mut CommandCall<'_>) -> Answer {
    let search = XpendingQuery::parse(call.rest(3))?;
    let (key, name, now_ms) = (call.args[1], call.args[2], call.keys.now_ms() as i64);
    let reply = &mut *call.reply;
    call.keys.read::<StreamObject, _>(key, |stream| {
        let group = stream.and_then(|stream| stream.group(name));
        let group = group.ok_or_else(|| no_key_or_group(key, name))?;
        match &search {
            Some(search) => search.put(reply, group, now_ms),
            None => put_summary(reply, group),
        }
        Ok(())
    })?
}

fn put_summary(reply: &mut RespReply, group: &ConsumerGroup) {
    reply.array(4);
    reply.count(group.pending_count());
    let first = group.pending_from(StreamId::MIN).next();
    let (Some(first), Some(last)) = (first, group.last_pending()) else {
        reply.null();
        reply.null();
        reply.null_array();
        return;
    };
    debug_assert!(first.id <= last.id, "pending entries are in order");
    put_id(reply, first.id);
    put_id(reply, last.id);
    let (mark, mut length) = (reply.begin(), 0);
    for (_, consumer) in group.consumers() {
        if consumer.pending_count() > 0 {
            reply.array(2);
            reply.bulk(consumer.name());
            // As in Redis, this number is a string, unlike the sum of all.
            reply.bulk_integer(consumer.pending_count() as i64);
            length += 1;
        }
    }
    reply.end_array(mark, length);
}
