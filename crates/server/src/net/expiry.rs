//! The deletion of expired keys, also of those that no client reads.

use crate::execute::Executor;
use crate::keyspace::DATABASES;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Interval between two searches for expired keys, in milliseconds.
const TICK_MS: u64 = 100;
/// Time that a search may take: a quarter of the interval.
const BUDGET: Duration = Duration::from_millis(TICK_MS / 4);
/// Number of notes of expiry times that are checked, and of keys that are deleted, while other
/// commands wait.
const KEYS_AT_ONCE: usize = 200;

/// The time of the next search, and the database at which it continues.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    next_ms: u64,
    database: usize,
}

impl Expiry {
    /// Deletes expired keys if the interval has passed. Continues with the next database when there
    /// are no more in one, until all were searched or the time is used up.
    pub fn tick(&mut self, executor: &mut Executor<'_>, now_ms: u64) {
        // The clock may be set back.
        if self.next_ms > now_ms && self.next_ms <= now_ms + TICK_MS {
            return;
        }
        let server = executor.server();
        if !server.expires_actively.load(Ordering::Relaxed) {
            return;
        }
        self.next_ms = now_ms + TICK_MS;
        let started = Instant::now();
        let mut looked_at = 0;
        while looked_at < DATABASES && started.elapsed() < BUDGET {
            if executor.expire_due(self.database, KEYS_AT_ONCE, now_ms) < KEYS_AT_ONCE {
                self.database = (self.database + 1) % DATABASES;
                looked_at += 1;
            }
        }
        let hot = &server.config.hot;
        server.latency.note(hot, "expire-cycle", started.elapsed());
    }
}
