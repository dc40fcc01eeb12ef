//! Commands on strings.

mod counter;
mod lcs;
mod options;

use crate::command::{
    Answer, CommandCall, CommandDefinition, CommandGroup, Flags, PlannedCommand, Touch, Usual,
};
use crate::error::CommandError;
use crate::keyspace::{Class, KeyView};

const GROUP: CommandGroup = CommandGroup::String;

/// The longest string, in bytes.
pub(super) const STRING_BYTES_MAX: usize = 512 << 20;

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::planned("get", 2, Touch::Read, get)
        .usually(Usual::Read)
        .reads()
        .fast()
        .key(1)
        .about(GROUP, "1.0.0", "O(1)")
        .summary("Returns the string value of a key."),
    CommandDefinition::planned("set", -3, Touch::Set, options::set)
        .flag(Flags::KEYS_ONLY_WITHOUT_GET)
        .usually(Usual::Set)
        .grows()
        .key(1)
        .about(GROUP, "1.0.0", "O(1)")
        .summary("Sets the string value of a key, ignoring its type.")
        .differs(
            "A key of any type has at most 64 KiB, and 8 bytes less if it expires. The index \
             refuses longer ones.",
        ),
    CommandDefinition::planned("setnx", 3, Touch::Change, setnx)
        .flag(Flags::KEYS_ONLY)
        .grows()
        .fast()
        .key(1)
        .about(GROUP, "1.0.0", "O(1)")
        .summary("Sets the string value of a key if the key does not exist."),
    CommandDefinition::planned("setex", 4, Touch::Change, options::setex)
        .flag(Flags::KEYS_ONLY)
        .grows()
        .key(1)
        .about(GROUP, "2.0.0", "O(log N)")
        .summary("Sets the string value of a key, with an expiry in seconds."),
    CommandDefinition::planned("psetex", 4, Touch::Change, options::psetex)
        .flag(Flags::KEYS_ONLY)
        .grows()
        .key(1)
        .about(GROUP, "2.6.0", "O(log N)")
        .summary("Sets the string value of a key, with an expiry in milliseconds."),
    CommandDefinition::planned("getset", 3, Touch::Change, getset)
        .grows()
        .fast()
        .key(1)
        .about(GROUP, "1.0.0", "O(1)")
        .summary("Sets the string value of a key and returns the previous one."),
    CommandDefinition::planned("getdel", 2, Touch::Change, getdel)
        .writes()
        .fast()
        .key(1)
        .about(GROUP, "6.2.0", "O(1)")
        .summary("Returns the string value of a key and deletes the key."),
    CommandDefinition::planned("delifeq", 3, Touch::Change, options::delifeq)
        .writes()
        .fast()
        .key(1)
        .about(GROUP, "9.0.0", "O(1)")
        .summary("Deletes a key that holds a string."),
    CommandDefinition::planned("getex", -2, Touch::Change, options::getex)
        .slowly_grows()
        .fast()
        .key(1)
        .about(GROUP, "6.2.0", "O(1)")
        .summary("Returns the string value of a key and changes its expiry."),
    CommandDefinition::planned("mget", -2, Touch::Read, mget)
        .reads()
        .fast()
        .keys_at(1, -1, 1)
        .about(GROUP, "1.0.0", "O(N) for N keys")
        .summary("Returns the string values of keys."),
    CommandDefinition::planned("mset", -3, Touch::Set, mset)
        .flag(Flags::KEYS_ONLY)
        .grows()
        .flag(Flags::KEY_BY_KEY)
        .keys_at(1, -1, 2)
        .about(GROUP, "1.0.1", "O(N) for N keys")
        .summary("Sets the string values of keys."),
    CommandDefinition::planned("msetnx", -3, Touch::Change, msetnx)
        .flag(Flags::KEYS_ONLY)
        .unshared()
        .grows()
        .keys_at(1, -1, 2)
        .about(GROUP, "1.0.1", "O(N) for N keys")
        .summary("Sets the string values of keys if none of them exists."),
    CommandDefinition::planned("incr", 2, Touch::Change, counter::incr)
        .grows()
        .fast()
        .key(1)
        .about(GROUP, "1.0.0", "O(1)")
        .summary("Adds one to the integer value of a key."),
    CommandDefinition::planned("decr", 2, Touch::Change, counter::decr)
        .grows()
        .fast()
        .key(1)
        .about(GROUP, "1.0.0", "O(1)")
        .summary("Subtracts one from the integer value of a key."),
    CommandDefinition::planned("incrby", 3, Touch::Change, counter::incrby)
        .grows()
        .fast()
        .key(1)
        .about(GROUP, "1.0.0", "O(1)")
        .summary("Adds an integer to the integer value of a key."),
    CommandDefinition::planned("decrby", 3, Touch::Change, counter::decrby)
        .grows()
        .fast()
        .key(1)
        .about(GROUP, "1.0.0", "O(1)")
        .summary("Subtracts an integer from the integer value of a key."),
    CommandDefinition::planned("incrbyfloat", 3, Touch::Change, counter::incrbyfloat)
        .grows()
        .fast()
        .key(1)
        .about(GROUP, "2.6.0", "O(1)")
        .summary("Adds a number to the numeric value of a key."),
    CommandDefinition::new("append", 3, append)
        .grows()
        .fast()
        .key(1)
        .about(GROUP, "2.0.0", "O(1)")
        .summary("Appends to the string value of a key."),
    CommandDefinition::planned("strlen", 2, Touch::Read, strlen)
        .reads()
        .fast()
        .key(1)
        .about(GROUP, "2.2.0", "O(1)")
        .summary("Returns the length of the string value of a key."),
    CommandDefinition::planned("getrange", 4, Touch::Read, getrange)
        .reads()
        .key(1)
        .about(GROUP, "2.4.0", "O(N) for N bytes")
        .summary("Returns a part of the string value of a key."),
    CommandDefinition::planned("substr", 4, Touch::Read, getrange)
        .reads()
        .key(1)
        .about(GROUP, "1.0.0", "O(N) for N bytes")
        .summary("Returns a part of the string value of a key."),
    CommandDefinition::new("setrange", 4, setrange)
        .grows()
        .key(1)
        .about(GROUP, "2.2.0", "O(N) for N bytes")
        .summary("Overwrites a part of the string value of a key."),
    CommandDefinition::new("lcs", -3, lcs::lcs)
        .reads()
        .keys_at(1, 2, 1)
        .about(GROUP, "7.0.0", "O(N*M) for strings of N and M bytes")
        .summary("Finds the longest common subsequence of two strings."),
];

/// Refuses a string of `length` bytes if that exceeds the limit.
pub(super) fn check_length(length: usize) -> Answer {
    if length > STRING_BYTES_MAX {
        return Err(CommandError::StringTooLong);
    }
    Ok(())
}

fn get(planned: &mut PlannedCommand<'_>) -> Answer {
    planned.read_string(0, |reply, value, _| reply.bulk_or_null(value))
}

fn setnx(planned: &mut PlannedCommand<'_>) -> Answer {
    let free = planned.peek(0)?.is_none();
    if free {
        set_plain(planned, 0, planned.args[2])?;
    }
    planned.reply.integer(i64::from(free));
    Ok(())
}

fn getset(planned: &mut PlannedCommand<'_>) -> Answer {
    // The reply has the old value, and the type is checked before the key is set.
    get(planned)?;
    set_plain(planned, 0, planned.args[2])
}

fn getdel(planned: &mut PlannedCommand<'_>) -> Answer {
    get(planned)?;
    if planned.remove(0)? {
        planned.changed(0, Class::Generic, "del");
    }
    Ok(())
}

fn mget(planned: &mut PlannedCommand<'_>) -> Answer {
    let count = planned.keys();
    planned.reply.array(count);
    for position in 0..count {
        // The values are read only as long as they are sent.
        if planned.reply.is_cut() {
            break;
        }
        let read = planned.read_string(position, |reply, value, _| reply.bulk_or_null(value));
        match read {
            // A key of another type has no string.
            Err(CommandError::WrongType) => planned.reply.null(),
            other => other?,
        }
    }
    Ok(())
}

/// Sets a key to a string that does not expire.
#[inline]
fn set_plain(planned: &mut PlannedCommand<'_>, position: usize, value: &[u8]) -> Answer {
    planned.set_string(position, value, None)?;
    planned.changed(position, Class::String, "set");
    Ok(())
}

/// Refuses arguments that are not pairs of a key and a value.
fn check_pairs(planned: &PlannedCommand<'_>, name: &'static str) -> Answer {
    if planned.args.len().is_multiple_of(2) {
        return Err(CommandError::WrongArity(name.into()));
    }
    Ok(())
}

/// Sets each key to the argument after it.
fn set_all(planned: &mut PlannedCommand<'_>) -> Answer {
    debug_assert_eq!(
        planned.args.len(),
        1 + 2 * planned.keys(),
        "`check_pairs` has checked this"
    );
    for position in 0..planned.keys() {
        // As in Redis, a key that is named twice has its last value in the end.
        set_plain(planned, position, planned.arg(2 + 2 * position)?)?;
    }
    Ok(())
}

fn mset(planned: &mut PlannedCommand<'_>) -> Answer {
    check_pairs(planned, "mset")?;
    set_all(planned)?;
    planned.reply.ok();
    Ok(())
}

fn msetnx(planned: &mut PlannedCommand<'_>) -> Answer {
    check_pairs(planned, "msetnx")?;
    for position in 0..planned.keys() {
        if planned.peek(position)?.is_some() {
            planned.reply.integer(0);
            return Ok(());
        }
    }
    set_all(planned)?;
    planned.reply.integer(1);
    Ok(())
}

fn append(call: &mut CommandCall<'_>) -> Answer {
    let (key, addition) = (call.args[1], call.args[2]);
    let length = if call.keys.exists(key)? {
        call.keys.edit_string(key, |text| {
            // The limit is checked before the string changes, because an error must leave it as it
            // was.
            let length = text.bytes().len().saturating_add(addition.len());
            check_length(length)?;
            text.append(addition);
            Ok::<_, CommandError>(length)
        })??
    } else {
        call.keys.set_string(key, addition, None)?;
        addition.len()
    };
    call.keys.changed(key, Class::String, "append");
    call.reply.count(length);
    Ok(())
}

fn strlen(planned: &mut PlannedCommand<'_>) -> Answer {
    planned.read_string(0, |reply, value, _| {
        reply.count(value.map_or(0, <[u8]>::len))
    })
}

/// Returns the range of `length` bytes, or other elements, between two positions. Both are
/// included, and negative ones count from the end.
pub(super) fn part(length: usize, start: i64, end: i64) -> std::ops::Range<usize> {
    if start < 0 && end < 0 && start > end {
        // As in Redis, such a range is empty, while others that end before they start are clamped.
        return 0..0;
    }
    clamped_part(length, start, end)
}

/// Returns the same as [`part`], except if both positions are before the first one: then the first
/// one is the range, as in BITPOS.
pub(super) fn clamped_part(length: usize, start: i64, end: i64) -> std::ops::Range<usize> {
    let from_end = |position: i64| match usize::try_from(position) {
        Ok(position) => position,
        Err(_) => length.saturating_sub(position.unsigned_abs() as usize),
    };
    let start = from_end(start).min(length);
    // A position before the first one counts as the first.
    let end = from_end(end).saturating_add(1).min(length);
    start..end.max(start)
}

fn getrange(planned: &mut PlannedCommand<'_>) -> Answer {
    let (start, end) = (planned.integer(2)?, planned.integer(3)?);
    planned.read_string(0, |reply, value, _| {
        let value = value.unwrap_or_default();
        let part = part(value.len(), start, end);
        reply.bulk(value.get(part).unwrap_or_default());
    })
}

fn setrange(call: &mut CommandCall<'_>) -> Answer {
    let (key, offset, value) = (call.args[1], call.integer(2)?, call.args[3]);
    let Ok(offset) = usize::try_from(offset) else {
        return Err(CommandError::text("ERR offset is out of range"));
    };
    if value.is_empty() {
        // As in Redis, an empty value changes nothing, and creates no key.
        return strlen(&mut call.planned());
    }
    // The type is checked first, for any length.
    let length = |value: Option<&[u8]>| value.map_or(0, <[u8]>::len);
    let length = call.keys.read_string(key, length)?;
    let end = offset.saturating_add(value.len());
    check_length(end)?;
    call.check_room(end.saturating_sub(length))?;
    let length = call.keys.edit_string(key, |text| {
        let bytes = text.extend_to(end);
        debug_assert!(end <= bytes.len());
        if let Some(part) = bytes.get_mut(offset..end) {
            part.copy_from_slice(value);
        }
        bytes.len()
    })?;
    call.keys.changed(key, Class::String, "setrange");
    call.reply.count(length);
    Ok(())
}
