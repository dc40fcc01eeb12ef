//! The server as a contestant: runs as `nearfield serve` does, with the options that contests need.

use crate::measuring::fail;
use clap::Args;
use nearfield_server::config::{Durability, Options};
use nearfield_server::log::Policy;
use nearfield_server::net;
use nearfield_server::server::Server;
use nearfield_tiers::Specification;
use std::path::PathBuf;
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
    /// Log changes into this folder, and sync them each second.
    #[arg(long)]
    log: Option<PathBuf>,
    /// Tiers, the fastest first.
    #[arg(long)]
    tier: Vec<Specification>,
}

/// Serves until the process is ended.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let server = match options(arguments) {
        Ok(options) => Server::new(options),
        Err(error) => return fail(error),
    };
    match net::serve(&server, |_| ()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(error),
    }
}

fn options(arguments: &Arguments) -> Result<Options, String> {
    let mut options = Options {
        port: arguments.port.into(),
        threads: arguments.threads,
        ..Options::default()
    };
    if let Some(folder) = &arguments.log {
        options.persistence = Durability {
            directory: Some(folder.clone()),
            log: Some(true),
            policy: Some(Policy::EverySecond),
            ..options.persistence
        };
        // The rivals do not rewrite their logs either.
        let never = "0".to_owned();
        let added = options.settings.add("auto-aof-rewrite-percentage", never);
        added.map_err(|why| why.to_string())?;
    }
    options.open_tiers(&arguments.tier)?;
    Ok(options)
}
