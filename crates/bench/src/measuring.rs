//! What the commands that measure share: how they stop early, and how they end.

use clap::CommandFactory;
use clap::error::ErrorKind;
use nearfield_lab::harness::Interrupt;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// What a shell reports for a program ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// An interrupt that Ctrl-C raises; says what is lost where it cannot.
pub(crate) fn interrupt(lost: &str) -> Interrupt {
    let interrupt = Interrupt::default();
    let handler = interrupt.clone();
    if let Err(error) = ctrlc::set_handler(move || handler.raise()) {
        eprintln!("note: Ctrl-C will lose {lost}: {error}");
    }
    interrupt
}

/// Prints a line. A reader that has gone away, such as `head`, is no reason to stop: the reports
/// are still wanted.
pub(crate) fn print(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Ends with 1.
pub(crate) fn fail(error: impl Display) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}

/// Ends with 130, and says what was finished before.
pub(crate) fn interrupted(kept: &str) -> ExitCode {
    eprintln!("interrupted; {kept}");
    ExitCode::from(INTERRUPTED)
}

/// Refuses a flag, as clap refuses those that it understands itself.
pub(crate) fn reject(message: impl Display) -> ! {
    crate::Cli::command()
        .error(ErrorKind::ValueValidation, message)
        .exit()
}
