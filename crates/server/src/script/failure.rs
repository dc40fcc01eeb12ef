//! The errors of functions that scripts call.

use crate::carried;
use mlua::{Error, Lua, Result, Table, Value};

/// The error of a function that a script called, until it is translated for Lua.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub struct ScriptCallError {
    /// The text of the error.
    pub text: String,
    /// True if it is an error reply of a command, which scripts get as a table.
    pub is_reply: bool,
}

/// Creates an error as the functions of Lua's libraries raise it: with the line that called them.
pub fn raise(lua: &Lua, text: impl std::fmt::Display) -> Error {
    // Level 0 is the native function that fails, level 1 the code that has called it.
    let position = lua.inspect_stack(1, |frame| {
        let line = frame.current_line()?;
        let source = frame.source().short_src?;
        Some(format!("{source}:{line}: "))
    });
    let position = position.flatten().unwrap_or_default();
    Error::external(ScriptCallError {
        text: format!("{position}{text}"),
        is_reply: false,
    })
}

/// Creates an error about the argument at a position, which counts from 1.
pub fn bad_argument(lua: &Lua, position: usize, function: &str, text: &str) -> Error {
    raise(
        lua,
        format_args!("bad argument #{position} to '{function}' ({text})"),
    )
}

/// Fails if the running script must end. Functions that take long call this periodically.
pub fn look() -> Result<()> {
    match super::guard::verdict() {
        Some(reason) => Err(raise_reply(reason)),
        None => Ok(()),
    }
}

/// Calls [`look`] periodically in a loop; `times` is the number of iterations.
pub fn look_after(times: usize) -> Result<()> {
    const TIMES: usize = 1 << 12;
    if times.is_multiple_of(TIMES) {
        look()?;
    }
    Ok(())
}

/// Creates an error that scripts get as a table, like an error reply of a command.
pub fn raise_reply(text: impl Into<String>) -> Error {
    Error::external(ScriptCallError {
        text: text.into(),
        is_reply: true,
    })
}

/// Translates an error for Lua: values stay as they are, our errors become strings or tables.
pub fn translate(lua: &Lua, value: Value) -> Result<Value> {
    let Value::Error(error) = value else {
        return Ok(value);
    };
    match error.downcast_ref::<ScriptCallError>() {
        Some(failure) if failure.is_reply => Ok(Value::Table(reply_table(
            lua,
            carried::bytes(&failure.text),
        )?)),
        Some(failure) => Ok(Value::String(
            lua.create_string(carried::bytes(&failure.text))?,
        )),
        None => {
            let text = message(&error);
            Ok(Value::String(lua.create_string(text)?))
        }
    }
}

/// Creates the table that stands for an error reply.
pub fn reply_table(lua: &Lua, text: impl AsRef<[u8]>) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("err", lua.create_string(text)?)?;
    Ok(table)
}

/// Returns the text of an error of Lua itself, without the functions that it passed through.
pub fn message(error: &Error) -> String {
    match error {
        Error::SyntaxError { message, .. } => message.clone(),
        Error::RuntimeError(text) | Error::MemoryError(text) => text.clone(),
        Error::CallbackError { cause, .. } => message(cause),
        error => error.to_string(),
    }
}

/// Creates the error of a failed script: a table with the text and the line that raised it.
pub fn locate(lua: &Lua, value: Value) -> Result<Table> {
    let table = match translate(lua, value)? {
        Value::Table(table) => table,
        value => {
            let text = match &value {
                Value::String(text) => text.as_bytes().to_vec(),
                value => value.to_string()?.into_bytes(),
            };
            reply_table(lua, [b"ERR ", &text[..]].concat())?
        }
    };
    for level in 1..LEVELS_MAX {
        let place = lua.inspect_stack(level, |frame| {
            let source = frame.source().source?.into_owned();
            Some((source, frame.current_line()?))
        });
        match place {
            // The prelude and native functions have no such names. The script's line is wanted.
            Some(Some((source, line))) if source.starts_with('@') => {
                table.raw_set("source", source)?;
                table.raw_set("line", line)?;
                break;
            }
            Some(_) => {}
            None => break,
        }
    }
    Ok(table)
}

/// Number of stack levels searched for the line of an error.
const LEVELS_MAX: usize = 64;
