//! The commands of a script.

use super::convert;
use super::failure::{raise_reply, reply_table};
use super::number::format_general;
use crate::resp::{Protocol, Reply};
use mlua::{Lua, MultiValue, Result, Value};
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

/// The functions by which a script runs commands.
pub struct Commands<'h, H> {
    host: &'h mut H,
    typed: &'h AtomicBool,
}

impl<'h, H: Host> Commands<'h, H> {
    /// Runs commands on `host`, in RESP3 if `typed`.
    pub fn new(host: &'h mut H, typed: &'h AtomicBool) -> Self {
        Commands { host, typed }
    }

    /// Runs a command and gives its answer the form it has in Lua. An error is a table, too.
    pub fn run(&mut self, lua: &Lua, values: &MultiValue) -> Result<Value> {
        let words = match words(values) {
            Ok(words) => words,
            Err(text) => return Ok(Value::Table(reply_table(lua, text)?)),
        };
        let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let protocol = if self.typed.load(Ordering::Relaxed) {
            Protocol::Resp3
        } else {
            Protocol::Resp2
        };
        let mut reply = Reply::new(protocol);
        if let Err(text) = self.host.run(&args, &mut reply) {
            return Ok(Value::Table(reply_table(lua, text)?));
        }
        match convert::to_lua(lua, &mut reply.bytes())? {
            // In RESP3 nothing is nil, though false in a table of RESP2.
            Value::Nil if protocol == Protocol::Resp2 => Ok(Value::Boolean(false)),
            value => Ok(value),
        }
    }

    /// Whether the script's user may run a command.
    pub fn check(&mut self, values: &MultiValue) -> Result<bool> {
        let words = words(values).map_err(raise_reply)?;
        let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let may_run = self.host.may_run(&args);
        may_run.ok_or_else(|| raise_reply("ERR Invalid command passed to redis.acl_check_cmd()"))
    }
}

/// The words of a command.
fn words(values: &MultiValue) -> std::result::Result<Vec<Vec<u8>>, String> {
    if values.is_empty() {
        return Err("ERR Please specify at least one argument for this redis lib call".to_owned());
    }
    let word = |value: &Value| match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Integer(number) => Ok(itoa::Buffer::new().format(*number).into()),
        Value::Number(number) => Ok(format_general(*number, 17).into_bytes()),
        _ => Err("ERR Lua redis lib command arguments must be strings or integers".to_owned()),
    };
    values.iter().map(word).collect()
}
