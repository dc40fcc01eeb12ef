//! What commands do with the keys and channels that they name, as permissions go by it.
//!
//! A command *reads* a key if its answer tells something of the value, and *writes* it if it
//! changes it. Commands that only tell whether there is a key, or how large it is, do neither.

use crate::catalog::{Flags, Group, Spec};
use crate::resp::request::is;

/// What is done with a key: bits for reading and writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyAccess(u8);

impl KeyAccess {
    /// Neither.
    pub const NONE: KeyAccess = KeyAccess(0);
    /// The value is read.
    pub const READ: KeyAccess = KeyAccess(1);
    /// The value is changed.
    pub const WRITE: KeyAccess = KeyAccess(2);
    /// Both.
    pub const BOTH: KeyAccess = KeyAccess(3);

    /// True if all of `other` is in it.
    pub fn has(self, other: KeyAccess) -> bool {
        self.0 & other.0 == other.0
    }

    /// What is in either.
    pub fn and(self, other: KeyAccess) -> KeyAccess {
        KeyAccess(self.0 | other.0)
    }
}

/// Commands that tell nothing of the value but its type or size.
const NEITHER: &[&str] = &[
    "hstrlen",
    "sismember",
    "scard",
    "strlen",
    "type",
    "hlen",
    "object|freq",
    "object|idletime",
    "object|encoding",
    "object|refcount",
    "memory|usage",
    "exists",
    "llen",
    "touch",
    "zcard",
    "hexists",
    "watch",
];

/// Commands that change a value and tell nothing of it.
const WRITES_ONLY: &[&str] = &[
    "restore",
    "lpush",
    "zadd",
    "pexpireat",
    "expireat",
    "expire",
    "pexpire",
    "zrem",
    "hsetnx",
    "hset",
    "hmset",
    "ltrim",
    "setex",
    "psetex",
    "sadd",
    "lrem",
    "linsert",
    "persist",
    "unlink",
    "del",
    "append",
    "zremrangebylex",
    "zremrangebyrank",
    "zremrangebyscore",
    "lset",
    "rpushx",
    "lpushx",
    "rpush",
    "setnx",
    "mset",
    "msetnx",
    "srem",
    "hdel",
    "setrange",
];

/// Commands that do one thing with their first key and another with all others.
const UNLIKE: &[(&str, KeyAccess, KeyAccess)] = &[
    ("copy", KeyAccess::READ, KeyAccess::WRITE),
    ("sort", KeyAccess::READ, KeyAccess::WRITE),
    ("blmove", KeyAccess::BOTH, KeyAccess::WRITE),
    ("lmove", KeyAccess::BOTH, KeyAccess::WRITE),
    ("rpoplpush", KeyAccess::BOTH, KeyAccess::WRITE),
    ("brpoplpush", KeyAccess::BOTH, KeyAccess::WRITE),
    ("smove", KeyAccess::BOTH, KeyAccess::WRITE),
    ("rename", KeyAccess::BOTH, KeyAccess::WRITE),
    ("renamenx", KeyAccess::BOTH, KeyAccess::WRITE),
    ("zinterstore", KeyAccess::WRITE, KeyAccess::READ),
    ("zunionstore", KeyAccess::WRITE, KeyAccess::READ),
    ("zdiffstore", KeyAccess::WRITE, KeyAccess::READ),
    ("zrangestore", KeyAccess::WRITE, KeyAccess::READ),
    ("sinterstore", KeyAccess::WRITE, KeyAccess::READ),
    ("sunionstore", KeyAccess::WRITE, KeyAccess::READ),
    ("sdiffstore", KeyAccess::WRITE, KeyAccess::READ),
    ("bitop", KeyAccess::WRITE, KeyAccess::READ),
];

/// What a command, by its whole name, does with its first key and with the others.
pub fn of_keys(name: &str, command: &Spec, args: &[&[u8]]) -> (KeyAccess, KeyAccess) {
    let same = |access| (access, access);
    if NEITHER.contains(&name) {
        return same(KeyAccess::NONE);
    }
    if WRITES_ONLY.contains(&name) {
        return same(KeyAccess::WRITE);
    }
    if let Some(&(_, first, rest)) = UNLIKE.iter().find(|unlike| unlike.0 == name) {
        return (first, rest);
    }
    let rest = args.get(3..).unwrap_or_default();
    match name {
        "set" if !rest.iter().any(|word| is(word, "GET")) => same(KeyAccess::WRITE),
        "bitfield"
            if !args
                .iter()
                .any(|word| is(word, "SET") || is(word, "INCRBY")) =>
        {
            same(KeyAccess::READ)
        }
        _ if command.flags.has(Flags::READONLY) => same(KeyAccess::READ),
        _ => same(KeyAccess::BOTH),
    }
}

/// What a command does with all keys that begin with a prefix, of which it names none: an empty
/// one if it may come upon any key.
pub fn of_prefix<'a>(command: &Spec, args: &[&'a [u8]]) -> Option<(&'a [u8], KeyAccess)> {
    if command.group != Group::Ordered {
        return None;
    }
    let access = if command.flags.has(Flags::WRITE) {
        KeyAccess::BOTH
    } else {
        KeyAccess::READ
    };
    let prefix = match command.name {
        "kprefix" | "kprefixdel" => args.get(1).copied(),
        _ => None,
    };
    Some((prefix.unwrap_or_default(), access))
}

/// Which arguments of a command are channels, and whether they are patterns of channels.
pub fn channels(name: &str, arguments: usize) -> Option<(std::ops::Range<usize>, bool)> {
    match name {
        "publish" | "spublish" => Some((1..2, false)),
        "subscribe" | "ssubscribe" => Some((1..arguments, false)),
        "psubscribe" => Some((1..arguments, true)),
        _ => None,
    }
}
