//! All that the threads of a server share.

use crate::acl::Acl;
use crate::blocking::Blocked;
use crate::client::ClientShared;
use crate::cursors::Cursors;
use crate::keyspace::Keyspace;
use crate::net::{Mailbox, Message};
use crate::watch::Watches;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The addresses to listen on.
    pub bind: Vec<std::net::IpAddr>,
    /// The port to listen on; 0 chooses a free one.
    pub port: u16,
    /// The number of threads that serve connections.
    pub threads: usize,
    /// The password of the default user; none is needed without.
    pub password: Option<String>,
    /// Where users are saved, if anywhere.
    pub acl_file: Option<PathBuf>,
    /// Whether connections from other machines are refused while there is no password.
    pub protected: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            bind: vec![std::net::Ipv4Addr::LOCALHOST.into()],
            port: 6399,
            threads: default_threads(),
            password: None,
            acl_file: None,
            protected: true,
        }
    }
}

/// One thread less than there are cores, as the clients need one, too; at most eight.
pub fn default_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    cores.saturating_sub(1).clamp(1, 8)
}

/// What the threads of a server share.
#[derive(Debug)]
pub struct Server {
    /// The keys.
    pub keyspace: Keyspace,
    /// What it was started with.
    pub options: Options,
    /// The clients, by their numbers.
    pub clients: Mutex<BTreeMap<u64, Arc<ClientShared>>>,
    /// Who may do what.
    pub acl: Acl,
    /// Who watches which keys.
    pub watches: Watches,
    /// Who waits for which keys.
    pub blocked: Blocked,
    /// Where scans of the keyspace stand.
    pub cursors: Cursors,
    /// Where threads receive what others have for them.
    pub mailboxes: OnceLock<Vec<Mailbox>>,
    /// When the server started.
    pub started: Instant,
    /// Whether it is to stop.
    pub stopping: AtomicBool,
    /// The number of the next client.
    next_client: AtomicU64,
}

impl Server {
    /// A server without keys that listens to nobody yet.
    pub fn new(options: Options) -> Server {
        Server {
            keyspace: Keyspace::new(),
            acl: Acl::new(
                options.password.as_deref(),
                options.acl_file.clone(),
                options.protected,
            ),
            options,
            clients: Mutex::default(),
            watches: Watches::default(),
            blocked: Blocked::default(),
            cursors: Cursors::default(),
            mailboxes: OnceLock::new(),
            started: Instant::now(),
            stopping: AtomicBool::new(false),
            next_client: AtomicU64::new(1),
        }
    }

    /// A number for a client, which no other has had.
    pub fn next_client_id(&self) -> u64 {
        self.next_client.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a message to the thread of a client.
    pub fn send(&self, thread: usize, message: Message) {
        if let Some(mailbox) = self.mailboxes.get().and_then(|all| all.get(thread)) {
            mailbox.send(message);
        }
    }

    /// Has all threads stop, after they have answered what they have read.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        for mailbox in self.mailboxes.get().into_iter().flatten() {
            mailbox.wake();
        }
    }
}

/// The time in milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
