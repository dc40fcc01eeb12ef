//! All that the threads of a server share.

use crate::acl::Acl;
use crate::batches::Batches;
use crate::blocking::Blocked;
use crate::client::Client;
use crate::config::{Config, Settings};
use crate::connection::Clients;
use crate::connection::balance::Balance;
use crate::connection::tls::Tls;
use crate::cursors::Cursors;
use crate::eviction::{Access, Eviction};
use crate::keyspace::{Databases, Home, Keyspace};
use crate::latency::LatencyMonitor;
use crate::log::Log;
use crate::monitor::Monitors;
use crate::pause::Pause;
use crate::persistence::{self, Persistence};
use crate::pubsub::PubSub;
use crate::script::Scripts;
use crate::singly::Singly;
use crate::slowlog::SlowLog;
use crate::statistics::Statistics;
use crate::tracking::Tracking;
use crate::watch::Watches;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

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
    /// What a configuration file says, where the above does not.
    pub settings: Settings,
    /// What is kept on disk.
    pub persistence: persistence::Options,
    /// Where the keys lie.
    pub home: Home,
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
            settings: Settings::default(),
            persistence: persistence::Options::default(),
            home: Home::Local,
        }
    }
}

impl Options {
    /// Refuses what is not possible where the keys lie.
    ///
    /// # Errors
    /// Which option it is, and why.
    pub fn check_placement(&self) -> Result<(), String> {
        if !self.home.is_shared() {
            return Ok(());
        }
        let mut kept = self.persistence.clone();
        kept.complete(&self.settings);
        if kept.log() || !kept.save_points().is_empty() {
            return Err(
                "keys in a pool stay there when the server ends: with --placement pool there is no \
                 --dir, --appendonly or save"
                    .into(),
            );
        }
        for setting in &self.settings.values {
            check_setting(&setting.name, &setting.value)?;
        }
        Ok(())
    }
}

/// Refuses a setting that needs keys which no other server changes.
///
/// # Errors
/// Which setting it is, and why.
pub fn check_setting(name: &str, value: &str) -> Result<(), String> {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    let why = if is("maxmemory") && value != "0" {
        "the memory is that of the pool's nodes"
    } else if is("notify-keyspace-events") && !value.is_empty() {
        "a server does not see what other servers change"
    } else if is("appendonly") && value != "no" || is("save") && !value.is_empty() {
        "keys in a pool stay there when the server ends"
    } else {
        return Ok(());
    };
    Err(format!(
        "{name} is not possible with the placement pool: {why}"
    ))
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
    /// Keeps within the limit of memory.
    pub eviction: Eviction,
    /// What is known of how keys are used.
    pub access: Access,
    /// The clients, and the mailboxes of the threads that serve them.
    pub clients: Clients,
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
    /// Who watches which keys.
    pub watches: Watches,
    /// Who waits for which keys.
    pub blocked: Blocked,
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
    /// Whether it is to stop.
    pub stopping: AtomicBool,
}

impl Server {
    /// A server without keys that listens to nobody yet.
    pub fn new(mut options: Options) -> Server {
        let registry = crate::command::registry();
        options.persistence.complete(&options.settings);
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
            keyspace: Keyspace::new(options.home.clone()),
            eviction: Eviction::default(),
            access: Access::new(0, false),
            acl: Acl::new(
                registry,
                options.password.as_deref(),
                options.acl_file.clone(),
                options.protected,
            ),
            log: Log::default(),
            persistence: Persistence::default(),
            balance: Balance::new(options.threads),
            options,
            clients: Clients::default(),
            connected: AtomicU64::new(0),
            scripts: Scripts::default(),
            watches: Watches::default(),
            blocked: Blocked::default(),
            cursors: Cursors::default(),
            run_id: format!(
                "{:032x}{:08x}",
                rand::random::<u128>(),
                rand::random::<u32>()
            ),
            started: Instant::now(),
            serving: AtomicBool::new(false),
            tls: OnceLock::new(),
            stopping: AtomicBool::new(false),
        };
        crate::config::apply(&server);
        server
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
    }

    /// The bytes in use, as they are held against the limit. Takes microseconds.
    pub fn used_bytes(&self, databases: &Databases) -> u64 {
        self.eviction
            .used_bytes(&self.keyspace, databases, &self.access)
    }

    /// Has all threads stop, after they have answered what they have read.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.clients.wake_all();
    }
}
