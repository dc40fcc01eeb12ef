//! Commands on values as payloads, which other servers accept, too.

use crate::command::{Answer, CommandCall, is};
use crate::error::CommandError;
use crate::keyspace::snapshot::value::put;
use crate::keyspace::{Class, DatabaseKeys, KeyMetadata, KeyView};
use crate::object::StoredObject;
use crate::rdb::{self, RdbError, RdbValue};
use hashbrown::HashSet;

pub(super) fn dump(call: &mut CommandCall<'_>) -> Answer {
    let payload = payload(&mut call.keys, call.args[1])?;
    call.reply.bulk_or_null(payload.as_deref());
    Ok(())
}

/// Returns the payload of a key's value, or `None` if there is no key.
pub(in crate::commands) fn payload(
    keys: &mut DatabaseKeys<'_>,
    key: &[u8],
) -> Result<Option<Vec<u8>>, CommandError> {
    let Some(found) = keys.find(key)? else {
        return Ok(None);
    };
    let dialect = keys.keyspace().snapshot.dialect();
    Ok(match value(keys, key, &found)? {
        // All fields have expired.
        RdbValue::TimedHash(fields) if fields.is_empty() => None,
        value => Some(rdb::dump(&value, dialect)),
    })
}

fn value(
    keys: &mut DatabaseKeys<'_>,
    key: &[u8],
    found: &KeyMetadata,
) -> Result<RdbValue, CommandError> {
    let value = keys.read_object(key, found, |object| match object {
        StoredObject::Stream(stream) => RdbValue::Stream(Box::new(stream.parts().into_owned())),
        StoredObject::Text(text) => RdbValue::String(text.bytes().to_vec()),
        StoredObject::List(list) => RdbValue::List(list.iter().map(<[u8]>::to_vec).collect()),
        StoredObject::Hash(hash) => {
            let pairs = hash.iter();
            let pairs = pairs.map(|(field, value)| (field.to_vec(), value.to_vec()));
            if !hash.has_times() {
                return RdbValue::Hash(pairs.collect());
            }
            let timed = pairs.map(|(field, value)| {
                let time_ms = hash.expires_at_ms(&field);
                (field, value, time_ms)
            });
            RdbValue::TimedHash(timed.collect())
        }
        StoredObject::Set(set) => RdbValue::Set(set.iter().map(|member| member.to_vec()).collect()),
        StoredObject::SortedSet(sorted_set) => {
            // Redis reads members fastest in the order of descending scores.
            let members = sorted_set.range(0..sorted_set.len(), true);
            let pair = |(member, score): (&[u8], f64)| (member.to_vec(), score);
            RdbValue::SortedSet(members.map(pair).collect())
        }
    })?;
    match value {
        Some(value) => Ok(value),
        None => Ok(RdbValue::String(keys.string(key)?.unwrap_or_default())),
    }
}

/// Returns true if a member or field is in a container twice, which no server writes.
fn has_duplicates(value: &RdbValue) -> bool {
    fn any<'v>(names: impl ExactSizeIterator<Item = &'v Vec<u8>>) -> bool {
        let length = names.len();
        names.collect::<HashSet<_>>().len() < length
    }
    match value {
        RdbValue::String(_) | RdbValue::List(_) | RdbValue::Stream(_) => false,
        RdbValue::Set(members) => any(members.iter()),
        RdbValue::Hash(fields) => any(fields.iter().map(|(field, _)| field)),
        RdbValue::TimedHash(fields) => any(fields.iter().map(|(field, ..)| field)),
        RdbValue::SortedSet(members) => any(members.iter().map(|(member, _)| member)),
    }
}

/// The options of `RESTORE`.
#[derive(Clone, Copy, Debug, Default)]
struct RestoreOptions {
    replace: bool,
    /// True if the time to live counts from 1970.
    absolute: bool,
}

impl RestoreOptions {
    fn parse(words: &[&[u8]]) -> Result<RestoreOptions, CommandError> {
        let mut options = RestoreOptions::default();
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

pub(super) fn restore(call: &mut CommandCall<'_>) -> Answer {
    let (key, payload) = (call.args[1], call.args[3]);
    let options = RestoreOptions::parse(call.rest(4))?;
    // The checks are in Redis's order: the key, the time, the payload.
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
    // A small payload may be compressed, and become a large value.
    let value = match rdb::restore_within(payload, call.room()) {
        Ok(value) => value,
        Err(RdbError::NoRoom { length, .. }) => {
            let bytes = usize::try_from(length).unwrap_or(usize::MAX);
            return Err(CommandError::LacksRoom(bytes));
        }
        Err(RdbError::UnknownVersion { .. } | RdbError::ChecksumMismatch { .. }) => {
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
    // As in Redis, a time that has passed deletes the key, and the command succeeds.
    if call.keys.has_expired(expires_at_ms) {
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
    // The log is replayed at another time, so it has the expiry instead of the time to live.
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
