//! The uses of keys by commands, as `COMMAND` lists them. Permissions are derived from them.

use super::{Flags, Spec};
use crate::resp::request::is;

/// The uses of a key by a command.
type Uses = &'static [&'static str];

const LOOKS: Uses = &["RO"];
const READS: Uses = &["RO", "access"];
const SETS: Uses = &["OW", "update"];
const CREATES: Uses = &["OW", "insert"];
const CHANGES: Uses = &["RW", "access", "update"];
const TAKES: Uses = &["RW", "access", "delete"];
const DELETES: Uses = &["RW", "delete"];
const INSERTS: Uses = &["RW", "insert"];
const UPDATES: Uses = &["RW", "update"];

/// The commands that use their keys in other ways than their flags imply: their names, the uses of
/// the first key, and the uses of the other keys.
const OTHERS: &[(&[&str], Uses, Uses)] = &[
    (&["msetnx", "setnx"], CREATES, CREATES),
    (&["mset", "psetex", "restore", "setex"], SETS, SETS),
    (
        &[
            "bitop",
            "geosearchstore",
            "sdiffstore",
            "sunionstore",
            "zdiffstore",
            "zinterstore",
            "zrangestore",
            "zunionstore",
        ],
        SETS,
        READS,
    ),
    (&["sinterstore"], UPDATES, READS),
    (&["del", "unlink"], &["RM", "delete"], &["RM", "delete"]),
    (
        &[
            "exists",
            "hexists",
            "hlen",
            "hstrlen",
            "llen",
            "usage",
            "encoding",
            "freq",
            "idletime",
            "refcount",
            "scard",
            "sismember",
            "strlen",
            "touch",
            "type",
            "xlen",
            "zcard",
        ],
        LOOKS,
        LOOKS,
    ),
    (&["xreadgroup"], READS, READS),
    (
        &["copy", "georadius", "georadiusbymember", "sort"],
        READS,
        SETS,
    ),
    (
        &["pfcount", "pfdebug"],
        &["RW", "access"],
        &["RW", "access"],
    ),
    (
        &[
            "hgetdel", "blmpop", "blpop", "brpop", "bzmpop", "bzpopmax", "bzpopmin", "getdel",
            "lmpop", "lpop", "migrate", "rpop", "spop", "zmpop", "zpopmax", "zpopmin",
        ],
        TAKES,
        TAKES,
    ),
    (&["renamenx"], TAKES, CREATES),
    (&["rename"], TAKES, SETS),
    (
        &["blmove", "brpoplpush", "lmove", "rpoplpush", "smove"],
        TAKES,
        INSERTS,
    ),
    (&["pfmerge"], &["RW", "access", "insert"], READS),
    (&["eval", "evalsha", "fcall"], CHANGES, CHANGES),
    (
        &[
            "hdel",
            "lrem",
            "ltrim",
            "srem",
            "xautoclaim",
            "xdel",
            "delconsumer",
            "destroy",
            "xtrim",
            "zrem",
            "zremrangebylex",
            "zremrangebyrank",
            "zremrangebyscore",
        ],
        DELETES,
        DELETES,
    ),
    (
        &[
            "append",
            "hsetnx",
            "linsert",
            "lpush",
            "lpushx",
            "pfadd",
            "rpush",
            "rpushx",
            "sadd",
            "create",
            "createconsumer",
        ],
        INSERTS,
        INSERTS,
    ),
    (
        &[
            "expire",
            "expireat",
            "geoadd",
            "hexpire",
            "hexpireat",
            "hpersist",
            "hpexpire",
            "hpexpireat",
            "hsetex",
            "hmset",
            "hset",
            "lset",
            "persist",
            "pexpire",
            "pexpireat",
            "setrange",
            "xack",
            "xadd",
            "xclaim",
            "setid",
            "xsetid",
            "zadd",
        ],
        UPDATES,
        UPDATES,
    ),
];

/// Returns the uses of key number `number` of a command, counted from 0.
pub fn of(command: &Spec, number: usize) -> Uses {
    // Subcommands are listed by their own names. Those that share a name with a command have no
    // keys.
    let mut others = OTHERS.iter();
    match others.find(|(names, ..)| names.contains(&command.name)) {
        Some((_, first, _)) if number == 0 => first,
        Some((.., behind)) => behind,
        None if command.flags.has(Flags::WRITE) => CHANGES,
        None if command.flags.has(Flags::READONLY) => READS,
        None => LOOKS,
    }
}

/// Returns true if the arguments decide how a command uses its keys. [`of`] then returns all uses
/// that it may have.
pub fn is_variable(command: &Spec) -> bool {
    matches!(command.name, "bitfield" | "set") && command.flags.has(Flags::WRITE)
}

/// Returns the same as [`of`] for a command with these arguments.
pub fn of_call(command: &Spec, args: &[&[u8]], number: usize) -> Uses {
    let has = |from: usize, wanted: &[&str]| {
        let words = args.get(from..).unwrap_or_default();
        words
            .iter()
            .any(|word| wanted.iter().any(|it| is(word, it)))
    };
    match command.name {
        // A condition on the old value lets a client find that value by guessing, so it counts as a
        // read.
        "set" if !has(3, &["get", "ifeq"]) => SETS,
        // With GET alone it is the same as BITFIELD_RO.
        "bitfield" if !has(2, &["set", "incrby"]) => READS,
        _ => of(command, number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::TABLE;

    #[test]
    fn names_are_those_of_commands_and_stand_there_once() {
        let mut names: Vec<_> = OTHERS.iter().flat_map(|(names, ..)| *names).collect();
        let known = |name: &str| {
            TABLE
                .all()
                .any(|it| it.name == name || it.subcommand(name.as_bytes()).is_some())
        };
        assert!(names.iter().all(|name| known(name)));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
