//! Figure 14: the words of figure 13, requested by clients of the Redis protocol.
//!
//! Modules are modelled, and throughput is theirs alone. Clients, connections and the reading and
//! writing of commands are real on this machine: the time of a batch in them is measured, and shown
//! as a separate column. The two are not added. Installed servers get the same commands and are
//! measured as a whole: the throughput of this machine without modules.

use super::bench::{RadarBench, RadarKeySet, RadarWorkload};
use super::contender::{self, RadarContender};
use super::data::{self, ExpectedEntries};
use super::front::PipelinedClients;
use super::scale::{Figure, RadarScale};
use super::skew::Skew;
use super::text;
use super::work::{RadarCheckedBatch, RadarOperationKind, ScanLengthRule, Verbs};
use crate::figures::job::{FigureJob, PointError, RunningJob};
use crate::figures::row::{Quantity, Row};
use crate::harness::Interrupt;
use crate::report::NumberOrigin;
use crate::server::ServerProgram;
use crate::server::process::ServerProcess;
use crate::workload::random;
use nearfield_core::Batch;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const VERBS: [RadarOperationKind; 4] = [
    RadarOperationKind::Get,
    RadarOperationKind::Predecessor,
    RadarOperationKind::Scan,
    RadarOperationKind::Update,
];
/// The least number of batches that count, because a clock measures some of their time.
const BATCHES_MIN: usize = 3;

/// Creates a job for each index, and one for each server; a clock measures all.
pub(super) fn jobs(figure: &Figure, scale: &RadarScale) -> Vec<FigureJob> {
    let scale = &RadarScale {
        batches: scale.batches.max(BATCHES_MIN),
        ..scale.clone()
    };
    let indexes = contender::DESIGNS.map(|contender| index(figure.name, scale, contender));
    let servers = SERVERS.map(|server| measured(figure.name, scale, server));
    indexes.into_iter().chain(servers).collect()
}

fn index(figure: &'static str, scale: &RadarScale, contender: RadarContender) -> FigureJob {
    let own = scale.clone();
    let job = FigureJob::new(figure, contender.name, VERBS.len(), move |run| {
        let (tokens, source) = text::of(&own)?;
        let x = Quantity::new(source, "", tokens.len() as f64);
        let keys = RadarKeySet::These(tokens.clone());
        let tokens = Arc::new(tokens);
        let mut bench = RadarBench::load(&contender, &own, &[], keys, run.interrupt)?;
        bench.serve()?;
        for verb in VERBS {
            let phase = RadarWorkload {
                verbs: Verbs::only(verb),
                skew: Skew::Words(Arc::clone(&tokens)),
                batches: own.batches,
            };
            let outcome = bench.outcome(&phase, run.interrupt)?;
            let row = outcome.row(figure, contender.name, 0, x.clone());
            run.rows.push(row);
            run.end_phase();
        }
        Ok(())
    });
    FigureJob {
        bytes: scale.bytes(),
        alone: true,
        ..job
    }
}

/// A server on this machine.
#[derive(Clone, Copy)]
struct RadarPeerServer {
    name: &'static str,
    verbs: &'static [RadarOperationKind],
    /// Function that returns the reason why it cannot run here, if it cannot.
    missing: fn() -> Option<String>,
    program: fn() -> ServerProgram,
}

const SERVERS: [RadarPeerServer; 2] = [
    RadarPeerServer {
        name: "redis-server",
        // It does not keep keys in order.
        verbs: &[RadarOperationKind::Get, RadarOperationKind::Update],
        missing: || {
            let mut version = Command::new("redis-server");
            version.arg("--version").stdout(Stdio::null());
            let error = version.status().err()?;
            Some(format!("redis-server cannot be started: {error}"))
        },
        program: || ServerProgram::Redis("redis-server".into()),
    },
    RadarPeerServer {
        name: "nearfield serve",
        verbs: &VERBS,
        missing: || {
            let program = std::env::current_exe().unwrap_or_default();
            let is_server = program
                .file_stem()
                .is_some_and(|name| name == "nearfield-bench");
            // The server is a subcommand of this program, unless a test runs.
            (!is_server).then(|| format!("{} is not `nearfield-bench`", program.display()))
        },
        program: || ServerProgram::Own { threads: 1 },
    },
];

fn measured(figure: &'static str, scale: &RadarScale, server: RadarPeerServer) -> FigureJob {
    let own = scale.clone();
    let job = FigureJob::new(figure, server.name, server.verbs.len(), move |run| {
        let (tokens, source) = text::of(&own)?;
        let x = Quantity::new(source, "", tokens.len() as f64);
        let program = (server.program)();
        let process = ServerProcess::start(server.name, |port| program.command(port, None))?;
        let mut clients = PipelinedClients::of_server(server.name, process.address)?;
        let mut data = fill(&mut clients, &tokens, own.batch, run.interrupt)?;
        let skew = Skew::Words(Arc::new(tokens));
        for &verb in server.verbs {
            let verbs = Verbs::only(verb);
            let took = median_time(&mut clients, &mut data, &skew, &verbs, &own, run)?;
            let rate = verbs.operations(own.batch) as f64 / took.as_secs_f64().max(1e-9) / 1e6;
            let row = Row::rated(figure, server.name, x.clone(), rate, NumberOrigin::Measured);
            run.rows.push(row.in_panel(verbs.name));
            run.end_phase();
        }
        Ok(())
    });
    FigureJob {
        bytes: scale.bytes(),
        alone: true,
        missing: (server.missing)(),
        ..job
    }
}

/// Inserts all keys.
fn fill(
    clients: &mut PipelinedClients,
    keys: &[u64],
    batch: usize,
    interrupt: &Interrupt,
) -> Result<ExpectedEntries, PointError> {
    for part in keys.chunks(batch) {
        let mut inserts = Batch::with_capacity(part.len());
        for &key in part {
            inserts.insert(key, data::value(key, 0));
        }
        clients.execute(&mut inserts)?;
        if interrupt.is_raised() {
            return Err(PointError::Interrupted);
        }
    }
    Ok(ExpectedEntries::new(keys.to_vec()))
}

/// Executes batches that do not count and some that do; returns the median time of the latter.
fn median_time(
    clients: &mut PipelinedClients,
    data: &mut ExpectedEntries,
    skew: &Skew,
    verbs: &Verbs,
    scale: &RadarScale,
    run: &RunningJob<'_>,
) -> Result<Duration, PointError> {
    let shares = skew.shares(scale.modules);
    let operations = verbs.operations(scale.batch);
    let mut took = Vec::new();
    for number in 0..scale.warming + scale.batches {
        let chooser = skew.chooser(&shares, data, number as u64, scale.seed);
        let mut random = random(scale.seed, number as u64);
        let mut work = RadarCheckedBatch::make(
            data,
            &chooser,
            verbs,
            ScanLengthRule::Positions,
            operations,
            &mut random,
        );
        took.push(clients.execute(&mut work.batch)?);
        if let Some((wrong, first)) = work.check() {
            return Err(PointError::Wrong {
                wrong,
                operations: operations as u64,
                first,
            });
        }
        data.settle();
        if run.interrupt.is_raised() {
            return Err(PointError::Interrupted);
        }
    }
    let counted = &mut took[scale.warming..];
    debug_assert!(!counted.is_empty(), "no batch counts");
    counted.sort_unstable();
    Ok(counted[counted.len() / 2])
}
