//! Deleting keys whose time is over, also if nobody asks for them.

use crate::execute::Executor;
use crate::keyspace::DATABASES;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often such keys are looked for.
const TICK_MS: u64 = 100;
/// How long that may take: a quarter of the time.
const BUDGET: Duration = Duration::from_millis(TICK_MS / 4);
/// How many notes of times are looked at, and keys deleted, while other commands wait.
const KEYS_AT_ONCE: usize = 200;

/// When keys were deleted last, and where to go on.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    next_ms: u64,
    database: usize,
}

impl Expiry {
    /// Deletes keys whose time is over, if it is time to. Goes on with the next database when
    /// there are no more in one, until all were looked at or this has taken its time.
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
