//! The command that was executed last. Clients and scripts often send the same one again.

use super::{CommandDefinition, CommandImplementation};

/// A command that was executed, and that the next one is compared with.
#[derive(Clone, Copy, Debug)]
pub struct Latest {
    /// The command.
    pub command: &'static CommandDefinition,
    /// The command's number.
    pub number: usize,
    /// True if its name identifies it without a subcommand.
    by_name: bool,
}

impl Latest {
    /// Creates the record of the command `number`, which was found by these words.
    pub fn new(command: &'static CommandDefinition, number: usize, args: &[&[u8]]) -> Latest {
        let by_name = args.first().is_some_and(|name| {
            // A container may be sent alone, and with a subcommand the next time.
            matches!(
                command.run,
                CommandImplementation::Command(_) | CommandImplementation::Planned(_)
            ) && command.turning.is_none()
                && name.eq_ignore_ascii_case(command.name.as_bytes())
        });
        Latest {
            command,
            number,
            by_name,
        }
    }

    /// Returns true if these words name the same command. If it returns false, they may still do
    /// so.
    #[inline]
    pub fn is_found_by(&self, args: &[&[u8]]) -> bool {
        let is = |name: &&[u8]| name.eq_ignore_ascii_case(self.command.name.as_bytes());
        // Another number of arguments must be refused by the full lookup, with its error.
        self.by_name && args.first().is_some_and(is) && self.command.accepts(args.len())
    }
}
