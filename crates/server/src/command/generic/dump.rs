//! Commands on values as payloads, which other servers accept, too.

use crate::command::{Answer, Call, is};
use crate::error::CommandError;
use crate::keyspace::snapshot::value::put;
use crate::keyspace::{Class, Found, Keys};
use crate::object::Object;
use crate::rdb::{self, Error, Value};
use hashbrown::HashSet;

pub(super) fn dump(call: &mut Call<'_>) -> Answer {
    let payload = payload(&mut call.keys, call.args[1])?;
    call.reply.bulk_or_null(payload.as_deref());
    Ok(())
}

/// Returns the payload of a key's value, or `None` if there is no key.
pub(in crate::command) fn payload(
    keys: &mut Keys<'_>,
    key: &[u8],
) -> Result<Option<Vec<u8>>, CommandError> {
    let Some(found) = keys.find(key)? else {
        return Ok(None);
    };
    let dialect = keys.keyspace().snapshot.dialect();
    Ok(match value(keys, key, &found)? {
        // All fields have expired.
        Value::TimedHash(fields) if fields.is_empty() => None,
        value => Some(rdb::dump(&value, dialect)),
    })
}

fn value(keys: &mut Keys<'_>, key: &[u8], found: &Found) -> Result<Value, CommandError> {
    let value = keys.read_object(key, found, |object| match object {
        Object::Stream(stream) => Value::Stream(Box::new(stream.parts().into_owned())),
        Object::Text(text) => Value::String(text.bytes().to_vec()),
        Object::List(list) => Value::List(list.iter().map(<[u8]>::to_vec).collect()),
        Object::Hash(hash) => {
            let pairs = hash.iter();
            let pairs = pairs.map(|(field, value)| (field.to_vec(), value.to_vec()));
            if !hash.has_times() {
                return Value::Hash(pairs.collect());
            }
            let timed = pairs.map(|(field, value)| {
                let time_ms = hash.expires_at_ms(&field);
                (field, value, time_ms)
            });
            Value::TimedHash(timed.collect())
        }
        Object::Set(set) => Value::Set(set.iter().map(|member| member.to_vec()).collect()),
        Object::SortedSet(sorted_set) => {
            // Redis reads members fastest in the order of descending scores.
            let members = sorted_set.range(0..sorted_set.len(), true);
            let pair = |(member, score): (&[u8], f64)| (member.to_vec(), score);
            Value::SortedSet(members.map(pair).collect())
        }
    })?;
    match value {
        Some(value) => Ok(value),
        None => Ok(Value::String(keys.string(key)?.unwrap_or_default())),
    }
}

/// Returns true if a member or field is in a container twice, which no server writes.
fn has_duplicates(value: &Value) -> bool {
    fn any<'v>(names: impl ExactSizeIterator<Item = &'v Vec<u8>>) -> bool {
        let length = names.len();
        names.collect::<HashSet<_>>().len() < length
    }
    match value {
        Value::String(_) | Value::List(_) | Value::Stream(_) => false,
        Value::Set(members) => any(members.iter()),
        Value::Hash(fields) => any(fields.iter().map(|(field, _)| field)),
        Value::TimedHash(fields) => any(fields.iter().map(|(field, ..)| field)),
        Value::SortedSet(members) => any(members.iter().map(|(member, _)| member)),
    }
}

/// The options of `RESTORE`.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    replace: bool,
    /// True if the time to live counts from 1970.
    absolute: bool,
}

impl Options {
    fn parse(words: &[&[u8]]) -> Result<Options, CommandError> {
        let mut options = Options::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if is(word, "replace") {
                options.replace = true;
            } else if is(word, "absttl") {
                options.absolute = true;
            } else if is(word, "idletime") {
                let argument = words.next().ok_or(CommandError::Syntax)?;
                if crate::command::integer(argument)? < 0 {
                    return Err(CommandError::text(
                        "ERR Invalid IDLETIME value, must be >= 0",
                    ));
                }
            } else if is(word, "freq") {
                let argument = words.next().ok_or(CommandError::Syntax)?;
                if !(0..=255).contains(&crate::command::integer(argument)?) {
                    return Err(CommandError::text(
                        "ERR Invalid FREQ value, must be >= 0 and <= 255",
                    ));
                }
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }
}

/// The number of bytes of version and checksum, which each payload ends with.
const FOOTER_BYTES: usize = 10;

pub(super) fn restore(call: &mut Call<'_>) -> Answer {
    let (key, payload) = (call.args[1], call.args[3]);
    let options = Options::parse(call.rest(4))?;
    let present = call.keys.exists(key)?;
    if present && !options.replace {
        return Err(CommandError::text(
            "BUSYKEY Target key name already exists.",
        ));
    }
    let Ok(time_to_live) = u64::try_from(call.integer(2)?) else {
        return Err(CommandError::text("ERR Invalid TTL value, must be >= 0"));
    };
    let bad_data = CommandError::text("ERR Bad data format");
    let value = match rdb::restore_within(payload, call.room()) {
        Ok(value) => value,
        Err(Error::NoRoom { length, .. }) => {
            let bytes = usize::try_from(length).unwrap_or(usize::MAX);
            return Err(CommandError::LacksRoom(bytes));
        }
        Err(Error::UnknownVersion { .. } | Error::ChecksumMismatch { .. }) => {
            return Err(bad_footer());
        }
        Err(_) if payload.len() < FOOTER_BYTES => return Err(bad_footer()),
        Err(_) => return Err(bad_data),
    };
    let expires_at_ms = match time_to_live {
        0 => None,
        time if options.absolute => Some(time),
        time => Some(time.saturating_add(call.keys.now_ms())),
    };
    if call.keys.is_over(expires_at_ms) {
        if present {
            call.keys.remove(key)?;
            call.keys.changed(key, Class::Generic, "del");
            call.keys.effects().log_instead(&[b"DEL", key]);
        }
        call.reply.ok();
        return Ok(());
    }
    if has_duplicates(&value) {
        return Err(bad_data);
    }
    put(&mut call.keys, key, value, expires_at_ms)?;
    call.keys.changed(key, Class::Generic, "restore");
    let time = expires_at_ms.unwrap_or(0).to_string();
    let words = [
        b"RESTORE",
        key,
        time.as_bytes(),
        payload,
        b"REPLACE",
        b"ABSTTL",
    ];
    call.keys.effects().log_instead(&words);
    call.reply.ok();
    Ok(())
}

fn bad_footer() -> CommandError {
    CommandError::text("ERR DUMP payload version or checksum are wrong")
}
