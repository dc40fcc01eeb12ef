//! The server as a contestant: as `nearfield serve` runs it, with no other options.

use clap::Args;
use nearfield_server::config::Options;
use nearfield_server::net;
use nearfield_server::server::Server;
use std::process::ExitCode;

/// Serve Redis clients while they are measured.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The port to listen on.
    #[arg(long)]
    port: u16,
    /// Threads that serve connections.
    #[arg(long)]
    threads: usize,
}

/// Serves until the process is ended.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let server = Server::new(Options {
        port: arguments.port,
        threads: arguments.threads,
        ..Options::default()
    });
    match net::serve(&server, |_| ()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nearfield-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
