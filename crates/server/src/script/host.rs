//! The commands of a script.

use super::convert;
use super::failure::{raise_reply, reply_table};
use super::number::format_general;
use crate::acl::log::Context;
use crate::command::{Call, Command, Flags, registry};
use crate::error::CommandError;
use crate::execute::lookup;
use crate::resp::{Protocol, Reply};
use mlua::{Lua, MultiValue, Result, Value};
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs the commands of a script, each within the call of the script.
pub struct Host<'h, 'c> {
    call: &'h mut Call<'c>,
    only_reads: bool,
    typed: &'h AtomicBool,
}

impl<'h, 'c> Host<'h, 'c> {
    /// Runs commands within `call`.
    pub fn new(call: &'h mut Call<'c>, only_reads: bool, typed: &'h AtomicBool) -> Self {
        Host {
            call,
            only_reads,
            typed,
        }
    }

    /// Runs a command and gives its answer the form it has in Lua. An error is a table, too.
    pub fn run(&mut self, lua: &Lua, values: &MultiValue) -> Result<Value> {
        let words = match words(values) {
            Ok(words) => words,
            Err(text) => return Ok(Value::Table(reply_table(lua, text)?)),
        };
        let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let command = match self.admit(&args) {
            Ok(command) => command,
            Err(text) => return Ok(Value::Table(reply_table(lua, text)?)),
        };
        let protocol = if self.typed.load(Ordering::Relaxed) {
            Protocol::Resp3
        } else {
            Protocol::Resp2
        };
        let mut reply = Reply::new(protocol);
        std::mem::swap(&mut reply, self.call.reply);
        self.call.run_nested(command, &args);
        std::mem::swap(&mut reply, self.call.reply);
        if command.flags.has(Flags::WRITE) {
            self.call.server.scripts.watchdog.note_write();
        }
        match convert::to_lua(lua, &mut reply.bytes())? {
            // In RESP3 nothing is nil, though false in a table of RESP2.
            Value::Nil if protocol == Protocol::Resp2 => Ok(Value::Boolean(false)),
            value => Ok(value),
        }
    }

    /// Finds the command, if the script may run it.
    fn admit(&mut self, args: &[&[u8]]) -> std::result::Result<&'static Command, String> {
        let command = lookup(args).map_err(|error| match error {
            CommandError::WrongArity(_) => {
                "ERR Wrong number of args calling Redis command from script".to_owned()
            }
            _ => "ERR Unknown Redis command called from script".to_owned(),
        })?;
        if command.flags.has(Flags::NOSCRIPT) {
            return Err("ERR This Redis command is not allowed from script".to_owned());
        }
        if self.only_reads && command.flags.has(Flags::WRITE) {
            return Err("ERR Write commands are not allowed from read-only scripts.".to_owned());
        }
        // A script that has written may go on, so that it is executed as a whole.
        if self.call.keys.effects().logged.is_empty() {
            let admitted = self.call.server.admit_write(command);
            admitted.map_err(|error| error.to_string())?;
        }
        let acl = &self.call.server.acl;
        let checked = self.call.client.check(acl, command, args, Context::Lua);
        checked.map_err(|denied| format!("NOPERM ACL failure in script: {}", denied.text()))?;
        Ok(command)
    }

    /// Whether the script's user may run a command.
    pub fn check(&mut self, values: &MultiValue) -> Result<bool> {
        let words = words(values).map_err(raise_reply)?;
        let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let command = lookup(&args)
            .map_err(|_| raise_reply("ERR Invalid command passed to redis.acl_check_cmd()"))?;
        let user = self.call.client.login.user();
        Ok(user.is_none_or(|user| user.check(registry(), command, &args).is_ok()))
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
