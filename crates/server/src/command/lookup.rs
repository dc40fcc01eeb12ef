//! The lookup of a command by its words.

use super::spec::{CommandDefinition, CommandImplementation};
use super::table::CommandTable;
use crate::error::{CommandError, shown};

impl CommandTable {
    /// Finds a command or subcommand by its words, and checks their number.
    ///
    /// # Errors
    /// There is no command of that name, or it takes another number of arguments.
    pub fn lookup(&self, args: &[&[u8]]) -> Result<&'static CommandDefinition, CommandError> {
        let name = args.first().copied().unwrap_or_default();
        let Some(command) = self.find(name) else {
            return Err(unknown_command(args));
        };
        let found = match command.run {
            CommandImplementation::Command(_) | CommandImplementation::Planned(_) => command,
            CommandImplementation::Container(_) => {
                let Some(word) = args.get(1) else {
                    if command.bare.is_some() {
                        return Ok(command);
                    }
                    return Err(CommandError::WrongArity(command.name.into()));
                };
                let subcommand = command.subcommand(word);
                if let Some(unknown) = command.unknown {
                    // Such a container reports a wrong number of arguments as an unknown
                    // subcommand.
                    let subcommand = subcommand.filter(|it| it.accepts(args.len()));
                    return subcommand.ok_or_else(|| unknown(word));
                }
                let Some(subcommand) = subcommand else {
                    let (word, name) = (shown(word), command.name.to_ascii_uppercase());
                    return Err(CommandError::owned(format!(
                        "ERR unknown subcommand '{word}'. Try {name} HELP."
                    )));
                };
                if !subcommand.accepts(args.len()) {
                    let name = format!("{}|{}", command.name, subcommand.name);
                    return Err(CommandError::WrongArity(name.into()));
                }
                return Ok(subcommand);
            }
        };
        if !found.accepts(args.len()) {
            return Err(CommandError::WrongArity(found.name.into()));
        }
        let other = found.turning.and_then(|turning| turning(args));
        debug_assert!(
            other.is_none_or(|name| self.find(name.as_bytes()).is_some()),
            "a command turns into one of the table"
        );
        let other = other.and_then(|name| self.find(name.as_bytes()));
        Ok(other.unwrap_or(found))
    }
}

fn unknown_command(args: &[&[u8]]) -> CommandError {
    /// The number of bytes of arguments that are shown, as in Redis.
    const SHOWN_BYTES: usize = 128;
    let name = shown(args.first().copied().unwrap_or_default());
    let mut words = String::new();
    for argument in args.iter().skip(1) {
        let Some(room) = SHOWN_BYTES
            .checked_sub(words.len())
            .filter(|&room| room > 0)
        else {
            break;
        };
        // As in Redis, the limit applies to the shown text with its quotes and blanks.
        let argument = argument.get(..room).unwrap_or(argument);
        words += &format!("'{}' ", shown(argument));
    }
    CommandError::owned(format!(
        "ERR unknown command '{name}', with args beginning with: {words}"
    ))
}
