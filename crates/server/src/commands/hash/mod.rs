//! Commands on hashes.

pub(super) mod expiry;

use crate::command::parts::{
    CollectionScanOptions, REPEATED_MAX_DEVIATION, RandomDraw, SCANNED_MAX_DEVIATION, cursor,
};
use crate::command::{
    Answer, CommandCall, CommandDefinition, CommandGroup, PlannedCommand, Touch, is,
};
use crate::error::CommandError;
use crate::keyspace::{Class, KeyView};
use crate::long_double::LongDouble;
use crate::number::parse_integer;
use crate::object::node::counts;
use crate::object::{Hash, ObjectPart};
use crate::resp::RespReply;
use rand::seq::IndexedRandom;

const GROUP: CommandGroup = CommandGroup::Hash;

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::planned("hset", -4, Touch::Change, hset)
        .grows()
        .fast()
        .key(1)
        // The former values are replaced without being read.
        .part(|args| ObjectPart::Replaced(args.iter().skip(2).step_by(2).copied().collect()))
        .about(GROUP, "2.0.0", "O(1) for each field")
        .summary("Sets the values of fields. Creates the key if it does not exist."),
    CommandDefinition::planned("hmset", -4, Touch::Change, hmset)
        .grows()
        .fast()
        .key(1)
        .part(|args| ObjectPart::Replaced(args.iter().skip(2).step_by(2).copied().collect()))
        .about(GROUP, "2.0.0", "O(1) for each field")
        .summary("Sets the values of fields, as HSET does."),
    CommandDefinition::planned("hsetnx", 4, Touch::Change, hsetnx)
        .grows()
        .fast()
        .key(1)
        // Only the existence of the field matters, so no value is read.
        .part(counts)
        .about(GROUP, "2.0.0", "O(1)")
        .summary("Sets the value of a field if the field does not exist."),
    CommandDefinition::planned("hget", 3, Touch::Read, hget)
        .reads()
        .fast()
        .key(1)
        .part(one_field)
        .about(GROUP, "2.0.0", "O(1)")
        .summary("Returns the value of a field."),
    CommandDefinition::planned("hmget", -3, Touch::Read, hmget)
        .reads()
        .fast()
        .key(1)
        .part(|args| ObjectPart::Fields(args.iter().skip(2).copied().collect()))
        .about(GROUP, "2.0.0", "O(1) for each field")
        .summary("Returns the values of fields."),
    CommandDefinition::new("hgetall", 2, hgetall)
        .reads()
        .key(1)
        .about(GROUP, "2.0.0", "O(N) for N fields")
        .summary("Returns all fields and values."),
    CommandDefinition::new("hkeys", 2, hkeys)
        .reads()
        .key(1)
        .part(counts)
        .about(GROUP, "2.0.0", "O(N) for N fields")
        .summary("Returns all fields."),
    CommandDefinition::new("hvals", 2, hvals)
        .reads()
        .key(1)
        .about(GROUP, "2.0.0", "O(N) for N fields")
        .summary("Returns all values."),
    CommandDefinition::new("hlen", 2, hlen)
        .reads()
        .fast()
        .key(1)
        .part(counts)
        .about(GROUP, "2.0.0", "O(1)")
        .summary("Returns the number of fields."),
    CommandDefinition::new("hstrlen", 3, hstrlen)
        .reads()
        .fast()
        .key(1)
        .part(counts)
        .about(GROUP, "3.2.0", "O(1)")
        .summary("Returns the length of the value of a field."),
    CommandDefinition::new("hexists", 3, hexists)
        .reads()
        .fast()
        .key(1)
        .part(counts)
        .about(GROUP, "2.0.0", "O(1)")
        .summary("Returns 1 if a field exists."),
    CommandDefinition::planned("hdel", -3, Touch::Change, hdel)
        .writes()
        .fast()
        .key(1)
        .part(counts)
        .about(GROUP, "2.0.0", "O(1) for each field")
        .summary("Removes fields. Deletes the key if it becomes empty."),
    CommandDefinition::planned("hincrby", 4, Touch::Change, hincrby)
        .grows()
        .fast()
        .key(1)
        .part(one_field)
        .about(GROUP, "2.0.0", "O(1)")
        .summary("Adds to the integer that is the value of a field."),
    CommandDefinition::new("hincrbyfloat", 4, hincrbyfloat)
        .grows()
        .fast()
        .key(1)
        .part(one_field)
        .about(GROUP, "2.6.0", "O(1)")
        .summary("Adds to the number that is the value of a field."),
    CommandDefinition::new("hrandfield", -2, hrandfield)
        .reads()
        .key(1)
        // Random fields are known only once they are drawn.
        .part(drawn)
        .about(GROUP, "6.2.0", "O(N) for N fields that are returned")
        .summary("Returns random fields.")
        .differs(REPEATED_MAX_DEVIATION),
    CommandDefinition::new("hscan", -3, hscan)
        .reads()
        .key(1)
        .part(stepped)
        .about(GROUP, "2.8.0", "O(1) for each call, O(N) for all N fields")
        .summary("Iterates over the fields and values of a hash.")
        .differs(SCANNED_MAX_DEVIATION),
];

/// Returns the field that the second argument names.
pub fn one_field<'a>(args: &[&'a [u8]]) -> ObjectPart<'a> {
    ObjectPart::Fields(args.iter().skip(2).take(1).copied().collect())
}

/// Returns the part of random fields: all values if they are requested, because the fields are not
/// known before they are drawn.
fn drawn<'a>(args: &[&'a [u8]]) -> ObjectPart<'a> {
    match args.len() {
        // Without WITHVALUES no value is read.
        ..4 => ObjectPart::Counts,
        _ => ObjectPart::All,
    }
}

/// Returns the part of a step of a scan. Arguments that do not parse read no value.
fn stepped<'a>(args: &[&'a [u8]]) -> ObjectPart<'a> {
    let (Some(cursor), Some(step)) = (
        args.get(2).and_then(|argument| self::cursor(argument).ok()),
        args.get(3..)
            .and_then(|options| CollectionScanOptions::parse(options, Some("novalues")).ok()),
    ) else {
        return ObjectPart::Counts;
    };
    match step.values {
        true => ObjectPart::Step {
            cursor,
            count: step.count,
        },
        false => ObjectPart::Counts,
    }
}

/// Sets all fields of the command, and returns the number of fields that had no value before.
fn set_all(planned: &mut PlannedCommand<'_>, name: &'static str) -> Result<usize, CommandError> {
    let (pairs, []) = planned.rest(2).as_chunks::<2>() else {
        return Err(CommandError::WrongArity(name.into()));
    };
    let created = planned.edit::<Hash, _>(0, |hash, limits| {
        let set = |&[field, value]: &[&[u8]; 2]| usize::from(hash.set(limits, field, value));
        pairs.iter().map(set).sum()
    })?;
    // As in Redis, HSET counts as a change even if the values are the same.
    planned.changed(0, Class::Hash, "hset");
    Ok(created)
}

fn hset(planned: &mut PlannedCommand<'_>) -> Answer {
    let created = set_all(planned, "hset")?;
    planned.reply.count(created);
    Ok(())
}

fn hmset(planned: &mut PlannedCommand<'_>) -> Answer {
    set_all(planned, "hmset")?;
    planned.reply.ok();
    Ok(())
}

fn hsetnx(planned: &mut PlannedCommand<'_>) -> Answer {
    let (field, value) = (planned.args[2], planned.args[3]);
    let created = planned.edit::<Hash, _>(0, |hash, limits| {
        !hash.contains(field) && hash.set(limits, field, value)
    })?;
    if created {
        planned.changed(0, Class::Hash, "hset");
    }
    planned.reply.integer(i64::from(created));
    Ok(())
}

fn hget(planned: &mut PlannedCommand<'_>) -> Answer {
    let field = planned.args[2];
    planned.read::<Hash, _>(0, |reply, hash| {
        reply.bulk_or_null(hash.and_then(|hash| hash.get(field)));
    })
}

fn hmget(planned: &mut PlannedCommand<'_>) -> Answer {
    let fields = planned.rest(2);
    planned.read::<Hash, _>(0, |reply, hash| {
        reply.array(fields.len());
        for field in fields {
            reply.bulk_or_null(hash.and_then(|hash| hash.get(field)));
        }
    })
}

fn hgetall(call: &mut CommandCall<'_>) -> Answer {
    let reply = &mut *call.reply;
    call.keys.read::<Hash, _>(call.args[1], |hash| {
        // Expired fields are still stored, and count only for HLEN, as in Redis.
        reply.map(hash.map_or(0, Hash::visible_count));
        for (field, value) in hash.into_iter().flat_map(Hash::iter) {
            reply.bulk(field);
            reply.bulk(value);
        }
    })
}

fn hkeys(call: &mut CommandCall<'_>) -> Answer {
    let reply = &mut *call.reply;
    call.keys.read::<Hash, _>(call.args[1], |hash| {
        reply.array(hash.map_or(0, Hash::visible_count));
        let fields = hash.into_iter().flat_map(Hash::fields);
        fields.for_each(|field| reply.bulk(field));
    })
}

fn hvals(call: &mut CommandCall<'_>) -> Answer {
    let reply = &mut *call.reply;
    call.keys.read::<Hash, _>(call.args[1], |hash| {
        reply.array(hash.map_or(0, Hash::visible_count));
        let fields = hash.into_iter().flat_map(Hash::iter);
        fields.for_each(|(_, value)| reply.bulk(value));
    })
}

fn hlen(call: &mut CommandCall<'_>) -> Answer {
    let len = |hash: Option<&Hash>| hash.map_or(0, Hash::len);
    call.reply.count(call.keys.read(call.args[1], len)?);
    Ok(())
}

fn hstrlen(call: &mut CommandCall<'_>) -> Answer {
    let field = call.args[2];
    let len = call.keys.read::<Hash, _>(call.args[1], |hash| {
        hash.and_then(|hash| hash.value_len(field))
    })?;
    call.reply.count(len.unwrap_or(0));
    Ok(())
}

fn hexists(call: &mut CommandCall<'_>) -> Answer {
    let field = call.args[2];
    let exists = call.keys.read::<Hash, _>(call.args[1], |hash| {
        hash.is_some_and(|hash| hash.contains(field))
    })?;
    call.reply.integer(i64::from(exists));
    Ok(())
}

fn hdel(planned: &mut PlannedCommand<'_>) -> Answer {
    let fields = planned.rest(2);
    let removed = planned.edit_present::<Hash, _>(0, |_, hash| {
        fields.iter().filter(|field| hash.remove(field)).count()
    })?;
    let removed = removed.unwrap_or(0);
    if removed > 0 {
        planned.changed(0, Class::Hash, "hdel");
    }
    planned.reply.count(removed);
    Ok(())
}

fn hincrby(planned: &mut PlannedCommand<'_>) -> Answer {
    let (field, summand) = (planned.args[2], planned.integer(3)?);
    let sum = planned.edit::<Hash, _>(0, |hash, limits| {
        let value = match hash.get(field) {
            Some(value) => parse_integer(value)
                .ok_or(CommandError::text("ERR hash value is not an integer"))?,
            None => 0,
        };
        let sum = value.checked_add(summand).ok_or(CommandError::text(
            "ERR increment or decrement would overflow",
        ))?;
        // As in Redis, an increment keeps the expiry of the field.
        hash.set_value(limits, field, itoa::Buffer::new().format(sum).as_bytes());
        Ok::<_, CommandError>(sum)
    })??;
    planned.changed(0, Class::Hash, "hincrby");
    planned.reply.integer(sum);
    Ok(())
}

fn hincrbyfloat(call: &mut CommandCall<'_>) -> Answer {
    let (key, field, summand) = (call.args[1], call.args[2], call.args[3]);
    let summand = LongDouble::parse(summand).ok_or(CommandError::NotFloat)?;
    // As in Redis, this is refused before the value is read.
    if summand.is_infinite() {
        return Err(CommandError::text("ERR value is NaN or Infinity"));
    }
    const TOO_LARGE: CommandError =
        CommandError::text("ERR increment would produce NaN or Infinity");
    let (sum, expires) = call.keys.edit::<Hash, _>(key, |hash, limits| {
        let value = hash.get(field).unwrap_or(b"0");
        let Some(value) = LongDouble::parse(value) else {
            return Err(CommandError::text("ERR hash value is not a float"));
        };
        let sum = value.plus(summand).ok_or(TOO_LARGE)?.format();
        hash.set_value(limits, field, sum.as_bytes());
        Ok::<_, CommandError>((sum, hash.expires_at_ms(field).is_some()))
    })??;
    call.keys.changed(key, Class::Hash, "hincrbyfloat");
    // The log must not depend on the floating-point addition of the machine that reads it.
    let before: &[&[u8]] = match expires {
        // HSET would remove the expiry of the field.
        true => &[b"HSETEX", key, b"KEEPTTL", b"FIELDS", b"1"],
        false => &[b"HSET", key],
    };
    let words = [before, &[field, sum.as_bytes()]].concat();
    call.keys.effects().log_instead(&words);
    call.reply.bulk(sum.as_bytes());
    Ok(())
}

fn hrandfield(call: &mut CommandCall<'_>) -> Answer {
    let Some(&count) = call.args.get(2) else {
        let reply = &mut *call.reply;
        return call.keys.read::<Hash, _>(call.args[1], |hash| {
            reply.bulk_or_null(hash.and_then(|hash| hash.random_field(&mut rand::rng())));
        });
    };
    let draw = RandomDraw::parse(count)?;
    let values = match *call.rest(3) {
        [] => false,
        [option] if is(option, "withvalues") => true,
        _ => return Err(CommandError::Syntax),
    };
    let reply = &mut *call.reply;
    call.keys.read::<Hash, _>(call.args[1], |hash| {
        let len = hash.map_or(0, Hash::visible_count);
        // The number is known beforehand, so that the elements need not be collected.
        begin_draw(reply, draw.count(len), values);
        let Some(hash) = hash else { return };
        debug_assert!(len <= hash.len(), "the visible fields are some of all");
        let mut random = rand::rng();
        // Drawing one field is linear while there are expired ones. So those are left out once.
        let has_expired = len < hash.len();
        if !values {
            let seen: Option<Vec<_>> = has_expired.then(|| hash.fields().collect());
            let random = || {
                let field = match &seen {
                    Some(seen) => seen.choose(&mut random).copied()?,
                    None => hash.random_field(&mut random)?,
                };
                Some((field, field))
            };
            draw.draw(len, hash.fields(), random, |field| {
                reply.bulk(field);
                !reply.is_cut()
            });
            return;
        }
        let seen: Option<Vec<_>> = has_expired.then(|| hash.iter().collect());
        let random = || {
            let pair = match &seen {
                Some(seen) => seen.choose(&mut random).copied()?,
                None => hash.random(&mut random)?,
            };
            Some((pair.0, pair))
        };
        draw.draw(len, hash.iter(), random, |(field, value)| {
            reply.pair();
            reply.bulk(field);
            reply.bulk(value);
            !reply.is_cut()
        });
    })
}

/// Begins an array of `count` names, or of pairs.
fn begin_draw(reply: &mut RespReply, count: usize, pairs: bool) {
    if pairs {
        reply.pairs(count);
    } else {
        reply.array(count);
    }
}

fn hscan(call: &mut CommandCall<'_>) -> Answer {
    let (cursor, options) = (cursor(call.args[2])?, call.rest(3));
    let reply = &mut *call.reply;
    call.keys.read::<Hash, _>(call.args[1], |hash| {
        let mark = reply.begin();
        let Some(hash) = hash else {
            reply.end_scan(mark, 0, 0);
            return Ok(());
        };
        // As in Redis, the options are not checked if there is no key.
        let step = CollectionScanOptions::parse(options, Some("novalues"))?;
        let mut accepted = 0;
        let mut accepts = |field: &[u8]| {
            let accepts = step.accepts(field);
            accepted += usize::from(accepts);
            accepts
        };
        let next = match step.values {
            true => hash.scan(cursor, step.count, |field, value| {
                if accepts(field) {
                    reply.bulk(field);
                    reply.bulk(value);
                }
            }),
            false => hash.scan_fields(cursor, step.count, |field| {
                if accepts(field) {
                    reply.bulk(field);
                }
            }),
        };
        reply.end_scan(mark, next, accepted * (1 + usize::from(step.values)));
        Ok(())
    })?
}
