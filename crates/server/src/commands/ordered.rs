//! Commands on ranges of keys, which Redis does not have.

use crate::command::{
    Answer, CommandCall, CommandDefinition, CommandGroup, Flags, PlannedCommand, Touch, integer, is,
};
use crate::error::CommandError;
use crate::glob::end_of_prefix;
use crate::keyspace::{Class, Entry, KeyBounds, Keyspace, ValueRecord};
use crate::object::RedisType;
use crate::resp::RespReply;
use nearfield::{OperationError, ScanDirection};
use std::ops::Bound;

const GROUP: CommandGroup = CommandGroup::Ordered;
const LINEAR: &str = "O(log N + M) for M keys up to the last one of the reply";

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("krange", -3, krange)
        .reads()
        .turns_into(|args| deletes(args, 3).then_some("krangedel"))
        .flag(Flags::EXCLUSIVE)
        .flag(Flags::OWN)
        .categories(&["keyspace"])
        .about(GROUP, "7.2.0", LINEAR)
        .summary(
            "Returns, counts or deletes the keys between two bounds, in the order of their bytes.",
        )
        .differs(
            "Not in Redis. Bounds, REV and LIMIT are those of ZRANGE with BYLEX: KRANGE \
             min max [REV] [LIMIT offset count] [WITHVALUES | COUNT | DEL]. With \
             WITHVALUES keys of other types than strings have null for a value. Needs \
             permission to read all keys.",
        ),
    CommandDefinition::new("krangedel", -3, krangedel)
        .flag(Flags::KEY_BY_KEY)
        .writes()
        .flag(Flags::EXCLUSIVE)
        .flag(Flags::OWN)
        .categories(&["keyspace"])
        .about(GROUP, "7.2.0", LINEAR)
        .summary("Deletes the keys between two bounds.")
        .differs(
            "Not in Redis: KRANGEDEL min max [REV] [LIMIT offset count]. KRANGE with DEL is this \
             command, so that a user may be allowed one without the other.",
        ),
    CommandDefinition::new("kprefix", -2, kprefix)
        .reads()
        .turns_into(|args| deletes(args, 2).then_some("kprefixdel"))
        .flag(Flags::EXCLUSIVE)
        .flag(Flags::OWN)
        .categories(&["keyspace"])
        .about(GROUP, "7.2.0", LINEAR)
        .summary("Returns, counts or deletes the keys with a prefix, in the order of their bytes.")
        .differs(
            "Not in Redis: KPREFIX prefix [REV] [LIMIT offset count] [WITHVALUES | COUNT | DEL]. \
             Needs permission to read all keys with the prefix, for example `~user:*` for the \
             prefix user: and longer ones.",
        ),
    CommandDefinition::new("kprefixdel", -2, kprefixdel)
        .flag(Flags::KEY_BY_KEY)
        .writes()
        .flag(Flags::EXCLUSIVE)
        .flag(Flags::OWN)
        .categories(&["keyspace"])
        .about(GROUP, "7.2.0", LINEAR)
        .summary("Deletes the keys with a prefix.")
        .differs(
            "Not in Redis: KPREFIXDEL prefix [REV] [LIMIT offset count]. KPREFIX with DEL \
             is this command.",
        ),
    CommandDefinition::planned("knearest", -2, Touch::Nearest(direction), knearest)
        .reads()
        .fast()
        .flag(Flags::EXCLUSIVE)
        .flag(Flags::OWN)
        .categories(&["keyspace"])
        .about(GROUP, "7.2.0", "O(log N)")
        .summary("Returns the least key at or after a key, or the greatest key at or before it.")
        .differs("Not in Redis: KNEAREST key [BEFORE | AFTER] [WITHVALUE]."),
];

/// The operation on the keys of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum KeyRangeAction {
    #[default]
    List,
    ListWithValues,
    Count,
    Delete,
}

#[derive(Clone, Copy, Debug, Default)]
struct KeyRangeOptions {
    reverse: bool,
    action: KeyRangeAction,
    offset: i64,
    /// The number of keys; all if negative.
    count: Option<i64>,
}

/// Returns true if the options, which begin at a position, delete keys.
fn deletes(args: &[&[u8]], options: usize) -> bool {
    let mut options = args.iter().skip(options);
    // No number of LIMIT is this word, so the options need not be parsed.
    options.any(|word| is(word, "del"))
}

impl KeyRangeOptions {
    /// Parses the options of a command that deletes. The option to delete is accepted, too.
    fn of_deletion(words: &[&[u8]]) -> Result<KeyRangeOptions, CommandError> {
        let options = KeyRangeOptions::parse(words)?;
        match options.action {
            KeyRangeAction::List | KeyRangeAction::Delete => Ok(KeyRangeOptions {
                action: KeyRangeAction::Delete,
                ..options
            }),
            KeyRangeAction::ListWithValues | KeyRangeAction::Count => Err(CommandError::Syntax),
        }
    }

    fn parse(words: &[&[u8]]) -> Result<KeyRangeOptions, CommandError> {
        let mut options = KeyRangeOptions::default();
        let mut rest = words;
        loop {
            let (action, after) = match *rest {
                [] => return Ok(options),
                [word, ref after @ ..] if is(word, "rev") => {
                    options.reverse = true;
                    rest = after;
                    continue;
                }
                [word, offset, count, ref after @ ..] if is(word, "limit") => {
                    options.offset = integer(offset)?;
                    options.count = Some(integer(count)?);
                    rest = after;
                    continue;
                }
                [word, ref after @ ..] if is(word, "withvalues") => {
                    (KeyRangeAction::ListWithValues, after)
                }
                [word, ref after @ ..] if is(word, "count") => (KeyRangeAction::Count, after),
                [word, ref after @ ..] if is(word, "del") => (KeyRangeAction::Delete, after),
                _ => return Err(CommandError::Syntax),
            };
            // WITHVALUES, COUNT and DEL exclude each other.
            if options.action != KeyRangeAction::List {
                return Err(CommandError::Syntax);
            }
            options.action = action;
            rest = after;
        }
    }
}

/// Parses a bound as `ZRANGE` with `BYLEX` does: `[key` is included, `(key` is excluded, `-` is
/// before all keys and `+` after them. `unbounded` is `-` for the lower bound and `+` for the upper
/// one. Returns `None` for the opposite sign: no key is in such a range.
fn parse_bound(argument: &[u8], unbounded: u8) -> Result<Option<Bound<&[u8]>>, CommandError> {
    match argument {
        [b'[', key @ ..] => Ok(Some(Bound::Included(key))),
        [b'(', key @ ..] => Ok(Some(Bound::Excluded(key))),
        [sign @ (b'-' | b'+')] => Ok((*sign == unbounded).then_some(Bound::Unbounded)),
        _ => Err(CommandError::text(
            "ERR min or max not valid string range item",
        )),
    }
}

fn krange(call: &mut CommandCall<'_>) -> Answer {
    let options = KeyRangeOptions::parse(call.rest(3))?;
    between(call, options)
}

fn krangedel(call: &mut CommandCall<'_>) -> Answer {
    let options = KeyRangeOptions::of_deletion(call.rest(3))?;
    between(call, options)
}

fn between(call: &mut CommandCall<'_>, options: KeyRangeOptions) -> Answer {
    let (mut low, mut high) = (call.args[1], call.args[2]);
    if options.reverse {
        // As in ZRANGE, the upper bound comes first with REV.
        (low, high) = (high, low);
    }
    let (low, high) = (parse_bound(low, b'-')?, parse_bound(high, b'+')?);
    let bounds = match (low, high) {
        (Some(low), Some(high)) => (low, high),
        // The range is empty, because no key is less than the empty one.
        _ => (Bound::Unbounded, Bound::Excluded(&b""[..])),
    };
    run(call, bounds, options)
}

fn kprefix(call: &mut CommandCall<'_>) -> Answer {
    let options = KeyRangeOptions::parse(call.rest(2))?;
    with_prefix(call, options)
}

fn kprefixdel(call: &mut CommandCall<'_>) -> Answer {
    let options = KeyRangeOptions::of_deletion(call.rest(2))?;
    with_prefix(call, options)
}

fn with_prefix(call: &mut CommandCall<'_>, options: KeyRangeOptions) -> Answer {
    let prefix = call.args[1];
    let end = end_of_prefix(prefix);
    let high = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    run(call, (Bound::Included(prefix), high), options)
}

fn run(call: &mut CommandCall<'_>, bounds: KeyBounds<'_>, options: KeyRangeOptions) -> Answer {
    // As in ZRANGE, a negative offset selects nothing, and a negative count selects all.
    let (skip, take) = match usize::try_from(options.offset) {
        Ok(skip) => (skip, options.count.unwrap_or(-1)),
        Err(_) => (0, 0),
    };
    let take = usize::try_from(take).unwrap_or(usize::MAX);
    let (keys, reply) = (&call.keys, &mut *call.reply);
    let range = keys.range(bounds)?;
    let range: Box<dyn Iterator<Item = Result<Entry, OperationError>>> = if options.reverse {
        Box::new(range.rev())
    } else {
        Box::new(range)
    };
    let range = range.skip(skip).take(take);
    match options.action {
        KeyRangeAction::Count => {
            let mut range = range;
            let count = range.try_fold(0, |count, entry| entry.map(|_| count + 1))?;
            reply.count(count);
        }
        KeyRangeAction::List => {
            let mark = reply.begin();
            let mut count = 0;
            for entry in range {
                reply.bulk(&entry?.0);
                count += 1;
            }
            reply.end_array(mark, count);
        }
        KeyRangeAction::ListWithValues => {
            let mark = reply.begin();
            let mut count = 0;
            for entry in range {
                let (key, stored) = entry?;
                reply.pair();
                reply.bulk(&key);
                write_value(keys.keyspace(), reply, &key, &ValueRecord::parse(&stored))?;
                count += 1;
            }
            reply.end_pairs(mark, count);
        }
        KeyRangeAction::Delete => {
            // The names are collected first, because the range borrows the keys.
            let keys: Result<Vec<Vec<u8>>, OperationError> =
                range.map(|entry| Ok(entry?.0)).collect();
            return delete(call, &keys?);
        }
    }
    Ok(())
}

/// Replies with the string that a record holds, or null if it holds another type.
fn write_value(
    keyspace: &Keyspace,
    reply: &mut RespReply,
    key: &[u8],
    record: &ValueRecord<'_>,
) -> Answer {
    if record.kind == RedisType::String {
        return keyspace.read_stored(key, record, |value| reply.bulk_or_null(value));
    }
    reply.null();
    Ok(())
}

/// The largest number of keys that one command in the log deletes.
const LOGGED_KEYS: usize = 1000;

fn delete(call: &mut CommandCall<'_>, keys: &[Vec<u8>]) -> Answer {
    let mut removed = 0;
    for key in keys {
        // If keys are shared, another server may have deleted it first.
        if call.keys.remove(key)? {
            call.keys.changed(key, Class::Generic, "del");
            removed += 1;
        }
    }
    // The keys are logged one by one, because the range may hold others when the log is read: keys
    // that have expired by now.
    for keys in keys.chunks(LOGGED_KEYS) {
        let keys = keys.iter().map(Vec::as_slice);
        let words: Vec<&[u8]> = std::iter::once(&b"DEL"[..]).chain(keys).collect();
        call.keys.effects().log_instead(&words);
    }
    call.reply.count(removed);
    Ok(())
}

/// Returns the direction in which `KNEAREST` searches.
fn direction(args: &[&[u8]]) -> ScanDirection {
    if args.iter().skip(2).any(|word| is(word, "before")) {
        ScanDirection::Descending
    } else {
        ScanDirection::Ascending
    }
}

fn knearest(planned: &mut PlannedCommand<'_>) -> Answer {
    let (mut direction_given, mut with_value) = (false, false);
    for word in planned.rest(2) {
        if !direction_given && (is(word, "before") || is(word, "after")) {
            direction_given = true;
        } else if is(word, "withvalue") {
            with_value = true;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    let direction = direction(planned.args);
    planned.nearest(direction, |reply, keyspace, nearest| {
        match nearest {
            Some((key, record)) if with_value => {
                reply.array(2);
                reply.bulk(key);
                write_value(keyspace, reply, key, &record)?;
            }
            Some((key, _)) => reply.bulk(key),
            None if with_value => reply.null_array(),
            None => reply.null(),
        }
        Ok(())
    })
}
