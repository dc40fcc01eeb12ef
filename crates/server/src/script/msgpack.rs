//! The library `cmsgpack`: values as MessagePack.

use super::arguments::LuaArguments;
use super::failure::{look_after, raise};
use super::text::GrowingText;
use mlua::{Lua, LuaString, MultiValue, Result, Table, Value};
use rmp::{Marker, encode};

/// Tables nested deeper than this are packed as nil.
const DEPTH_MAX: usize = 16;

const NIL: u8 = 0xc0;
const FALSE: u8 = 0xc2;
const TRUE: u8 = 0xc3;

/// Largest nesting depth of packed values, which are read by recursion.
const READ_DEPTH_MAX: usize = 128;

/// Creates the library.
pub fn library(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", lua.create_function(pack)?)?;
    let all = lua.create_function(|lua, values: MultiValue| {
        let arguments = LuaArguments::new(lua, "unpack", values);
        unpack(lua, &arguments.string(1)?.as_bytes(), 0, 0, false)
    })?;
    table.raw_set("unpack", all)?;
    let one = lua.create_function(|lua, values: MultiValue| {
        let arguments = LuaArguments::new(lua, "unpack_one", values);
        let offset = optional(&arguments, 2)?;
        unpack(lua, &arguments.string(1)?.as_bytes(), 1, offset, true)
    })?;
    table.raw_set("unpack_one", one)?;
    let limited = lua.create_function(|lua, values: MultiValue| {
        let arguments = LuaArguments::new(lua, "unpack_limit", values);
        let limit = arguments.number(2)? as i64;
        let offset = optional(&arguments, 3)?;
        unpack(lua, &arguments.string(1)?.as_bytes(), limit, offset, true)
    })?;
    table.raw_set("unpack_limit", limited)?;
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(table)
}

fn optional(arguments: &LuaArguments<'_>, position: usize) -> Result<i64> {
    match arguments.get(position) {
        None | Some(Value::Nil) => Ok(0),
        Some(_) => Ok(arguments.number(position)? as i64),
    }
}

fn pack(lua: &Lua, values: MultiValue) -> Result<LuaString> {
    if values.is_empty() {
        let arguments = LuaArguments::new(lua, "pack", values);
        return Err(arguments.bad(0, "MessagePack pack needs input."));
    }
    let mut text = GrowingText::new(lua);
    for value in &values {
        write(&mut text, value, 0)?;
    }
    lua.create_string(text.finish())
}

fn write(text: &mut GrowingText, value: &Value, depth: usize) -> Result<()> {
    debug_assert!(depth <= DEPTH_MAX);
    // Writing to memory does not fail, but the types do not say so.
    let failed = mlua::Error::external;
    let out = text.room(match value {
        Value::String(text) => text.as_bytes().len(),
        _ => 0,
    })?;
    match value {
        // Lua's memory, and so each string in it, has less than 4 GiB.
        Value::String(text) => encode::write_str_len(out, text.as_bytes().len() as u32)
            .map(|_| out.extend_from_slice(&text.as_bytes()))
            .map_err(failed)?,
        Value::Integer(number) => {
            encode::write_sint(out, *number).map_err(failed)?;
        }
        // The conversion of a greater number would saturate.
        Value::Number(number) if number.fract() == 0.0 && number.abs() < 9.2e18 => {
            encode::write_sint(out, *number as i64).map_err(failed)?;
        }
        // As in lua-cmsgpack, four bytes where they hold the same number.
        Value::Number(number) if f64::from(*number as f32) == *number => {
            encode::write_f32(out, *number as f32).map_err(failed)?;
        }
        Value::Number(number) => encode::write_f64(out, *number).map_err(failed)?,
        Value::Boolean(value) => out.push(if *value { TRUE } else { FALSE }),
        Value::Table(table) if depth < DEPTH_MAX => write_table(text, table, depth)?,
        _ => out.push(NIL),
    }
    Ok(())
}

fn write_table(text: &mut GrowingText, table: &Table, depth: usize) -> Result<()> {
    let failed = mlua::Error::external;
    if let Some(length) = length_of_array(table)? {
        debug_assert!(u32::try_from(length).is_ok(), "Lua's memory holds fewer");
        encode::write_array_len(text.room(0)?, length as u32).map_err(failed)?;
        for position in 1..=length {
            write(text, &table.raw_get(position)?, depth + 1)?;
        }
        return Ok(());
    }
    // `mlua` can hold only few values of Lua at once, so the entries are counted first.
    let mut count = 0;
    for pair in table.pairs::<Value, Value>() {
        pair?;
        count += 1;
        look_after(count)?;
    }
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    encode::write_map_len(text.room(0)?, count).map_err(failed)?;
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        write(text, &key, depth + 1)?;
        write(text, &value, depth + 1)?;
    }
    Ok(())
}

/// Returns the length of a table that is an array: its keys are the numbers from 1 up to its
/// length.
fn length_of_array(table: &Table) -> Result<Option<i64>> {
    let (mut count, mut greatest) = (0, 0);
    for pair in table.pairs::<Value, Value>() {
        match pair?.0 {
            Value::Integer(key) if key > 0 => {
                count += 1;
                greatest = greatest.max(key);
                look_after(count as usize)?;
            }
            _ => return Ok(None),
        }
    }
    // Positive keys that all differ are those from 1 on exactly if the greatest is their number.
    debug_assert!(count <= greatest, "keys differ");
    Ok((count == greatest).then_some(count))
}

/// The reason why packed values cannot be read.
enum MsgpackReadError {
    Missing,
    Bad,
    Lua(mlua::Error),
}

impl From<mlua::Error> for MsgpackReadError {
    fn from(error: mlua::Error) -> MsgpackReadError {
        MsgpackReadError::Lua(error)
    }
}

/// Unpacks up to `limit` values (0: all) from `offset` on. With `resumes`, the first result is the
/// offset at which to continue, or -1 at the end.
fn unpack(lua: &Lua, data: &[u8], limit: i64, offset: i64, resumes: bool) -> Result<MultiValue> {
    if offset < 0 || limit < 0 {
        return Err(raise(
            lua,
            format_args!(
                "Invalid request to unpack with offset of {offset} and limit of {}.",
                data.len()
            ),
        ));
    }
    let Some(mut rest) = data.get(offset as usize..) else {
        let length = data.len();
        return Err(raise(
            lua,
            format_args!("Start offset {offset} greater than input length {length}."),
        ));
    };
    let mut values = Vec::new();
    while !rest.is_empty() && (limit == 0 || (values.len() as i64) < limit) {
        if values.len() >= super::RESULTS_MAX {
            return Err(raise(lua, "too many results to unpack"));
        }
        let value = read(lua, &mut rest, 0).map_err(|broken| match broken {
            MsgpackReadError::Missing => raise(lua, "Missing bytes in input."),
            MsgpackReadError::Bad => raise(lua, "Bad data format in input."),
            MsgpackReadError::Lua(error) => error,
        })?;
        values.push(value);
    }
    if resumes {
        let next = if rest.is_empty() {
            -1
        } else {
            (data.len() - rest.len()) as i64
        };
        values.insert(0, Value::Integer(next));
    }
    Ok(values.into_iter().collect())
}

fn take<const BYTES: usize>(
    rest: &mut &[u8],
) -> std::result::Result<[u8; BYTES], MsgpackReadError> {
    let (head, tail) = rest.split_first_chunk().ok_or(MsgpackReadError::Missing)?;
    *rest = tail;
    Ok(*head)
}

fn take_string(
    lua: &Lua,
    rest: &mut &[u8],
    length: usize,
) -> std::result::Result<Value, MsgpackReadError> {
    let (head, tail) = rest
        .split_at_checked(length)
        .ok_or(MsgpackReadError::Missing)?;
    *rest = tail;
    Ok(Value::String(lua.create_string(head)?))
}

fn read(lua: &Lua, rest: &mut &[u8], depth: usize) -> std::result::Result<Value, MsgpackReadError> {
    if depth > READ_DEPTH_MAX {
        return Err(MsgpackReadError::Bad);
    }
    let [marker] = take(rest)?;
    let number = |number: f64| Ok(Value::Number(number));
    match Marker::from_u8(marker) {
        Marker::Null => Ok(Value::Nil),
        Marker::True => Ok(Value::Boolean(true)),
        Marker::False => Ok(Value::Boolean(false)),
        Marker::FixPos(value) => number(f64::from(value)),
        Marker::FixNeg(value) => number(f64::from(value)),
        Marker::U8 => number(f64::from(u8::from_be_bytes(take(rest)?))),
        Marker::U16 => number(f64::from(u16::from_be_bytes(take(rest)?))),
        Marker::U32 => number(f64::from(u32::from_be_bytes(take(rest)?))),
        Marker::U64 => number(u64::from_be_bytes(take(rest)?) as f64),
        Marker::I8 => number(f64::from(i8::from_be_bytes(take(rest)?))),
        Marker::I16 => number(f64::from(i16::from_be_bytes(take(rest)?))),
        Marker::I32 => number(f64::from(i32::from_be_bytes(take(rest)?))),
        Marker::I64 => number(i64::from_be_bytes(take(rest)?) as f64),
        Marker::F32 => number(f64::from(f32::from_be_bytes(take(rest)?))),
        Marker::F64 => number(f64::from_be_bytes(take(rest)?)),
        Marker::FixStr(length) => take_string(lua, rest, usize::from(length)),
        Marker::Str8 | Marker::Bin8 => {
            let length = usize::from(u8::from_be_bytes(take(rest)?));
            take_string(lua, rest, length)
        }
        Marker::Str16 | Marker::Bin16 => {
            let length = usize::from(u16::from_be_bytes(take(rest)?));
            take_string(lua, rest, length)
        }
        Marker::Str32 | Marker::Bin32 => {
            let length = u32::from_be_bytes(take(rest)?) as usize;
            take_string(lua, rest, length)
        }
        Marker::FixArray(length) => read_array(lua, rest, u32::from(length), depth),
        Marker::Array16 => {
            let length = u16::from_be_bytes(take(rest)?);
            read_array(lua, rest, u32::from(length), depth)
        }
        Marker::Array32 => {
            let length = u32::from_be_bytes(take(rest)?);
            read_array(lua, rest, length, depth)
        }
        Marker::FixMap(length) => read_map(lua, rest, u32::from(length), depth),
        Marker::Map16 => {
            let length = u16::from_be_bytes(take(rest)?);
            read_map(lua, rest, u32::from(length), depth)
        }
        Marker::Map32 => {
            let length = u32::from_be_bytes(take(rest)?);
            read_map(lua, rest, length, depth)
        }
        _ => Err(MsgpackReadError::Bad),
    }
}

fn read_array(
    lua: &Lua,
    rest: &mut &[u8],
    length: u32,
    depth: usize,
) -> std::result::Result<Value, MsgpackReadError> {
    // It has no room for `length` values yet, because a few bytes may announce billions.
    let table = lua.create_table()?;
    for position in 1..=length {
        look_after(position as usize)?;
        table.raw_set(position, read(lua, rest, depth + 1)?)?;
    }
    Ok(Value::Table(table))
}

fn read_map(
    lua: &Lua,
    rest: &mut &[u8],
    length: u32,
    depth: usize,
) -> std::result::Result<Value, MsgpackReadError> {
    let table = lua.create_table()?;
    for position in 0..length {
        look_after(position as usize)?;
        let key = read(lua, rest, depth + 1)?;
        let value = read(lua, rest, depth + 1)?;
        // Lua has no such keys.
        let unusable = match &key {
            Value::Nil => true,
            Value::Number(number) => number.is_nan(),
            _ => false,
        };
        if unusable {
            return Err(MsgpackReadError::Bad);
        }
        table.raw_set(key, value)?;
    }
    Ok(Value::Table(table))
}
