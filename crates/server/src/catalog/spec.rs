//! The description of a command: its row of the table without its implementation.

use crate::error::CommandError;
use smallvec::SmallVec;

/// What a command does, in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// Changes keys, and is logged.
    pub const WRITE: Flags = Flags(1);
    /// Only reads keys.
    pub const READONLY: Flags = Flags(1 << 1);
    /// May take memory; refused when there is none.
    pub const DENYOOM: Flags = Flags(1 << 2);
    /// For administrators.
    pub const ADMIN: Flags = Flags(1 << 3);
    /// Publishes or subscribes.
    pub const PUBSUB: Flags = Flags(1 << 4);
    /// May not be called by scripts.
    pub const NOSCRIPT: Flags = Flags(1 << 5);
    /// May wait.
    pub const BLOCKING: Flags = Flags(1 << 6);
    /// Allowed while data are loaded.
    pub const LOADING: Flags = Flags(1 << 7);
    /// Allowed before the password.
    pub const NO_AUTH: Flags = Flags(1 << 8);
    /// Takes constant or logarithmic time.
    pub const FAST: Flags = Flags(1 << 9);
    /// Not allowed within a transaction.
    pub const NO_MULTI: Flags = Flags(1 << 10);
    /// Needs the keyspace for itself, whatever its keys.
    pub const EXCLUSIVE: Flags = Flags(1 << 11);
    /// Executed at once while a transaction is being queued.
    pub const IN_MULTI: Flags = Flags(1 << 12);
    /// Allowed for a subscriber that speaks RESP2.
    pub const SUBSCRIBER: Flags = Flags(1 << 13);
    /// Not shown to monitors and not in the slow log.
    pub const SECRET: Flags = Flags(1 << 14);
    /// Not in Redis.
    pub const OWN: Flags = Flags(1 << 15);
    /// Works on the connection or the server, and holds no phase of the keyspace, so that it may
    /// enter one by itself.
    pub const NO_PHASE: Flags = Flags(1 << 16);
    /// Asks about keys, and is no use of them.
    pub const LOOKS_ONLY: Flags = Flags(1 << 17);
    /// Passes values on as they are, which leaves them in their tiers.
    pub const PASSES_ON: Flags = Flags(1 << 20);

    /// May change its keys or tell others though it is no write: not for read-only scripts, nor
    /// while writes are paused.
    pub const MAY_CHANGE: Flags = Flags(1 << 22);

    /// Possible while a script runs for long.
    pub const ALLOW_BUSY: Flags = Flags(1 << 21);

    /// Refused unless the configuration opens it, to all or to clients of the same machine.
    pub const PROTECTED: Flags = Flags(1 << 23);

    /// Not possible with keys that other servers change as well.
    pub const UNSHARED: Flags = Flags(1 << 18);
    /// Changes each of its keys by itself where other servers change them as well.
    pub const KEY_BY_KEY: Flags = Flags(1 << 19);

    /// Allowed to replicas that have lost their primary. There are none, so that it is for clients
    /// to know.
    pub const STALE: Flags = Flags(1 << 24);
    /// Not allowed while data are loaded beside those that are served, which they never are.
    pub const NO_ASYNC_LOADING: Flags = Flags(1 << 25);

    /// True if all of `other` are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Which arguments of a command are keys.
#[derive(Clone, Copy, Debug)]
pub enum KeySpec {
    /// None.
    None,
    /// From position `first` to `last` (negative: from the end), each `step`.
    Range {
        /// The first key's position.
        first: usize,
        /// The last key's position; -1 is the last argument.
        last: i32,
        /// From one key to the next.
        step: usize,
    },
    /// The argument at `count` says how many keys follow it; before it there may be one at
    /// `target`.
    Counted {
        /// Where the number stands.
        count: usize,
        /// A key elsewhere.
        target: Option<usize>,
    },
    /// One at `key`, or all that follow a keyword.
    OneOrBehind {
        /// The position of the one.
        key: usize,
        /// What is before the others.
        keyword: &'static str,
        /// Where it is searched for: negative from the end, backwards.
        from: i32,
        /// Finds either, and answers positions.
        find: fn(&[&[u8]]) -> Vec<usize>,
    },
    /// Found by a function, which answers positions.
    Custom(fn(&[&[u8]]) -> Vec<usize>),
}

impl KeySpec {
    /// How many keys a command with a plan has if it is sent with so many words, and the step from
    /// one to the next. The first one is the first argument.
    #[inline]
    pub fn count(&self, words: usize) -> (usize, usize) {
        match *self {
            KeySpec::Range { last, step, .. } => {
                let last = if last < 0 {
                    words.saturating_sub(last.unsigned_abs() as usize)
                } else {
                    last as usize
                };
                // A division by a number that is not known before takes as long as all the rest.
                let keys = if step == 1 { last } else { last.div_ceil(step) };
                (keys, step)
            }
            _ => (1, 1),
        }
    }

    /// The positions of keys in `args`, whose first is the command's name.
    pub fn positions(&self, args: &[&[u8]]) -> SmallVec<[usize; 4]> {
        match *self {
            KeySpec::None => SmallVec::new(),
            // Most commands have one key.
            KeySpec::Range { first, last, .. } if last == first as i32 && first < args.len() => {
                let mut one = SmallVec::new();
                one.push(first);
                one
            }
            KeySpec::Range { first, last, step } => {
                let end = if last < 0 {
                    (args.len() as i64 + i64::from(last)).max(0) as usize
                } else {
                    (last as usize).min(args.len().saturating_sub(1))
                };
                (first..=end).step_by(step.max(1)).collect()
            }
            KeySpec::Counted { count, target } => {
                let number = args
                    .get(count)
                    .and_then(|n| crate::number::parse_integer(n));
                let available = args.len().saturating_sub(count + 1);
                let number = (number.unwrap_or(0).max(0) as usize).min(available);
                let keys = count + 1..count + 1 + number;
                target.into_iter().chain(keys).collect()
            }
            KeySpec::OneOrBehind { find, .. } | KeySpec::Custom(find) => find(args).into(),
        }
    }
}

/// The groups of commands, as the documentation orders them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Strings and bits.
    String,
    /// Keys of any type.
    Generic,
    /// Ranges of keys: what Redis has not.
    Ordered,
    /// Lists.
    List,
    /// Hashes.
    Hash,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Places on the earth.
    Geo,
    /// Numbers of different elements.
    HyperLogLog,
    /// Streams.
    Stream,
    /// Transactions.
    Transactions,
    /// Publishing and subscribing.
    PubSub,
    /// Lua.
    Scripting,
    /// The connection.
    Connection,
    /// The server.
    Server,
}

impl Group {
    /// The group's name in `COMMAND DOCS`.
    pub fn name(self) -> &'static str {
        match self {
            Group::String => "string",
            Group::Generic => "generic",
            Group::Ordered => "ordered",
            Group::List => "list",
            Group::Hash => "hash",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Geo => "geo",
            Group::HyperLogLog => "hyperloglog",
            Group::Stream => "stream",
            Group::Transactions => "transactions",
            Group::PubSub => "pubsub",
            Group::Scripting => "scripting",
            Group::Connection => "connection",
            Group::Server => "server",
        }
    }
}

/// The description of a command.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The name in lower case; of a subcommand, its own only.
    pub name: &'static str,
    /// The number of arguments with the name (and the subcommand's); if negative, the least.
    pub arity: i32,
    /// What it does.
    pub flags: Flags,
    /// Which arguments are keys.
    pub keys: KeySpec,
    /// Where it belongs.
    pub group: Group,
    /// The version of Redis that it is known since.
    pub since: &'static str,
    /// One sentence for people.
    pub summary: &'static str,
    /// How its time grows.
    pub complexity: &'static str,
    /// How it differs from Redis and why; empty if it does not.
    pub deviation: &'static str,
    /// Categories of access control beyond those that flags and group tell.
    pub categories: &'static [&'static str],
}

impl Spec {
    /// True if it is possible with keys that other servers change as well: a pool holds strings.
    pub fn is_for_pools(&self) -> bool {
        let is_for_strings = !matches!(
            self.group,
            Group::List | Group::Hash | Group::Set | Group::SortedSet | Group::Geo | Group::Stream
        );
        is_for_strings && !self.flags.has(Flags::UNSHARED)
    }

    /// Refuses it if it is not possible with the keys of the server, which others may share.
    ///
    /// # Errors
    /// An error that names it and the placement.
    pub fn admit_on(&self, is_shared: bool) -> Result<(), CommandError> {
        if !is_shared || self.is_for_pools() {
            return Ok(());
        }
        Err(CommandError::owned(format!(
            "ERR the placement pool cannot do '{}': {}",
            self.name,
            match self.flags.has(Flags::UNSHARED) {
                true => "it needs keys that no other server changes",
                false => "it holds strings only",
            }
        )))
    }

    /// True if `arguments`, with the name, are as many as there may be.
    pub fn accepts(&self, arguments: usize) -> bool {
        if self.arity >= 0 {
            arguments == self.arity as usize
        } else {
            arguments >= self.arity.unsigned_abs() as usize
        }
    }
}
