//! The server as a contestant: runs as `nearfield serve` does, with the options that contests need.

use crate::measuring::fail;
use clap::Args;
use nearfield_server::commands::TABLE;
use nearfield_server::config::{Durability, ServerOptions};
use nearfield_server::log::LogSyncPolicy;
use nearfield_server::net;
use nearfield_server::server::ServerCore;
use nearfield_tiers::Specification;
use std::path::PathBuf;
use std::process::ExitCode;

/// Serve Redis clients while they are measured.
#[derive(Debug, Args)]
pub(crate) struct BenchServeArguments {
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
pub(crate) fn run(arguments: &BenchServeArguments) -> ExitCode {
    let server = match options(arguments) {
        Ok(options) => ServerCore::new(TABLE.registry(), options),
        Err(error) => return fail(error),
    };
    match net::serve(&server, |_| ()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(error),
    }
}

fn options(arguments: &BenchServeArguments) -> Result<ServerOptions, String> {
    let mut options = ServerOptions {
        port: arguments.port.into(),
        threads: arguments.threads,
        ..ServerOptions::default()
    };
    if let Some(folder) = &arguments.log {
        options.persistence = Durability {
            directory: Some(folder.clone()),
            log: Some(true),
            policy: Some(LogSyncPolicy::EverySecond),
            ..options.persistence
        };
        // The rivals do not rewrite their logs either.
        let never = "0".to_owned();
        let added = options.settings.add("auto-aof-rewrite-percentage", never);
        added.map_err(|error| error.to_string())?;
    }
    options.open_tiers(&arguments.tier)?;
    Ok(options)
}
