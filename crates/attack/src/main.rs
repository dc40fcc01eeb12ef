//! The `nearfield-attack` command.

#![forbid(unsafe_code)]

use clap::{Args, Parser, Subcommand};
use nearfield_attack::campaign::{self, CampaignOrders, CampaignProgress};
use nearfield_attack::limits::{self, LimitOrders, LimitRow};
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
struct AttackCli {
    #[command(subcommand)]
    command: AttackCommand,
}

#[derive(Debug, Subcommand)]
enum AttackCommand {
    Streams(StreamArguments),
    Limits(LimitArguments),
}

/// Measure the cost of clients at the limits of servers, for the servers and for other clients, as
/// a table in Markdown.
#[derive(Debug, Args)]
struct LimitArguments {
    /// The programs of the servers, separated by commas: `nearfield`, and others that take a
    /// configuration file [default: `nearfield` next to this program, and redis-server].
    #[arg(long, value_name = "PATHS", value_delimiter = ',')]
    servers: Vec<PathBuf>,
    /// Divide the numbers of clients, commands and bytes by this.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    divide: usize,
    /// Run only the cases with this text in their names.
    #[arg(long, value_name = "WORDS")]
    only: Option<String>,
    /// The file to which the rows are written as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Send mutated byte streams to a server with small limits, and watch it.
#[derive(Debug, Args)]
struct StreamArguments {
    /// The server's program [default: `nearfield` next to this program].
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
    /// The seed of all streams [default: one by chance].
    #[arg(long)]
    seed: Option<u64>,
    /// The number of the first stream.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    first: u64,
    /// Number of streams to send.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    streams: u64,
    /// The number of the single start with damaged files to execute, without streams.
    #[arg(long, value_name = "NUMBER")]
    only_start: Option<u64>,
    /// The longest time for which streams are sent.
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
    /// The file to which the result is written as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The folder for the files of a failure.
    #[arg(long, value_name = "FOLDER", default_value = "target/attack")]
    kept: PathBuf,
}

fn main() -> ExitCode {
    let ran = match AttackCli::parse().command {
        AttackCommand::Streams(arguments) => run(&arguments),
        AttackCommand::Limits(arguments) => measure(&arguments),
    };
    match ran {
        Ok(code) => code,
        Err(error) => {
            eprintln!("nearfield-attack: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns a flag that Ctrl-C sets.
fn stopped_by_signal() -> Result<Arc<AtomicBool>, ctrlc::Error> {
    let stop = Arc::new(AtomicBool::new(false));
    let by_signal = Arc::clone(&stop);
    ctrlc::set_handler(move || by_signal.store(true, Ordering::Relaxed))?;
    Ok(stop)
}

/// Returns the path of the server's program next to this one.
fn program_beside() -> std::io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("nearfield"))
}

fn measure(arguments: &LimitArguments) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let stop = stopped_by_signal()?;
    let programs = match arguments.servers.is_empty() {
        true => vec![program_beside()?, PathBuf::from("redis-server")],
        false => arguments.servers.clone(),
    };
    let orders = LimitOrders {
        programs,
        divisor: arguments.divide,
        only: arguments.only.clone(),
    };
    let show = |row: &LimitRow| {
        let LimitRow { case, server, .. } = row;
        eprintln!("{server}: {case}: {:.1} s", row.seconds);
    };
    let table = limits::measure(&orders, &stop, &show)?;
    print!("{table}");
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_vec_pretty(&table)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run(arguments: &StreamArguments) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let stop = stopped_by_signal()?;
    let orders = CampaignOrders {
        program: match &arguments.server {
            Some(program) => program.clone(),
            None => program_beside()?,
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

/// Prints a progress line occasionally; on a terminal, over the previous one.
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
