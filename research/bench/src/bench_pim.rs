//! `nearfield-bench bench-pim`: a map in modules that are threads, compared with a skip list that
//! threads share.

use crate::measuring::{fail, interrupt, interrupted, print, seconds};
use clap::Args;
use nearfield::{OrderedMap, Pim, Words};
use nearfield_lab::error::LabError;
use nearfield_lab::figures::skip_list::{self, PimBenchPlan, Row};
use nearfield_lab::parse_quantity;
use nearfield_lab::report::ReportSink;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

type Failure = Box<dyn std::error::Error>;

/// Measure a map of words in modules that are worker threads, and a skip list that threads share.
///
/// Both are loaded with the same random keys of 8 bytes, in no order: the map by batches,
/// crossbeam's skip list by one thread for each core. Then they run the same operations in turns:
/// uniform gets; and half gets, half updates in place, of keys by Zipf's distribution, over 2048
/// segments of the sorted keys (seg-fixed:ALPHA) or over single keys, scattered (key-zipf:ALPHA).
/// The median of the turns counts. Every result is checked.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct BenchPimArguments {
    /// Number of keys, such as 300k or 20M
    #[arg(long, value_name = "N", default_value = "20M", value_parser = count)]
    keys: u64,

    /// Operations in a batch of the map
    #[arg(long, value_name = "N", default_value_t = 65_536)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    batch: u32,

    /// Number of turns of each of the two, in each workload
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Length of a turn
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    seconds: Duration,

    /// Write the measurements to this file, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  nearfield-bench bench-pim
      20 million keys; about two minutes after the load.
  nearfield-bench bench-pim --keys 1M --seconds 0.5 --rounds 3
      A first look.
  nearfield-bench bench-pim --batch 4096 --json pim.json
      With smaller batches, and every turn in a file.";

fn count(text: &str) -> Result<u64, LabError> {
    parse_quantity("number of keys", text)
}

/// Measures and returns the exit code: 0, 1 for a failure, 130 for Ctrl-C.
pub(crate) fn run(arguments: &BenchPimArguments) -> ExitCode {
    match measure(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => interrupted("the rows above were finished before"),
        Err(error) => fail(error),
    }
}

/// Measures and prints all rows. Returns false if it was interrupted.
fn measure(arguments: &BenchPimArguments) -> Result<bool, Failure> {
    let sink = ReportSink::open(arguments.json.as_deref(), None)?;
    let interrupt = interrupt("all rows");
    let map = OrderedMap::<Words>::builder().pim(Pim::workers()).build()?;
    let plan = PimBenchPlan {
        keys: arguments.keys,
        batch: arguments.batch as usize,
        rounds: arguments.rounds as usize,
        turn: arguments.seconds,
    };
    debug_assert!(plan.rounds > 0 && plan.batch > 0, "the flags have bounds");
    print(&format!(
        "{:<30} {:>12} {:>7} {:>14} {:>7} {:>6}",
        "workload", "modules M/s", "spread", "skip list M/s", "spread", "ratio"
    ));
    let report = skip_list::run(&map, &plan, &interrupt, &mut |row| print(&line(row)))?;
    print(&format!(
        "{} keys, batches of {}, {} threads, {} turns of {} s each; {}",
        report.keys,
        report.batch,
        report.threads,
        report.rounds,
        report.turn_seconds,
        report.machine.cpu
    ));
    sink.write(&report, String::new)?;
    Ok(report.complete)
}

fn line(row: &Row) -> String {
    let sides = &row.detail;
    let (modules, skip_list) = (&sides.modules, &sides.skip_list);
    format!(
        "{:<30} {:>12.3} {:>6.0}% {:>14.3} {:>6.0}% {:>6.2}",
        sides.workload,
        modules.median_mops,
        modules.spread * 100.0,
        skip_list.median_mops,
        skip_list.spread * 100.0,
        sides.ratio
    )
}
