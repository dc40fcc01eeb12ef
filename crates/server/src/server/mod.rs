//! The state that all threads of a server share.

mod busy;
mod configure;
pub mod descriptors;
mod directory_lock;
mod oom_score;
pub(crate) mod persistence;

pub(crate) use directory_lock::DirectoryLock;
pub use oom_score::OomScore;
pub use persistence::{Persistence, Requested, Status, Task};

use crate::acl::Acl;
use crate::blocking::{Blocked, Waiter};
use crate::catalog::Registry;
use crate::client::{Client, ClientShared};
use crate::config::{Config, Options};
use crate::connection::Clients;
use crate::connection::balance::Balance;
use crate::connection::listen::Listening;
use crate::connection::tls::Tls;
use crate::cursors::Cursors;
use crate::eviction::{Access, Eviction};
use crate::keyspace::{Databases, Keyspace};
use crate::log::Log;
use crate::migration::Migrations;
use crate::observe::{Batches, LatencyMonitor, SlowLog, Statistics};
use crate::pause::Pause;
use crate::push::{Monitors, PubSub, Tracking};
use crate::script::{Functions, Scripts};
use crate::singly::Singly;
use crate::tiering::Tiering;
use crate::tiering::fetch::Fetcher;
use crate::watch::Watches;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// What the threads of a server share.
#[derive(Debug)]
pub struct Server {
    /// The keys.
    pub keyspace: Keyspace,
    /// What it was started with.
    pub options: Options,
    /// Keeps within the limit of memory.
    pub eviction: Eviction,
    /// What is known of how keys are used.
    pub access: Access,
    /// Keeps the tiers within their capacities.
    pub tiering: Tiering,
    /// Reads values of files for clients that wait.
    pub fetcher: Fetcher<Arc<ClientShared>>,
    /// The clients, and the mailboxes of the threads that serve them.
    pub clients: Clients,
    /// Where clients connect to.
    pub listening: Listening,
    /// How many connections there are, also those that no thread serves yet.
    pub connected: AtomicU64,
    /// Who may do what.
    pub acl: Acl,
    /// The configuration.
    pub config: Config,
    /// Who listens to which channels.
    pub pubsub: PubSub,
    /// Who caches what.
    pub tracking: Tracking,
    /// Who sees all commands.
    pub monitors: Monitors,
    /// What is held back.
    pub pause: Pause,
    /// Why commands are executed one by one.
    pub singly: Singly,
    /// How large batches were.
    pub batches: Batches,
    /// What was done so far.
    pub statistics: Statistics,
    /// Commands that took long.
    pub slowlog: SlowLog,
    /// What else took long.
    pub latency: LatencyMonitor,
    /// Scripts in Lua.
    pub scripts: Scripts,
    /// Functions in Lua.
    pub functions: Functions,
    /// Who watches which keys.
    pub watches: Watches,
    /// Who waits for which keys.
    pub blocked: Blocked,
    /// What is sent to other servers.
    pub migrations: Migrations<Waiter>,
    /// Where scans of the keyspace stand.
    pub cursors: Cursors,
    /// What was changed, on disk.
    pub log: Log,
    /// What else is on disk.
    pub persistence: Persistence,
    /// Which threads serve connections.
    pub balance: Balance,
    /// A name of this run, which no other has.
    pub run_id: String,
    /// When the server started.
    pub started: Instant,
    /// Whether clients are served; false while data are loaded.
    pub serving: AtomicBool,
    /// Who the server says it is to clients that speak TLS.
    pub tls: OnceLock<Tls>,
    /// By what the system chooses whom to end when memory is short.
    pub oom_score: OomScore,
    /// Whether keys are deleted whose time is over if nobody asks for them.
    pub expires_actively: AtomicBool,
    /// Whether it is to stop.
    pub stopping: AtomicBool,
}

impl Server {
    /// A server of these commands, without keys, that listens to nobody yet.
    pub fn of_commands(registry: &'static Registry, mut options: Options) -> Server {
        options.persistence.complete(&options.settings);
        let acl_file = options.acl_file.as_ref();
        let acl_file = acl_file.map(|file| options.persistence.directory().join(file));
        let home = options.home.clone();
        let keyspace = Keyspace::new(home).with_tiers(options.tiers.clone());
        let scripts = Scripts::default();
        let clients = Clients::default();
        let server = Server {
            config: Config::new(&options),
            pubsub: PubSub::default(),
            tracking: Tracking::default(),
            monitors: Monitors::default(),
            pause: Pause::default(),
            singly: Singly::default(),
            batches: Batches::default(),
            statistics: Statistics::new(registry),
            slowlog: SlowLog::default(),
            latency: LatencyMonitor::default(),
            tiering: Tiering::new(&keyspace),
            fetcher: Fetcher::default(),
            keyspace,
            eviction: Eviction::new(Arc::clone(&clients.share), Arc::clone(&scripts.memory)),
            access: Access::new(0, false),
            acl: Acl::new(
                registry,
                options.password.as_deref(),
                acl_file,
                options.protected,
            ),
            log: Log::default(),
            persistence: Persistence::default(),
            balance: Balance::new(options.threads),
            options,
            clients,
            listening: Listening::default(),
            connected: AtomicU64::new(0),
            functions: Functions::new(Arc::clone(&scripts.watchdog), Arc::clone(&scripts.memory)),
            scripts,
            watches: Watches::default(),
            blocked: Blocked::default(),
            migrations: Migrations::default(),
            cursors: Cursors::default(),
            run_id: format!(
                "{:032x}{:08x}",
                rand::random::<u128>(),
                rand::random::<u32>()
            ),
            started: Instant::now(),
            serving: AtomicBool::new(false),
            tls: OnceLock::new(),
            oom_score: OomScore::default(),
            expires_actively: AtomicBool::new(true),
            stopping: AtomicBool::new(false),
        };
        server.configure();
        server
    }

    /// Returns where a file lies that the configuration names: without a folder, in `dir`.
    pub fn path(&self, file: &str) -> PathBuf {
        self.options.persistence.directory().join(file)
    }

    /// Forgets a client whose connection is closed.
    pub fn forget(&self, client: &mut Client) {
        let id = client.shared.id;
        self.blocked.remove(id);
        let watched = std::mem::take(&mut client.watched);
        self.watches.remove(&watched, &client.shared);
        self.pubsub.leave(client);
        self.tracking.leave(&self.keyspace, client);
        self.monitors.leave(&self.singly, client);
        self.clients.lock().remove(&id);
        self.clients.share.forget(&client.shared);
    }

    /// Counts what users and the table of tracked keys take.
    pub fn count_aside(&self) {
        let bytes = self.acl.memory_bytes() + self.tracking.memory_bytes();
        self.eviction.note_aside(bytes);
    }

    /// The bytes in use, as they are held against the limit. Takes microseconds.
    pub fn used_bytes(&self, databases: &Databases) -> u64 {
        self.eviction
            .used_bytes(&self.keyspace, databases, &self.access)
    }

    /// Has all threads stop, after they have answered what they have read. A script that runs for
    /// long is ended.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.scripts.watchdog.stop();
        self.migrations.stop();
        self.clients.wake_all();
    }
}
