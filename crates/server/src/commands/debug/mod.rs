//! `DEBUG`: commands for the tests of clients and servers.

mod digest;
mod protocol;

use crate::command::help::help;
use crate::command::{
    Answer, CommandCall, CommandDefinition, CommandFunction, CommandGroup, Flags, integer, is,
};
use crate::commands::generic::{encoding, payload};
use crate::commands::server::persistence::{debug_loadaof, debug_reload};
use crate::error::CommandError;
use crate::keyspace::{Class, KeyView};
use crate::number::{parse_double, parse_integer};
use crate::singly::SequentialReason;
use nearfield_core::byte_size;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const GROUP: CommandGroup = CommandGroup::Server;
const ADMIN: Flags = Flags(Flags::ADMIN.0 | Flags::NOSCRIPT.0 | Flags::PROTECTED.0);

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[CommandDefinition::container("debug", SUBCOMMANDS)
    .flag(Flags::ADMIN)
    // In Redis the subcommands are arguments of one command, which has an error of its own.
    .unknown_by(unknown)
    .about(GROUP, "1.0.0", "")
    .summary("Runs commands for tests.")];

const SUBCOMMANDS: &[CommandDefinition] = &[
    free("change-repl-id", 2, change_replication_id)
        .summary("Changes the replication ID; no effect here.")
        .differs("changes nothing, because there are no replicas"),
    exclusive("digest", 2, digest::all).summary("Returns a hash of all keys and their values."),
    exclusive("digest-value", -2, digest::values)
        .keys_at(2, -1, 1)
        .summary("Returns hashes of the values of keys."),
    free("error", 3, error).summary("Replies with an error of the given text."),
    exclusive("loadaof", 2, debug_loadaof)
        .summary("Discards all keys and loads them from the log."),
    exclusive("listpack", 3, listpack)
        .looks()
        .key(2)
        .summary("Prints the representation of a value; no effect here.")
        .differs("prints nothing, and refuses values that are not listpacks"),
    free("log", 3, log).summary("Writes a text into the server's log."),
    exclusive("object", 3, object)
        .looks()
        .key(2)
        .summary("Returns the representation of a key's value.")
        .differs("The address is 0, and the nodes of lists are not described."),
    free("pause-cron", 3, pause_cron)
        .summary("Stops periodic tasks; no effect here.")
        .differs("has no effect, because there is no such task"),
    exclusive("populate", -3, populate)
        .unshared()
        .grows()
        .summary("Creates a number of keys."),
    free("protocol", 3, protocol::protocol).summary("Replies with a value of a type."),
    free("quicklist-packed-threshold", 3, packed_threshold)
        .summary("Sets the size from which a list element is a node; no effect here.")
        .differs("has no effect, because lists have no such nodes"),
    exclusive("reload", -2, debug_reload)
        .unshared()
        .summary("Saves all keys to dump.rdb and reads them again.")
        .differs(
            "With NOFLUSH and without MERGE nothing is read if a key of the file exists; Redis \
             exits. Function libraries of the file replace those of the same name.",
        ),
    free("replybuffer", 4, reply_buffer)
        .summary("Controls the resizing of reply buffers; no effect here.")
        .differs("has no effect, because they are resized in another way"),
    free("set-active-expire", 3, set_active_expire)
        .summary("Turns the active deletion of expired keys on or off."),
    exclusive("sleep", 3, sleep).summary("Blocks the server for some seconds."),
    free("help", 2, show_help).summary("Describes the subcommands."),
];

/// Creates a subcommand that needs no keys.
const fn free(name: &'static str, arity: i32, run: CommandFunction) -> CommandDefinition {
    CommandDefinition::new(name, arity, run)
        .flag(ADMIN)
        .flag(Flags::NO_PHASE)
        .about(GROUP, "1.0.0", "O(1)")
}

/// Creates a subcommand that needs the keyspace for itself.
const fn exclusive(name: &'static str, arity: i32, run: CommandFunction) -> CommandDefinition {
    CommandDefinition::new(name, arity, run)
        .flag(ADMIN)
        .flag(Flags::EXCLUSIVE)
        .about(GROUP, "1.0.0", "O(N) for N keys")
}

/// Returns the error for unknown subcommands. Redis has one of its own for each container.
fn unknown(subcommand: &[u8]) -> CommandError {
    let shown = crate::error::shown(subcommand);
    CommandError::owned(format!(
        "ERR unknown subcommand or wrong number of arguments for '{shown}'. Try DEBUG HELP."
    ))
}

fn change_replication_id(call: &mut CommandCall<'_>) -> Answer {
    call.reply.ok();
    Ok(())
}

/// Replies with an error. Tests of clients use it for errors that are hard to provoke.
fn error(call: &mut CommandCall<'_>) -> Answer {
    call.reply.line(b'-', call.args[2]);
    Ok(())
}

fn log(call: &mut CommandCall<'_>) -> Answer {
    tracing::warn!("DEBUG LOG: {}", String::from_utf8_lossy(call.args[2]));
    call.reply.ok();
    Ok(())
}

fn object(call: &mut CommandCall<'_>) -> Answer {
    const LRU_CLOCK_BITS: u32 = 24;
    let key = call.args[2];
    let Some(encoding) = encoding(&mut call.keys, key)? else {
        return Err(CommandError::text("ERR no such key"));
    };
    let serialized = payload(&mut call.keys, key)?.map_or(0, |payload| payload.len());
    // The payload has the type before the value, and the version and the checksum after it.
    let length = serialized.saturating_sub(1 + 2 + 8);
    let database = call.keys.database_number();
    let idle_s = call.server.access.noting().idle_ms(database, key) / 1000;
    let used_s = (call.keys.now_ms() / 1000).saturating_sub(idle_s);
    let clock = used_s & ((1 << LRU_CLOCK_BITS) - 1);
    call.reply.simple(&format!(
        "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{length} lru:{clock} \
         lru_seconds_idle:{idle_s}"
    ));
    Ok(())
}

fn populate(call: &mut CommandCall<'_>) -> Answer {
    const UNCHECKED_BYTES_MAX: usize = 1 << 20;
    /// The memory that a key takes in addition to its name and value.
    const KEY_BYTES: usize = 64;
    const NEGATIVE: CommandError =
        CommandError::text("ERR value is out of range, must be positive");
    let count = |word: &[u8]| parse_integer(word).and_then(|it| u64::try_from(it).ok());
    let (keys, prefix, bytes) = match *call.rest(2) {
        [keys] => (keys, &b"key"[..], None),
        [keys, prefix] => (keys, prefix, None),
        [keys, prefix, bytes] => (keys, prefix, Some(bytes)),
        _ => return Err(unknown(call.args[1])),
    };
    let keys = count(keys).ok_or(NEGATIVE)?;
    let bytes = bytes.map(|word| count(word).ok_or(NEGATIVE)).transpose()?;
    let bytes_max = call
        .server
        .config
        .hot
        .argument_bytes_max
        .load(Ordering::Relaxed);
    if bytes.is_some_and(|bytes| bytes > bytes_max) {
        return Err(CommandError::text(
            "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
        ));
    }
    let mut unchecked_bytes = 0;
    for number in 0..keys {
        // The memory limit is checked once per write, which is not enough for a write of many keys.
        if unchecked_bytes >= UNCHECKED_BYTES_MAX {
            unchecked_bytes = 0;
            check_populating(call)?;
        }
        let key = [prefix, b":", number.to_string().as_bytes()].concat();
        if call.keys.exists(&key)? {
            // As in Redis, existing keys keep their values.
            continue;
        }
        let mut value = format!("value:{number}").into_bytes();
        if let Some(bytes) = bytes.filter(|&bytes| bytes > 0) {
            // As in Redis, the text is cut off, or followed by zero bytes.
            value.resize(usize::try_from(bytes).unwrap_or(usize::MAX), 0);
        }
        unchecked_bytes += KEY_BYTES + key.len() + value.len();
        call.keys.set_string(&key, &value, None)?;
        call.keys.changed(&key, Class::Unnamed, "");
    }
    call.reply.ok();
    Ok(())
}

/// Stops `POPULATE` if its keys exceed the memory limit, or if the server must stop.
fn check_populating(call: &mut CommandCall<'_>) -> Answer {
    let limit = call.server.eviction.limit_bytes();
    let is_full = || call.server.used_bytes(call.keys.databases()) > limit;
    if limit != 0 && is_full() {
        return Err(CommandError::OutOfMemory);
    }
    if call.server.stopping.load(Ordering::Acquire) {
        return Err(CommandError::text("ERR the server stops"));
    }
    Ok(())
}

fn listpack(call: &mut CommandCall<'_>) -> Answer {
    match encoding(&mut call.keys, call.args[2])? {
        None => Err(CommandError::text("ERR no such key")),
        Some("listpack") => {
            call.reply.simple("Listpack structure not printed");
            Ok(())
        }
        Some(_) => Err(CommandError::text("ERR Not a listpack encoded object.")),
    }
}

fn pause_cron(call: &mut CommandCall<'_>) -> Answer {
    call.reply.ok();
    Ok(())
}

fn reply_buffer(call: &mut CommandCall<'_>) -> Answer {
    let value = call.args[3];
    match call.args[2] {
        word if is(word, "peak-reset-time") => {
            if !is(value, "never") && !is(value, "reset") {
                integer(value)?;
            }
        }
        word if is(word, "resizing") => {}
        _ => return Err(unknown(call.args[1])),
    }
    call.reply.ok();
    Ok(())
}

fn packed_threshold(call: &mut CommandCall<'_>) -> Answer {
    const BYTES_MAX: u64 = 4 << 30;
    let bytes = std::str::from_utf8(call.args[2]).ok();
    let bytes = bytes.and_then(|text| byte_size(text).ok());
    match bytes {
        Some(0..=BYTES_MAX) => call.reply.ok(),
        _ => {
            return Err(CommandError::text(
                "ERR argument must be a memory value bigger than 1 and smaller than 4gb",
            ));
        }
    }
    Ok(())
}

fn set_active_expire(call: &mut CommandCall<'_>) -> Answer {
    // An argument that does not parse counts as 0, as in Redis.
    let is_on = parse_integer(call.args[2]).unwrap_or(0) != 0;
    call.server.expires_actively.store(is_on, Ordering::Relaxed);
    call.server.singly.set(SequentialReason::LazyExpiry, !is_on);
    call.reply.ok();
    Ok(())
}

fn sleep(call: &mut CommandCall<'_>) -> Answer {
    const SECONDS_MAX: f64 = 3600.0;
    // An argument that does not parse counts as 0, as in Redis.
    let seconds = parse_double(call.args[2]).filter(|seconds| seconds.is_finite());
    let seconds = seconds.unwrap_or(0.0).clamp(0.0, SECONDS_MAX);
    let ends = Instant::now() + Duration::from_secs_f64(seconds);
    // Sleeps in short intervals, so that the server can be stopped.
    while let Some(left) = ends.checked_duration_since(Instant::now()) {
        if call.server.stopping.load(Ordering::Acquire) {
            break;
        }
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
    call.reply.ok();
    Ok(())
}

fn show_help(call: &mut CommandCall<'_>) -> Answer {
    help(
        call,
        &[
            "CHANGE-REPL-ID",
            "    Does nothing, because there are no replicas.",
            "DIGEST",
            "    A hash of all keys and their values.",
            "DIGEST-VALUE <key> [<key> ...]",
            "    Hashes of values.",
            "ERROR <text>",
            "    An error.",
            "LOADAOF",
            "    Discard all keys and load them from the log.",
            "LISTPACK <key>",
            "    Does nothing for a listpack.",
            "LOG <text>",
            "    Write into the server's log.",
            "OBJECT <key>",
            "    The representation of a value.",
            "PAUSE-CRON <0|1>",
            "    Does nothing.",
            "POPULATE <count> [<prefix>] [<size>]",
            "    Create keys named key:<number>, or with another prefix.",
            "PROTOCOL <type>",
            "    A reply of a type.",
            "QUICKLIST-PACKED-THRESHOLD <size>",
            "    Does nothing.",
            "RELOAD [MERGE] [NOFLUSH] [NOSAVE]",
            "    Save all keys, discard and load them again. NOSAVE: do not save. NOFLUSH: do",
            "    not discard. MERGE: keys of the file replace existing keys.",
            "REPLYBUFFER <PEAK-RESET-TIME <NEVER|RESET|time>|RESIZING <0|1>>",
            "    Does nothing.",
            "SET-ACTIVE-EXPIRE <0|1>",
            "    Turn the active deletion of expired keys on or off.",
            "SLEEP <seconds>",
            "    Block the server.",
        ],
    )
}
