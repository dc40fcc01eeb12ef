//! Commands that save to disk, and that stop the server.

use crate::command::{Answer, CommandCall, CommandDefinition, CommandGroup, Flags, is};
use crate::commands::generic::wake_waiting;
use crate::commands::repeat;
use crate::error::CommandError;
use crate::keyspace::{DATABASES, Databases};
use crate::log::manifest::Manifest;
use crate::persistence::load::{KeyspaceLoader, LoadError};
use crate::persistence::{self, dump, load_log, save_now};
use crate::server::{SnapshotRequestOutcome, SnapshotTask};
use std::ops::Bound;

const GROUP: CommandGroup = CommandGroup::Server;

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("save", 1, save)
        .flag(Flags::NO_ASYNC_LOADING)
        .unshared()
        .flag(Flags::EXCLUSIVE)
        .flag(Flags::ADMIN)
        .flag(Flags::NOSCRIPT)
        .flag(Flags::NO_MULTI)
        .about(GROUP, "1.0.0", "O(N) for N keys")
        .summary("Saves all keys to dump.rdb, and blocks all clients meanwhile."),
    CommandDefinition::new("bgsave", -1, bgsave)
        .flag(Flags::NO_ASYNC_LOADING)
        .unshared()
        .flag(Flags::NO_PHASE)
        .flag(Flags::ADMIN)
        .flag(Flags::NOSCRIPT)
        .about(GROUP, "1.0.0", "O(1)")
        .summary("Saves all keys to dump.rdb in the background.")
        .differs(
            "There is no second process: the file has the keys as of the start of the command, \
             because each key is saved before it is changed.",
        ),
    CommandDefinition::new("bgrewriteaof", 1, bgrewriteaof)
        .flag(Flags::NO_ASYNC_LOADING)
        .unshared()
        .flag(Flags::NO_PHASE)
        .flag(Flags::ADMIN)
        .flag(Flags::NOSCRIPT)
        .about(GROUP, "1.0.0", "O(1)")
        .summary("Rewrites the log in the background.")
        .differs(
            "Without a log it saves dump.rdb, which the next start reads, even with appendonly \
             yes. Redis creates a base for a log, which only a start with appendonly yes reads, \
             instead of a later dump.",
        ),
    CommandDefinition::new("lastsave", 1, lastsave)
        .fast()
        .flag(Flags::NO_PHASE)
        .flag(Flags::LOADING)
        .about(GROUP, "1.0.0", "O(1)")
        .categories(&["admin"])
        .summary("Returns the time of the last save to dump.rdb."),
    CommandDefinition::new("shutdown", -1, shutdown)
        .flag(Flags::NO_PHASE)
        .flag(Flags::ADMIN)
        .flag(Flags::NOSCRIPT)
        .flag(Flags::NO_MULTI)
        .flag(Flags::LOADING)
        .flag(Flags::ALLOW_BUSY)
        .about(GROUP, "1.0.0", "O(N) for N keys if they are saved")
        .summary("Saves the keys if save points are set, and stops the server.")
        .differs(
            "NOW has no effect, and ABORT has nothing to abort, because the server waits for no \
             replica.",
        ),
];

const UNDER_WAY: CommandError = CommandError::text("ERR Background save already in progress");

fn save(call: &mut CommandCall<'_>) -> Answer {
    match save_now(call.server, call.keys.databases()) {
        Ok(()) => call.reply.ok(),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Err(UNDER_WAY),
        // The server's log has the error.
        Err(_) => return Err(CommandError::text("ERR")),
    }
    Ok(())
}

fn bgsave(call: &mut CommandCall<'_>) -> Answer {
    let schedule = match call.rest(1) {
        [] => false,
        [word] if is(word, "schedule") => true,
        _ => return Err(CommandError::Syntax),
    };
    match call
        .server
        .persistence
        .request(SnapshotTask::Save, schedule)
    {
        SnapshotRequestOutcome::Started => call.reply.simple("Background saving started"),
        SnapshotRequestOutcome::Scheduled => call.reply.simple("Background saving scheduled"),
        SnapshotRequestOutcome::UnderWay => return Err(UNDER_WAY),
        SnapshotRequestOutcome::Busy => {
            return Err(CommandError::text(
                "ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE \
                 SCHEDULE in order to schedule a BGSAVE whenever possible.",
            ));
        }
    }
    Ok(())
}

fn bgrewriteaof(call: &mut CommandCall<'_>) -> Answer {
    match call.server.persistence.request(SnapshotTask::Rewrite, true) {
        SnapshotRequestOutcome::Started => {
            let text = "Background append only file rewriting started";
            call.reply.simple(text);
        }
        SnapshotRequestOutcome::Scheduled | SnapshotRequestOutcome::Busy => {
            let text = "Background append only file rewriting scheduled";
            call.reply.simple(text);
        }
        SnapshotRequestOutcome::UnderWay => {
            return Err(CommandError::text(
                "ERR Background append only file rewriting already in progress",
            ));
        }
    }
    Ok(())
}

fn lastsave(call: &mut CommandCall<'_>) -> Answer {
    let seconds = call.server.persistence.status().last_save_s;
    call.reply
        .integer(i64::try_from(seconds).unwrap_or(i64::MAX));
    Ok(())
}

fn shutdown(call: &mut CommandCall<'_>) -> Answer {
    let (mut wanted, mut force, mut abort, mut other) = (None, false, false, false);
    for &word in call.rest(1) {
        let before = wanted;
        if is(word, "save") {
            wanted = Some(true);
        } else if is(word, "nosave") {
            wanted = Some(false);
        } else if is(word, "force") {
            force = true;
        } else if is(word, "abort") {
            abort = true;
        } else if !is(word, "now") {
            return Err(CommandError::Syntax);
        }
        // SAVE and NOSAVE exclude each other, but each may be repeated.
        if before.is_some() && before != wanted {
            return Err(CommandError::Syntax);
        }
        other |= !is(word, "abort");
    }
    if abort {
        return Err(if other {
            CommandError::Syntax
        } else {
            CommandError::text("ERR No shutdown in progress.")
        });
    }
    let watchdog = &call.server.scripts.watchdog;
    // A save would need the keyspace, which the script holds.
    if wanted != Some(false) && watchdog.is_slow() {
        return Err(CommandError::text(watchdog.busy()));
    }
    if !persistence::shut_down(call.server, wanted, force) {
        return Err(CommandError::text(
            "ERR Errors trying to SHUTDOWN. Check logs.",
        ));
    }
    // As in Redis, there is no reply if the server stops: the connection is closed.
    call.client.closing = true;
    Ok(())
}

// ---- For tests ---------------------------------------------------------------------------------

pub(in crate::commands) fn debug_reload(call: &mut CommandCall<'_>) -> Answer {
    let (mut saves, mut forgets, mut merges) = (true, true, false);
    for word in call.rest(2) {
        if is(word, "nosave") {
            saves = false;
        } else if is(word, "noflush") {
            forgets = false;
        } else if is(word, "merge") {
            merges = true;
        } else {
            return Err(CommandError::text(
                "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.",
            ));
        }
    }
    let server = call.server;
    if saves && save_now(server, call.keys.databases()).is_err() {
        return Err(CommandError::text(
            "ERR Error trying to save the DB, check server logs",
        ));
    }
    let path = dump(server);
    read_again(call, forgets, |databases| {
        let mut loader = KeyspaceLoader::new(server, databases, repeat);
        if !forgets && !merges {
            // Checked before anything is read, so that an error leaves the keys as they are.
            loader.check_absent(&path)?;
        }
        loader.snapshot(&path, None)
    })
}

pub(in crate::commands) fn debug_loadaof(call: &mut CommandCall<'_>) -> Answer {
    let server = call.server;
    if let Err(error) = server.log.flush() {
        return Err(CommandError::owned(format!("ERR {error}")));
    }
    let manifest = match Manifest::read(server.options.persistence.directory()) {
        Ok(Some(manifest)) if server.log.is_on() => manifest,
        _ => return Err(CommandError::text("ERR there is no append only file")),
    };
    read_again(call, true, |databases| {
        load_log(server, databases, &manifest, repeat, None)
    })
}

/// Reads keys from disk. If `forgets`, all existing keys are dropped before.
fn read_again(
    call: &mut CommandCall<'_>,
    forgets: bool,
    load: impl FnOnce(&mut Databases) -> Result<(), LoadError>,
) -> Answer {
    let keyspace = call.keys.keyspace();
    // Keys that are read are no changes since the last save.
    let changes = keyspace.changes.load(std::sync::atomic::Ordering::Relaxed);
    let databases = call.keys.databases_mut();
    if forgets {
        for database in databases.iter() {
            // Objects lie outside of the index, which is dropped as a whole afterwards.
            retire_objects(keyspace, database);
        }
        for database in databases.iter_mut() {
            drop(database.replace());
        }
        call.server.functions.flush();
    }
    let loaded = load(databases);
    keyspace
        .changes
        .store(changes, std::sync::atomic::Ordering::Relaxed);
    (0..DATABASES).for_each(|number| wake_waiting(call, number));
    match loaded {
        Ok(()) => call.reply.ok(),
        Err(error) => {
            tracing::error!("{error}");
            return Err(CommandError::owned(format!("ERR {error}")));
        }
    }
    Ok(())
}

fn retire_objects(keyspace: &crate::keyspace::Keyspace, database: &crate::keyspace::Database) {
    let all = (Bound::Unbounded, Bound::Unbounded);
    let entries = database.entries().into_iter();
    for (_, stored) in entries.flat_map(|entries| entries.range(all)).flatten() {
        keyspace.retire(crate::keyspace::ValueRecord::parse(&stored).outside());
    }
}
