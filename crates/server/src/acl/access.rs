//! What commands do with the keys and channels that they name, as permissions go by it.
//!
//! A command *reads* a key if its answer tells something of the value, and *writes* it if it
//! changes it. Commands that only tell whether there is a key, or how large it is, do neither.

use crate::catalog::{Flags, Group, Spec, key_uses};

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

/// Returns what a command does with its first key and with the others.
pub fn of_keys(command: &Spec, args: &[&[u8]]) -> (KeyAccess, KeyAccess) {
    let of = |number| of_uses(key_uses::of_call(command, args, number));
    (of(0), of(1))
}

fn of_uses(uses: &[&str]) -> KeyAccess {
    let access = |&word: &&str| match word {
        "access" => KeyAccess::READ,
        "insert" | "update" | "delete" => KeyAccess::WRITE,
        _ => KeyAccess::NONE,
    };
    uses.iter()
        .map(access)
        .fold(KeyAccess::NONE, KeyAccess::and)
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
