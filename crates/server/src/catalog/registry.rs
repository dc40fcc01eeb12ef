//! The commands with their numbers and categories, for access control and statistics.

use super::category;
use super::spec::Spec;
use hashbrown::HashMap;

/// A command or subcommand.
#[derive(Debug)]
pub struct CommandRegistryEntry {
    /// The name in lower case; of a subcommand `container|name`.
    pub name: String,
    /// Its description.
    pub command: &'static Spec,
    /// Its categories, as bits in the order of [`category::NAMES`].
    pub categories: u32,
    /// The numbers of its subcommands.
    pub subcommands: std::ops::Range<usize>,
}

/// All commands and subcommands, by number and by name.
#[derive(Debug)]
pub struct CommandRegistry {
    entries: Vec<CommandRegistryEntry>,
    by_name: HashMap<String, usize>,
    /// The numbers by address. Rows of the table are never moved, so that an address identifies a
    /// row.
    by_address: HashMap<usize, usize>,
}

fn address(command: &Spec) -> usize {
    std::ptr::from_ref(command).addr()
}

impl CommandRegistry {
    /// Numbers commands and the subcommands that come with each.
    pub fn new<C, S>(commands: C) -> CommandRegistry
    where
        C: IntoIterator<Item = (&'static Spec, S)>,
        S: ExactSizeIterator<Item = &'static Spec>,
    {
        let mut registry = CommandRegistry {
            entries: Vec::new(),
            by_name: HashMap::new(),
            by_address: HashMap::new(),
        };
        for (command, subcommands) in commands {
            // Subcommands are numbered directly after their container, so that a range describes
            // them.
            let first = registry.entries.len() + 1;
            registry.add(CommandRegistryEntry {
                name: command.name.to_owned(),
                command,
                categories: category::of(command, None),
                subcommands: first..first + subcommands.len(),
            });
            for subcommand in subcommands {
                registry.add(CommandRegistryEntry {
                    name: format!("{}|{}", command.name, subcommand.name),
                    command: subcommand,
                    categories: category::of(subcommand, Some(command)),
                    subcommands: 0..0,
                });
            }
        }
        registry
    }

    fn add(&mut self, entry: CommandRegistryEntry) {
        let number = self.entries.len();
        debug_assert!(
            !self.by_name.contains_key(&entry.name),
            "a name stands for one command"
        );
        debug_assert!(
            entry.subcommands.is_empty() || entry.subcommands.start == number + 1,
            "subcommands follow their container"
        );
        self.by_name.insert(entry.name.clone(), number);
        self.by_address.insert(address(entry.command), number);
        self.entries.push(entry);
    }

    /// Returns the number of commands and subcommands.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there are no commands.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns all commands and subcommands, in the order of their numbers.
    pub fn entries(&self) -> &[CommandRegistryEntry] {
        &self.entries
    }

    /// Returns the number of a command or, written `container|name`, of a subcommand. Case is
    /// ignored.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        self.by_name.get(&name).copied()
    }

    /// Returns the number of a row of the table.
    pub fn number(&self, command: &'static Spec) -> Option<usize> {
        self.by_address.get(&address(command)).copied()
    }

    /// Returns the full name of a row of the table, as errors and the log show it.
    pub fn name(&self, command: &'static Spec) -> &str {
        let entry = self
            .number(command)
            .and_then(|number| self.entries.get(number));
        entry.map_or(command.name, |entry| &entry.name)
    }
}
