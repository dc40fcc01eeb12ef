//! The library `cjson`: values as JSON, with the settings and oddities of Lua CJSON 2.1.

mod decode;
#[expect(unsafe_code, reason = "values are written from Lua's stack")]
mod encode;

use super::arguments::LuaArguments;
use super::failure::raise;
use mlua::{Lua, MultiValue, Result, Table, Value};
use parking_lot::Mutex;
use std::sync::Arc;

/// The settings that scripts may change; as in Redis, for all scripts from then on.
#[derive(Clone, Debug)]
pub(super) struct CjsonSettings {
    encode_depth: usize,
    decode_depth: usize,
    precision: usize,
    /// True if sparse arrays become objects rather than errors.
    converts_sparse: bool,
    sparse_ratio: usize,
    sparse_safe: usize,
    encodes_invalid: Invalid,
    decodes_invalid: bool,
}

/// The treatment of numbers that JSON lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Invalid {
    Refused,
    Written,
    Null,
}

impl Default for CjsonSettings {
    fn default() -> Self {
        CjsonSettings {
            encode_depth: 1000,
            decode_depth: 1000,
            precision: 14,
            converts_sparse: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encodes_invalid: Invalid::Refused,
            decodes_invalid: true,
        }
    }
}

/// Largest nesting depth that the setting accepts.
const DEPTH_LIMIT: usize = i32::MAX as usize;

/// Largest nesting depth, because deeper values do not fit on Lua's stack. It is the same in Redis.
const DEPTH_MAX: usize = 2600;

/// Creates the library.
pub fn library(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    let settings = Arc::new(Mutex::new(CjsonSettings::default()));
    let shared = Arc::clone(&settings);
    let function = lua.create_function(move |lua, values: MultiValue| {
        let arguments = LuaArguments::new(lua, "encode", values);
        let (Some(value), 1) = (arguments.get(1), arguments.len()) else {
            return Err(arguments.bad(1, "expected 1 argument"));
        };
        let settings = shared.lock().clone();
        encode::encode(lua, value, &settings)
    })?;
    table.raw_set("encode", function)?;
    let shared = Arc::clone(&settings);
    let function = lua.create_function(move |lua, values: MultiValue| {
        let arguments = LuaArguments::new(lua, "decode", values);
        if arguments.len() != 1 {
            return Err(arguments.bad(1, "expected 1 argument"));
        }
        let settings = shared.lock().clone();
        let text = arguments.string(1)?;
        decode::decode(lua, &text.as_bytes(), &settings)
    })?;
    table.raw_set("decode", function)?;
    add_settings(lua, &table, &settings)?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}

fn add_settings(lua: &Lua, table: &Table, settings: &Arc<Mutex<CjsonSettings>>) -> Result<()> {
    size_setting(
        lua,
        table,
        settings,
        "encode_max_depth",
        1..=DEPTH_LIMIT,
        |s| &mut s.encode_depth,
    )?;
    size_setting(
        lua,
        table,
        settings,
        "decode_max_depth",
        1..=DEPTH_LIMIT,
        |s| &mut s.decode_depth,
    )?;
    size_setting(
        lua,
        table,
        settings,
        "encode_number_precision",
        1..=14,
        |s| &mut s.precision,
    )?;
    let shared = Arc::clone(settings);
    let function = lua.create_function(move |lua, values: MultiValue| {
        let arguments = LuaArguments::new(lua, "encode_sparse_array", values);
        let mut settings = shared.lock();
        if let Some(Value::Boolean(converts)) = arguments.get(1) {
            settings.converts_sparse = *converts;
        }
        for position in 2..=arguments.len().min(3) {
            let number = size_argument(lua, &arguments, position, &(0..=i32::MAX as usize))?;
            if position == 2 {
                settings.sparse_ratio = number;
            } else {
                settings.sparse_safe = number;
            }
        }
        let CjsonSettings {
            converts_sparse,
            sparse_ratio,
            sparse_safe,
            ..
        } = *settings;
        Ok((converts_sparse, sparse_ratio, sparse_safe))
    })?;
    table.raw_set("encode_sparse_array", function)?;
    let shared = Arc::clone(settings);
    let function = lua.create_function(move |lua, values: MultiValue| {
        let arguments = LuaArguments::new(lua, "encode_invalid_numbers", values);
        let mut settings = shared.lock();
        match arguments.get(1) {
            None => {}
            Some(Value::Boolean(true)) => settings.encodes_invalid = Invalid::Written,
            Some(Value::Boolean(false)) => settings.encodes_invalid = Invalid::Refused,
            Some(Value::String(word)) if word.as_bytes() == &b"null"[..] => {
                settings.encodes_invalid = Invalid::Null;
            }
            Some(_) => return Err(arguments.bad(1, "invalid option")),
        }
        match settings.encodes_invalid {
            Invalid::Refused => Ok(Value::Boolean(false)),
            Invalid::Written => Ok(Value::Boolean(true)),
            Invalid::Null => Ok(Value::String(lua.create_string("null")?)),
        }
    })?;
    table.raw_set("encode_invalid_numbers", function)?;
    let shared = Arc::clone(settings);
    let function = lua.create_function(move |_, accepts: Option<bool>| {
        let mut settings = shared.lock();
        settings.decodes_invalid = accepts.unwrap_or(settings.decodes_invalid);
        Ok(settings.decodes_invalid)
    })?;
    table.raw_set("decode_invalid_numbers", function)?;
    // There is no buffer that could be kept.
    let function = lua.create_function(|_, keeps: Option<bool>| Ok(keeps.unwrap_or(true)))?;
    table.raw_set("encode_keep_buffer", function)
}

type Range = std::ops::RangeInclusive<usize>;

fn size_setting(
    lua: &Lua,
    table: &Table,
    settings: &Arc<Mutex<CjsonSettings>>,
    name: &'static str,
    range: Range,
    field: fn(&mut CjsonSettings) -> &mut usize,
) -> Result<()> {
    let shared = Arc::clone(settings);
    let function = lua.create_function(move |lua, values: MultiValue| {
        let arguments = LuaArguments::new(lua, name, values);
        let mut settings = shared.lock();
        let field = field(&mut settings);
        if arguments.len() > 0 {
            *field = size_argument(lua, &arguments, 1, &range)?;
        }
        Ok(*field)
    })?;
    table.raw_set(name, function)
}

fn size_argument(
    lua: &Lua,
    arguments: &LuaArguments<'_>,
    position: usize,
    range: &Range,
) -> Result<usize> {
    let number = arguments.number(position)?;
    if number < *range.start() as f64 || number > *range.end() as f64 {
        let (from, to) = (range.start(), range.end());
        let text = format!("expected integer between {from} and {to}");
        return Err(arguments.bad(position, &text));
    }
    if number.fract() != 0.0 {
        return Err(raise(lua, "expected an integer"));
    }
    Ok(number as usize)
}
