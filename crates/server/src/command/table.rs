//! The table of all commands.

use super::spec::{Command, Run};
use super::{
    acl, bit, client, cluster, config, connection, debug, expiry, function, generic, geo, hash,
    hash_expiry, hotkeys, hyperloglog, introspection, list, list_blocking, migrate, module,
    ordered, persistence, pubsub, scripting, server, set, set_algebra, sorted_set,
    sorted_set_algebra, sorted_set_pop, sorted_set_range, stream, string, tier, transaction,
};
use crate::catalog::Registry;
use crate::config::Options;
use crate::server::Server;
use hashbrown::HashMap;
use std::sync::LazyLock;

const FAMILIES: &[&[Command]] = &[
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

static BY_NAME: LazyLock<HashMap<&'static [u8], &'static Command>> = LazyLock::new(|| {
    let names = all().map(|command| (command.name.as_bytes(), command));
    names.collect()
});

/// Returns all commands, family by family.
pub fn all() -> impl Iterator<Item = &'static Command> {
    let families = FAMILIES.iter().chain(stream::COMMANDS);
    families.flat_map(|family| family.iter())
}

/// Finds a command by its name in any case.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    const LONGEST: usize = 32;
    let mut lower = [0; LONGEST];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    BY_NAME.get(&*lower).copied()
}

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    Registry::new(all().map(|command| {
        let subcommands = command.subcommands().iter();
        (&command.spec, subcommands.map(|command| &command.spec))
    }))
});

/// Returns all commands, numbered.
pub fn registry() -> &'static Registry {
    &REGISTRY
}

/// Returns the number of a command or subcommand.
pub fn number_of(command: &'static Command) -> usize {
    registry().number(command).unwrap_or(0)
}

impl Server {
    /// Creates a server with all commands, without keys, that does not listen yet.
    pub fn new(options: Options) -> Server {
        Server::of_commands(registry(), options)
    }
}

impl Command {
    /// Returns its subcommands, if it is a container.
    pub fn subcommands(&self) -> &'static [Command] {
        match self.run {
            Run::Command(_) | Run::Planned(_) => &[],
            Run::Container(subcommands) => subcommands,
        }
    }

    /// Finds a subcommand by its name in any case.
    pub fn subcommand(&self, name: &[u8]) -> Option<&'static Command> {
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
