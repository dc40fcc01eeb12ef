//! The commands as access control and statistics see them: numbered, with their categories.

use super::category;
use super::spec::Spec;
use hashbrown::HashMap;

/// A command or subcommand.
#[derive(Debug)]
pub struct Entry {
    /// The name in lower case; of a subcommand `container|name`.
    pub name: String,
    /// Its description.
    pub command: &'static Spec,
    /// Its categories, in bits as [`category::NAMES`] counts them.
    pub categories: u32,
    /// The numbers of its subcommands.
    pub subcommands: std::ops::Range<usize>,
}

/// All commands.
#[derive(Debug)]
pub struct Registry {
    entries: Vec<Entry>,
    by_name: HashMap<String, usize>,
    /// Rows of the table are never moved, so that their addresses tell them apart.
    by_address: HashMap<usize, usize>,
}

fn address(command: &Spec) -> usize {
    std::ptr::from_ref(command).addr()
}

impl Registry {
    /// Numbers commands, each of which comes with its subcommands.
    pub fn new<C, S>(commands: C) -> Registry
    where
        C: IntoIterator<Item = (&'static Spec, S)>,
        S: ExactSizeIterator<Item = &'static Spec>,
    {
        let mut registry = Registry {
            entries: Vec::new(),
            by_name: HashMap::new(),
            by_address: HashMap::new(),
        };
        for (command, subcommands) in commands {
            let first = registry.entries.len() + 1;
            registry.add(Entry {
                name: command.name.to_owned(),
                command,
                categories: category::of(command, None),
                subcommands: first..first + subcommands.len(),
            });
            for subcommand in subcommands {
                registry.add(Entry {
                    name: format!("{}|{}", command.name, subcommand.name),
                    command: subcommand,
                    categories: category::of(subcommand, Some(command)),
                    subcommands: 0..0,
                });
            }
        }
        registry
    }

    fn add(&mut self, entry: Entry) {
        let number = self.entries.len();
        self.by_name.insert(entry.name.clone(), number);
        self.by_address.insert(address(entry.command), number);
        self.entries.push(entry);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All, in the order of their numbers.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The number of a command or, written `container|name`, of a subcommand; in any case.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        self.by_name.get(&name).copied()
    }

    /// The number of a row of the table.
    pub fn number(&self, command: &'static Spec) -> Option<usize> {
        self.by_address.get(&address(command)).copied()
    }

    /// The whole name of a row of the table, as errors and the log have it.
    pub fn name(&self, command: &'static Spec) -> &str {
        let entry = self
            .number(command)
            .and_then(|number| self.entries.get(number));
        entry.map_or(command.name, |entry| &entry.name)
    }
}
