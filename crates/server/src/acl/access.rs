//! The uses of keys and channels by commands, on which permissions are based.
//!
//! A command *reads* a key if its reply depends on the value, and *writes* the key if it changes
//! the value. A command that only reports if a key exists, or how large it is, does neither.

use crate::catalog::{CommandGroup, Flags, Spec, key_uses};

/// The access to a key, with one bit for reading and one for writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyAccess(u8);

impl KeyAccess {
    /// No access.
    pub const NONE: KeyAccess = KeyAccess(0);
    /// Access that reads the value.
    pub const READ: KeyAccess = KeyAccess(1);
    /// Access that changes the value.
    pub const WRITE: KeyAccess = KeyAccess(2);
    /// Access that reads and changes the value.
    pub const BOTH: KeyAccess = KeyAccess(3);

    /// Returns true if all of `other` is in it.
    pub fn has(self, other: KeyAccess) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the union of both.
    pub fn and(self, other: KeyAccess) -> KeyAccess {
        KeyAccess(self.0 | other.0)
    }
}

/// Returns the access of a command to its first key and to the others.
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

/// Returns the access of a command to all keys that begin with a prefix, if it uses keys that are
/// not among its arguments. The prefix is empty if it may use any key.
pub fn of_prefix<'a>(command: &Spec, args: &[&'a [u8]]) -> Option<(&'a [u8], KeyAccess)> {
    if command.group != CommandGroup::Ordered {
        return None;
    }
    let access = if command.flags.has(Flags::WRITE) {
        KeyAccess::BOTH
    } else {
        KeyAccess::READ
    };
    // A range of keys has no prefix in general, so it needs the right to all keys.
    let prefix = match command.name {
        "kprefix" | "kprefixdel" => args.get(1).copied(),
        _ => None,
    };
    Some((prefix.unwrap_or_default(), access))
}

/// Returns the arguments of a command that are channels, and true if they are patterns of channels.
pub fn channels(name: &str, arguments: usize) -> Option<(std::ops::Range<usize>, bool)> {
    match name {
        "publish" | "spublish" => Some((1..2, false)),
        "subscribe" | "ssubscribe" => Some((1..arguments, false)),
        "psubscribe" => Some((1..arguments, true)),
        // As in Redis, unsubscribing needs no right.
        _ => None,
    }
}
