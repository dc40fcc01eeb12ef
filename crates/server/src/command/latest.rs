//! The command that was executed last, as clients and scripts mostly send the same one again.

use super::{Command, Run, number_of};

/// A command that was executed, which the next one may be found by.
#[derive(Clone, Copy, Debug)]
pub struct Latest {
    /// The command.
    pub command: &'static Command,
    /// Its number.
    pub number: usize,
    /// Whether its name alone says that it is this one, and no subcommand.
    by_name: bool,
}

impl Latest {
    /// A command that was found by these words.
    pub fn new(command: &'static Command, args: &[&[u8]]) -> Latest {
        let by_name = args.first().is_some_and(|name| {
            // A container may be sent alone, and with a subcommand the next time.
            matches!(command.run, Run::Command(_) | Run::Planned(_))
                && command.turning.is_none()
                && name.eq_ignore_ascii_case(command.name.as_bytes())
        });
        Latest {
            command,
            number: number_of(command),
            by_name,
        }
    }

    /// True if other words are found to be the same command. False says nothing.
    #[inline]
    pub fn is_found_by(&self, args: &[&[u8]]) -> bool {
        let is = |name: &&[u8]| name.eq_ignore_ascii_case(self.command.name.as_bytes());
        self.by_name && args.first().is_some_and(is) && self.command.accepts(args.len())
    }
}
