//! Lua scripts.

use super::script_host::ScriptHost;
use super::{Answer, Call, Command, Flags, Group, integer, is};
use crate::error::CommandError;
use crate::script::{Running, Script, ScriptError};
use std::sync::Arc;

const GROUP: Group = Group::Scripting;
const NO_FUNCTIONS: &str = "There are no libraries of functions; scripts do the same.";

/// The family's rows of the command table.
pub const COMMANDS: &[Command] = &[
    runs("eval", eval)
        .about(GROUP, "2.6.0", "That of the script")
        .summary("Runs a script."),
    runs("evalsha", evalsha)
        .about(GROUP, "2.6.0", "That of the script")
        .summary("Runs a script by its digest."),
    runs("eval_ro", eval_ro)
        .reads()
        .about(GROUP, "7.0.0", "That of the script")
        .summary("Runs a script that only reads."),
    runs("evalsha_ro", evalsha_ro)
        .reads()
        .about(GROUP, "7.0.0", "That of the script")
        .summary("Runs a script that only reads by its digest."),
    Command::container("script", SCRIPT)
        .about(GROUP, "2.6.0", "That of the subcommand")
        .summary("Loads, looks for and stops scripts."),
    Command::container("function", FUNCTION)
        .about(GROUP, "7.0.0", "That of the subcommand")
        .summary("Says that there are no functions.")
        .differs(NO_FUNCTIONS),
    runs("fcall", fcall)
        .about(GROUP, "7.0.0", "O(1)")
        .summary("Says that there are no functions.")
        .differs(NO_FUNCTIONS),
    runs("fcall_ro", fcall)
        .reads()
        .about(GROUP, "7.0.0", "O(1)")
        .summary("Says that there are no functions.")
        .differs(NO_FUNCTIONS),
];

const fn runs(name: &'static str, run: fn(&mut Call<'_>) -> Answer) -> Command {
    Command::new(name, -3, run)
        .keys_counted(2, None)
        .flag(Flags::EXCLUSIVE)
        .flag(Flags::NOSCRIPT)
}

const SCRIPT: &[Command] = &[
    Command::new("load", 3, load)
        .flag(Flags::EXCLUSIVE)
        .flag(Flags::NOSCRIPT)
        .about(GROUP, "2.6.0", "O(N) for N bytes")
        .summary("Makes a script known by its digest."),
    Command::new("exists", -3, exists)
        .flag(Flags::NO_PHASE)
        .flag(Flags::NOSCRIPT)
        .about(GROUP, "2.6.0", "O(N) for N digests")
        .summary("Tells which scripts are known."),
    Command::new("flush", -2, flush)
        .flag(Flags::EXCLUSIVE)
        .flag(Flags::NOSCRIPT)
        .about(GROUP, "2.6.0", "O(N) for N scripts")
        .summary("Forgets all scripts."),
    Command::new("kill", 2, kill)
        .flag(Flags::NO_PHASE)
        .flag(Flags::NOSCRIPT)
        .flag(Flags::ALLOW_BUSY)
        .about(GROUP, "2.6.0", "O(1)")
        .summary("Ends the script that runs."),
    Command::new("debug", 3, debug)
        .flag(Flags::NO_PHASE)
        .flag(Flags::NOSCRIPT)
        .about(GROUP, "3.2.0", "O(1)")
        .summary("Says that there is no debugger.")
        .differs("There is no debugger of scripts, so that only NO is accepted."),
    help_row(help),
];

const FUNCTION: &[Command] = &[
    row("flush", -2, function_flush)
        .about(GROUP, "7.0.0", "O(1)")
        .summary("Does nothing."),
    row("list", -2, function_list)
        .about(GROUP, "7.0.0", "O(1)")
        .summary("Lists no libraries."),
    row("stats", 2, function_stats)
        .flag(Flags::ALLOW_BUSY)
        .about(GROUP, "7.0.0", "O(1)")
        .summary("Counts no functions."),
    row("load", -3, no_functions)
        .about(GROUP, "7.0.0", "O(1)")
        .summary("Says that there are no functions."),
    row("delete", 3, function_delete)
        .about(GROUP, "7.0.0", "O(1)")
        .summary("Finds no library."),
    row("kill", 2, function_kill)
        .flag(Flags::ALLOW_BUSY)
        .about(GROUP, "7.0.0", "O(1)")
        .summary("Finds no function that runs."),
    help_row(function_help),
];

const fn row(name: &'static str, arity: i32, run: fn(&mut Call<'_>) -> Answer) -> Command {
    Command::new(name, arity, run)
        .flag(Flags::NO_PHASE)
        .flag(Flags::NOSCRIPT)
        .differs(NO_FUNCTIONS)
}

const fn help_row(run: fn(&mut Call<'_>) -> Answer) -> Command {
    Command::new("help", 2, run)
        .flag(Flags::NO_PHASE)
        .about(GROUP, "5.0.0", "O(1)")
        .summary("Lists the subcommands.")
}

impl From<ScriptError> for CommandError {
    fn from(error: ScriptError) -> CommandError {
        CommandError::owned(error.to_string())
    }
}

fn eval(call: &mut Call<'_>) -> Answer {
    run(call, by_text, false)
}

fn eval_ro(call: &mut Call<'_>) -> Answer {
    run(call, by_text, true)
}

fn evalsha(call: &mut Call<'_>) -> Answer {
    run(call, by_digest, false)
}

fn evalsha_ro(call: &mut Call<'_>) -> Answer {
    run(call, by_digest, true)
}

fn by_text(call: &Call<'_>) -> Result<Arc<Script>, CommandError> {
    Ok(call.server.scripts.load(call.arg(1)?)?)
}

fn by_digest(call: &Call<'_>) -> Result<Arc<Script>, CommandError> {
    let script = call.server.scripts.find(call.arg(1)?);
    script.ok_or(CommandError::text(
        "NOSCRIPT No matching script. Please use EVAL.",
    ))
}

fn run(
    call: &mut Call<'_>,
    find: fn(&Call<'_>) -> Result<Arc<Script>, CommandError>,
    only_reads: bool,
) -> Answer {
    let count = integer(call.arg(2)?)?;
    let words = call.rest(3);
    if count < 0 {
        return Err(CommandError::text("ERR Number of keys can't be negative"));
    }
    let Some((keys, arguments)) = words.split_at_checked(count as usize) else {
        return Err(CommandError::text(
            "ERR Number of keys can't be greater than number of args",
        ));
    };
    let script = find(call)?;
    if only_reads && script.writes == Some(true) {
        return Err(CommandError::text(
            "ERR Can not execute a script with write flag using *_ro command.",
        ));
    }
    let only_reads = only_reads || script.writes == Some(false);
    let lacks_memory = call.client.script.lacks_memory && !script.may_exceed_memory;
    if lacks_memory && script.writes == Some(true) {
        return Err(CommandError::text(
            "OOM allow-oom flag is not set on the script, can not run it when used memory > \
             'maxmemory'",
        ));
    }
    let server = call.server;
    let database = call.client.database;
    call.client.script.runs = true;
    call.client.script.refused = None;
    let mut host = ScriptHost {
        call,
        only_reads,
        lacks_memory,
    };
    let thread = host.call.client.shared.thread();
    let ran = server
        .scripts
        .run(&script, thread, &mut host, keys, arguments);
    call.client.script.runs = false;
    call.client.database = database;
    ran
}

fn load(call: &mut Call<'_>) -> Answer {
    let script = call.server.scripts.load(call.arg(2)?)?;
    call.reply.bulk(script.digest.as_bytes());
    Ok(())
}

fn exists(call: &mut Call<'_>) -> Answer {
    let digests = call.rest(2);
    call.reply.array(digests.len());
    for digest in digests {
        let known = call.server.scripts.find(digest).is_some();
        call.reply.integer(i64::from(known));
    }
    Ok(())
}

fn flush(call: &mut Call<'_>) -> Answer {
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

fn kill(call: &mut Call<'_>) -> Answer {
    end_running(call, Running::Script)
}

/// Ends what runs, if it is this.
fn end_running(call: &mut Call<'_>, running: Running) -> Answer {
    let killed = call.server.scripts.watchdog.kill(running);
    killed.map_err(|error| CommandError::owned(error.to_string()))?;
    call.reply.ok();
    Ok(())
}

fn debug(call: &mut Call<'_>) -> Answer {
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

fn no_functions(_: &mut Call<'_>) -> Answer {
    Err(CommandError::text(
        "ERR functions are not supported, use EVAL and SCRIPT LOAD",
    ))
}

fn fcall(_: &mut Call<'_>) -> Answer {
    Err(CommandError::text("ERR Function not found"))
}

fn function_flush(call: &mut Call<'_>) -> Answer {
    match *call.args {
        [_, _] => {}
        [_, _, mode] if is(mode, "ASYNC") || is(mode, "SYNC") => {}
        _ => {
            return Err(CommandError::text(
                "ERR FUNCTION FLUSH only supports SYNC|ASYNC option",
            ));
        }
    }
    call.reply.ok();
    Ok(())
}

fn function_list(call: &mut Call<'_>) -> Answer {
    call.reply.array(0);
    Ok(())
}

fn function_stats(call: &mut Call<'_>) -> Answer {
    let watchdog = &call.server.scripts.watchdog;
    if watchdog.is_slow() && watchdog.running() == Running::Script {
        return Err(CommandError::text(watchdog.busy()));
    }
    call.reply.map(2);
    call.reply.bulk(b"running_script");
    call.reply.null();
    call.reply.bulk(b"engines");
    call.reply.map(1);
    call.reply.bulk(b"LUA");
    call.reply.map(2);
    call.reply.bulk(b"libraries_count");
    call.reply.integer(0);
    call.reply.bulk(b"functions_count");
    call.reply.integer(0);
    Ok(())
}

fn function_delete(_: &mut Call<'_>) -> Answer {
    Err(CommandError::text("ERR Library not found"))
}

fn function_kill(call: &mut Call<'_>) -> Answer {
    end_running(call, Running::Function)
}

fn write_help(call: &mut Call<'_>, lines: &[&str]) -> Answer {
    call.reply.array(lines.len());
    for line in lines {
        call.reply.simple(line);
    }
    Ok(())
}

fn help(call: &mut Call<'_>) -> Answer {
    write_help(
        call,
        &[
            "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "DEBUG NO",
            "    Accepted, as there is no debugger.",
            "EXISTS <sha1> [<sha1> ...]",
            "    Return information about the existence of the scripts in the script cache.",
            "FLUSH [ASYNC|SYNC]",
            "    Flush the Lua scripts cache. Very dangerous on replicas.",
            "KILL",
            "    Kill the currently executing Lua script.",
            "LOAD <script>",
            "    Load a script into the scripts cache without executing it.",
            "HELP",
            "    Prints this help.",
        ],
    )
}

fn function_help(call: &mut Call<'_>) -> Answer {
    write_help(
        call,
        &[
            "FUNCTION <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "FLUSH [ASYNC|SYNC]",
            "    Does nothing, as there are no functions.",
            "LIST",
            "    Lists no libraries.",
            "STATS",
            "    Counts no functions.",
            "HELP",
            "    Prints this help.",
        ],
    )
}
