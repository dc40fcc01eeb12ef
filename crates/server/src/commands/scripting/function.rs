//! Commands on functions of libraries in Lua.

use super::{Says, caller, end, end_running, prepare, runs, split_keys};
use crate::carried;
use crate::command::{
    Answer, CommandCall, CommandDefinition, CommandFunction, CommandGroup, Flags, integer, is,
};
use crate::error::CommandError;
use crate::glob;
use crate::rdb;
use crate::script::library::{FunctionFlags, Library, LibraryError};
use crate::script::{LOAD_TIME_MAX, LibraryRestorePolicy, ScriptRunKind};

const GROUP: CommandGroup = CommandGroup::Scripting;

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    runs("fcall", fcall)
        .about(GROUP, "7.0.0", "Depends on the function")
        .summary("Calls a function."),
    runs("fcall_ro", fcall_ro)
        .reads()
        .about(GROUP, "7.0.0", "Depends on the function")
        .summary("Calls a function that only reads."),
    CommandDefinition::container("function", FUNCTION)
        .about(GROUP, "7.0.0", "Depends on the subcommand")
        .summary("Loads, lists and deletes libraries of functions."),
];

const FUNCTION: &[CommandDefinition] = &[
    changes("load", -3, load)
        // Libraries take memory that no eviction can free.
        .flag(Flags::STORES_ASIDE)
        .flag(Flags::DENYOOM)
        .about(GROUP, "7.0.0", "O(1), and the complexity of the library")
        .summary("Loads a library."),
    changes("delete", 3, delete)
        .about(GROUP, "7.0.0", "O(1)")
        .summary("Deletes a library."),
    changes("flush", -2, flush)
        .about(GROUP, "7.0.0", "O(N) for N functions")
        .summary("Deletes all libraries."),
    changes("restore", -3, restore)
        .flag(Flags::DENYOOM)
        .about(GROUP, "7.0.0", "O(N) for N functions")
        .summary("Loads the libraries of a payload."),
    looks("list", -2, list)
        .about(GROUP, "7.0.0", "O(N) for N functions")
        .summary("Lists libraries and their functions.")
        .differs("Libraries are in the order of their names, functions in that of registration."),
    looks("dump", 2, dump)
        .about(GROUP, "7.0.0", "O(N) for N libraries")
        .summary("Returns all libraries as a payload.")
        .differs("Libraries are in the order of their names."),
    looks("stats", 2, stats)
        // It tells which function runs for long.
        .flag(Flags::ALLOW_BUSY)
        .about(GROUP, "7.0.0", "O(1)")
        .summary("Returns the running function, and the numbers of libraries and functions."),
    looks("kill", 2, kill)
        .flag(Flags::ALLOW_BUSY)
        .about(GROUP, "7.0.0", "O(1)")
        .summary("Stops the running function."),
    CommandDefinition::help(GROUP, "7.0.0", help).summary("Lists the subcommands."),
];

const fn changes(name: &'static str, arity: i32, run: CommandFunction) -> CommandDefinition {
    CommandDefinition::new(name, arity, run)
        .writes()
        .flag(Flags::EXCLUSIVE)
        .flag(Flags::NOSCRIPT)
}

const fn looks(name: &'static str, arity: i32, run: CommandFunction) -> CommandDefinition {
    CommandDefinition::new(name, arity, run)
        .flag(Flags::NO_PHASE)
        .flag(Flags::NOSCRIPT)
}

impl From<LibraryError> for CommandError {
    fn from(error: LibraryError) -> CommandError {
        CommandError::owned(format!("ERR {error}"))
    }
}

fn fcall(call: &mut CommandCall<'_>) -> Answer {
    run(call, false)
}

fn fcall_ro(call: &mut CommandCall<'_>) -> Answer {
    run(call, true)
}

fn run(call: &mut CommandCall<'_>, only_reads: bool) -> Answer {
    let server = call.server;
    let caller = caller(call);
    let begun = server.functions.begin(call.args, caller.began);
    let begun = begun.ok_or(CommandError::text("ERR Function not found"))?;
    // As in Redis, an unknown function is reported before invalid arguments.
    let count = integer(call.arg(2)?);
    let count = count.map_err(|_| CommandError::text("ERR Bad number of keys provided"))?;
    let (keys, arguments) = split_keys(call.rest(3), count)?;
    let says = Says {
        // As in Redis, a function without the flag `no-writes` counts as one that writes.
        writes: Some(!begun.flags.has(FunctionFlags::NO_WRITES)),
        may_exceed_memory: begun.flags.has(FunctionFlags::ALLOW_OOM),
    };
    let mut host = prepare(call, says, only_reads)?;
    let functions = &server.functions;
    let called = functions.call(&begun, caller, &mut host, keys, arguments);
    // The run is ended even if the function has failed.
    end(&mut host);
    called
}

fn load(call: &mut CommandCall<'_>) -> Answer {
    let Some((code, options)) = call.rest(2).split_last() else {
        return Err(CommandError::Syntax);
    };
    if let Some(other) = options.iter().find(|word| !is(word, "replace")) {
        let other = carried::text(other.trim_ascii());
        return Err(CommandError::owned(format!(
            "ERR Unknown option given: {other}"
        )));
    }
    let functions = &call.server.functions;
    let name = functions.load(code, !options.is_empty(), Some(LOAD_TIME_MAX))?;
    // Libraries are logged like keys, so that they exist after a restart.
    call.keys.effects().changes += 1;
    call.reply.bulk(name.as_bytes());
    Ok(())
}

fn delete(call: &mut CommandCall<'_>) -> Answer {
    call.server.functions.delete(call.arg(2)?)?;
    call.keys.effects().changes += 1;
    call.reply.ok();
    Ok(())
}

fn flush(call: &mut CommandCall<'_>) -> Answer {
    match *call.args {
        [_, _] => {}
        // Both modes do the same here.
        [_, _, mode] if is(mode, "ASYNC") || is(mode, "SYNC") => {}
        [_, _, _] => {
            return Err(CommandError::text(
                "ERR FUNCTION FLUSH only supports SYNC|ASYNC option",
            ));
        }
        _ => return Err(unknown(call)),
    }
    call.server.functions.flush();
    call.keys.effects().changes += 1;
    call.reply.ok();
    Ok(())
}

/// Returns the error of Redis for too many words.
fn unknown(call: &CommandCall<'_>) -> CommandError {
    let name = call.args.get(1).copied().unwrap_or_default();
    let name = carried::text(name);
    CommandError::owned(format!(
        "ERR unknown subcommand or wrong number of arguments for '{name}'. Try FUNCTION HELP."
    ))
}

fn restore(call: &mut CommandCall<'_>) -> Answer {
    let how = match call.rest(3) {
        [] => LibraryRestorePolicy::Append,
        [how] if is(how, "append") => LibraryRestorePolicy::Append,
        [how] if is(how, "replace") => LibraryRestorePolicy::Replace,
        [how] if is(how, "flush") => LibraryRestorePolicy::Flush,
        [_] => {
            return Err(CommandError::text(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ));
        }
        _ => return Err(unknown(call)),
    };
    // Each text is that of Redis for the same damage.
    let codes = rdb::restore_functions(call.arg(2)?).map_err(|error| {
        CommandError::text(match error {
            rdb::RdbError::BadEncoding { what: "type", .. } => "ERR given type is not a function",
            rdb::RdbError::Unsupported { .. } => "ERR Pre-GA function format not supported",
            rdb::RdbError::Truncated { .. }
            | rdb::RdbError::UnknownVersion { .. }
            | rdb::RdbError::ChecksumMismatch { .. } => {
                "ERR DUMP payload version or checksum are wrong"
            }
            _ => "ERR Failed loading library payload",
        })
    })?;
    call.server.functions.restore(&codes, how)?;
    call.keys.effects().changes += 1;
    call.reply.ok();
    Ok(())
}

fn dump(call: &mut CommandCall<'_>) -> Answer {
    let codes = call.server.functions.codes();
    let payload = rdb::dump_functions(codes.iter().map(|code| &**code));
    call.reply.bulk(&payload);
    Ok(())
}

fn list(call: &mut CommandCall<'_>) -> Answer {
    let (mut pattern, mut with_code) = (None, false);
    let mut words = call.rest(2).iter();
    while let Some(&word) = words.next() {
        // As in Redis, an option that is repeated is an unknown one.
        if !with_code && is(word, "withcode") {
            with_code = true;
        } else if pattern.is_none() && is(word, "libraryname") {
            let given = words.next();
            pattern = Some(*given.ok_or(CommandError::text(
                "ERR library name argument was not given",
            ))?);
        } else {
            let word = carried::text(word);
            return Err(CommandError::owned(format!("ERR Unknown argument {word}")));
        }
    }
    let libraries = call.server.functions.libraries();
    let is_listed = |library: &Library| {
        let name = library.name.as_bytes();
        pattern.is_none_or(|pattern| glob::matches_ignoring_case(pattern, name))
    };
    let listed: Vec<_> = libraries.iter().filter(|it| is_listed(it)).collect();
    call.reply.array(listed.len());
    for library in listed {
        write_library(call, library, with_code);
    }
    Ok(())
}

fn write_library(call: &mut CommandCall<'_>, library: &Library, with_code: bool) {
    let reply = &mut call.reply;
    reply.map(if with_code { 4 } else { 3 });
    reply.bulk(b"library_name");
    reply.bulk(library.name.as_bytes());
    reply.bulk(b"engine");
    reply.bulk(b"LUA");
    reply.bulk(b"functions");
    reply.array(library.functions.len());
    for function in &library.functions {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(function.name.as_bytes());
        reply.bulk(b"description");
        match &function.description {
            Some(description) => reply.bulk(description),
            None => reply.null(),
        }
        reply.bulk(b"flags");
        let flags: Vec<_> = function.flags.names().collect();
        reply.set(flags.len());
        for flag in flags {
            reply.simple(flag);
        }
    }
    if with_code {
        reply.bulk(b"library_code");
        reply.bulk(&library.code);
    }
}

fn stats(call: &mut CommandCall<'_>) -> Answer {
    let watchdog = &call.server.scripts.watchdog;
    // As in Redis, STATS is allowed while a function runs for long, but not while a script does.
    if watchdog.is_slow() && watchdog.running() == ScriptRunKind::Script {
        return Err(CommandError::text(watchdog.busy()));
    }
    let reply = &mut call.reply;
    reply.map(2);
    reply.bulk(b"running_script");
    match call.server.functions.running() {
        None => reply.null(),
        Some(running) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(running.name().as_bytes());
            reply.bulk(b"command");
            reply.array(running.words().len());
            for word in running.words() {
                reply.bulk(word);
            }
            reply.bulk(b"duration_ms");
            let duration = running.elapsed().as_millis();
            reply.integer(i64::try_from(duration).unwrap_or(i64::MAX));
        }
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    let (libraries, functions) = call.server.functions.counts();
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.integer(libraries as i64);
    reply.bulk(b"functions_count");
    reply.integer(functions as i64);
    Ok(())
}

fn kill(call: &mut CommandCall<'_>) -> Answer {
    end_running(call, ScriptRunKind::Function)
}

fn help(call: &mut CommandCall<'_>) -> Answer {
    crate::command::help::help(
        call,
        &[
            "LOAD [REPLACE] <FUNCTION CODE>",
            "    Create a new library with the given library name and code.",
            "DELETE <LIBRARY NAME>",
            "    Delete the given library.",
            "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
            "    Return general information on all the libraries:",
            "    * Library name",
            "    * The engine used to run the Library",
            "    * Library description",
            "    * Functions list",
            "    * Library code (if WITHCODE is given)",
            "    It also possible to get only function that matches a pattern using LIBRARYNAME \
             argument.",
            "STATS",
            "    Return information about the current function running:",
            "    * Function name",
            "    * Command used to run the function",
            "    * Duration in MS that the function is running",
            "    If no function is running, return nil",
            "    In addition, returns a list of available engines.",
            "KILL",
            "    Kill the current running function.",
            "FLUSH [ASYNC|SYNC]",
            "    Delete all the libraries.",
            "    When called without the optional mode argument, the behavior is determined by the",
            "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
            "    * ASYNC: Asynchronously flush the libraries.",
            "    * SYNC: Synchronously flush the libraries.",
            "DUMP",
            "    Return a serialized payload representing the current libraries, can be restored \
             using FUNCTION RESTORE command",
            "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
            "    Restore the libraries represented by the given payload, it is possible to give a \
             restore policy to",
            "    control how to handle existing libraries (default APPEND):",
            "    * FLUSH: delete all existing libraries.",
            "    * APPEND: appends the restored libraries to the existing libraries. On collision, \
             abort.",
            "    * REPLACE: appends the restored libraries to the existing libraries, On \
             collision, replace the old",
            "      libraries with the new libraries (notice that even on this option there is a \
             chance of failure",
            "      in case of functions name collision with another library).",
        ],
    )
}
