//! The commands that measure. They belong to another program, which is not built with the server.

use clap::Args;
use std::ffi::OsString;
use std::process::{Command, ExitCode};

/// The name of the other program.
const PROGRAM: &str = "nearfield-bench";

/// The arguments for the other program.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct ForwardedArguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(hide = true)]
    rest: Vec<OsString>,
}

/// Runs a command of the other program, which is expected in the folder of this one.
pub fn run(command: &str, arguments: &ForwardedArguments) -> ExitCode {
    let beside = std::env::current_exe().map(|program| program.with_file_name(PROGRAM));
    let Some(program) = beside.ok().filter(|program| program.exists()) else {
        eprintln!(
            "nearfield: `{command}` is a command of the program {PROGRAM}, which is not beside \
             this one. In the source tree, run\n\n    cargo run --release -p {PROGRAM} -- \
             {command}\n"
        );
        return ExitCode::FAILURE;
    };
    let mut other = Command::new(&program);
    other.arg(command).args(&arguments.rest);
    match run_in_place(other) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("nearfield: cannot run {}: {error}", program.display());
            ExitCode::FAILURE
        }
    }
}

/// Replaces this process by the program, so that signals reach it.
#[cfg(unix)]
fn run_in_place(mut program: Command) -> std::io::Result<ExitCode> {
    Err(std::os::unix::process::CommandExt::exec(&mut program))
}

#[cfg(not(unix))]
fn run_in_place(mut program: Command) -> std::io::Result<ExitCode> {
    let code = program.status()?.code().unwrap_or(1);
    Ok(ExitCode::from(code as u8))
}
