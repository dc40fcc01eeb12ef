//! `nearfield-bench bench-tiers`: the tiers of compressed memory and of files.

use crate::measuring::{fail, interrupt, interrupted, print, print_machine, seconds};
use clap::Args;
use nearfield_core::byte_size;
use nearfield_lab::error::LabError;
use nearfield_lab::harness::{Interrupt, MachineProperties, commit};
use nearfield_lab::parse_quantity;
use nearfield_lab::report::ReportSink;
use nearfield_lab::tiers::{self, OverflowTier, TiersBenchPlan, TiersError, ValueCorpus};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

type Failure = Box<dyn std::error::Error>;

/// Measure tiers of compressed memory and of files.
///
/// For compressed memory: the compression ratio, and the extra time of a read over one from memory.
/// For files: the rate of reads of cold values, compared with a bare loop of reads of the disk.
/// Then the rates and latencies of clients of a server with each tier. Last, the steady state of a
/// server that writes beyond memory: processor time of a SET, rate, and compression.
///
/// The values are records of JSON of 256 bytes, and the pieces of a text if there is one. The two
/// sides of each comparison are measured in turns; the median counts.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct BenchTiersArguments {
    /// A text, which is cut into values of 200 to 2,000 bytes, and gives the words of records; gzip
    /// is accepted. Without it, records consist of generated words
    #[arg(long, value_name = "FILE")]
    values: Option<PathBuf>,

    /// Number of records
    #[arg(long, value_name = "N", default_value = "100k", value_parser = count)]
    records: u64,

    /// Folder for files, on the disk that will be measured; a temporary folder if not given
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,

    /// Bytes of values in files, such as 1gb
    #[arg(long, value_name = "BYTES", default_value = "500m", value_parser = byte_size)]
    file_bytes: u64,

    /// Reads of the disk that are in flight at once
    #[arg(long, value_name = "N", default_value_t = 32)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    depth: u16,

    /// Number of turns of each side
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,

    /// Length of a turn
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    seconds: Duration,

    /// Time for which values are overwritten beyond memory, for each kind of values and each tier;
    /// 1800 shows the steady state of half an hour. The report has each of up to 60 windows
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    writes: Duration,

    /// Write the measurements to this file, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  nearfield-bench bench-tiers
      Records of JSON, and 500 MB of them in a temporary folder; about half a minute.
  nearfield-bench bench-tiers --values documents.txt.gz --folder /mnt/ssd --file-bytes 4gb
      Your own text, on a given disk.
  nearfield-bench bench-tiers --writes 1800 --json steady.json
      Overwrites values beyond memory for half an hour in each tier.";

/// The content of the JSON report.
#[derive(Debug, Serialize)]
struct BenchTiersReport {
    commit: String,
    machine: MachineProperties,
    compressed: Vec<nearfield_lab::report::ReportRow<tiers::ColdRead>>,
    files: Vec<nearfield_lab::report::ReportRow<tiers::DiskRead>>,
    hot: Vec<nearfield_lab::report::ReportRow<tiers::HotServed>>,
    cold: Vec<nearfield_lab::report::ReportRow<tiers::ColdServed>>,
    writes: Vec<nearfield_lab::report::ReportRow<tiers::SustainedWrites>>,
    complete: bool,
}

fn count(text: &str) -> Result<u64, LabError> {
    parse_quantity("count", text)
}

/// Measures and returns the exit code: 0, 1 for a failure, 130 for Ctrl-C.
pub(crate) fn run(arguments: &BenchTiersArguments) -> ExitCode {
    match measure(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => interrupted("the rows above were finished before"),
        Err(error) => fail(error),
    }
}

/// A folder that is removed on drop if this program has created it.
struct BenchTierFolder {
    path: PathBuf,
    ours: bool,
}

impl BenchTierFolder {
    fn new(given: Option<&Path>) -> std::io::Result<BenchTierFolder> {
        if let Some(path) = given {
            let (path, ours) = (path.to_owned(), false);
            return Ok(BenchTierFolder { path, ours });
        }
        let path = std::env::temp_dir().join(format!("nearfield-tiers-{}", std::process::id()));
        // Fails if the folder exists: it may be another process's, and must not be removed at the
        // end.
        std::fs::create_dir(&path)?;
        Ok(BenchTierFolder { path, ours: true })
    }
}

impl Drop for BenchTierFolder {
    fn drop(&mut self) {
        if self.ours {
            // A leftover folder does no harm: it is in the temporary folder.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Measures and prints all rows. Returns false if it was interrupted.
fn measure(arguments: &BenchTiersArguments) -> Result<bool, Failure> {
    let sink = ReportSink::open(arguments.json.as_deref(), None)?;
    let interrupt = interrupt("all rows");
    let folder = BenchTierFolder::new(arguments.folder.as_deref())?;
    let plan = TiersBenchPlan {
        rounds: usize::from(arguments.rounds),
        turn: arguments.seconds,
        folder: folder.path.clone(),
        file_bytes: arguments.file_bytes,
        depth: usize::from(arguments.depth),
        writing: arguments.writes,
    };
    debug_assert!(plan.rounds > 0 && plan.depth > 0, "the flags have bounds");
    let mut report = BenchTiersReport {
        commit: commit(),
        machine: MachineProperties::here(),
        compressed: Vec::new(),
        files: Vec::new(),
        hot: Vec::new(),
        cold: Vec::new(),
        writes: Vec::new(),
        complete: false,
    };
    let measured = rows(arguments, &plan, &interrupt, &mut report);
    report.complete = measured.is_ok();
    // Also after a failure, with the rows that were measured before it.
    sink.write(&report, String::new)?;
    match measured {
        Ok(()) => Ok(true),
        Err(TiersError::Interrupted) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn rows(
    arguments: &BenchTiersArguments,
    plan: &TiersBenchPlan,
    interrupt: &Interrupt,
    report: &mut BenchTiersReport,
) -> Result<(), TiersError> {
    let text = arguments.values.as_deref();
    let records = ValueCorpus::records(arguments.records as usize, text)?;
    let mut all = vec![records];
    all.extend(text.map(ValueCorpus::pieces).transpose()?);
    print(&format!(
        "{:<36} {:>8} {:>7} {:>12} {:>12} {:>12} {:>14}",
        "in compressed memory", "values", "ratio", "cold read", "hot read", "more", "dictionaries"
    ));
    for values in &all {
        let row = tiers::compressed(plan, values, interrupt)?;
        let read = &row.detail;
        print(&format!(
            "{:<36} {:>8} {:>6.2}x {:>9.2} µs {:>9.2} µs {:>9.2} µs {:>10} KiB",
            read.values,
            read.count,
            read.ratio,
            read.cold_ns / 1e3,
            read.hot_ns / 1e3,
            read.more_ns / 1e3,
            read.dictionary_bytes >> 10
        ));
        report.compressed.push(row);
    }
    print(&format!(
        "\n{:<36} {:>13} {:>11} {:>13} {:>11} {:>6} {:>6}",
        "in files", "cold kreads/s", "p99", "bare kreads/s", "p99", "rate", "p99"
    ));
    for values in &all {
        let row = tiers::files(plan, values, interrupt)?;
        let read = &row.detail;
        print(&format!(
            "{:<36} {:>13.1} {:>8} µs {:>13.1} {:>8} µs {:>5.2}x {:>5.2}x",
            read.values,
            read.tier.kops,
            read.tier.latency_ns.p99 / 1000,
            read.bare.kops,
            read.bare.latency_ns.p99 / 1000,
            read.rate_ratio,
            read.p99_ratio
        ));
        if let Some(ring) = read.ring {
            print(&format!(
                "{:<36} {:>13.1} {:>8} µs {:>28} {:>5.2}x {:>5.2}x",
                "  by one thread with io_uring",
                ring.kops,
                ring.latency_ns.p99 / 1000,
                "",
                ring.kops / read.bare.kops,
                ring.latency_ns.p99 as f64 / read.bare.latency_ns.p99.max(1) as f64
            ));
        }
        if !read.direct {
            print(
                "  note: the folder's file system has no reads that bypass the cache, so this \
                   does not measure a disk",
            );
        }
        print(&format!(
            "  {} at once; the tier by {}, the bare loop by {}",
            read.depth,
            match read.ring {
                Some(_) => "threads and by io_uring",
                None => "threads, because the kernel refuses a ring",
            },
            read.bare_method
        ));
        report.files.push(row);
    }
    served(plan, &all, interrupt, report)?;
    written(plan, &all, interrupt, report)?;
    print_machine(&report.machine);
    Ok(())
}

/// Measures both tiers as clients of the server see them.
fn served(
    plan: &TiersBenchPlan,
    all: &[ValueCorpus],
    interrupt: &Interrupt,
    report: &mut BenchTiersReport,
) -> Result<(), TiersError> {
    print(&format!(
        "\n{:<36} {:>10} {:>10} {:>10} {:>6} {:>13} {:>13}",
        "server, memory for a fifth", "in memory", "kGET/s", "no tiers", "rate", "CPU", "no tiers"
    ));
    for values in all {
        let row = tiers::hot(plan, values, interrupt)?;
        let read = &row.detail;
        for (name, share, sides) in [
            (
                &*read.values,
                format!("{:.1} %", read.memory_percent),
                &read.all,
            ),
            ("  the hottest fifth of them", String::new(), &read.hottest),
        ] {
            print(&format!(
                "{name:<36} {share:>10} {:>10.1} {:>10.1} {:>5.2}x {:>10.2} µs {:>10.2} µs",
                sides.tiered.kops,
                sides.plain.kops,
                sides.rate_ratio,
                sides.tiered.cpu_ns / 1e3,
                sides.plain.cpu_ns / 1e3
            ));
        }
        report.hot.push(row);
    }
    print(&format!(
        "\n{:<36} {:>13} {:>11} {:>14} {:>14} {:>6}",
        "server, values in files", "cold kreads/s", "p99", "hot p99 alone", "with cold", "p99"
    ));
    for values in all {
        let row = tiers::cold(plan, values, interrupt)?;
        let read = &row.detail;
        print(&format!(
            "{:<36} {:>13.1} {:>8} µs {:>11} µs {:>11} µs {:>5.2}x",
            read.values,
            read.cold_kops,
            read.cold_ns.p99 / 1000,
            read.alone_ns.p99 / 1000,
            read.beside_ns.p99 / 1000,
            read.p99_ratio
        ));
        report.cold.push(row);
    }
    Ok(())
}

/// Measures writes beyond memory into both tiers, and prints their steady states.
fn written(
    plan: &TiersBenchPlan,
    all: &[ValueCorpus],
    interrupt: &Interrupt,
    report: &mut BenchTiersReport,
) -> Result<(), TiersError> {
    print(&format!(
        "\n{:<36} {:>10} {:>8} {:>10} {:>6} {:>11} {:>13} {:>13} {:>6} {:>6}",
        "server, writes beyond memory",
        "smaller by",
        "kSET/s",
        "no tiers",
        "rate",
        "p99",
        "CPU",
        "no tiers",
        "CPU",
        "drift"
    ));
    for values in all {
        for tier in OverflowTier::ALL {
            let row = tiers::writes(plan, values, tier, interrupt)?;
            let read = &row.detail;
            let (tiered, plain) = (read.steady.tiered, read.steady.plain);
            let (name, ratio) = match tier {
                OverflowTier::Compressed => {
                    (&*read.values, format!("{:.2}x", read.steady.compression))
                }
                OverflowTier::Files => ("  into files", "–".to_owned()),
            };
            print(&format!(
                "{name:<36} {ratio:>10} {:>8.1} {:>10.1} {:>5.2}x {:>8.0} µs {:>10.2} µs \
                 {:>10.2} µs {:>5.2}x {:>5.2}x",
                tiered.kops,
                plain.kops,
                read.rate_ratio,
                tiered.p99_ns / 1e3,
                tiered.cpu_ns / 1e3,
                plain.cpu_ns / 1e3,
                read.cpu_ratio,
                read.drift
            ));
            report.writes.push(row);
        }
    }
    Ok(())
}
