//! The commands of a script.

use super::failure::{raise_reply, reply_table};
use super::number::format_general;
use super::room::with_room;
use super::{convert, lent};
use crate::resp::{Protocol, Reply};
use mlua::{Lua, LuaString, MultiValue, Result, Table, Value};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The server, as a script sees it.
pub trait Host {
    /// Runs a command, and writes its answer into `reply`.
    ///
    /// # Errors
    /// The script may not run it, and why.
    fn run(&mut self, args: &[&[u8]], reply: &mut Reply) -> std::result::Result<(), String>;

    /// Whether the script's user may run a command; `None` if there is no such command.
    fn may_run(&self, args: &[&[u8]]) -> Option<bool>;

    /// Where the answer of the script is written.
    fn reply(&mut self) -> &mut Reply;
}

/// The text of what only runs within the call of a script.
const NO_HOST: &str = "ERR redis.call/pcall can only be called inside a script invocation";

/// Puts the functions by which scripts run commands into the table `redis`. They run on the host
/// that is [lent](lent) at the time, in RESP3 if `typed`.
pub fn add_functions(lua: &Lua, redis: &Table, typed: &Arc<AtomicBool>) -> Result<()> {
    let is_typed = Arc::clone(typed);
    let call = lua.create_function(move |lua, values: MultiValue| {
        let value = run(lua, &values, is_typed.load(Ordering::Relaxed))?;
        match error_text(&value)? {
            Some(text) => Err(raise_reply(text)),
            None => Ok(value),
        }
    })?;
    redis.raw_set("call", call)?;
    let is_typed = Arc::clone(typed);
    let protected_call = lua.create_function(move |lua, values: MultiValue| {
        run(lua, &values, is_typed.load(Ordering::Relaxed))
    })?;
    redis.raw_set("pcall", protected_call)?;
    let check = lua.create_function(|_, values: MultiValue| check(&values))?;
    redis.raw_set("acl_check_cmd", check)
}

/// Runs a command and gives its answer the form it has in Lua. An error is a table, too.
fn run(lua: &Lua, values: &MultiValue, is_typed: bool) -> Result<Value> {
    let words = match Words::of(values) {
        Ok(words) => words,
        Err(text) => return Ok(Value::Table(reply_table(lua, text)?)),
    };
    let protocol = match is_typed {
        true => Protocol::Resp3,
        false => Protocol::Resp2,
    };
    let mut reply = Reply::new(protocol);
    let ran = lent::with(|host| host.run(&words.slices(), &mut reply));
    if let Err(text) = ran.unwrap_or_else(|| Err(NO_HOST.to_owned())) {
        return Ok(Value::Table(reply_table(lua, text)?));
    }
    let value = with_room(lua, reply.len(), || {
        convert::to_lua(lua, &mut reply.bytes())
    });
    match value? {
        // In RESP3 nothing is nil, though false in a table of RESP2.
        Value::Nil if protocol == Protocol::Resp2 => Ok(Value::Boolean(false)),
        value => Ok(value),
    }
}

/// Whether the script's user may run a command.
fn check(values: &MultiValue) -> Result<bool> {
    let words = Words::of(values).map_err(raise_reply)?;
    let may_run = lent::with(|host| host.may_run(&words.slices()));
    let may_run = may_run.ok_or_else(|| raise_reply(NO_HOST))?;
    may_run.ok_or_else(|| raise_reply("ERR Invalid command passed to redis.acl_check_cmd()"))
}

/// The text of a table that stands for an error.
fn error_text(value: &Value) -> Result<Option<String>> {
    let Value::Table(table) = value else {
        return Ok(None);
    };
    let text: Option<LuaString> = table.raw_get("err")?;
    Ok(text.map(|text| text.to_string_lossy()))
}

/// The words of a command, one behind the other.
#[derive(Default)]
struct Words {
    bytes: SmallVec<[u8; 256]>,
    /// Where each ends.
    ends: SmallVec<[usize; 8]>,
}

impl Words {
    fn of(values: &MultiValue) -> std::result::Result<Words, &'static str> {
        if values.is_empty() {
            return Err("ERR Please specify at least one argument for this redis lib call");
        }
        let mut words = Words::default();
        for value in values {
            let bytes = &mut words.bytes;
            match value {
                Value::String(text) => bytes.extend_from_slice(&text.as_bytes()),
                Value::Integer(number) => {
                    bytes.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes());
                }
                Value::Number(number) => {
                    bytes.extend_from_slice(format_general(*number, 17).as_bytes());
                }
                _ => return Err("ERR Lua redis lib command arguments must be strings or integers"),
            }
            words.ends.push(bytes.len());
        }
        Ok(words)
    }

    fn slices(&self) -> SmallVec<[&[u8]; 8]> {
        let mut begin = 0;
        let slice = |end: &usize| {
            let word = self.bytes.get(begin..*end);
            begin = *end;
            word.unwrap_or_default()
        };
        self.ends.iter().map(slice).collect()
    }
}
