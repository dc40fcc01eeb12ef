//! The execution of a script's commands, each within the call of the script.

use crate::acl::log::DenialContext;
use crate::carried;
use crate::command::{CommandCall, CommandDefinition, Flags, Latest};
use crate::commands::TABLE;
use crate::error::CommandError;
use crate::resp::RespReply;
use crate::script::LuaHost;
use crate::server::ServerCore;
use std::cell::Cell;

thread_local! {
    /// The last command that a script of this thread has called.
    static LATEST: Cell<Option<Latest>> = const { Cell::new(None) };
}

/// The host of a script, which executes its commands.
pub struct ScriptHost<'h, 'c> {
    /// The call of the script.
    pub call: &'h mut CommandCall<'c>,
    /// True if commands that write are refused.
    pub only_reads: bool,
    /// True if commands that may take memory are refused, until one has written.
    pub lacks_memory: bool,
    /// The database that the client has selected.
    pub database: usize,
}

impl LuaHost for ScriptHost<'_, '_> {
    fn run(&mut self, args: &[&[u8]], reply: &mut RespReply) -> Result<(), String> {
        let latest = Self::find(args)?;
        let command = latest.command;
        self.admit(command, args)?;
        debug_assert!(
            self.call.client.script.runs,
            "`prepare` begins the run, `end` ends it"
        );
        // The command writes to the reply of the call, which is the script's for this time.
        std::mem::swap(reply, self.call.reply);
        self.call.run_numbered(command, latest.number, args);
        std::mem::swap(reply, self.call.reply);
        if let [b'-', text @ ..] = reply.bytes() {
            let text = text.strip_suffix(b"\r\n").unwrap_or(text);
            self.call.client.script.refused = Some(carried::text(text));
        }
        if command.flags.has(Flags::WRITE) {
            // After a write the script may continue, so that it is executed as a whole.
            self.lacks_memory = false;
            self.call.server.scripts.watchdog.note_write();
        }
        Ok(())
    }

    fn may_run(&self, args: &[&[u8]]) -> Option<bool> {
        let command = TABLE.lookup(args).ok()?;
        let user = self.call.client.login.user();
        Some(user.is_none_or(|user| user.check(TABLE.registry(), command, args).is_ok()))
    }

    fn reply(&mut self) -> &mut RespReply {
        self.call.reply
    }
}

impl ScriptHost<'_, '_> {
    /// Finds the command.
    fn find(args: &[&[u8]]) -> Result<Latest, String> {
        // Scripts often call the same command in a loop.
        if let Some(latest) = LATEST.get().filter(|it| it.is_found_by(args)) {
            return Ok(latest);
        }
        let command = TABLE.lookup(args).map_err(|error| match error {
            CommandError::WrongArity(_) => {
                "ERR Wrong number of args calling Redis command from script".to_owned()
            }
            _ => "ERR Unknown Redis command called from script".to_owned(),
        })?;
        let latest = Latest::new(command, TABLE.number_of(command), args);
        LATEST.set(Some(latest));
        Ok(latest)
    }

    /// Checks that the script may run a command.
    fn admit(&mut self, command: &'static CommandDefinition, args: &[&[u8]]) -> Result<(), String> {
        if command.flags.has(Flags::NOSCRIPT) {
            return Err("ERR This Redis command is not allowed from script".to_owned());
        }
        let changes = [Flags::WRITE, Flags::MAY_CHANGE];
        if self.only_reads && changes.iter().any(|&flag| command.flags.has(flag)) {
            return Err("ERR Write commands are not allowed from read-only scripts.".to_owned());
        }
        // A script that has written may continue, so that it is executed as a whole.
        if self.call.keys.effects().logged.is_empty() {
            let admitted = self.call.server.admit_write(command);
            admitted.map_err(|error| error.to_string())?;
        }
        let takes = command.flags.has(Flags::DENYOOM);
        let takes_little = command.flags.has(Flags::SLOWLY_GROWS);
        if self.lacks_memory && takes || (takes || takes_little) && self.exceeds_limit_by_far() {
            return Err(CommandError::OutOfMemory.to_string());
        }
        let acl = &self.call.server.acl;
        // The user of the client that runs the script needs the rights, as in Redis.
        let checked = self
            .call
            .client
            .check(acl, command, args, DenialContext::Lua);
        checked.map_err(|denied| format!("ERR ACL failure in script: {}", denied.text()))?;
        Ok(())
    }

    /// Returns true if much more memory is used than allowed. Then even a script that has written
    /// must end, because it could take any amount.
    fn exceeds_limit_by_far(&self) -> bool {
        let ServerCore {
            eviction,
            keyspace,
            access,
            ..
        } = self.call.server;
        if !eviction.exceeds_limit_by_far(keyspace, access) {
            return false;
        }
        // The index may take less than estimated, so it is counted.
        eviction.used_bytes(keyspace, self.call.keys.databases(), access);
        eviction.exceeds_limit_by_far(keyspace, access)
    }
}
