//! `nearfield serve`: Redis clients in front of the ordered keyspace.

use clap::{Args, ValueEnum};
use nearfield_server::config::Settings;
use nearfield_server::log::Policy;
use nearfield_server::log::load::Damage;
use nearfield_server::persistence;
use nearfield_server::server::{Options, Server};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Serve Redis clients.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A configuration file in the syntax of redis.conf; what is said here comes before it.
    #[arg(long)]
    config: Option<PathBuf>,
    /// The port to listen on [default: 6399].
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
    requirepass: Option<String>,
    /// A file with users, which ACL SAVE and ACL LOAD write and read.
    #[arg(long)]
    aclfile: Option<PathBuf>,
    /// Whether connections from other machines are refused while there is no password [default:
    /// yes].
    #[arg(long, value_enum, value_name = "yes|no")]
    protected_mode: Option<YesNo>,
    /// Where to keep data. Without it nothing is kept, unless --appendonly asks for it; then in
    /// the working directory.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Whether to log what is changed [default: yes if there is a --dir].
    #[arg(long, value_name = "yes|no")]
    appendonly: Option<YesNo>,
    /// When the log goes to the medium [default: everysec].
    #[arg(long, value_enum)]
    appendfsync: Option<Sync>,
    /// Cut the log off where it is damaged, and keep a copy, instead of refusing to start.
    #[arg(long)]
    repair_log: bool,
    /// The memory that may be used, such as 100mb; 0 is no limit.
    #[arg(long, value_name = "BYTES")]
    maxmemory: Option<String>,
    /// Which keys are evicted when more is used: noeviction, allkeys-lru, allkeys-lfu,
    /// allkeys-random, volatile-lru, volatile-lfu, volatile-random or volatile-ttl.
    #[arg(long, value_name = "POLICY")]
    maxmemory_policy: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum YesNo {
    Yes,
    No,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sync {
    /// Before each reply.
    Always,
    /// Each second.
    Everysec,
    /// When the system chooses.
    No,
}

/// What the command line says, and where it says nothing, the configuration file.
fn options(arguments: &Arguments) -> Result<Options, String> {
    let mut options = match &arguments.config {
        Some(file) => {
            let settings = Settings::read(file).map_err(|error| error.to_string())?;
            Options::from_settings(settings)?
        }
        None => Options::default(),
    };
    if !arguments.bind.is_empty() {
        options.bind.clone_from(&arguments.bind);
    }
    options.port = arguments.port.unwrap_or(options.port);
    options.threads = arguments.threads.unwrap_or(options.threads);
    if let Some(choice) = arguments.protected_mode {
        options.protected = matches!(choice, YesNo::Yes);
    }
    if arguments.requirepass.is_some() {
        options.password.clone_from(&arguments.requirepass);
    }
    if arguments.aclfile.is_some() {
        options.acl_file.clone_from(&arguments.aclfile);
    }
    options.persistence = persistence::Options {
        directory: arguments.dir.clone(),
        log: arguments
            .appendonly
            .map(|choice| matches!(choice, YesNo::Yes)),
        policy: arguments.appendfsync.map(|choice| match choice {
            Sync::Always => Policy::Always,
            Sync::Everysec => Policy::EverySecond,
            Sync::No => Policy::No,
        }),
        damage: match arguments.repair_log {
            true => Damage::Repair,
            false => Damage::Refuse,
        },
        ..options.persistence
    };
    let given = [
        ("maxmemory", &arguments.maxmemory),
        ("maxmemory-policy", &arguments.maxmemory_policy),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            let added = options.settings.add(name, value.clone());
            added.map_err(|why| why.to_string())?;
        }
    }
    Ok(options)
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> ExitCode {
    let options = match options(arguments) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("nearfield: {error}");
            return ExitCode::FAILURE;
        }
    };
    let acl_file = options.acl_file.clone();
    let server: &'static Server = Box::leak(Box::new(Server::new(options)));
    if acl_file.is_some_and(|file| file.exists())
        && let Err(error) = server.acl.load()
    {
        eprintln!("nearfield: {error}");
        return ExitCode::FAILURE;
    }
    let is_ready = Arc::new(AtomicBool::new(false));
    let ready = Arc::clone(&is_ready);
    let handler = ctrlc::set_handler(move || {
        // Nothing is to be saved yet while data are loaded.
        if !ready.load(Ordering::Acquire) {
            std::process::exit(130);
        }
        persistence::shut_down(server, None, false);
    });
    if let Err(error) = handler {
        eprintln!("nearfield: signals will stop the server at once: {error}");
    }
    let served = nearfield_server::net::serve(server, |addresses| {
        is_ready.store(true, Ordering::Release);
        let port = addresses.first().map_or(0, |address| address.port());
        println!("Nearfield is ready. Type: redis-cli -p {port}");
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nearfield: {error}");
            ExitCode::FAILURE
        }
    }
}
