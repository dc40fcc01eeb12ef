//! The state that all threads of a server share.

mod busy;
mod configure;
pub mod descriptors;
mod directory_lock;
mod oom_score;
pub(crate) mod persistence;

pub(crate) use directory_lock::DirectoryLock;
pub use oom_score::OomScore;
pub use persistence::{Persistence, PersistenceStatus, SnapshotRequestOutcome, SnapshotTask};

use crate::acl::Acl;
use crate::blocking::{BlockedClient, BlockedClients};
use crate::catalog::CommandRegistry;
use crate::client::{ClientSession, ClientShared};
use crate::clock::steady_ms;
use crate::config::{ConfigParameters, ServerOptions};
use crate::connection::ClientRegistry;
use crate::connection::balance::ThreadBalance;
use crate::connection::listen::TcpListenAddresses;
use crate::connection::tls::Tls;
use crate::cursors::Cursors;
use crate::eviction::{Eviction, KeyUseStatistics};
use crate::keyspace::{Databases, Keyspace};
use crate::log::AppendLog;
use crate::migration::Migrations;
use crate::observe::{Batches, LatencyMonitor, SlowLog, Statistics};
use crate::pause::Pause;
use crate::push::{Monitors, PubSub, TrackingTable};
use crate::script::{FunctionRegistry, Scripts};
use crate::singly::{SequentialReason, Singly};
use crate::tiering::ServerTiering;
use crate::tiering::fetch::Fetcher;
use crate::watch::KeyWatches;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// The shared state of the threads of a server.
#[derive(Debug)]
pub struct ServerCore {
    /// The keys.
    pub keyspace: Keyspace,
    /// The options with which it was started.
    pub options: ServerOptions,
    /// The eviction of keys, which keeps memory within its limit.
    pub eviction: Eviction,
    /// The statistics about the use of keys.
    pub access: KeyUseStatistics,
    /// The mover of values, which keeps the tiers within their capacities.
    pub tiering: ServerTiering,
    /// The reader of values in files for clients that wait.
    pub fetcher: Fetcher<Arc<ClientShared>>,
    /// The clients, and the mailboxes of the threads that serve them.
    pub clients: ClientRegistry,
    /// The sockets to which clients connect.
    pub listening: TcpListenAddresses,
    /// Number of connections, including those that no thread serves yet.
    pub connected: AtomicU64,
    /// The users and their permissions.
    pub acl: Acl,
    /// The configuration.
    pub config: ConfigParameters,
    /// The listeners of channels.
    pub pubsub: PubSub,
    /// The keys that clients cache.
    pub tracking: TrackingTable,
    /// The clients that see all commands.
    pub monitors: Monitors,
    /// The commands that are held back.
    pub pause: Pause,
    /// The reasons for executing commands one by one.
    pub singly: Singly,
    /// The sizes of batches.
    pub batches: Batches,
    /// The counters of commands and events.
    pub statistics: Statistics,
    /// The log of slow commands.
    pub slowlog: SlowLog,
    /// The log of other slow operations.
    pub latency: LatencyMonitor,
    /// Scripts in Lua.
    pub scripts: Scripts,
    /// Functions in Lua.
    pub functions: FunctionRegistry,
    /// The keys that clients watch.
    pub watches: KeyWatches,
    /// The clients that wait for keys.
    pub blocked: BlockedClients,
    /// The keys that are sent to other servers.
    pub migrations: Migrations<BlockedClient>,
    /// The positions of scans of the keyspace.
    pub cursors: Cursors,
    /// The log of changes on disk.
    pub log: AppendLog,
    /// The snapshots and rewrites on disk.
    pub persistence: Persistence,
    /// The threads that serve connections.
    pub balance: ThreadBalance,
    /// A name of this run, which no other has.
    pub run_id: String,
    /// The time at which the server started.
    pub started: Instant,
    /// True if clients are served; false while data are loaded.
    pub serving: AtomicBool,
    /// The TLS certificate and settings.
    pub tls: OnceLock<Tls>,
    /// The process's `oom_score_adj`.
    pub oom_score: OomScore,
    /// True if expired keys are deleted even if no client reads them.
    pub expires_actively: AtomicBool,
    /// True if the server must stop.
    pub stopping: AtomicBool,
}

impl ServerCore {
    /// Creates a server of these commands, without keys, that does not listen yet.
    pub fn new(registry: &'static CommandRegistry, mut options: ServerOptions) -> ServerCore {
        options.persistence.complete(&options.settings);
        let acl_file = options.acl_file.as_ref();
        let acl_file = acl_file.map(|file| options.persistence.directory().join(file));
        let home = options.home.clone();
        let keyspace = Keyspace::new(home).with_tiers(options.tiers.clone());
        let scripts = Scripts::default();
        let clients = ClientRegistry::default();
        let server = ServerCore {
            config: ConfigParameters::new(&options),
            pubsub: PubSub::default(),
            tracking: TrackingTable::default(),
            monitors: Monitors::default(),
            pause: Pause::default(),
            singly: Singly::default(),
            batches: Batches::default(),
            statistics: Statistics::new(registry),
            slowlog: SlowLog::default(),
            latency: LatencyMonitor::default(),
            tiering: ServerTiering::new(
                &keyspace,
                options.tier_policy,
                options.access_trace.clone(),
            ),
            fetcher: Fetcher::default(),
            keyspace,
            eviction: Eviction::new(Arc::clone(&clients.share), Arc::clone(&scripts.memory)),
            // `configure` gives it its size.
            access: KeyUseStatistics::new(0, false),
            acl: Acl::new(
                registry,
                options.password.as_deref(),
                acl_file,
                options.protected,
            ),
            log: AppendLog::default(),
            persistence: Persistence::default(),
            balance: ThreadBalance::new(options.threads),
            options,
            clients,
            listening: TcpListenAddresses::default(),
            connected: AtomicU64::new(0),
            functions: FunctionRegistry::new(
                Arc::clone(&scripts.watchdog),
                Arc::clone(&scripts.memory),
            ),
            scripts,
            watches: KeyWatches::default(),
            blocked: BlockedClients::default(),
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
        debug_assert_eq!(
            server.run_id.len(),
            40,
            "clients expect the length of Redis"
        );
        server.configure();
        let is_traced = server.options.access_trace.is_some();
        server.singly.set(SequentialReason::Trace, is_traced);
        server
    }

    /// Returns true if `CLIENT PAUSE` holds commands back, so that nothing may change.
    pub fn is_paused(&self) -> bool {
        let current = || self.pause.current(&self.singly, steady_ms());
        self.singly.has(SequentialReason::Pause) && current().is_some()
    }

    /// Returns the path of a file that the configuration names. A name without a folder is in
    /// `dir`.
    pub fn path(&self, file: &str) -> PathBuf {
        self.options.persistence.directory().join(file)
    }

    /// Forgets a client after its connection was closed.
    pub fn forget(&self, client: &mut ClientSession) {
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

    /// Counts the memory of users and of the table of tracked keys.
    pub fn count_aside(&self) {
        let bytes = self.acl.memory_bytes() + self.tracking.memory_bytes();
        self.eviction.note_aside(bytes);
    }

    /// Returns the bytes in use, as they are compared with the limit. Takes microseconds.
    pub fn used_bytes(&self, databases: &Databases) -> u64 {
        self.eviction
            .used_bytes(&self.keyspace, databases, &self.access)
    }

    /// Stops all threads, after they have replied to the requests that they have read. A script
    /// that runs for long is ended.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.scripts.watchdog.stop();
        self.migrations.stop();
        // Last, so that threads that wake find the flag set.
        self.clients.wake_all();
    }
}
