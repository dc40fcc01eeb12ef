//! The categories of access control that a command is in, and its flags, by Redis's names.

use super::{CommandDefinition, CommandImplementation, CommandKeySpec, Flags};
use crate::catalog::{CommandRegistry, category};

/// The flags that clients are shown, with their names.
const FLAGS: &[(Flags, &str)] = &[
    (Flags::WRITE, "write"),
    (Flags::READONLY, "readonly"),
    (Flags::DENYOOM, "denyoom"),
    (Flags::ADMIN, "admin"),
    (Flags::PUBSUB, "pubsub"),
    (Flags::NOSCRIPT, "noscript"),
    (Flags::BLOCKING, "blocking"),
    (Flags::LOADING, "loading"),
    (Flags::NO_AUTH, "no_auth"),
    (Flags::NO_ASYNC_LOADING, "no_async_loading"),
    (Flags::FAST, "fast"),
    (Flags::NO_MULTI, "no_multi"),
    (Flags::ALLOW_BUSY, "allow_busy"),
];

impl CommandDefinition {
    /// Returns the names of the categories that the command is in.
    pub fn category_names(&'static self, registry: &CommandRegistry) -> Vec<&'static str> {
        let number = registry.number(self);
        let entry = number.and_then(|number| registry.entries().get(number));
        let bits = entry.map_or(0, |entry| entry.categories);
        let is = |(position, _): &(usize, &&str)| bits >> position & 1 != 0;
        let names = category::NAMES.iter().enumerate().filter(is);
        let names = names.map(|(_, name)| *name);
        // A command that cannot be sent without a subcommand is in the categories of its
        // subcommands.
        let is_sent =
            !matches!(self.run, CommandImplementation::Container(_)) || self.bare.is_some();
        names.filter(|name| is_sent || *name == "slow").collect()
    }

    /// Returns the names of flags that clients are shown. On a pool they include a flag for
    /// commands that are refused there; Redis has no such flag.
    pub fn flag_names(&self, on_pool: bool) -> Vec<&'static str> {
        let mut names: Vec<_> = FLAGS
            .iter()
            .filter(|(flag, _)| self.flags.has(*flag))
            .map(|(_, name)| *name)
            .collect();
        // A command that needs no data may run on stale data.
        if self.flags.has(Flags::LOADING) || self.flags.has(Flags::STALE) {
            names.push("stale");
        }
        if self.flags.has(Flags::RUNS_SCRIPT) {
            // Monitors are shown the script's commands instead, and a script may have no keys.
            names.extend(["skip_monitor", "no_mandatory_keys"]);
        }
        if self.flags.has(Flags::RUNS_QUEUED) {
            names.push("skip_slowlog");
        }
        let is_movable = matches!(
            self.keys,
            CommandKeySpec::Counted { .. }
                | CommandKeySpec::OneOrBehind { .. }
                | CommandKeySpec::Custom(_)
        );
        // As in Redis: the keys that BY and GET read depend on the elements.
        if is_movable || self.name == "sort_ro" {
            names.push("movablekeys");
        }
        if on_pool && !self.is_for_pools() {
            names.push("no_pool");
        }
        names
    }
}
