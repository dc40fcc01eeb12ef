//! `nearfield-bench bench-applications`: applications on traversal programs and on competing
//! deployments.

use crate::measuring::{fail, interrupt, interrupted, print, print_machine};
use clap::Args;
use nearfield_lab::harness::{Interrupt, MachineProperties, commit};
use nearfield_lab::offload::{
    ApplicationError, ApplicationsPlan, DeploymentResult, measure_applications,
};
use nearfield_lab::parse_quantity;
use nearfield_lab::report::{NumberOrigin, ReportRow, ReportSink};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Measure applications with data at a memory node: a web service, an ordered table and a time
/// series, on traversal programs, on paging, and on calls of native code.
///
/// The memory nodes are in this process, and all requests go to them by UDP on the loopback
/// interface. On several nodes, data is stored in slabs at each of them in turn; programs go from
/// node to node through a switch, "programs, returning" by way of the caller, and so do the calls
/// of RPC. Every result is checked. "RPC on a slow core" is modelled; all else is measured.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct BenchApplicationsArguments {
    /// Keys of each application
    #[arg(long, value_name = "N", default_value = "2M", value_parser = keys)]
    keys: u64,

    /// Memory nodes that hold the data; several are behind a switch
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=16))]
    nodes: u16,

    /// Concurrent callers, for rates
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    callers: u16,

    /// Number of turns of each contestant
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,

    /// Length of a turn
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    seconds: Duration,

    /// 100,000 keys and short turns: tries the command in less than a minute
    #[arg(long, conflicts_with_all = ["keys", "rounds", "seconds"])]
    quick: bool,

    /// Write the measurements to this file, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  nearfield-bench bench-applications
      2 million keys of each application; about six minutes.
  nearfield-bench bench-applications --nodes 4
      The same on four memory nodes.
  nearfield-bench bench-applications --quick --json applications.json
      A quick try of the command, and its rows for programs.";

const QUICK: ApplicationsPlan = ApplicationsPlan {
    keys: 100_000,
    nodes: 1,
    callers: 8,
    rounds: 1,
    turn: Duration::from_millis(300),
};

/// The content of the JSON report.
#[derive(Debug, Serialize)]
struct BenchApplicationsReport {
    commit: String,
    machine: MachineProperties,
    applications: Vec<ReportRow<DeploymentResult>>,
    complete: bool,
}

fn keys(text: &str) -> Result<u64, String> {
    let keys = parse_quantity("count", text).map_err(|error| error.to_string())?;
    match keys {
        10_000..=100_000_000 => Ok(keys),
        _ => Err(String::from("allowed are 10,000 to 100 million")),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "is not a number".to_owned())?;
    match seconds {
        0.01..=1000.0 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(String::from("allowed are 0.01 to 1000")),
    }
}

/// Measures and returns the exit code: 0, 1 for a failure, 130 for Ctrl-C.
pub(crate) fn run(arguments: &BenchApplicationsArguments) -> ExitCode {
    let interrupt = interrupt("the rows of the present application");
    match report(arguments, &interrupt) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref() {
            Some(ApplicationError::Interrupted) => interrupted("the rows above are finished"),
            _ => fail(error),
        },
    }
}

fn report(
    arguments: &BenchApplicationsArguments,
    interrupt: &Interrupt,
) -> Result<(), Box<dyn std::error::Error>> {
    let sink = ReportSink::open(arguments.json.as_deref(), None)?;
    let (nodes, callers) = (arguments.nodes.into(), arguments.callers.into());
    let plan = match arguments.quick {
        true => ApplicationsPlan {
            nodes,
            callers,
            ..QUICK
        },
        false => ApplicationsPlan {
            keys: arguments.keys,
            nodes,
            callers,
            rounds: arguments.rounds.into(),
            turn: arguments.seconds,
        },
    };
    debug_assert!(plan.nodes > 0 && plan.callers > 0 && plan.rounds > 0);
    print(&format!(
        "{:<17} {:<20} {:>12} {:>11} {:>11} {:>11} {:>13} {:>8} {:>12}",
        "application",
        "data by",
        "requests/s",
        "p50",
        "p99",
        "nodes' time",
        "round trips",
        "visits",
        "on the wire"
    ));
    let mut report = BenchApplicationsReport {
        commit: commit(),
        machine: MachineProperties::here(),
        applications: Vec::new(),
        complete: false,
    };
    let show_step = &mut |step: &str| eprintln!("{step}");
    let measured = measure_applications(&plan, interrupt, show_step, &mut |rows| {
        rows.iter().for_each(show);
        report.applications.extend_from_slice(rows);
    });
    report.complete = measured.is_ok();
    // Also after a failure, with the rows that were measured before it.
    sink.write(&report, String::new)?;
    measured?;
    print(&format!(
        "{} callers for rates, one for latencies. The nodes' time is that of their processor; \
         visits are the number of times that a node works for a request.",
        plan.callers
    ));
    print_machine(&report.machine);
    Ok(())
}

fn show(row: &ReportRow<DeploymentResult>) {
    let detail = &row.detail;
    let shown = |value: Option<f64>, digits: usize, unit: &str| match value {
        Some(value) => format!("{value:.digits$}{unit}"),
        None => String::from("-"),
    };
    let latency = |of: fn(&nearfield_lab::harness::LatencySummary) -> u64| {
        let nanoseconds = row.latency_ns.as_ref().map(|latency| of(latency) as f64);
        shown(nanoseconds.map(|nanoseconds| nanoseconds / 1e3), 1, " µs")
    };
    let modelled = match row.kind {
        NumberOrigin::Modelled => "  modelled",
        NumberOrigin::Measured | NumberOrigin::Counted => "",
    };
    print(&format!(
        "{:<17} {:<20} {:>12} {:>11} {:>11} {:>11} {:>13} {:>8} {:>12}{modelled}",
        detail.application,
        row.peer,
        shown(row.rate_mops.map(|mops| mops * 1e6), 0, ""),
        latency(|latency| latency.p50),
        latency(|latency| latency.p99),
        shown(detail.node_us, 1, " µs"),
        shown(detail.round_trips, 2, ""),
        shown(detail.visits, 2, ""),
        shown(detail.wire_bytes, 0, " B"),
    ));
}
