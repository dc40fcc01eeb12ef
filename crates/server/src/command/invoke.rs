//! The execution of a command's implementation, and the recording of its use of keys.

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

/// Runs a command's implementation. If it fails, its reply is replaced by the error. Its changes
/// are then among the effects, to be logged.
pub fn invoke(
    server: &ServerCore,
    keys: DatabaseKeys<'_>,
    client: &mut ClientSession,
    account: &mut CommandAccount,
    args: &[&[u8]],
    reply: &mut RespReply,
    nested: bool,
) -> Option<Wait> {
    // For a nested command, the outer command is in a phase.
    let _held = HeldPhase::note(nested || keys.is_in_phase());
    let command = account.command();
    let start = reply.len();
    // The command was admitted when it arrived, but saving may have failed while it waited for its
    // phase or for a key, and a script's commands were not checked for a pool. Nested commands are
    // not refused for writing, because the outer command must run as a whole; a transaction was
    // checked before.
    let may_write = || server.admit_write(command);
    let admitted = command.admit_on(server.keyspace.is_shared());
    let admitted = admitted.and_then(|()| if nested { Ok(()) } else { may_write() });
    if let Err(error) = admitted {
        reply.error(&error.to_string());
        return None;
    }
    let began = account.begin(server, client, args);
    let only_looks = command.flags.has(Flags::LOOKS_ONLY) || command.flags.has(Flags::PASSES_ON);
    let mut keys = keys;
    let writes = command.flags.has(Flags::WRITE) || command.flags.has(Flags::MAY_CHANGE);
    // While writes are paused, reads leave expired keys in place, because to delete them is a
    // write.
    keys.set_keeps_all(server.singly.has(SequentialReason::Pause) && !writes);
    keys.touch(command.part, args);
    keys.set_use(!only_looks && !client.reads_without_use());
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
    let database = call.keys.database_number();
    let effects = call.keys.effects();
    let changes = effects.settle(database, args);
    if nested && call.client.tracking.is_some() {
        // Earlier changes must not invalidate keys that this command reads.
        let news = effects.events.get(effects.told..).unwrap_or_default();
        server.tracking.tell(&server.clients, news);
        effects.told = effects.events.len();
    }
    if changes > 0 {
        server
            .keyspace
            .changes
            .fetch_add(changes, Ordering::Relaxed);
    }
    // A script may reply with an error of its own.
    let answer = match reply.bytes().get(start..) {
        Some([b'-', text @ ..]) if answer.is_ok() && command.group == CommandGroup::Scripting => {
            let text = text.strip_suffix(b"\r\n").unwrap_or(text);
            Err(CommandError::owned(carried::text(text)))
        }
        _ => answer,
    };
    let answer = match glob::end_command() {
        // A write has changed keys by then, and must not be reported as failed.
        true if answer.is_ok() && !command.flags.has(Flags::WRITE) => Err(TOO_MUCH_WORK),
        _ => answer,
    };
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
