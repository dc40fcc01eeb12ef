//! The latest denied commands, for `ACL LOG`.

use std::collections::VecDeque;

/// Default number of entries.
const ENTRIES_MAX: usize = 128;
/// Cases that are alike count as one for so long.
const GROUPING_MS: u64 = 60_000;

/// Why something was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The command.
    Command,
    /// A key of it.
    Key,
    /// A channel of it.
    Channel,
    /// The password was wrong.
    Auth,
}

impl Reason {
    /// The name in replies.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
            Reason::Auth => "auth",
        }
    }
}

/// Within what something was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// The command stood alone.
    TopLevel,
    /// In a transaction.
    Multi,
    /// In a script.
    Lua,
}

impl Context {
    /// The name in replies.
    pub fn name(self) -> &'static str {
        match self {
            Context::TopLevel => "toplevel",
            Context::Multi => "multi",
            Context::Lua => "lua",
        }
    }
}

/// A case, or several alike.
#[derive(Clone, Debug)]
pub struct Entry {
    /// How many.
    pub count: u64,
    /// Why.
    pub reason: Reason,
    /// Within what.
    pub context: Context,
    /// The command, key, or channel; of a wrong password the command that it came with.
    pub object: Vec<u8>,
    /// Who.
    pub user: Vec<u8>,
    /// The client, as in `CLIENT LIST`.
    pub client: String,
    /// Its number, of all cases since the start.
    pub id: u64,
    /// When the first was, in milliseconds since 1970.
    pub created_ms: u64,
    /// When the last was.
    pub updated_ms: u64,
}

/// The latest cases.
#[derive(Debug)]
pub struct Log {
    /// The latest first.
    entries: VecDeque<Entry>,
    next_id: u64,
    /// Largest number of entries.
    most: usize,
    /// Number of denials for each reason.
    denied: [u64; 4],
}

impl Default for Log {
    fn default() -> Log {
        Log {
            entries: VecDeque::new(),
            next_id: 0,
            most: ENTRIES_MAX,
            denied: [0; 4],
        }
    }
}

impl Log {
    /// Notes a case; its count and number are found here.
    pub fn add(&mut self, mut entry: Entry) {
        self.denied[entry.reason as usize] += 1;
        let alike = |known: &Entry| {
            known.reason == entry.reason
                && known.context == entry.context
                && known.object == entry.object
                && known.user == entry.user
                && entry.updated_ms.saturating_sub(known.updated_ms) <= GROUPING_MS
        };
        if let Some(at) = self.entries.iter().position(alike)
            && let Some(mut known) = self.entries.remove(at)
        {
            known.count += 1;
            known.updated_ms = entry.updated_ms;
            known.client = entry.client;
            self.entries.push_front(known);
            return;
        }
        entry.count = 1;
        entry.id = self.next_id;
        self.next_id += 1;
        self.entries.push_front(entry);
        self.entries.truncate(self.most);
    }

    /// Changes how many are kept, and forgets those that are too many.
    pub fn keep(&mut self, most: usize) {
        self.most = most;
        self.entries.truncate(most);
    }

    /// The latest cases, at most `count`.
    pub fn latest(&self, count: usize) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter().take(count)
    }

    /// Returns the number of denials for a reason since the start.
    pub fn denied(&self, reason: Reason) -> u64 {
        self.denied[reason as usize]
    }

    /// Forgets all cases.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}
