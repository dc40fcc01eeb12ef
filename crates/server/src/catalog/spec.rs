//! The description of a command: its row of the table without its implementation.

use crate::error::CommandError;
use smallvec::SmallVec;

/// The properties of a command, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u64);

impl Flags {
    // Flags that clients are shown, by these names.

    /// A command that changes keys, and is logged.
    pub const WRITE: Flags = Flags(1);
    /// A command that only reads keys.
    pub const READONLY: Flags = Flags(1 << 1);
    /// A command that may take memory; refused when there is none.
    pub const DENYOOM: Flags = Flags(1 << 2);
    /// A command for administrators. Monitors do not see it.
    pub const ADMIN: Flags = Flags(1 << 3);
    /// A command that publishes or subscribes.
    pub const PUBSUB: Flags = Flags(1 << 4);
    /// A command that scripts may not call.
    pub const NOSCRIPT: Flags = Flags(1 << 5);
    /// A command that may block.
    pub const BLOCKING: Flags = Flags(1 << 6);
    /// A command that is allowed while data are loaded.
    pub const LOADING: Flags = Flags(1 << 7);
    /// A command that replicas which have lost their primary may execute. There are no replicas, so
    /// the flag is only shown to clients.
    pub const STALE: Flags = Flags(1 << 8);
    /// A command that is allowed before authentication.
    pub const NO_AUTH: Flags = Flags(1 << 9);
    /// A command that is not allowed while new data are loaded next to those being served. This
    /// never happens here.
    pub const NO_ASYNC_LOADING: Flags = Flags(1 << 10);
    /// A command that takes constant or logarithmic time.
    pub const FAST: Flags = Flags(1 << 11);
    /// A command that is not allowed within a transaction.
    pub const NO_MULTI: Flags = Flags(1 << 12);
    /// A command that is allowed while a script runs for long.
    pub const ALLOW_BUSY: Flags = Flags(1 << 13);

    // Flags about the keys and the memory that a command uses.

    /// A command that needs the keyspace for itself, independent of its keys.
    pub const EXCLUSIVE: Flags = Flags(1 << 14);
    /// A command on the connection or the server. It holds no phase of the keyspace, so that it may
    /// enter one by itself.
    pub const NO_PHASE: Flags = Flags(1 << 15);
    /// A command that asks about keys without using them.
    pub const LOOKS_ONLY: Flags = Flags(1 << 16);
    /// A command that reads keys in order to use them. It uses them even for a client whose
    /// commands do not count as uses.
    pub const ALWAYS_USES: Flags = Flags(1 << 17);
    /// A command that copies values as they are, which leaves them in their tiers.
    pub const PASSES_ON: Flags = Flags(1 << 18);
    /// A command that never reads the values of its keys, or replaces them as a whole.
    pub const KEYS_ONLY: Flags = Flags(1 << 19);
    /// A command that is like one with [`KEYS_ONLY`](Flags::KEYS_ONLY) unless an option is `GET`.
    pub const KEYS_ONLY_WITHOUT_GET: Flags = Flags(1 << 20);
    /// A command that may change its keys or notify other clients though it is not a write. It is
    /// not allowed for read-only scripts, nor while writes are paused.
    pub const MAY_CHANGE: Flags = Flags(1 << 21);
    /// A command that removes all keys of a database or of all databases.
    pub const EMPTIES: Flags = Flags(1 << 22);
    /// A command that takes a little memory, for a name or a time, which Redis never refuses. It is
    /// refused far beyond the limit only.
    pub const SLOWLY_GROWS: Flags = Flags(1 << 23);
    /// A command that stores its arguments outside of the keyspace. It is refused when there is no
    /// memory, though Redis accepts it.
    pub const STORES_ASIDE: Flags = Flags(1 << 24);
    /// A command that is not possible with keys that other servers change, too.
    pub const UNSHARED: Flags = Flags(1 << 25);
    /// A command that changes each of its keys by itself if other servers change them, too.
    pub const KEY_BY_KEY: Flags = Flags(1 << 26);

    // Flags about the client.

    /// A command that is executed at once while a transaction is being queued.
    pub const IN_MULTI: Flags = Flags(1 << 27);
    /// A command that executes those of a transaction, which are recorded and shown to monitors one
    /// by one.
    pub const RUNS_QUEUED: Flags = Flags(1 << 28);
    /// A command that runs a script.
    pub const RUNS_SCRIPT: Flags = Flags(1 << 29);
    /// A command that is allowed for a subscriber that speaks RESP2.
    pub const SUBSCRIBER: Flags = Flags(1 << 30);
    /// A command whose reply is sent even if the client wants no replies.
    pub const CONFIRMS: Flags = Flags(1 << 31);
    /// A blocking command that is executed again as soon as its key is changed, even if the key is
    /// gone or of another type, to reply with an error.
    pub const WAKES_ALWAYS: Flags = Flags(1 << 32);
    /// A command that is not in the slow log.
    pub const SECRET: Flags = Flags(1 << 33);
    /// A command that is refused unless the configuration allows it, to all clients or to those of
    /// the same machine.
    pub const PROTECTED: Flags = Flags(1 << 34);
    /// A command that Redis does not have.
    pub const OWN: Flags = Flags(1 << 35);

    /// Returns true if all flags of `other` are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The arguments of a command that are keys.
#[derive(Clone, Copy, Debug)]
pub enum CommandKeySpec {
    /// No arguments.
    None,
    /// Every `step`-th argument from position `first` to `last`. A negative `last` counts from the
    /// end.
    Range {
        /// The first key's position.
        first: usize,
        /// The last key's position; -1 is the last argument.
        last: i32,
        /// The distance from one key to the next.
        step: usize,
    },
    /// The keys after the argument at `count`, which is their number. There may be another key at
    /// `target`, before it.
    Counted {
        /// The position of the number of keys.
        count: usize,
        /// The position of a further key.
        target: Option<usize>,
    },
    /// One key at `key`, or all arguments after a keyword.
    OneOrBehind {
        /// The position of the one key.
        key: usize,
        /// The keyword before the other keys.
        keyword: &'static str,
        /// The position from which the keyword is searched for; if negative, from the end and
        /// backwards.
        from: i32,
        /// A function that finds either, and returns positions.
        find: fn(&[&[u8]]) -> Vec<usize>,
    },
    /// The keys at the positions that a function returns.
    Custom(fn(&[&[u8]]) -> Vec<usize>),
}

impl CommandKeySpec {
    /// Returns the number of keys of a command with a plan that is sent with `words` words, and the
    /// step from one key to the next. The first key is the first argument.
    #[inline]
    pub fn count(&self, words: usize) -> (usize, usize) {
        match *self {
            CommandKeySpec::Range { last, step, .. } => {
                // A plan's keys begin at the first argument, so the last position is also their
                // span.
                let last = if last < 0 {
                    words.saturating_sub(last.unsigned_abs() as usize)
                } else {
                    last as usize
                };
                // A division by a number unknown at compile time takes as long as all the rest.
                let keys = if step == 1 { last } else { last.div_ceil(step) };
                (keys, step)
            }
            _ => (1, 1),
        }
    }

    /// Returns the positions of keys in `args`, which begins with the command's name.
    pub fn positions(&self, args: &[&[u8]]) -> SmallVec<[usize; 4]> {
        match *self {
            CommandKeySpec::None => SmallVec::new(),
            // Most commands have one key.
            CommandKeySpec::Range { first, last, .. }
                if last == first as i32 && first < args.len() =>
            {
                let mut one = SmallVec::new();
                one.push(first);
                one
            }
            CommandKeySpec::Range { first, last, step } => {
                let end = if last < 0 {
                    (args.len() as i64 + i64::from(last)).max(0) as usize
                } else {
                    (last as usize).min(args.len().saturating_sub(1))
                };
                debug_assert!(first > 0, "the name of the command is no key");
                // With fewer arguments than `last` implies, the range is empty.
                (first..=end).step_by(step.max(1)).collect()
            }
            CommandKeySpec::Counted { count, target } => {
                let number = args
                    .get(count)
                    .and_then(|n| crate::number::parse_integer(n));
                let available = args.len().saturating_sub(count + 1);
                // The command itself refuses a wrong number later. Until then no position is out of
                // range.
                let number = (number.unwrap_or(0).max(0) as usize).min(available);
                let keys = count + 1..count + 1 + number;
                target.into_iter().chain(keys).collect()
            }
            CommandKeySpec::OneOrBehind { find, .. } | CommandKeySpec::Custom(find) => {
                find(args).into()
            }
        }
    }
}

/// The groups of commands, in the order of the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommandGroup {
    /// Strings and bits.
    String,
    /// Keys of any type.
    Generic,
    /// Ranges of keys, which Redis does not have.
    Ordered,
    /// Lists.
    List,
    /// Hashes.
    Hash,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Geospatial data.
    Geo,
    /// Estimates of the number of distinct elements.
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

impl CommandGroup {
    /// Returns the group's name in `COMMAND DOCS`.
    pub fn name(self) -> &'static str {
        match self {
            CommandGroup::String => "string",
            CommandGroup::Generic => "generic",
            CommandGroup::Ordered => "ordered",
            CommandGroup::List => "list",
            CommandGroup::Hash => "hash",
            CommandGroup::Set => "set",
            CommandGroup::SortedSet => "sorted-set",
            CommandGroup::Geo => "geo",
            CommandGroup::HyperLogLog => "hyperloglog",
            CommandGroup::Stream => "stream",
            CommandGroup::Transactions => "transactions",
            CommandGroup::PubSub => "pubsub",
            CommandGroup::Scripting => "scripting",
            CommandGroup::Connection => "connection",
            CommandGroup::Server => "server",
        }
    }
}

/// The description of a command.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The name in lower case; of a subcommand, without its container's name.
    pub name: &'static str,
    /// The number of arguments with the name (and the subcommand's). If negative, the smallest
    /// number.
    pub arity: i32,
    /// The command's properties.
    pub flags: Flags,
    /// The arguments that are keys.
    pub keys: CommandKeySpec,
    /// The group that it belongs to.
    pub group: CommandGroup,
    /// The first version of Redis that has it.
    pub since: &'static str,
    /// One sentence that describes it for people.
    pub summary: &'static str,
    /// The time it takes, in O notation.
    pub complexity: &'static str,
    /// The difference from Redis and its reason; empty if there is none.
    pub deviation: &'static str,
    /// Categories of access control in addition to those derived from flags and group.
    pub categories: &'static [&'static str],
}

impl Spec {
    /// Returns true if the command is possible with keys that other servers change, too: a pool
    /// holds strings.
    pub fn is_for_pools(&self) -> bool {
        let is_for_strings = !matches!(
            self.group,
            CommandGroup::List
                | CommandGroup::Hash
                | CommandGroup::Set
                | CommandGroup::SortedSet
                | CommandGroup::Geo
                | CommandGroup::Stream
        );
        is_for_strings && !self.flags.has(Flags::UNSHARED)
    }

    /// Refuses the command if it is not possible with the server's keys and these are shared.
    ///
    /// # Errors
    /// An error with the command's name and the placement.
    #[inline]
    pub fn admit_on(&self, is_shared: bool) -> Result<(), CommandError> {
        if !is_shared || self.is_for_pools() {
            return Ok(());
        }
        Err(CommandError::owned(format!(
            "ERR '{}' is not available with the placement pool: {}",
            self.name,
            match self.flags.has(Flags::UNSHARED) {
                true => "it needs keys that no other server changes",
                false => "it holds strings only",
            }
        )))
    }

    /// Returns true if `arguments`, with the name, is a number of arguments that the command
    /// allows.
    pub fn accepts(&self, arguments: usize) -> bool {
        if self.arity >= 0 {
            arguments == self.arity as usize
        } else {
            arguments >= self.arity.unsigned_abs() as usize
        }
    }
}
