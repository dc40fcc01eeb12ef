//! `CLUSTER`, of a server that is not part of one.

use super::{Answer, Call, Command, Flags, Group};
use crate::error::CommandError;

const FREE: Flags = Flags(Flags::NO_PHASE.0 | Flags::LOADING.0);

const fn refused(name: &'static str) -> Command {
    Command::new(name, -2, refuse)
        .flag(FREE)
        .about(Group::Server, "3.0.0", "O(1)")
        .summary("Is refused, as the server is not part of a cluster.")
}

/// The subcommands.
pub const COMMANDS: &[Command] = &[
    refused("info"),
    refused("myid"),
    refused("slots"),
    refused("shards"),
    refused("nodes"),
    refused("keyslot"),
    refused("countkeysinslot"),
    refused("getkeysinslot"),
    refused("meet"),
    refused("reset"),
    refused("replicas"),
    refused("links"),
    refused("help"),
];

fn refuse(_: &mut Call<'_>) -> Answer {
    Err(CommandError::text(
        "ERR This instance has cluster support disabled",
    ))
}
