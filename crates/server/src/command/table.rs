//! The table of all commands.

use super::spec::{CommandDefinition, CommandImplementation};
use super::{
    acl, bit, client, cluster, config, connection, debug, expiry, function, generic, geo, hash,
    hash_expiry, hotkeys, hyperloglog, introspection, list, list_blocking, migrate, module,
    ordered, persistence, pubsub, scripting, server, set, set_algebra, sorted_set,
    sorted_set_algebra, sorted_set_pop, sorted_set_range, stream, string, tier, transaction,
};
use crate::catalog::CommandRegistry;
use crate::config::ServerOptions;
use crate::server::ServerCore;
use hashbrown::HashMap;
use std::sync::LazyLock;

const FAMILIES: &[&[CommandDefinition]] = &[
    string::COMMANDS,
    bit::COMMANDS,
    hyperloglog::COMMANDS,
    generic::COMMANDS,
    migrate::COMMANDS,
    expiry::COMMANDS,
    ordered::COMMANDS,
    list::COMMANDS,
    list_blocking::COMMANDS,
    hash::COMMANDS,
    hash_expiry::COMMANDS,
    set::COMMANDS,
    set_algebra::COMMANDS,
    sorted_set::COMMANDS,
    sorted_set_algebra::COMMANDS,
    sorted_set_pop::COMMANDS,
    sorted_set_range::COMMANDS,
    geo::COMMANDS,
    transaction::COMMANDS,
    pubsub::COMMANDS,
    scripting::COMMANDS,
    function::COMMANDS,
    connection::COMMANDS,
    client::COMMANDS,
    server::COMMANDS,
    cluster::BESIDE,
    hotkeys::COMMANDS,
    tier::COMMANDS,
    config::COMMANDS,
    acl::COMMANDS,
    persistence::COMMANDS,
    debug::COMMANDS,
    introspection::COMMANDS,
    module::COMMANDS,
];

static BY_NAME: LazyLock<HashMap<&'static [u8], &'static CommandDefinition>> =
    LazyLock::new(|| {
        let names = all().map(|command| (command.name.as_bytes(), command));
        names.collect()
    });

/// Returns all commands, family by family.
pub fn all() -> impl Iterator<Item = &'static CommandDefinition> {
    let families = FAMILIES.iter().chain(stream::COMMANDS);
    families.flat_map(|family| family.iter())
}

/// Finds a command by its name in any case.
pub fn find(name: &[u8]) -> Option<&'static CommandDefinition> {
    const LONGEST: usize = 32;
    let mut lower = [0; LONGEST];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    BY_NAME.get(&*lower).copied()
}

static REGISTRY: LazyLock<CommandRegistry> = LazyLock::new(|| {
    CommandRegistry::new(all().map(|command| {
        let subcommands = command.subcommands().iter();
        (&command.spec, subcommands.map(|command| &command.spec))
    }))
});

/// Returns all commands, numbered.
pub fn registry() -> &'static CommandRegistry {
    &REGISTRY
}

/// Returns the number of a command or subcommand.
pub fn number_of(command: &'static CommandDefinition) -> usize {
    registry().number(command).unwrap_or(0)
}

impl ServerCore {
    /// Creates a server with all commands, without keys, that does not listen yet.
    pub fn new(options: ServerOptions) -> ServerCore {
        ServerCore::of_commands(registry(), options)
    }
}

impl CommandDefinition {
    /// Returns its subcommands, if it is a container.
    pub fn subcommands(&self) -> &'static [CommandDefinition] {
        match self.run {
            CommandImplementation::Command(_) | CommandImplementation::Planned(_) => &[],
            CommandImplementation::Container(subcommands) => subcommands,
        }
    }

    /// Finds a subcommand by its name in any case.
    pub fn subcommand(&self, name: &[u8]) -> Option<&'static CommandDefinition> {
        let mut subcommands = self.subcommands().iter();
        subcommands.find(|command| name.eq_ignore_ascii_case(command.name.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found_in_any_case() {
        for command in all() {
            assert_eq!(command.name, command.name.to_ascii_lowercase());
            let upper = command.name.to_ascii_uppercase();
            let found = find(upper.as_bytes()).map(|found| std::ptr::eq(found, command));
            assert_eq!(found, Some(true), "{}", command.name);
            assert!(
                !command.summary.is_empty(),
                "{} has no summary",
                command.name
            );
        }
        assert!(find(b"").is_none());
        assert!(find(&[b'a'; 100]).is_none());
    }
}
