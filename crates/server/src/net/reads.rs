//! The reads of values in files by the thread that serves their clients, through a ring of its own.
//!
//! Several reads are submitted to the kernel together. Completed reads are collected before the
//! thread sleeps, and the commands of their clients form one round. Both are bounded by [`BURST`],
//! so that other connections do not wait for long. The ring wakes the thread as a socket does.

use super::thread::IoThread;
use crate::keyspace::ColdTiers;
use crate::keyspace::cold::ColdPlaceGuard;
use crate::server::ServerCore;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use nearfield_tiers::{ReadError, TierReadRing};
use slab::Slab;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Instant;

/// Number of reads in progress at once for a thread. *Assumed.*
const READS: usize = 64;

/// Number of reads that begin, and of clients that continue, before other connections have their
/// turn. *Assumed*: a larger number needs fewer system calls, but delays clients that need no disk.
const BURST: usize = 8;

/// The reads that clients of a thread wait for.
#[derive(Debug)]
pub struct ParkedReads {
    ring: TierReadRing,
    fetches: Slab<RingFetch>,
    /// Reads for which the ring had no room: a fetch, and the index of its place.
    queue: VecDeque<(usize, usize)>,
    /// Fetches that are complete.
    ready: VecDeque<usize>,
    /// Number of reads that have begun since the last submission to the kernel.
    begun: usize,
}

/// The values that one client waits for.
#[derive(Debug)]
struct RingFetch {
    client: u64,
    held: Vec<ColdPlaceGuard>,
    left: usize,
    asked: Instant,
}

/// Creates a ring for each of `threads` threads. Returns `None` unless there are values in files
/// and the kernel provides all rings.
pub fn rings(server: &ServerCore, threads: usize) -> Option<Vec<ParkedReads>> {
    let tiers = server.keyspace.cold.tiers()?;
    let has_files = (0..tiers.count()).any(|tier| tiers.folder(tier).is_some());
    let reads = (0..threads).map(|_| ParkedReads::new().ok());
    has_files.then(|| reads.collect())?
}

impl ParkedReads {
    fn new() -> io::Result<ParkedReads> {
        Ok(ParkedReads {
            ring: TierReadRing::new(READS)?,
            fetches: Slab::new(),
            queue: VecDeque::new(),
            ready: VecDeque::new(),
            begun: 0,
        })
    }

    /// Registers the ring, so that it wakes the poll.
    pub fn register(&self, registry: &Registry, token: Token) -> io::Result<()> {
        let ring = self.ring.as_raw_fd();
        registry.register(&mut SourceFd(&ring), token, Interest::READABLE)
    }

    /// Requests values for a client.
    pub fn ask(&mut self, cold: &ColdTiers, client: u64, held: Vec<ColdPlaceGuard>) {
        let count = held.len();
        debug_assert!(count > 0, "no read would complete the fetch");
        let fetch = self.fetches.insert(RingFetch {
            client,
            left: count,
            held,
            asked: Instant::now(),
        });
        self.queue.extend((0..count).map(|number| (fetch, number)));
        self.begin(cold);
    }

    /// Returns true if a read can begin before the next submission to the kernel.
    fn has_room(&self) -> bool {
        self.ring.room() > 0 && self.begun < BURST
    }

    /// Begins reads as long as the ring has room for them.
    fn begin(&mut self, cold: &ColdTiers) {
        while self.has_room()
            && let Some((fetch, number)) = self.queue.pop_front()
        {
            let known = self.fetches.get(fetch);
            debug_assert!(
                known.is_some(),
                "a fetch stays until all reads are complete"
            );
            let Some(place) = known
                .and_then(|it| it.held.get(number))
                .map(ColdPlaceGuard::place)
            else {
                continue;
            };
            // Another client may have requested the value before.
            if cold.has_fetched(place) {
                self.end(fetch);
                continue;
            }
            let read = match cold.tiers().and_then(|tiers| tiers.pending(place)) {
                Some(pending) => self.ring.begin(pending, number_of(fetch, number)),
                None => Some(Err(ReadError::Absent)),
            };
            self.begun += 1;
            if let Some(read) = read {
                let asked = self.fetches.get(fetch).map(|it| it.asked.elapsed());
                cold.deliver(place, read, asked.unwrap_or_default());
                self.end(fetch);
            }
        }
    }

    /// Notes that one of the reads of a fetch is complete.
    fn end(&mut self, fetch: usize) {
        if let Some(known) = self.fetches.get_mut(fetch) {
            known.left -= 1;
            if known.left == 0 {
                self.ready.push_back(fetch);
            }
        }
    }

    /// Returns true if a client has all values that it waits for, or if a read can begin.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty() || !self.queue.is_empty() && self.has_room()
    }

    /// Takes the next clients that have all their values, with the handles that hold the values'
    /// places.
    fn take_ready(&mut self, cold: &ColdTiers) -> Vec<(u64, Vec<ColdPlaceGuard>)> {
        self.submit();
        let mut over = Vec::new();
        self.ring.reap(|number, read| over.push((number, read)));
        for (number, read) in over {
            let (fetch, number) = ((number >> 32) as usize, number as u32 as usize);
            if let Some(known) = self.fetches.get(fetch)
                && let Some(held) = known.held.get(number)
            {
                cold.deliver(held.place(), read, known.asked.elapsed());
            }
            self.end(fetch);
        }
        // Reads that are complete have made room for others.
        self.begin(cold);
        let next = self.ready.drain(..self.ready.len().min(BURST));
        let taken = next.filter_map(|it| self.fetches.try_remove(it));
        taken.map(|fetch| (fetch.client, fetch.held)).collect()
    }

    /// Submits the reads that have begun to the kernel.
    fn submit(&mut self) {
        self.begun = 0;
        if let Err(error) = self.ring.submit() {
            // They are submitted again. Clients do not wait forever.
            tracing::error!("the kernel's ring of reads fails: {error}");
        }
    }
}

/// Returns the number by which the ring knows a read.
fn number_of(fetch: usize, number: usize) -> u64 {
    debug_assert!(u32::try_from(fetch).is_ok() && u32::try_from(number).is_ok());
    (fetch as u64) << 32 | number as u64
}

impl IoThread<'_> {
    /// Continues with the clients that have all their values, and begins further reads. Call it
    /// before the thread sleeps.
    pub(super) fn resume_fetched(&mut self) {
        let cold = &self.server.keyspace.cold;
        let Some(reads) = &mut self.disk_waits.reads else {
            return;
        };
        let ready = reads.take_ready(cold);
        if !ready.is_empty() {
            for (client, _) in &ready {
                if let Some(&index) = self.by_client.get(client) {
                    self.resume_parked(index);
                }
            }
            // The commands find the values as long as these are held.
            self.execute_round();
            drop(ready);
            self.finish_round();
        }
        if let Some(reads) = &mut self.disk_waits.reads {
            reads.submit();
        }
    }
}
