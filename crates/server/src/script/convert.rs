//! Values between Lua and the protocol.

use crate::resp::{Protocol, Reply};
use mlua::{Lua, Result, Table, Value};

/// How deep values may be nested, which are written by recursion.
const DEPTH_MAX: usize = 200;

/// Reads one value of the protocol, as commands write it, from the front of `bytes`.
pub fn to_lua(lua: &Lua, bytes: &mut &[u8]) -> Result<Value> {
    let line = take_line(bytes);
    let (kind, rest) = line.split_first().unwrap_or((&b'_', b""));
    let length = || crate::number::parse_integer(rest).unwrap_or(-1);
    let field = |name: &str, text: &[u8]| {
        let table = lua.create_table()?;
        table.raw_set(name, lua.create_string(text)?)?;
        Ok(Value::Table(table))
    };
    match kind {
        b'+' => field("ok", rest),
        b'-' => field("err", rest),
        b':' => Ok(Value::Number(length() as f64)),
        b'$' if length() < 0 => Ok(Value::Boolean(false)),
        b'$' => {
            let text = take_bulk(bytes, length());
            Ok(Value::String(lua.create_string(text)?))
        }
        b'*' if length() < 0 => Ok(Value::Boolean(false)),
        b'*' | b'>' => {
            let table = lua.create_table()?;
            for position in 1..=length() {
                let value = to_lua(lua, bytes)?;
                table.raw_set(position, value)?;
            }
            Ok(Value::Table(table))
        }
        b'%' => {
            let map = lua.create_table()?;
            for _ in 0..length() {
                let key = to_lua(lua, bytes)?;
                let value = to_lua(lua, bytes)?;
                map.raw_set(key, value)?;
            }
            wrap(lua, "map", Value::Table(map))
        }
        b'~' => {
            let set = lua.create_table()?;
            for _ in 0..length() {
                let member = to_lua(lua, bytes)?;
                set.raw_set(member, true)?;
            }
            wrap(lua, "set", Value::Table(set))
        }
        b'#' => Ok(Value::Boolean(rest == b"t")),
        b',' => {
            let value = crate::number::parse_double(rest).unwrap_or(f64::NAN);
            wrap(lua, "double", Value::Number(value))
        }
        b'(' => field("big_number", rest),
        b'=' => {
            let text = take_bulk(bytes, length());
            let verbatim = lua.create_table()?;
            let format = text.get(..3).unwrap_or_default();
            verbatim.raw_set("format", lua.create_string(format)?)?;
            let string = text.get(4..).unwrap_or_default();
            verbatim.raw_set("string", lua.create_string(string)?)?;
            wrap(lua, "verbatim_string", Value::Table(verbatim))
        }
        _ => Ok(Value::Nil),
    }
}

fn wrap(lua: &Lua, name: &str, value: Value) -> Result<Value> {
    let table = lua.create_table()?;
    table.raw_set(name, value)?;
    Ok(Value::Table(table))
}

fn take_line<'b>(bytes: &mut &'b [u8]) -> &'b [u8] {
    let end = memchr::memchr(b'\r', bytes).unwrap_or(bytes.len());
    let line = bytes.get(..end).unwrap_or_default();
    *bytes = bytes.get(end + 2..).unwrap_or_default();
    line
}

fn take_bulk<'b>(bytes: &mut &'b [u8], length: i64) -> &'b [u8] {
    let length = length.max(0) as usize;
    let text = bytes.get(..length).unwrap_or_default();
    *bytes = bytes.get(length + 2..).unwrap_or_default();
    text
}

/// Writes what a script has returned. `typed` says whether it has asked for RESP3, which booleans
/// go by.
pub fn to_reply(value: &Value, reply: &mut Reply, typed: bool) -> Result<()> {
    write(value, reply, typed, 0)
}

fn write(value: &Value, reply: &mut Reply, typed: bool, depth: usize) -> Result<()> {
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
                write_table(table, reply, typed, depth)?;
            }
        }
        _ => reply.null(),
    }
    Ok(())
}

/// A number without its fraction; as on x86, what no integer can hold is the least one.
fn truncated(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}

fn write_table(table: &Table, reply: &mut Reply, typed: bool, depth: usize) -> Result<()> {
    if let Value::String(text) = table.raw_get("err")? {
        reply.error(&text.to_string_lossy());
        return Ok(());
    }
    if let Value::String(text) = table.raw_get("ok")? {
        reply.simple(&one_line(&text.as_bytes()));
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
            write(&key, reply, typed, depth + 1)?;
            write(&value, reply, typed, depth + 1)?;
            length += 1;
        }
        reply.end_map(mark, length);
        return Ok(());
    }
    if let Value::Table(set) = table.raw_get("set")? {
        let mark = reply.begin();
        let mut length = 0;
        for pair in set.pairs::<Value, Value>() {
            write(&pair?.0, reply, typed, depth + 1)?;
            length += 1;
        }
        reply.end_set(mark, length);
        return Ok(());
    }
    if let Value::String(digits) = table.raw_get("big_number")? {
        let digits = one_line(&digits.as_bytes());
        match reply.protocol() {
            Protocol::Resp2 => reply.bulk(digits.as_bytes()),
            Protocol::Resp3 => reply.raw(format!("({digits}\r\n").as_bytes()),
        }
        return Ok(());
    }
    if let Value::Table(verbatim) = table.raw_get("verbatim_string")?
        && let Value::String(format) = verbatim.raw_get("format")?
        && let Value::String(text) = verbatim.raw_get("string")?
    {
        let format: String = one_line(&format.as_bytes()).chars().take(3).collect();
        reply.verbatim(&format!("{format:<3}"), &text.as_bytes());
        return Ok(());
    }
    let mark = reply.begin();
    let mut length = 0;
    loop {
        match table.raw_get(length + 1)? {
            Value::Nil => break,
            value => write(&value, reply, typed, depth + 1)?,
        }
        length += 1;
    }
    reply.end_array(mark, length);
    Ok(())
}

/// A text that may stand in a line of the protocol.
fn one_line(text: &[u8]) -> String {
    String::from_utf8_lossy(text).replace(['\r', '\n'], " ")
}
