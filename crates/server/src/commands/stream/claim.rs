//! Commands that claim entries which other consumers have not acknowledged.

use super::GROUP;
use super::group::{no_key_or_group, read_text, text};
use super::id::{start, strict};
use super::range::{put_entry, put_id};
use crate::command::{Answer, CommandCall, CommandDefinition, integer, is};
use crate::error::CommandError;
use crate::keyspace::{Class, Effects, KeyView};
use crate::number::parse_integer;
use crate::object::stream::{ConsumerGroup, PendingStreamEntry};
use crate::object::{StreamId, StreamObject};
use crate::resp::RespReply;

pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("xclaim", -6, xclaim)
        .slowly_grows()
        .fast()
        .key(1)
        .about(
            GROUP,
            "5.0.0",
            "O(log N) for each identifier, and N that are pending",
        )
        .summary("Transfers pending entries to another consumer."),
    CommandDefinition::new("xautoclaim", -6, xautoclaim)
        .slowly_grows()
        .fast()
        .key(1)
        .about(GROUP, "6.2.0", "O(N) for COUNT N")
        .summary("Transfers entries that have been pending for a given time to another consumer."),
];

/// The number of entries that `XAUTOCLAIM` visits for each that it may claim.
const ATTEMPTS: usize = 10;

/// The options of a claim.
struct StreamClaimOptions {
    idle_ms: i64,
    now_ms: i64,
    delivered_ms: i64,
    deliveries: Option<u64>,
    force: bool,
    only_ids: bool,
    last_id: StreamId,
}

/// The effects of a claim, to be logged.
#[derive(Default)]
struct StreamClaimEffects {
    created: bool,
    claimed: Vec<(StreamId, u64)>,
    /// Entries that are deleted, so that no consumer can have them.
    deleted: Vec<StreamId>,
    /// The group's last identifier, if it has changed.
    advanced: Option<(StreamId, Option<u64>)>,
}

impl StreamClaimOptions {
    /// Finds or creates the consumer, which exists from now on even if it claims nothing.
    fn begin(&self, group: &mut ConsumerGroup, consumer: &[u8]) -> (u32, StreamClaimEffects) {
        let (number, created) = group.find_or_create(consumer, self.now_ms);
        group.see(number, self.now_ms);
        let done = StreamClaimEffects {
            created,
            ..StreamClaimEffects::default()
        };
        (number, done)
    }

    /// Gives an entry to a consumer or, if the entry is deleted, removes it from those pending.
    /// Returns true if it was claimed.
    fn take(
        &self,
        stream: &mut StreamObject,
        (group, consumer): (&[u8], u32),
        id: StreamId,
        reply: &mut RespReply,
        done: &mut StreamClaimEffects,
    ) -> bool {
        let is_there = stream.get(id).is_some();
        let Some(group) = stream.group_mut(group) else {
            return false;
        };
        let old = group.pending(id).copied();
        if !is_there {
            // As in Redis 7, nobody can read the entry any more, so it stops being pending.
            if old.is_some() {
                group.acknowledge(id);
                done.deleted.push(id);
            }
            return false;
        }
        let before = match old {
            Some(old) => {
                let idle_ms = self.now_ms.saturating_sub(old.delivered_ms);
                if self.idle_ms > 0 && idle_ms < self.idle_ms {
                    return false;
                }
                old.deliveries
            }
            // Counted as if it had been delivered once.
            None if self.force => 1,
            None => return false,
        };
        // During replay of a log, the delivery is later than the clock.
        group.see_active(consumer, self.now_ms.max(self.delivered_ms));
        debug_assert!(self.delivered_ms >= 0, "an invalid time is replaced");
        // As in Redis, JUSTID is no delivery.
        let counted = before.wrapping_add(u64::from(!self.only_ids));
        let deliveries = self.deliveries.unwrap_or(counted);
        group.set_pending(PendingStreamEntry {
            id,
            consumer,
            delivered_ms: self.delivered_ms,
            deliveries,
        });
        done.claimed.push((id, deliveries));
        match stream.get(id) {
            Some(entry) if !self.only_ids => put_entry(reply, &entry),
            _ => put_id(reply, id),
        }
        true
    }

    fn log(&self, call: &mut CommandCall<'_>, done: &StreamClaimEffects) {
        let (key, group, consumer) = (call.args[1], call.args[2], call.args[3]);
        if done.created {
            call.keys
                .changed_aside(key, Class::Stream, "xgroup-createconsumer");
        }
        let effects = call.keys.effects();
        effects.changes += (done.claimed.len() + done.deleted.len()) as u64;
        effects.changes += u64::from(done.advanced.is_some());
        // The changes are counted above in any case, for save points.
        if !effects.logging {
            return;
        }
        if done.created {
            effects.log_instead(&[&b"XGROUP"[..], b"CREATECONSUMER", key, group, consumer]);
        }
        let time = self.delivered_ms.to_string();
        for (id, deliveries) in &done.claimed {
            let texts = [id.to_string(), time.clone(), deliveries.to_string()];
            log_delivery(effects, [key, group, consumer], &texts);
        }
        for id in &done.deleted {
            let id = id.to_string();
            effects.log_instead(&[&b"XACK"[..], key, group, id.as_bytes()]);
        }
        if let Some((id, read)) = done.advanced {
            let (id, read) = (id.to_string(), read_text(read));
            effects.log_instead(&[
                &b"XGROUP"[..],
                b"SETID",
                key,
                group,
                id.as_bytes(),
                b"ENTRIESREAD",
                read.as_bytes(),
            ]);
        }
    }
}

/// Checks that the group exists.
fn check_group(call: &mut CommandCall<'_>) -> Answer {
    let (key, name) = (call.args[1], call.args[2]);
    let has_group =
        |stream: Option<&StreamObject>| stream.is_some_and(|it| it.group(name).is_some());
    match call.keys.read::<StreamObject, _>(key, has_group)? {
        true => Ok(()),
        false => Err(no_key_or_group(key, name)),
    }
}

/// Parses the least time since the last delivery.
fn idle_ms(argument: &[u8], name: &str) -> Result<i64, CommandError> {
    let refused = || format!("ERR Invalid min-idle-time argument for {name}");
    let idle = parse_integer(argument).ok_or_else(|| CommandError::owned(refused()))?;
    Ok(idle.max(0))
}

/// Parses the options of `XCLAIM` after the identifiers.
fn options(words: &[&[u8]], idle_ms: i64, now_ms: i64) -> Result<StreamClaimOptions, CommandError> {
    let mut claim = StreamClaimOptions {
        idle_ms,
        now_ms,
        delivered_ms: -1,
        deliveries: None,
        force: false,
        only_ids: false,
        last_id: StreamId::MIN,
    };
    let number = |word: &[u8], name: &str| {
        let refused = || format!("ERR Invalid {name} option argument for XCLAIM");
        parse_integer(word).ok_or_else(|| CommandError::owned(refused()))
    };
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        let has_more = words.len() > 0;
        let mut value = || words.next().copied().unwrap_or_default();
        if is(word, "force") {
            claim.force = true;
        } else if is(word, "justid") {
            claim.only_ids = true;
        } else if is(word, "idle") && has_more {
            // A result out of range is replaced below, like any other invalid time.
            claim.delivered_ms = now_ms.wrapping_sub(number(value(), "IDLE")?);
        } else if is(word, "time") && has_more {
            claim.delivered_ms = number(value(), "TIME")?;
        } else if is(word, "retrycount") && has_more {
            let count = number(value(), "RETRYCOUNT")?;
            claim.deliveries = u64::try_from(count).ok();
        } else if is(word, "lastid") && has_more {
            claim.last_id = strict(value(), 0)?;
        } else {
            let word = text(word);
            return Err(CommandError::owned(format!(
                "ERR Unrecognized XCLAIM option '{word}'"
            )));
        }
    }
    // An invalid time is replaced by now. During replay of a log, the clock is before all times.
    if claim.delivered_ms < 0 || (now_ms > 0 && claim.delivered_ms > now_ms) {
        claim.delivered_ms = now_ms;
    }
    Ok(claim)
}

fn xclaim(call: &mut CommandCall<'_>) -> Answer {
    check_group(call)?;
    let (key, name, consumer) = (call.args[1], call.args[2], call.args[3]);
    let now_ms = call.keys.now_ms() as i64;
    let idle_ms = idle_ms(call.args[4], "XCLAIM")?;
    let words = call.rest(5);
    // The list has no count: it ends at the first word that is no identifier, an option.
    let ids = words.iter().map_while(|word| strict(word, 0).ok());
    let ids: Vec<StreamId> = ids.collect();
    let claim = options(&words[ids.len()..], idle_ms, now_ms)?;
    let reply = &mut *call.reply;
    let done = call.keys.edit_present::<StreamObject, _>(key, |stream| {
        let group = stream.group_mut(name)?;
        let (consumer, mut done) = claim.begin(group, consumer);
        if claim.last_id > group.last_id {
            group.last_id = claim.last_id;
            done.advanced = Some((group.last_id, group.entries_read));
        }
        let (mark, mut length) = (reply.begin(), 0);
        for id in ids {
            length += usize::from(claim.take(stream, (name, consumer), id, reply, &mut done));
        }
        reply.end_array(mark, length);
        Some(done)
    })?;
    if let Some(done) = done.flatten() {
        claim.log(call, &done);
    }
    Ok(())
}

fn xautoclaim(call: &mut CommandCall<'_>) -> Answer {
    let (key, name, consumer) = (call.args[1], call.args[2], call.args[3]);
    let now_ms = call.keys.now_ms() as i64;
    let mut claim = StreamClaimOptions {
        idle_ms: idle_ms(call.args[4], "XAUTOCLAIM")?,
        now_ms,
        delivered_ms: now_ms,
        deliveries: None,
        force: false,
        only_ids: false,
        last_id: StreamId::MIN,
    };
    let first = start(call.args[5])?;
    let mut count = 100;
    let mut words = call.rest(6);
    loop {
        match words {
            [] => break,
            [option, value, rest @ ..] if is(option, "count") => {
                count = auto_count(value)?;
                words = rest;
            }
            [option, rest @ ..] if is(option, "justid") => {
                claim.only_ids = true;
                words = rest;
            }
            _ => return Err(CommandError::Syntax),
        }
    }
    check_group(call)?;
    let reply = &mut *call.reply;
    let done = call.keys.edit_present::<StreamObject, _>(key, |stream| {
        let group = stream.group_mut(name)?;
        let (consumer, mut done) = claim.begin(group, consumer);
        // One more than is visited, at which the next call continues.
        let looked_at = count.saturating_mul(ATTEMPTS);
        let mut ids = Vec::new();
        let mut taken = 0;
        for pending in group.pending_from(first) {
            ids.push(pending.id);
            if ids.len() > looked_at {
                break;
            }
        }
        let (mark, mut length) = (reply.begin(), 0);
        let mut ids = ids.into_iter();
        let mut next = ids.next();
        let mut attempts = looked_at;
        while let Some(id) = next.filter(|_| attempts > 0 && taken < count) {
            attempts -= 1;
            let deleted = done.deleted.len();
            if claim.take(stream, (name, consumer), id, reply, &mut done) {
                length += 1;
                taken += 1;
            } else if done.deleted.len() > deleted {
                // Deleted entries count as well, so that one call stays bounded.
                taken += 1;
            }
            next = ids.next();
        }
        reply.end_claim(mark, &next.unwrap_or(StreamId::MIN).to_string(), length);
        reply.array(done.deleted.len());
        done.deleted.iter().for_each(|&id| put_id(reply, id));
        Some(done)
    })?;
    if let Some(done) = done.flatten() {
        claim.log(call, &done);
    }
    Ok(())
}

fn auto_count(value: &[u8]) -> Result<usize, CommandError> {
    /// The largest count that Redis allows.
    const COUNT_MAX: i64 = i64::MAX / 16;
    let refused = CommandError::text("ERR COUNT must be > 0");
    let count = integer(value).map_err(|_| refused.clone())?;
    match count {
        1..=COUNT_MAX => Ok(count as usize),
        _ => Err(refused),
    }
}

/// Logs that an entry was delivered to a consumer: its id, the time, and the number of deliveries.
pub(super) fn log_delivery(
    effects: &mut Effects,
    [key, group, consumer]: [&[u8]; 3],
    [id, time, deliveries]: &[String; 3],
) {
    // As Redis does: FORCE makes an entry pending that a replay does not have, and JUSTID saves the
    // fields.
    effects.log_instead(&[
        &b"XCLAIM"[..],
        key,
        group,
        consumer,
        b"0",
        id.as_bytes(),
        b"TIME",
        time.as_bytes(),
        b"RETRYCOUNT",
        deliveries.as_bytes(),
        b"FORCE",
        b"JUSTID",
    ]);
}
