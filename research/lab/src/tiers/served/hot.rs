//! Reads of a skewed load with memory for a part of the values, compared with the same server
//! without tiers.

use super::{ENTRY_BYTES, FilledServer, KEY_BYTES, ZipfKeyDraws};
use crate::harness::{Completion, Interrupt, MeasurementSample, in_turns};
use crate::report::{self, MeasurementProgress, NumberOrigin};
use crate::server::load::ConnectionShape;
use crate::tiers::{TiersBenchPlan, TiersError, ValueCorpus};
use serde::Serialize;

/// Divisor of the values: memory has room for this part of them, and for all keys.
const PART: u64 = 5;
/// Number of turns in which the server learns which keys are hot.
const WARM_TURNS: usize = 10;
/// The clients; each waits for its reply.
const SHAPE: ConnectionShape = ConnectionShape {
    connections: 20,
    pipeline: 1,
};

/// A server with compressed memory, compared with one without tiers.
pub type Row = report::ReportRow<HotServed>;

/// The results of reads by Zipf's distribution.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct HotServed {
    /// The kind of values.
    pub values: String,
    /// Number of values.
    pub count: u64,
    /// The share of the reads that the memory tier served, in percent.
    pub memory_percent: f64,
    /// Reads of all keys.
    pub all: HotReadComparison,
    /// Reads of the hottest fifth of the keys, drawn by the same distribution.
    pub hottest: HotReadComparison,
}

/// The results of a server with tiers, and of one without.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct HotReadComparison {
    /// The server with tiers.
    pub tiered: ServerReadRate,
    /// The server without tiers.
    pub plain: ServerReadRate,
    /// The ratio of the rate with tiers to that without.
    pub rate_ratio: f64,
}

/// The results of one server, the medians of its turns.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct ServerReadRate {
    /// Thousands of reads a second.
    pub kops: f64,
    /// The processor time of the server for a read, in nanoseconds.
    pub cpu_ns: f64,
}

/// Measures a server with memory for all keys and a fifth of the values, and the other values in
/// compressed memory. It serves GETs by Zipf's distribution (0.99), in turns with the same server
/// without tiers.
///
/// # Errors
/// A server fails, or the interrupt is raised.
pub fn hot(
    plan: &TiersBenchPlan,
    values: &ValueCorpus,
    interrupt: &Interrupt,
) -> Result<Row, TiersError> {
    let keys = values.list.len() as u64;
    let memory = keys * (KEY_BYTES + ENTRY_BYTES) + values.bytes() / PART;
    let tiers = [
        format!("memory={}", memory.max(1 << 20)),
        format!("compressed={}", values.bytes().max(1 << 24)),
    ];
    let mut progress = MeasurementProgress::new("step", 2 + WARM_TURNS + 4 * plan.rounds);
    let mut start = |name: &str, tiers: &[String]| {
        progress.step(format!("filling {name}"));
        let server = FilledServer::fill(name, tiers, values, keys, interrupt);
        progress.part();
        server
    };
    let tiered = start("the server with tiers", &tiers)?;
    let plain = start("the server without", &[])?;
    let draws = |ranks, seed| ZipfKeyDraws::new(keys, ranks, seed).ok_or(TiersError::NoValues);
    for round in 0..WARM_TURNS {
        progress.step("the server learns which values are hot".to_owned());
        let mut draws = draws(keys, round as u64)?;
        tiered.get(SHAPE, plan.turn, || draws.draw())?;
        progress.part();
    }
    let served = || [0, 1].map(|tier| tiered.figure(tier, "served"));
    let mut measure = |ranks: u64| {
        let mut sides = [&tiered, &plain].map(|server| (server, Vec::new(), Vec::new()));
        let ended = in_turns(
            plan.rounds,
            &mut sides,
            interrupt,
            |round, (server, rates, cpu)| {
                progress.step(server.process.name.clone());
                // Both servers of a round get the same keys.
                let mut draws = draws(ranks, 100 + round as u64)?;
                let since = server.process.cpu_time();
                let slice = server.get(SHAPE, plan.turn, || draws.draw())?;
                let taken = server.process.cpu_time().saturating_sub(since);
                rates.push(slice.operations as f64 / slice.wall.as_secs_f64() / 1e3);
                cpu.push(taken.as_nanos() as f64 / slice.operations.max(1) as f64);
                progress.part();
                Ok::<_, TiersError>(())
            },
        )?;
        if ended == Completion::Interrupted {
            return Err(TiersError::Interrupted);
        }
        let median =
            |values: Vec<f64>| MeasurementSample::new(values).map_or(0.0, |it| it.median());
        let [tiered, plain] = sides.map(|(_, rates, cpu)| ServerReadRate {
            kops: median(rates),
            cpu_ns: median(cpu),
        });
        let rate_ratio = tiered.kops / plain.kops;
        Ok(HotReadComparison {
            tiered,
            plain,
            rate_ratio,
        })
    };
    let before = served();
    let all = measure(keys)?;
    // Before the hottest are read alone, because memory serves most of those.
    let after = served();
    let hottest = measure(keys / PART)?;
    let [memory, cold] = [after[0] - before[0], after[1] - before[1]];
    let detail = HotServed {
        values: values.name.clone(),
        count: keys,
        memory_percent: 100.0 * memory / (memory + cold).max(1.0),
        all,
        hottest,
    };
    Ok(Row {
        rate_mops: Some(all.tiered.kops / 1e3),
        ..Row::new("server", NumberOrigin::Measured, detail)
    })
}
