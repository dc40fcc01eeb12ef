//! Many traversals on one core, so that many loads are in flight.
//!
//! The software form of pulse's decoupled pipelines: a slot is a workspace, a prefetch is what a
//! memory pipeline does, and the core is the logic pipeline. Each traversal in turn makes one
//! iteration, on a node that was prefetched a round before, and prefetches the next.

use super::local::LocalMemory;
use super::ranges::{Permission, Tenant};
use crate::executor::Workspace;
use crate::program::NodeLoad;
use crate::traversal::{Engine, Next, Query, Status, iterate};
use nearfield_fabric::{LINE_BYTES, prefetch_line};

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
    slots: Vec<Slot<T>>,
    /// The numbers of all slots, those of active ones first. Slots stay where they are: they are
    /// large, and the processor has their first lines at hand.
    order: Vec<usize>,
    active: usize,
    capacity: usize,
    fetches: Fetches,
}

/// Lines to be prefetched, one right after the other, with as few instructions as possible between
/// them. The processor looks only so many instructions ahead of one that waits, and a prefetch
/// waits where the processor has to translate its address first.
#[derive(Debug)]
struct Fetches {
    /// A word of each line.
    lines: [usize; FETCHES],
    count: usize,
}

/// About as many as a core has slots.
const FETCHES: usize = 32;
const LINE_WORDS: usize = (LINE_BYTES / 8) as usize;

impl Fetches {
    const fn new() -> Fetches {
        Fetches {
            lines: [0; FETCHES],
            count: 0,
        }
    }

    /// Adds the lines of bytes.
    #[inline]
    fn add(&mut self, memory: &LocalMemory<'_>, place: usize, bytes: usize) {
        let mut word = place / 8;
        let last = (place + bytes - 1) / 8;
        loop {
            if self.count == FETCHES {
                self.begin(memory);
            }
            if let Some(line) = self.lines.get_mut(self.count) {
                *line = word;
                self.count += 1;
            }
            word = word / LINE_WORDS * LINE_WORDS + LINE_WORDS;
            if word > last {
                return;
            }
        }
    }

    /// Prefetches them.
    #[inline]
    fn begin(&mut self, memory: &LocalMemory<'_>) {
        let words = memory.words();
        for &word in self.lines.iter().take(self.count) {
            if let Some(word) = words.get(word) {
                prefetch_line(word);
            }
        }
        self.count = 0;
    }
}

/// The fields that each iteration uses come first.
#[derive(Debug)]
#[repr(C, align(64))]
struct Slot<T> {
    /// Where the load of the current node begins, unless it was refused.
    place: usize,
    refusal: Option<Status>,
    tenant: Tenant,
    made: u64,
    limit: u64,
    engine: Engine,
    load: NodeLoad,
    near: Near,
    workspace: Workspace,
    tag: Option<T>,
}

/// The part of memory where the last node was, which the next one is often in, too.
#[derive(Clone, Copy, Debug, Default)]
struct Near {
    start: u64,
    bytes: u64,
    offset: u64,
}

impl Near {
    /// Where bytes lie, if they all lie in this part.
    #[inline]
    fn find(&self, from: u64, bytes: u64) -> Option<usize> {
        let distance = from.wrapping_sub(self.start);
        let is_in = distance < self.bytes && bytes <= self.bytes - distance;
        is_in.then(|| (self.offset + distance) as usize)
    }
}

impl<'m, T> Interleaved<'m, T> {
    /// No traversals, and room for `capacity`.
    pub fn new(memory: &'m LocalMemory<'m>, capacity: usize) -> Interleaved<'m, T> {
        Interleaved {
            memory,
            slots: Vec::new(),
            order: Vec::new(),
            active: 0,
            capacity,
            fetches: Fetches::new(),
        }
    }

    /// Has all traversals see another memory, those in flight, too: their nodes are looked up again.
    pub fn change_memory(&mut self, memory: &'m LocalMemory<'m>) {
        self.memory = memory;
        for slot in &mut self.slots {
            slot.near = Near::default();
        }
        for &index in &self.order[..self.active] {
            let slot = &mut self.slots[index];
            slot.go_to(memory, slot.workspace.address, &mut self.fetches);
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
    #[inline]
    pub fn admit<'j>(&mut self, job: Job<'j, T>) -> Result<(), Job<'j, T>> {
        if !self.has_room() {
            return Err(job);
        }
        if self.active == self.order.len() {
            self.order.push(self.slots.len());
            self.slots.push(Slot::new(job.engine));
        }
        let slot = &mut self.slots[self.order[self.active]];
        if !slot.engine.is_same(job.engine) {
            slot.use_engine(job.engine);
        }
        if slot.tenant != job.tenant {
            (slot.tenant, slot.near) = (job.tenant, Near::default());
        }
        let scratchpad = &mut slot.workspace.scratchpad;
        if job.scratchpad.len() == scratchpad.len() {
            scratchpad.copy_from_slice(job.scratchpad);
        } else {
            let length = scratchpad.len();
            scratchpad.clear();
            scratchpad.extend_from_slice(&job.scratchpad[..job.scratchpad.len().min(length)]);
            scratchpad.resize(length, 0);
        }
        (slot.made, slot.limit) = (0, job.iterations);
        slot.tag = Some(job.tag);
        slot.go_to(self.memory, job.address, &mut self.fetches);
        self.active += 1;
        Ok(())
    }

    /// Each traversal makes one iteration. `end` receives those that end.
    #[inline]
    pub fn turn(&mut self, mut end: impl FnMut(Ended<'_, T>)) {
        let (memory, fetches) = (self.memory, &mut self.fetches);
        fetches.begin(memory);
        let mut index = 0;
        while index < self.active {
            let slot = &mut self.slots[self.order[index]];
            let Some(status) = slot.iterate(memory, fetches) else {
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
            self.order.swap(index, self.active);
        }
        fetches.begin(memory);
    }
}

impl<T> Slot<T> {
    fn new(engine: &Engine) -> Slot<T> {
        let mut slot = Slot {
            place: 0,
            refusal: None,
            tenant: Tenant::default(),
            made: 0,
            limit: 0,
            engine: engine.clone(),
            load: NodeLoad::default(),
            near: Near::default(),
            workspace: Workspace::new(0, Vec::new()),
            tag: None,
        };
        slot.use_engine(engine);
        slot
    }

    /// Prepares for the traversals of a program.
    fn use_engine(&mut self, engine: &Engine) {
        let program = engine.program();
        self.load = program.node_load();
        self.workspace
            .scratchpad
            .resize(program.scratchpad_bytes(), 0);
        self.engine = engine.clone();
    }

    /// One iteration; its status if the traversal ends with it.
    #[inline]
    fn iterate(&mut self, memory: &LocalMemory<'_>, fetches: &mut Fetches) -> Option<Status> {
        if self.made == self.limit {
            return Some(Status::IterationLimit);
        }
        if self.refusal.is_some() {
            return self.refusal;
        }
        let next = match self.in_place(memory) {
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
                self.go_to(memory, address, fetches);
                None
            }
        }
    }

    #[cfg(feature = "native")]
    #[inline]
    fn in_place(&mut self, memory: &LocalMemory<'_>) -> Option<u64> {
        let Engine::Native(native) = &self.engine else {
            return None;
        };
        let (address, scratchpad) = (self.workspace.address, &mut self.workspace.scratchpad);
        native.iterate_in_place(memory.words(), self.place, address, scratchpad)
    }

    #[cfg(not(feature = "native"))]
    fn in_place(&mut self, _: &LocalMemory<'_>) -> Option<u64> {
        None
    }

    /// Looks up the next node, which is to be prefetched.
    #[inline]
    fn go_to(&mut self, memory: &LocalMemory<'_>, address: u64, fetches: &mut Fetches) {
        self.workspace.address = address;
        let from = address.wrapping_add_signed(self.load.start.into());
        let bytes = usize::from(self.load.bytes).max(1);
        let place = match self.near.find(from, bytes as u64) {
            Some(place) => place,
            None => match self.look_up(memory, from, bytes) {
                Ok(place) => place,
                Err(status) => {
                    self.refusal = Some(status);
                    return;
                }
            },
        };
        (self.place, self.refusal) = (place, None);
        fetches.add(memory, place, bytes);
    }

    /// Looks up bytes in the table of ranges.
    #[cold]
    fn look_up(
        &mut self,
        memory: &LocalMemory<'_>,
        from: u64,
        bytes: usize,
    ) -> Result<usize, Status> {
        let ranges = memory.ranges();
        let place = ranges.translate(self.tenant, from, bytes, Permission::Read)?;
        if let Some(range) = ranges.find(from) {
            self.near = Near {
                start: range.start,
                bytes: range.bytes,
                offset: range.offset,
            };
        }
        Ok(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::assemble;
    use crate::node::{Range, Ranges};
    use crate::program::{Declaration, Program};
    use std::sync::atomic::AtomicU64;

    /// Slots are used again by other tenants and programs, and remember nothing of the ones before.
    #[test]
    fn slots_keep_nothing_of_other_tenants_and_programs() {
        let words: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
        let of = |start, tenant| Range {
            offset: start - 0x1000,
            ..Range::whole(start, 256, Tenant(tenant))
        };
        let ranges = Ranges::new(vec![of(0x1000, 1), of(0x1100, 2)]);
        let memory = LocalMemory::new(&words, ranges.expect("two ranges")).expect("in memory");
        let engine = |scratchpad, text| {
            let code = assemble(text).expect("code");
            let program = Program::verify(code, Declaration::scratchpad(scratchpad));
            Engine::new(program.expect("a program").into())
        };
        let small = engine(8, "ldxdw r0, [r1]\n exit");
        let large = engine(
            16,
            "ldxdw r0, [r1]\n ldxdw r6, [r2+8]\n stxdw [r2], r6\n exit",
        );
        let mut interleaved = Interleaved::new(&memory, 2);
        let mut run = |engine, tenant, address, scratchpad: &[u8]| {
            let tenant = Tenant(tenant);
            let job = Job {
                engine,
                tenant,
                address,
                scratchpad,
                iterations: 9,
                tag: (),
            };
            assert!(interleaved.admit(job).is_ok());
            let mut ended = None;
            interleaved.turn(|end| ended = Some((end.status, end.scratchpad.to_vec())));
            ended.expect("it ends at once")
        };
        let done = |scratchpad: &[u8]| (Status::Done, scratchpad.to_vec());
        assert_eq!(run(&small, 1, 0x1000, &[1; 8]), done(&[1; 8]));
        assert_eq!(
            run(&small, 2, 0x1000, &[2; 8]),
            (Status::Denied, vec![2; 8])
        );
        assert_eq!(run(&small, 2, 0x1100, &[3; 8]), done(&[3; 8]));
        assert_eq!(
            run(&small, 1, 0x1100, &[4; 8]),
            (Status::Denied, vec![4; 8])
        );
        assert_eq!(run(&large, 1, 0x1000, &[5; 4]), done(&[0; 16]));
        assert_eq!(run(&large, 1, 0x1000, &[6; 16]), done(&[6; 16]));
        assert_eq!(run(&small, 1, 0x1000, &[7; 99]), done(&[7; 8]));
        assert_eq!(run(&small, 1, 0x10fc, &[8; 8]), (Status::Split, vec![8; 8]));
    }
}
