//! `MODULE`, on a server without modules.

use crate::command::help::help;
use crate::command::{
    Answer, CommandCall, CommandDefinition, CommandFunction, CommandGroup, Flags,
};
use crate::error::CommandError;

const GROUP: CommandGroup = CommandGroup::Server;
const NONE: &str = "There are no modules: none is listed, and none can be loaded.";

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[CommandDefinition::container("module", SUBCOMMANDS)
    .about(GROUP, "4.0.0", "Depends on the subcommand")
    .summary("Lists no modules.")
    .differs(NONE)];

const SUBCOMMANDS: &[CommandDefinition] = &[
    row("list", 2, list).summary("Lists no modules."),
    row("load", -3, refuse)
        .flag(Flags::NO_ASYNC_LOADING)
        // As in Redis, the configuration refuses the command before anything else does.
        .flag(Flags::PROTECTED)
        .summary("Refused: there are no modules."),
    row("loadex", -3, refuse)
        .flag(Flags::NO_ASYNC_LOADING)
        .flag(Flags::PROTECTED)
        .summary("Refused: there are no modules."),
    row("unload", 3, refuse)
        .flag(Flags::NO_ASYNC_LOADING)
        .flag(Flags::PROTECTED)
        .summary("Refused: there are no modules."),
    CommandDefinition::help(GROUP, "5.0.0", show_help).summary("Lists the subcommands."),
];

const fn row(name: &'static str, arity: i32, run: CommandFunction) -> CommandDefinition {
    CommandDefinition::new(name, arity, run)
        .flag(Flags::NO_PHASE)
        .flag(Flags::ADMIN)
        .flag(Flags::NOSCRIPT)
        .about(GROUP, "4.0.0", "O(1)")
        .differs(NONE)
}

fn list(call: &mut CommandCall<'_>) -> Answer {
    call.reply.array(0);
    Ok(())
}

/// Refuses modules even if `enable-module-command` allows the command.
fn refuse(_: &mut CommandCall<'_>) -> Answer {
    Err(CommandError::text(
        "ERR Error loading the extension. This server has no modules.",
    ))
}

fn show_help(call: &mut CommandCall<'_>) -> Answer {
    help(
        call,
        &["LIST", "    Return an empty list: there are no modules."],
    )
}
