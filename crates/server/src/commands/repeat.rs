//! The replay of commands from a log.

use crate::client::ClientSession;
use crate::command::{CommandAccount, CommandInvocation, Flags, invoke};
use crate::commands::TABLE;
use crate::keyspace::{DatabaseAccess, DatabaseKeys, Databases, Effects};
use crate::persistence::load::BEFORE_ALL_TIMES;
use crate::resp::RespReply;
use crate::server::ServerCore;

/// Executes a command of a log and writes its reply.
///
/// # Errors
/// The command is unknown, fails or blocks.
pub fn repeat(
    server: &ServerCore,
    databases: &mut Databases,
    client: &mut ClientSession,
    args: &[&[u8]],
    effects: &mut Effects,
    reply: &mut RespReply,
) -> Result<(), String> {
    let name = String::from_utf8_lossy(args.first().copied().unwrap_or_default());
    let command = TABLE
        .lookup(args)
        .map_err(|error| format!("{name}: {error}"))?;
    let access = if command.flags.has(Flags::NO_PHASE) {
        DatabaseAccess::None
    } else {
        DatabaseAccess::Exclusive(databases)
    };
    let database = client.database;
    let keys = DatabaseKeys::new(
        &server.keyspace,
        access,
        database,
        BEFORE_ALL_TIMES,
        effects,
    );
    let account = &mut CommandAccount::of(command, server);
    // The memory was there when the command was logged.
    client.is_replaying = true;
    debug_assert_eq!(
        reply.len(),
        0,
        "an error is found at the beginning of the reply"
    );
    let invocation = CommandInvocation {
        server,
        // The log has a deletion for each key that expired.
        keys: keys.without_expiry(),
        client,
        args,
        reply,
        // A nested command neither blocks nor is refused while writes are refused.
        nested: true,
    };
    let wait = invoke(invocation, account);
    if let Some(error) = reply.bytes().strip_prefix(b"-") {
        let error = String::from_utf8_lossy(error);
        return Err(format!("{name}: {}", error.trim_end()));
    }
    if wait.is_some() {
        return Err(format!("{name}: the command blocks"));
    }
    Ok(())
}
