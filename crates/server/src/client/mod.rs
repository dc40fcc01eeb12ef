//! A client: the state that the server keeps for a connection between its commands.

mod described;
mod listed;
mod login;
mod share;
mod subscriptions;
mod tracking;

pub use described::{describe, flags};
pub use listed::ClientListFields;
pub use login::Login;
pub use share::{ClientShare, ENTRY_BYTES};
pub use subscriptions::{Subscriptions, Topic};
pub use tracking::TrackingOptions;

use crate::acl;
use crate::migration::Shipment;
use crate::resp::Words;
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The keys that a client watches, each with the number of its database.
pub type WatchedKeys = HashMap<(usize, Vec<u8>), WatchedKey>;

/// The state that a watched key had when the client began to watch it.
#[derive(Clone, Debug)]
pub struct WatchedKey {
    /// True if the key existed. Its disappearance since then is a change, also by expiry.
    pub was_there: bool,
    /// The entry that a pool had for the key. Other servers do not report their changes, so `EXEC`
    /// compares. `None` if the key was absent, and if no other server changes the keys.
    pub stored: Option<Vec<u8>>,
}

/// The state of a client that only its own thread knows.
#[derive(Debug)]
pub struct ClientSession {
    /// The state that all threads may read.
    pub shared: Arc<ClientShared>,
    /// The number of its database.
    pub database: usize,
    /// The commands of a transaction that is being queued.
    pub transaction: Option<Transaction>,
    /// The keys that the client watches.
    pub watched: WatchedKeys,
    /// Bytes that the server holds for its watched keys.
    pub watched_bytes: usize,
    /// Bytes of its name and of the texts that `CLIENT SETINFO` has set.
    pub named_bytes: usize,
    /// Bytes of the command that it waits in.
    pub waiting_bytes: usize,
    /// The bytes that its command lacked, which is therefore executed again after an eviction.
    pub lacks_room: Option<usize>,
    /// True if its commands come from a log, so that none may be refused for its memory.
    pub is_replaying: bool,
    /// True if it has logged in, or need not.
    pub authenticated: bool,
    /// Its user.
    pub login: Login,
    /// True if its connection must be closed once all replies are sent.
    pub closing: bool,
    /// The kinds of replies that it gets.
    pub replies: ReplyMode,
    /// True if the command that it waits in gets no reply (`CLIENT REPLY`).
    pub is_silent_wait: bool,
    /// Its subscriptions.
    pub subscriptions: Subscriptions,
    /// Its options for caching, if it caches keys.
    pub tracking: Option<Box<TrackingOptions>>,
    /// The log position after its last change. Replies are sent when the log is durable up to
    /// there.
    pub logged_up_to: u64,
    /// The state of the script that it runs.
    pub script: ScriptState,
    /// The keys that were sent to another server for its command, which is therefore executed
    /// again.
    pub shipment: Option<Box<Shipment>>,
}

/// A transaction that is being queued.
#[derive(Debug, Default)]
pub struct Transaction {
    /// The commands so far.
    pub commands: Vec<Words>,
    /// Bytes of memory of the commands.
    pub bytes: usize,
    /// True if a command was refused, so that none will be executed.
    pub refused: bool,
    /// True if there was no memory for its commands when it should be executed.
    pub without_memory: bool,
}

impl Transaction {
    /// Prevents the execution of all commands, so that they need not be kept.
    pub fn refuse(&mut self) {
        self.refused = true;
        // `clear` would keep the memory of the list, which counts as the client's.
        self.commands = Vec::new();
        self.bytes = 0;
    }
}

/// The state of a client's script.
#[derive(Debug, Default)]
pub struct ScriptState {
    /// True while a script executes commands.
    pub runs: bool,
    /// True if there was no memory for its writes when it began.
    pub lacks_memory: bool,
    /// The error with which its last command was refused.
    pub refused: Option<String>,
    /// The first time of day that it has asked for, since the epoch. Time stands still from then
    /// on.
    pub time: Option<Duration>,
}

/// The replies that a client gets (`CLIENT REPLY`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// A reply to each command.
    #[default]
    On,
    /// No replies.
    Off,
    /// Replies to all commands except the next one.
    SkipNext,
}

/// The state of a client that all threads know.
#[derive(Debug)]
pub struct ClientShared {
    /// Its number, which no other client ever gets.
    pub id: u64,
    /// Its address: `address:port`, or the path of a socket.
    pub peer: String,
    /// The server's address to which it has connected.
    pub local: String,
    /// The thread that serves it.
    thread: AtomicUsize,
    /// Time of its connection, by [`steady_ms`](crate::clock::steady_ms).
    pub connected_at_ms: u64,
    /// Time of its last command, by [`steady_ms`](crate::clock::steady_ms).
    pub active_at_ms: AtomicU64,
    /// Its name, as it has set it.
    pub name: Mutex<String>,
    /// The name of its user.
    pub user: Mutex<Vec<u8>>,
    /// True if a watched key was changed.
    pub watch_broken: AtomicBool,
    /// True if its connection must be closed at once.
    pub killed: AtomicBool,
    /// The number of its database.
    pub database: AtomicUsize,
    /// The other properties that `CLIENT LIST` shows.
    pub listed: ClientListFields,
}

impl ClientSession {
    /// Creates a client of which only the shared state is known.
    pub fn new(shared: Arc<ClientShared>, authenticated: bool) -> ClientSession {
        ClientSession {
            shared,
            database: 0,
            transaction: None,
            watched: WatchedKeys::new(),
            watched_bytes: 0,
            named_bytes: 0,
            waiting_bytes: 0,
            lacks_room: None,
            is_replaying: false,
            authenticated,
            login: Login::default(),
            closing: false,
            replies: ReplyMode::On,
            is_silent_wait: false,
            subscriptions: Subscriptions::default(),
            tracking: None,
            logged_up_to: 0,
            script: ScriptState::default(),
            shipment: None,
        }
    }

    /// Returns true if its commands need no checks except their own, so that they may be part of a
    /// batch.
    #[inline]
    pub fn is_plain(&self) -> bool {
        // Batches know none of these states: such commands are executed one by one.
        self.authenticated
            && self.transaction.is_none()
            && self.replies == ReplyMode::On
            && self.tracking.is_none()
            && !self.subscriptions.any()
            && !self.reads_without_use()
    }

    /// Returns true if its reads do not count as uses of keys.
    #[inline]
    pub fn reads_without_use(&self) -> bool {
        self.shared.listed.no_touch.load(Ordering::Relaxed)
    }

    /// Returns the bytes that the server keeps for it, without its input and output buffers.
    #[inline]
    pub fn remembered_bytes(&self) -> usize {
        debug_assert!(self.watched.is_empty() || self.watched_bytes > 0);
        debug_assert!(
            self.transaction
                .as_ref()
                .is_none_or(|it| it.commands.is_empty() == (it.bytes == 0)),
            "the bytes are those of the commands"
        );
        let transaction = self.transaction.as_ref().map_or(0, |it| it.bytes);
        let tracking = self.tracking.as_ref().map_or(0, |it| it.bytes());
        transaction
            + tracking
            + self.watched_bytes
            + self.named_bytes
            + self.waiting_bytes
            + self.subscriptions.bytes()
    }

    /// Publishes its listed properties after a command.
    pub fn show(&self, waiting: bool) {
        let queued = match &self.transaction {
            // 0 stands for no transaction.
            Some(transaction) => transaction.commands.len() + 1,
            None => 0,
        };
        let listed = &self.shared.listed;
        listed.queued.store(queued, Ordering::Relaxed);
        listed.watched.store(self.watched.len(), Ordering::Relaxed);
        listed.waiting.store(waiting, Ordering::Relaxed);
        listed.closing.store(self.closing, Ordering::Relaxed);
    }

    /// Creates a client that is the server itself, for commands from a log or a script.
    pub fn internal() -> ClientSession {
        ClientSession::new(
            // No connection has the number 0.
            Arc::new(ClientShared::new(0, 0, String::new(), String::new(), 0)),
            true,
        )
    }
}

impl ClientShared {
    /// Creates a client that has just connected.
    pub fn new(
        id: u64,
        thread: usize,
        peer: String,
        local: String,
        steady_ms: u64,
    ) -> ClientShared {
        ClientShared {
            id,
            peer,
            local,
            thread: AtomicUsize::new(thread),
            connected_at_ms: steady_ms,
            active_at_ms: AtomicU64::new(steady_ms),
            name: Mutex::default(),
            // Connections begin as this user, even if they must log in first.
            user: Mutex::new(acl::DEFAULT.to_vec()),
            watch_broken: AtomicBool::new(false),
            killed: AtomicBool::new(false),
            database: AtomicUsize::new(0),
            listed: ClientListFields::new(),
        }
    }

    /// Returns the number of the thread that serves it.
    #[inline]
    pub fn thread(&self) -> usize {
        self.thread.load(Ordering::Acquire)
    }

    /// Notes that another thread serves it from now on.
    pub fn move_to(&self, thread: usize) {
        self.thread.store(thread, Ordering::Release);
    }

    /// Notes the time at which it has sent something.
    pub fn touch(&self, steady_ms: u64) {
        self.active_at_ms.store(steady_ms, Ordering::Relaxed);
    }
}
