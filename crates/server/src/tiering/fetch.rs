//! Reading values of a file tier for clients that wait for them, while nobody else waits.
//!
//! A thread that serves clients looks ahead in what a connection has sent. If commands there need
//! values of files, it asks for all of them at once and goes on with other connections. It reads
//! them by a ring of its own (`net/reads.rs`). Where the kernel gives no rings, threads of the
//! fetcher read the values. They are laid beside their places, where the commands then find them
//! ([`Cold::read`](crate::keyspace::Cold::read)).
//!
//! If a value moves meanwhile, the command reads it where it is then. So what is fetched is only
//! ever a value that need not be waited for.

use crate::keyspace::cold::{Cold, Held};
use nearfield_tiers::{Place, ReadError};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Threads that read where there are no rings. *Assumed*: an SSD is busy with half of them.
pub const READERS: usize = 16;
/// How long a reader sleeps at most.
const TICK: Duration = Duration::from_millis(100);

/// Values that are to be read for clients. `W` says who waits.
#[derive(Debug)]
pub struct Fetcher<W> {
    queue: Mutex<VecDeque<Job<W>>>,
    wanted: Condvar,
}

/// What one client waits for.
#[derive(Debug)]
pub struct Fetch<W> {
    /// Who waits.
    pub who: W,
    left: AtomicUsize,
    held: Mutex<Vec<Held>>,
}

#[derive(Debug)]
struct Job<W> {
    place: Place,
    asked: Instant,
    fetch: Arc<Fetch<W>>,
}

impl<W> Default for Fetcher<W> {
    fn default() -> Self {
        Fetcher {
            queue: Mutex::default(),
            wanted: Condvar::new(),
        }
    }
}

impl<W> Fetcher<W> {
    /// Has values be read. Their places are held until who waits is told, and has been given them.
    pub fn ask(&self, who: W, held: Vec<Held>) {
        let places: Vec<Place> = held.iter().map(Held::place).collect();
        let count = places.len();
        let fetch = Arc::new(Fetch {
            who,
            left: AtomicUsize::new(count),
            held: Mutex::new(held),
        });
        let asked = Instant::now();
        let jobs = places.into_iter().map(|place| Job {
            place,
            asked,
            fetch: Arc::clone(&fetch),
        });
        self.queue.lock().extend(jobs);
        for _ in 0..count.min(READERS) {
            self.wanted.notify_one();
        }
    }

    /// Takes the next job; waits for one for a moment.
    fn next(&self) -> Option<Job<W>> {
        let mut queue = self.queue.lock();
        if queue.is_empty() {
            self.wanted.wait_for(&mut queue, TICK);
        }
        queue.pop_front()
    }

    /// Reads values, one after the other, until it is to stop. Each time a client has all that it
    /// waits for, `tell` is called with it and with what holds the places.
    pub fn read(&self, cold: &Cold, stopping: &AtomicBool, tell: impl Fn(&W, Vec<Held>)) {
        while !stopping.load(Ordering::Acquire) {
            let Some(job) = self.next() else { continue };
            // Another client may have asked for it before.
            if !cold.has_fetched(job.place) {
                let mut value = Vec::new();
                let read = match cold.tiers().and_then(|tiers| tiers.pending(job.place)) {
                    Some(pending) => pending.run(&mut value),
                    None => Err(ReadError::Absent),
                };
                cold.deliver(job.place, read.map(|()| value), job.asked.elapsed());
            }
            job.end(&tell);
        }
    }
}

impl<W> Job<W> {
    /// The value is there, or cannot be had. Tells the client if it was the last.
    fn end(self, tell: &impl Fn(&W, Vec<Held>)) {
        let fetch = self.fetch;
        if fetch.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            tell(&fetch.who, std::mem::take(&mut fetch.held.lock()));
        }
    }
}
