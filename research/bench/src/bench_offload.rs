//! `nearfield-bench bench-offload`: traversal programs on a core of a memory node.

use crate::measuring::{fail, interrupt, interrupted, print, print_machine, seconds};
use clap::Args;
use nearfield_core::byte_size;
use nearfield_lab::figures::PaperClaim;
use nearfield_lab::harness::{Interrupt, MachineProperties, commit};
use nearfield_lab::offload::{
    AggregatePlan, HopsLatency, HopsPlan, LookupPlan, Lookups, OffloadError, PoolAggregate,
    aggregate_claim, claims, hops_claim, measure, measure_aggregate, measure_hops,
};
use nearfield_lab::report::{ReportRow, ReportSink};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Measure traversal programs: lookups on one core of a memory node, aggregates over a map in the
/// pool, and hops from node to node.
///
/// Lookups in a hash table and in a binary tree run as native code, one at a time and interleaved,
/// and are compared with interleaved code that was written by hand for the structure; their times
/// are CPU times of the thread. An aggregate over 10,000 entries of a map over UCX runs at the
/// memory node, and is compared with reading the entries. Scans of an ordered table on two nodes
/// hop through the switch, and are compared with the variant that returns to the caller; as root
/// the machines are network namespaces. The contestants have their turns one after the other, with
/// the same keys; the median of the rounds counts, of ratios too.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct BenchOffloadArguments {
    /// Bytes over which the nodes are spread
    #[arg(long, value_name = "BYTES", default_value = "4gb", value_parser = byte_size)]
    bytes: u64,

    /// Traversals that are interleaved
    #[arg(long, value_name = "N", default_value_t = nearfield_lab::offload::SLOTS as u16)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    slots: u16,

    /// Number of turns of each contestant
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,

    /// Length of a turn
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    seconds: Duration,

    /// 64 MiB and short turns: tries the command in seconds, mostly in the processor's caches
    #[arg(long, conflicts_with_all = ["bytes", "rounds", "seconds"])]
    quick: bool,

    /// Write the measurements to this file, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  nearfield-bench bench-offload
      Nodes spread over 4 GiB of memory in /dev/shm; about two minutes.
  nearfield-bench bench-offload --quick
      A quick try of the command; mostly in the processor's caches, so the ratios mean little.";

const QUICK_TURN: Duration = Duration::from_millis(50);
/// Number of entries of the map in the pool, and of a range.
const POOL_ENTRIES: u64 = 200_000;
const AGGREGATED: u64 = 10_000;
/// Number of keys of the ordered table on two nodes.
const TABLE_KEYS: u64 = 200_000;
/// Delays of a hop in microseconds: none, in a rack, and between racks.
const DELAYS_US: [u64; 3] = [0, 5, 50];

/// The content of the JSON report.
#[derive(Debug, Serialize)]
struct BenchOffloadReport {
    commit: String,
    machine: MachineProperties,
    lookups: Vec<ReportRow<Lookups>>,
    /// Null if something that the measurement needs is missing.
    pool_aggregate: Option<ReportRow<PoolAggregate>>,
    hops: Vec<ReportRow<HopsLatency>>,
    claims: Vec<PaperClaim>,
    complete: bool,
}

/// Measures and returns the exit code: 0, 1 for a failure, 130 for Ctrl-C.
pub(crate) fn run(arguments: &BenchOffloadArguments) -> ExitCode {
    let interrupt = interrupt("all rows");
    match report(arguments, &interrupt) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref() {
            // The report is written at the end only.
            Some(OffloadError::Interrupted) => interrupted("nothing was finished before"),
            _ => fail(error),
        },
    }
}

fn report(
    arguments: &BenchOffloadArguments,
    interrupt: &Interrupt,
) -> Result<(), Box<dyn std::error::Error>> {
    let sink = ReportSink::open(arguments.json.as_deref(), None)?;
    let plan = LookupPlan {
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
    debug_assert!(plan.rounds > 0 && plan.slots > 0, "the flags have bounds");
    let show_step = &mut |step: &str| eprintln!("{step}");
    let lookups = measure(&plan, interrupt, show_step)?;
    show_lookups(&lookups);
    let (rounds, turn) = (plan.rounds, plan.turn);
    let aggregate_plan = AggregatePlan {
        entries: POOL_ENTRIES,
        range: AGGREGATED,
        rounds,
        turn,
    };
    // Without UCX the other measurements are still wanted.
    let pool_aggregate = present(measure_aggregate(&aggregate_plan, interrupt, show_step))?;
    if let Some(row) = &pool_aggregate {
        show_aggregate(&row.detail);
    }
    let hops_plan = HopsPlan {
        keys: TABLE_KEYS,
        delays: DELAYS_US.map(Duration::from_micros).to_vec(),
        rounds,
        turn,
    };
    let hops = present(measure_hops(&hops_plan, interrupt, show_step))?.unwrap_or_default();
    show_hops(&hops);
    let mut all_claims = claims(&lookups);
    all_claims.push(aggregate_claim(pool_aggregate.as_ref()));
    all_claims.push(hops_claim(&hops));
    let report = BenchOffloadReport {
        commit: commit(),
        machine: MachineProperties::here(),
        claims: all_claims,
        lookups,
        pool_aggregate,
        hops,
        complete: true,
    };
    for claim in &report.claims {
        match claim.ours {
            Some(ours) => print(&format!("{:<20} {ours:>5.2}{}", claim.id, claim.unit)),
            None => print(&format!("{:<20} not measured", claim.id)),
        }
    }
    sink.write(&report, String::new)?;
    print_machine(&report.machine);
    Ok(())
}

/// Returns a measurement, or prints the reason and returns `None` if something that the measurement
/// needs is missing.
fn present<T>(measured: Result<T, OffloadError>) -> Result<Option<T>, OffloadError> {
    match measured {
        Ok(measured) => Ok(Some(measured)),
        Err(OffloadError::Unavailable(reason)) => {
            eprintln!("left out: {reason}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn show_aggregate(row: &PoolAggregate) {
    print(&format!(
        "aggregate over {} of {} entries of a map over UCX, {:.0} leaves: {:.0} µs at the node, \
         {:.0} µs by a scan ({:.1}x), {:.0} µs by keys ({:.1}x)",
        row.range,
        row.entries,
        row.leaves,
        row.at_node_us,
        row.by_scan_us,
        row.gain,
        row.by_keys_us,
        row.gain_over_keys
    ));
}

fn show_hops(rows: &[ReportRow<HopsLatency>]) {
    if let Some(first) = rows.first() {
        let hops = &first.detail;
        print(&format!(
            "scans of an ordered table of {} keys on two nodes, {:.1} crossings each; {}",
            hops.keys, hops.crossings, hops.network
        ));
    }
    for row in rows {
        let row = &row.detail;
        let delay = match row.delay_us {
            0.0 => String::from("without added delay"),
            delay => format!("{delay} µs per hop added"),
        };
        print(&format!(
            "{delay:<20} {:>8.0} µs through the switch {:>8.0} µs by the caller {:>5.2}x",
            row.through_switch_us, row.returning_us, row.gain
        ));
    }
}

fn show_lookups(lookups: &[ReportRow<Lookups>]) {
    print(&format!(
        "{:<12} {:>10} {:>10} {:>15} {:>12} {:>10} {:>6} {:>11}",
        "lookups",
        "nodes",
        "iterations",
        "one at a time",
        "interleaved",
        "by hand",
        "gain",
        "of by hand"
    ));
    for row in lookups {
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
                "  note: only {} MiB are in pages of 2 MiB; small pages are slower for all",
                row.huge_page_bytes >> 20
            ));
        }
    }
}
