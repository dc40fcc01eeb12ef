//! Reading values of a file tier for clients that wait for them, while nobody else waits.
//!
//! A thread that serves clients looks ahead in what a connection has sent. If commands there need
//! values of files, it asks for all of them at once and goes on with other connections. Threads of
//! the fetcher read the values and lay them beside their places, where the commands then find them
//! ([`Cold::read`](crate::keyspace::Cold::read)).
//!
//! If a value moves meanwhile, the command reads it where it is then. So what is fetched is only
//! ever a value that need not be waited for.

use crate::keyspace::cold::{Cold, Held};
use hashbrown::HashMap;
use nearfield_tiers::{Place, ReadError, Ring};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Threads that read where there is no ring. *Assumed*: an SSD is busy with half of them.
pub const READERS: usize = 16;
/// Reads that are under way at once by a ring. *Assumed.*
const RING_READS: usize = 64;

/// A ring, where the kernel has one and this process may use it.
pub fn ring() -> Option<Ring> {
    Ring::new(RING_READS).ok()
}

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

    /// Takes the next job; waits for one for a moment if it may.
    fn next(&self, may_wait: bool) -> Option<Job<W>> {
        let mut queue = self.queue.lock();
        if queue.is_empty() && may_wait {
            self.wanted.wait_for(&mut queue, TICK);
        }
        queue.pop_front()
    }

    /// Reads values until it is to stop. Each time a client has all that it waits for, `tell` is
    /// called with it and with what holds the places. By a ring one thread reads all; without one,
    /// each of several reads one after the other.
    pub fn read(
        &self,
        cold: &Cold,
        ring: Option<Ring>,
        stopping: &AtomicBool,
        tell: impl Fn(&W, Vec<Held>),
    ) {
        if let Some(ring) = ring {
            return self.read_by_ring(cold, ring, stopping, tell);
        }
        while !stopping.load(Ordering::Acquire) {
            let Some(job) = self.next(true) else { continue };
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

    fn read_by_ring(
        &self,
        cold: &Cold,
        mut ring: Ring,
        stopping: &AtomicBool,
        tell: impl Fn(&W, Vec<Held>),
    ) {
        let mut jobs: HashMap<u64, Job<W>> = HashMap::new();
        let mut number = 0;
        while !stopping.load(Ordering::Acquire) {
            while ring.room() > 0 {
                let Some(job) = self.next(ring.under_way() == 0) else {
                    break;
                };
                if cold.has_fetched(job.place) {
                    job.end(&tell);
                    continue;
                }
                number += 1;
                let read = match cold.tiers().and_then(|tiers| tiers.pending(job.place)) {
                    Some(pending) => ring.begin(pending, number),
                    None => Some(Err(ReadError::Absent)),
                };
                match read {
                    Some(read) => {
                        cold.deliver(job.place, read, job.asked.elapsed());
                        job.end(&tell);
                    }
                    None => drop(jobs.insert(number, job)),
                }
            }
            let waited = ring.wait(TICK, |number, read| {
                if let Some(job) = jobs.remove(&number) {
                    cold.deliver(job.place, read, job.asked.elapsed());
                    job.end(&tell);
                }
            });
            if let Err(error) = waited {
                // Clients are told after their time that the disk does not answer.
                tracing::error!("the kernel's ring of reads fails: {error}");
                std::thread::sleep(TICK);
            }
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
