//! `nearfield-bench adm-commands`: the load of a bench of ADM, as commands for a server.

use crate::measuring::{fail, reject};
use clap::Args;
use nearfield_lab::error::LabError;
use nearfield_lab::figures::{AdmCommands, AdmScale};
use nearfield_lab::parse_quantity;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::process::ExitCode;

/// Print a bench of ADM as commands in the protocol of Redis.
///
/// First all objects are loaded, in shuffled order, and then requested. Keys, sizes and shares of
/// sets are those of the models of `figures adm`. redis-cli sends the commands to any server:
///
///     nearfield-bench adm-commands --bench 1 --type hash | redis-cli -p 6399 --pipe
#[derive(Debug, Args)]
pub(crate) struct AdmCommandsArguments {
    /// The bench of the paper: 1 to 5
    #[arg(long, value_name = "N", default_value_t = 1)]
    bench: u32,

    /// The type of the objects: string, list, zset or hash
    #[arg(long = "type", value_name = "TYPE", default_value = "string")]
    kind: String,

    /// Number of objects
    #[arg(long, value_name = "N", default_value = "100k", value_parser = count)]
    count: u64,

    /// Number of requests for each object
    #[arg(long, value_name = "N", default_value_t = 100)]
    requests: usize,
}

fn count(text: &str) -> Result<u64, LabError> {
    parse_quantity("number of objects", text)
}

fn commands(arguments: &AdmCommandsArguments) -> Result<AdmCommands, LabError> {
    let scale = AdmScale {
        requests_per_object: arguments.requests,
        ..AdmScale::full().with_keys(arguments.count)?
    };
    AdmCommands::new(&scale, arguments.bench, &arguments.kind)
}

fn write(out: &mut impl Write, words: &[Vec<u8>]) -> io::Result<()> {
    write!(out, "*{}\r\n", words.len())?;
    for word in words {
        write!(out, "${}\r\n", word.len())?;
        out.write_all(word)?;
        out.write_all(b"\r\n")?;
    }
    Ok(())
}

/// Prints the commands and returns the exit code.
pub(crate) fn run(arguments: &AdmCommandsArguments) -> ExitCode {
    let commands = commands(arguments).unwrap_or_else(|error| reject(error));
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let written = commands.each(|words| write(&mut out, words));
    match written.and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(error),
    }
}
