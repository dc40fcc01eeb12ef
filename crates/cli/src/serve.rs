//! `nearfield serve`: Redis clients in front of the ordered keyspace.

use clap::Args;
use nearfield_server::server::{Options, Server};
use std::net::IpAddr;
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
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> ExitCode {
    let mut options = Options {
        bind: arguments.bind.clone(),
        port: arguments.port,
        ..Options::default()
    };
    if let Some(threads) = arguments.threads {
        options.threads = threads;
    }
    let server = Server::new(options);
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
