//! `nearfield tiers`: commands on memory tiers.

mod advise;

use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Show what tiers of compressed memory and of files would save.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct TiersArguments {
    #[command(subcommand)]
    command: TiersCommand,
}

#[derive(Debug, Subcommand)]
enum TiersCommand {
    Advise(advise::AdviseArguments),
}

/// Runs the command.
pub fn run(arguments: &TiersArguments) -> ExitCode {
    match &arguments.command {
        TiersCommand::Advise(arguments) => advise::run(arguments),
    }
}
