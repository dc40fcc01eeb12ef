//! The categories of access control that a command is in, and its flags, as Redis names them.

use super::{Command, Flags, Group, KeySpec};

/// All categories, in Redis's order.
pub const CATEGORIES: &[&str] = &[
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// The flags that clients are told of.
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
    (Flags::FAST, "fast"),
    (Flags::NO_MULTI, "no_multi"),
];

impl Command {
    /// The categories that the command is in, in the order of [`CATEGORIES`].
    pub fn category_names(&self) -> Vec<&'static str> {
        CATEGORIES
            .iter()
            .copied()
            .filter(|category| self.is_in_category(category))
            .collect()
    }

    fn is_in_category(&self, category: &str) -> bool {
        let has = |flag| self.flags.has(flag);
        let by_kind = match category {
            "write" => has(Flags::WRITE),
            "read" => has(Flags::READONLY) && self.group != Group::Scripting,
            "admin" => has(Flags::ADMIN),
            "dangerous" => has(Flags::ADMIN),
            "pubsub" => has(Flags::PUBSUB),
            "fast" => has(Flags::FAST),
            "slow" => !has(Flags::FAST),
            "blocking" => has(Flags::BLOCKING),
            "keyspace" => matches!(self.group, Group::Generic | Group::Ordered),
            "string" => self.group == Group::String,
            "list" => self.group == Group::List,
            "hash" => self.group == Group::Hash,
            "set" => self.group == Group::Set,
            "sortedset" => self.group == Group::SortedSet,
            "transaction" => self.group == Group::Transactions,
            "scripting" => self.group == Group::Scripting,
            "connection" => self.group == Group::Connection,
            _ => false,
        };
        let named = |own: &&&str| own.trim_start_matches('@') == category;
        by_kind || self.categories.iter().find(named).is_some()
    }

    /// The flags that clients are told of.
    pub fn flag_names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = FLAGS
            .iter()
            .filter(|(flag, _)| self.flags.has(*flag))
            .map(|(_, name)| *name)
            .collect();
        if matches!(self.keys, KeySpec::Counted { .. } | KeySpec::Custom(_)) {
            names.push("movablekeys");
        }
        names
    }
}
