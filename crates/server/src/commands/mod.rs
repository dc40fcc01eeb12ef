//! All commands, in one file or folder for each family.

mod acl;
mod bit;
mod client;
mod connection;
mod debug;
mod generic;
mod geo;
mod hash;
mod hyperloglog;
mod introspection;
mod list;
mod ordered;
mod pubsub;
mod repeat;
mod scripting;
mod server;
mod set;
mod sorted_set;
mod stream;
mod string;
mod transaction;

use crate::command::{CommandDefinition, CommandTable};
use std::sync::LazyLock;

pub use repeat::repeat;
pub use transaction::abort;

/// The families' rows of the command table. Commands are numbered in this order.
const ALL: &[&[CommandDefinition]] = &[
    string::COMMANDS,
    bit::COMMANDS,
    hyperloglog::COMMANDS,
    generic::COMMANDS,
    generic::migrate::COMMANDS,
    generic::expiry::COMMANDS,
    ordered::COMMANDS,
    list::COMMANDS,
    list::blocking::COMMANDS,
    hash::COMMANDS,
    hash::expiry::COMMANDS,
    set::COMMANDS,
    set::algebra::COMMANDS,
    sorted_set::COMMANDS,
    sorted_set::algebra::COMMANDS,
    sorted_set::pop::COMMANDS,
    sorted_set::range::COMMANDS,
    geo::COMMANDS,
    transaction::COMMANDS,
    pubsub::COMMANDS,
    scripting::COMMANDS,
    scripting::function::COMMANDS,
    connection::COMMANDS,
    client::COMMANDS,
    server::COMMANDS,
    server::cluster::BESIDE,
    server::hotkeys::COMMANDS,
    server::tier::COMMANDS,
    server::config::COMMANDS,
    acl::COMMANDS,
    server::persistence::COMMANDS,
    debug::COMMANDS,
    introspection::COMMANDS,
    server::module::COMMANDS,
    stream::add::COMMANDS,
    stream::trim::COMMANDS,
    stream::range::COMMANDS,
    stream::group::COMMANDS,
    stream::read::COMMANDS,
    stream::pending::COMMANDS,
    stream::claim::COMMANDS,
    stream::info::COMMANDS,
];

/// The table of all commands.
pub static TABLE: LazyLock<CommandTable> =
    LazyLock::new(|| CommandTable::new(ALL.iter().copied().flatten()));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{CommandGroup, CommandKeySpec, Flags};

    #[test]
    fn flags_follow_from_what_commands_are() {
        for command in TABLE.all() {
            let has = |flag| command.flags.has(flag);
            let takes_keys = !matches!(command.keys, CommandKeySpec::None);
            let runs_script = command.group == CommandGroup::Scripting && takes_keys;
            assert_eq!(has(Flags::RUNS_SCRIPT), runs_script, "{}", command.name);
            let subscribes = command.group == CommandGroup::PubSub && has(Flags::SUBSCRIBER);
            assert_eq!(has(Flags::CONFIRMS), subscribes, "{}", command.name);
            let is_named = command.name == "exec" || runs_script;
            let found = TABLE.may_run_script(command.name.to_ascii_uppercase().as_bytes());
            assert_eq!(found, is_named, "{}", command.name);
        }
        let scripts = TABLE.all().filter(|it| it.flags.has(Flags::RUNS_SCRIPT));
        assert_eq!(scripts.count(), 6);
    }
}
