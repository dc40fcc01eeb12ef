//! Counters since the start of the server, for each command and for all.
//!
//! Some threads have counters of their own, which no other thread writes. They count without atomic
//! additions, each of which would take as long as the rest of counting. The other threads share one
//! set of counters. Counters are summed up when they are read, and never set back: a reset records
//! their values, which are subtracted from then on.

use crate::catalog::CommandRegistry;
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The number of threads that may have counters of their own.
const OWN_SHARDS: usize = 8;
/// The index of the counters that all other threads share.
const COMMON_SHARD: usize = OWN_SHARDS;
/// The number of duration classes. Durations are counted by powers of two of nanoseconds.
pub const BUCKETS: usize = 40;
/// The largest number of different error codes that are counted.
const ERRORS_MAX: usize = 128;

thread_local! {
    /// The index of the counters that only this thread writes, if it has some.
    static OWN: Cell<Option<usize>> = const { Cell::new(None) };
}

/// A guard: while it lives, its thread has counters of its own.
#[derive(Debug)]
pub struct CountsAlone(std::marker::PhantomData<*const ()>);

impl Drop for CountsAlone {
    fn drop(&mut self) {
        OWN.set(None);
    }
}

/// Adds to a counter. If it is the thread's `own`, no other thread writes it.
#[inline]
fn add(counter: &AtomicU64, summand: u64, own: bool) {
    if own {
        // No other thread writes it, so a load and a store suffice; they are cheaper.
        counter.store(counter.load(Relaxed) + summand, Relaxed);
    } else {
        counter.fetch_add(summand, Relaxed);
    }
}

/// The counters of one command.
#[derive(Debug)]
struct CommandCallCounters {
    calls: AtomicU64,
    nanoseconds: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
    durations: [AtomicU64; BUCKETS],
}

impl Default for CommandCallCounters {
    fn default() -> Self {
        CommandCallCounters {
            calls: AtomicU64::default(),
            nanoseconds: AtomicU64::default(),
            rejected: AtomicU64::default(),
            failed: AtomicU64::default(),
            durations: std::array::from_fn(|_| AtomicU64::default()),
        }
    }
}

/// The counts of one command at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandCounts {
    /// The command's full name.
    pub name: &'static str,
    /// The number of executions.
    pub calls: u64,
    /// The time that all executions took together, in nanoseconds.
    pub nanoseconds: u64,
    /// The number of times that it was refused before it was executed.
    pub rejected: u64,
    /// The number of times that its reply was an error.
    pub failed: u64,
    /// The number of executions that took less than 2^n nanoseconds and at least half of that, by
    /// n.
    pub durations: [u64; BUCKETS],
}

/// All counters.
#[derive(Debug)]
pub struct Statistics {
    registry: &'static CommandRegistry,
    shards: Vec<Vec<CommandCallCounters>>,
    /// The counts of each command at the last reset, by the command's number. Empty before the
    /// first reset.
    at_reset: Mutex<Vec<CommandCounts>>,
    errors: Mutex<BTreeMap<String, u64>>,
    /// The number of accepted connections.
    pub connections: AtomicU64,
    /// The number of connections that were refused because there were too many.
    pub rejected_connections: AtomicU64,
    /// The number of received bytes.
    pub received_bytes: AtomicU64,
    /// The number of sent bytes.
    pub sent_bytes: AtomicU64,
    /// The number of clients that were closed because they read their replies too slowly.
    pub output_limit_closed: AtomicU64,
    /// The number of clients that were closed because they sent too much at once.
    pub query_limit_closed: AtomicU64,
    /// The number of errors sent to clients.
    pub error_replies: AtomicU64,
    /// The most memory that was in use at any reading, in bytes.
    pub peak_memory_bytes: AtomicU64,
    /// True if the duration of each command is recorded (`latency-tracking`).
    pub keeps_times: AtomicBool,
    rate: Mutex<InstantaneousRates>,
}

/// Samples of the total numbers of commands and bytes, from which rates per second follow.
#[derive(Debug, Default)]
struct InstantaneousRates {
    last_ms: u64,
    last: [u64; 3],
    per_second: [u64; 3],
}

impl Statistics {
    /// Creates counters for the commands of `registry`.
    pub fn new(registry: &'static CommandRegistry) -> Statistics {
        let shard = || {
            registry
                .entries()
                .iter()
                .map(|_| CommandCallCounters::default())
        };
        Statistics {
            registry,
            shards: (0..=COMMON_SHARD).map(|_| shard().collect()).collect(),
            at_reset: Mutex::default(),
            errors: Mutex::default(),
            connections: AtomicU64::default(),
            rejected_connections: AtomicU64::default(),
            received_bytes: AtomicU64::default(),
            sent_bytes: AtomicU64::default(),
            output_limit_closed: AtomicU64::default(),
            query_limit_closed: AtomicU64::default(),
            error_replies: AtomicU64::default(),
            peak_memory_bytes: AtomicU64::default(),
            keeps_times: AtomicBool::new(true),
            rate: Mutex::default(),
        }
    }

    /// Gives this thread counters of its own, as thread `number` of a server. No other thread of
    /// the server may have the same number.
    pub fn count_alone(&self, number: usize) -> CountsAlone {
        debug_assert!(OWN.get().is_none(), "a thread has one set of counters");
        // Further threads share the common counters.
        OWN.set(Some(number).filter(|number| *number < OWN_SHARDS));
        CountsAlone(std::marker::PhantomData)
    }

    /// Returns the counters of a command that this thread writes, and true if no other thread
    /// writes them.
    #[inline]
    fn counters(&self, number: usize) -> Option<(&CommandCallCounters, bool)> {
        let own = OWN.get();
        let shard = self.shards.get(own.unwrap_or(COMMON_SHARD))?;
        Some((shard.get(number)?, own.is_some()))
    }

    /// Counts `calls` executions of a command that took the time `took` all together.
    #[inline]
    pub fn count(&self, number: usize, calls: u64, took: Duration) {
        let Some((counters, own)) = self.counters(number).filter(|_| calls > 0) else {
            return;
        };
        let nanoseconds = took.as_nanos() as u64;
        add(&counters.calls, calls, own);
        add(&counters.nanoseconds, nanoseconds, own);
        if !self.keeps_times.load(Relaxed) {
            return;
        }
        // Commands of a batch are not timed one by one, so each gets the mean.
        let each = nanoseconds / calls;
        let bucket = (u64::BITS - each.leading_zeros()) as usize;
        if let Some(bucket) = counters.durations.get(bucket.min(BUCKETS - 1)) {
            add(bucket, calls, own);
        }
    }

    /// Counts that a command was refused before it was executed.
    pub fn count_rejected(&self, number: usize) {
        if let Some((counters, own)) = self.counters(number) {
            add(&counters.rejected, 1, own);
        }
    }

    /// Counts that the reply to a command was an error.
    pub fn count_failed(&self, number: usize) {
        if let Some((counters, own)) = self.counters(number) {
            add(&counters.failed, 1, own);
        }
    }

    /// Counts an error sent to a client, by its code.
    pub fn count_error(&self, text: &str) {
        self.error_replies.fetch_add(1, Relaxed);
        let code = text.split_whitespace().next().unwrap_or("ERR");
        let mut errors = self.errors.lock();
        if let Some(count) = errors.get_mut(code) {
            *count += 1;
        } else if errors.len() < ERRORS_MAX {
            // Scripts choose the codes of their errors, hence the limit.
            errors.insert(code.to_owned(), 1);
        }
    }

    /// Returns the number of errors sent, by code.
    pub fn errors(&self) -> Vec<(String, u64)> {
        let errors = self.errors.lock();
        errors
            .iter()
            .map(|(code, count)| (code.clone(), *count))
            .collect()
    }

    /// Returns the counts since the last reset, of each command that was sent.
    pub fn commands(&self) -> Vec<CommandCounts> {
        let at_reset = self.at_reset.lock();
        let since = |(number, all): (usize, CommandCounts)| match at_reset.get(number) {
            Some(before) => all.less(before),
            None => all,
        };
        let all = self.since_start().into_iter().enumerate().map(since);
        // As in Redis, commands that were never sent are left out.
        all.filter(|counts| counts.calls + counts.rejected > 0)
            .collect()
    }

    /// Returns the counts of each command since the start, by the command's number, ignoring
    /// resets.
    fn since_start(&self) -> Vec<CommandCounts> {
        let all = self.registry.entries().iter().enumerate();
        all.map(|(number, entry)| self.of(number, &entry.name))
            .collect()
    }

    fn of(&self, number: usize, name: &'static str) -> CommandCounts {
        let mut counts = CommandCounts {
            name,
            calls: 0,
            nanoseconds: 0,
            rejected: 0,
            failed: 0,
            durations: [0; BUCKETS],
        };
        for counters in self.shards.iter().filter_map(|shard| shard.get(number)) {
            counts.calls += counters.calls.load(Relaxed);
            counts.nanoseconds += counters.nanoseconds.load(Relaxed);
            counts.rejected += counters.rejected.load(Relaxed);
            counts.failed += counters.failed.load(Relaxed);
            for (sum, bucket) in counts.durations.iter_mut().zip(&counters.durations) {
                *sum += bucket.load(Relaxed);
            }
        }
        counts
    }

    /// Returns the number of commands executed since the last reset.
    pub fn calls(&self) -> u64 {
        let at_reset: u64 = self.at_reset.lock().iter().map(|it| it.calls).sum();
        let counters = self.shards.iter().flatten();
        let all: u64 = counters.map(|it| it.calls.load(Relaxed)).sum();
        all.saturating_sub(at_reset)
    }

    /// Takes a sample for the rates if the last one is old enough.
    pub fn sample(&self, steady_ms: u64) {
        const EVERY_MS: u64 = 1000;
        let Some(mut rate) = self.rate.try_lock() else {
            // Another thread is taking the sample.
            return;
        };
        let passed_ms = steady_ms.saturating_sub(rate.last_ms);
        if passed_ms < EVERY_MS {
            return;
        }
        let now = [
            self.calls(),
            self.received_bytes.load(Relaxed),
            self.sent_bytes.load(Relaxed),
        ];
        let since = |position: usize| {
            let of = |values: &[u64; 3]| values.get(position).copied().unwrap_or(0);
            of(&now).saturating_sub(of(&rate.last)) * 1000 / passed_ms
        };
        // The first sample has nothing to compare with.
        if rate.last_ms > 0 {
            rate.per_second = [since(0), since(1), since(2)];
        }
        rate.last = now;
        rate.last_ms = steady_ms;
    }

    /// Returns the numbers of commands, bytes received and bytes sent per second.
    pub fn per_second(&self) -> [u64; 3] {
        self.rate.lock().per_second
    }

    /// Sets all counters to zero (`CONFIG RESETSTAT`).
    pub fn reset(&self) {
        let mut at_reset = self.at_reset.lock();
        // Other threads count on, so their counters are not set back.
        *at_reset = self.since_start();
        drop(at_reset);
        self.errors.lock().clear();
        let all = [
            &self.connections,
            &self.rejected_connections,
            &self.received_bytes,
            &self.sent_bytes,
            &self.output_limit_closed,
            &self.query_limit_closed,
            &self.error_replies,
        ];
        for counter in all {
            counter.store(0, Relaxed);
        }
        *self.rate.lock() = InstantaneousRates::default();
    }
}

impl CommandCounts {
    /// Returns the counts since `before`.
    fn less(mut self, before: &CommandCounts) -> CommandCounts {
        let pairs = [
            (&mut self.calls, before.calls),
            (&mut self.nanoseconds, before.nanoseconds),
            (&mut self.rejected, before.rejected),
            (&mut self.failed, before.failed),
        ];
        let durations = self.durations.iter_mut().zip(before.durations);
        for (count, before) in pairs.into_iter().chain(durations) {
            debug_assert!(*count >= before, "counters never decrease");
            *count = count.saturating_sub(before);
        }
        self
    }

    /// Returns the given percentile of the execution times, in microseconds.
    pub fn percentile_us(&self, percent: f64) -> f64 {
        let all: u64 = self.durations.iter().sum();
        let wanted = (all as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut below = 0;
        for (power, count) in self.durations.iter().enumerate() {
            below += count;
            if below >= wanted {
                return ((1_u64 << power) as f64) / 1000.0;
            }
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::TABLE;

    const TOOK: Duration = Duration::from_nanos(5);

    /// Counts in twice as many threads as may have counters of their own.
    fn count_in_threads(statistics: &Statistics, times: u64) {
        std::thread::scope(|scope| {
            for number in 0..2 * OWN_SHARDS {
                scope.spawn(move || {
                    let _alone = statistics.count_alone(number);
                    (0..times).for_each(|_| statistics.count(3, 2, TOOK));
                    statistics.count_failed(3);
                });
            }
        });
    }

    #[test]
    fn all_threads_count_and_a_reset_forgets_what_was_counted() {
        const TIMES: u64 = 1000;
        let statistics = Statistics::new(TABLE.registry());
        for _ in 0..2 {
            count_in_threads(&statistics, TIMES);
            let threads = 2 * OWN_SHARDS as u64;
            let calls = threads * TIMES * 2;
            assert_eq!(statistics.calls(), calls);
            let [counts] = statistics.commands().try_into().unwrap();
            assert_eq!((counts.calls, counts.failed), (calls, threads));
            assert_eq!(counts.nanoseconds, threads * TIMES * 5);
            assert_eq!(counts.durations.iter().sum::<u64>(), calls);
            statistics.reset();
            assert_eq!((statistics.calls(), statistics.commands()), (0, vec![]));
        }
    }

    #[test]
    fn a_thread_counts_alone_for_a_time() {
        let statistics = Statistics::new(TABLE.registry());
        let alone = statistics.count_alone(0);
        assert_eq!(OWN.get(), Some(0));
        drop(alone);
        assert_eq!(OWN.get(), None);
    }
}
