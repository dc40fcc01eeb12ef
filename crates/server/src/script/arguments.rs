//! The arguments of functions that scripts call, checked as Lua's libraries do.

use super::failure::bad_argument;
use mlua::{Lua, LuaString, MultiValue, Result, Value};

/// The arguments of a call, and the name of the function, for errors.
pub struct LuaArguments<'l> {
    lua: &'l Lua,
    function: &'static str,
    values: MultiValue,
}

impl<'l> LuaArguments<'l> {
    /// Creates the arguments of a call of `function`.
    pub fn new(lua: &'l Lua, function: &'static str, values: MultiValue) -> LuaArguments<'l> {
        LuaArguments {
            lua,
            function,
            values,
        }
    }

    /// Returns the number of arguments.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns the argument at `position`, which counts from 1.
    pub fn get(&self, position: usize) -> Option<&Value> {
        debug_assert!(position > 0, "positions count from 1");
        self.values.get(position.wrapping_sub(1))
    }

    /// Creates an error about an argument.
    pub fn bad(&self, position: usize, text: &str) -> mlua::Error {
        bad_argument(self.lua, position, self.function, text)
    }

    fn unexpected(&self, position: usize, expected: &str) -> mlua::Error {
        let got = self.get(position).map_or("no value", type_name);
        self.bad(position, &format!("{expected} expected, got {got}"))
    }

    /// Returns an argument as a number; strings of digits are converted.
    pub fn number(&self, position: usize) -> Result<f64> {
        let value = self.get(position).cloned().unwrap_or(Value::Nil);
        match value {
            Value::Number(number) => Ok(number),
            Value::Integer(number) => Ok(number as f64),
            Value::String(_) => {
                let number = self.lua.coerce_number(value)?;
                number.ok_or_else(|| self.unexpected(position, "number"))
            }
            _ => Err(self.unexpected(position, "number")),
        }
    }

    /// Returns an argument as a string; numbers are converted.
    pub fn string(&self, position: usize) -> Result<LuaString> {
        let value = self.get(position).cloned().unwrap_or(Value::Nil);
        match value {
            Value::String(_) | Value::Number(_) | Value::Integer(_) => {
                let text = self.lua.coerce_string(value)?;
                text.ok_or_else(|| self.unexpected(position, "string"))
            }
            _ => Err(self.unexpected(position, "string")),
        }
    }
}

/// Returns the name of a value's type in Lua.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Boolean(_) => "boolean",
        Value::Integer(_) | Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Table(_) => "table",
        Value::Function(_) => "function",
        Value::Thread(_) => "thread",
        _ => "userdata",
    }
}
