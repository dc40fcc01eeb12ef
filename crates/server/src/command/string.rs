//! Strings.

mod counter;
mod lcs;
mod options;

use super::{Answer, Call, Command, Group};
use crate::error::CommandError;
use crate::keyspace::Class;

const GROUP: Group = Group::String;

/// The longest string, in bytes.
pub(super) const STRING_BYTES_MAX: usize = 512 << 20;

/// The family's rows of the command table.
pub const COMMANDS: &[Command] = &[
    Command::new("get", 2, get).reads().fast().key(1).about(
        GROUP,
        "1.0.0",
        "O(1)",
        "Returns the string value of a key.",
    ),
    Command::new("set", -3, options::set).grows().key(1).about(
        GROUP,
        "1.0.0",
        "O(1)",
        "Sets the string value of a key, ignoring its type.",
    ).differs("Keys are 64 KiB long at most, and 8 bytes less if they expire: longer ones are refused by the index, for strings and all other types."),
    Command::new("setnx", 3, setnx).grows().fast().key(1).about(
        GROUP,
        "1.0.0",
        "O(1)",
        "Sets the string value of a key that is not there.",
    ),
    Command::new("setex", 4, options::setex).grows().key(1).about(
        GROUP,
        "2.0.0",
        "O(log N)",
        "Sets the string value of a key and how many seconds it has.",
    ),
    Command::new("psetex", 4, options::psetex).grows().key(1).about(
        GROUP,
        "2.6.0",
        "O(log N)",
        "Sets the string value of a key and how many milliseconds it has.",
    ),
    Command::new("getset", 3, getset).grows().fast().key(1).about(
        GROUP,
        "1.0.0",
        "O(1)",
        "Sets the string value of a key and returns the previous one.",
    ),
    Command::new("getdel", 2, getdel).writes().fast().key(1).about(
        GROUP,
        "6.2.0",
        "O(1)",
        "Returns the string value of a key and deletes the key.",
    ),
    Command::new("getex", -2, options::getex).writes().fast().key(1).about(
        GROUP,
        "6.2.0",
        "O(1)",
        "Returns the string value of a key and changes when it expires.",
    ),
    Command::new("mget", -2, mget).reads().fast().keys_at(1, -1, 1).about(
        GROUP,
        "1.0.0",
        "O(N) for N keys",
        "Returns the string values of keys.",
    ),
    Command::new("mset", -3, mset).grows().keys_at(1, -1, 2).about(
        GROUP,
        "1.0.1",
        "O(N) for N keys",
        "Sets the string values of keys.",
    ),
    Command::new("msetnx", -3, msetnx).grows().keys_at(1, -1, 2).about(
        GROUP,
        "1.0.1",
        "O(N) for N keys",
        "Sets the string values of keys if none of them is there.",
    ),
    Command::new("incr", 2, counter::incr).grows().fast().key(1).about(
        GROUP,
        "1.0.0",
        "O(1)",
        "Adds one to the integer value of a key.",
    ),
    Command::new("decr", 2, counter::decr).grows().fast().key(1).about(
        GROUP,
        "1.0.0",
        "O(1)",
        "Subtracts one from the integer value of a key.",
    ),
    Command::new("incrby", 3, counter::incrby).grows().fast().key(1).about(
        GROUP,
        "1.0.0",
        "O(1)",
        "Adds an integer to the integer value of a key.",
    ),
    Command::new("decrby", 3, counter::decrby).grows().fast().key(1).about(
        GROUP,
        "1.0.0",
        "O(1)",
        "Subtracts an integer from the integer value of a key.",
    ),
    Command::new("incrbyfloat", 3, counter::incrbyfloat)
        .grows()
        .fast()
        .key(1)
        .about(
            GROUP,
            "2.6.0",
            "O(1)",
            "Adds a number to the numeric value of a key.",
        ),
    Command::new("append", 3, append).grows().fast().key(1).about(
        GROUP,
        "2.0.0",
        "O(1)",
        "Appends to the string value of a key.",
    ),
    Command::new("strlen", 2, strlen).reads().fast().key(1).about(
        GROUP,
        "2.2.0",
        "O(1)",
        "Returns the length of the string value of a key.",
    ),
    Command::new("getrange", 4, getrange).reads().key(1).about(
        GROUP,
        "2.4.0",
        "O(N) for N bytes",
        "Returns a part of the string value of a key.",
    ),
    Command::new("substr", 4, getrange).reads().key(1).about(
        GROUP,
        "1.0.0",
        "O(N) for N bytes",
        "Returns a part of the string value of a key.",
    ),
    Command::new("setrange", 4, setrange).grows().key(1).about(
        GROUP,
        "2.2.0",
        "O(N) for N bytes",
        "Overwrites a part of the string value of a key.",
    ),
    Command::new("lcs", -3, lcs::lcs).reads().keys_at(1, 2, 1).about(
        GROUP,
        "7.0.0",
        "O(N*M) for strings of N and M bytes",
        "Finds the longest common subsequence of two strings.",
    ),
];

/// Refuses a string of `length` bytes if none may be that long.
pub(super) fn check_length(length: usize) -> Answer {
    if length > STRING_BYTES_MAX {
        return Err(CommandError::StringTooLong);
    }
    Ok(())
}

fn get(call: &mut Call<'_>) -> Answer {
    let reply = &mut *call.reply;
    call.keys
        .read_string(call.args[1], |value| reply.bulk_or_null(value))
}

fn setnx(call: &mut Call<'_>) -> Answer {
    let key = call.args[1];
    let free = !call.keys.exists(key)?;
    if free {
        call.keys.set_string(key, call.args[2], None)?;
        call.keys.changed(key, Class::String, "set");
    }
    call.reply.integer(i64::from(free));
    Ok(())
}

fn getset(call: &mut Call<'_>) -> Answer {
    let key = call.args[1];
    get(call)?;
    call.keys.set_string(key, call.args[2], None)?;
    call.keys.changed(key, Class::String, "set");
    Ok(())
}

fn getdel(call: &mut Call<'_>) -> Answer {
    let key = call.args[1];
    get(call)?;
    if call.keys.remove(key)? {
        call.keys.changed(key, Class::Generic, "del");
    }
    Ok(())
}

fn mget(call: &mut Call<'_>) -> Answer {
    let keys = call.rest(1);
    call.reply.array(keys.len());
    for key in keys {
        let reply = &mut *call.reply;
        let read = call
            .keys
            .read_string(key, |value| reply.bulk_or_null(value));
        match read {
            // A key of another type has no string.
            Err(CommandError::WrongType) => call.reply.null(),
            other => other?,
        }
    }
    Ok(())
}

/// The keys and values of a command, in pairs.
fn pairs<'c>(call: &Call<'c>, name: &'static str) -> Result<&'c [[&'c [u8]; 2]], CommandError> {
    match call.rest(1).as_chunks() {
        (pairs, []) => Ok(pairs),
        _ => Err(CommandError::WrongArity(name.into())),
    }
}

fn set_all(call: &mut Call<'_>, pairs: &[[&[u8]; 2]]) -> Answer {
    for [key, value] in pairs {
        call.keys.set_string(key, value, None)?;
        call.keys.changed(key, Class::String, "set");
    }
    Ok(())
}

fn mset(call: &mut Call<'_>) -> Answer {
    let pairs = pairs(call, "mset")?;
    set_all(call, pairs)?;
    call.reply.ok();
    Ok(())
}

fn msetnx(call: &mut Call<'_>) -> Answer {
    let pairs = pairs(call, "msetnx")?;
    for [key, _] in pairs {
        if call.keys.exists(key)? {
            call.reply.integer(0);
            return Ok(());
        }
    }
    set_all(call, pairs)?;
    call.reply.integer(1);
    Ok(())
}

fn append(call: &mut Call<'_>) -> Answer {
    let (key, addition) = (call.args[1], call.args[2]);
    let length = if call.keys.exists(key)? {
        call.keys.edit_string(key, |text| {
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

fn strlen(call: &mut Call<'_>) -> Answer {
    let length = |value: Option<&[u8]>| value.map_or(0, <[u8]>::len);
    let length = call.keys.read_string(call.args[1], length)?;
    call.reply.count(length);
    Ok(())
}

/// The part of `length` bytes, or other elements, that lies between two positions, of which both
/// are within and negative ones count from the end.
pub(super) fn part(length: usize, start: i64, end: i64) -> std::ops::Range<usize> {
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    clamped_part(length, start, end)
}

/// As [`part`], but where both positions lie before the first one, that one is the part, as BITPOS
/// has it.
pub(super) fn clamped_part(length: usize, start: i64, end: i64) -> std::ops::Range<usize> {
    let from_end = |position: i64| match usize::try_from(position) {
        Ok(position) => position,
        Err(_) => length.saturating_sub(position.unsigned_abs() as usize),
    };
    let start = from_end(start).min(length);
    // One that lies before the first counts as the first.
    let end = from_end(end).saturating_add(1).min(length);
    start..end.max(start)
}

fn getrange(call: &mut Call<'_>) -> Answer {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let reply = &mut *call.reply;
    call.keys.read_string(call.args[1], |value| {
        let value = value.unwrap_or_default();
        let part = part(value.len(), start, end);
        reply.bulk(value.get(part).unwrap_or_default());
    })
}

fn setrange(call: &mut Call<'_>) -> Answer {
    let (key, offset, value) = (call.args[1], call.integer(2)?, call.args[3]);
    let Ok(offset) = usize::try_from(offset) else {
        return Err(CommandError::text("ERR offset is out of range"));
    };
    if value.is_empty() {
        return strlen(call);
    }
    // The type first, whatever the length.
    let length = |value: Option<&[u8]>| value.map_or(0, <[u8]>::len);
    call.keys.read_string(key, length)?;
    let end = offset.saturating_add(value.len());
    check_length(end)?;
    let length = call.keys.edit_string(key, |text| {
        let bytes = text.extend_to(end);
        if let Some(part) = bytes.get_mut(offset..end) {
            part.copy_from_slice(value);
        }
        bytes.len()
    })?;
    call.keys.changed(key, Class::String, "setrange");
    call.reply.count(length);
    Ok(())
}
