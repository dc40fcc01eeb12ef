//! Servers in turn, under the same load.

use super::load::{ConnectionShape, ServerLoadResult, drive};
use super::process::{ServerError, ServerProcess};
use super::program::{ServerLogFolder, ServerProgram};
use super::task::{ServerKeySpec, ServerTaskKind};
use crate::harness::MeasurementSample;
use crate::harness::{Completion, Interrupt, LatencySummary, in_turns};
use crate::report::{self, NumberOrigin};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use std::time::{Duration, Instant};

/// The parameters of a measurement.
#[derive(Clone, Debug)]
pub struct Contest {
    /// The kind of requests.
    pub task: ServerTaskKind,
    /// The keys of the server.
    pub keys: ServerKeySpec,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// True if servers log changes, and sync them each second; otherwise they persist nothing.
    pub appendonly: bool,
    /// Number of connections.
    pub connections: usize,
    /// Numbers of requests that a connection sends at once; one measurement for each.
    pub pipelines: Vec<usize>,
    /// Number of measurements of each server.
    pub repetitions: usize,
    /// Length of each measurement.
    pub slice: Duration,
}

/// A server that takes part.
#[derive(Clone, Debug)]
pub struct Entrant {
    /// The name in reports; the first entrant is the one that others are compared with.
    pub name: String,
    /// The program that is started.
    pub program: ServerProgram,
}

/// The results of one server: `peer` is the server. Latencies are of the requests that a connection
/// sends at once, from sending to the last reply; they are the medians of the slices' percentiles.
pub type Row = report::ReportRow<ServerRequestDetail>;

/// The requests to servers, and the results besides their rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServerRequestDetail {
    /// The kind of requests.
    pub task: String,
    /// Number of keys of the server.
    pub keys: u64,
    /// Bytes of a key, member or field.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Number of connections.
    pub connections: usize,
    /// Number of requests that a connection sends at once.
    pub pipeline: usize,
    /// True if changes are logged.
    pub appendonly: bool,
    /// The server.
    pub server: String,
    /// Its kind and version, as it reports them.
    pub version: String,
    /// Processor time of the server for an operation, the median, in microseconds.
    pub cpu_us: f64,
    /// Difference of the greatest and the least of that, as a share of the median.
    pub cpu_spread: f64,
    /// Processor time of the first entrant for an operation, divided by that of this server.
    pub ratio: f64,
    /// Thousands of operations a second, the median.
    pub kops: f64,
}

/// The seed, which keeps the order of requests the same for all servers of a slice.
const SEED: u64 = 0x6e65_6172;

/// Measures, and calls `show` with each row: all servers at one pipeline, then the next. Stops
/// early when interrupted.
///
/// # Errors
/// A server does not start, breaks a connection or replies with an error.
pub fn contest(
    contest: &Contest,
    entrants: &[Entrant],
    interrupt: &Interrupt,
    mut progress: impl FnMut(String),
    mut show: impl FnMut(&[Row]),
) -> Result<(), ServerError> {
    // All servers start before the first is filled, so that a program that fails is noticed at
    // once.
    let servers = entrants.iter().enumerate();
    let servers = servers.map(|(number, entrant)| start(contest, number, entrant));
    let mut servers = servers.collect::<Result<Vec<_>, _>>()?;
    for loaded in &mut servers {
        let server = &loaded.server;
        let before = server.resident_bytes();
        progress(format!("{}: loading", server.name));
        fill(contest, server, interrupt)?;
        let growth = server.resident_bytes().saturating_sub(before);
        let keys = contest.task.preparations(contest.keys).max(1);
        loaded.bytes_per_key = growth as f64 / keys as f64;
    }
    for &pipeline in &contest.pipelines {
        let turn = |repetition: usize, entrant: &mut LoadedServer| {
            let (number, all) = (repetition + 1, contest.repetitions);
            let name = &entrant.server.name;
            progress(format!("{name}: pipeline {pipeline}, {number} of {all}"));
            let seed = SEED + repetition as u64;
            let slice = measure(contest, &entrant.server, pipeline, seed)?;
            entrant.slices.push(slice);
            Ok::<_, ServerError>(())
        };
        let ended = in_turns(contest.repetitions, &mut servers, interrupt, turn)?;
        if ended == Completion::Interrupted {
            return Ok(());
        }
        let mut rows = Vec::new();
        for entrant in &mut servers {
            rows.extend(row(contest, pipeline, entrant));
            entrant.slices.clear();
        }
        // The first entrant is the one that others are compared with.
        let reference = rows.first().map_or(0.0, |row| row.detail.cpu_us);
        for row in &mut rows {
            row.detail.ratio = reference / row.detail.cpu_us;
        }
        show(&rows);
    }
    Ok(())
}

/// Starts a server without keys.
fn start(contest: &Contest, number: usize, entrant: &Entrant) -> Result<LoadedServer, ServerError> {
    let folder = contest.appendonly.then(|| ServerLogFolder::create(number));
    let folder = folder.transpose().map_err(|source| ServerError::Folder {
        name: entrant.name.clone(),
        source,
    })?;
    let log = folder.as_ref().map(ServerLogFolder::path);
    let command = |port| entrant.program.command(port, log);
    let server = ServerProcess::start(&entrant.name, command)?;
    Ok(LoadedServer {
        version: server.version()?,
        server,
        _folder: folder,
        bytes_per_key: 0.0,
        slices: Vec::new(),
    })
}

/// A server with its keys.
struct LoadedServer {
    version: String,
    server: ServerProcess,
    /// The folder of its log, which is removed after the process has ended.
    _folder: Option<ServerLogFolder>,
    bytes_per_key: f64,
    /// The slices at the present pipeline, with the processor time that each took.
    slices: Vec<(ServerLoadResult, Duration)>,
}

fn value(bytes: usize, random: &mut SmallRng) -> Vec<u8> {
    // The value consists of letters, so that no server stores it as a number.
    (0..bytes)
        .map(|_| random.random_range(b'a'..=b'z'))
        .collect()
}

fn fill(
    contest: &Contest,
    server: &ServerProcess,
    interrupt: &Interrupt,
) -> Result<(), ServerError> {
    const LOAD: ConnectionShape = ConnectionShape {
        connections: 4,
        pipeline: 128,
    };
    let value = value(contest.value_bytes, &mut SmallRng::seed_from_u64(SEED));
    let total = contest.task.preparations(contest.keys);
    let mut done = 0;
    drive(server, LOAD, |most, out| {
        let end = if interrupt.is_raised() {
            done
        } else {
            total.min(done + most as u64)
        };
        let start = std::mem::replace(&mut done, end);
        for position in start..end {
            contest.task.prepare(position, contest.keys, &value, out);
        }
        (end - start) as usize
    })?;
    Ok(())
}

fn measure(
    contest: &Contest,
    server: &ServerProcess,
    pipeline: usize,
    seed: u64,
) -> Result<(ServerLoadResult, Duration), ServerError> {
    let mut random = SmallRng::seed_from_u64(seed);
    let value = value(contest.value_bytes, &mut random);
    let shape = ConnectionShape {
        connections: contest.connections,
        pipeline,
    };
    let before = server.cpu_time();
    let end = Instant::now() + contest.slice;
    let slice = drive(server, shape, |count, out| {
        // Replies that are outstanding at the end still count.
        if Instant::now() >= end {
            return 0;
        }
        for _ in 0..count {
            contest.task.request(contest.keys, &value, &mut random, out);
        }
        count
    })?;
    Ok((slice, server.cpu_time() - before))
}

fn row(contest: &Contest, pipeline: usize, entrant: &LoadedServer) -> Option<Row> {
    let slices = &entrant.slices;
    let sample = |of: &dyn Fn(&(ServerLoadResult, Duration)) -> f64| {
        MeasurementSample::new(slices.iter().map(of).collect())
    };
    let operations = |slice: &ServerLoadResult| slice.operations.max(1) as f64;
    let cpu = sample(&|(slice, cpu)| cpu.as_secs_f64() * 1e6 / operations(slice))?;
    let kops = sample(&|(slice, _)| operations(slice) / slice.wall.as_secs_f64() / 1e3)?;
    let latency = |pick: fn(&LatencySummary) -> u64| {
        sample(&|(slice, _)| pick(&slice.latency) as f64).map_or(0, |sample| sample.median() as u64)
    };
    let name = &entrant.server.name;
    let detail = ServerRequestDetail {
        task: contest.task.name().to_owned(),
        keys: contest.task.preparations(contest.keys),
        key_bytes: contest.keys.bytes,
        value_bytes: contest.value_bytes,
        connections: contest.connections,
        pipeline,
        appendonly: contest.appendonly,
        server: name.clone(),
        version: entrant.version.clone(),
        cpu_us: cpu.median(),
        cpu_spread: cpu.spread(),
        ratio: 1.0,
        kops: kops.median(),
    };
    Some(Row {
        rate_mops: Some(kops.median() / 1e3),
        latency_ns: Some(LatencySummary {
            p50: latency(|latency| latency.p50),
            p99: latency(|latency| latency.p99),
            p999: latency(|latency| latency.p999),
        }),
        bytes_per_key: Some(entrant.bytes_per_key),
        ..Row::new(name, NumberOrigin::Measured, detail)
    })
}
