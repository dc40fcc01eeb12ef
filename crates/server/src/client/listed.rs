//! The fields of `CLIENT LIST` that [`ClientShared`](super::ClientShared) does not have. The
//! client's own thread writes them, and any thread reads them.

use parking_lot::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize};

/// The listed properties of a client. None of them needs to be exact at any instant.
#[derive(Debug, Default)]
pub struct ClientListFields {
    /// The number of the last command in the table, plus one; 0: none yet.
    pub last_command: AtomicU32,
    /// Number of commands that were executed for it, including those of its transactions and
    /// scripts.
    pub commands: AtomicU64,
    /// True if it speaks RESP3.
    pub resp3: AtomicBool,
    /// Number of channels that it has subscribed to.
    pub channels: AtomicUsize,
    /// Number of patterns that it has subscribed to.
    pub patterns: AtomicUsize,
    /// Number of shard channels that it has subscribed to.
    pub shard_channels: AtomicUsize,
    /// Number of commands in its transaction, plus one; 0: it has none.
    pub queued: AtomicUsize,
    /// Number of keys that it watches.
    pub watched: AtomicUsize,
    /// True if it waits in a command.
    pub waiting: AtomicBool,
    /// True if it sees all commands.
    pub monitoring: AtomicBool,
    /// True if it caches the keys that it reads.
    pub tracking: AtomicBool,
    /// True if it caches by prefixes.
    pub tracking_prefixes: AtomicBool,
    /// True if the client to which its invalidations are sent is gone.
    pub redirection_broken: AtomicBool,
    /// The client to which its invalidations are sent; 0: itself, -1: it caches nothing.
    pub redirection: AtomicI64,
    /// True if it is never closed to free memory.
    pub no_evict: AtomicBool,
    /// True if its reads do not count as uses of keys.
    pub no_touch: AtomicBool,
    /// True if it is closed once all replies are sent.
    pub closing: AtomicBool,
    /// Bytes that were received and are not parsed yet.
    pub query_bytes: AtomicUsize,
    /// Bytes that wait to be sent.
    pub output_bytes: AtomicUsize,
    /// Bytes of memory that it holds, without messages that wait in a mailbox.
    pub held_bytes: AtomicUsize,
    /// The part of `held_bytes` that is given back once the client is closed.
    pub doomed_bytes: AtomicUsize,
    /// Bytes that wait for it in the mailbox of its thread.
    pub delivered_bytes: AtomicUsize,
    /// Bytes that were received from it.
    pub received_bytes: AtomicU64,
    /// Bytes that were sent to it.
    pub sent_bytes: AtomicU64,
    /// The name and version of the client's library, as the client has reported them.
    pub library: Mutex<(String, String)>,
}

impl ClientListFields {
    /// Notes the number of the last command; `None` is an unknown command.
    #[inline]
    pub fn note(&self, number: Option<usize>) {
        let number = number.map_or(0, |number| number as u32 + 1);
        // It is mostly the same number again, which need not be written.
        if self.last_command.load(Relaxed) != number {
            self.last_command.store(number, Relaxed);
        }
    }

    /// Counts a command that was executed.
    #[inline]
    pub fn count_command(&self) {
        // Only one thread at a time executes commands of a client.
        let count = self.commands.load(Relaxed) + 1;
        self.commands.store(count, Relaxed);
    }

    /// Creates the properties of a client that has sent nothing yet.
    pub fn new() -> ClientListFields {
        ClientListFields {
            redirection: AtomicI64::new(-1),
            ..ClientListFields::default()
        }
    }

    /// Returns true if the client is in the class of subscribers.
    pub fn is_subscriber(&self) -> bool {
        let count = |counter: &AtomicUsize| counter.load(Relaxed);
        count(&self.channels) + count(&self.patterns) + count(&self.shard_channels) > 0
    }

    /// Changes whether the client is exempt from being closed to free memory.
    pub fn set_no_evict(&self, on: bool) {
        self.no_evict.store(on, Relaxed);
    }

    /// Changes whether the client's reads count as uses of keys; they do not if `on` is true.
    pub fn set_no_touch(&self, on: bool) {
        self.no_touch.store(on, Relaxed);
    }
}
