//! The categories of commands, derived as Redis derives them: from the flags and the group of a
//! command, and from a few lists for the commands to which Redis applies neither.

use super::spec::{CommandGroup, Flags, Spec};

/// The categories, in the order of their bits.
pub const NAMES: &[&str] = &[
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

const _: () = assert!(NAMES.len() <= 32, "a category is one bit of 32");

/// The commands on strings that Redis puts in the category `bitmap`.
const BITMAP: &[&str] = &[
    "getbit",
    "setbit",
    "bitcount",
    "bitpos",
    "bitop",
    "bitfield",
    "bitfield_ro",
];
/// The commands of the server that work on all keys of a database.
const KEYSPACE: &[&str] = &["dbsize", "flushall", "flushdb", "swapdb"];
/// The commands that are dangerous, though not only for administrators.
const DANGEROUS: &[&str] = &[
    "flushall", "flushdb", "info", "keys", "lastsave", "migrate", "restore", "role", "sort",
    "sort_ro", "swapdb",
];
/// The commands of other groups that Redis puts in the category `connection`.
const CONNECTION: &[&str] = &["command", "wait", "waitaof"];
/// The generic commands that work only on keys of certain types.
const SORT: &[&str] = &["sort", "sort_ro"];

/// Returns the bit of a category.
pub fn bit(name: &[u8]) -> Option<u32> {
    let is = |other: &&str| name.eq_ignore_ascii_case(other.as_bytes());
    NAMES.iter().position(is).map(|at| 1 << at)
}

/// Returns the categories of a command, or of a subcommand of `container`.
pub fn of(command: &Spec, container: Option<&Spec>) -> u32 {
    // A subcommand need not repeat what its container says of all subcommands.
    let name = container.map_or(command.name, |container| container.name);
    let flags = command.flags;
    let groups: &[&str] = match command.group {
        _ if SORT.contains(&name) => &["list", "set", "sortedset"],
        _ if BITMAP.contains(&name) => &["bitmap"],
        _ if KEYSPACE.contains(&name) => &["keyspace"],
        _ if CONNECTION.contains(&name) => &["connection"],
        CommandGroup::String => &["string"],
        CommandGroup::Generic | CommandGroup::Ordered => &["keyspace"],
        CommandGroup::List => &["list"],
        CommandGroup::Hash => &["hash"],
        CommandGroup::Set => &["set"],
        CommandGroup::SortedSet => &["sortedset"],
        CommandGroup::Geo => &["geo"],
        CommandGroup::HyperLogLog => &["hyperloglog"],
        CommandGroup::Stream => &["stream"],
        CommandGroup::Transactions => &["transaction"],
        // Derived from the flag `PUBSUB` below, which the subcommand for help does not have.
        CommandGroup::PubSub => &[],
        CommandGroup::Scripting => &["scripting"],
        CommandGroup::Connection => &["connection"],
        CommandGroup::Server => &[],
    };
    // As in Redis, commands that run scripts are not in the category `read`, not even those that
    // only allow reads.
    let scripting = command.group == CommandGroup::Scripting;
    let is_read = flags.has(Flags::READONLY) && !scripting;
    let derived = [
        ("write", flags.has(Flags::WRITE)),
        ("read", is_read),
        ("admin", flags.has(Flags::ADMIN)),
        (
            "dangerous",
            flags.has(Flags::ADMIN) || DANGEROUS.contains(&name),
        ),
        ("pubsub", flags.has(Flags::PUBSUB)),
        ("fast", flags.has(Flags::FAST)),
        ("slow", !flags.has(Flags::FAST)),
        ("blocking", flags.has(Flags::BLOCKING)),
    ];
    let derived = derived.iter().filter(|(_, is)| *is).map(|(name, _)| *name);
    let all = groups.iter().copied().chain(derived);
    all.chain(command.categories.iter().copied())
        .filter_map(|name| bit(name.as_bytes()))
        .fold(0, |bits, bit| bits | bit)
}

#[cfg(test)]
mod tests {
    use crate::commands::TABLE;

    /// The reply of Redis 7.0.15 to `ACL CAT dangerous`, limited to commands that this server may
    /// have.
    const DANGEROUS: &str = "shutdown restore slowlog|reset slowlog|len slowlog|get sort_ro \
        latency|histogram latency|history latency|doctor latency|reset latency|graph \
        latency|latest flushdb swapdb keys sort save info psync acl|log acl|load acl|list \
        acl|deluser acl|dryrun acl|save acl|users acl|getuser acl|setuser role debug client|pause \
        client|unpause client|no-evict client|kill client|unblock client|list monitor replconf \
        sync bgsave migrate replicaof lastsave flushall slaveof bgrewriteaof config|rewrite \
        config|resetstat config|get config|set failover module|list module|load module|unload";

    #[test]
    fn what_redis_calls_dangerous_is_dangerous() {
        let bit = super::bit(b"dangerous").unwrap();
        for name in DANGEROUS.split_whitespace() {
            if let Some(number) = TABLE.registry().find(name.as_bytes()) {
                let entry = &TABLE.registry().entries()[number];
                let plain = entry.subcommands.is_empty();
                assert!(!plain || entry.categories & bit != 0, "{name}");
            }
        }
    }

    #[test]
    fn categories_that_commands_name_exist() {
        for entry in TABLE.registry().entries() {
            for name in entry.command.categories {
                assert!(super::bit(name.as_bytes()).is_some(), "{name}");
            }
        }
    }
}
