//! Commands on the times at which keys expire.

use crate::command::{
    Answer, CommandDefinition, CommandGroup, Flags, PlannedCommand, Touch, integer, is,
};
use crate::error::{CommandError, shown};
use crate::keyspace::Class;

const GROUP: CommandGroup = CommandGroup::Generic;

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    expiring("expire", "1.0.0", |planned| {
        expire(planned, "expire", ExpiryTimeUnit::IN_SECONDS)
    })
    .summary("Sets the expiry of a key in seconds from now."),
    expiring("pexpire", "2.6.0", |planned| {
        expire(planned, "pexpire", ExpiryTimeUnit::IN_MILLISECONDS)
    })
    .summary("Sets the expiry of a key in milliseconds from now."),
    expiring("expireat", "1.2.0", |planned| {
        expire(planned, "expireat", ExpiryTimeUnit::AT_SECONDS)
    })
    .summary("Sets the expiry of a key in seconds since 1970."),
    expiring("pexpireat", "2.6.0", |planned| {
        expire(planned, "pexpireat", ExpiryTimeUnit::AT_MILLISECONDS)
    })
    .summary("Sets the expiry of a key in milliseconds since 1970."),
    telling("ttl", "1.0.0", |planned| {
        remaining(planned, ExpiryTimeUnit::IN_SECONDS)
    })
    .summary("Returns the remaining time to live of a key in seconds."),
    telling("pttl", "2.6.0", |planned| {
        remaining(planned, ExpiryTimeUnit::IN_MILLISECONDS)
    })
    .summary("Returns the remaining time to live of a key in milliseconds."),
    telling("expiretime", "7.0.0", |planned| {
        remaining(planned, ExpiryTimeUnit::AT_SECONDS)
    })
    .summary("Returns the expiry time of a key in seconds since 1970."),
    telling("pexpiretime", "7.0.0", |planned| {
        remaining(planned, ExpiryTimeUnit::AT_MILLISECONDS)
    })
    .summary("Returns the expiry time of a key in milliseconds since 1970."),
    CommandDefinition::planned("persist", 2, Touch::Change, persist)
        .flag(Flags::KEYS_ONLY)
        .writes()
        .fast()
        .key(1)
        .about(GROUP, "2.2.0", "O(log N)")
        .summary("Removes the expiry of a key."),
];

/// Creates a command that sets the expiry of a key.
const fn expiring(
    name: &'static str,
    since: &'static str,
    complete: fn(&mut PlannedCommand<'_>) -> Answer,
) -> CommandDefinition {
    CommandDefinition::planned(name, -3, Touch::Change, complete)
        .flag(Flags::KEYS_ONLY)
        .slowly_grows()
        .fast()
        .key(1)
        .about(GROUP, since, "O(log N)")
}

/// Creates a command that returns the expiry of a key.
const fn telling(
    name: &'static str,
    since: &'static str,
    complete: fn(&mut PlannedCommand<'_>) -> Answer,
) -> CommandDefinition {
    CommandDefinition::planned(name, 2, Touch::Read, complete)
        .flag(Flags::KEYS_ONLY)
        .looks()
        .fast()
        .key(1)
        .about(GROUP, since, "O(1)")
}

/// The unit and origin of an argument that is a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) struct ExpiryTimeUnit {
    /// The number of milliseconds in its unit.
    unit_ms: i64,
    /// True if it counts from now, false if it counts from 1970.
    from_now: bool,
}

impl ExpiryTimeUnit {
    /// Seconds from now.
    pub const IN_SECONDS: ExpiryTimeUnit = ExpiryTimeUnit {
        unit_ms: 1000,
        from_now: true,
    };
    /// Milliseconds from now.
    pub const IN_MILLISECONDS: ExpiryTimeUnit = ExpiryTimeUnit {
        unit_ms: 1,
        from_now: true,
    };
    /// Seconds since 1970.
    pub const AT_SECONDS: ExpiryTimeUnit = ExpiryTimeUnit {
        unit_ms: 1000,
        from_now: false,
    };
    /// Milliseconds since 1970.
    pub const AT_MILLISECONDS: ExpiryTimeUnit = ExpiryTimeUnit {
        unit_ms: 1,
        from_now: false,
    };

    /// Returns the time in milliseconds since 1970, which may be negative, or `None` if it does not
    /// fit.
    pub(in crate::commands) fn milliseconds(self, value: i64, now_ms: u64) -> Option<i64> {
        let time = value.checked_mul(self.unit_ms)?;
        if self.from_now {
            time.checked_add(i64::try_from(now_ms).ok()?)
        } else {
            Some(time)
        }
    }

    /// Returns the time left until `at_ms`, or the time `at_ms` itself, in units, rounded up.
    pub(in crate::commands) fn left(self, at_ms: u64, now_ms: u64) -> i64 {
        let from = if self.from_now { now_ms } else { 0 };
        let left = i64::try_from(at_ms.saturating_sub(from)).unwrap_or(i64::MAX);
        left.saturating_add(self.unit_ms - 1) / self.unit_ms
    }

    /// Parses an argument as a time in milliseconds since 1970, for an option of the command
    /// `name`. The number must be positive.
    pub fn parse(self, argument: &[u8], now_ms: u64, name: &str) -> Result<u64, CommandError> {
        let value = integer(argument)?;
        // As in Redis, SET and others refuse a time that EXPIRE takes as one that has passed.
        if value <= 0 {
            return Err(invalid_time(name));
        }
        let time = self.milliseconds(value, now_ms);
        let time = time.and_then(|time| u64::try_from(time).ok());
        time.ok_or_else(|| invalid_time(name))
    }
}

/// Returns the error for an invalid time in the command of this name.
pub(in crate::commands) fn invalid_time(name: &str) -> CommandError {
    CommandError::owned(format!("ERR invalid expire time in '{name}' command"))
}

/// The conditions for setting a new expiry.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::commands) struct Conditions {
    /// True if the key must have no expiry.
    none_yet: bool,
    /// True if the key must have an expiry.
    some_yet: bool,
    /// True if the new expiry must be later.
    later: bool,
    /// True if the new expiry must be sooner.
    sooner: bool,
}

impl Conditions {
    pub(in crate::commands) fn parse(options: &[&[u8]]) -> Result<Conditions, CommandError> {
        let mut conditions = Conditions::default();
        for option in options {
            let condition = match option {
                _ if is(option, "nx") => &mut conditions.none_yet,
                _ if is(option, "xx") => &mut conditions.some_yet,
                _ if is(option, "gt") => &mut conditions.later,
                _ if is(option, "lt") => &mut conditions.sooner,
                _ => {
                    let option = shown(option);
                    return Err(CommandError::owned(format!(
                        "ERR Unsupported option {option}"
                    )));
                }
            };
            *condition = true;
        }
        if conditions.none_yet && (conditions.some_yet || conditions.later || conditions.sooner) {
            return Err(CommandError::text(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if conditions.later && conditions.sooner {
            return Err(CommandError::text(
                "ERR GT and LT options at the same time are not compatible",
            ));
        }
        Ok(conditions)
    }

    /// Returns true if an expiry `before` may become `after`. No expiry counts as later than any
    /// expiry.
    pub(in crate::commands) fn allow(self, before: Option<u64>, after: i64) -> bool {
        let before = before.map(|time| i64::try_from(time).unwrap_or(i64::MAX));
        match before {
            Some(_) if self.none_yet => false,
            None if self.some_yet || self.later => false,
            Some(before) if self.later => after > before,
            Some(before) if self.sooner => after < before,
            // Without an expiry any time is sooner, so LT sets it.
            _ => true,
        }
    }
}

fn expire(planned: &mut PlannedCommand<'_>, name: &str, time: ExpiryTimeUnit) -> Answer {
    // As in Redis, an error in an option comes before one in the time.
    let conditions = Conditions::parse(planned.rest(3))?;
    let value = planned.integer(2)?;
    let Some(at) = time.milliseconds(value, planned.now_ms()) else {
        return Err(invalid_time(name));
    };
    // EXPIRE is no read, so it counts neither as a hit nor as a miss.
    let found = planned.peek(0)?;
    if !found.is_some_and(|found| conditions.allow(found.expires_at_ms, at)) {
        planned.reply.integer(0);
        return Ok(());
    }
    expire_at(planned, at)?;
    planned.reply.integer(1);
    Ok(())
}

/// Sets the expiry of the command's key, which must exist. If that time has passed, removes the
/// key at once.
pub(in crate::commands) fn expire_at(planned: &mut PlannedCommand<'_>, at_ms: i64) -> Answer {
    let key = planned.key(0);
    // A time before 1970 has passed as well.
    let at = u64::try_from(at_ms).unwrap_or(0);
    if planned.has_expired(at) {
        planned.remove(0)?;
        planned.changed(0, Class::Generic, "del");
        planned.log_instead(&[b"DEL", key]);
        return Ok(());
    }
    planned.set_expiry(0, Some(at))?;
    planned.changed(0, Class::Generic, "expire");
    // The log is replayed at another time, so it has the expiry instead of the time to live.
    let mut buffer = itoa::Buffer::new();
    let at = buffer.format(at).as_bytes();
    planned.log_instead(&[b"PEXPIREAT", key, at]);
    Ok(())
}

fn remaining(planned: &mut PlannedCommand<'_>, time: ExpiryTimeUnit) -> Answer {
    let answer = match planned.find(0)? {
        // As in Redis, -2 stands for no key, and -1 for no expiry.
        None => -2,
        Some(found) => match found.expires_at_ms {
            None => -1,
            Some(at) => {
                let from = if time.from_now { planned.now_ms() } else { 0 };
                let left = i64::try_from(at.saturating_sub(from)).unwrap_or(i64::MAX);
                // As in Redis, seconds are rounded to the nearest one.
                left.saturating_add(time.unit_ms / 2) / time.unit_ms
            }
        },
    };
    planned.reply.integer(answer);
    Ok(())
}

fn persist(planned: &mut PlannedCommand<'_>) -> Answer {
    let found = planned.peek(0)?;
    let expires = found.is_some_and(|found| found.expires_at_ms.is_some());
    if expires {
        planned.set_expiry(0, None)?;
        planned.changed(0, Class::Generic, "persist");
    }
    planned.reply.integer(i64::from(expires));
    Ok(())
}
