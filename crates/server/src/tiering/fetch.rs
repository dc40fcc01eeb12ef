//! The reading of values of a file tier for clients that wait for them, while no other client
//! waits.
//!
//! A thread that serves clients looks ahead in the requests of a connection. If their commands need
//! values in files, it requests all of them at once and continues with other connections. It reads
//! them by a ring of its own (`net/reads.rs`). Where the kernel provides no rings, threads of the
//! fetcher read the values. Each value is stored with its place, where the commands then find it
//! ([`ColdTiers::read`](crate::keyspace::ColdTiers::read)).
//!
//! If a value moves meanwhile, the command reads it at its new place. A fetched value thus only
//! saves a wait; nothing depends on it.

use crate::keyspace::cold::{ColdPlaceGuard, ColdTiers};
use nearfield_tiers::{ColdPlace, ReadError};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Number of threads that read where there are no rings. *Assumed*: an SSD is busy with half of
/// them.
pub const READERS: usize = 16;
/// Longest sleep of a reader.
const TICK: Duration = Duration::from_millis(100);

/// Values that must be read for clients. `W` identifies the waiting client.
#[derive(Debug)]
pub struct Fetcher<W> {
    queue: Mutex<VecDeque<ParkedFetchJob<W>>>,
    wanted: Condvar,
}

/// The values that one client waits for.
#[derive(Debug)]
pub struct ParkedFetch<W> {
    /// The client that waits.
    pub who: W,
    left: AtomicUsize,
    held: Mutex<Vec<ColdPlaceGuard>>,
}

#[derive(Debug)]
struct ParkedFetchJob<W> {
    place: ColdPlace,
    asked: Instant,
    fetch: Arc<ParkedFetch<W>>,
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
    /// Requests values. Their places are held until the waiting client is notified, and are then
    /// passed to it.
    pub fn ask(&self, who: W, held: Vec<ColdPlaceGuard>) {
        let places: Vec<ColdPlace> = held.iter().map(ColdPlaceGuard::place).collect();
        let count = places.len();
        debug_assert!(count > 0, "no job would notify the client");
        let fetch = Arc::new(ParkedFetch {
            who,
            left: AtomicUsize::new(count),
            held: Mutex::new(held),
        });
        let asked = Instant::now();
        let jobs = places.into_iter().map(|place| ParkedFetchJob {
            place,
            asked,
            fetch: Arc::clone(&fetch),
        });
        self.queue.lock().extend(jobs);
        // More threads than that do not wait.
        for _ in 0..count.min(READERS) {
            self.wanted.notify_one();
        }
    }

    /// Takes the next job. Waits briefly if there is none.
    fn next(&self) -> Option<ParkedFetchJob<W>> {
        let mut queue = self.queue.lock();
        // Not for ever, because the stop of the server sends no signal.
        if queue.is_empty() {
            self.wanted.wait_for(&mut queue, TICK);
        }
        queue.pop_front()
    }

    /// Reads values, one after the other, until the server stops. Each time a client has all its
    /// values, `tell` is called with it and with the handles that hold the places.
    pub fn read(
        &self,
        cold: &ColdTiers,
        stopping: &AtomicBool,
        tell: impl Fn(&W, Vec<ColdPlaceGuard>),
    ) {
        while !stopping.load(Ordering::Acquire) {
            let Some(job) = self.next() else { continue };
            // Another client may have requested the value before.
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

impl<W> ParkedFetchJob<W> {
    /// Notes that the value has arrived, or cannot be read. Notifies the client if it was the last
    /// one.
    fn end(self, tell: &impl Fn(&W, Vec<ColdPlaceGuard>)) {
        let fetch = self.fetch;
        let left = fetch.left.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(left > 0, "more values than were requested");
        if left == 1 {
            tell(&fetch.who, std::mem::take(&mut fetch.held.lock()));
        }
    }
}
