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
    /// No event: only those who watch or cache the key are told.
    Unnamed,
}

/// Something that happened to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What kind of event.
    pub class: Class,
    /// Its name, such as `lpush`.
    pub name: &'static str,
    /// The number of the database.
    pub database: usize,
    /// The key.
    pub key: Vec<u8>,
    /// The number of the client whose command it was; 0: the server itself.
    pub origin: u64,
    /// Whether the value is another one for those who watch the key, or cache it.
    pub is_change: bool,
}

/// The effects of one command, collected while it runs.
#[derive(Debug, Default)]
pub struct Effects {
    /// How many changes the command has made to the keyspace; one that made none is not logged.
    pub changes: u64,
    /// Whether there is a log.
    pub logging: bool,
    /// What is to be logged of this command and those that were executed with it, as one whole.
    pub logged: Vec<(usize, Words)>,
    /// True if something in `logged` is the work of a command, and not only the deletion of keys
    /// whose time was over. A client may hear that such a key is gone before the log says so, as
    /// it is gone after a restart, too.
    pub is_work: bool,
    /// What is logged before the command itself: deletions of keys whose time was over, each with
    /// its database.
    pub before: Vec<(usize, Words)>,
    /// What is logged in place of the command; `None`: the command as it was sent.
    pub instead: Option<Vec<Words>>,
    /// What happened to which keys. Only collected if somebody observes.
    pub events: Vec<Event>,
    /// Number of changes that tracking clients were told of.
    pub told: usize,
    /// How long it took at most to delete a key whose time was over.
    pub longest_expiry: Duration,
    /// Events that come after all others: deletions of objects that became empty.
    pub last_events: Vec<Event>,
    /// Whether somebody observes, so that events are to be collected.
    pub observed: bool,
    /// The number of the client whose command it is; 0: the server itself.
    pub origin: u64,
    /// What becomes of keys that other servers change as well.
    pub draft: Draft,
    /// Whether such keys are changed one by one, without a draft.
    pub key_by_key: bool,
}

impl Effects {
    /// Makes ready for the next command.
    pub fn clear(&mut self) {
        // All fields are named, so that none is forgotten that the next command would find.
        let Effects {
            changes,
            logged,
            is_work,
            before,
            instead,
            events,
            told,
            longest_expiry,
            last_events,
            draft,
            key_by_key,
            // The executor of a command sets these before.
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
        *told = 0;
        *longest_expiry = Duration::ZERO;
        last_events.clear();
        draft.clear();
        *key_by_key = false;
    }

    /// Ends one command: what it has changed goes to the end of what is to be logged, `args` as
    /// they were sent unless the command says otherwise. Answers how many changes it has made.
    pub fn settle(&mut self, database: usize, args: &[&[u8]]) -> u64 {
        let changes = std::mem::take(&mut self.changes);
        let instead = self.instead.take();
        if self.logging {
            self.is_work |= changes > 0;
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

    /// Has the log say `words` in place of the command as it was sent. May be called several
    /// times for several commands.
    pub fn log_instead<W: AsRef<[u8]>>(&mut self, words: &[W]) {
        let words = words.iter().map(|word| word.as_ref().to_vec()).collect();
        self.instead.get_or_insert_default().push(words);
    }
}
