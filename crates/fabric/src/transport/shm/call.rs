//! Calls to the processor of a node, through slots in its header.
//!
//! The state of a slot is a phase and the client's process. These transitions are allowed:
//!
//! ```text
//!            client           client            node             client
//!   FREE ────────────▶ CLAIMED ─────▶ WRITTEN ────────▶ ANSWERED ──────▶ FREE
//!                                        │ client           │ client
//!                                        ▼      node        ▼       node
//!                                    WITHDRAWN ─────▶    DECLINED ───────▶ FREE
//! ```
//!
//! A client that stops waiting withdraws its call or declines the reply; the node then frees the
//! memory that it has allocated for the call. The node frees slots of ended processes in the same
//! way. It relies only on state in memory of its own ([`ShmNodeCalls`]).

use super::mapping::{SLOTS, ShmHeader, ShmHeaderLine};
use super::process::is_alive;
use crate::chunks::Chunks;
use rustix::thread::futex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The phases, in the lower bits of a state; the upper bits are the number of the process.
const FREE: u32 = 0;
const CLAIMED: u32 = 1;
const WRITTEN: u32 = 2;
const ANSWERED: u32 = 3;
const WITHDRAWN: u32 = 4;
const DECLINED: u32 = 5;

const PHASE_BITS: u32 = 4;

/// The meaning of each word of a slot.
mod word {
    pub const KIND: usize = 0;
    pub const OFFSET: usize = 1;
    pub const BYTES: usize = 2;
    pub const DONE: usize = 3;
    pub const ANSWER: usize = 4;
}

const ALLOCATE: u64 = 1;
const GIVE_BACK: u64 = 2;
const ALLOCATE_AT: u64 = 3;
/// Finds allocated memory (with 1 as bytes) or other memory (with 0).
const FIND: u64 = 4;

/// A client's request.
#[derive(Clone, Copy, Debug)]
pub enum ShmRequest {
    Allocate { bytes: u64 },
    AllocateAt { offset: u64, bytes: u64 },
    Find { offset: u64, is_allocated: bool },
    Free { offset: u64, bytes: u64 },
}

/// A call without a reply so far. A drop withdraws it.
#[derive(Debug)]
pub struct ShmCall<'h> {
    header: &'h ShmHeader,
    slot: &'h ShmHeaderLine,
    process: u32,
    taken: bool,
}

impl<'h> ShmCall<'h> {
    /// Makes a call. Returns `None` if all slots are in use.
    pub fn make(header: &'h ShmHeader, request: ShmRequest) -> Option<ShmCall<'h>> {
        let process = std::process::id() << PHASE_BITS;
        let claim = |slot: &&ShmHeaderLine| {
            let claimed = process | CLAIMED;
            let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
            let found = slot.state.load(Ordering::Relaxed);
            found == FREE
                && slot
                    .state
                    .compare_exchange(FREE, claimed, acquire, relaxed)
                    .is_ok()
        };
        let slot = header.slots.iter().find(claim)?;
        let (kind, offset, bytes) = match request {
            ShmRequest::Allocate { bytes } => (ALLOCATE, 0, bytes),
            ShmRequest::AllocateAt { offset, bytes } => (ALLOCATE_AT, offset, bytes),
            ShmRequest::Find {
                offset,
                is_allocated,
            } => (FIND, offset, u64::from(is_allocated)),
            ShmRequest::Free { offset, bytes } => (GIVE_BACK, offset, bytes),
        };
        // Only the owner of a claimed slot writes its words, and the node reads them once they are
        // published by the state below.
        slot.words[word::KIND].store(kind, Ordering::Relaxed);
        slot.words[word::OFFSET].store(offset, Ordering::Relaxed);
        slot.words[word::BYTES].store(bytes, Ordering::Relaxed);
        slot.state.store(process | WRITTEN, Ordering::Release);
        ring(header);
        Some(ShmCall {
            header,
            slot,
            process,
            taken: false,
        })
    }

    /// Waits for the reply, but not much longer than `time`. Returns the offset of the allocated
    /// bytes, or `Some(None)` if the call failed.
    pub fn wait(&mut self, time: Duration) -> Option<Option<u64>> {
        wait(&self.slot.state, self.process | WRITTEN, time);
        if self.slot.state.load(Ordering::Acquire) != self.process | ANSWERED {
            return None;
        }
        let done = self.slot.words[word::DONE].load(Ordering::Relaxed) != 0;
        let answer = self.slot.words[word::ANSWER].load(Ordering::Relaxed);
        // From here on a drop must not touch the slot, which another client may claim.
        self.taken = true;
        self.slot.state.store(FREE, Ordering::Release);
        Some(done.then_some(answer))
    }
}

impl Drop for ShmCall<'_> {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        // In the order of the states, because the node may reply between the two tries.
        for (from, to) in [(WRITTEN, WITHDRAWN), (ANSWERED, DECLINED)] {
            if change(self.slot, self.process | from, self.process | to) {
                break;
            }
        }
        ring(self.header);
    }
}

/// The node's own state: its chunks, and the memory that it allocated for the call in each slot.
#[derive(Debug)]
pub struct ShmNodeCalls {
    pub chunks: Chunks,
    given: [Option<(u64, u64)>; SLOTS],
}

impl ShmNodeCalls {
    pub fn new(chunks: Chunks) -> ShmNodeCalls {
        ShmNodeCalls {
            chunks,
            given: [None; SLOTS],
        }
    }

    /// Replies to all calls that were made.
    pub fn answer(&mut self, header: &ShmHeader) {
        for (number, slot) in header.slots.iter().enumerate() {
            let state = slot.state.load(Ordering::Acquire);
            let process = state >> PHASE_BITS << PHASE_BITS;
            match state - process {
                WRITTEN => {
                    // Executed before the state changes: a call that is withdrawn meanwhile is
                    // undone below.
                    let answer = self.perform(number, slot);
                    slot.words[word::DONE].store(u64::from(answer.is_some()), Ordering::Relaxed);
                    slot.words[word::ANSWER].store(answer.unwrap_or(0), Ordering::Relaxed);
                    if change(slot, state, process | ANSWERED) {
                        // At most one client waits for each slot.
                        let _ = futex::wake(&slot.state, futex::Flags::empty(), 1);
                    } else {
                        self.take_back(number, slot);
                    }
                }
                WITHDRAWN => self.settle(number, slot),
                DECLINED => self.take_back(number, slot),
                _ => {}
            }
        }
    }

    /// Frees the slots of processes that have ended.
    pub fn sweep(&mut self, header: &ShmHeader) {
        for (number, slot) in header.slots.iter().enumerate() {
            let state = slot.state.load(Ordering::Acquire);
            if state == FREE || is_alive(state >> PHASE_BITS) {
                continue;
            }
            // The process may have changed the slot as its last act, and another may have it now.
            // While it belongs to an ended process, only the node changes it.
            let last = slot.state.load(Ordering::Acquire);
            let process = state >> PHASE_BITS << PHASE_BITS;
            match last.wrapping_sub(process) {
                CLAIMED => {
                    change(slot, last, FREE);
                }
                WRITTEN => self.settle(number, slot),
                ANSWERED => self.take_back(number, slot),
                _ => {}
            }
        }
    }

    /// Executes a request.
    fn perform(&mut self, number: usize, slot: &ShmHeaderLine) -> Option<u64> {
        let read = |word: usize| slot.words[word].load(Ordering::Relaxed);
        let (offset, bytes) = (read(word::OFFSET), read(word::BYTES));
        // The client of the former call in this slot has taken its memory.
        self.given[number] = None;
        let kind = read(word::KIND);
        if kind == FIND {
            return self.chunks.find(offset, bytes != 0);
        }
        if !allocates(kind) {
            // The words may be wrong: memory that is not allocated is not freed.
            return self.chunks.free(offset, bytes).then_some(0);
        }
        let offset = if kind == ALLOCATE {
            self.chunks.allocate(bytes)?
        } else {
            self.chunks.allocate_at(offset, bytes).then_some(offset)?
        };
        self.given[number] = Some((offset, bytes));
        Some(offset)
    }

    /// Handles a call whose client no longer waits, and frees the slot.
    fn settle(&mut self, number: usize, slot: &ShmHeaderLine) {
        self.given[number] = None;
        // Memory that is given back must be freed in any case. No client would own memory that is
        // allocated.
        if !allocates(slot.words[word::KIND].load(Ordering::Relaxed)) {
            self.perform(number, slot);
        }
        slot.state.store(FREE, Ordering::Release);
    }

    /// Frees memory that the client has not taken, and frees the slot.
    fn take_back(&mut self, number: usize, slot: &ShmHeaderLine) {
        if let Some((offset, bytes)) = self.given[number].take() {
            self.chunks.free(offset, bytes);
        }
        slot.state.store(FREE, Ordering::Release);
    }
}

/// Returns true for the calls that allocate memory.
fn allocates(kind: u64) -> bool {
    matches!(kind, ALLOCATE | ALLOCATE_AT)
}

fn change(slot: &ShmHeaderLine, from: u32, to: u32) -> bool {
    let changed = slot
        .state
        .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
    changed.is_ok()
}

/// Makes the node check its slots.
fn ring(header: &ShmHeader) {
    let bell = &header.summary.bell;
    bell.fetch_add(1, Ordering::Release);
    // If no node listens, no reply comes, and the caller handles that.
    let _ = futex::wake(bell, futex::Flags::empty(), 1);
}

/// Sleeps while a word has this value, but not much longer than a time.
pub fn wait(word: &AtomicU32, value: u32, time: Duration) {
    let Ok(time) = time.try_into() else { return };
    // The word has changed, the time has passed, or a signal came: the caller checks again in any
    // case.
    let _ = futex::wait(word, futex::Flags::empty(), value, Some(&time));
}
