//! Numbers in strings.

use crate::command::{Answer, Call};
use crate::error::CommandError;
use crate::keyspace::Class;
use crate::long_double::LongDouble;
use crate::number::parse_integer;

pub(super) fn incr(call: &mut Call<'_>) -> Answer {
    add(call, 1)
}

pub(super) fn decr(call: &mut Call<'_>) -> Answer {
    add(call, -1)
}

pub(super) fn incrby(call: &mut Call<'_>) -> Answer {
    let summand = call.integer(2)?;
    add(call, summand)
}

pub(super) fn decrby(call: &mut Call<'_>) -> Answer {
    match call.integer(2)?.checked_neg() {
        Some(summand) => add(call, summand),
        None => Err(CommandError::text("ERR decrement would overflow")),
    }
}

fn add(call: &mut Call<'_>, summand: i64) -> Answer {
    let key = call.args[1];
    let found = call.keys.peek(key)?;
    let value = call.keys.read_string(key, |value| match value {
        Some(value) => parse_integer(value).ok_or(CommandError::NotInteger),
        None => Ok(0),
    })??;
    let Some(sum) = value.checked_add(summand) else {
        return Err(CommandError::text(
            "ERR increment or decrement would overflow",
        ));
    };
    let expires_at_ms = found.and_then(|found| found.expires_at_ms);
    let mut buffer = itoa::Buffer::new();
    let text = buffer.format(sum).as_bytes();
    call.keys.set_string(key, text, expires_at_ms)?;
    call.keys.changed(key, Class::String, "incrby");
    call.reply.integer(sum);
    Ok(())
}

pub(super) fn incrbyfloat(call: &mut Call<'_>) -> Answer {
    let key = call.args[1];
    let found = call.keys.peek(key)?;
    let value = call.keys.read_string(key, |value| {
        LongDouble::parse(value.unwrap_or(b"0")).ok_or(CommandError::NotFloat)
    })??;
    let summand = LongDouble::parse(call.args[2]).ok_or(CommandError::NotFloat)?;
    let Some(sum) = value.plus(summand) else {
        return Err(CommandError::text(
            "ERR increment would produce NaN or Infinity",
        ));
    };
    let text = sum.format();
    let expires_at_ms = found.and_then(|found| found.expires_at_ms);
    call.keys.set_string(key, text.as_bytes(), expires_at_ms)?;
    call.keys.changed(key, Class::String, "incrbyfloat");
    // A log that is read on another machine must not depend on how that one adds.
    let words = [b"SET", key, text.as_bytes(), b"KEEPTTL"];
    call.keys.effects().log_instead(&words);
    call.reply.bulk(text.as_bytes());
    Ok(())
}
