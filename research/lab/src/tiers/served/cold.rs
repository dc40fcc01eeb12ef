//! Reads of values in memory while other clients keep the disk busy with cold ones.

use super::{ENTRY_BYTES, FilledServer, KEY_BYTES};
use crate::harness::{Completion, Interrupt, LatencySummary, MeasurementSample, in_turns};
use crate::report::{self, MeasurementProgress, NumberOrigin};
use crate::server::load::{ConnectionShape, ServerLoadResult};
use crate::tiers::{TiersBenchPlan, TiersError, ValueCorpus};
use crate::workload::random;
use nearfield_server::resp::encode::request as write;
use rand::RngExt;
use serde::Serialize;

/// Divisor of the values: memory has room for this part of them, and for all keys.
const TIMES: u64 = 10;
/// Percentage of keys with values that are pinned in memory.
const HOT_PERCENT: u64 = 1;
/// Clients that read values in memory.
const HOT: ConnectionShape = ConnectionShape {
    connections: 4,
    pipeline: 1,
};

/// A server with a tier in files.
pub type Row = report::ReportRow<ColdServed>;

/// The results of reads through the server.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ColdServed {
    /// The kind of values.
    pub values: String,
    /// Number of values in files.
    pub count: u64,
    /// Their bytes.
    pub value_bytes: u64,
    /// Number of clients that read cold values; each waits for its reply.
    pub readers: usize,
    /// Cold reads, thousands a second.
    pub cold_kops: f64,
    /// Latency of cold reads.
    pub cold_ns: LatencySummary,
    /// Latency of reads of values in memory, while no client reads cold ones.
    pub alone_ns: LatencySummary,
    /// Latency of reads of values in memory, while other clients read cold ones.
    pub beside_ns: LatencySummary,
    /// The ratio of the 99th percentile during cold reads to that without.
    pub p99_ratio: f64,
}

/// Measures a server with memory for all keys and a tenth of the values; the other values are in
/// files. It serves GETs of values that stay in memory: in turns alone, and while other clients
/// read cold values. There are as many of those clients as the plan has reads in flight.
///
/// # Errors
/// A server fails, or the interrupt is raised.
pub fn cold(
    plan: &TiersBenchPlan,
    values: &ValueCorpus,
    interrupt: &Interrupt,
) -> Result<Row, TiersError> {
    let mean = values.bytes() / (values.list.len() as u64).max(1);
    let keys = plan.file_bytes / mean.max(1);
    let memory = keys * (KEY_BYTES + ENTRY_BYTES) + plan.file_bytes / TIMES;
    let room = plan.file_bytes * 2;
    let folder = plan.folder.display();
    let tiers = [
        format!("memory={}", memory.max(1 << 20)),
        format!("file:{folder}={}", room.max(1 << 24)),
    ];
    let mut progress = MeasurementProgress::new("step", 1 + 2 * plan.rounds);
    progress.step("filling the server".to_owned());
    let server = FilledServer::fill("the server", &tiers, values, keys, interrupt)?;
    progress.part();
    let hot = keys * HOT_PERCENT / 100;
    // Pinned, or cold reads would push them out of memory.
    server.each(0..hot, |number, out| {
        write(out, &[b"NEARFIELD.TIER", b"PIN", &super::key(number)]);
    })?;
    let readers = ConnectionShape {
        connections: plan.depth,
        pipeline: 1,
    };
    let read = |shape: ConnectionShape, from: u64, seed: u64| {
        let mut random = random(seed, 12);
        let (first, last) = match from {
            0 => (0, hot.max(1)),
            from => (from, server.keys),
        };
        server.get(shape, plan.turn, || random.random_range(first..last))
    };
    let (mut alone, mut beside, mut cold) = (Vec::new(), Vec::new(), Vec::new());
    let ended = in_turns(plan.rounds, &mut [false, true], interrupt, |round, both| {
        let seed = round as u64;
        progress.step(match both {
            true => "reading values in memory during cold reads".to_owned(),
            false => "reading values in memory alone".to_owned(),
        });
        if *both {
            let (hot, others) = std::thread::scope(|scope| {
                let others = scope.spawn(|| read(readers, hot, 1000 + seed));
                let hot = read(HOT, 0, seed);
                let others = others
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                (hot, others)
            });
            beside.push(hot?);
            cold.push(others?);
        } else {
            alone.push(read(HOT, 0, seed)?);
        }
        progress.part();
        Ok::<_, TiersError>(())
    })?;
    if ended == Completion::Interrupted {
        return Err(TiersError::Interrupted);
    }
    let median = |values: Vec<f64>| MeasurementSample::new(values).map_or(0.0, |it| it.median());
    let latency = |slices: &[ServerLoadResult]| {
        let of = |pick: fn(&LatencySummary) -> u64| {
            median(slices.iter().map(|it| pick(&it.latency) as f64).collect()) as u64
        };
        LatencySummary {
            p50: of(|it| it.p50),
            p99: of(|it| it.p99),
            p999: of(|it| it.p999),
        }
    };
    let [alone_ns, beside_ns, cold_ns] = [&alone, &beside, &cold].map(|it| latency(it));
    let rate = |slice: &ServerLoadResult| slice.operations as f64 / slice.wall.as_secs_f64() / 1e3;
    let cold_kops = median(cold.iter().map(rate).collect());
    let in_files = server.figure(1, "values");
    let detail = ColdServed {
        values: values.name.clone(),
        count: in_files as u64,
        value_bytes: server.figure(1, "value_bytes") as u64,
        readers: readers.connections,
        cold_kops,
        cold_ns,
        alone_ns,
        beside_ns,
        p99_ratio: beside_ns.p99 as f64 / alone_ns.p99.max(1) as f64,
    };
    Ok(Row {
        rate_mops: Some(cold_kops / 1e3),
        latency_ns: Some(cold_ns),
        ..Row::new("server", NumberOrigin::Measured, detail)
    })
}
