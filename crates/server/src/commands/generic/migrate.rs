//! The command that moves keys to another server.

use super::payload;
use crate::blocking::{BlockedClient, Wait, WaitLine};
use crate::command::{Answer, CommandCall, CommandDefinition, CommandGroup, Flags, integer, is};
use crate::error::CommandError;
use crate::keyspace::{Class, DatabaseKeys, KeyView};
use crate::migration::{ATTEMPTS, MigrationError, MigrationTarget, Parcel, Shipment};
use std::time::Duration;

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[CommandDefinition::new("migrate", -6, migrate)
    .writes()
    .flag(Flags::EXCLUSIVE)
    .key_or_behind(FIRST_KEY, "KEYS", -2, keys)
    .unshared()
    .hides(secrets)
    .categories(&["dangerous"])
    .about(CommandGroup::Generic, "2.6.0", "O(N) for N bytes of values")
    .summary("Moves keys to another server.")
    .differs(
        "Other clients continue while the keys are sent. A key that they change meanwhile is sent \
         again. Each command opens a connection. Valkey accepts hashes with expiring fields if \
         `rdb-format` is `valkey`.",
    )];

const FIRST_KEY: usize = 3;
const FIRST_OPTION: usize = 6;
/// The default timeout.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The positions of the passwords and the keys among the arguments.
struct MigrateArgumentPositions {
    secret: std::ops::Range<usize>,
    /// The first of the keys after `KEYS`.
    keys: Option<usize>,
}

/// Finds the passwords and keys of a command. Its options may be invalid.
fn parts(args: &[&[u8]]) -> MigrateArgumentPositions {
    let mut parts = MigrateArgumentPositions {
        secret: 0..0,
        keys: None,
    };
    let mut at = FIRST_OPTION;
    while let Some(word) = args.get(at) {
        let secrets = match word {
            _ if is(word, "keys") => {
                parts.keys = Some(at + 1);
                return parts;
            }
            _ if is(word, "auth") => 1,
            _ if is(word, "auth2") => 2,
            _ => 0,
        };
        at += 1;
        if secrets > 0 {
            parts.secret = at..at + secrets;
            // A password may be the word KEYS, so it is not compared with the options.
            at += secrets;
        }
    }
    parts
}

/// Returns the positions of its passwords among the arguments.
fn secrets(args: &[&[u8]]) -> Vec<usize> {
    parts(args).secret.collect()
}

/// Returns the positions of its keys. Empty if keys are named in both places, which is refused.
fn keys(args: &[&[u8]]) -> Vec<usize> {
    match (parts(args).keys, args.get(FIRST_KEY)) {
        (Some(_), Some(key)) if !key.is_empty() => Vec::new(),
        (Some(first), _) => (first..args.len()).collect(),
        (None, Some(_)) => vec![FIRST_KEY],
        (None, None) => Vec::new(),
    }
}

/// The parsed arguments.
struct MigrateRequest<'c> {
    target: MigrationTarget,
    copies: bool,
    replaces: bool,
    keys: Vec<&'c [u8]>,
}

impl<'c> MigrateRequest<'c> {
    fn parse(args: &[&'c [u8]]) -> Result<MigrateRequest<'c>, CommandError> {
        debug_assert!(
            args.len() >= FIRST_OPTION,
            "the arity covers the fixed arguments"
        );
        let (mut copies, mut replaces) = (false, false);
        let mut credentials = Vec::new();
        let mut keys = vec![args[FIRST_KEY]];
        let mut words = args.get(FIRST_OPTION..).unwrap_or_default();
        while let [word, rest @ ..] = words {
            words = rest;
            if is(word, "copy") {
                copies = true;
            } else if is(word, "replace") {
                replaces = true;
            } else if is(word, "keys") {
                if !args[FIRST_KEY].is_empty() {
                    return Err(CommandError::text(
                        "ERR When using MIGRATE KEYS option, the key argument must be set to the \
                         empty string",
                    ));
                }
                keys = words.to_vec();
                break;
            } else {
                let count = match word {
                    _ if is(word, "auth") => 1,
                    _ if is(word, "auth2") => 2,
                    _ => return Err(CommandError::Syntax),
                };
                let said = words.split_at_checked(count).ok_or(CommandError::Syntax)?;
                credentials = said.0.iter().map(|word| word.to_vec()).collect();
                words = said.1;
            }
        }
        let timeout = match integer(args[5])? {
            // As in Redis, a timeout that is not positive means the default.
            ..=0 => TIMEOUT,
            milliseconds => Duration::from_millis(milliseconds.unsigned_abs()),
        };
        let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
        Ok(MigrateRequest {
            target: MigrationTarget {
                host: text(args[1]),
                port: text(args[2]),
                database: integer(args[4])?,
                credentials,
                timeout,
            },
            copies,
            replaces,
            keys,
        })
    }
}

/// Packs a key to be sent. Returns `None` if it does not exist.
fn pack(
    keys: &mut DatabaseKeys<'_>,
    key: &[u8],
    replaces: bool,
) -> Result<Option<Parcel>, CommandError> {
    let Some(found) = keys.find(key)? else {
        return Ok(None);
    };
    let payload = payload(keys, key)?;
    Ok(payload.map(|payload| Parcel {
        key: key.to_vec(),
        payload,
        expires_at_ms: found.expires_at_ms,
        replaces,
    }))
}

/// Executes the command when the client sends it, and again after each time that parcels were sent.
/// The client then carries them.
fn migrate(call: &mut CommandCall<'_>) -> Answer {
    let request = MigrateRequest::parse(call.args)?;
    let mut shipment = match call.client.shipment.take() {
        Some(sent) => settle(call, &request, *sent)?,
        None => {
            let mut parcels = Vec::new();
            for key in &request.keys {
                parcels.extend(pack(&mut call.keys, key, request.replaces)?);
            }
            if parcels.is_empty() {
                call.reply.simple("NOKEY");
                return Ok(());
            }
            Shipment {
                parcels,
                ..Shipment::default()
            }
        }
    };
    while !shipment.parcels.is_empty() {
        // A transaction or script cannot wait, so the keys are sent while it holds the keyspace.
        // The same ends the attempts for keys that change all the time.
        if !call.nested && shipment.attempts < ATTEMPTS {
            has_it_sent(call, request.target, shipment);
            return Ok(());
        }
        shipment.send(&request.target, &call.server.stopping);
        shipment = settle(call, &request, shipment)?;
    }
    match shipment.failure {
        None => {
            call.reply.ok();
            Ok(())
        }
        Some(failure) => Err(CommandError::owned(failure.to_string())),
    }
}

/// Blocks the client until the parcels are sent.
fn has_it_sent(call: &mut CommandCall<'_>, target: MigrationTarget, shipment: Shipment) {
    let wait = Wait {
        keys: Vec::new(),
        // The client waits for no key.
        line: WaitLine::List,
        until_ms: None,
        in_vain: Vec::new(),
        words: None,
    };
    let words = call.args.iter().map(|word| word.to_vec()).collect();
    let waiter = BlockedClient::new(call.client, call.reply.protocol(), words, wait.clone());
    call.server.migrations.ask(waiter, target, shipment);
    call.wait = Some(wait);
}

/// Deletes the keys that the target has acknowledged and that have not changed since. Returns the
/// keys to be sent again, or the failure.
fn settle(
    call: &mut CommandCall<'_>,
    request: &MigrateRequest<'_>,
    sent: Shipment,
) -> Result<Shipment, CommandError> {
    let mut left = Shipment {
        attempts: sent.attempts,
        failure: sent.failure,
        ..Shipment::default()
    };
    if request.copies {
        return Ok(left);
    }
    let same_database = i64::try_from(call.client.database) == Ok(request.target.database);
    if same_database && is_ours(call, sent.connection.as_ref()) {
        // If the target is this database itself, it has the keys only as long as they are not
        // deleted.
        left.failure = Some(MigrationError::Reading);
        return Ok(left);
    }
    let mut deleted: Vec<&[u8]> = vec![b"DEL"];
    let acknowledged = sent.parcels.iter().zip(&sent.acknowledged);
    for (parcel, _) in acknowledged.filter(|(_, is_acknowledged)| **is_acknowledged) {
        let key = &parcel.key;
        let Some(now) = pack(&mut call.keys, key, parcel.replaces)? else {
            continue;
        };
        if now == *parcel {
            call.keys.remove(key)?;
            call.keys.changed(key, Class::Generic, "del");
            deleted.push(key);
        } else if left.failure.is_none() {
            left.parcels.push(Parcel {
                // The target has a former value of the key by now.
                replaces: true,
                ..now
            });
        }
    }
    if deleted.len() > 1 {
        // A replay must delete the keys, but not send them to a server again.
        call.keys.effects().log_instead(&deleted);
    }
    Ok(left)
}

/// Returns true if a connection leads to this server.
fn is_ours(call: &CommandCall<'_>, connection: Option<&std::net::TcpStream>) -> bool {
    let Some(Ok(end)) = connection.map(|it| it.local_addr()) else {
        return false;
    };
    // If the connection leads to this server, its near end is the address of one of the clients.
    let end = end.to_string();
    let clients = call.server.clients.lock();
    clients.values().any(|client| client.peer == end)
}
