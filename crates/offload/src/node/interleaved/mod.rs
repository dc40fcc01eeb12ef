//! Many traversals on one core, so that many loads are in flight.
//!
//! The software form of pulse's decoupled pipelines: a slot is a workspace, a prefetch is what a
//! memory pipeline does, and the core is the logic pipeline. Each traversal in turn makes one
//! iteration, on a node that was prefetched a round before, and prefetches the next.
//!
//! What an iteration needs of a traversal is its [`Lane`], and all lanes lie one behind the other,
//! so that native code runs one after the other in a loop of its own. All else is in a slot, which
//! stays where it is.

#[cfg(feature = "native")]
#[expect(unsafe_code, reason = "runs native code on nodes where they lie")]
mod native;
mod slot;
#[cfg(test)]
mod tests;

use super::local::LocalMemory;
use super::ranges::Tenant;
use crate::executor::Lane;
use crate::traversal::{Engine, Next, Query, Status, iterate};
use nearfield_fabric::{LINE_BYTES, prefetch_line};
use slot::Slot;

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
    /// Those in flight. Each has a slot of its own. Of one that native code runs, `near` is a part
    /// of `memory`, `node` lies in it, and `scratchpad` is that of the slot.
    lanes: Vec<Lane>,
    slots: Vec<Slot<T>>,
    /// The slots without a lane.
    free: Vec<u32>,
    /// Lanes of this turn that have ended, in their order.
    ended: Vec<(usize, Status)>,
    /// So many lanes, the first ones, have their nodes prefetched.
    fetched: usize,
    capacity: usize,
}

/// So many lanes make their iterations before their next nodes are prefetched. Prefetches wait
/// where the processor has to translate their addresses first, or has many loads in flight. It
/// looks only so many instructions ahead, so that these wait together if they are close together;
/// and meanwhile it has others to execute if they are not too many.
const LANES: usize = 8;

impl<'m, T> Interleaved<'m, T> {
    /// No traversals, and room for `capacity`.
    pub fn new(memory: &'m LocalMemory<'m>, capacity: usize) -> Interleaved<'m, T> {
        Interleaved {
            memory,
            lanes: Vec::with_capacity(capacity),
            slots: Vec::new(),
            free: Vec::new(),
            ended: Vec::new(),
            fetched: 0,
            capacity,
        }
    }

    /// Has all traversals see another memory, those in flight, too: their nodes are looked up
    /// again.
    pub fn change_memory(&mut self, memory: &'m LocalMemory<'m>) {
        self.memory = memory;
        for slot in &mut self.slots {
            slot.forget_memory();
        }
        for lane in &mut self.lanes {
            let slot = &mut self.slots[lane.slot as usize];
            let address = slot.address(lane);
            slot.go_to(memory, lane, address);
        }
    }

    /// How many traversals are in flight.
    pub fn active(&self) -> usize {
        self.lanes.len()
    }

    /// True if there is room for another one.
    pub fn has_room(&self) -> bool {
        self.active() < self.capacity
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
        let number = self.free.pop().unwrap_or(self.slots.len() as u32);
        if number as usize == self.slots.len() {
            self.slots.push(Slot::new(job.engine));
        }
        let lane = self.slots[number as usize].begin(self.memory, number, job);
        // Alone, it has nobody to wait with.
        if self.lanes.is_empty() {
            prefetch_node(&lane);
            self.fetched = 1;
        }
        self.lanes.push(lane);
        Ok(())
    }

    /// Each traversal makes one iteration. `end` receives those that end.
    #[inline]
    pub fn turn(&mut self, end: impl FnMut(Ended<'_, T>)) {
        self.turn_alone(1, end);
    }

    /// As [`turn`](Interleaved::turn), but a traversal that is alone makes up to `iterations`, at
    /// least one: there is no other that would use the time in which its next node is loaded.
    /// Returns how many iterations were made at the most.
    #[inline]
    pub fn turn_alone(&mut self, iterations: usize, mut end: impl FnMut(Ended<'_, T>)) -> usize {
        let (repeats, before) = match &self.lanes[..] {
            [lane] => (iterations.saturating_sub(1), lane.left),
            _ => (0, 0),
        };
        // Those that were admitted since the last turn. Between two of them the processor had
        // hundreds of instructions to execute, too many to see both prefetches at once.
        for lane in self.lanes.iter().skip(self.fetched) {
            prefetch_node(lane);
        }
        let mut start = 0;
        while start < self.lanes.len() {
            let behind = self.lanes.len().min(start + LANES);
            self.run(start, behind, repeats);
            for lane in &self.lanes[start..behind] {
                prefetch_node(lane);
            }
            start = behind;
        }
        let made = match &self.lanes[..] {
            [lane] => (before - lane.left).max(1) as usize,
            lanes => lanes.len(),
        };
        // The last lane takes the place of one that has ended. It has not ended itself, as later
        // ones were taken out before.
        while let Some((index, status)) = self.ended.pop() {
            let lane = self.lanes.swap_remove(index);
            let slot = &mut self.slots[lane.slot as usize];
            self.free.push(lane.slot);
            if let Some(ended) = slot.end(&lane, status) {
                end(ended);
            }
        }
        self.fetched = self.lanes.len();
        made
    }

    /// Some lanes make one iteration, and `repeats` more as long as native code goes on.
    #[inline]
    fn run(&mut self, mut start: usize, behind: usize, repeats: usize) {
        while start < behind {
            let group = self.lanes[start].group;
            let same = |lane: &&Lane| lane.group == group;
            let count = match group {
                0 => 0,
                _ => self.lanes[start..behind].iter().take_while(same).count(),
            };
            if count > 0 {
                self.run_natively(start, count, repeats);
                start += count;
            } else {
                self.run_alone(start);
                start += 1;
            }
        }
    }

    #[cfg(not(feature = "native"))]
    fn run_natively(&mut self, _: usize, _: usize, _: usize) {}

    /// An iteration of a traversal that native code does not run on its node.
    #[cold]
    fn run_alone(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        let slot = &mut self.slots[lane.slot as usize];
        if let Some(status) = slot.refusal {
            return self.ended.push((index, status));
        }
        match iterate(
            &slot.engine,
            &self.memory.of(slot.tenant),
            &mut slot.workspace,
        ) {
            Ok(next) => {
                lane.left -= 1;
                lane.next = match next {
                    Next::Done => 0,
                    Next::Node(address) => address,
                };
                self.go_on(index);
            }
            Err(status) => self.ended.push((index, status)),
        }
    }

    /// Ends a traversal after an iteration, or sends it to its next node.
    #[inline]
    fn go_on(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        let slot = &mut self.slots[lane.slot as usize];
        let next = lane.next;
        if next == 0 {
            self.ended.push((index, Status::Done));
        } else {
            slot.go_to(self.memory, lane, next);
            if let Some(status) = slot.refusal {
                self.ended.push((index, status));
            }
        }
    }
}

#[inline]
fn prefetch_node(lane: &Lane) {
    prefetch_line(lane.node);
    let line = LINE_BYTES as usize;
    let mut further = line - lane.node.addr() % line;
    while further < lane.bytes as usize {
        prefetch_line(lane.node.wrapping_add(further));
        further += line;
    }
}
