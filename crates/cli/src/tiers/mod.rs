//! `nearfield tiers`: commands on memory tiers.

mod advise;

use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Show what tiers of compressed memory and of files would save.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Advise(advise::Arguments),
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> ExitCode {
    match &arguments.command {
        Command::Advise(arguments) => advise::run(arguments),
    }
}
