//! The fields of `CLIENT LIST` that [`ClientShared`](super::ClientShared) does not have. The
//! client's own thread writes them, and any thread reads them.

use parking_lot::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize};

/// What is shown of a client. None of it is needed to be exact at any instant.
#[derive(Debug, Default)]
pub struct Listed {
    /// The number of the last command in the table, plus one; 0: none yet.
    pub last_command: AtomicU32,
    /// Commands that were executed for it, those of its transactions and scripts among them.
    pub commands: AtomicU64,
    /// Whether it speaks RESP3.
    pub resp3: AtomicBool,
    /// Channels that it has subscribed to.
    pub channels: AtomicUsize,
    /// Patterns that it has subscribed to.
    pub patterns: AtomicUsize,
    /// Shard channels that it has subscribed to.
    pub shard_channels: AtomicUsize,
    /// Commands in its transaction, plus one; 0: it has none.
    pub queued: AtomicUsize,
    /// Keys that it watches.
    pub watched: AtomicUsize,
    /// Whether it waits in a command.
    pub waiting: AtomicBool,
    /// Whether it sees all commands.
    pub monitoring: AtomicBool,
    /// Whether it caches what it reads.
    pub tracking: AtomicBool,
    /// Whether it caches by prefixes.
    pub tracking_prefixes: AtomicBool,
    /// Whether the client that it sends its invalidations to is gone.
    pub redirection_broken: AtomicBool,
    /// The client that its invalidations are sent to; 0: itself, -1: it caches nothing.
    pub redirection: AtomicI64,
    /// Whether it is never closed for want of memory.
    pub no_evict: AtomicBool,
    /// Whether what it reads leaves no trace in how recently keys were used.
    pub no_touch: AtomicBool,
    /// Whether it is closed once all is sent.
    pub closing: AtomicBool,
    /// Bytes that have come and are not understood yet.
    pub query_bytes: AtomicUsize,
    /// Bytes that wait to be sent.
    pub output_bytes: AtomicUsize,
    /// Memory that it holds, without messages that wait in a mailbox.
    pub held_bytes: AtomicUsize,
    /// Part of this that is given back once the client is closed.
    pub doomed_bytes: AtomicUsize,
    /// Bytes that wait for it in the mailbox of its thread.
    pub delivered_bytes: AtomicUsize,
    /// Bytes that were received.
    pub received_bytes: AtomicU64,
    /// Bytes that were sent.
    pub sent_bytes: AtomicU64,
    /// What program the client is, and its version, as it has said.
    pub library: Mutex<(String, String)>,
}

impl Listed {
    /// Notes the number of the last command; `None` is one that is not known.
    #[inline]
    pub fn note(&self, number: Option<usize>) {
        let number = number.map_or(0, |number| number as u32 + 1);
        // Mostly the same again, so that it need not be written.
        if self.last_command.load(Relaxed) != number {
            self.last_command.store(number, Relaxed);
        }
    }

    /// Counts a command that was executed.
    #[inline]
    pub fn count_command(&self) {
        // One thread at a time executes commands of a client.
        let count = self.commands.load(Relaxed) + 1;
        self.commands.store(count, Relaxed);
    }

    /// A client that has said nothing yet.
    pub fn new() -> Listed {
        Listed {
            redirection: AtomicI64::new(-1),
            ..Listed::default()
        }
    }

    /// Whether the client is in the class of subscribers.
    pub fn is_subscriber(&self) -> bool {
        let count = |counter: &AtomicUsize| counter.load(Relaxed);
        count(&self.channels) + count(&self.patterns) + count(&self.shard_channels) > 0
    }

    /// Changes whether the client is never closed for want of memory.
    pub fn set_no_evict(&self, on: bool) {
        self.no_evict.store(on, Relaxed);
    }

    /// Changes whether what the client reads leaves no trace.
    pub fn set_no_touch(&self, on: bool) {
        self.no_touch.store(on, Relaxed);
    }
}
