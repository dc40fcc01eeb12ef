//! Interrupts, flags and exit codes that the measuring commands share.

use clap::CommandFactory;
use clap::error::ErrorKind;
use nearfield_lab::harness::{Interrupt, MachineProperties};
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

/// The exit code that a shell reports for a program ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Creates an interrupt that Ctrl-C raises. If that is impossible, prints that Ctrl-C will lose
/// `lost`.
pub(crate) fn interrupt(lost: &str) -> Interrupt {
    let interrupt = Interrupt::default();
    let handler = interrupt.clone();
    // A measurement without a handler is still worth its results.
    if let Err(error) = ctrlc::set_handler(move || handler.raise()) {
        eprintln!("note: Ctrl-C will lose {lost}: {error}");
    }
    interrupt
}

/// Prints a line.
pub(crate) fn print(line: &str) {
    // A reader that has gone away, such as `head`, is no reason to stop: the reports are still
    // wanted.
    let _ = writeln!(io::stdout(), "{line}");
}

/// Prints the machine of a report.
pub(crate) fn print_machine(machine: &MachineProperties) {
    print(&format!("{}, {}", machine.cpu, machine.kernel));
}

/// Parses a time in seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "is not a number".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Prints the error and returns exit code 1.
pub(crate) fn fail(error: impl Display) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}

/// Prints which results were finished before, and returns exit code 130.
pub(crate) fn interrupted(finished: &str) -> ExitCode {
    eprintln!("interrupted; {finished}");
    ExitCode::from(INTERRUPTED)
}

/// Refuses a flag in the same format as clap, and ends the process.
pub(crate) fn reject(message: impl Display) -> ! {
    crate::BenchCli::command()
        .error(ErrorKind::ValueValidation, message)
        .exit()
}
