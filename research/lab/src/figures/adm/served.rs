//! The benches on the real server: figure `server`.
//!
//! A server in this process serves each bench, with a trace of its accesses. Its memory tier stands
//! for HBM, and its compressed tier for DRAM. The shares of reads that each serves are measured.
//! The trace then passes models of caches and of memory, so latency and energy are modelled. The
//! model of objects without contents plays the same load.
//!
//! ADM's policy of the server, with thresholds at which nothing moves, is first come: a value goes
//! into memory while there is room. If the hottest objects come first, it is the ideal placement.

use super::bench::{BENCHES, Type};
use super::commands::AdmCommands;
use super::hybrid::{Hybrid, HybridVariant, VARIANTS};
use super::jobs::{LATENCY, Outcomes, READS, TIME, WRITES, bench_axis, of_dram, percent, row};
use super::load::AdmWorkload;
use super::placement::{ADM_INTERVAL, AdmPlacement, settings};
use super::run::{PlacementOutcome, WINDOW, direction, play};
use super::scale::{AdmScale, Figure};
use super::traced_server::{CommandPipeline, TracedServer};
use crate::figures::job::{FigureJob, PointError};
use crate::figures::row::Row;
use crate::harness::Interrupt;
use crate::report::NumberOrigin;
use crate::server::process::tier_number;
use crate::server::program::ServerLogFolder;
use nearfield_hardware::cache::CacheHierarchy;
use nearfield_hardware::objects::{ObjectLines, ObjectRangeAccess, ObjectTrace};
use nearfield_tiers::policy::{AdmSettings, PolicyChoice};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The name of the shares of reads.
pub(super) const SERVED: &str = "reads served by HBM";
/// The name of the parts of values.
const IN_MEMORY: &str = "values in HBM";
/// The beginning of the panels of latencies without caches.
const UNCACHED: &str = "no caches";

/// Number of objects for which the paper's caches have their full size.
pub(super) const PAPER_OBJECTS: f64 = 100_000.0;
/// Number of servers of a load.
const SERVERS: usize = 5;
/// Time between two walks of a server in which nothing moves.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of memory for what keys and indexes take.
const ROOM: u64 = 64 << 20;

/// The number of the next folder. Contests of servers number theirs from 0.
static FOLDERS: AtomicUsize = AtomicUsize::new(1 << 20);

/// Creates the jobs of figure `server`.
pub(super) fn jobs(figure: &Figure, scale: &AdmScale) -> Vec<FigureJob> {
    let is_whole = scale.server_objects >= scale.objects;
    let scale = AdmScale {
        objects: scale.server_objects,
        ..scale.clone()
    };
    let mut jobs = Vec::new();
    if scale.objects == 0 {
        return jobs;
    }
    for kind in Type::ALL {
        for bench in BENCHES {
            // A run of minutes has one bench of the other types.
            if is_whole || kind == Type::String || bench.number == 1 {
                jobs.push(job(figure.name, AdmWorkload::new(&scale, bench, kind)));
            }
        }
    }
    jobs
}

fn job(figure: &'static str, load: AdmWorkload) -> FigureJob {
    let title = format!(
        "bench {} of {} on a server",
        load.bench.number,
        load.kind.name()
    );
    let phases = SERVERS + AdmPlacement::ALL.len();
    let mut job = FigureJob::new(figure, &title, phases, move |run| {
        let interrupt = run.interrupt;
        let served = serve(&load, &AdmPlacement::ALL, interrupt, || run.end_phase())?;
        let mut modelled = Outcomes::new();
        for placement in AdmPlacement::ALL {
            modelled.push((placement, play(&load, placement, interrupt)?));
            run.end_phase();
        }
        run.rows = rows(figure, &load, &served, &modelled);
        Ok(())
    });
    // Policies of the server follow a clock, so other work would change what moves.
    job.alone = true;
    job
}

/// The outcomes of placements on servers.
#[derive(Debug)]
pub(super) struct ServedOutcomes {
    /// Shares and costs. The costs are those of all variants with caches, and then of the first one
    /// without.
    pub(super) outcomes: Outcomes,
    /// The part of the bytes of values that was in memory at the end.
    in_memory: Vec<(AdmPlacement, f64)>,
}

/// Serves a load with some placements.
///
/// # Errors
/// A server fails, the memory is too small for a tier, or the interrupt is raised.
pub(super) fn serve(
    load: &AdmWorkload,
    placements: &[AdmPlacement],
    interrupt: &Interrupt,
    mut end_phase: impl FnMut(),
) -> Result<ServedOutcomes, PointError> {
    let folder = ServerLogFolder::create(FOLDERS.fetch_add(1, Ordering::Relaxed));
    let folder = folder.map_err(|error| missing("a folder for traces", &error))?;
    let path = folder.path().join("accesses.trace");
    let objects = load
        .values()
        .into_iter()
        .map(|value| load.kind.bytes(value));
    // Types take more than their modelled bytes, four times as much at the most.
    let room = 4 * objects.sum::<u64>() + ROOM;
    // One server with room for all stands for both memories that have room for all.
    let plain = PolicyChoice::Adaptive;
    let plain = drive(
        load,
        AdmPlacement::Dram,
        [room, ROOM],
        plain,
        &path,
        interrupt,
    )?;
    let bytes = loaded_bytes(&path, plain.first)?;
    let mut all = ServedOutcomes {
        outcomes: Outcomes::new(),
        in_memory: Vec::new(),
    };
    for placement in [AdmPlacement::Dram, AdmPlacement::Hbm] {
        if placements.contains(&placement) {
            let tier = usize::from(placement == AdmPlacement::Dram);
            let outcome = replay(load, placement, &path, &plain, [tier; 2], interrupt)?;
            all.in_memory.push((placement, 1.0 - tier as f64));
            all.outcomes.push((placement, outcome));
        }
    }
    end_phase();
    let spared = (1.0 - load.scale.capacity) * bytes as f64;
    let memory = (plain.used_bytes - spared).max(0.0) as u64;
    let walks = load.scale.requests_per_object as f64 / ADM_INTERVAL as f64;
    let interval = plain.elapsed.div_f64(walks.max(1.0));
    for placement in [
        AdmPlacement::FirstCome,
        AdmPlacement::Adm,
        AdmPlacement::Ours,
        AdmPlacement::Ideal,
    ] {
        if !placements.contains(&placement) {
            continue;
        }
        let policy = policy(placement, &load.scale, interval);
        let run = drive(load, placement, [memory, room], policy, &path, interrupt)?;
        let outcome = replay(load, placement, &path, &run, [0, 1], interrupt)?;
        let in_memory = 1.0 - run.cold_bytes / bytes.max(1) as f64;
        all.in_memory.push((placement, in_memory));
        all.outcomes.push((placement, outcome));
        end_phase();
    }
    Ok(all)
}

fn missing(what: &str, error: &dyn std::fmt::Display) -> PointError {
    PointError::Missing(format!("{what}: {error}"))
}

/// Returns the policy of a server with two tiers.
fn policy(placement: AdmPlacement, scale: &AdmScale, interval: Duration) -> PolicyChoice {
    match placement {
        AdmPlacement::Ours => PolicyChoice::Adaptive,
        AdmPlacement::Adm => PolicyChoice::Adm {
            settings: settings(scale),
            interval,
        },
        // No counter exceeds the one threshold, and none is below the other.
        _ => PolicyChoice::Adm {
            settings: AdmSettings::with_thresholds(u8::MAX, 0),
            interval: IDLE_INTERVAL,
        },
    }
}

/// The results of one server under a load.
#[derive(Debug)]
struct ServedLoad {
    /// Number of accesses in the trace before the first request.
    first: usize,
    /// Bytes of memory in use after all objects were loaded.
    used_bytes: f64,
    /// Bytes of values outside of memory at the end.
    cold_bytes: f64,
    /// Bytes that moved into memory while requests were served.
    moved_bytes: u64,
    /// Share of the reads of the second half that memory served.
    served: f64,
    /// Time of the requests.
    elapsed: Duration,
}

/// Loads a server and sends it all requests.
fn drive(
    load: &AdmWorkload,
    placement: AdmPlacement,
    tiers: [u64; 2],
    policy: PolicyChoice,
    path: &Path,
    interrupt: &Interrupt,
) -> Result<ServedLoad, PointError> {
    let server = TracedServer::start(tiers, policy, path)?;
    let mut client = server.connect()?;
    let commands = AdmCommands::of(load);
    commands.each_load(placement.order(load), |words| -> Result<(), PointError> {
        send(&mut client, words, interrupt)
    })?;
    client.settle()?;
    server.flush_trace();
    let first = count_lines(path).map_err(|error| missing("the trace", &error))?;
    let loaded = server.tiers()?;
    let (half, mut sent) = (load.scale.requests() / 2, 0);
    let mut middle = String::new();
    let began = Instant::now();
    commands.each_request(|words| -> Result<(), PointError> {
        if sent == half {
            client.settle()?;
            middle = server.tiers()?;
        }
        sent += 1;
        send(&mut client, words, interrupt)
    })?;
    client.settle()?;
    let elapsed = began.elapsed();
    let end = server.tiers()?;
    debug_assert_eq!(sent, load.scale.requests());
    let since =
        |page: &str, tier, field| tier_number(&end, tier, field) - tier_number(page, tier, field);
    let [fast, slow] = [0, 1].map(|tier| since(&middle, tier, "served"));
    Ok(ServedLoad {
        first,
        used_bytes: tier_number(&loaded, 0, "used_bytes"),
        cold_bytes: tier_number(&end, 1, "value_bytes"),
        moved_bytes: since(&loaded, 0, "moved_in_bytes") as u64,
        served: fast / (fast + slow).max(1.0),
        elapsed,
    })
    // The server ends here, so the trace is complete.
}

fn send(
    client: &mut CommandPipeline,
    words: &[Vec<u8>],
    interrupt: &Interrupt,
) -> Result<(), PointError> {
    if interrupt.is_raised() {
        return Err(PointError::Interrupted);
    }
    Ok(client.send(words)?)
}

/// Returns the number of complete lines of a file.
fn count_lines(path: &Path) -> io::Result<usize> {
    let mut reader = BufReader::with_capacity(1 << 16, File::open(path)?);
    let mut count = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(count);
        }
        count += buffer.iter().filter(|&&byte| byte == b'\n').count();
        let length = buffer.len();
        reader.consume(length);
    }
}

/// Reads a trace, with errors of a figure.
fn accesses(
    path: &Path,
) -> Result<impl Iterator<Item = Result<ObjectRangeAccess, PointError>>, PointError> {
    let file = File::open(path).map_err(|error| missing("the trace", &error))?;
    let trace = ObjectTrace::new(BufReader::with_capacity(1 << 16, file));
    Ok(trace.map(|access| access.map_err(|error| missing("the trace", &error))))
}

/// Returns the bytes of all objects after the first accesses of a trace.
fn loaded_bytes(path: &Path, first: usize) -> Result<u64, PointError> {
    let mut bytes = HashMap::new();
    for access in accesses(path)?.take(first) {
        let access = access?;
        bytes.insert(access.object, access.bytes);
    }
    Ok(bytes.into_values().sum())
}

/// Models of memory behind caches, or without any.
struct TracePlayback {
    lines: ObjectLines,
    memories: Vec<Hybrid>,
}

impl TracePlayback {
    fn new(
        caches: Option<CacheHierarchy>,
        variants: &[HybridVariant],
    ) -> Result<TracePlayback, PointError> {
        let hybrid = |variant: &HybridVariant| {
            Hybrid::new(*variant).map_err(|error| missing("a model of memory", &error))
        };
        Ok(TracePlayback {
            lines: ObjectLines::new(caches),
            memories: variants.iter().map(hybrid).collect::<Result<_, _>>()?,
        })
    }

    /// Executes an access. `memory_of` has the memory of each tier. Without `sampled` it passes the
    /// caches only. Adds to the numbers of lines of each memory, reads and writes.
    fn access(
        &mut self,
        access: &ObjectRangeAccess,
        memory_of: [usize; 2],
        sampled: bool,
        lines: &mut [[u64; 2]; 2],
    ) {
        let mut requests = self.lines.requests(access);
        if !sampled {
            return;
        }
        for (tier, request) in &mut requests {
            *tier = memory_of[(*tier).min(1)];
            lines[*tier][direction(request.access)] += 1;
        }
        for memory in &mut self.memories {
            memory.requests(&requests);
        }
    }
}

/// Replays the trace of a server in windows over all requests, and returns shares and costs.
fn replay(
    load: &AdmWorkload,
    placement: AdmPlacement,
    path: &Path,
    run: &ServedLoad,
    memory_of: [usize; 2],
    interrupt: &Interrupt,
) -> Result<PlacementOutcome, PointError> {
    let all = count_lines(path).map_err(|error| missing("the trace", &error))?;
    let count = all.saturating_sub(run.first);
    // Chooses the number of windows that gives the wanted number of lines, as the model does.
    let lines_each = load.kind.bytes(load.bench.bytes_max / 2).div_ceil(64) as usize;
    let windows = (load.scale.lines / (lines_each * WINDOW)).max(1);
    let period = (count / windows).max(WINDOW);
    let part = load.scale.objects as f64 / PAPER_OBJECTS;
    let mut cached = TracePlayback::new(Some(CacheHierarchy::scaled(part)), &VARIANTS)?;
    let mut uncached = TracePlayback::new(None, &VARIANTS[..1])?;
    let mut outcome = PlacementOutcome {
        served: match placement {
            AdmPlacement::Dram => 0.0,
            _ => run.served,
        },
        moved_bytes: run.moved_bytes,
        ..PlacementOutcome::default()
    };
    let mut uncached_lines = [[0; 2]; 2];
    let mut executed = 0_usize;
    for (number, access) in accesses(path)?.enumerate() {
        let access = access?;
        if number % 4096 == 0 && interrupt.is_raised() {
            return Err(PointError::Interrupted);
        }
        let sampled = number >= run.first && (number - run.first) % period < WINDOW;
        cached.access(&access, memory_of, sampled, &mut outcome.lines);
        uncached.access(&access, memory_of, sampled, &mut uncached_lines);
        executed += usize::from(sampled);
    }
    let powered = placement.powered();
    let memories = cached.memories.into_iter().chain(uncached.memories);
    outcome.costs = memories.map(|memory| memory.finish(powered)).collect();
    // A policy that copies more has more accesses for the same requests.
    for cost in &mut outcome.costs {
        cost.time_us *= count as f64 / executed.max(1) as f64;
    }
    Ok(outcome)
}

/// Returns the point of the model of objects without contents.
fn of_model(mut point: Row) -> Row {
    point.peer = format!("{}, model", point.peer);
    point
}

fn rows(
    figure: &'static str,
    load: &AdmWorkload,
    served: &ServedOutcomes,
    modelled: &Outcomes,
) -> Vec<Row> {
    let kind = load.kind.name();
    let axis = || bench_axis(load.bench);
    let share = |name: &str, placement: AdmPlacement, share: f64| {
        row(figure, placement, axis(), percent(name, share)).in_panel(kind)
    };
    let mut rows = Vec::new();
    for (placement, outcome) in &served.outcomes {
        let mut point = share(SERVED, *placement, outcome.served);
        point.kind = NumberOrigin::Measured;
        rows.push(point);
    }
    for (placement, outcome) in modelled {
        rows.push(of_model(share(SERVED, *placement, outcome.served)));
    }
    for (placement, part) in &served.in_memory {
        let mut point = share(IN_MEMORY, *placement, *part);
        point.kind = NumberOrigin::Measured;
        rows.push(point);
    }
    let costs = |outcomes: &Outcomes, variant, name: &str, part| -> Vec<Row> {
        let panel = format!("{name}, {kind}");
        let points = of_dram(outcomes, variant, part).into_iter();
        let point = |(placement, y)| row(figure, placement, axis(), y).in_panel(panel.clone());
        points.map(point).collect()
    };
    for (number, variant) in VARIANTS.iter().enumerate() {
        for part in [LATENCY, TIME, READS, WRITES] {
            rows.extend(costs(&served.outcomes, number, variant.name, part));
            // Times of the model are of its windows, which copies do not lengthen.
            if part.0 != TIME.0 {
                let points = costs(modelled, number, variant.name, part);
                rows.extend(points.into_iter().map(of_model));
            }
        }
    }
    rows.extend(costs(&served.outcomes, VARIANTS.len(), UNCACHED, LATENCY));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the outcomes of placements under a small load.
    fn served(scale: &AdmScale, placements: &[AdmPlacement]) -> Vec<PlacementOutcome> {
        let load = AdmWorkload::new(scale, BENCHES[0], Type::String);
        let served = serve(&load, placements, &Interrupt::default(), || ()).unwrap();
        let outcomes = served.outcomes.into_iter();
        outcomes.map(|(_, outcome)| outcome).collect()
    }

    /// Number of times that the load is tried: the server's policy follows a clock, so little may
    /// move on a busy machine.
    const TRIES: usize = 6;

    /// Returns true if ADM's policy serves more than first come and than a policy that moves
    /// nothing, by shares and by times.
    fn shows_that_the_policy_moves(scale: &AdmScale) -> bool {
        let both = served(scale, &[AdmPlacement::FirstCome, AdmPlacement::Adm]);
        let (first, adm) = (&both[0], &both[1]);
        for outcome in &both {
            let [[reads, writes], [cold_reads, _]] = outcome.lines;
            assert!(reads > 0 && cold_reads > 0 && writes > 0, "{outcome:?}");
            assert_eq!(outcome.costs.len(), VARIANTS.len() + 1);
            assert!(outcome.costs.iter().all(|cost| cost.latency_ns > 0.0));
        }
        let latency = |outcome: &PlacementOutcome| outcome.costs[VARIANTS.len()].latency_ns;
        let idle = served(&scale.clone().with_idle_policies(), &[AdmPlacement::Adm]);
        let idle = &idle[0];
        println!("{first:?}\n{adm:?}\n{idle:?}");
        [first, idle]
            .iter()
            .all(|other| adm.served > other.served + 0.05 && latency(adm) < latency(other))
            && idle.moved_bytes < adm.moved_bytes
    }

    /// The canary: with a policy that moves nothing, the numbers are those of first come.
    #[test]
    fn a_trace_has_both_tiers_and_shows_whether_the_policy_moves() {
        let scale = AdmScale {
            objects: 4000,
            requests_per_object: 50,
            lines: 50_000,
            threshold_in: 6,
            threshold_out: 3,
            ..AdmScale::tiny()
        };
        assert!((0..TRIES).any(|_| shows_that_the_policy_moves(&scale)));
    }
}
