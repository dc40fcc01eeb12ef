//! `SET` and `GETEX` with their options.

use super::{get, set_plain};
use crate::command::{Answer, PlannedCommand, is};
use crate::commands::generic::expiry::{ExpiryTimeUnit, expire_at};
use crate::error::CommandError;
use crate::keyspace::Class;

/// The options of `SET` or `GETEX`.
#[derive(Clone, Copy, Debug, Default)]
struct SetGetexOptions<'c> {
    /// True if the key must not exist.
    absent: bool,
    /// True if the key must exist.
    present: bool,
    /// The string that the key must hold.
    equal: Option<&'c [u8]>,
    /// True if the reply is the value before.
    get: bool,
    /// True if the expiry is kept.
    keep: bool,
    /// True if the expiry is removed.
    persist: bool,
    /// The new expiry.
    expiry: Option<(ExpiryTimeUnit, &'c [u8])>,
}

/// The command that options belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetGetexCommand {
    Set,
    GetEx,
}

impl<'c> SetGetexOptions<'c> {
    fn has_no_condition(&self) -> bool {
        !self.absent && !self.present && self.equal.is_none()
    }

    fn parse(of: SetGetexCommand, words: &[&'c [u8]]) -> Result<SetGetexOptions<'c>, CommandError> {
        let mut options = SetGetexOptions::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let set = of == SetGetexCommand::Set;
            let time = match () {
                () if is(word, "ex") => Some(ExpiryTimeUnit::IN_SECONDS),
                () if is(word, "px") => Some(ExpiryTimeUnit::IN_MILLISECONDS),
                () if is(word, "exat") => Some(ExpiryTimeUnit::AT_SECONDS),
                () if is(word, "pxat") => Some(ExpiryTimeUnit::AT_MILLISECONDS),
                () => None,
            };
            if let Some(time) = time {
                // As in Redis, an option may be repeated, and different ones exclude each other.
                let another = options.expiry.is_some_and(|(other, _)| other != time);
                let Some(argument) = words.next() else {
                    return Err(CommandError::Syntax);
                };
                if another || options.keep || options.persist {
                    return Err(CommandError::Syntax);
                }
                options.expiry = Some((time, argument));
            } else if set && is(word, "nx") && !options.present && options.equal.is_none() {
                options.absent = true;
            } else if set && is(word, "xx") && !options.absent && options.equal.is_none() {
                options.present = true;
            } else if set && is(word, "ifeq") && options.has_no_condition() {
                options.equal = Some(words.next().ok_or(CommandError::Syntax)?);
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

pub(super) fn set(planned: &mut PlannedCommand<'_>) -> Answer {
    let value = planned.args[2];
    if planned.args.len() == 3 {
        set_plain(planned, 0, value)?;
        planned.reply.ok();
        return Ok(());
    }
    let options = SetGetexOptions::parse(SetGetexCommand::Set, planned.rest(3))?;
    debug_assert!(
        !options.absent || !options.present,
        "NX and XX exclude each other"
    );
    let mut expires_at_ms = match options.expiry {
        Some((time, argument)) => Some(time.parse(argument, planned.now_ms(), "set")?),
        None => None,
    };
    // As in Redis, the reply is the old value even if the condition fails.
    if options.get {
        get(planned)?;
    }
    let found = planned.peek(0)?;
    let refused = match options.equal {
        Some(equal) => planned.read_string(0, |_, value, _| value != Some(equal))?,
        None if found.is_some() => options.absent,
        None => options.present,
    };
    if refused {
        if !options.get {
            planned.reply.null();
        }
        return Ok(());
    }
    if options.keep {
        debug_assert!(options.expiry.is_none(), "KEEPTTL excludes a new expiry");
        expires_at_ms = found.and_then(|found| found.expires_at_ms);
    }
    planned.set_string(0, value, expires_at_ms)?;
    planned.changed(0, Class::String, "set");
    if options.expiry.is_some() {
        // As in Redis, this is an event of its own, but the same change.
        planned.tell(0, Class::Generic, "expire");
    }
    log_set(planned, value, expires_at_ms);
    if !options.get {
        planned.reply.ok();
    }
    Ok(())
}

pub(super) fn delifeq(planned: &mut PlannedCommand<'_>) -> Answer {
    let equal = planned.args[2];
    let is_equal = planned.read_string(0, |_, value, _| value == Some(equal))?;
    if is_equal {
        planned.remove(0)?;
        planned.changed(0, Class::Generic, "del");
        // A replay need not compare the value again.
        planned.log_instead(&[b"DEL", planned.key(0)]);
    }
    planned.reply.integer(i64::from(is_equal));
    Ok(())
}

pub(super) fn setex(planned: &mut PlannedCommand<'_>) -> Answer {
    set_expiring(planned, ExpiryTimeUnit::IN_SECONDS, "setex")
}

pub(super) fn psetex(planned: &mut PlannedCommand<'_>) -> Answer {
    set_expiring(planned, ExpiryTimeUnit::IN_MILLISECONDS, "psetex")
}

fn set_expiring(planned: &mut PlannedCommand<'_>, time: ExpiryTimeUnit, name: &str) -> Answer {
    let value = planned.args[3];
    let expires_at_ms = Some(time.parse(planned.args[2], planned.now_ms(), name)?);
    planned.set_string(0, value, expires_at_ms)?;
    planned.changed(0, Class::String, "set");
    planned.tell(0, Class::Generic, "expire");
    log_set(planned, value, expires_at_ms);
    planned.reply.ok();
    Ok(())
}

/// Logs the command in a form that has the same effect at any time of replay.
fn log_set(planned: &mut PlannedCommand<'_>, value: &[u8], expires_at_ms: Option<u64>) {
    let key = planned.key(0);
    match expires_at_ms {
        Some(time) => {
            let mut buffer = itoa::Buffer::new();
            let time = buffer.format(time).as_bytes();
            planned.log_instead(&[b"SET", key, value, b"PXAT", time]);
        }
        None => planned.log_instead(&[b"SET", key, value]),
    }
}

pub(super) fn getex(planned: &mut PlannedCommand<'_>) -> Answer {
    let options = SetGetexOptions::parse(SetGetexCommand::GetEx, planned.rest(2))?;
    debug_assert!(
        options.has_no_condition() && !options.keep,
        "these are options of SET"
    );
    get(planned)?;
    let Some(found) = planned.peek(0)? else {
        return Ok(());
    };
    if let Some((time, argument)) = options.expiry {
        // As in Redis, the time is checked only if the key exists. An error drops the reply so far.
        let at = time.parse(argument, planned.now_ms(), "getex")?;
        expire_at(planned, i64::try_from(at).unwrap_or(i64::MAX))?;
    } else if options.persist && found.expires_at_ms.is_some() {
        planned.set_expiry(0, None)?;
        planned.changed(0, Class::Generic, "persist");
        planned.log_instead(&[b"PERSIST", planned.key(0)]);
    }
    Ok(())
}
