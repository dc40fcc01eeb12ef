//! `SET` and `GETEX` with their options.

use super::super::expiry::{Time, expire_at};
use super::get;
use crate::command::{Answer, Call, is};
use crate::error::CommandError;
use crate::keyspace::Class;

/// The options of `SET` or `GETEX`.
#[derive(Clone, Copy, Debug, Default)]
struct Options<'c> {
    /// Only if the key is not there.
    absent: bool,
    /// Only if the key is there.
    present: bool,
    /// Answer the value before.
    get: bool,
    /// Leave the expiry as it is.
    keep: bool,
    /// Have the key never expire.
    persist: bool,
    /// When the key expires.
    expiry: Option<(Time, &'c [u8])>,
}

/// Of which command options are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Set,
    GetEx,
}

impl<'c> Options<'c> {
    fn parse(of: Of, words: &[&'c [u8]]) -> Result<Options<'c>, CommandError> {
        let mut options = Options::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let set = of == Of::Set;
            let time = match () {
                () if is(word, "ex") => Some(Time::IN_SECONDS),
                () if is(word, "px") => Some(Time::IN_MILLISECONDS),
                () if is(word, "exat") => Some(Time::AT_SECONDS),
                () if is(word, "pxat") => Some(Time::AT_MILLISECONDS),
                () => None,
            };
            if let Some(time) = time {
                let another = options.expiry.is_some_and(|(other, _)| other != time);
                let Some(argument) = words.next() else {
                    return Err(CommandError::Syntax);
                };
                if another || options.keep || options.persist {
                    return Err(CommandError::Syntax);
                }
                options.expiry = Some((time, argument));
            } else if set && is(word, "nx") && !options.present {
                options.absent = true;
            } else if set && is(word, "xx") && !options.absent {
                options.present = true;
            } else if set && is(word, "get") {
                options.get = true;
            } else if set && is(word, "keepttl") && options.expiry.is_none() {
                options.keep = true;
            } else if !set && is(word, "persist") && options.expiry.is_none() {
                options.persist = true;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }
}

pub(super) fn set(call: &mut Call<'_>) -> Answer {
    let (key, value) = (call.args[1], call.args[2]);
    if call.args.len() == 3 {
        call.keys.set_string(key, value, None)?;
        call.keys.changed(key, Class::String, "set");
        call.reply.ok();
        return Ok(());
    }
    let options = Options::parse(Of::Set, call.rest(3))?;
    let mut expires_at_ms = match options.expiry {
        Some((time, argument)) => Some(time.parse(argument, call.keys.now_ms(), "set")?),
        None => None,
    };
    if options.get {
        get(call)?;
    }
    let found = call.keys.peek(key)?;
    let refused = if found.is_some() {
        options.absent
    } else {
        options.present
    };
    if refused {
        if !options.get {
            call.reply.null();
        }
        return Ok(());
    }
    if options.keep {
        expires_at_ms = found.and_then(|found| found.expires_at_ms);
    }
    call.keys.set_string(key, value, expires_at_ms)?;
    call.keys.changed(key, Class::String, "set");
    if options.expiry.is_some() {
        also_expires(call, key);
    }
    log_set(call, key, value, expires_at_ms);
    if !options.get {
        call.reply.ok();
    }
    Ok(())
}

pub(super) fn setex(call: &mut Call<'_>) -> Answer {
    set_expiring(call, Time::IN_SECONDS, "setex")
}

pub(super) fn psetex(call: &mut Call<'_>) -> Answer {
    set_expiring(call, Time::IN_MILLISECONDS, "psetex")
}

fn set_expiring(call: &mut Call<'_>, time: Time, name: &str) -> Answer {
    let (key, value) = (call.args[1], call.args[3]);
    let expires_at_ms = Some(time.parse(call.args[2], call.keys.now_ms(), name)?);
    call.keys.set_string(key, value, expires_at_ms)?;
    call.keys.changed(key, Class::String, "set");
    also_expires(call, key);
    log_set(call, key, value, expires_at_ms);
    call.reply.ok();
    Ok(())
}

/// Says that a key that was set expires, which is no change of its own.
fn also_expires(call: &mut Call<'_>, key: &[u8]) {
    call.keys.changed(key, Class::Generic, "expire");
    call.keys.effects().changes -= 1;
}

/// Has the log tell the same whenever it is read.
fn log_set(call: &mut Call<'_>, key: &[u8], value: &[u8], expires_at_ms: Option<u64>) {
    let mut words = vec![&b"SET"[..], key, value];
    let mut buffer = itoa::Buffer::new();
    if let Some(time) = expires_at_ms {
        words.extend([&b"PXAT"[..], buffer.format(time).as_bytes()]);
    }
    call.keys.effects().log_instead(&words);
}

pub(super) fn getex(call: &mut Call<'_>) -> Answer {
    let key = call.args[1];
    let options = Options::parse(Of::GetEx, call.rest(2))?;
    get(call)?;
    let Some(found) = call.keys.peek(key)? else {
        return Ok(());
    };
    if let Some((time, argument)) = options.expiry {
        let at = time.parse(argument, call.keys.now_ms(), "getex")?;
        expire_at(call, key, i64::try_from(at).unwrap_or(i64::MAX))?;
    } else if options.persist && found.expires_at_ms.is_some() {
        call.keys.set_expiry(key, None)?;
        call.keys.changed(key, Class::Generic, "persist");
        call.keys.effects().log_instead(&[b"PERSIST", key]);
    }
    Ok(())
}
