//! Commands on the server: its state, its statistics, and its role among several servers.

pub(super) mod cluster;
pub(super) mod config;
pub(super) mod hotkeys;
mod latency;
mod memory;
pub(super) mod module;
pub(super) mod persistence;
pub(super) mod tier;

use crate::command::help::help;
use crate::command::{Answer, CommandCall, CommandDefinition, CommandGroup, Flags, integer, is};
use crate::error::CommandError;
use crate::info;
use crate::number::parse_integer;

const GROUP: CommandGroup = CommandGroup::Server;
const FREE: Flags = Flags(Flags::NO_PHASE.0 | Flags::LOADING.0);
const ADMIN: Flags = Flags(FREE.0 | Flags::ADMIN.0);

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("info", -1, show_info)
        .flag(Flags::LOADING)
        .about(GROUP, "1.0.0", "O(1)")
        .summary("Returns the state and statistics of the server.")
        .differs("fields of missing features are absent or zero"),
    CommandDefinition::container("slowlog", SLOWLOG)
        .about(GROUP, "2.2.12", "Depends on the subcommand")
        .summary("Describes slow commands."),
    CommandDefinition::container("latency", latency::COMMANDS)
        .about(GROUP, "2.8.13", "Depends on the subcommand")
        .summary("Describes slow events and the duration of commands."),
    CommandDefinition::container("memory", memory::COMMANDS)
        .about(GROUP, "4.0.0", "Depends on the subcommand")
        .summary("Describes memory usage."),
    CommandDefinition::new("monitor", 1, monitor)
        .flag(Flags::EXCLUSIVE)
        .flag(Flags::ADMIN)
        .flag(Flags::NOSCRIPT)
        .flag(Flags::LOADING)
        .about(GROUP, "1.0.0", "O(1)")
        .summary("Shows all commands that are executed."),
    CommandDefinition::new("role", 1, role)
        .fast()
        .flag(FREE)
        .flag(Flags::NOSCRIPT)
        .about(GROUP, "2.8.12", "O(1)")
        .categories(&["admin"])
        .summary("Returns the server's part in replication."),
    replicates("replicaof", "5.0.0"),
    replicates("slaveof", "1.0.0"),
    CommandDefinition::new("failover", -1, fail_over)
        .flag(Flags::NO_PHASE)
        .flag(Flags::ADMIN)
        .flag(Flags::NOSCRIPT)
        .flag(Flags::STALE)
        .about(GROUP, "6.2.0", "O(1)")
        .summary("Refused: there are no replicas to fail over to.")
        .differs("refused, because there are no replicas"),
    CommandDefinition::container("cluster", cluster::COMMANDS)
        .about(CommandGroup::Server, "3.0.0", "Depends on the subcommand")
        .summary("Refused: the server is not part of a cluster."),
];

/// Executes `FAILOVER` on a server without replicas.
fn fail_over(call: &mut CommandCall<'_>) -> Answer {
    let mut words = call.rest(1);
    if let [word] = words
        && is(word, "abort")
    {
        return Err(CommandError::text("ERR No failover in progress."));
    }
    while let Some((word, rest)) = words.split_first() {
        words = match rest {
            // The options are parsed as in Redis, so that their errors come before the refusal.
            [host, port, rest @ ..] if is(word, "to") && !host.is_empty() => {
                integer(port)?;
                rest.strip_prefix(&[&b"FORCE"[..]]).unwrap_or(rest)
            }
            [milliseconds, rest @ ..] if is(word, "timeout") => {
                if integer(milliseconds)? <= 0 {
                    return Err(CommandError::text(
                        "ERR FAILOVER timeout must be greater than 0",
                    ));
                }
                rest
            }
            rest if is(word, "force") => rest,
            _ => return Err(CommandError::Syntax),
        };
    }
    Err(CommandError::text(
        "ERR FAILOVER requires connected replicas.",
    ))
}

const fn replicates(name: &'static str, since: &'static str) -> CommandDefinition {
    CommandDefinition::new(name, 3, replicate)
        .flag(Flags::NO_PHASE)
        .flag(Flags::STALE)
        .flag(Flags::NO_ASYNC_LOADING)
        .flag(Flags::ADMIN)
        .flag(Flags::NOSCRIPT)
        .about(GROUP, since, "O(1)")
        .summary("Makes the server a replica, or a primary again.")
        .differs("the server is never a replica: NO ONE is accepted, an address is refused")
}

const SLOWLOG: &[CommandDefinition] = &[
    CommandDefinition::new("get", -2, slowlog_get)
        .flag(ADMIN)
        .about(GROUP, "2.2.12", "O(N) for N entries")
        .summary("Returns the last slow commands."),
    CommandDefinition::new("len", 2, slowlog_len)
        .flag(ADMIN)
        .about(GROUP, "2.2.12", "O(1)")
        .summary("Returns the number of slow commands."),
    CommandDefinition::new("reset", 2, slowlog_reset)
        .flag(ADMIN)
        .about(GROUP, "2.2.12", "O(N) for N entries")
        .summary("Deletes the entries of slow commands."),
    CommandDefinition::help(GROUP, "6.2.0", slowlog_help),
];

fn show_info(call: &mut CommandCall<'_>) -> Answer {
    let text = info::write(call.server, call.keys.databases(), call.rest(1));
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn slowlog_get(call: &mut CommandCall<'_>) -> Answer {
    let count =
        match call.rest(2) {
            [] => 10,
            [count] => match parse_integer(count) {
                // As in Redis, -1 stands for all entries, and other negative numbers are errors.
                Some(-1) => usize::MAX,
                count => count.and_then(|count| usize::try_from(count).ok()).ok_or(
                    CommandError::text("ERR count should be greater than or equal to -1"),
                )?,
            },
            _ => return Err(CommandError::WrongArity("slowlog|get".into())),
        };
    let entries = call.server.slowlog.latest(count);
    call.reply.array(entries.len());
    for entry in entries {
        call.reply.array(6);
        call.reply.integer(entry.id as i64);
        call.reply.integer(entry.at_s as i64);
        call.reply.integer(entry.took_us as i64);
        call.reply.array(entry.args.len());
        for word in &entry.args {
            call.reply.bulk(word);
        }
        call.reply.bulk(entry.peer.as_bytes());
        call.reply.bulk(entry.name.as_bytes());
    }
    Ok(())
}

fn slowlog_len(call: &mut CommandCall<'_>) -> Answer {
    call.reply.count(call.server.slowlog.len());
    Ok(())
}

fn slowlog_reset(call: &mut CommandCall<'_>) -> Answer {
    call.server.slowlog.clear();
    call.reply.ok();
    Ok(())
}

fn slowlog_help(call: &mut CommandCall<'_>) -> Answer {
    help(
        call,
        &[
            "GET [<count>]",
            "    The last slow commands: number, time, microseconds, words, client.",
            "LEN",
            "    The number of slow commands.",
            "RESET",
            "    Delete the entries.",
        ],
    )
}

fn monitor(call: &mut CommandCall<'_>) -> Answer {
    if call.nested {
        // As in Redis: a client in a transaction expects one reply for each command.
        return Err(CommandError::text(
            "ERR MONITOR isn't allowed for DENY BLOCKING client",
        ));
    }
    call.server.monitors.join(&call.server.singly, call.client);
    call.reply.ok();
    Ok(())
}

fn role(call: &mut CommandCall<'_>) -> Answer {
    call.reply.array(3);
    call.reply.bulk(b"master");
    // The offset of replication, and no replicas.
    call.reply.integer(0);
    call.reply.array(0);
    Ok(())
}

fn replicate(call: &mut CommandCall<'_>) -> Answer {
    // Clients send this to make sure that the server is a primary, which it always is.
    if is(call.args[1], "no") && is(call.args[2], "one") {
        call.reply.ok();
        return Ok(());
    }
    let port = parse_integer(call.args[2]);
    if !port.is_some_and(|port| (0..=65535).contains(&port)) {
        return Err(CommandError::text("ERR Invalid master port"));
    }
    Err(CommandError::text(
        "ERR this server cannot be a replica of another",
    ))
}
