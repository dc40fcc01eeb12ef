//! `nearfield-bench bench-server`: the server, Redis and similar servers under the same load.

use crate::measuring::{fail, interrupt};
use clap::Args;
use nearfield_lab::error::LabError;
use nearfield_lab::harness::{MachineProperties, commit};
use nearfield_lab::parse_quantity;
use nearfield_lab::report::ReportSink;
use nearfield_lab::server::{
    Contest, Entrant, Row, ServerKeySpec, ServerProgram, ServerTaskKind, contest, render,
};
use serde::Serialize;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Measure the server and its rivals: processor time for an operation, and latency.
///
/// All servers run as processes on this machine, without persistence, and are loaded in turn within
/// the same minute. Processor times are comparable on a machine with shared cores; throughput is
/// comparable only if the load generator does not limit it.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct BenchServerArguments {
    /// The commands: mixed (one SET to nine GETs), set, get, setex, mget (of 16 keys), mset (of
    /// 10), set-get, del (and as many SETs), exists, incr, fcall (of a function that reads one
    /// key), knearest (with rivals that know it), zadd, zrangebyscore, lpush, lrange, hset, hget
    #[arg(
        long,
        value_name = "TASK,…",
        value_delimiter = ',',
        default_value = "mixed"
    )]
    task: Vec<ServerTaskKind>,

    /// Keys of the tasks up to knearest; the others have a million members or a hundred thousand
    /// fields of one key
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "100k"
    )]
    #[arg(value_parser = count)]
    keys: Vec<u64>,

    /// Bytes of a key, of a member and of a field, at least 8
    #[arg(
        long,
        value_name = "N",
        default_value_t = ServerKeySpec::BYTES_MIN,
        value_parser = key_bytes
    )]
    key_bytes: usize,

    /// Bytes of a value
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "32")]
    value_bytes: Vec<usize>,

    /// Make all servers log changes, and sync the log each second. The logs are written to the
    /// temporary folder, TMPDIR, and are not rewritten while they grow
    #[arg(long)]
    appendonly: bool,

    /// Requests that a connection sends at once
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "1,16,128"
    )]
    pipeline: Vec<usize>,

    /// Connections
    #[arg(long, value_name = "N", default_value_t = 20)]
    connections: usize,

    /// Threads of Nearfield's server; one contestant for each number
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1")]
    threads: Vec<usize>,

    /// Number of measurements of each server
    #[arg(long, value_name = "N", default_value_t = 5)]
    repetitions: usize,

    /// Duration of each measurement, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    slice: f64,

    /// The programs to compare with; each has the flags of redis-server
    #[arg(
        long,
        value_name = "PATH,…",
        value_delimiter = ',',
        default_value = "redis-server"
    )]
    rival: Vec<PathBuf>,

    /// Write the measurements to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  nearfield-bench bench-server
      100,000 keys, pipelines of 1, 16 and 128.
  nearfield-bench bench-server --keys 10M --pipeline 16,128
      Ten million keys, too many for a cache. Loads for a minute, takes 2 GB.
  nearfield-bench bench-server --task mget,del,exists,incr --pipeline 16
      Commands that become batches on the index.
  nearfield-bench bench-server --task zadd,zrangebyscore,lpush,lrange,hset,hget --pipeline 16
      Typed keys.
  nearfield-bench bench-server --task xadd,xreadgroup,pfadd,geosearch --pipeline 16
      Streams, HyperLogLogs and places.
  nearfield-bench bench-server --keys 10M --value-bytes 8 --repetitions 1
      Memory for each key, in the last column.
  nearfield-bench bench-server --rival ./valkey-server,redis-server --task set,get --key-bytes 16
      Two rivals in the same run.
  nearfield-bench bench-server --task set --appendonly
      The cost of the log of changes.";

/// The content of the JSON report.
#[derive(Debug, Serialize)]
struct BenchServerReport {
    commit: String,
    machine: MachineProperties,
    rows: Vec<Row>,
}

fn count(text: &str) -> Result<u64, LabError> {
    parse_quantity("number of keys", text)
}

fn key_bytes(text: &str) -> Result<usize, String> {
    let bytes = text.parse().map_err(|error| format!("{error}"))?;
    if bytes < ServerKeySpec::BYTES_MIN {
        return Err(format!(
            "keys have at least {} bytes",
            ServerKeySpec::BYTES_MIN
        ));
    }
    Ok(bytes)
}

/// Measures and returns the exit code.
pub(crate) fn run(arguments: &BenchServerArguments) -> ExitCode {
    match measure(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(error),
    }
}

fn measure(arguments: &BenchServerArguments) -> Result<(), Box<dyn std::error::Error>> {
    let sink = ReportSink::open(arguments.json.as_deref(), None)?;
    let interrupt = interrupt("the present task");
    let mut report = BenchServerReport {
        commit: commit(),
        machine: MachineProperties::here(),
        rows: Vec::new(),
    };
    let machine = &report.machine;
    println!(
        "{}, {} cores, {}",
        machine.cpu, machine.cores, machine.kernel
    );
    println!("commit {}\n", report.commit);
    let entrants = entrants(arguments);
    for plan in plans(arguments) {
        contest(&plan, &entrants, &interrupt, show, |rows| {
            show(String::new());
            println!("{}", render(rows));
            report.rows.extend_from_slice(rows);
        })?;
        show(String::new());
        // Before the check, so that an interrupt keeps the finished rows.
        sink.write(&report, String::new)?;
        if interrupt.is_raised() {
            return Err("interrupted; the report has the finished rows".into());
        }
    }
    Ok(())
}

/// Returns the contests, one for each task, number of keys and size of values.
fn plans(arguments: &BenchServerArguments) -> Vec<Contest> {
    debug_assert!(arguments.key_bytes >= ServerKeySpec::BYTES_MIN);
    let mut plans = Vec::new();
    for &task in &arguments.task {
        debug_assert!(!arguments.keys.is_empty(), "the flag has a default");
        // A task on one key would have the same contest for each number of keys.
        let counts = match task.has_many_keys() {
            true => &arguments.keys[..],
            false => &arguments.keys[..1],
        };
        for &count in counts {
            plans.extend(arguments.value_bytes.iter().map(|&value_bytes| Contest {
                task,
                keys: ServerKeySpec {
                    count,
                    bytes: arguments.key_bytes,
                },
                value_bytes,
                appendonly: arguments.appendonly,
                connections: arguments.connections,
                pipelines: arguments.pipeline.clone(),
                repetitions: arguments.repetitions,
                slice: Duration::from_secs_f64(arguments.slice),
            }));
        }
    }
    plans
}

/// Shows the present step in place of the former one if standard error is a terminal.
fn show(step: String) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{step}");
    }
}

fn entrants(arguments: &BenchServerArguments) -> Vec<Entrant> {
    let ours = arguments.threads.iter().map(|&threads| Entrant {
        name: match threads {
            1 => "nearfield".to_owned(),
            threads => format!("nearfield, {threads} threads"),
        },
        program: ServerProgram::Own { threads },
    });
    let rivals = arguments.rival.iter().map(|path| Entrant {
        name: path.display().to_string(),
        program: ServerProgram::Redis(path.clone()),
    });
    // Ratios are to the first entrant.
    ours.chain(rivals).collect()
}
