//! Many traversals on one core, so that many loads are in flight.
//!
//! The software form of pulse's decoupled pipelines: a slot is a workspace, a prefetch is what a
//! memory pipeline does, and the core is the logic pipeline. Each traversal in turn makes one
//! iteration, on a node that was prefetched a round before, and prefetches the next.

use super::local::LocalMemory;
use super::ranges::{Permission, Tenant};
use crate::executor::Workspace;
use crate::traversal::{Engine, Next, Query, Status, iterate};
use nearfield_fabric::prefetch;

/// How many traversals a core has in flight, unless it is told otherwise. A core has 10 to 16 loads
/// in flight, and a node has up to four lines.
pub const SLOTS: usize = 24;

/// A traversal to run.
#[derive(Debug)]
pub struct Job<'j, T> {
    /// The program.
    pub engine: &'j Engine,
    /// Whose it is.
    pub tenant: Tenant,
    /// Where it begins.
    pub address: u64,
    /// Its state, of the declared length.
    pub scratchpad: &'j [u8],
    /// How many iterations it may make.
    pub iterations: u64,
    /// What its end is told with.
    pub tag: T,
}

impl<'j, T> Job<'j, T> {
    /// A query as a job.
    pub fn new(engine: &'j Engine, tenant: Tenant, query: &'j Query, limit: u64, tag: T) -> Self {
        Job {
            engine,
            tenant,
            address: query.start,
            scratchpad: &query.scratchpad,
            iterations: limit,
            tag,
        }
    }
}

/// A traversal that has ended or stopped.
#[derive(Debug)]
pub struct Ended<'e, T> {
    /// The job's tag.
    pub tag: T,
    /// How it ended.
    pub status: Status,
    /// Where.
    pub address: u64,
    /// Its state.
    pub scratchpad: &'e [u8],
    /// How many iterations it has made.
    pub iterations: u64,
}

/// A core's traversals.
#[derive(Debug)]
pub struct Interleaved<'m, T> {
    memory: &'m LocalMemory<'m>,
    /// The active ones come first.
    slots: Vec<Slot<T>>,
    active: usize,
    capacity: usize,
}

#[derive(Debug)]
struct Slot<T> {
    engine: Engine,
    tenant: Tenant,
    workspace: Workspace,
    /// Where the load of the current node begins, or why it has none.
    place: Result<usize, Status>,
    made: u64,
    limit: u64,
    tag: Option<T>,
}

impl<'m, T> Interleaved<'m, T> {
    /// No traversals, and room for `capacity`.
    pub fn new(memory: &'m LocalMemory<'m>, capacity: usize) -> Interleaved<'m, T> {
        Interleaved {
            memory,
            slots: Vec::new(),
            active: 0,
            capacity,
        }
    }

    /// How many traversals are in flight.
    pub fn active(&self) -> usize {
        self.active
    }

    /// True if there is room for another one.
    pub fn has_room(&self) -> bool {
        self.active < self.capacity
    }

    /// Begins a traversal. The scratchpad is cut or filled with zeros to the declared length.
    ///
    /// # Errors
    /// The job, if there is no room.
    pub fn admit<'j>(&mut self, job: Job<'j, T>) -> Result<(), Job<'j, T>> {
        if !self.has_room() {
            return Err(job);
        }
        let slot = match self.slots.get_mut(self.active) {
            Some(slot) => slot,
            None => {
                self.slots.push(Slot {
                    engine: job.engine.clone(),
                    tenant: job.tenant,
                    workspace: Workspace::new(0, Vec::new()),
                    place: Err(Status::NoSuchAddress),
                    made: 0,
                    limit: 0,
                    tag: None,
                });
                &mut self.slots[self.active]
            }
        };
        let length = job.engine.program().scratchpad_bytes();
        let scratchpad = &mut slot.workspace.scratchpad;
        scratchpad.clear();
        scratchpad.extend_from_slice(&job.scratchpad[..job.scratchpad.len().min(length)]);
        scratchpad.resize(length, 0);
        if !slot.engine.is_same(job.engine) {
            slot.engine = job.engine.clone();
        }
        (slot.tenant, slot.made, slot.limit) = (job.tenant, 0, job.iterations);
        slot.tag = Some(job.tag);
        slot.go_to(self.memory, job.address);
        self.active += 1;
        Ok(())
    }

    /// Each traversal makes one iteration. `end` receives those that end.
    #[inline]
    pub fn turn(&mut self, mut end: impl FnMut(Ended<'_, T>)) {
        let mut index = 0;
        while index < self.active {
            let slot = &mut self.slots[index];
            let Some(status) = slot.iterate(self.memory) else {
                index += 1;
                continue;
            };
            if let Some(tag) = slot.tag.take() {
                end(Ended {
                    tag,
                    status,
                    address: slot.workspace.address,
                    scratchpad: &slot.workspace.scratchpad,
                    iterations: slot.made,
                });
            }
            self.active -= 1;
            self.slots.swap(index, self.active);
        }
    }
}

impl<T> Slot<T> {
    /// One iteration; its status if the traversal ends with it.
    #[inline]
    fn iterate(&mut self, memory: &LocalMemory<'_>) -> Option<Status> {
        if self.made == self.limit {
            return Some(Status::IterationLimit);
        }
        let place = match self.place {
            Ok(place) => place,
            Err(status) => return Some(status),
        };
        let next = match self.in_place(memory, place) {
            Some(0) => Next::Done,
            Some(address) => Next::Node(address),
            None => match iterate(&self.engine, &memory.of(self.tenant), &mut self.workspace) {
                Ok(next) => next,
                Err(status) => return Some(status),
            },
        };
        self.made += 1;
        match next {
            Next::Done => Some(Status::Done),
            Next::Node(address) => {
                self.go_to(memory, address);
                None
            }
        }
    }

    #[cfg(feature = "native")]
    #[inline]
    fn in_place(&mut self, memory: &LocalMemory<'_>, place: usize) -> Option<u64> {
        let Engine::Native(native) = &self.engine else {
            return None;
        };
        let (address, scratchpad) = (self.workspace.address, &mut self.workspace.scratchpad);
        native.iterate_in_place(memory.words(), place, address, scratchpad)
    }

    #[cfg(not(feature = "native"))]
    fn in_place(&mut self, _: &LocalMemory<'_>, _: usize) -> Option<u64> {
        None
    }

    /// Looks up the next node, and prefetches it.
    #[inline]
    fn go_to(&mut self, memory: &LocalMemory<'_>, address: u64) {
        self.workspace.address = address;
        let load = self.engine.program().node_load();
        let from = address.wrapping_add_signed(load.start.into());
        let bytes = usize::from(load.bytes).max(1);
        let ranges = memory.ranges();
        let place = ranges.translate(self.tenant, from, bytes, Permission::Read);
        if let Ok(place) = place {
            let words = place / 8..(place + bytes).div_ceil(8);
            if let Some(words) = memory.words().get(words) {
                prefetch(words);
            }
        }
        self.place = place.map_err(Status::from);
    }
}
