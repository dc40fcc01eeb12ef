//! The `nearfield-attack` command.

#![forbid(unsafe_code)]

use clap::{Args, Parser, Subcommand};
use nearfield_attack::campaign::{self, CampaignOrders, CampaignProgress};
use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Attack a Nearfield server.
#[derive(Debug, Parser)]
#[command(name = "nearfield-attack", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Streams(StreamArguments),
}

/// Send mutated byte streams to a server with small limits, and watch it.
#[derive(Debug, Args)]
struct StreamArguments {
    /// The server's program [default: `nearfield` beside this program].
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
    /// The seed of all streams [default: one by chance].
    #[arg(long)]
    seed: Option<u64>,
    /// The number of the first stream.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    first: u64,
    /// How many streams are sent.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    streams: u64,
    /// The number of the only start with damaged files that there is, without streams.
    #[arg(long, value_name = "NUMBER")]
    only_start: Option<u64>,
    /// The longest that streams are sent.
    #[arg(long)]
    seconds: Option<u64>,
    /// The server's maxmemory.
    #[arg(long, value_name = "MIB", default_value_t = 128)]
    memory_mib: u64,
    /// Allow more resident memory than 1.2 times maxmemory and 64 MiB, as sanitizers need.
    #[arg(long)]
    any_memory: bool,
    /// Threads that send streams.
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    attackers: usize,
    /// The file that the result is written to as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The folder for what a failure leaves.
    #[arg(long, value_name = "FOLDER", default_value = "target/attack")]
    kept: PathBuf,
}

fn main() -> ExitCode {
    let Cli {
        command: Command::Streams(arguments),
    } = Cli::parse();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("nearfield-attack: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &StreamArguments) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    let by_signal = Arc::clone(&stop);
    ctrlc::set_handler(move || by_signal.store(true, Ordering::Relaxed))?;
    let orders = CampaignOrders {
        program: match &arguments.server {
            Some(program) => program.clone(),
            None => std::env::current_exe()?.with_file_name("nearfield"),
        },
        kept: arguments.kept.clone(),
        seed: arguments
            .seed
            .unwrap_or_else(|| rand::random::<u64>() >> 24),
        first: arguments.first,
        streams: arguments.streams,
        only_start: arguments.only_start,
        time: arguments.seconds.map_or(Duration::MAX, Duration::from_secs),
        memory_bytes: arguments.memory_mib << 20,
        bounds_memory: !arguments.any_memory,
        attackers: arguments.attackers.max(1),
        ..CampaignOrders::default()
    };
    let shown = Cell::new(Instant::now());
    let show = |progress: CampaignProgress| show(&shown, orders.streams, progress);
    let outcome = campaign::run(&orders, &stop, &show)?;
    eprintln!();
    print!("{outcome}");
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_vec_pretty(&outcome)?)?;
    }
    Ok(ExitCode::from(u8::from(outcome.fault.is_some())))
}

/// Writes a line now and then; on a terminal, over the one before.
fn show(shown: &Cell<Instant>, streams: u64, progress: CampaignProgress) {
    let is_terminal = std::io::stderr().is_terminal();
    let pause = Duration::from_secs(if is_terminal { 1 } else { 10 });
    if shown.get().elapsed() < pause {
        return;
    }
    shown.set(Instant::now());
    let end = if is_terminal { "\r" } else { "\n" };
    eprint!(
        "{:>5} s  {:>9} of {streams} streams  {:>5} MiB{end}",
        progress.elapsed.as_secs(),
        progress.streams,
        progress.resident_mib,
    );
    let _ = std::io::stderr().flush();
}
