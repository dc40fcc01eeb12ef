//! The table of all commands.

use super::batchable::Batchables;
use super::spec::CommandDefinition;
use crate::catalog::{CommandRegistry, Flags};
use hashbrown::HashMap;

/// The commands of a server, by name and by number.
#[derive(Debug)]
pub struct CommandTable {
    rows: Vec<&'static CommandDefinition>,
    by_name: HashMap<&'static [u8], &'static CommandDefinition>,
    registry: CommandRegistry,
    batchables: Batchables,
    /// The names of the commands that may run scripts.
    script_runners: Vec<&'static [u8]>,
    /// The first letters of these names in either case, as bits.
    script_letters: u32,
}

fn letter_bit(letter: u8) -> u32 {
    // The low five bits of a letter are the same in either case.
    1 << (letter & 31)
}

impl CommandTable {
    /// Creates the table of these commands, which are numbered in this order.
    pub fn new(commands: impl IntoIterator<Item = &'static CommandDefinition>) -> CommandTable {
        let rows: Vec<_> = commands.into_iter().collect();
        debug_assert!(
            rows.iter().all(|it| !it.name.contains(char::is_uppercase)),
            "names are looked up in lower case"
        );
        let registry = CommandRegistry::new(rows.iter().map(|command| {
            let subcommands = command.subcommands().iter();
            (&command.spec, subcommands.map(|command| &command.spec))
        }));
        let runs_scripts = |command: &&&CommandDefinition| {
            let flags = command.flags;
            flags.has(Flags::RUNS_SCRIPT) || flags.has(Flags::RUNS_QUEUED)
        };
        let script_runners = rows.iter().filter(runs_scripts);
        let script_runners: Vec<_> = script_runners.map(|it| it.name.as_bytes()).collect();
        let letters = script_runners.iter().filter_map(|name| name.first());
        let by_name = rows
            .iter()
            .map(|command| (command.name.as_bytes(), *command));
        CommandTable {
            by_name: by_name.collect(),
            batchables: Batchables::new(&rows, &registry),
            script_letters: letters.fold(0, |bits, letter| bits | letter_bit(*letter)),
            registry,
            rows,
            script_runners,
        }
    }

    /// Returns all commands, family by family.
    pub fn all(&self) -> impl Iterator<Item = &'static CommandDefinition> {
        self.rows.iter().copied()
    }

    /// Finds a command by its name in any case.
    pub fn find(&self, name: &[u8]) -> Option<&'static CommandDefinition> {
        // No name is longer, and a copy on the stack is cheaper than one in memory of its own.
        const LONGEST: usize = 32;
        let mut lower = [0; LONGEST];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        self.by_name.get(&*lower).copied()
    }

    /// Returns all commands and subcommands, numbered.
    pub fn registry(&self) -> &CommandRegistry {
        &self.registry
    }

    /// Returns the commands that may be part of a batch.
    pub fn batchables(&self) -> &Batchables {
        &self.batchables
    }

    /// Returns true if the command of a name may run a script, or several in a transaction.
    #[inline]
    pub fn may_run_script(&self, name: &[u8]) -> bool {
        // Threads ask this about each command. Most names do not begin with one of the letters.
        let letter = name.first().map_or(0, |letter| letter_bit(*letter));
        let is = |it: &&[u8]| it.eq_ignore_ascii_case(name);
        self.script_letters & letter != 0 && self.script_runners.iter().any(is)
    }

    /// Returns the number of a command or subcommand.
    pub fn number_of(&self, command: &'static CommandDefinition) -> usize {
        debug_assert!(
            self.registry.number(command).is_some(),
            "the registry has all rows of the table"
        );
        self.registry.number(command).unwrap_or(0)
    }

    /// Returns the number of the command or subcommand that words name, even if it takes another
    /// number of arguments.
    pub fn number_named(&self, args: &[&[u8]]) -> Option<usize> {
        let command = self.find(args.first()?)?;
        // The statistics count a refusal with the subcommand, even if its arity was the reason.
        let subcommand = args.get(1).and_then(|word| command.subcommand(word));
        Some(self.number_of(subcommand.unwrap_or(command)))
    }
}

#[cfg(test)]
mod tests {
    use crate::commands::TABLE;

    #[test]
    fn names_are_unique_and_found_in_any_case() {
        for command in TABLE.all() {
            assert_eq!(command.name, command.name.to_ascii_lowercase());
            let upper = command.name.to_ascii_uppercase();
            let found = TABLE
                .find(upper.as_bytes())
                .map(|found| std::ptr::eq(found, command));
            assert_eq!(found, Some(true), "{}", command.name);
            assert!(
                !command.summary.is_empty(),
                "{} has no summary",
                command.name
            );
        }
        assert!(TABLE.find(b"").is_none());
        assert!(TABLE.find(&[b'a'; 100]).is_none());
    }
}
