//! Commands on the expiry of a hash's fields.
//!
//! Redis 8 and Valkey 9 do the same and reply the same. Where they differ, such as in the texts of
//! errors, this follows Redis 8.

use crate::command::{Answer, CommandCall, CommandDefinition, CommandFunction, CommandGroup, is};
use crate::commands::generic::expiry::{Conditions, ExpiryTimeUnit};
use crate::error::{CommandError, shown};
use crate::keyspace::{Class, KeyView};
use crate::number::parse_integer;
use crate::object::node::counts;
use crate::object::{FIELD_TIME_MS_MAX, Hash, ObjectPart, RedisType};

const GROUP: CommandGroup = CommandGroup::Hash;

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    expiring("hexpire", hexpire).summary("Sets the expiry of fields in seconds from now."),
    expiring("hpexpire", hpexpire).summary("Sets the expiry of fields in milliseconds from now."),
    expiring("hexpireat", hexpireat).summary("Sets the expiry of fields in seconds since 1970."),
    expiring("hpexpireat", hpexpireat)
        .summary("Sets the expiry of fields in milliseconds since 1970."),
    telling("httl", httl).summary("Returns the remaining time to live of fields in seconds."),
    telling("hpttl", hpttl)
        .summary("Returns the remaining time to live of fields in milliseconds."),
    telling("hexpiretime", hexpiretime)
        .summary("Returns the expiry times of fields in seconds since 1970."),
    telling("hpexpiretime", hpexpiretime)
        .summary("Returns the expiry times of fields in milliseconds since 1970."),
    on_times("hpersist", -5, hpersist)
        .writes()
        .summary("Removes the expiry of fields."),
    CommandDefinition::new("hgetex", -5, hgetex)
        // An expiry takes a little memory.
        .slowly_grows()
        .fast()
        .key(1)
        .part(|args| ObjectPart::Fields(named(args)))
        .about(GROUP, "8.0.0", "O(N) for N fields")
        .summary("Returns the values of fields and changes their expiry."),
    CommandDefinition::new("hsetex", -6, hsetex)
        .grows()
        .fast()
        .key(1)
        .part(|args| ObjectPart::Replaced(named(args).into_iter().step_by(2).collect()))
        .about(GROUP, "8.0.0", "O(N) for N fields")
        .summary("Sets the values of fields and their expiry."),
    CommandDefinition::new("hgetdel", -5, hgetdel)
        .writes()
        .fast()
        .key(1)
        .part(|args| ObjectPart::Fields(named(args)))
        .about(GROUP, "8.0.0", "O(N) for N fields")
        .summary("Returns the values of fields and removes the fields."),
];

const fn expiring(name: &'static str, run: CommandFunction) -> CommandDefinition {
    on_times(name, -6, run).slowly_grows()
}

const fn telling(name: &'static str, run: CommandFunction) -> CommandDefinition {
    on_times(name, -5, run).reads()
}

/// Creates a command on the expiry of fields, which reads no value.
const fn on_times(name: &'static str, arity: i32, run: CommandFunction) -> CommandDefinition {
    CommandDefinition::new(name, arity, run)
        .fast()
        .key(1)
        .part(counts)
        .about(GROUP, "7.4.0", "O(N) for N fields")
}

/// The reply for a missing field. `NO_TIME` is the reply for a field that never expires.
const NO_FIELD: i64 = -2;
const NO_TIME: i64 = -1;

const NEGATIVE: CommandError = CommandError::text("ERR invalid expire time, must be >= 0");
const NO_WORD: CommandError =
    CommandError::text("ERR Mandatory argument FIELDS is missing or not at the right position");
const NOT_SO_MANY: CommandError =
    CommandError::text("ERR The `numfields` parameter must match the number of arguments");
const NOT_POSITIVE: CommandError =
    CommandError::text("ERR Number of fields must be a positive integer");

/// Returns the words after `FIELDS` and its number, without checking the number.
fn named<'a>(args: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let options = args.iter().skip(2);
    // No option before it takes this word as its argument.
    let mut rest = options.skip_while(|word| !is(word, "fields"));
    let _word_and_number = (rest.next(), rest.next());
    rest.copied().collect()
}

/// Parses a number. Returns it and the words after it.
fn counted<'a>(
    words: &'a [&'a [u8]],
    not_positive: CommandError,
) -> Result<(usize, &'a [&'a [u8]]), CommandError> {
    let Some((count, words)) = words.split_first() else {
        return Err(NOT_SO_MANY);
    };
    let count = parse_integer(count).and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|&count| count > 0).ok_or(not_positive)?;
    Ok((count, words))
}

/// Parses `FIELDS`, the number of fields and the fields.
fn fields<'a>(
    words: &'a [&'a [u8]],
    not_positive: CommandError,
) -> Result<&'a [&'a [u8]], CommandError> {
    match words {
        [word, rest @ ..] if is(word, "fields") => {
            let (count, fields) = counted(rest, not_positive)?;
            match fields.len() == count {
                true => Ok(fields),
                false => Err(NOT_SO_MANY),
            }
        }
        _ => Err(NO_WORD),
    }
}

/// Refuses a key of another type before anything else is checked.
fn check_type(call: &mut CommandCall<'_>) -> Answer {
    match call.keys.kind(call.args[1])? {
        Some(kind) if kind != RedisType::Hash => Err(CommandError::WrongType),
        _ => Ok(()),
    }
}

/// Parses an argument as the expiry of a field, for a command of this name.
fn time_of(
    call: &CommandCall<'_>,
    time: ExpiryTimeUnit,
    argument: &[u8],
    name: &str,
) -> Result<u64, CommandError> {
    let value = parse_integer(argument).ok_or(CommandError::NotInteger)?;
    if value < 0 {
        return Err(NEGATIVE);
    }
    let at_ms = time.milliseconds(value, call.keys.now_ms());
    let at_ms = at_ms.and_then(|at_ms| u64::try_from(at_ms).ok());
    at_ms
        .filter(|at_ms| *at_ms <= FIELD_TIME_MS_MAX)
        .ok_or_else(|| crate::commands::generic::expiry::invalid_time(name))
}

/// Logs the words `before`, followed by these fields and their number, in place of the command.
fn log(call: &mut CommandCall<'_>, before: &[&[u8]], fields: &[&[u8]]) {
    debug_assert!(!fields.is_empty(), "a replay would refuse the command");
    let count = fields.len().to_string();
    let words = [before, &[b"FIELDS", count.as_bytes()], fields].concat();
    call.keys.effects().log_instead(&words);
}

/// Reports that fields were removed, and logs it.
fn deleted(call: &mut CommandCall<'_>, fields: &[&[u8]]) {
    debug_assert!(!fields.is_empty(), "a replay would refuse the command");
    let key = call.args[1];
    call.keys.changed(key, Class::Hash, "hdel");
    let words = [&[&b"HDEL"[..], key], fields].concat();
    call.keys.effects().log_instead(&words);
}

/// Reports that fields were given an expiry, and logs it.
fn timed(call: &mut CommandCall<'_>, at_ms: u64, fields: &[&[u8]]) {
    let key = call.args[1];
    call.keys.changed(key, Class::Hash, "hexpire");
    // The log is replayed at another time, so it has the expiry instead of the time to live.
    let at_ms = at_ms.to_string();
    log(call, &[b"HPEXPIREAT", key, at_ms.as_bytes()], fields);
}

/// Reports that fields were made to never expire, and logs it.
fn persisted(call: &mut CommandCall<'_>, fields: &[&[u8]]) {
    let key = call.args[1];
    call.keys.changed(key, Class::Hash, "hpersist");
    log(call, &[b"HPERSIST", key], fields);
}

fn hexpire(call: &mut CommandCall<'_>) -> Answer {
    expire(call, "hexpire", ExpiryTimeUnit::IN_SECONDS)
}

fn hpexpire(call: &mut CommandCall<'_>) -> Answer {
    expire(call, "hpexpire", ExpiryTimeUnit::IN_MILLISECONDS)
}

fn hexpireat(call: &mut CommandCall<'_>) -> Answer {
    expire(call, "hexpireat", ExpiryTimeUnit::AT_SECONDS)
}

fn hpexpireat(call: &mut CommandCall<'_>) -> Answer {
    expire(call, "hpexpireat", ExpiryTimeUnit::AT_MILLISECONDS)
}

fn expire(call: &mut CommandCall<'_>, name: &str, time: ExpiryTimeUnit) -> Answer {
    check_type(call)?;
    let at_ms = time_of(call, time, call.args[2], name)?;
    let words = call.rest(3);
    let is_condition = |word: &&[u8]| ["nx", "xx", "gt", "lt"].iter().any(|it| is(word, it));
    // As in Redis, only one condition is possible here, while EXPIRE takes several.
    let (condition, words) = words.split_at(usize::from(words.first().is_some_and(is_condition)));
    let conditions = Conditions::parse(condition)?;
    const NOT_ABOVE_ZERO: CommandError =
        CommandError::text("ERR Parameter `numFields` should be greater than 0");
    let fields = fields(words, NOT_ABOVE_ZERO)?;
    let (limits, has_expired) = (call.keys.limits(), call.keys.has_expired(Some(at_ms)));
    let mut changed = Vec::new();
    // Fields of an absent key are absent.
    let mut answers = vec![NO_FIELD; fields.len()];
    call.keys.edit_present::<Hash, _>(call.args[1], |hash| {
        for (&field, answer) in fields.iter().zip(&mut answers) {
            if !hash.contains(field) {
                continue;
            }
            debug_assert!(at_ms <= FIELD_TIME_MS_MAX, "`time_of` bounds it");
            if !conditions.allow(hash.expires_at_ms(field), at_ms as i64) {
                *answer = 0;
                continue;
            }
            changed.push(field);
            if has_expired {
                hash.remove(field);
                // As in Redis, 2 stands for a field that was deleted at once.
                *answer = 2;
            } else {
                hash.set_time(&limits, field, Some(at_ms));
                *answer = 1;
            }
        }
    })?;
    match (changed.is_empty(), has_expired) {
        (true, _) => {}
        (_, true) => deleted(call, &changed),
        (_, false) => timed(call, at_ms, &changed),
    }
    answer_all(call, &answers);
    Ok(())
}

fn answer_all(call: &mut CommandCall<'_>, answers: &[i64]) {
    call.reply.array(answers.len());
    answers.iter().for_each(|&it| call.reply.integer(it));
}

fn httl(call: &mut CommandCall<'_>) -> Answer {
    remaining(call, ExpiryTimeUnit::IN_SECONDS)
}

fn hpttl(call: &mut CommandCall<'_>) -> Answer {
    remaining(call, ExpiryTimeUnit::IN_MILLISECONDS)
}

fn hexpiretime(call: &mut CommandCall<'_>) -> Answer {
    remaining(call, ExpiryTimeUnit::AT_SECONDS)
}

fn hpexpiretime(call: &mut CommandCall<'_>) -> Answer {
    remaining(call, ExpiryTimeUnit::AT_MILLISECONDS)
}

fn remaining(call: &mut CommandCall<'_>, time: ExpiryTimeUnit) -> Answer {
    check_type(call)?;
    let fields = fields(call.rest(2), NOT_POSITIVE)?;
    let now_ms = call.keys.now_ms();
    let reply = &mut *call.reply;
    call.keys.read::<Hash, _>(call.args[1], |hash| {
        reply.array(fields.len());
        for field in fields {
            let hash = hash.filter(|hash| hash.contains(field));
            reply.integer(match hash.map(|hash| hash.expires_at_ms(field)) {
                None => NO_FIELD,
                Some(None) => NO_TIME,
                // As in Redis, HTTL rounds up, while TTL rounds to the nearest second.
                Some(Some(at_ms)) => time.left(at_ms, now_ms),
            });
        }
    })
}

fn hpersist(call: &mut CommandCall<'_>) -> Answer {
    check_type(call)?;
    let fields = fields(call.rest(2), NOT_POSITIVE)?;
    let limits = call.keys.limits();
    let mut changed = Vec::new();
    let mut answers = vec![NO_FIELD; fields.len()];
    call.keys.edit_present::<Hash, _>(call.args[1], |hash| {
        for (&field, answer) in fields.iter().zip(&mut answers) {
            if !hash.contains(field) {
                continue;
            }
            *answer = NO_TIME;
            if hash.expires_at_ms(field).is_some() {
                hash.set_time(&limits, field, None);
                changed.push(field);
                *answer = 1;
            }
        }
    })?;
    if !changed.is_empty() {
        persisted(call, &changed);
    }
    answer_all(call, &answers);
    Ok(())
}

/// The change to the expiry of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HashExpiryChange {
    /// The usual change of the command.
    Usual,
    /// No change.
    Keep,
    /// The removal of the expiry.
    Persist,
    /// A new expiry, in milliseconds since 1970.
    At(u64),
}

/// Returns the unit and origin of an option with a time.
fn option_of_time(word: &[u8]) -> Option<ExpiryTimeUnit> {
    let options = [
        ("ex", ExpiryTimeUnit::IN_SECONDS),
        ("px", ExpiryTimeUnit::IN_MILLISECONDS),
        ("exat", ExpiryTimeUnit::AT_SECONDS),
        ("pxat", ExpiryTimeUnit::AT_MILLISECONDS),
    ];
    let found = options.iter().find(|(name, _)| is(word, name));
    found.map(|(_, time)| *time)
}

fn hgetex(call: &mut CommandCall<'_>) -> Answer {
    check_type(call)?;
    let (change, words) = match call.rest(2) {
        [word, rest @ ..] if is(word, "persist") => (HashExpiryChange::Persist, rest),
        [word, argument, rest @ ..] if let Some(time) = option_of_time(word) => (
            HashExpiryChange::At(time_of(call, time, argument, "hgetex")?),
            rest,
        ),
        words => (HashExpiryChange::Usual, words),
    };
    let fields = fields(words, NOT_POSITIVE)?;
    let key = call.args[1];
    let reply = &mut *call.reply;
    // The reply has the values before a time that has passed removes their fields.
    call.keys.read::<Hash, _>(key, |hash| {
        reply.array(fields.len());
        for field in fields {
            reply.bulk_or_null(hash.and_then(|hash| hash.get(field)));
        }
    })?;
    if change == HashExpiryChange::Usual {
        return Ok(());
    }
    let limits = call.keys.limits();
    let has_expired =
        matches!(change, HashExpiryChange::At(at_ms) if call.keys.has_expired(Some(at_ms)));
    let mut changed = Vec::new();
    call.keys.edit_present::<Hash, _>(key, |hash| {
        for &field in fields {
            match change {
                _ if !hash.contains(field) => continue,
                HashExpiryChange::At(_) if has_expired => {
                    hash.remove(field);
                }
                HashExpiryChange::At(at_ms) => hash.set_time(&limits, field, Some(at_ms)),
                // PERSIST changes nothing, which must not be logged.
                _ if hash.expires_at_ms(field).is_none() => continue,
                _ => hash.set_time(&limits, field, None),
            }
            changed.push(field);
        }
    })?;
    match change {
        _ if changed.is_empty() => {}
        HashExpiryChange::At(_) if has_expired => deleted(call, &changed),
        HashExpiryChange::At(at_ms) => timed(call, at_ms, &changed),
        _ => persisted(call, &changed),
    }
    Ok(())
}

/// The condition on the existence of a command's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HashFieldCondition {
    None,
    Absent,
    Present,
}

/// The options of `HSETEX`, and its fields and values.
struct SetOptions<'a> {
    condition: HashFieldCondition,
    change: HashExpiryChange,
    pairs: &'a [[&'a [u8]; 2]],
}

impl<'a> SetOptions<'a> {
    fn parse(call: &CommandCall<'_>, mut words: &'a [&'a [u8]]) -> Result<Self, CommandError> {
        let (mut condition, mut change) = (HashFieldCondition::None, HashExpiryChange::Usual);
        const ONE_TIME: CommandError = CommandError::text(
            "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
        );
        const ONE_CONDITION: CommandError =
            CommandError::text("ERR Only one of FXX or FNX arguments can be specified");
        loop {
            let Some((word, rest)) = words.split_first() else {
                return Err(NO_WORD);
            };
            words = rest;
            if is(word, "fields") {
                break;
            }
            if is(word, "fnx") || is(word, "fxx") {
                if condition != HashFieldCondition::None {
                    return Err(ONE_CONDITION);
                }
                condition = match is(word, "fnx") {
                    true => HashFieldCondition::Absent,
                    false => HashFieldCondition::Present,
                };
            } else if is(word, "keepttl") || option_of_time(word).is_some() {
                if change != HashExpiryChange::Usual {
                    return Err(ONE_TIME);
                }
                change = match option_of_time(word) {
                    None => HashExpiryChange::Keep,
                    Some(time) => {
                        let (argument, rest) = words.split_first().ok_or(CommandError::Syntax)?;
                        words = rest;
                        HashExpiryChange::At(time_of(call, time, argument, "hsetex")?)
                    }
                };
            } else {
                let word = shown(word);
                return Err(CommandError::owned(format!("ERR unknown argument: {word}")));
            }
        }
        const NOT_A_NUMBER: CommandError = CommandError::text("ERR invalid number of fields");
        let (count, words) = counted(words, NOT_A_NUMBER)?;
        i32::try_from(count).map_err(|_| NOT_A_NUMBER)?;
        match words.as_chunks::<2>() {
            (pairs, []) if pairs.len() == count => Ok(SetOptions {
                condition,
                change,
                pairs,
            }),
            _ => Err(CommandError::WrongArity("hsetex".into())),
        }
    }
}

fn hsetex(call: &mut CommandCall<'_>) -> Answer {
    let words = call.rest(2);
    let options = SetOptions::parse(call, words)?;
    let SetOptions {
        condition,
        change,
        pairs,
    } = options;
    let key = call.args[1];
    let has_expired =
        matches!(change, HashExpiryChange::At(at_ms) if call.keys.has_expired(Some(at_ms)));
    debug_assert!(!pairs.is_empty(), "`parse` refuses a count of 0");
    let is_new = !call.keys.exists(key)?;
    let is_set = call.keys.edit::<Hash, _>(key, |hash, limits| {
        let refused = match condition {
            HashFieldCondition::None => false,
            // As in Redis, one field that fails the condition refuses all of them.
            HashFieldCondition::Absent => pairs.iter().any(|[field, _]| hash.contains(field)),
            HashFieldCondition::Present => pairs.iter().any(|[field, _]| !hash.contains(field)),
        };
        for [field, value] in pairs.iter().filter(|_| !refused) {
            match change {
                HashExpiryChange::At(_) if has_expired => {
                    hash.remove(field);
                }
                // Only `set_value` keeps the expiry of the field; `set` below removes it.
                HashExpiryChange::Keep => {
                    hash.set_value(limits, field, value);
                }
                HashExpiryChange::At(at_ms) => {
                    hash.set_value(limits, field, value);
                    hash.set_time(limits, field, Some(at_ms));
                }
                _ => {
                    hash.set(limits, field, value);
                }
            }
        }
        // A hash that is still empty is not stored, so a refused command creates no key.
        !refused
    })?;
    call.reply.integer(i64::from(is_set));
    if !is_set {
        return Ok(());
    }
    call.keys.changed(key, Class::Hash, "hset");
    // The fields are gone at once, so that the log and observers see their removal.
    if has_expired {
        let fields: Vec<&[u8]> = pairs.iter().map(|[field, _]| *field).collect();
        deleted(call, &fields);
        if is_new {
            // Reported as if the key had existed in between.
            call.keys.changed(key, Class::Generic, "del");
        }
        return Ok(());
    }
    let count = pairs.len().to_string();
    let mut words: Vec<&[u8]> = vec![b"HSETEX", key];
    let at_ms = match change {
        HashExpiryChange::At(at_ms) => at_ms.to_string(),
        _ => String::new(),
    };
    match change {
        HashExpiryChange::At(_) => words.extend([&b"PXAT"[..], at_ms.as_bytes()]),
        HashExpiryChange::Keep => words.push(b"KEEPTTL"),
        _ => {}
    }
    words.extend([&b"FIELDS"[..], count.as_bytes()]);
    words.extend_from_slice(pairs.as_flattened());
    call.keys.effects().log_instead(&words);
    if matches!(change, HashExpiryChange::At(_)) {
        call.keys.changed(key, Class::Hash, "hexpire");
    }
    Ok(())
}

fn hgetdel(call: &mut CommandCall<'_>) -> Answer {
    check_type(call)?;
    let fields = fields(call.rest(2), NOT_POSITIVE)?;
    let key = call.args[1];
    let reply = &mut *call.reply;
    let mut removed = Vec::new();
    let met = call.keys.edit_present::<Hash, _>(key, |hash| {
        reply.array(fields.len());
        for &field in fields {
            reply.bulk_or_null(hash.get(field));
            // A field that is named twice is null the second time.
            if hash.remove(field) {
                removed.push(field);
            }
        }
    })?;
    // There is no key, so the function above has written nothing.
    if met.is_none() {
        reply.array(fields.len());
        fields.iter().for_each(|_| reply.null());
    }
    if !removed.is_empty() {
        deleted(call, &removed);
    }
    Ok(())
}
