//! The concurrent test: threads read and write the same few keys of one index, and the test checks
//! that some sequential order explains their outcomes.
//!
//! Every point operation goes into a [history](crate::history) that must be
//! [linearizable](crate::linearizability). Between the contended keys are stable ones that no
//! thread writes: every scan, predecessor and successor must return each of them exactly once and
//! in order. The state that a scan reports for a contended key, present or absent, must have been
//! true at some instant of the scan, so it goes into the history as a separate get. All written
//! values are different and sealed, so that a torn one shows.

mod ordered;
mod plan;
mod worker;

use crate::history::{HistoryEvent, HistoryRecorder};
use crate::keys::{self, Random, SampleForm};
use crate::linearizability::{self, Counterexample};
use crate::{panics, seeds};
use nearfield_core::OrderedIndex;
use plan::ConcurrentKeyPlan;
use rand::{Rng, RngExt};
use std::fmt::{self, Display, Formatter};
use std::sync::Barrier;
use std::thread;
use worker::ConcurrentTestWorker;

/// The size of a concurrent test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConcurrentTestConfig {
    /// The number of threads, at most 200.
    pub threads: usize,
    /// The number of operations of each thread, below 65,536.
    pub operations: usize,
    /// The greatest number of keys that are written, below 16,384; a seed draws fewer.
    pub keys_max: usize,
    /// The greatest number of operations in a batch; a seed draws fewer.
    pub batch_size_max: usize,
}

impl Default for ConcurrentTestConfig {
    /// Creates a configuration of four threads that write up to 200 keys, by 10,000 operations each
    /// in batches of up to 64.
    fn default() -> Self {
        ConcurrentTestConfig {
            threads: 4,
            operations: 10_000,
            keys_max: 200,
            batch_size_max: 64,
        }
    }
}

/// A fault of an index under concurrency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The operations on one key cannot be ordered. The text is the key.
    NotLinearizable(String, Box<Counterexample>),
    /// An outcome that no order of concurrent operations explains.
    Wrong(String),
    /// A thread panicked, with this message.
    Panicked(String),
}

/// Runs the concurrent test with `seeds` seeds on indexes from `build`, which receives the seed.
/// The environment variables are those of [`model::check`](crate::model::check).
///
/// # Panics
/// If an index fails; the message has the command that replays the seed. The threads interleave
/// differently each time, so a replay may need several attempts.
#[track_caller]
pub fn check<F: SampleForm, I: OrderedIndex<F>>(
    seeds: u64,
    config: &ConcurrentTestConfig,
    mut build: impl FnMut(u64) -> I,
) {
    let failure = seeds::first_failure(seeds, |seed| run::<F, I>(&build(seed), seed, config));
    if let Some(failure) = failure {
        panic!("{failure}");
    }
}

/// Runs the concurrent test once on an empty index: fills it, lets the threads work, and checks
/// their outcomes and the final entries.
///
/// # Errors
/// The index's fault.
pub fn run<F: SampleForm, I: OrderedIndex<F>>(
    index: &I,
    seed: u64,
    config: &ConcurrentTestConfig,
) -> Result<(), Violation> {
    // The writer, the operation and the key are parts of each value, in a few bits each.
    assert!(config.threads <= 200 && config.operations < 1 << 16 && config.keys_max < 1 << 14);
    let mut random = keys::random(seed);
    let plan = ConcurrentKeyPlan::<F>::draw(config, &mut random);
    let recorder = HistoryRecorder::new();
    let worker =
        |number, random| ConcurrentTestWorker::new(index, &plan, &recorder, number, random);

    // The owner works before the threads begin, and after they have ended.
    let mut owner = worker(config.threads, random.clone());
    guard(|| owner.fill())?;
    let barrier = Barrier::new(config.threads);
    let results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..config.threads)
            .map(|number| {
                let mut worker = worker(number, keys::random(random.next_u64()));
                let barrier = &barrier;
                scope.spawn(move || {
                    // Together: the first thread could be done before the last one is started.
                    barrier.wait();
                    guard(|| worker.work(config.operations))?;
                    Ok(worker.into_events())
                })
            })
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().expect("a worker catches its panics")
        };
        threads.into_iter().map(join).collect()
    });
    guard(|| owner.read_all())?;

    let mut history = owner.into_events();
    for events in results {
        history.extend::<Vec<HistoryEvent>>(events?);
    }
    linearizability::check(history).map_err(|counterexample| {
        let key = F::show_key(F::key(&plan.keys[counterexample.key as usize]));
        Violation::NotLinearizable(key, counterexample)
    })
}

fn guard(body: impl FnOnce() -> Result<(), Violation>) -> Result<(), Violation> {
    panics::catch(body).unwrap_or_else(|message| Err(Violation::Panicked(message)))
}

/// Returns a number from 1 to `max`. All orders of magnitude are equally likely.
fn draw_size(max: usize, random: &mut Random) -> usize {
    // Most sizes near `max` are alike, while a few keys or operations make the most conflicts.
    let power = random.random_range(0.0..=1.0);
    (max.max(1) as f64).powf(power).round() as usize
}

impl Display for Violation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Violation::NotLinearizable(key, counterexample) => {
                write!(f, "key {} is {key}; {counterexample}", counterexample.key)
            }
            Violation::Wrong(what) => f.write_str(what),
            Violation::Panicked(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Violation {}
