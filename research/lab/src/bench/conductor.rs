//! The conductor, which runs a plan table by table.

use super::field::{LoadedKeySet, Starter};
use super::plan::{BenchPlan, BenchTable};
use super::report::{Row, Slices, TableResult};
use super::tally::ContestantResults;
use super::turns::{PARTS, TableMeasurement};
use crate::error::LabError;
use crate::harness::{Completion, Interrupt, in_turns, together};
use crate::limit::{self, MachineLimit};
use crate::report::{LIMIT, NumberOrigin};
use crate::workload::{KeySet, Mix, StreamSpec};
use std::convert::Infallible;
use std::process::Command;
use std::time::Duration;

/// The seed of all keys and operations.
const SEED: u64 = 1;
/// Number of loads that count, each in a process of its own.
const LOADS: usize = 3;
const LINE_BYTES: u64 = 64;
/// The smallest buffer that the limit can be measured with, in cache lines: a huge page.
const LIMIT_LINES_MIN: usize = 1 << 15;
/// The most keys for which a slice has the smaller number of operations.
const SMALL_KEYS: usize = 4_000_000;

/// Progress that a waiting user wants to see.
#[derive(Debug)]
pub enum ConductorEvent<'e> {
    /// A step of the work that has begun.
    Step(String),
    /// Slices done and in total, of the present table.
    Slice(usize, usize),
    /// A table that is finished.
    Table(&'e TableResult),
    /// A circumstance that matters to the figures.
    Note(String),
}

/// Callback that receives events as they happen.
pub(super) type Observer<'o> = dyn FnMut(ConductorEvent<'_>) + 'o;

/// The conductor of plans. `command` starts a process that calls [`serve`](super::serve).
pub struct Conductor<'c> {
    starter: Starter<'c>,
    /// The operations of a thread in a slice; `None` if the mix and the keys determine them.
    slice: Option<usize>,
}

impl<'c> Conductor<'c> {
    /// Creates a conductor that starts contestants with `command`.
    pub fn new(command: &'c dyn Fn() -> Command, interrupt: &'c Interrupt) -> Self {
        Conductor {
            starter: Starter { command, interrupt },
            slice: None,
        }
    }

    /// Sets the operations of a thread in a slice, which otherwise last some tenths of a second.
    /// Tests need rows, but no rates.
    #[must_use]
    pub fn with_slice(self, operations: Option<usize>) -> Self {
        Conductor {
            slice: operations,
            ..self
        }
    }

    /// Measures all tables of a plan.
    ///
    /// # Errors
    /// A key set that cannot be made, or a mix that does not fit its keys. Failures of contestants
    /// are no errors: they are reported with the table.
    pub fn run(
        &self,
        plan: &BenchPlan,
        observe: &mut dyn FnMut(ConductorEvent<'_>),
    ) -> Result<Completion, LabError> {
        let mut stage: Option<(&BenchTable, LoadedKeySet)> = None;
        let mut limits = Vec::new();
        for table in &plan.tables {
            let is_same =
                |other: &BenchTable| (&other.keys, other.count) == (&table.keys, table.count);
            let mut current = match stage.take().filter(|(other, _)| is_same(other)) {
                Some((_, stage)) => stage,
                None => {
                    observe(ConductorEvent::Step(format!(
                        "generating {} keys",
                        table.keys
                    )));
                    // A limit is that of a buffer with a line for each key.
                    limits.clear();
                    LoadedKeySet {
                        keys: table.keys.generate(table.count, SEED)?,
                        maps: Vec::new(),
                    }
                }
            };
            let mut result = self.table(table, &mut current, observe)?;
            if self.starter.interrupt.is_raised() {
                return Ok(Completion::Interrupted);
            }
            // The limit is one random cache line for each operation. Loads and scans have no such
            // bound.
            if table.mix != Mix::Load && table.mix.shares().scan == 0 {
                observe(ConductorEvent::Step(
                    "measuring the machine's limit".to_owned(),
                ));
                // Short slices of contestants allow no comparison, so the limit may be inaccurate.
                let part = if self.slice.is_some() { 10 } else { 1 };
                let slice = limit::SLICE / part;
                let limit = limit_of(&mut limits, current.keys.len(), table.threads, slice)?;
                result.rows.push(Row {
                    rate_mops: Some(limit.lines_mops),
                    detail: Slices {
                        rate_spread: Some(0.0),
                        huge_page_share: Some(limit.huge_page_share),
                        counters: None,
                    },
                    ..result.row(LIMIT, NumberOrigin::Measured)
                });
            }
            // The sort is stable: counted rows follow, in their order.
            result
                .rows
                .sort_by_key(|row| row.kind == NumberOrigin::Counted);
            observe(ConductorEvent::Table(&result));
            stage = Some((table, current));
        }
        Ok(Completion::Finished)
    }

    fn table(
        &self,
        table: &BenchTable,
        stage: &mut LoadedKeySet,
        observe: &mut Observer<'_>,
    ) -> Result<TableResult, LabError> {
        let mut result = TableResult::of(table, stage.keys.len());
        if table.mix == Mix::Load {
            // Maps that are still loaded would take the memory of those that are measured.
            stage.maps.clear();
            self.loads(&stage.keys, &mut result, observe);
            return Ok(result);
        }
        let streams = stream_spec(table, stage.keys.len(), self.slice).generate()?;
        TableMeasurement {
            starter: &self.starter,
            streams: &streams,
        }
        .measure(stage, &mut result, observe);
        // Another table would find keys that it is about to insert.
        if table.mix.shares().insert > 0 {
            stage.maps.clear();
        }
        Ok(result)
    }

    /// Measures loads in turn, each in a process of its own.
    fn loads(&self, keys: &KeySet, result: &mut TableResult, observe: &mut Observer<'_>) {
        let (threads, batch) = (result.table.threads, result.table.batch);
        let contestants = result.table.contestants.iter();
        let mut tallies: Vec<ContestantResults> =
            contestants.map(|&c| ContestantResults::of(c)).collect();
        let (mut done, total) = (0, LOADS * tallies.len());
        let interrupt = self.starter.interrupt;
        let Ok(_) = in_turns(LOADS, &mut tallies, interrupt, |_, tally| {
            observe(ConductorEvent::Slice(done, total));
            done += 1;
            if tally.failure.is_some() {
                return Ok::<_, Infallible>(());
            }
            match self.starter.load(tally.contestant, keys, threads, batch) {
                Ok((slice, memory)) => {
                    tally.rates.push(slice.rate_mops);
                    tally.latency = slice.latency;
                    tally.memory.get_or_insert((memory, keys.len()));
                }
                Err(error) => tally.failure = Some(error),
            }
            Ok(())
        });
        tallies.into_iter().for_each(|tally| tally.close(result));
    }
}

/// The machine's limit for a number of threads.
#[derive(Clone, Copy)]
struct Limit {
    threads: usize,
    /// Millions of cache lines read per second of CPU time.
    lines_mops: f64,
    huge_page_share: f64,
}

/// Returns the limit for `threads` threads, each with a cache line for each key of its share;
/// measures it in slices of this length unless `known` contains it.
fn limit_of(
    known: &mut Vec<Limit>,
    keys: usize,
    threads: usize,
    slice: Duration,
) -> Result<Limit, LabError> {
    if let Some(limit) = known.iter().find(|limit| limit.threads == threads) {
        return Ok(*limit);
    }
    debug_assert!(threads > 0);
    let lines = (keys / threads).max(LIMIT_LINES_MIN) as u64;
    let measure = |_, ()| MachineLimit::measure(Some(lines * LINE_BYTES), slice, &mut |_, _| {});
    let mut sum = Limit {
        threads,
        lines_mops: 0.0,
        huge_page_share: 0.0,
    };
    // Threads share caches and bandwidth, so all measure at the same time.
    for limit in together(vec![(); threads], measure) {
        let limit = limit?;
        let share = limit.huge_page_bytes as f64 / limit.buffer_bytes as f64;
        sum.lines_mops += limit.lines_per_second / 1e6;
        sum.huge_page_share += share / threads as f64;
    }
    known.push(sum);
    Ok(sum)
}

/// Chooses the operations for a table of `keys` keys: `slice` of them for a thread and a slice.
fn stream_spec(table: &BenchTable, keys: usize, slice: Option<usize>) -> StreamSpec {
    let shares = table.mix.shares();
    // Enough for some tenths of a second.
    let enough = match (shares.scan > 0, keys <= SMALL_KEYS) {
        (true, true) => 40_000,
        (true, false) => 100_000,
        (false, true) => 500_000,
        (false, false) => 1_000_000,
    };
    let slice = slice.unwrap_or(enough);
    // A slice has at least one whole batch.
    let operations = slice.max(table.batch) * PARTS * table.threads;
    // One operation in twenty inserts, so this holds out less than half of the keys.
    let insertable = if shares.insert > 0 {
        keys.saturating_mul(8)
    } else {
        usize::MAX
    };
    StreamSpec {
        mix: table.mix,
        distribution: Some(table.distribution),
        keys,
        threads: table.threads,
        operations: operations.min(insertable),
        seed: SEED,
        hot_seed: SEED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{BenchContestant, BenchRequest};
    use crate::workload::{Distribution, KeySetSpec};

    fn run(mixes: &[Mix], script: &str) -> (Completion, Vec<TableResult>) {
        let request = BenchRequest {
            keys: vec![KeySetSpec::Dense],
            counts: vec![100],
            mixes: mixes.to_vec(),
            contestants: ["congee", "blart"]
                .map(|name| name.parse().unwrap())
                .to_vec(),
            ..BenchRequest::default()
        };
        let plan = BenchPlan::new(&request).unwrap();
        let interrupt = Interrupt::default();
        let command = || {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let mut results = Vec::new();
        let conductor = Conductor::new(&command, &interrupt).with_slice(Some(1000));
        let completion = conductor.run(&plan, &mut |event| {
            if let ConductorEvent::Table(result) = event {
                results.push(result.clone());
            }
        });
        (completion.unwrap(), results)
    }

    #[test]
    fn a_crash_costs_each_contestant_its_row_and_nothing_else() {
        // The script takes the keys, then dies while it loads.
        let script = r#"read l; head -c 800 >/dev/null; echo '{"answer":"ready"}'; read l;
                        echo no room >&2; exit 9"#;
        let (completion, results) = run(&[Mix::DcartA, Mix::Load], script);
        assert_eq!(completion, Completion::Finished);
        assert_eq!(results.len(), 2);
        for result in results {
            assert!(result.rows.iter().all(|row| row.peer == LIMIT));
            let failed = result.failed.iter();
            let contestants: Vec<&str> = failed.map(|failed| &*failed.peer).collect();
            assert_eq!(contestants, ["congee", "blart"]);
            for failure in &result.failed {
                assert_eq!(failure.error, "exit status: 9: no room");
            }
        }
    }

    #[test]
    fn nonsense_is_a_failure_too() {
        for script in [
            "echo hello",
            "echo '{\"answer\":\"sliced\"}'",
            "true",
            "exec false",
        ] {
            // A table of scans has no row of the machine's limit, which takes seconds to measure.
            let (_, results) = run(&[Mix::YcsbE], script);
            assert_eq!(results[0].failed.len(), 2, "{script}");
        }
    }

    #[test]
    fn streams_fit_their_keys() {
        let table = |mix, batch| BenchTable {
            keys: KeySetSpec::Sparse,
            count: None,
            mix,
            distribution: Distribution::Uniform,
            threads: 2,
            batch,
            contestants: vec![BenchContestant::Nearfield],
            counters: false,
            skips: Vec::new(),
        };
        assert_eq!(
            stream_spec(&table(Mix::YcsbC, 1), 1000, None).operations,
            500_000 * PARTS * 2
        );
        assert_eq!(
            stream_spec(&table(Mix::YcsbC, 1 << 20), 1000, None).operations,
            (PARTS << 20) * 2
        );
        let short = stream_spec(&table(Mix::YcsbC, 64), 1000, Some(300));
        assert_eq!(short.operations, 300 * PARTS * 2);
        for keys in [100, 1000, 100_000] {
            let spec = stream_spec(&table(Mix::YcsbE, 1), keys, None);
            assert!(spec.generate().is_ok(), "{keys}");
        }
    }
}
