//! The conversion of a script's results to the protocol.

use super::engine::entered_limit;
use super::failure::look;
use crate::resp::{Protocol, RespReply};
use mlua::{Result, Table, Value};

/// Largest nesting depth of values, which are written by recursion.
const DEPTH_MAX: usize = 200;

/// Writes the result of a script. `typed` is true if the script has asked for RESP3, which decides
/// how booleans are written.
pub fn to_reply(value: &Value, reply: &mut RespReply, typed: bool) -> Result<()> {
    write(value, &mut LuaReplyWriter { reply, values: 0 }, typed, 0)
}

/// Number of values written between two checks of the verdict.
const VALUES_UNTIL_LOOK: usize = 1 << 12;

/// A reply that is being written. It may contain a table any number of times.
struct LuaReplyWriter<'r> {
    reply: &'r mut RespReply,
    values: usize,
}

fn write(value: &Value, answer: &mut LuaReplyWriter<'_>, typed: bool, depth: usize) -> Result<()> {
    debug_assert!(depth <= DEPTH_MAX);
    answer.values += 1;
    if answer.values.is_multiple_of(VALUES_UNTIL_LOOK) {
        look()?;
    }
    let reply = &mut *answer.reply;
    if reply.is_cut() {
        // Its client is disconnected, so nobody gets the rest.
        return Ok(());
    }
    if reply.len() > entered_limit() {
        return Err(mlua::Error::MemoryError("not enough memory".to_owned()));
    }
    match value {
        Value::String(text) => reply.bulk(&text.as_bytes()),
        Value::Integer(number) => reply.integer(*number),
        Value::Number(number) => reply.integer(truncated(*number)),
        Value::Boolean(value) if typed => reply.boolean(*value),
        Value::Boolean(true) => reply.integer(1),
        Value::Table(table) => {
            if depth >= DEPTH_MAX {
                reply.error("ERR reached lua stack limit");
            } else {
                write_table(table, answer, typed, depth)?;
            }
        }
        _ => reply.null(),
    }
    Ok(())
}

/// Converts a number to an integer without its fraction. As on x86, a number that no integer can
/// hold becomes the least one.
pub fn truncated(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}

/// Returns a number as an integer if it is one.
pub fn whole(number: f64) -> Option<i64> {
    let integer = truncated(number);
    // The bits are compared, because there are two zeros.
    ((integer as f64).to_bits() == number.to_bits()).then_some(integer)
}

fn write_table(
    table: &Table,
    answer: &mut LuaReplyWriter<'_>,
    typed: bool,
    depth: usize,
) -> Result<()> {
    let reply = &mut *answer.reply;
    // In the order of Redis, which decides where a table has several of these names.
    if let Value::String(text) = table.raw_get("err")? {
        reply.line(b'-', &text.as_bytes());
        return Ok(());
    }
    if let Value::String(text) = table.raw_get("ok")? {
        reply.line(b'+', &text.as_bytes());
        return Ok(());
    }
    let double = match table.raw_get("double")? {
        Value::Number(number) => Some(number),
        Value::Integer(number) => Some(number as f64),
        _ => None,
    };
    if let Some(number) = double {
        reply.double(number);
        return Ok(());
    }
    if let Value::Table(map) = table.raw_get("map")? {
        let mark = reply.begin();
        let mut length = 0;
        for pair in map.pairs::<Value, Value>() {
            let (key, value) = pair?;
            write(&key, answer, typed, depth + 1)?;
            write(&value, answer, typed, depth + 1)?;
            length += 1;
        }
        answer.reply.end_map(mark, length);
        return Ok(());
    }
    if let Value::Table(set) = table.raw_get("set")? {
        let mark = reply.begin();
        let mut length = 0;
        for pair in set.pairs::<Value, Value>() {
            write(&pair?.0, answer, typed, depth + 1)?;
            length += 1;
        }
        answer.reply.end_set(mark, length);
        return Ok(());
    }
    if let Value::String(digits) = table.raw_get("big_number")? {
        match reply.protocol() {
            Protocol::Resp2 => reply.bulk(&digits.as_bytes()),
            Protocol::Resp3 => reply.line(b'(', &digits.as_bytes()),
        }
        return Ok(());
    }
    if let Value::Table(verbatim) = table.raw_get("verbatim_string")?
        && let Value::String(format) = verbatim.raw_get("format")?
        && let Value::String(text) = verbatim.raw_get("string")?
    {
        let mut padded = *b"   ";
        let format = format.as_bytes();
        // As in Redis, the format ends before a zero byte.
        let letters = format.iter().take_while(|byte| **byte != 0);
        for (letter, &byte) in padded.iter_mut().zip(letters) {
            *letter = byte;
        }
        reply.verbatim(&padded, &text.as_bytes());
        return Ok(());
    }
    let mark = reply.begin();
    let mut length = 0;
    loop {
        match table.raw_get(length + 1)? {
            // As in Redis, an array ends before its first nil.
            Value::Nil => break,
            value => write(&value, answer, typed, depth + 1)?,
        }
        length += 1;
    }
    answer.reply.end_array(mark, length);
    Ok(())
}
