//! `nearfield bench-offload`: traversal programs on a core of a memory node.

use crate::measuring::{fail, interrupt, interrupted, print};
use clap::Args;
use nearfield_lab::error::LabError;
use nearfield_lab::figures::Claim;
use nearfield_lab::harness::{Interrupt, Machine, commit};
use nearfield_lab::offload::{Lookups, OffloadError, Plan, claims, measure};
use nearfield_lab::parse_quantity;
use nearfield_lab::report::{Row, Sink};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Measure traversal programs on one core of a memory node: look-ups in a hash table and in a
/// binary tree by native code, one at a time and interleaved, beside interleaved code that was
/// written by hand for the structure.
///
/// Times are CPU times of the thread. The contestants have their turns one after the other, with
/// the same keys; the median of the rounds counts, of ratios too.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Bytes over which the nodes are spread
    #[arg(long, value_name = "N", default_value = "4Gi", value_parser = count)]
    bytes: u64,

    /// How many traversals are interleaved
    #[arg(long, value_name = "N", default_value_t = nearfield_lab::offload::SLOTS as u16)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    slots: u16,

    /// How often each contestant has its turn
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,

    /// How long a turn is
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    seconds: Duration,

    /// 64 MiB and short turns: a look at the command in seconds, mostly in the processor's caches
    #[arg(long, conflicts_with_all = ["bytes", "rounds", "seconds"])]
    quick: bool,

    /// Write the measurements to this file, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  nearfield bench-offload
      Nodes spread over 4 GiB of memory in /dev/shm; about a minute.
  nearfield bench-offload --quick
      A look at the command; mostly in the processor's caches, so the ratios say little.";

const QUICK_TURN: Duration = Duration::from_millis(50);

/// The content of the file.
#[derive(Debug, Serialize)]
struct Report {
    commit: String,
    machine: Machine,
    lookups: Vec<Row<Lookups>>,
    claims: Vec<Claim>,
    complete: bool,
}

/// As elsewhere `1G` is 10^9; `1Gi` is 2^30.
fn count(text: &str) -> Result<u64, LabError> {
    match text.strip_suffix("Gi") {
        Some(gibibytes) => parse_quantity("count", gibibytes).map(|count| count << 30),
        None => parse_quantity("count", text),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "is no number".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Measures, and answers how it ended: 0, 1 for a failure, 130 for Ctrl-C.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let interrupt = interrupt("all rows");
    match report(arguments, &interrupt) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref() {
            Some(OffloadError::Interrupted) => interrupted("nothing was finished before"),
            _ => fail(error),
        },
    }
}

fn report(arguments: &Arguments, interrupt: &Interrupt) -> Result<(), Box<dyn std::error::Error>> {
    let sink = Sink::open(arguments.json.as_deref(), None)?;
    let plan = Plan {
        bytes: if arguments.quick {
            64 << 20
        } else {
            arguments.bytes
        },
        slots: arguments.slots.into(),
        rounds: if arguments.quick {
            3
        } else {
            arguments.rounds.into()
        },
        turn: if arguments.quick {
            QUICK_TURN
        } else {
            arguments.seconds
        },
    };
    let lookups = measure(&plan, interrupt, &mut |step| eprintln!("{step}"))?;
    print(&format!(
        "{:<12} {:>10} {:>10} {:>15} {:>12} {:>10} {:>6} {:>11}",
        "look-ups",
        "nodes",
        "iterations",
        "one at a time",
        "interleaved",
        "by hand",
        "gain",
        "of by hand"
    ));
    for row in &lookups {
        let row = &row.detail;
        print(&format!(
            "{:<12} {:>10} {:>10.2} {:>12.0} ns {:>9.0} ns {:>7.0} ns {:>5.1}x {:>10.2}x",
            row.structure,
            row.nodes,
            row.iterations,
            row.one_at_a_time_ns,
            row.interleaved_ns,
            row.by_hand_ns,
            row.interleaving_gain,
            row.of_by_hand
        ));
        if row.huge_page_bytes < row.bytes / 10 * 9 {
            print(&format!(
                "  note: only {} MiB lie in pages of 2 MiB; small pages are slower for all",
                row.huge_page_bytes >> 20
            ));
        }
    }
    let report = Report {
        commit: commit(),
        machine: Machine::here(),
        claims: claims(&lookups),
        lookups,
        complete: true,
    };
    for claim in &report.claims {
        if let Some(ours) = claim.ours {
            print(&format!("{:<18} {ours:>5.2}{}", claim.id, claim.unit));
        }
    }
    sink.write(&report, String::new)?;
    print(&format!(
        "{}, {}",
        report.machine.cpu, report.machine.kernel
    ));
    Ok(())
}
