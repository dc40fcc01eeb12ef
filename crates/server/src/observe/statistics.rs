//! Counters since the start of the server, for each command and for all.
//!
//! Counters are kept once for each of some threads, so that counting does not have threads wait
//! for each other, and are summed up when they are read.

use crate::catalog::Registry;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Threads beyond this number share counters.
const SHARDS: usize = 8;
/// Durations are counted by powers of two of nanoseconds.
pub const BUCKETS: usize = 40;
/// So many kinds of errors are counted one by one.
const ERRORS_MAX: usize = 128;

/// What is counted of one command.
#[derive(Debug)]
struct Counters {
    calls: AtomicU64,
    nanoseconds: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
    durations: [AtomicU64; BUCKETS],
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            calls: AtomicU64::default(),
            nanoseconds: AtomicU64::default(),
            rejected: AtomicU64::default(),
            failed: AtomicU64::default(),
            durations: std::array::from_fn(|_| AtomicU64::default()),
        }
    }
}

/// What was counted of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandCounts {
    /// Its full name.
    pub name: &'static str,
    /// How often it was executed.
    pub calls: u64,
    /// How long that took, in nanoseconds.
    pub nanoseconds: u64,
    /// How often it was refused before it was executed.
    pub rejected: u64,
    /// How often its answer was an error.
    pub failed: u64,
    /// How often it took less than 2^n nanoseconds, and not less than half of that, by n.
    pub durations: [u64; BUCKETS],
}

/// All counters.
#[derive(Debug)]
pub struct Statistics {
    registry: &'static Registry,
    shards: Vec<Vec<Counters>>,
    errors: Mutex<BTreeMap<String, u64>>,
    /// Connections that were accepted.
    pub connections: AtomicU64,
    /// Connections that were refused, as there were too many.
    pub rejected_connections: AtomicU64,
    /// Bytes that were received.
    pub received_bytes: AtomicU64,
    /// Bytes that were sent.
    pub sent_bytes: AtomicU64,
    /// Clients that were closed as they took what was sent to them too slowly.
    pub output_limit_closed: AtomicU64,
    /// Clients that were closed as they sent too much at once.
    pub query_limit_closed: AtomicU64,
    /// Errors that clients were told.
    pub error_replies: AtomicU64,
    /// The most memory that was in use at any reading.
    pub peak_memory_bytes: AtomicU64,
    rate: Mutex<Rate>,
}

/// Samples of the total numbers of commands and bytes, to tell how many they are in a second.
#[derive(Debug, Default)]
struct Rate {
    last_ms: u64,
    last: [u64; 3],
    per_second: [u64; 3],
}

impl Statistics {
    /// Counters of these commands.
    pub fn new(registry: &'static Registry) -> Statistics {
        let shard = || registry.entries().iter().map(|_| Counters::default());
        Statistics {
            registry,
            shards: (0..SHARDS).map(|_| shard().collect()).collect(),
            errors: Mutex::default(),
            connections: AtomicU64::default(),
            rejected_connections: AtomicU64::default(),
            received_bytes: AtomicU64::default(),
            sent_bytes: AtomicU64::default(),
            output_limit_closed: AtomicU64::default(),
            query_limit_closed: AtomicU64::default(),
            error_replies: AtomicU64::default(),
            peak_memory_bytes: AtomicU64::default(),
            rate: Mutex::default(),
        }
    }

    fn counters(&self, thread: usize, number: usize) -> Option<&Counters> {
        self.shards.get(thread % SHARDS)?.get(number)
    }

    /// Counts executions of a command by a thread, which took so long all together.
    pub fn count(&self, thread: usize, number: usize, calls: u64, took: Duration) {
        let Some(counters) = self.counters(thread, number).filter(|_| calls > 0) else {
            return;
        };
        let nanoseconds = took.as_nanos() as u64;
        counters.calls.fetch_add(calls, Relaxed);
        counters.nanoseconds.fetch_add(nanoseconds, Relaxed);
        let each = nanoseconds / calls;
        let bucket = (u64::BITS - each.leading_zeros()) as usize;
        if let Some(bucket) = counters.durations.get(bucket.min(BUCKETS - 1)) {
            bucket.fetch_add(calls, Relaxed);
        }
    }

    /// Counts that a command was refused before it was executed.
    pub fn count_rejected(&self, thread: usize, number: usize) {
        if let Some(counters) = self.counters(thread, number) {
            counters.rejected.fetch_add(1, Relaxed);
        }
    }

    /// Counts that a command's answer was an error.
    pub fn count_failed(&self, thread: usize, number: usize) {
        if let Some(counters) = self.counters(thread, number) {
            counters.failed.fetch_add(1, Relaxed);
        }
    }

    /// Counts an error that a client was told, by its code.
    pub fn count_error(&self, text: &str) {
        self.error_replies.fetch_add(1, Relaxed);
        let code = text.split_whitespace().next().unwrap_or("ERR");
        let mut errors = self.errors.lock();
        if let Some(count) = errors.get_mut(code) {
            *count += 1;
        } else if errors.len() < ERRORS_MAX {
            errors.insert(code.to_owned(), 1);
        }
    }

    /// How often each kind of error was told.
    pub fn errors(&self) -> Vec<(String, u64)> {
        let errors = self.errors.lock();
        errors
            .iter()
            .map(|(code, count)| (code.clone(), *count))
            .collect()
    }

    /// What was counted of each command that was sent.
    pub fn commands(&self) -> Vec<CommandCounts> {
        let all = self.registry.entries().iter().enumerate();
        all.map(|(number, entry)| self.of(number, &entry.name))
            .filter(|counts| counts.calls + counts.rejected > 0)
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

    /// How many commands were executed.
    pub fn calls(&self) -> u64 {
        let calls = |shard: &Vec<Counters>| -> u64 {
            shard
                .iter()
                .map(|counters| counters.calls.load(Relaxed))
                .sum()
        };
        self.shards.iter().map(calls).sum()
    }

    /// Takes a sample for the rates, if the last is old enough.
    pub fn sample(&self, now_ms: u64) {
        const EVERY_MS: u64 = 1000;
        let Some(mut rate) = self.rate.try_lock() else {
            return;
        };
        let passed_ms = now_ms.saturating_sub(rate.last_ms);
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
        if rate.last_ms > 0 {
            rate.per_second = [since(0), since(1), since(2)];
        }
        rate.last = now;
        rate.last_ms = now_ms;
    }

    /// Commands, bytes received and bytes sent in a second.
    pub fn per_second(&self) -> [u64; 3] {
        self.rate.lock().per_second
    }

    /// Sets all counters to zero (`CONFIG RESETSTAT`).
    pub fn reset(&self) {
        for counters in self.shards.iter().flatten() {
            let all = [
                &counters.calls,
                &counters.nanoseconds,
                &counters.rejected,
                &counters.failed,
            ];
            for counter in all.into_iter().chain(&counters.durations) {
                counter.store(0, Relaxed);
            }
        }
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
        *self.rate.lock() = Rate::default();
    }
}

impl CommandCounts {
    /// The given percentile of the execution times, in microseconds.
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
