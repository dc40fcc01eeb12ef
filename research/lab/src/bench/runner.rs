//! Execution of the conductor's orders on one map.

use super::engine::{BenchEngine, BenchLane};
use super::task::{BenchOperation, BenchOperationKind, DigestKey, tasks};
use super::wire::SliceSpeed;
use crate::clock::thread_cpu_time;
use crate::harness::{Durations, MapCostCounts, together};
use crate::workload::Op;
use std::time::Duration;

/// Number of keys that are converted at once while the clock is stopped, during a load.
const LOAD_CHUNK: usize = 4096;

/// A map with its keys and operations. Calls are rare: the loops inside are compiled for the map.
pub(super) trait ContestantRunner {
    /// Inserts the first `loaded` keys.
    fn load(&mut self, loaded: usize, threads: usize, batch: usize) -> Result<SliceSpeed, String>;
    /// Takes the streams of operations, one a thread.
    fn prepare(&mut self, streams: &[Vec<Op>], batch: usize) -> Result<(), String>;
    /// Runs part `part` of `parts` of the streams. Part 0 is the warm-up.
    fn slice(&mut self, part: usize, parts: usize, version: u16) -> Result<SliceSpeed, String>;
    /// Runs a part and counts its work.
    fn count(&mut self, part: usize, parts: usize, version: u16) -> Result<MapCostCounts, String>;
}

/// The [`ContestantRunner`] of an engine.
pub(super) struct EngineRunner<S, E: BenchEngine<S>> {
    engine: E,
    keys: Vec<S>,
    streams: Vec<Vec<BenchOperation<E::Key>>>,
    batch: usize,
    durations: Durations,
}

/// The result of one thread.
struct BenchThreadResult {
    operations: usize,
    cpu: Duration,
    durations: Durations,
    wrong: u64,
}

impl<S: DigestKey, E: BenchEngine<S>> EngineRunner<S, E> {
    pub(super) fn new(engine: E, keys: Vec<S>) -> Self {
        EngineRunner {
            engine,
            keys,
            streams: Vec::new(),
            batch: 1,
            durations: Durations::new(),
        }
    }

    /// Turns the results of the threads into a slice; fails if any outcome was wrong.
    fn sum(&mut self, tallies: Vec<Result<BenchThreadResult, String>>) -> Result<f64, String> {
        let mut rate_mops = 0.0;
        let (mut wrong, mut operations) = (0, 0);
        for tally in tallies {
            let tally = tally?;
            wrong += tally.wrong;
            operations += tally.operations;
            self.durations.merge(&tally.durations);
            // Each thread has a rate by its own CPU time, and the map that of all together.
            rate_mops += tally.operations as f64 / tally.cpu.as_secs_f64().max(1e-9) / 1e6;
        }
        match wrong {
            0 => Ok(rate_mops),
            _ => Err(format!(
                "{wrong} of {operations} operations had a wrong outcome"
            )),
        }
    }
}

impl<S: DigestKey, E: BenchEngine<S>> ContestantRunner for EngineRunner<S, E> {
    fn load(&mut self, loaded: usize, threads: usize, batch: usize) -> Result<SliceSpeed, String> {
        self.durations = Durations::new();
        let keys = &self.keys[..loaded];
        let stretch = loaded.div_ceil(threads).max(1);
        debug_assert!(stretch * threads >= loaded, "no key is left out");
        let tallies = together(self.engine.lanes(threads, batch), |thread, mut lane| {
            let start = (thread * stretch).min(loaded);
            let keys = &keys[start..(start + stretch).min(loaded)];
            load_share::<S, E>(&mut lane, keys, batch)
        });
        let rate_mops = self.sum(tallies)?;
        Ok(SliceSpeed {
            rate_mops,
            latency: self.durations.percentiles(),
        })
    }

    fn prepare(&mut self, streams: &[Vec<Op>], batch: usize) -> Result<(), String> {
        self.streams = Vec::new();
        for ops in streams {
            self.streams.push(tasks(&self.keys, ops, E::key)?);
        }
        self.batch = batch;
        // Latencies of the load are not those of the streams.
        self.durations = Durations::new();
        Ok(())
    }

    fn slice(&mut self, part: usize, parts: usize, version: u16) -> Result<SliceSpeed, String> {
        let streams = &self.streams;
        let lanes = self.engine.lanes(streams.len(), self.batch);
        let tallies = together(lanes, |thread, mut lane| {
            run(&mut lane, share(&streams[thread], part, parts), version)
        });
        let rate_mops = self.sum(tallies)?;
        // Latencies of the warm-up do not count.
        if part == 0 {
            self.durations = Durations::new();
        }
        Ok(SliceSpeed {
            rate_mops,
            latency: self.durations.percentiles(),
        })
    }

    fn count(&mut self, part: usize, parts: usize, version: u16) -> Result<MapCostCounts, String> {
        let streams = &self.streams;
        let lanes = self.engine.lanes(streams.len(), self.batch);
        let counts = together(lanes, |thread, mut lane| {
            lane.count(share(&streams[thread], part, parts), version)
        });
        let sum = counts
            .into_iter()
            .try_fold(MapCostCounts::default(), |sum, counts| Some(sum + counts?));
        sum.ok_or_else(|| "does not count".to_owned())
    }
}

/// Returns part `part` of `parts` that are as equal as possible.
fn share<T>(tasks: &[T], part: usize, parts: usize) -> &[T] {
    let bound = |part: usize| tasks.len() * part / parts;
    &tasks[bound(part)..bound(part + 1)]
}

fn run<L: BenchLane>(
    lane: &mut L,
    tasks: &[BenchOperation<L::Key>],
    version: u16,
) -> Result<BenchThreadResult, String> {
    let mut durations = Durations::new();
    let start = thread_cpu_time();
    let wrong = lane.run(tasks, version, &mut durations)?;
    let cpu = thread_cpu_time() - start;
    Ok(BenchThreadResult {
        operations: tasks.len(),
        cpu,
        durations,
        wrong,
    })
}

/// Inserts `keys`, converting them in chunks while the clock is stopped.
fn load_share<S: DigestKey, E: BenchEngine<S>>(
    lane: &mut E::Lane<'_>,
    keys: &[S],
    batch: usize,
) -> Result<BenchThreadResult, String> {
    let mut durations = Durations::new();
    let mut cpu = Duration::ZERO;
    let mut tasks = Vec::new();
    // A multiple of the batch, so that only the last batch can be short.
    for chunk in keys.chunks(LOAD_CHUNK.next_multiple_of(batch)) {
        tasks.clear();
        for &key in chunk {
            tasks.push(BenchOperation {
                key: E::key(key)?,
                digest: key.digest(),
                verb: BenchOperationKind::Insert,
            });
        }
        let start = thread_cpu_time();
        lane.run(&tasks, 0, &mut durations)?;
        cpu += thread_cpu_time() - start;
    }
    Ok(BenchThreadResult {
        operations: keys.len(),
        cpu,
        durations,
        wrong: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An engine that forgets every tenth key.
    struct ForgetfulEngine;

    impl BenchEngine<u64> for ForgetfulEngine {
        type Key = u64;
        type Lane<'e> = ForgetfulEngine;

        fn key(source: u64) -> Result<u64, &'static str> {
            Ok(source)
        }

        fn lanes(&mut self, threads: usize, _: usize) -> Vec<ForgetfulEngine> {
            (0..threads).map(|_| ForgetfulEngine).collect()
        }
    }

    impl BenchLane for ForgetfulEngine {
        type Key = u64;

        fn run(
            &mut self,
            tasks: &[BenchOperation<u64>],
            version: u16,
            _: &mut Durations,
        ) -> Result<u64, String> {
            let value = |task: &BenchOperation<u64>| {
                (!task.key.is_multiple_of(10)).then(|| task.value(version))
            };
            Ok(tasks
                .iter()
                .filter(|task| !task.has_value(value(task)))
                .count() as u64)
        }
    }

    #[test]
    fn wrong_results_fail_the_slice() {
        let mut runner = EngineRunner::new(ForgetfulEngine, (0..1000).collect());
        runner.load(1000, 1, 1).unwrap();
        let good: Vec<Op> = (0..1000).filter(|i| i % 10 > 0).map(Op::Read).collect();
        runner.prepare(&[good.clone(), good], 1).unwrap();
        assert!(runner.slice(0, 1, 1).unwrap().rate_mops > 0.0);
        runner
            .prepare(&[(0..100).map(Op::Read).collect()], 1)
            .unwrap();
        let error = runner.slice(1, 2, 1).unwrap_err();
        assert_eq!(error, "5 of 50 operations had a wrong outcome");
        assert!(runner.count(0, 1, 1).is_err());
    }

    #[test]
    fn parts_cover_everything_once() {
        let tasks: Vec<u32> = (0..103).collect();
        let parts: Vec<u32> = (0..7)
            .flat_map(|part| share(&tasks, part, 7))
            .copied()
            .collect();
        assert_eq!(parts, tasks);
    }
}
