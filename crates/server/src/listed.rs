//! What `CLIENT LIST` shows of a client beyond what [`ClientShared`] knows anyway: written by the
//! client's own thread, read by any.

use crate::client::ClientShared;
use parking_lot::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize};

/// What is shown of a client. None of it is needed to be exact at any instant.
#[derive(Debug, Default)]
pub struct Listed {
    /// The number of the last command in the table, plus one; 0: none yet.
    pub last_command: AtomicU32,
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
    /// Bytes that were received.
    pub received_bytes: AtomicU64,
    /// Bytes that were sent.
    pub sent_bytes: AtomicU64,
    /// What program the client is, and its version, as it has said.
    pub library: Mutex<(String, String)>,
}

impl Listed {
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

/// A client as `CLIENT LIST` shows it, without a line end.
pub fn describe(client: &ClientShared, now_ms: u64) -> String {
    let listed = &client.listed;
    let count = |counter: &AtomicUsize| counter.load(Relaxed);
    let seconds = |since_ms: u64| now_ms.saturating_sub(since_ms) / 1000;
    let command = (listed.last_command.load(Relaxed) as usize)
        .checked_sub(1)
        .and_then(|number| crate::command::registry().entries().get(number))
        .map(|entry| entry.name.as_str())
        .unwrap_or("NULL");
    let library = listed.library.lock().clone();
    let user = client.user.lock().clone();
    let (query, output) = (count(&listed.query_bytes), count(&listed.output_bytes));
    format!(
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} \
         ssub={} multi={} watch={} qbuf={query} qbuf-free=0 argv-mem=0 multi-mem=0 rbs={output} \
         rbp={output} obl={output} oll=0 omem=0 tot-mem={} events={} cmd={command} user={} \
         redir={} resp={} lib-name={} lib-ver={} tot-net-in={} tot-net-out={}",
        client.id,
        client.peer,
        client.local,
        client.id as i32,
        client.name.lock(),
        seconds(client.connected_at_ms),
        seconds(client.active_at_ms.load(Relaxed)),
        flags(client),
        client.database.load(Relaxed),
        count(&listed.channels),
        count(&listed.patterns),
        count(&listed.shard_channels),
        count(&listed.queued) as i64 - 1,
        count(&listed.watched),
        query + output,
        if output > 0 { "rw" } else { "r" },
        String::from_utf8_lossy(&user),
        listed.redirection.load(Relaxed),
        if listed.resp3.load(Relaxed) { 3 } else { 2 },
        library.0,
        library.1,
        listed.received_bytes.load(Relaxed),
        listed.sent_bytes.load(Relaxed),
    )
}

fn flags(client: &ClientShared) -> String {
    let listed = &client.listed;
    let flags = [
        ('O', listed.monitoring.load(Relaxed)),
        ('P', listed.is_subscriber()),
        ('x', listed.queued.load(Relaxed) > 0),
        ('b', listed.waiting.load(Relaxed)),
        ('t', listed.tracking.load(Relaxed)),
        ('R', listed.redirection_broken.load(Relaxed)),
        ('B', listed.tracking_prefixes.load(Relaxed)),
        ('d', client.watch_broken.load(Relaxed)),
        ('c', listed.closing.load(Relaxed)),
        ('e', listed.no_evict.load(Relaxed)),
        ('T', listed.no_touch.load(Relaxed)),
    ];
    let shown: String = flags.iter().filter(|it| it.1).map(|it| it.0).collect();
    if shown.is_empty() { "N".into() } else { shown }
}
