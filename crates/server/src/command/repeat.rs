//! The replay of commands from a log.

use super::{Account, Flags, invoke, lookup};
use crate::client::Client;
use crate::keyspace::{Access, Databases, Effects, Keys};
use crate::persistence::load::BEFORE_ALL_TIMES;
use crate::resp::Reply;
use crate::server::Server;

/// Executes a command of a log and writes its reply.
///
/// # Errors
/// The command is unknown, fails or blocks.
pub fn repeat(
    server: &Server,
    databases: &mut Databases,
    client: &mut Client,
    args: &[&[u8]],
    effects: &mut Effects,
    reply: &mut Reply,
) -> Result<(), String> {
    let name = String::from_utf8_lossy(args.first().copied().unwrap_or_default());
    let command = lookup(args).map_err(|error| format!("{name}: {error}"))?;
    let access = if command.flags.has(Flags::NO_PHASE) {
        Access::None
    } else {
        Access::Exclusive(databases)
    };
    let database = client.database;
    let keys = Keys::new(
        &server.keyspace,
        access,
        database,
        BEFORE_ALL_TIMES,
        effects,
    );
    let account = &mut Account::of(command);
    client.is_replaying = true;
    let wait = invoke(
        server,
        keys.without_expiry(),
        client,
        account,
        args,
        reply,
        true,
    );
    if let Some(error) = reply.bytes().strip_prefix(b"-") {
        let error = String::from_utf8_lossy(error);
        return Err(format!("{name}: {}", error.trim_end()));
    }
    if wait.is_some() {
        return Err(format!("{name}: it waits"));
    }
    Ok(())
}
