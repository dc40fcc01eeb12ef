//! Saving to disk.

use super::Command;

/// The family's rows of the command table.
pub const COMMANDS: &[Command] = &[];
