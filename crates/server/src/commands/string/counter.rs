//! Commands on numbers in strings.

use crate::command::{Answer, PlannedCommand};
use crate::error::CommandError;
use crate::keyspace::Class;
use crate::long_double::LongDouble;
use crate::number::parse_integer;

pub(super) fn incr(planned: &mut PlannedCommand<'_>) -> Answer {
    add(planned, 1)
}

pub(super) fn decr(planned: &mut PlannedCommand<'_>) -> Answer {
    add(planned, -1)
}

pub(super) fn incrby(planned: &mut PlannedCommand<'_>) -> Answer {
    let summand = planned.integer(2)?;
    add(planned, summand)
}

pub(super) fn decrby(planned: &mut PlannedCommand<'_>) -> Answer {
    match planned.integer(2)?.checked_neg() {
        Some(summand) => add(planned, summand),
        // The least integer has no opposite.
        None => Err(CommandError::text("ERR decrement would overflow")),
    }
}

fn add(planned: &mut PlannedCommand<'_>, summand: i64) -> Answer {
    let (value, expires_at_ms) = planned.read_string(0, |_, value, expires_at_ms| {
        let value = match value {
            Some(value) => parse_integer(value).ok_or(CommandError::NotInteger)?,
            None => 0,
        };
        Ok::<_, CommandError>((value, expires_at_ms))
    })??;
    let Some(sum) = value.checked_add(summand) else {
        return Err(CommandError::text(
            "ERR increment or decrement would overflow",
        ));
    };
    let mut buffer = itoa::Buffer::new();
    let text = buffer.format(sum).as_bytes();
    // An increment keeps the expiry, which setting a string would remove.
    planned.set_string(0, text, expires_at_ms)?;
    planned.changed(0, Class::String, "incrby");
    planned.reply.integer(sum);
    Ok(())
}

pub(super) fn incrbyfloat(planned: &mut PlannedCommand<'_>) -> Answer {
    let (value, expires_at_ms) = planned.read_string(0, |_, value, expires_at_ms| {
        let value = LongDouble::parse(value.unwrap_or(b"0")).ok_or(CommandError::NotFloat)?;
        Ok::<_, CommandError>((value, expires_at_ms))
    })??;
    // As in Redis, an invalid value is reported before an invalid summand.
    let summand = LongDouble::parse(planned.args[2]).ok_or(CommandError::NotFloat)?;
    let Some(sum) = value.plus(summand) else {
        return Err(CommandError::text(
            "ERR increment would produce NaN or Infinity",
        ));
    };
    let text = sum.format();
    planned.set_string(0, text.as_bytes(), expires_at_ms)?;
    planned.changed(0, Class::String, "incrbyfloat");
    // The log must not depend on the floating-point addition of the machine that reads it.
    planned.log_instead(&[b"SET", planned.key(0), text.as_bytes(), b"KEEPTTL"]);
    planned.reply.bulk(text.as_bytes());
    Ok(())
}
