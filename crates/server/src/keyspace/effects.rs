//! The effects of a command, for the log, watchers, subscribers of keyspace events and blocked
//! clients.

use super::draft::Draft;
use crate::resp::Words;
use std::time::Duration;

/// The classes of keyspace events, as `notify-keyspace-events` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `g`: DEL, EXPIRE, RENAME and the like.
    Generic,
    /// `$`
    String,
    /// `l`
    List,
    /// `s`
    Set,
    /// `h`
    Hash,
    /// `z`
    SortedSet,
    /// `t`
    Stream,
    /// `x`
    Expired,
    /// `e`
    Evicted,
    /// `n`: a key was created.
    New,
    /// No event: only clients that watch or cache the key are notified.
    Unnamed,
}

/// Something that happened to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceEvent {
    /// The class of the event.
    pub class: Class,
    /// Its name, such as `lpush`.
    pub name: &'static str,
    /// The number of the database.
    pub database: usize,
    /// The key.
    pub key: Vec<u8>,
    /// The number of the client that sent the command; 0: the server itself.
    pub origin: u64,
    /// True if the value has changed for clients that watch or cache the key.
    pub is_change: bool,
}

/// The effects of one command, collected while it runs.
#[derive(Debug, Default)]
pub struct Effects {
    /// Number of changes that the command has made to the keyspace. A command that made none is not
    /// logged.
    pub changes: u64,
    /// True if there is a log.
    pub logging: bool,
    /// The entries to log for this command and those that were executed with it, as one unit.
    pub logged: Vec<(usize, Words)>,
    /// True if an entry of `logged` is the work of a command, and not only the deletion of expired
    /// keys. A client may learn that such a key is gone before the log has it, because the key is
    /// gone after a restart, too.
    pub is_work: bool,
    /// The entries logged before the command itself: deletions of expired keys, each with its
    /// database.
    pub before: Vec<(usize, Words)>,
    /// The commands logged in place of the command; `None`: the command as it was sent.
    pub instead: Option<Vec<Words>>,
    /// The events of keys. Only collected if there is an observer.
    pub events: Vec<KeyspaceEvent>,
    /// Number of events that tracking clients were notified of.
    pub notified: usize,
    /// The longest time that deleting an expired key took.
    pub longest_expiry: Duration,
    /// Events that come after all others: deletions of objects that became empty.
    pub last_events: Vec<KeyspaceEvent>,
    /// True if there is an observer, so that events must be collected.
    pub observed: bool,
    /// The number of the client that sent the command; 0: the server itself.
    pub origin: u64,
    /// The changes to keys that other servers change as well.
    pub draft: Draft,
    /// True if such keys are changed one by one, without a draft.
    pub key_by_key: bool,
}

impl Effects {
    /// Makes ready for the next command.
    pub fn clear(&mut self) {
        // All fields are named, so that a new field cannot be forgotten and leak into the next
        // command.
        let Effects {
            changes,
            logged,
            is_work,
            before,
            instead,
            events,
            notified,
            longest_expiry,
            last_events,
            draft,
            key_by_key,
            // The executor of a command sets these before the command runs.
            logging: _,
            observed: _,
            origin: _,
        } = self;
        *changes = 0;
        logged.clear();
        *is_work = false;
        before.clear();
        *instead = None;
        events.clear();
        *notified = 0;
        *longest_expiry = Duration::ZERO;
        last_events.clear();
        draft.clear();
        *key_by_key = false;
    }

    /// Ends one command: appends its changes to the entries to log, `args` as they were sent unless
    /// the command chose others. Returns the number of changes that it has made.
    pub fn settle(&mut self, database: usize, args: &[&[u8]]) -> u64 {
        let changes = std::mem::take(&mut self.changes);
        let instead = self.instead.take();
        if self.logging {
            self.is_work |= changes > 0;
            // Expired keys are gone even if the command itself has changed nothing.
            self.logged.append(&mut self.before);
            match instead {
                _ if changes == 0 => {}
                Some(commands) => {
                    let commands = commands.into_iter().map(|words| (database, words));
                    self.logged.extend(commands);
                }
                None => {
                    let words = args.iter().map(|word| word.to_vec()).collect();
                    self.logged.push((database, words));
                }
            }
        }
        self.before.clear();
        self.events.append(&mut self.last_events);
        changes
    }

    /// Logs `words` in place of the command as it was sent. May be called several times, once for
    /// each command to log.
    pub fn log_instead<W: AsRef<[u8]>>(&mut self, words: &[W]) {
        debug_assert!(!words.is_empty());
        let words = words.iter().map(|word| word.as_ref().to_vec()).collect();
        self.instead.get_or_insert_default().push(words);
    }
}
