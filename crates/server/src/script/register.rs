//! The function `redis.register_function`, by which a library registers its functions.

use super::failure::raise_reply;
use super::library::{Function, FunctionFlags, is_name};
use mlua::{Lua, MultiValue, Result, Table, Value};

/// A function that a library has registered, and its code.
pub type Registered = (Function, mlua::Function);

/// Reads the arguments of a call: a name and a function, or a table of named arguments.
pub fn arguments(lua: &Lua, values: &MultiValue) -> Result<Registered> {
    let (function, callback) = match (values.len(), values.front(), values.get(1)) {
        (1, Some(Value::Table(named)), _) => named_arguments(lua, named)?,
        (1, ..) => {
            return Err(raise_reply(
                "ERR calling redis.register_function with a single argument is only applicable to \
                 Lua table (representing named arguments).",
            ));
        }
        (2, Some(name), Some(callback)) => {
            let name = text(lua, name)?.ok_or_else(|| {
                raise_reply("ERR first argument to redis.register_function must be a string")
            })?;
            let Value::Function(callback) = callback else {
                return Err(raise_reply(
                    "ERR second argument to redis.register_function must be a function",
                ));
            };
            (
                named(name, None, FunctionFlags::default()),
                callback.clone(),
            )
        }
        _ => {
            return Err(raise_reply(
                "ERR wrong number of arguments to redis.register_function",
            ));
        }
    };
    if !is_name(function.name.as_bytes()) {
        // Redis's own error text speaks of libraries here, too.
        return Err(raise_reply(
            "ERR Library names can only contain letters, numbers, or underscores(_) and must be \
             at least one character long",
        ));
    }
    Ok((function, callback))
}

fn named(name: Vec<u8>, description: Option<Vec<u8>>, flags: FunctionFlags) -> Function {
    Function {
        name: String::from_utf8_lossy(&name).into_owned(),
        description,
        flags,
        // The number is assigned once the library is loaded.
        number: 0,
    }
}

/// Returns a string; numbers are converted.
fn text(lua: &Lua, value: &Value) -> Result<Option<Vec<u8>>> {
    match value {
        Value::String(_) | Value::Integer(_) | Value::Number(_) => {
            let text = lua.coerce_string(value.clone())?;
            Ok(text.map(|text| text.as_bytes().to_vec()))
        }
        _ => Ok(None),
    }
}

fn named_arguments(lua: &Lua, arguments: &Table) -> Result<Registered> {
    let (mut name, mut description, mut callback) = (None, None, None);
    let mut flags = FunctionFlags::default();
    let string = |value: &Value, which: &str| {
        text(lua, value)?.ok_or_else(|| {
            raise_reply(format!(
                "ERR {which} argument given to redis.register_function must be a string"
            ))
        })
    };
    for pair in arguments.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let key = text(lua, &key)?.ok_or_else(|| {
            raise_reply("ERR named argument key given to redis.register_function is not a string")
        })?;
        match key.to_ascii_lowercase().as_slice() {
            b"function_name" => name = Some(string(&value, "function_name")?),
            b"description" => description = Some(string(&value, "description")?),
            b"callback" => match value {
                Value::Function(function) => callback = Some(function),
                _ => {
                    return Err(raise_reply(
                        "ERR callback argument given to redis.register_function must be a function",
                    ));
                }
            },
            b"flags" => flags = named_flags(lua, &value)?,
            _ => {
                return Err(raise_reply(
                    "ERR unknown argument given to redis.register_function",
                ));
            }
        }
    }
    let name = name.ok_or_else(|| {
        raise_reply("ERR redis.register_function must get a function name argument")
    })?;
    let callback = callback
        .ok_or_else(|| raise_reply("ERR redis.register_function must get a callback argument"))?;
    Ok((named(name, description, flags), callback))
}

fn named_flags(lua: &Lua, value: &Value) -> Result<FunctionFlags> {
    let Value::Table(table) = value else {
        return Err(raise_reply(
            "ERR flags argument to redis.register_function must be a table representing function \
             flags",
        ));
    };
    let mut flags = FunctionFlags::default();
    // Entries outside of the list are ignored.
    for name in table.sequence_values::<Value>() {
        let name = text(lua, &name?)?.unwrap_or_default();
        let flag = FunctionFlags::named(&name);
        flags = flags.with(flag.ok_or_else(|| raise_reply("ERR unknown flag given"))?);
    }
    Ok(flags)
}
