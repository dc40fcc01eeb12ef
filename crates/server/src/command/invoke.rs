//! The execution of a command's implementation, and the recording of its use of keys.

use super::traced::TracedKeys;
use super::{
    Answer, CommandAccount, CommandCall, CommandDefinition, CommandGroup, CommandImplementation,
    Flags, PlannedCommand,
};
use crate::blocking::Wait;
use crate::carried;
use crate::client::ClientSession;
use crate::error::CommandError;
use crate::glob;
use crate::keyspace::{DatabaseKeys, HeldPhase};
use crate::resp::RespReply;
use crate::server::ServerCore;
use crate::singly::SequentialReason;
use std::sync::atomic::Ordering;

const TOO_MUCH_WORK: CommandError =
    CommandError::text("ERR the pattern takes too much work, because it is long and has wildcards");

/// Records the use of keys, and the memory that a write may take. One use in
/// [`USES_PER_SAMPLE`](crate::eviction::hot_keys::USES_PER_SAMPLE) must be `sampled`, to find the
/// hot keys.
pub fn note_uses(
    server: &ServerCore,
    client: &ClientSession,
    command: &CommandDefinition,
    args: &[&[u8]],
    positions: &[usize],
    sampled: bool,
) {
    if command.flags.has(Flags::WRITE) {
        let bytes = args.iter().map(|word| word.len()).sum();
        server.eviction.note_writes(positions.len().max(1), bytes);
    }
    if positions.is_empty() || command.flags.has(Flags::LOOKS_ONLY) {
        return;
    }
    // Writes are recorded in any case: a new key would otherwise seem old and be evicted first.
    let is_noted = command.flags.has(Flags::WRITE) || command.flags.has(Flags::ALWAYS_USES);
    if client.reads_without_use() && !is_noted {
        return;
    }
    let database = client.database;
    let noting = server.access.noting();
    for key in positions.iter().filter_map(|&position| args.get(position)) {
        noting.note(database, key);
        if sampled {
            server.access.hot_keys.sample(database, key);
        }
    }
}

/// A command that is about to run.
#[derive(Debug)]
pub struct CommandInvocation<'c> {
    /// The server.
    pub server: &'c ServerCore,
    /// The keys of the client's database.
    pub keys: DatabaseKeys<'c>,
    /// The client.
    pub client: &'c mut ClientSession,
    /// The words that were sent: the name, and the arguments.
    pub args: &'c [&'c [u8]],
    /// The reply, to which the command writes.
    pub reply: &'c mut RespReply,
    /// True if the command runs within a transaction, a script or a replay, where no command
    /// blocks.
    pub nested: bool,
}

/// Runs a command's implementation. If it fails, its reply is replaced by the error. Its changes
/// are then among the effects, to be logged.
pub fn invoke(invocation: CommandInvocation<'_>, account: &mut CommandAccount) -> Option<Wait> {
    let CommandInvocation {
        server,
        mut keys,
        client,
        args,
        reply,
        nested,
    } = invocation;
    // For a nested command, the outer command is in a phase.
    let _held = HeldPhase::note(nested || keys.is_in_phase());
    let command = account.command();
    let start = reply.len();
    if let Err(error) = readmit(server, command, nested) {
        reply.error(&error.to_string());
        return None;
    }
    let began = account.begin(server, client, args);
    let writes = command.flags.has(Flags::WRITE) || command.flags.has(Flags::MAY_CHANGE);
    // While writes are paused, reads leave expired keys in place, because to delete them is a
    // write.
    keys.set_keeps_all(server.singly.has(SequentialReason::Pause) && !writes);
    keys.touch(command.part, args);
    let only_looks = command.flags.has(Flags::LOOKS_ONLY) || command.flags.has(Flags::PASSES_ON);
    keys.set_use(!only_looks && !client.reads_without_use());
    let traced = server
        .singly
        .has(SequentialReason::Trace)
        .then(|| TracedKeys::look(server, &keys, command, args));
    let mut call = CommandCall {
        args,
        keys,
        client,
        reply,
        server,
        wait: None,
        nested,
        began,
    };
    let answer = if nested {
        perform(command, &mut call)
    } else {
        // The outermost command decides for all that it executes, and commits them as a whole.
        let by_key = command.flags.has(Flags::KEY_BY_KEY);
        call.keys.effects().key_by_key = by_key;
        call.until_committed(|call| perform(command, call))
    };
    let wait = call.wait.take();
    settle(&mut call);
    if let (Some(traced), Some(trace)) = (traced, &server.options.access_trace)
        && answer.is_ok()
    {
        let reply_bytes = call.reply.len().saturating_sub(start);
        traced.add_to(trace, server, &call.keys, (command, args), reply_bytes);
    }
    let answer = with_late_errors(answer, command, reply.bytes().get(start..));
    account.end(server, client, args, &answer, wait.is_some());
    if let Err(CommandError::LacksRoom(bytes)) = answer
        && !nested
    {
        // Only a command on its own can run again. In a transaction others have run before it.
        client.lacks_room = Some(bytes);
    }
    if let Err(error) = answer {
        reply.truncate(start);
        reply.error(&error.to_string());
    }
    wait
}

/// Checks a second time that a command may run. It was admitted when it arrived, but saving may
/// have failed while it waited for its phase or for a key, and a script's commands were not checked
/// for a pool.
#[inline]
fn readmit(
    server: &ServerCore,
    command: &CommandDefinition,
    nested: bool,
) -> Result<(), CommandError> {
    command.admit_on(server.keyspace.is_shared())?;
    if nested {
        // The outer command must run as a whole; a transaction's writes were checked before.
        return Ok(());
    }
    server.admit_write(command)
}

/// Settles the effects of a command that has run, and counts its changes.
#[inline]
fn settle(call: &mut CommandCall<'_>) {
    let server = call.server;
    let database = call.keys.database_number();
    let effects = call.keys.effects();
    let changes = effects.settle(database, call.args);
    if call.nested && call.client.tracking.is_some() {
        // Earlier changes must not invalidate keys that this command reads.
        let news = effects.events.get(effects.notified..).unwrap_or_default();
        server.tracking.tell(&server.clients, news);
        effects.notified = effects.events.len();
    }
    if changes > 0 {
        server
            .keyspace
            .changes
            .fetch_add(changes, Ordering::Relaxed);
    }
}

/// Returns the answer of a command, or an error that shows only after it has run: a script's own
/// error in the reply that was `written`, or too much work for patterns.
#[inline]
fn with_late_errors(answer: Answer, command: &CommandDefinition, written: Option<&[u8]>) -> Answer {
    let took_too_much_work = glob::end_command();
    answer?;
    if command.group == CommandGroup::Scripting
        && let Some([b'-', text @ ..]) = written
    {
        let text = text.strip_suffix(b"\r\n").unwrap_or(text);
        return Err(CommandError::owned(carried::text(text)));
    }
    // A write has changed keys by then, and must not be reported as failed.
    if took_too_much_work && !command.flags.has(Flags::WRITE) {
        return Err(TOO_MUCH_WORK);
    }
    Ok(())
}

/// Runs a command's implementation once.
fn perform(command: &'static CommandDefinition, call: &mut CommandCall<'_>) -> Answer {
    match (command.run, command.bare) {
        (CommandImplementation::Command(run), _)
        | (CommandImplementation::Container(_), Some(run)) => run(call),
        (CommandImplementation::Planned(plan), _) => {
            let (_, step) = command.keys.count(call.args.len());
            let keys = call.keys.nested();
            (plan.complete)(&mut PlannedCommand::alone(
                call.args, step, keys, call.reply,
            ))
        }
        (CommandImplementation::Container(_), None) => unreachable!("`lookup` finds subcommands"),
    }
}
