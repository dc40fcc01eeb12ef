//! Commands for transactions.

use crate::acl::log::DenialContext;
use crate::client::{ClientSession, ENTRY_BYTES, WatchedKey, WatchedKeys};
use crate::command::{Answer, CommandCall, CommandDefinition, CommandGroup, Flags};
use crate::commands::TABLE;
use crate::error::CommandError;
use crate::keyspace::{KeyView, WriteObserver};
use crate::resp::Words;
use crate::server::ServerCore;
use crate::steps;
use std::sync::atomic::Ordering;

const GROUP: CommandGroup = CommandGroup::Transactions;

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("multi", 1, multi)
        .flag(Flags::LOADING)
        .fast()
        .flag(Flags::NO_PHASE)
        .flag(Flags::NOSCRIPT)
        .flag(Flags::IN_MULTI)
        .flag(Flags::ALLOW_BUSY)
        .about(GROUP, "1.2.0", "O(1)")
        .summary("Starts a transaction."),
    CommandDefinition::new("exec", 1, exec)
        .flag(Flags::RUNS_QUEUED)
        .flag(Flags::LOADING)
        .flag(Flags::EXCLUSIVE)
        .flag(Flags::NOSCRIPT)
        .flag(Flags::IN_MULTI)
        .about(GROUP, "1.2.0", "Depends on the commands")
        .summary("Executes all commands in a transaction."),
    CommandDefinition::new("discard", 1, discard)
        .flag(Flags::LOADING)
        .fast()
        .flag(Flags::NO_PHASE)
        .flag(Flags::NOSCRIPT)
        .flag(Flags::IN_MULTI)
        .flag(Flags::ALLOW_BUSY)
        .about(GROUP, "2.0.0", "O(N) for N watched keys")
        .summary("Discards a transaction."),
    CommandDefinition::new("watch", -2, watch)
        .flag(Flags::KEYS_ONLY)
        .flag(Flags::LOADING)
        .fast()
        .flag(Flags::EXCLUSIVE)
        .flag(Flags::LOOKS_ONLY)
        .flag(Flags::NOSCRIPT)
        .flag(Flags::IN_MULTI)
        .keys_at(1, -1, 1)
        .about(GROUP, "2.2.0", "O(1) for each key")
        .summary("Watches keys: a transaction fails if one of them is changed.")
        .differs(
            "While a script runs for long it is refused, because it needs the keys; Redis executes \
             it. On a pool, a key that has its old value and expiry again counts as unchanged, and \
             a transaction that changes a key that it does not watch is refused.",
        ),
    CommandDefinition::new("unwatch", 1, unwatch)
        .flag(Flags::LOADING)
        .fast()
        .flag(Flags::NO_PHASE)
        .flag(Flags::NOSCRIPT)
        .flag(Flags::ALLOW_BUSY)
        .about(GROUP, "2.2.0", "O(N) for N watched keys")
        .summary("Stops watching keys."),
];

fn multi(call: &mut CommandCall<'_>) -> Answer {
    if call.client.transaction.is_some() {
        // This mistake does not abort the transaction.
        return Err(CommandError::text("ERR MULTI calls can not be nested"));
    }
    call.client.transaction = Some(Default::default());
    call.reply.ok();
    Ok(())
}

fn exec(call: &mut CommandCall<'_>) -> Answer {
    let Some(transaction) = call.client.transaction.take() else {
        return Err(CommandError::text("ERR EXEC without MULTI"));
    };
    // A watched key that has expired since then counts as changed.
    if !call.keys.is_shared() {
        let own = call.keys.database_number();
        for ((database, key), watched) in &call.client.watched {
            call.keys.select(*database);
            let found = call.keys.peek(key);
            call.keys.select(own);
            if found?.is_none() && watched.was_there {
                let broken = &call.client.shared.watch_broken;
                broken.store(true, Ordering::Relaxed);
            }
        }
    }
    let broken = call.client.shared.watch_broken.load(Ordering::Relaxed);
    // As in Redis, EXEC ends the watches, whatever its outcome is.
    let watched = forget_watches(call);
    debug_assert!(
        !transaction.refused || transaction.commands.is_empty(),
        "a refused transaction holds nothing"
    );
    if transaction.refused {
        return Err(CommandError::text(
            "EXECABORT Transaction discarded because of previous errors.",
        ));
    }
    if transaction.without_memory {
        let why = CommandError::OutOfMemory;
        return Err(CommandError::owned(format!(
            "EXECABORT Transaction discarded because of: {why}"
        )));
    }
    if let Err(error) = admit_writes(call, &transaction.commands) {
        return Err(CommandError::owned(format!(
            "EXECABORT Transaction discarded because of: {error}"
        )));
    }
    if broken {
        call.reply.null_array();
        return Ok(());
    }
    let commands = transaction.commands;
    call.until_committed(|call| {
        if call.keys.is_shared() && !are_unchanged(call, &watched)? {
            call.reply.null_array();
            return Ok(());
        }
        execute_all(call, &commands);
        Ok(())
    })
}

/// Returns true if watched keys in a pool are still as `WATCH` found them. The changes of the
/// transaction are committed only if they stay so.
fn are_unchanged(call: &mut CommandCall<'_>, watched: &WatchedKeys) -> Result<bool, CommandError> {
    for ((database, key), it) in watched {
        let own = call.keys.database_number();
        call.keys.select(*database);
        let now = call.keys.expect_entry(key);
        call.keys.select(own);
        if now? != it.stored {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Executes the commands of a transaction, one after the other.
fn execute_all(call: &mut CommandCall<'_>, commands: &[Words]) {
    call.reply.array(commands.len());
    for words in commands {
        let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        // As in Redis, later commands are executed even if one fails.
        match TABLE.lookup(&args) {
            Ok(command) => {
                let acl = &call.server.acl;
                match call.client.check(acl, command, &args, DenialContext::Multi) {
                    Ok(()) => call.run_nested(command, &args),
                    Err(denied) => call.reply.error(&format!(
                        "NOPERM ACLs rules changed between the moment the transaction was \
                         accumulated and the EXEC call. This command is no longer allowed for \
                         the following reason: {}",
                        denied.reason_at_exec()
                    )),
                }
            }
            Err(error) => call.reply.error(&error.to_string()),
        }
    }
}

/// Refuses a transaction that writes while changes could not be saved.
fn admit_writes(call: &CommandCall<'_>, commands: &[Words]) -> Answer {
    if !call.server.refuses_writes() {
        return Ok(());
    }
    for words in commands {
        let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        if let Ok(command) = TABLE.lookup(&args) {
            call.server.admit_write(command)?;
        }
    }
    Ok(())
}

fn discard(call: &mut CommandCall<'_>) -> Answer {
    if call.client.transaction.take().is_none() {
        return Err(CommandError::text("ERR DISCARD without MULTI"));
    }
    leave_watches(call.server, call.client);
    call.reply.ok();
    Ok(())
}

fn watch(call: &mut CommandCall<'_>) -> Answer {
    if call.client.transaction.is_some() {
        return Err(CommandError::text("ERR WATCH inside MULTI is not allowed"));
    }
    let database = call.keys.database_number();
    for &key in call.rest(1) {
        steps::count(1);
        let was_there = call.keys.exists(key)?;
        let named = (database, key.to_vec());
        // The first state counts, because a change since then must not be forgotten.
        if call.client.watched.contains_key(&named) {
            continue;
        }
        let stored = call.keys.expect_entry(key)?;
        if !call.keys.is_shared() {
            call.server.watches.add(database, key, &call.client.shared);
        }
        // The key is stored here and among the watched keys of the server.
        let kept = stored.as_ref().map_or(0, Vec::len);
        call.client.watched_bytes += 2 * (key.len() + ENTRY_BYTES) + kept;
        let watched = WatchedKey { was_there, stored };
        call.client.watched.insert(named, watched);
    }
    // Writes in the shared phase report nothing, so they need the exclusive one from here on. In a
    // pool EXEC compares the keys instead.
    if !call.keys.is_shared() {
        call.server
            .keyspace
            .set_observed(WriteObserver::Watch, true);
    }
    call.reply.ok();
    Ok(())
}

fn unwatch(call: &mut CommandCall<'_>) -> Answer {
    leave_watches(call.server, call.client);
    call.reply.ok();
    Ok(())
}

/// Ends the transaction of a client after its EXEC was refused with `error`. Returns the error for
/// the client.
pub fn abort(
    server: &ServerCore,
    client: &mut ClientSession,
    error: &CommandError,
) -> CommandError {
    client.transaction = None;
    leave_watches(server, client);
    let error = error.to_string();
    let why = error.strip_prefix("ERR ").unwrap_or(&error);
    CommandError::owned(format!("EXECABORT Transaction discarded because of: {why}"))
}

/// Ends the watching of all keys of a client. The caller is in no phase of the keyspace.
pub fn leave_watches(server: &ServerCore, client: &mut ClientSession) {
    let watched = std::mem::take(&mut client.watched);
    client.watched_bytes = 0;
    server.watches.remove(&watched, &client.shared);
    client.shared.watch_broken.store(false, Ordering::Relaxed);
    // If the keyspace is not free, keys stay observed for no client until another client ends its
    // watches.
    if !watched.is_empty()
        && let Some(_alone) = server.keyspace.try_exclude()
        && server.watches.is_empty()
    {
        server.keyspace.set_observed(WriteObserver::Watch, false);
    }
}

/// Ends the watching of all keys of the client, which has the keyspace to itself. Returns the keys.
pub fn forget_watches(call: &mut CommandCall<'_>) -> WatchedKeys {
    let watched = std::mem::take(&mut call.client.watched);
    call.client.watched_bytes = 0;
    call.server.watches.remove(&watched, &call.client.shared);
    call.client
        .shared
        .watch_broken
        .store(false, Ordering::Relaxed);
    if call.server.watches.is_empty() {
        call.server
            .keyspace
            .set_observed(WriteObserver::Watch, false);
    }
    watched
}
