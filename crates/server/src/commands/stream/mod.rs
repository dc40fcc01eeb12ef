//! Commands on streams, in one file for each group of related commands.

pub(super) mod add;
mod arguments;
pub(super) mod claim;
pub(super) mod group;
mod id;
pub(super) mod info;
pub(super) mod pending;
pub(super) mod range;
pub(super) mod read;
pub(super) mod trim;

use crate::command::CommandGroup;

const GROUP: CommandGroup = CommandGroup::Stream;
