//! A client: what the server remembers of a connection between its commands.

mod described;
mod listed;
mod login;
mod share;
mod subscriptions;
mod tracking;

pub use described::{describe, flags};
pub use listed::Listed;
pub use login::Login;
pub use share::{ClientShare, ENTRY_BYTES};
pub use subscriptions::{Subscriptions, Topic};
pub use tracking::Choice;

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

/// A key that a client watches, as it was when that began.
#[derive(Clone, Debug)]
pub struct WatchedKey {
    /// True if the key existed. One that has gone since has changed, also if it expired.
    pub was_there: bool,
    /// The entry that a pool had for the key. Other servers do not tell of their changes, so `EXEC`
    /// compares. `None` if the key was absent, and if no other server changes the keys.
    pub stored: Option<Vec<u8>>,
}

/// What is known of a client by its own thread alone.
#[derive(Debug)]
pub struct Client {
    /// What others may see.
    pub shared: Arc<ClientShared>,
    /// The number of its database.
    pub database: usize,
    /// The commands of a transaction that is being queued.
    pub transaction: Option<Transaction>,
    /// The keys that it watches.
    pub watched: WatchedKeys,
    /// Bytes that the server holds for its watched keys.
    pub watched_bytes: usize,
    /// Bytes of its name and of what `CLIENT SETINFO` has set.
    pub named_bytes: usize,
    /// Bytes of the command that it waits in.
    pub waiting_bytes: usize,
    /// Whether it has said its password, or need not.
    pub authenticated: bool,
    /// Who it is.
    pub login: Login,
    /// Whether its connection is to be closed once all is sent.
    pub closing: bool,
    /// Whether it is to be answered.
    pub replies: Replies,
    /// True if the command that it waits in gets no reply (`CLIENT REPLY`).
    pub is_silent_wait: bool,
    /// What it has subscribed to.
    pub subscriptions: Subscriptions,
    /// What it caches, if it does.
    pub tracking: Option<Box<Choice>>,
    /// The position in the log behind what it has changed last. It is answered when the log is
    /// safe up to there.
    pub logged_up_to: u64,
    /// What is noted while it runs a script.
    pub script: ScriptState,
    /// What was sent to another server for its command, which is executed again therefore.
    pub shipment: Option<Box<Shipment>>,
}

/// A transaction that is being queued.
#[derive(Debug, Default)]
pub struct Transaction {
    /// The commands so far.
    pub commands: Vec<Words>,
    /// Returns their memory, in bytes.
    pub bytes: usize,
    /// Whether one was refused, so that none will be executed.
    pub refused: bool,
    /// Whether there was no memory for its commands when it was to be executed.
    pub without_memory: bool,
}

impl Transaction {
    /// Has none of the commands be executed, so that they need not be kept.
    pub fn refuse(&mut self) {
        self.refused = true;
        self.commands = Vec::new();
        self.bytes = 0;
    }
}

/// What the server notes while it runs a client's script.
#[derive(Debug, Default)]
pub struct ScriptState {
    /// Whether commands are executed by a script now.
    pub runs: bool,
    /// Whether there was no memory for what it writes when it began.
    pub lacks_memory: bool,
    /// What its last command was refused with.
    pub refused: Option<String>,
    /// The time that it has asked for first, since the epoch. It stands still from then on.
    pub time: Option<Duration>,
}

/// Whether a client is answered (`CLIENT REPLY`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replies {
    /// Each command is answered.
    #[default]
    On,
    /// No command is answered.
    Off,
    /// The next command is not answered.
    SkipNext,
}

/// What is known of a client by all threads.
#[derive(Debug)]
pub struct ClientShared {
    /// Its number, which no other client ever has.
    pub id: u64,
    /// Where it is, `address:port` or the path of a socket.
    pub peer: String,
    /// Where it has connected to.
    pub local: String,
    /// The thread that serves it.
    thread: AtomicUsize,
    /// Time of its connection, by [`steady_ms`](crate::clock::steady_ms).
    pub connected_at_ms: u64,
    /// Time of its last command, by [`steady_ms`](crate::clock::steady_ms).
    pub active_at_ms: AtomicU64,
    /// Its name, as it has said.
    pub name: Mutex<String>,
    /// The name of its user.
    pub user: Mutex<Vec<u8>>,
    /// Whether a watched key was changed.
    pub watch_broken: AtomicBool,
    /// Whether its connection is to be closed at once.
    pub killed: AtomicBool,
    /// The number of its database.
    pub database: AtomicUsize,
    /// What else `CLIENT LIST` shows.
    pub listed: Listed,
}

impl Client {
    /// A client of which no more is known than where it is.
    pub fn new(shared: Arc<ClientShared>, authenticated: bool) -> Client {
        Client {
            shared,
            database: 0,
            transaction: None,
            watched: WatchedKeys::new(),
            watched_bytes: 0,
            named_bytes: 0,
            waiting_bytes: 0,
            authenticated,
            login: Login::default(),
            closing: false,
            replies: Replies::On,
            is_silent_wait: false,
            subscriptions: Subscriptions::default(),
            tracking: None,
            logged_up_to: 0,
            script: ScriptState::default(),
            shipment: None,
        }
    }

    /// True if its commands need no checks but those of their own, so that they may be part of a
    /// batch.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.authenticated
            && self.transaction.is_none()
            && self.replies == Replies::On
            && self.tracking.is_none()
            && !self.subscriptions.any()
            && !self.leaves_no_trace()
    }

    /// True if what it reads is not noted as a use of the keys.
    #[inline]
    pub fn leaves_no_trace(&self) -> bool {
        self.shared.listed.no_touch.load(Ordering::Relaxed)
    }

    /// Returns the bytes that the server keeps for it, without its input and output buffers.
    #[inline]
    pub fn remembered_bytes(&self) -> usize {
        let transaction = self.transaction.as_ref().map_or(0, |it| it.bytes);
        let tracking = self.tracking.as_ref().map_or(0, |it| it.bytes());
        transaction
            + tracking
            + self.watched_bytes
            + self.named_bytes
            + self.waiting_bytes
            + self.subscriptions.bytes()
    }

    /// Lets others see what they are shown of it after a command.
    pub fn show(&self, waiting: bool) {
        let queued = match &self.transaction {
            Some(transaction) => transaction.commands.len() + 1,
            None => 0,
        };
        let listed = &self.shared.listed;
        listed.queued.store(queued, Ordering::Relaxed);
        listed.watched.store(self.watched.len(), Ordering::Relaxed);
        listed.waiting.store(waiting, Ordering::Relaxed);
        listed.closing.store(self.closing, Ordering::Relaxed);
    }

    /// A client that is the server itself, for commands from a log or a script.
    pub fn internal() -> Client {
        Client::new(
            Arc::new(ClientShared::new(0, 0, String::new(), String::new(), 0)),
            true,
        )
    }
}

impl ClientShared {
    /// A client that has just connected.
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
            user: Mutex::new(acl::DEFAULT.to_vec()),
            watch_broken: AtomicBool::new(false),
            killed: AtomicBool::new(false),
            database: AtomicUsize::new(0),
            listed: Listed::new(),
        }
    }

    /// The number of the thread that serves it.
    #[inline]
    pub fn thread(&self) -> usize {
        self.thread.load(Ordering::Acquire)
    }

    /// Says that another thread serves it from now on.
    pub fn move_to(&self, thread: usize) {
        self.thread.store(thread, Ordering::Release);
    }

    /// Notes that it has sent something.
    pub fn touch(&self, steady_ms: u64) {
        self.active_at_ms.store(steady_ms, Ordering::Relaxed);
    }
}
