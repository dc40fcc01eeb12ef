//! Many traversals on one core, so that many loads are in flight.
//!
//! This is the software form of pulse's decoupled pipelines: a slot is a workspace, a prefetch does
//! the work of a memory pipeline, and the core is the logic pipeline. Each traversal in turn makes
//! one iteration, on a node that was prefetched one turn before, and prefetches the next.
//!
//! The part of a traversal that an iteration needs is its [`TraversalLane`]. All lanes are adjacent
//! in memory, so that native code can run them in a loop of its own. The rest is in a slot, which
//! does not move.

#[cfg(feature = "native")]
#[expect(unsafe_code, reason = "runs native code on nodes in place")]
mod native;
mod slot;
#[cfg(test)]
mod tests;

use super::local::LocalMemory;
use super::ranges::Tenant;
use crate::executor::TraversalLane;
use crate::traversal::{
    ProgramEngine, TraversalContinuation, TraversalQuery, TraversalStatus, iterate,
};
use nearfield_fabric::{LINE_BYTES, prefetch_line};
use slot::TraversalSlot;

/// Default number of traversals that a core has in flight. A core has 10 to 16 loads in flight, and
/// a node has up to four cache lines.
pub const SLOTS: usize = 24;

/// A traversal to run.
#[derive(Debug)]
pub struct TraversalJob<'j, T> {
    /// The program, with its engine.
    pub engine: &'j ProgramEngine,
    /// The tenant of the traversal.
    pub tenant: Tenant,
    /// The address where it begins.
    pub address: u64,
    /// The traversal's state, of the declared length.
    pub scratchpad: &'j [u8],
    /// Largest number of iterations.
    pub iterations: u64,
    /// A tag that is returned with the traversal's end.
    pub tag: T,
}

impl<'j, T> TraversalJob<'j, T> {
    /// Creates a job from a query.
    pub fn new(
        engine: &'j ProgramEngine,
        tenant: Tenant,
        query: &'j TraversalQuery,
        limit: u64,
        tag: T,
    ) -> Self {
        TraversalJob {
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
pub struct TraversalEnd<'e, T> {
    /// The job's tag.
    pub tag: T,
    /// The status with which it ended.
    pub status: TraversalStatus,
    /// The address where it ended.
    pub address: u64,
    /// The traversal's state.
    pub scratchpad: &'e [u8],
    /// Number of iterations that it made.
    pub iterations: u64,
}

/// The traversals of a core.
#[derive(Debug)]
pub struct InterleavedTraversals<'m, T> {
    memory: &'m LocalMemory<'m>,
    /// The traversals in flight. Each has a slot of its own. If native code runs the traversal,
    /// `near` is a part of `memory`, `node` points into that part, and `scratchpad` is the slot's.
    lanes: Vec<TraversalLane>,
    slots: Vec<TraversalSlot<T>>,
    /// The slots without a lane.
    free: Vec<u32>,
    /// Index and status of the lanes that ended in this turn, in their order.
    ended: Vec<(usize, TraversalStatus)>,
    /// Number of lanes, from the first one, whose nodes are prefetched.
    fetched: usize,
    capacity: usize,
}

/// Number of lanes that make their iterations before their next nodes are prefetched. A prefetch
/// waits while the processor translates its address, or while many loads are in flight. The
/// processor's window of instructions is limited, so prefetches that are close together wait
/// together. If they are not too many, the processor has other instructions to execute meanwhile.
const LANES: usize = 8;

impl<'m, T> InterleavedTraversals<'m, T> {
    /// Creates a core without traversals, with room for `capacity`.
    pub fn new(memory: &'m LocalMemory<'m>, capacity: usize) -> InterleavedTraversals<'m, T> {
        InterleavedTraversals {
            memory,
            lanes: Vec::with_capacity(capacity),
            slots: Vec::new(),
            free: Vec::new(),
            ended: Vec::new(),
            fetched: 0,
            capacity,
        }
    }

    /// Replaces the memory of all traversals, including those in flight: their nodes are looked up
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

    /// Returns the number of traversals in flight.
    pub fn active(&self) -> usize {
        self.lanes.len()
    }

    /// Returns true if there is room for another traversal.
    pub fn has_room(&self) -> bool {
        self.active() < self.capacity
    }

    /// Begins a traversal. The scratchpad is cut or filled with zeros to the declared length.
    ///
    /// # Errors
    /// The job, if there is no room.
    #[inline]
    pub fn admit<'j>(&mut self, job: TraversalJob<'j, T>) -> Result<(), TraversalJob<'j, T>> {
        if !self.has_room() {
            return Err(job);
        }
        debug_assert_eq!(self.lanes.len() + self.free.len(), self.slots.len());
        let number = self.free.pop().unwrap_or(self.slots.len() as u32);
        if number as usize == self.slots.len() {
            self.slots.push(TraversalSlot::new(job.engine));
        }
        let lane = self.slots[number as usize].begin(self.memory, number, job);
        // A traversal that is alone has no other to wait together with, so prefetch at once.
        if self.lanes.is_empty() {
            prefetch_node(&lane);
            self.fetched = 1;
        }
        self.lanes.push(lane);
        Ok(())
    }

    /// Makes one iteration of each traversal. Calls `end` for those that end.
    #[inline]
    pub fn turn(&mut self, end: impl FnMut(TraversalEnd<'_, T>)) {
        self.turn_alone(1, end);
    }

    /// Makes turns like [`turn`](InterleavedTraversals::turn), but a traversal that is alone makes
    /// up to `iterations`, and at least one: no other traversal would use the time in which its
    /// next node is loaded. Returns the largest number of iterations that were made.
    #[inline]
    pub fn turn_alone(
        &mut self,
        iterations: usize,
        mut end: impl FnMut(TraversalEnd<'_, T>),
    ) -> usize {
        debug_assert!(self.ended.is_empty() && self.fetched <= self.lanes.len());
        let (repeats, before) = match &self.lanes[..] {
            [lane] => (iterations.saturating_sub(1), lane.left),
            _ => (0, 0),
        };
        // Prefetch for the traversals that were admitted since the last turn. Not at their
        // admission: the processor executes hundreds of instructions between two of them, too many
        // to have both prefetches in its window at once.
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
        // The last lane takes the place of one that has ended. It has not ended itself, because
        // later ones were taken out before.
        debug_assert!(self.ended.is_sorted_by(|one, next| one.0 < next.0));
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

    /// Makes one iteration of some lanes, and up to `repeats` more while native code continues.
    #[inline]
    fn run(&mut self, mut start: usize, behind: usize, repeats: usize) {
        while start < behind {
            let group = self.lanes[start].group;
            let same = |lane: &&TraversalLane| lane.group == group;
            let count = match group {
                // Group 0 is no program: such lanes have nothing in common.
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

    /// Makes an iteration of a traversal that native code does not run.
    #[cold]
    fn run_alone(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        let slot = &mut self.slots[lane.slot as usize];
        // A refusal ends the traversal in its next turn, because `admit` and `change_memory` have
        // nobody to tell.
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
                    TraversalContinuation::Done => 0,
                    TraversalContinuation::Node(address) => address,
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
            self.ended.push((index, TraversalStatus::Done));
        } else {
            slot.go_to(self.memory, lane, next);
            if let Some(status) = slot.refusal {
                self.ended.push((index, status));
            }
        }
    }
}

#[inline]
fn prefetch_node(lane: &TraversalLane) {
    prefetch_line(lane.node);
    let line = LINE_BYTES as usize;
    // A load may begin anywhere in a line, so its second line may be near.
    let mut further = line - lane.node.addr() % line;
    while further < lane.bytes as usize {
        prefetch_line(lane.node.wrapping_add(further));
        further += line;
    }
}
