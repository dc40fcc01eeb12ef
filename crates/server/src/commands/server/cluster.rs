//! `CLUSTER` and related commands, on a server that is not part of a cluster.

use crate::command::{Answer, CommandCall, CommandDefinition, CommandGroup, Flags};
use crate::error::CommandError;

const FREE: Flags = Flags(Flags::NO_PHASE.0 | Flags::STALE.0);

const fn refused(name: &'static str, arity: i32) -> CommandDefinition {
    CommandDefinition::new(name, arity, refuse)
        .flag(FREE)
        .about(CommandGroup::Server, "3.0.0", "O(1)")
        .summary("Refused: the server is not part of a cluster.")
}

/// Creates a subcommand that would change the cluster.
const fn changing(name: &'static str, arity: i32) -> CommandDefinition {
    refused(name, arity)
        .flag(Flags::ADMIN)
        .flag(Flags::NO_ASYNC_LOADING)
}

/// The subcommands.
pub const COMMANDS: &[CommandDefinition] = &[
    refused("info", 2),
    refused("myid", 2),
    refused("myshardid", 2),
    refused("slots", 2),
    refused("shards", 2),
    refused("nodes", 2),
    refused("keyslot", 3),
    refused("countkeysinslot", 3),
    refused("getkeysinslot", 4),
    refused("links", 2),
    // As in Redis, even HELP is refused without a cluster.
    refused("help", 2).flag(Flags::LOADING),
    refused("replicas", 3).flag(Flags::ADMIN),
    refused("slaves", 3).flag(Flags::ADMIN),
    refused("count-failure-reports", 3).flag(Flags::ADMIN),
    refused("reset", -2)
        .flag(Flags::ADMIN)
        .flag(Flags::NOSCRIPT),
    changing("meet", -4),
    changing("addslots", -3),
    changing("addslotsrange", -4),
    changing("bumpepoch", 2),
    changing("delslots", -3),
    changing("delslotsrange", -4),
    changing("failover", -2),
    changing("flushslots", 2),
    changing("forget", 3),
    changing("replicate", 3),
    changing("saveconfig", 2),
    changing("set-config-epoch", 3),
    changing("setslot", -4),
];

/// The other commands that clients of a cluster send.
pub const BESIDE: &[CommandDefinition] = &[
    beside("asking", "3.0.0"),
    beside("readonly", "3.0.0"),
    beside("readwrite", "3.0.0"),
];

const fn beside(name: &'static str, since: &'static str) -> CommandDefinition {
    CommandDefinition::new(name, 1, refuse)
        .fast()
        .flag(Flags::NO_PHASE)
        .flag(Flags::LOADING)
        .flag(Flags::STALE)
        .about(CommandGroup::Connection, since, "O(1)")
        .summary("Refused: the server is not part of a cluster.")
}

fn refuse(_: &mut CommandCall<'_>) -> Answer {
    Err(CommandError::text(
        "ERR This instance has cluster support disabled",
    ))
}
