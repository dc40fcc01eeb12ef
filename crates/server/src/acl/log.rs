//! The latest denied commands, for `ACL LOG`.

use std::collections::VecDeque;

/// The default maximum number of entries.
const ENTRIES_MAX: usize = 128;
/// The time within which denials that are alike count as one entry, in milliseconds.
const GROUPING_MS: u64 = 60_000;

/// The reason for a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenialReason {
    /// The command is not allowed.
    Command,
    /// A key of the command is not allowed.
    Key,
    /// A channel of the command is not allowed.
    Channel,
    /// The password was wrong.
    Auth,
}

impl DenialReason {
    /// Returns the name in replies.
    pub fn name(self) -> &'static str {
        match self {
            DenialReason::Command => "command",
            DenialReason::Key => "key",
            DenialReason::Channel => "channel",
            DenialReason::Auth => "auth",
        }
    }
}

/// The context of a denied command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenialContext {
    /// A command on its own.
    TopLevel,
    /// A command of a transaction.
    Multi,
    /// A command that a script called.
    Lua,
}

impl DenialContext {
    /// Returns the name in replies.
    pub fn name(self) -> &'static str {
        match self {
            DenialContext::TopLevel => "toplevel",
            DenialContext::Multi => "multi",
            DenialContext::Lua => "lua",
        }
    }
}

/// An entry: a denial, or several that are alike.
#[derive(Clone, Debug)]
pub struct AclLogEntry {
    /// The number of denials.
    pub count: u64,
    /// The reason.
    pub reason: DenialReason,
    /// The context.
    pub context: DenialContext,
    /// The command, key or channel. For a wrong password, the command that sent it.
    pub object: Vec<u8>,
    /// The name of the user.
    pub user: Vec<u8>,
    /// The client, in the form of `CLIENT LIST`.
    pub client: String,
    /// The entry's number, counted since the start.
    pub id: u64,
    /// The time of the first denial, in milliseconds since 1970.
    pub created_ms: u64,
    /// The time of the last denial, in milliseconds since 1970.
    pub updated_ms: u64,
}

/// The latest denials.
#[derive(Debug)]
pub struct AclLog {
    /// The entries, the latest first.
    entries: VecDeque<AclLogEntry>,
    next_id: u64,
    /// The maximum number of entries.
    most: usize,
    /// The number of denials for each reason.
    denied: [u64; 4],
}

impl Default for AclLog {
    fn default() -> AclLog {
        AclLog {
            entries: VecDeque::new(),
            next_id: 0,
            most: ENTRIES_MAX,
            denied: [0; 4],
        }
    }
}

impl AclLog {
    /// Records a denial. Its count and number are set here.
    pub fn add(&mut self, mut entry: AclLogEntry) {
        debug_assert!(
            self.entries.len() <= self.most,
            "the oldest entries are forgotten"
        );
        // The sums count each denial, also one that joins an entry below.
        self.denied[entry.reason as usize] += 1;
        let alike = |known: &AclLogEntry| {
            known.reason == entry.reason
                && known.context == entry.context
                && known.object == entry.object
                && known.user == entry.user
                && entry.updated_ms.saturating_sub(known.updated_ms) <= GROUPING_MS
        };
        if let Some(at) = self.entries.iter().position(alike)
            && let Some(mut known) = self.entries.remove(at)
        {
            // As in Redis, the entry shows the client that was denied last, and becomes the latest.
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

    /// Changes the maximum number of entries, and forgets the oldest beyond it.
    pub fn keep(&mut self, most: usize) {
        self.most = most;
        // The latest entries are first, so the oldest ones are cut off.
        self.entries.truncate(most);
    }

    /// Returns the latest entries, at most `count`.
    pub fn latest(&self, count: usize) -> impl ExactSizeIterator<Item = &AclLogEntry> {
        self.entries.iter().take(count)
    }

    /// Returns the number of denials for a reason since the start.
    pub fn denied(&self, reason: DenialReason) -> u64 {
        self.denied[reason as usize]
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}
