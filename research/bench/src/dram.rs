//! `nearfield-bench dram`: replays a trace of memory requests on a model of DRAM.

use clap::Args;
use clap::builder::PossibleValuesParser;
use flate2::bufread::MultiGzDecoder;
use nearfield_hardware::cache::CacheHierarchy;
use nearfield_hardware::dram::{
    AddressMap, DramError, DramMemory, DramParameters, DramPreset, DramReplayPace, DramReport,
    DramTrace, Replay,
};
use nearfield_hardware::objects::{ObjectLines, ObjectTrace};
use serde::Serialize;
use std::cell::Cell;
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Replay a trace of memory requests on a model of DRAM: latency, bandwidth, energy.
///
/// All results are modelled: this machine's memory is not measured. The trace is text, or text
/// compressed by gzip, with a request for a line of 64 bytes on each line:
///
///     0x7f2b40 READ 1250
///
/// an address in hexadecimal, READ or WRITE, and the time in picoseconds. Requests are sent in the
/// order of the trace. Each enters at the first clock of the memory, at or after its time, at which
/// the queue of its channel has room. A request that finds no room delays those after it.
///
/// With --tier the trace is one of accesses to objects, which nearfield serve --access-trace
/// writes. Each object then has lines of its own in its tier.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct DramArguments {
    /// The memory
    #[arg(long, value_parser = PossibleValuesParser::new(names()))]
    preset: String,

    /// The trace
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,

    /// The order of the fields of an address, from its highest bits to the lowest: channel ch, rank
    /// ra, group of banks bg, bank ba, row ro, column co
    #[arg(long, value_name = "ORDER", default_value_t)]
    map: AddressMap,

    /// Send at most N requests per clock [default: one for each channel]
    #[arg(long, value_name = "N")]
    inject: Option<NonZeroU32>,

    /// Send each request CLOCKS after the reply to the one before it, but not before its time
    /// [without CLOCKS: 0, in the clock in which the data has arrived; DRAMsim3 takes 1]
    #[arg(
        long,
        value_name = "CLOCKS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "0",
        conflicts_with = "inject"
    )]
    closed: Option<u32>,

    /// Take addresses modulo the size of the memory. Without it, an address past the end is an
    /// error
    #[arg(long)]
    wrap: bool,

    /// Replay the accesses to this tier of a trace of objects: 0 is the memory
    #[arg(long, value_name = "N")]
    tier: Option<usize>,

    /// Send only what passes three levels of cache, which all tiers share: 32 KB, 1 MB and 10 MB
    #[arg(long, requires = "tier")]
    caches: bool,

    /// Change a parameter of the preset; may be given several times
    #[arg(long = "parameter", value_name = "NAME=VALUE", value_parser = assignment, num_args = 1..)]
    parameters: Vec<(String, String)>,

    /// Write the results to this file as JSON, too; - is the standard output, without the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  printf '0x0 READ 0\\n0x40 READ 0\\n' >two.trace
  nearfield-bench dram --preset ddr4-3200-x8 --trace two.trace
      Two lines of one row: the first opens it (30.6 ns), the second hits it.
  nearfield-bench dram --preset hbm2 --trace requests.gz --map ro-ba-ra-co-bg-ch
      Consecutive lines are in different channels, then in different groups.
  nearfield-bench dram --preset hbm2 --trace requests.gz --closed --json result.json
      One request at a time: latencies without waiting for others. --closed=1 leaves a clock
      between a reply and the next request, as DRAMsim3 does.
  nearfield-bench dram --preset ddr4-3200-x8 --trace requests.gz --parameter channels=4 page=closed
      Four channels, and rows that each read or write closes.
  nearfield serve --tier memory=64mb --tier compressed=1gb --access-trace objects.trace
  nearfield-bench dram --preset hbm2-paper --trace objects.trace --tier 0 --caches
      The accesses of a server's clients to values in memory.

Parameters:
  channels, ranks, bankgroups, banks_per_group, rows, lines_per_row     powers of two
  tCK                                                                   nanoseconds
  burst, CL, CWL, tRCD (tRCDRD and tRCDWR), tRP, tRAS, tRRD_S, tRRD_L,
  tFAW, tCCD_S, tCCD_L (and tCCD_L_WR, of writes), tRTP, tWR, tWTR_S,
  tWTR_L, tRTRS, tRFC, tREFI                                            clocks; tREFI=0: no refresh
  VDD, IDD0, IDD2N, IDD3N, IDD4R, IDD4W, IDD5AB, devices                V, mA; devices of a rank
  trans_queue_size, cmd_queue_size                                      entries
  page=open|closed, dual_command=true|false

Results, and so the fields of the JSON:
  latency_ns      of reads, from acceptance to the last data: mean, p50, p95, p99
  bandwidth_gbps  bytes that the bus has carried, in GB/s
  row_hit_rate    share of reads and writes whose row an earlier one had opened
  commands        act, pre, read, write, refresh
  energy_uj       activate, read, write, refresh, background, in microjoules
  time_us         until the last request completed
  cache_hits      with --caches: shares of all accesses that each level served";

fn names() -> Vec<&'static str> {
    DramPreset::ALL.map(DramPreset::name).to_vec()
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Replays the trace and prints the results.
pub(crate) fn run(arguments: &DramArguments) -> ExitCode {
    match replay(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn replay(arguments: &DramArguments) -> Result<(), Box<dyn Error>> {
    let preset = DramPreset::ALL
        .into_iter()
        .find(|preset| preset.name() == arguments.preset);
    let mut parameters = preset.ok_or("no such preset")?.parameters();
    for (name, value) in &arguments.parameters {
        parameters.set(name, value)?;
    }
    let memory = DramMemory::with_map(parameters.clone(), arguments.map)?;
    let pace = match (arguments.closed, arguments.inject) {
        (Some(think), _) => DramReplayPace::Closed { think },
        (None, Some(per_clock)) => DramReplayPace::Open {
            per_clock: per_clock.get(),
        },
        (None, None) => DramReplayPace::Open {
            per_clock: parameters.channels,
        },
    };
    let mut replay = Replay::new(memory, pace);
    if arguments.wrap {
        replay = replay.with_wrapped_addresses();
    }
    let mut lines = arguments.tier.map(|tier| TierLines {
        tier,
        lines: ObjectLines::new(arguments.caches.then(CacheHierarchy::new)),
    });
    let report = send(&arguments.trace, replay, lines.as_mut())?;
    let caches = lines.as_ref().and_then(|it| it.lines.caches());
    let cache_hits = caches.map(hit_shares);
    let mut result = DramReplayJson::new(&parameters, arguments.map, pace, &report);
    result.cache_hits = cache_hits;
    let json = serde_json::to_string_pretty(&result)? + "\n";
    match arguments.json.as_deref() {
        // The reader of the output may have closed it.
        Some(path) if path == Path::new("-") => drop(write!(std::io::stdout(), "{json}")),
        Some(path) => {
            std::fs::write(path, json).map_err(|error| format!("{}: {error}", path.display()))?;
            let table = table(&parameters, pace, &report, cache_hits);
            drop(write!(std::io::stdout(), "{table}"));
        }
        None => {
            let table = table(&parameters, pace, &report, cache_hits);
            drop(write!(std::io::stdout(), "{table}"));
        }
    }
    Ok(())
}

/// The lines that accesses to objects access in one tier.
struct TierLines {
    tier: usize,
    lines: ObjectLines,
}

/// Returns the shares of all accesses that each level of cache served.
fn hit_shares(caches: &CacheHierarchy) -> [f64; 3] {
    let accesses = caches.accesses().max(1) as f64;
    caches.hits().map(|hits| hits as f64 / accesses)
}

/// Sends all requests of a file, or those of one tier of a trace of objects.
fn send(
    path: &Path,
    mut replay: Replay,
    of_tier: Option<&mut TierLines>,
) -> Result<DramReport, Box<dyn Error>> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(|error| named(&error))?;
    let mut progress = DramReplayProgress::new(&file);
    // Below the decompression: only the size of the compressed file is known beforehand.
    let counted = ByteCountingFile {
        inner: file,
        read: Rc::clone(&progress.read),
    };
    let mut reader = BufReader::with_capacity(1 << 16, counted);
    // By its first bytes, because its name may have any ending.
    let is_gzip = reader
        .fill_buf()
        .map_err(|error| named(&error))?
        .starts_with(&[0x1f, 0x8b]);
    let reader: Box<dyn BufRead> = match is_gzip {
        true => Box::new(BufReader::with_capacity(
            1 << 16,
            MultiGzDecoder::new(reader),
        )),
        false => Box::new(reader),
    };
    let refused = |error: DramError| {
        let remedy = match error {
            DramError::PastEnd { .. } => " (--wrap takes addresses modulo its size)",
            _ => "",
        };
        format!("{error}{remedy}")
    };
    match of_tier {
        None => {
            let mut trace = DramTrace::new(reader);
            while let Some(request) = trace.next() {
                let request = request.map_err(|error| named(&error))?;
                if let Err(error) = replay.send(&request) {
                    let line = trace.line();
                    let text = format!("line {line} of the trace: {}", refused(error));
                    return Err(named(&text).into());
                }
                progress.tick();
            }
        }
        Some(TierLines { tier, lines }) => {
            for access in ObjectTrace::new(reader) {
                let access = access.map_err(|error| named(&error))?;
                for (from, request) in lines.requests(&access) {
                    if from == *tier {
                        let sent = replay.send(&request);
                        sent.map_err(|error| named(&refused(error)))?;
                        progress.tick();
                    }
                }
            }
        }
    }
    progress.clear();
    Ok(replay.finish())
}

/// A file with a count of the bytes read from it.
struct ByteCountingFile {
    inner: File,
    read: Rc<Cell<u64>>,
}

impl Read for ByteCountingFile {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read.set(self.read.get() + read as u64);
        Ok(read)
    }
}

/// The progress line on the terminal: how much of the file has been replayed.
struct DramReplayProgress {
    read: Rc<Cell<u64>>,
    bytes: u64,
    requests: u64,
    shown: Instant,
    visible: bool,
}

impl DramReplayProgress {
    fn new(file: &File) -> DramReplayProgress {
        DramReplayProgress {
            read: Rc::default(),
            bytes: file.metadata().map_or(0, |metadata| metadata.len()),
            requests: 0,
            shown: Instant::now(),
            visible: false,
        }
    }

    fn tick(&mut self) {
        self.requests += 1;
        if self.requests.is_multiple_of(1 << 14)
            && self.shown.elapsed() > Duration::from_millis(500)
            && std::io::stderr().is_terminal()
        {
            // A pipe has no length.
            let percent = (100 * self.read.get()).checked_div(self.bytes).unwrap_or(0);
            let millions = self.requests as f64 / 1e6;
            eprint!("\r{percent:3} % of the trace, {millions:.1} million requests");
            (self.shown, self.visible) = (Instant::now(), true);
        }
    }

    fn clear(&self) {
        if self.visible {
            eprint!("\r{:60}\r", "");
        }
    }
}

/// The results as written to JSON.
#[derive(Serialize)]
struct DramReplayJson {
    preset: &'static str,
    map: String,
    /// Always true: no figure is measured.
    modelled: bool,
    pace: DramPaceJson,
    latency_ns: DramLatencyJson,
    bandwidth_gbps: f64,
    row_hit_rate: f64,
    commands: DramCommandsJson,
    energy_uj: DramEnergyJson,
    time_us: f64,
    requests: DramRequestsJson,
    limits_gbps: DramLimitsJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_hits: Option<[f64; 3]>,
}

/// The pace: one of the two fields is a number, the other null.
#[derive(Serialize)]
struct DramPaceJson {
    /// The maximum number of requests at a clock.
    inject: Option<u32>,
    /// The number of clocks from a reply to the next request.
    closed: Option<u32>,
}

#[derive(Serialize)]
struct DramLatencyJson {
    mean: f64,
    p50: f64,
    p95: f64,
    p99: f64,
}

#[derive(Serialize)]
struct DramCommandsJson {
    act: u64,
    pre: u64,
    read: u64,
    write: u64,
    refresh: u64,
}

#[derive(Serialize)]
struct DramEnergyJson {
    activate: f64,
    read: f64,
    write: f64,
    refresh: f64,
    background: f64,
}

#[derive(Serialize)]
struct DramRequestsJson {
    reads: u64,
    writes: u64,
    reads_merged: u64,
    writes_merged: u64,
    writes_waiting: u64,
}

#[derive(Serialize)]
struct DramLimitsJson {
    peak: f64,
    random: f64,
}

impl DramReplayJson {
    fn new(
        parameters: &DramParameters,
        map: AddressMap,
        pace: DramReplayPace,
        report: &DramReport,
    ) -> DramReplayJson {
        let (latency, commands) = (report.latency_ns, report.commands);
        let (energy, requests) = (report.energy_uj, report.requests);
        DramReplayJson {
            preset: parameters.name,
            map: map.to_string(),
            modelled: true,
            pace: match pace {
                DramReplayPace::Open { per_clock } => DramPaceJson {
                    inject: Some(per_clock),
                    closed: None,
                },
                DramReplayPace::Closed { think } => DramPaceJson {
                    inject: None,
                    closed: Some(think),
                },
            },
            latency_ns: DramLatencyJson {
                mean: latency.mean,
                p50: latency.p50,
                p95: latency.p95,
                p99: latency.p99,
            },
            bandwidth_gbps: report.bandwidth_gbps,
            row_hit_rate: report.row_hit_rate,
            commands: DramCommandsJson {
                act: commands.activate,
                pre: commands.precharge,
                read: commands.read,
                write: commands.write,
                refresh: commands.refresh,
            },
            energy_uj: DramEnergyJson {
                activate: energy.activate,
                read: energy.read,
                write: energy.write,
                refresh: energy.refresh,
                background: energy.background,
            },
            time_us: report.time_us,
            requests: DramRequestsJson {
                reads: requests.reads,
                writes: requests.writes,
                reads_merged: requests.reads_merged,
                writes_merged: requests.writes_merged,
                writes_waiting: requests.writes_waiting,
            },
            limits_gbps: DramLimitsJson {
                peak: parameters.peak_gbps(),
                random: parameters.random_gbps(),
            },
            cache_hits: None,
        }
    }
}

/// Returns the results as a table for display.
fn table(
    parameters: &DramParameters,
    pace: DramReplayPace,
    report: &DramReport,
    cache_hits: Option<[f64; 3]>,
) -> String {
    let latency = report.latency_ns;
    let (commands, requests) = (report.commands, report.requests);
    let energy = report.energy_uj;
    let pace = match pace {
        DramReplayPace::Open { per_clock } => format!("open: at most {per_clock} at a clock"),
        DramReplayPace::Closed { think } => {
            format!("closed: the next request leaves {think} clocks after the reply")
        }
    };
    let percent = |gbps: f64, limit: f64| format!("{:.1} %", 100.0 * gbps / limit);
    let mut lines = vec![
        format!("{} (modelled; {})", parameters.name, parameters.source),
        format!("pace        {pace}"),
        format!(
            "requests    {} reads, {} writes; merged: {} reads, {} writes; {} writes wait",
            requests.reads,
            requests.writes,
            requests.reads_merged,
            requests.writes_merged,
            requests.writes_waiting
        ),
        format!(
            "latency     mean {:.2} ns, p50 {:.2}, p95 {:.2}, p99 {:.2}",
            latency.mean, latency.p50, latency.p95, latency.p99
        ),
        format!(
            "bandwidth   {:.3} GB/s: {} of the bus ({:.1}), {} of the limit of random lines \
             ({:.1})",
            report.bandwidth_gbps,
            percent(report.bandwidth_gbps, parameters.peak_gbps()),
            parameters.peak_gbps(),
            percent(report.bandwidth_gbps, parameters.random_gbps()),
            parameters.random_gbps()
        ),
        format!("row hits    {:.2} %", 100.0 * report.row_hit_rate),
        format!(
            "commands    {} activate, {} precharge, {} read, {} write, {} refresh",
            commands.activate, commands.precharge, commands.read, commands.write, commands.refresh
        ),
        format!(
            "energy      {:.3} uJ: activate {:.3}, read {:.3}, write {:.3}, refresh {:.3}, \
             background {:.3}",
            energy.total(),
            energy.activate,
            energy.read,
            energy.write,
            energy.refresh,
            energy.background
        ),
        format!("time        {:.3} us", report.time_us),
    ];
    if let Some([first, second, third]) = cache_hits.map(|hits| hits.map(|hit| 100.0 * hit)) {
        let first = format!("caches      {first:.1} % of all accesses hit level 1");
        lines.push(format!("{first}, {second:.1} % 2, {third:.1} % 3"));
    }
    lines.join("\n") + "\n"
}
