//! Commands on streams, in one file for each group of related commands.

mod add;
mod arguments;
mod claim;
mod group;
mod id;
mod info;
mod pending;
mod range;
mod read;
mod trim;

use super::{CommandDefinition, CommandGroup};

const GROUP: CommandGroup = CommandGroup::Stream;

/// The families' rows of the command table.
pub const COMMANDS: &[&[CommandDefinition]] = &[
    add::COMMANDS,
    trim::COMMANDS,
    range::COMMANDS,
    group::COMMANDS,
    read::COMMANDS,
    pending::COMMANDS,
    claim::COMMANDS,
    info::COMMANDS,
];
