//! `nearfield serve`: Redis clients in front of the ordered keyspace.

use crate::daemon;
use clap::{Args, ValueEnum};
use nearfield_server::commands::TABLE;
use nearfield_server::config::{
    ConfigFileContents, Durability, ListenPort, ServerOptions, TierSpecification,
};
use nearfield_server::keyspace::Home;
use nearfield_server::log::{Damage, LogSyncPolicy};
use nearfield_server::server::ServerCore;
use nearfield_server::{logging, metrics, signals};
use std::ffi::OsString;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Serve Redis clients.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// A configuration file in the syntax of redis.conf; flags take precedence.
    #[arg(long)]
    config: Option<PathBuf>,
    /// The port to listen on; 0 is none [default: 6399].
    #[arg(long)]
    port: Option<u16>,
    /// The address to listen on; may be given several times [default: 127.0.0.1].
    #[arg(long)]
    bind: Vec<IpAddr>,
    /// Threads that serve connections [default: one less than there are cores].
    #[arg(long)]
    threads: Option<usize>,
    /// The password of the default user.
    #[arg(long)]
    requirepass: Option<OsString>,
    /// A file with users, which ACL SAVE and ACL LOAD write and read.
    #[arg(long)]
    aclfile: Option<PathBuf>,
    /// Refuse connections from other machines while there is no password [default: yes].
    #[arg(long, value_enum, value_name = "yes|no")]
    protected_mode: Option<YesNo>,
    /// The folder for data. Without it nothing is saved, unless --appendonly is given; then data
    /// goes to the working directory.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Log changes [default: yes if there is a --dir].
    #[arg(long, value_name = "yes|no")]
    appendonly: Option<YesNo>,
    /// The time at which the log is flushed to disk [default: everysec].
    #[arg(long, value_enum)]
    appendfsync: Option<Sync>,
    /// Repair files instead of refusing to start: truncate a damaged log and keep the removed part
    /// in a file next to it; rewrite a damaged or missing manifest.
    #[arg(long)]
    repair_log: bool,
    /// The port to listen on for TLS.
    #[arg(long, value_name = "PORT")]
    tls_port: Option<u16>,
    /// The server's certificate and its chain, in PEM.
    #[arg(long, value_name = "FILE")]
    tls_cert_file: Option<PathBuf>,
    /// The key of the certificate, in PEM.
    #[arg(long, value_name = "FILE")]
    tls_key_file: Option<PathBuf>,
    /// The certificates that sign those of clients, in PEM.
    #[arg(long, value_name = "FILE")]
    tls_ca_cert_file: Option<PathBuf>,
    /// Require certificates of clients [default: yes].
    #[arg(long, value_name = "yes|no|optional")]
    tls_auth_clients: Option<String>,
    /// A socket in the file system to listen on, too.
    #[arg(long, value_name = "PATH")]
    unixsocket: Option<PathBuf>,
    /// The port for Prometheus, which finds /metrics there.
    #[arg(long, value_name = "PORT")]
    metrics_port: Option<u16>,
    /// The log file [default: the standard error].
    #[arg(long, value_name = "FILE")]
    logfile: Option<PathBuf>,
    /// The format of log lines.
    #[arg(long, value_enum, default_value = "text")]
    log_format: LogFormatArgument,
    /// The least severity that is logged: debug, verbose, notice or warning [default: notice].
    #[arg(long, value_name = "LEVEL", alias = "loglevel")]
    log_level: Option<String>,
    /// The place of the keys: this process, a pool of memory nodes that several servers share, or
    /// modules with processors of their own (here: threads).
    #[arg(long, value_enum, default_value = "local", help_heading = "Placement")]
    placement: PlacementArgument,
    /// The memory nodes of the pool, separated by commas: [NUMBER=]shm:NAME or
    /// [NUMBER=]ucx:HOST:PORT, or etcd:URL,URL for those that are registered there. A node must
    /// have the number that is given for it.
    #[arg(long, value_name = "NODES", required_if_eq("placement", "pool"))]
    #[arg(help_heading = "Placement")]
    pool: Option<nearfield::PoolPlacement>,
    /// Number of memory nodes in etcd for which the server waits, up to 30 s. A pool that exists is
    /// then used without those that are missing, except node 0.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "pool")]
    #[arg(help_heading = "Placement")]
    pool_nodes: usize,
    /// Number of memory nodes that have each key, 1 or 2. With 2 they are pairs in the order of
    /// their numbers, and the loss of one node of a pair loses nothing. All servers of a pool must
    /// use the same value.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "pool")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=2), help_heading = "Placement")]
    pool_replicas: u8,
    /// The longest key in the pool, in bytes, up to 4084. Each key reserves this length. All
    /// servers of a pool must use the same value.
    #[arg(long, value_name = "BYTES", default_value_t = 64, requires = "pool")]
    #[arg(help_heading = "Placement")]
    pool_key_bytes: usize,
    /// The longest key that the pool stores as a whole in its entry, in bytes, if that is less than
    /// --pool-key-bytes. Each key then reserves this length, and a longer key takes one round trip
    /// more. SCAN reads all keys whose first bytes, up to this length, are the same at once. All
    /// servers of a pool must use the same value.
    #[arg(long, value_name = "BYTES", requires = "pool")]
    #[arg(help_heading = "Placement")]
    pool_key_slot_bytes: Option<usize>,
    /// A tier for values; may be given several times, the fastest first: memory=SIZE, then
    /// memory@numa:NODE=SIZE, compressed=SIZE and file:FOLDER=SIZE, such as --tier memory=4gb
    /// --tier file:/mnt/ssd=200gb. Sizes are written as for --maxmemory. Rarely used values move
    /// down, and back up when they are used. Keys stay in memory.
    #[arg(long, value_name = "TIER=SIZE")]
    tier: Vec<TierSpecification>,
    /// The policy by which values move between tiers: adaptive, or adm for two tiers, which is the
    /// policy of ADM (Zhao et al., 2022) [default: adaptive].
    #[arg(long, value_name = "adaptive|adm")]
    tier_policy: Option<String>,
    /// With --tier-policy adm: the counter above which a value moves into memory when it is used
    /// [default: 9].
    #[arg(long, value_name = "COUNTER")]
    adm_threshold_in: Option<u8>,
    /// With --tier-policy adm: the counter below which a walk moves a value out of memory
    /// [default: 13].
    #[arg(long, value_name = "COUNTER")]
    adm_threshold_out: Option<u32>,
    /// With --tier-policy adm: the milliseconds between two walks, each of which halves the
    /// counters of the values that stay [default: 10000].
    #[arg(long, value_name = "MS")]
    adm_interval_ms: Option<u32>,
    /// A file for a trace of the accesses of commands and moves to values, a line each. Commands
    /// are then executed one by one, never as a batch. nearfield-bench dram --tier replays it.
    #[arg(long, value_name = "FILE")]
    access_trace: Option<PathBuf>,
    /// The memory that may be used, such as 100mb; 0 is no limit. As in Redis, 4gb is 4 GiB and 4g
    /// is 4,000,000,000 bytes.
    #[arg(long, value_name = "BYTES")]
    maxmemory: Option<String>,
    /// The eviction policy when the limit is exceeded: noeviction, allkeys-lru, allkeys-lfu,
    /// allkeys-random, volatile-lru, volatile-lfu, volatile-random or volatile-ttl.
    #[arg(long, value_name = "POLICY")]
    maxmemory_policy: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PlacementArgument {
    Local,
    Pool,
    Pim,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum YesNo {
    Yes,
    No,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sync {
    /// The log is flushed before each reply.
    Always,
    /// The log is flushed each second.
    Everysec,
    /// The log is flushed when the operating system chooses.
    No,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormatArgument {
    /// Text.
    Text,
    /// One JSON object per line.
    Json,
}

/// Reads the configuration file, if one is given.
fn settings(arguments: &ServeArguments) -> Result<ConfigFileContents, String> {
    match &arguments.config {
        Some(file) => ConfigFileContents::read(file).map_err(|error| error.to_string()),
        None => Ok(ConfigFileContents::default()),
    }
}

/// Returns the options of the command line. Those that it does not set are taken from the
/// configuration file.
fn options(
    arguments: &ServeArguments,
    settings: ConfigFileContents,
) -> Result<ServerOptions, String> {
    let mut options = ServerOptions::from_settings(settings)?;
    if !arguments.bind.is_empty() {
        options.bind = arguments.bind.iter().map(|&ip| ip.into()).collect();
    }
    options.port = arguments.port.map_or(options.port, ListenPort::from);
    options.threads = arguments.threads.unwrap_or(options.threads);
    if let Some(choice) = arguments.protected_mode {
        options.protected = matches!(choice, YesNo::Yes);
    }
    if let Some(password) = &arguments.requirepass {
        options.password = Some(password.as_bytes().to_vec());
    }
    if let Some(file) = &arguments.aclfile {
        options.acl_file = Some(absolute(file));
    }
    options.persistence = Durability {
        directory: arguments.dir.clone(),
        log: arguments
            .appendonly
            .map(|choice| matches!(choice, YesNo::Yes)),
        policy: arguments.appendfsync.map(|choice| match choice {
            Sync::Always => LogSyncPolicy::Always,
            Sync::Everysec => LogSyncPolicy::EverySecond,
            Sync::No => LogSyncPolicy::No,
        }),
        damage: match arguments.repair_log {
            true => Damage::Repair,
            false => Damage::Refuse,
        },
        ..options.persistence
    };
    let path = |path: &Option<PathBuf>| {
        let path = path.as_ref();
        path.map(|path| absolute(path).to_string_lossy().into_owned())
    };
    let given = [
        ("maxmemory", arguments.maxmemory.clone()),
        ("maxmemory-policy", arguments.maxmemory_policy.clone()),
        ("tier-policy", arguments.tier_policy.clone()),
        ("adm-threshold-in", text(arguments.adm_threshold_in)),
        ("adm-threshold-out", text(arguments.adm_threshold_out)),
        ("adm-interval-ms", text(arguments.adm_interval_ms)),
        ("access-trace", path(&arguments.access_trace)),
        ("tls-port", text(arguments.tls_port)),
        ("tls-cert-file", path(&arguments.tls_cert_file)),
        ("tls-key-file", path(&arguments.tls_key_file)),
        ("tls-ca-cert-file", path(&arguments.tls_ca_cert_file)),
        ("tls-auth-clients", arguments.tls_auth_clients.clone()),
        ("unixsocket", path(&arguments.unixsocket)),
        ("metrics-port", text(arguments.metrics_port)),
        ("logfile", path(&arguments.logfile)),
        ("loglevel", arguments.log_level.clone()),
    ];
    // After the settings of the file, over which they take precedence.
    for (name, value) in given {
        if let Some(value) = value {
            let added = options.settings.add(name, value);
            added.map_err(|error| error.to_string())?;
        }
    }
    options.home = home(arguments)?;
    options.check_placement()?;
    options.open_tiers(&arguments.tier)?;
    options.open_access_trace()?;
    Ok(options)
}

/// Returns a number of the command line as the value of a parameter.
fn text(number: Option<impl ToString>) -> Option<String> {
    number.map(|number| number.to_string())
}

/// Returns the absolute path of a file of the command line. Relative paths of the configuration
/// file are resolved in `dir` instead.
fn absolute(path: &Path) -> PathBuf {
    // Without a working directory, opening the file reports the error.
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Opens the index placement.
fn home(arguments: &ServeArguments) -> Result<Home, String> {
    match (arguments.placement, &arguments.pool) {
        (PlacementArgument::Pool, Some(pool)) => {
            let replicas = usize::from(arguments.pool_replicas);
            let pool = pool.clone().with_at_least(arguments.pool_nodes);
            let pool = pool.with_replicas(replicas);
            let (longest, whole) = (arguments.pool_key_bytes, arguments.pool_key_slot_bytes);
            Home::open_pool(pool, longest, whole).map_err(|error| error.to_string())
        }
        (_, Some(_)) => Err("--pool needs --placement pool".into()),
        (PlacementArgument::Pim, None) => Ok(Home::Modules(nearfield::Pim::workers())),
        (_, None) => Ok(Home::Local),
    }
}

/// Runs the command.
pub fn run(arguments: &ServeArguments) -> ExitCode {
    let fail = |error: String| {
        eprintln!("nearfield: {error}");
        ExitCode::FAILURE
    };
    let settings = match settings(arguments) {
        Ok(settings) => settings,
        Err(error) => return fail(error),
    };
    // Before the placement and the tiers are opened, which the other process does itself.
    if daemon::is_wanted(&settings) {
        return daemon::start().unwrap_or_else(fail);
    }
    let options = match options(arguments, settings) {
        Ok(options) => options,
        Err(error) => return fail(error),
    };
    nearfield_server::allocator::set_release(crate::allocator::give_back);
    // The threads for signals and metrics live until the process ends.
    let server: &'static ServerCore =
        Box::leak(Box::new(ServerCore::new(TABLE.registry(), options)));
    let logfile = server.config.text("logfile");
    let logfile = (!logfile.is_empty()).then(|| server.path(&logfile));
    let logs = logging::start(
        match arguments.log_format {
            LogFormatArgument::Text => logging::LogLineFormat::Text,
            LogFormatArgument::Json => logging::LogLineFormat::Json,
        },
        &server.config.text("loglevel"),
        logfile.as_deref(),
    );
    let started = logs.and_then(|logs| signals::handle(server, logs));
    if let Err(error) = started.and_then(|()| metrics::serve(server).map(drop)) {
        eprintln!("nearfield: cannot write logs, handle signals or serve metrics: {error}");
        return ExitCode::FAILURE;
    }
    let pid_file = server.config.text("pidfile");
    let pid_file = (!pid_file.is_empty()).then(|| server.path(&pid_file));
    let served = nearfield_server::net::serve(server, |addresses| {
        if let Some(file) = &pid_file {
            daemon::write_pid(file);
        }
        // Logs go elsewhere; the reader of the output may have closed it.
        let _ = writeln!(std::io::stdout(), "{}", welcome(server));
        tracing::info!(?addresses, "ready");
        if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
            tracing::error!("cannot notify systemd of readiness: {error}");
        }
    });
    if let Some(trace) = &server.options.access_trace {
        trace.flush();
    }
    if let Some(file) = &pid_file {
        // The file may have been removed, or never written.
        let _ = std::fs::remove_file(file);
    }
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(error.to_string()),
    }
}

/// Returns the next steps for a new user.
fn welcome(server: &ServerCore) -> String {
    let text = |name| server.config.text(name);
    let password = if text("requirepass").is_empty() {
        ""
    } else {
        " --askpass"
    };
    let folder = match text("dir") {
        dir if dir.is_empty() => "this folder".to_owned(),
        dir => dir,
    };
    let durability = if server.keyspace.is_shared() {
        "The keys are in the pool and remain there when the server ends.".to_owned()
    } else if text("appendonly") == "yes" {
        format!("Data is saved in {folder}.")
    } else if text("save").is_empty() {
        "Data is lost when the server ends; --dir DIRECTORY saves it.".to_owned()
    } else {
        format!("Snapshots are saved in {folder}; changes after the last one are lost.")
    };
    let (place, client) = match (server.listening.port(), text("unixsocket")) {
        (0, socket) if socket.is_empty() => {
            let port = text("tls-port");
            (format!("TLS port {port}"), format!("--tls -p {port}"))
        }
        (0, socket) => {
            let socket = server.path(&socket).display().to_string();
            (format!("socket {socket}"), format!("-s {socket}"))
        }
        (port, _) => (format!("port {port}"), format!("-p {port}")),
    };
    let top = match server.listening.port() {
        0 => String::new(),
        port => format!("nearfield top --port {port} shows its work. "),
    };
    format!(
        "Nearfield is ready on {place}. In another terminal, type:\n\n\
         \x20   redis-cli {client}{password}\n\
         \x20   SET user:1 ann\n\
         \x20   KPREFIX user: WITHVALUES\n\n\
         {durability}\n\
         {top}Ctrl-C ends it.\n"
    )
}
