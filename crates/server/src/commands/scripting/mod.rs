//! Commands that run scripts in Lua.

pub(super) mod function;
mod host;

use crate::command::{
    Answer, CommandCall, CommandDefinition, CommandFunction, CommandGroup, Flags, integer, is,
};
use crate::error::CommandError;
use crate::script::{Script, ScriptCaller, ScriptError, ScriptRunKind};
use host::ScriptHost;
use std::sync::Arc;

const GROUP: CommandGroup = CommandGroup::Scripting;

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    runs("eval", eval)
        .about(GROUP, "2.6.0", "Depends on the script")
        .summary("Runs a script."),
    runs("evalsha", evalsha)
        .about(GROUP, "2.6.0", "Depends on the script")
        .summary("Runs a script by its digest."),
    runs("eval_ro", eval_ro)
        .reads()
        .about(GROUP, "7.0.0", "Depends on the script")
        .summary("Runs a script that only reads."),
    runs("evalsha_ro", evalsha_ro)
        .reads()
        .about(GROUP, "7.0.0", "Depends on the script")
        .summary("Runs a script that only reads by its digest."),
    CommandDefinition::container("script", SCRIPT)
        .about(GROUP, "2.6.0", "Depends on the subcommand")
        .summary("Loads, finds and stops scripts."),
];

pub(super) const fn runs(name: &'static str, run: CommandFunction) -> CommandDefinition {
    CommandDefinition::new(name, -3, run)
        .flag(Flags::RUNS_SCRIPT)
        .keys_counted(2, None)
        // A script may use keys that it has not declared, so it has the keyspace to itself.
        .flag(Flags::EXCLUSIVE)
        .flag(Flags::NOSCRIPT)
        .flag(Flags::STALE)
}

const SCRIPT: &[CommandDefinition] = &[
    CommandDefinition::new("load", 3, load)
        .flag(Flags::STORES_ASIDE)
        .flag(Flags::EXCLUSIVE)
        .flag(Flags::NOSCRIPT)
        .flag(Flags::STALE)
        .about(GROUP, "2.6.0", "O(N) for N bytes")
        .summary("Loads a script, to be run by its digest."),
    CommandDefinition::new("exists", -3, exists)
        .flag(Flags::NO_PHASE)
        .flag(Flags::NOSCRIPT)
        .about(GROUP, "2.6.0", "O(N) for N digests")
        .summary("Returns 1 for each digest of a loaded script."),
    CommandDefinition::new("flush", -2, flush)
        .flag(Flags::EXCLUSIVE)
        .flag(Flags::NOSCRIPT)
        .about(GROUP, "2.6.0", "O(N) for N scripts")
        .summary("Deletes all scripts."),
    CommandDefinition::new("kill", 2, kill)
        .flag(Flags::NO_PHASE)
        .flag(Flags::NOSCRIPT)
        // Otherwise no client could stop a script that runs for long.
        .flag(Flags::ALLOW_BUSY)
        .about(GROUP, "2.6.0", "O(1)")
        .summary("Stops the running script."),
    CommandDefinition::new("show", 3, show)
        .flag(Flags::NO_PHASE)
        .flag(Flags::NOSCRIPT)
        .about(GROUP, "8.0.0", "O(1)")
        .summary("Returns the text of a script by its digest.")
        .differs("From Valkey."),
    CommandDefinition::new("debug", 3, debug)
        .flag(Flags::NO_PHASE)
        .flag(Flags::NOSCRIPT)
        .about(GROUP, "3.2.0", "O(1)")
        .summary("Accepts only NO, because there is no debugger.")
        .differs("There is no script debugger, so only NO is accepted."),
    CommandDefinition::help(GROUP, "5.0.0", help).summary("Lists the subcommands."),
];

impl From<ScriptError> for CommandError {
    fn from(error: ScriptError) -> CommandError {
        CommandError::owned(error.to_string())
    }
}

fn eval(call: &mut CommandCall<'_>) -> Answer {
    run(call, by_text, false)
}

fn eval_ro(call: &mut CommandCall<'_>) -> Answer {
    run(call, by_text, true)
}

fn evalsha(call: &mut CommandCall<'_>) -> Answer {
    run(call, by_digest, false)
}

fn evalsha_ro(call: &mut CommandCall<'_>) -> Answer {
    run(call, by_digest, true)
}

fn by_text(call: &CommandCall<'_>) -> Result<Arc<Script>, CommandError> {
    Ok(call.server.scripts.evaluate(call.arg(1)?)?)
}

fn by_digest(call: &CommandCall<'_>) -> Result<Arc<Script>, CommandError> {
    let script = call.server.scripts.find(call.arg(1)?);
    script.ok_or(CommandError::text(
        "NOSCRIPT No matching script. Please use EVAL.",
    ))
}

fn show(call: &mut CommandCall<'_>) -> Answer {
    let script = call.server.scripts.find(call.arg(2)?);
    let script = script.ok_or(CommandError::text("NOSCRIPT No matching script."))?;
    call.reply.bulk(&script.text);
    Ok(())
}

fn run(
    call: &mut CommandCall<'_>,
    find: fn(&CommandCall<'_>) -> Result<Arc<Script>, CommandError>,
    only_reads: bool,
) -> Answer {
    let count = integer(call.arg(2)?)?;
    let (keys, arguments) = split_keys(call.rest(3), count)?;
    // As in Redis, the number of keys is checked before the script is compiled or looked up.
    let script = find(call)?;
    let says = Says {
        writes: script.writes,
        may_exceed_memory: script.may_exceed_memory,
    };
    let mut host = prepare(call, says, only_reads)?;
    let server = host.call.server;
    let caller = caller(host.call);
    let ran = server
        .scripts
        .run(&script, caller, &mut host, keys, arguments);
    // The run is ended even if the script has failed.
    end(&mut host);
    ran
}

/// The keys and the other arguments of a script or function.
type KeysAndArguments<'a, 'w> = (&'a [&'w [u8]], &'a [&'w [u8]]);

/// Splits the words of a script or function into keys, of which there are `count`, and arguments.
pub(super) fn split_keys<'a, 'w>(
    words: &'a [&'w [u8]],
    count: i64,
) -> Result<KeysAndArguments<'a, 'w>, CommandError> {
    if count < 0 {
        return Err(CommandError::text("ERR Number of keys can't be negative"));
    }
    let split = words.split_at_checked(usize::try_from(count).unwrap_or(usize::MAX));
    split.ok_or(CommandError::text(
        "ERR Number of keys can't be greater than number of args",
    ))
}

/// The declared flags of a script or function.
#[derive(Clone, Copy)]
pub(super) struct Says {
    /// True if it may write; `None` if it declares nothing.
    pub writes: Option<bool>,
    /// True if it may take memory when there is none.
    pub may_exceed_memory: bool,
}

/// Checks that a script or function may run now, and returns the host of its commands. The run must
/// be [ended](end).
pub(super) fn prepare<'h, 'c>(
    call: &'h mut CommandCall<'c>,
    says: Says,
    only_reads: bool,
) -> Result<ScriptHost<'h, 'c>, CommandError> {
    if only_reads && says.writes == Some(true) {
        return Err(CommandError::text(
            "ERR Can not execute a script with write flag using *_ro command.",
        ));
    }
    let lacks_memory = call.client.script.lacks_memory && !says.may_exceed_memory;
    // A script that declares nothing is refused when it calls a command that takes memory.
    if lacks_memory && says.writes == Some(true) {
        return Err(CommandError::OutOfMemory);
    }
    debug_assert!(!call.client.script.runs, "scripts may not run scripts");
    call.client.script.runs = true;
    // The error and the time of an earlier script are not those of this one.
    call.client.script.refused = None;
    call.client.script.time = None;
    let database = call.client.database;
    Ok(ScriptHost {
        call,
        // A script that declares `no-writes` is held to it.
        only_reads: only_reads || says.writes == Some(false),
        lacks_memory,
        database,
    })
}

/// Returns the caller of a script or function, with the time at which it began.
pub(super) fn caller(call: &CommandCall<'_>) -> ScriptCaller {
    ScriptCaller {
        thread: call.client.shared.thread(),
        began: call.began,
    }
}

/// Ends the run of a script or function.
pub(super) fn end(host: &mut ScriptHost<'_, '_>) {
    debug_assert!(host.call.client.script.runs, "`prepare` has begun the run");
    host.call.client.script.runs = false;
    // The script may have selected another database.
    host.call.client.database = host.database;
}

fn load(call: &mut CommandCall<'_>) -> Answer {
    let script = call.server.scripts.load(call.arg(2)?)?;
    call.reply.bulk(script.digest.as_bytes());
    Ok(())
}

fn exists(call: &mut CommandCall<'_>) -> Answer {
    let digests = call.rest(2);
    call.reply.array(digests.len());
    for digest in digests {
        let known = call.server.scripts.find(digest).is_some();
        call.reply.integer(i64::from(known));
    }
    Ok(())
}

fn flush(call: &mut CommandCall<'_>) -> Answer {
    match *call.args {
        [_, _] => {}
        [_, _, mode] if is(mode, "ASYNC") || is(mode, "SYNC") => {}
        _ => {
            return Err(CommandError::text(
                "ERR SCRIPT FLUSH only support SYNC|ASYNC option",
            ));
        }
    }
    call.server.scripts.flush();
    call.reply.ok();
    Ok(())
}

fn kill(call: &mut CommandCall<'_>) -> Answer {
    end_running(call, ScriptRunKind::Script)
}

/// Ends the running script or function, if it is of the kind `running`.
pub(super) fn end_running(call: &mut CommandCall<'_>, running: ScriptRunKind) -> Answer {
    let killed = call.server.scripts.watchdog.kill(running);
    killed.map_err(|error| CommandError::owned(error.to_string()))?;
    call.reply.ok();
    Ok(())
}

fn debug(call: &mut CommandCall<'_>) -> Answer {
    let mode = call.arg(2)?;
    if is(mode, "NO") {
        call.reply.ok();
        return Ok(());
    }
    if is(mode, "YES") || is(mode, "SYNC") {
        return Err(CommandError::text("ERR debugging scripts is not supported"));
    }
    Err(CommandError::text("ERR Use SCRIPT DEBUG YES/SYNC/NO"))
}

fn help(call: &mut CommandCall<'_>) -> Answer {
    crate::command::help::help(
        call,
        &[
            "DEBUG (YES|SYNC|NO)",
            "    Set the debug mode for subsequent scripts executed.",
            "EXISTS <sha1> [<sha1> ...]",
            "    Return information about the existence of the scripts in the script cache.",
            "FLUSH [ASYNC|SYNC]",
            "    Flush the Lua scripts cache. Very dangerous on replicas.",
            "    When called without the optional mode argument, the behavior is determined by the",
            "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
            "    * ASYNC: Asynchronously flush the scripts cache.",
            "    * SYNC: Synchronously flush the scripts cache.",
            "KILL",
            "    Kill the currently executing Lua script.",
            "LOAD <script>",
            "    Load a script into the scripts cache without executing it.",
            "SHOW <sha1>",
            "    Show a script from the scripts cache.",
        ],
    )
}
