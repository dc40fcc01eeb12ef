//! `nearfield serve`: Redis clients in front of the ordered keyspace.

use clap::Args;
use nearfield_server::server::{Options, Server};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Serve Redis clients.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The port to listen on.
    #[arg(long, default_value_t = 6399)]
    port: u16,
    /// The address to listen on; may be given several times.
    #[arg(long, default_value = "127.0.0.1")]
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
    /// Whether connections from other machines are refused while there is no password.
    #[arg(long, value_name = "yes|no", default_value = "yes", value_parser = yes_or_no)]
    protected_mode: bool,
}

fn yes_or_no(word: &str) -> Result<bool, String> {
    match word {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("it is yes or no".to_owned()),
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> ExitCode {
    let mut options = Options {
        bind: arguments.bind.clone(),
        port: arguments.port,
        password: arguments.requirepass.clone(),
        acl_file: arguments.aclfile.clone(),
        protected: arguments.protected_mode,
        ..Options::default()
    };
    if let Some(threads) = arguments.threads {
        options.threads = threads;
    }
    let server = Server::new(options);
    if arguments.aclfile.as_ref().is_some_and(|file| file.exists())
        && let Err(error) = server.acl.load()
    {
        eprintln!("nearfield: {error}");
        return ExitCode::FAILURE;
    }
    let served = nearfield_server::net::serve(&server, |addresses| {
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
