//! `nearfield program`: commands on traversal programs.

mod check;
mod run;
mod source;

use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Check traversal programs in C, and run them on memory nodes.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct ProgramArguments {
    #[command(subcommand)]
    command: ProgramCommand,
}

#[derive(Debug, Subcommand)]
enum ProgramCommand {
    Check(check::ProgramCheckArguments),
    Run(run::ProgramRunArguments),
}

/// Runs the command. Returns the exit code.
pub(crate) fn run(arguments: &ProgramArguments) -> ExitCode {
    let result = match &arguments.command {
        ProgramCommand::Check(arguments) => check::run(arguments),
        ProgramCommand::Run(arguments) => run::run(arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
