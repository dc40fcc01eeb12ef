//! What a command has done, for those who want to know: the log, watchers, subscribers of
//! keyspace events, blocked clients.

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
    /// `x`
    Expired,
    /// `e`
    Evicted,
    /// `n`: a key was created.
    New,
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
}

/// A command as it is written to the log: its words.
pub type Words = Vec<Vec<u8>>;

/// The effects of one command, collected while it runs.
#[derive(Debug, Default)]
pub struct Effects {
    /// How many changes were made to the keyspace; a command that made none is not logged.
    pub changes: u64,
    /// What is logged before the command itself: deletions of keys whose time was over, each with
    /// its database.
    pub before: Vec<(usize, Words)>,
    /// What is logged in place of the command; `None`: the command as it was sent.
    pub instead: Option<Vec<Words>>,
    /// What happened to which keys. Only collected if somebody observes.
    pub events: Vec<Event>,
    /// Events that come after all others: deletions of objects that became empty.
    pub last_events: Vec<Event>,
    /// Whether somebody observes, so that events are to be collected.
    pub observed: bool,
}

impl Effects {
    /// Makes ready for the next command.
    pub fn clear(&mut self) {
        self.changes = 0;
        self.before.clear();
        self.instead = None;
        self.events.clear();
        self.last_events.clear();
    }

    /// Has the log say `words` in place of the command as it was sent. May be called several
    /// times for several commands.
    pub fn log_instead<W: AsRef<[u8]>>(&mut self, words: &[W]) {
        let words = words.iter().map(|word| word.as_ref().to_vec()).collect();
        self.instead.get_or_insert_default().push(words);
    }

    /// Has nothing be logged, although something was changed.
    pub fn log_nothing(&mut self) {
        self.instead.get_or_insert_default();
    }
}
