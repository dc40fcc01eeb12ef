//! Commands on the configuration.

use crate::admission::is_open;
use crate::carried;
use crate::command::help::help;
use crate::command::{Answer, CommandCall, CommandDefinition, CommandGroup, Flags};
use crate::config::{NOT_BOUND, bind_addresses, check_setting, is_secret};
use crate::connection::IoThreadMessage;
use crate::error::CommandError;
use crate::persistence::prepare_log;
use crate::server::SnapshotTask;
use crate::server::descriptors;
use std::sync::atomic::Ordering;

/// A parameter's name and a value.
type Pair = (String, Vec<u8>);

const GROUP: CommandGroup = CommandGroup::Server;
const ADMIN: Flags = Flags(Flags::ADMIN.0 | Flags::NOSCRIPT.0 | Flags::LOADING.0);

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[CommandDefinition::container("config", SUBCOMMANDS)
    .about(GROUP, "2.0.0", "Depends on the subcommand")
    .summary("Reads and changes the configuration.")
    .differs(
        "parameters of missing features (replicas, clusters) have one value, or no effect, which \
         the log then reports; dir can be set only at the start; names in bind other than \
         localhost are not looked up",
    )];

const SUBCOMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("get", -3, get)
        .flag(ADMIN)
        .flag(Flags::NO_PHASE)
        .about(GROUP, "2.0.0", "O(N) for N parameters")
        .summary("Returns the values of parameters."),
    CommandDefinition::new("set", -4, set)
        .flag(ADMIN)
        .flag(Flags::EXCLUSIVE)
        .hides(secrets)
        .about(GROUP, "2.0.0", "O(N) for N parameters")
        .summary("Sets several parameters, or none if one is invalid."),
    CommandDefinition::new("resetstat", 2, reset_statistics)
        .flag(ADMIN)
        .flag(Flags::NO_PHASE)
        .about(GROUP, "2.0.0", "O(1)")
        .summary("Sets all counters to zero."),
    CommandDefinition::new("rewrite", 2, rewrite)
        .flag(ADMIN)
        .flag(Flags::NO_PHASE)
        .about(GROUP, "2.8.0", "O(N) for N parameters")
        .summary("Writes the configuration to its file."),
    CommandDefinition::help(GROUP, "5.0.0", show_help),
];

/// Returns the positions of the values of secret parameters. Names and values follow each other.
fn secrets(args: &[&[u8]]) -> Vec<usize> {
    let values = (3..args.len()).step_by(2);
    let is_secret = |&at: &usize| args.get(at - 1).is_some_and(|name| is_secret(name));
    values.filter(is_secret).collect()
}

fn get(call: &mut CommandCall<'_>) -> Answer {
    let found = call.server.config.matching(call.rest(2));
    call.reply.map(found.len());
    for (name, value) in found {
        call.reply.bulk(name.as_bytes());
        call.reply.bulk(&value);
    }
    Ok(())
}

fn set(call: &mut CommandCall<'_>) -> Answer {
    let words = call.rest(2);
    if !words.len().is_multiple_of(2) {
        return Err(CommandError::Syntax);
    }
    // A name that is not text names no parameter.
    let text = carried::text;
    let pairs: Vec<Pair> = words
        .chunks_exact(2)
        .filter_map(|pair| Some((text(pair.first()?), pair.get(1)?.to_vec())))
        .collect();
    debug_assert_eq!(2 * pairs.len(), words.len());
    if call.keys.is_shared() {
        for (name, value) in &pairs {
            check_setting(name, &text(value))
                .map_err(|why| CommandError::owned(format!("ERR CONFIG SET failed: {why}")))?;
        }
    }
    let begins_log = pairs.iter().any(|(name, value)| {
        name.eq_ignore_ascii_case("appendonly") && value.eq_ignore_ascii_case(b"yes")
    }) && !call.server.log.is_on();
    if begins_log {
        // The files are created before any parameter changes, because this can fail.
        prepare_log(call.server).map_err(|why| {
            CommandError::owned(format!(
                "ERR CONFIG SET failed (possibly related to argument 'appendonly') - {why}"
            ))
        })?;
    }
    let value = |name: &String| (name.clone(), call.server.config.bytes(name));
    // The system may refuse a value later, and then all parameters are restored.
    let before: Vec<_> = pairs.iter().map(|(name, _)| value(name)).collect();
    let opens = is_open(&call.server.config, "enable-protected-configs", call.client);
    let result = call.server.config.set(&pairs, opens);
    result.map_err(|error| CommandError::owned(error.to_string()))?;
    adjust_oom_score(call, &pairs, &before)?;
    listen_elsewhere(call, &pairs, &before)?;
    find_descriptors(call, &pairs, &before)?;
    call.server.configure();
    keep_limit(call);
    if begins_log {
        // The log begins with a base of all keys.
        call.server.persistence.request(SnapshotTask::Rewrite, true);
    }
    for (name, value) in &pairs {
        if name.eq_ignore_ascii_case("requirepass") {
            call.server.acl.set_default_password(value);
        }
    }
    call.reply.ok();
    Ok(())
}

/// Raises the system's limit of file descriptors if the pairs set the number of clients. If the
/// system refuses, restores all parameters.
fn find_descriptors(
    call: &CommandCall<'_>,
    pairs: &[(String, Vec<u8>)],
    before: &[(String, Vec<u8>)],
) -> Answer {
    let server = call.server;
    let mut names = pairs.iter().map(|(name, _)| name);
    if !names.any(|name| name.eq_ignore_ascii_case("maxclients")) {
        return Ok(());
    }
    let wanted = server.config.integer("maxclients").unsigned_abs();
    debug_assert_eq!(pairs.len(), before.len(), "each value can be restored");
    let served = descriptors::make_room_for(server, wanted);
    if served >= wanted {
        return Ok(());
    }
    let restored = server.config.set(before, true);
    debug_assert!(restored.is_ok(), "{restored:?}");
    Err(CommandError::owned(format!(
        "ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system \
         is not able to handle the specified number of clients, try with {served}"
    )))
}

/// Evicts keys until a new memory limit is met. The command is in the exclusive phase.
fn keep_limit(call: &mut CommandCall<'_>) {
    let server = call.server;
    let eviction = &server.eviction;
    if eviction.may_exceed_limit(&server.keyspace, &server.access) {
        // With tiers, values move to other tiers at the next write.
        eviction.make_room(0, &mut call.keys, &server.access, None);
    }
}

/// Sets the score of the process if the pairs name one of its parameters. If the system refuses the
/// score, restores all parameters.
fn adjust_oom_score(call: &CommandCall<'_>, pairs: &[Pair], before: &[Pair]) -> Answer {
    let is_score = |name: &str| {
        ["oom-score-adj", "oom-score-adj-values"]
            .iter()
            .any(|it| it.eq_ignore_ascii_case(name))
    };
    let Some((name, _)) = pairs.iter().find(|(name, _)| is_score(name)) else {
        return Ok(());
    };
    let server = call.server;
    let Err(error) = server.oom_score.adjust_by(&server.config) else {
        return Ok(());
    };
    tracing::warn!("cannot set oom-score-adj: {error}");
    let restored = server.config.set(before, true);
    debug_assert!(restored.is_ok(), "{restored:?}");
    // The former score was accepted before.
    let _ = server.oom_score.adjust_by(&server.config);
    Err(CommandError::owned(format!(
        "ERR CONFIG SET failed (possibly related to argument '{name}') - Failed to set current \
         oom_score_adj. Check server logs."
    )))
}

/// Listens on other addresses or another port, if the pairs name them. If the system refuses,
/// listens on the same addresses as before and restores all parameters.
fn listen_elsewhere(call: &CommandCall<'_>, pairs: &[Pair], before: &[Pair]) -> Answer {
    let server = call.server;
    let is_other = |wanted: &str| {
        let mut before = before.iter();
        before.any(|(name, text)| {
            name.eq_ignore_ascii_case(wanted) && *text != server.config.bytes(wanted)
        })
    };
    let (other_addresses, other_port) = (is_other("bind"), is_other("port"));
    if !other_addresses && !other_port {
        return Ok(());
    }
    let named = |name: &str| u16::try_from(server.config.integer(name)).unwrap_or(0);
    let port = match other_port {
        true => named("port"),
        // The current port, which may have been chosen by the system.
        false => server.listening.port(),
    };
    let addresses = bind_addresses(&server.config.text("bind")).unwrap_or_default();
    let (ports, backlog) = ([port, named("tls-port")], server.config.backlog());
    let (sockets, error) = match server.listening.change(&addresses, ports, backlog) {
        Ok(sockets) => (sockets, None),
        Err((error, sockets)) => (sockets, Some(error)),
    };
    if let Some(mailbox) = server.clients.mailboxes().first() {
        // The first thread accepts connections.
        mailbox.send(IoThreadMessage::Listen(sockets));
    }
    let Some(error) = error else {
        return Ok(());
    };
    let restored = server.config.set(before, true);
    debug_assert!(restored.is_ok(), "{restored:?}");
    if pairs.iter().any(|(name, _)| name.starts_with("oom")) {
        // The former score was accepted before.
        let _ = server.oom_score.adjust_by(&server.config);
    }
    let (name, why) = match other_addresses {
        true => ("bind", NOT_BOUND.to_owned()),
        false => ("port", format!("Unable to listen on this port: {error}")),
    };
    Err(CommandError::owned(format!(
        "ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"
    )))
}

fn reset_statistics(call: &mut CommandCall<'_>) -> Answer {
    call.server.statistics.reset();
    let keyspace = &call.server.keyspace;
    for counter in [
        // As in Redis, the number of changes since the last save is no statistic.
        &keyspace.hits,
        &keyspace.misses,
        &keyspace.expired_keys,
        &keyspace.expired_fields,
    ] {
        counter.store(0, Ordering::Relaxed);
    }
    call.server.eviction.forget_evicted_keys();
    call.server.clients.share.forget_closed();
    call.reply.ok();
    Ok(())
}

fn rewrite(call: &mut CommandCall<'_>) -> Answer {
    let server = call.server;
    let password = server.config.bytes("requirepass");
    let users = server.acl.lines_for_configuration(&password);
    match server.config.rewrite(&users) {
        Ok(()) => call.reply.ok(),
        Err(crate::config::FileError::None) => {
            return Err(CommandError::text(
                "ERR The server is running without a config file",
            ));
        }
        Err(error) => {
            let error = format!("ERR Rewriting config file: {error}");
            return Err(CommandError::owned(error));
        }
    }
    Ok(())
}

fn show_help(call: &mut CommandCall<'_>) -> Answer {
    help(
        call,
        &[
            "GET <pattern> [<pattern> ...]",
            "    The parameters that match a pattern, and their values.",
            "RESETSTAT",
            "    Set all counters to zero.",
            "REWRITE",
            "    Write the configuration to its file.",
            "SET <parameter> <value> [<parameter> <value> ...]",
            "    Set several parameters, or none if one is invalid.",
        ],
    )
}
