//! A program's traversal that models of hardware carry out.

use crate::executor::{Interpreter, TraversalWorkspace};
use crate::program::TraversalProgram;
use crate::traversal::{TraversalMemory, TraversalOutcome, TraversalQuery, TraversalStatus};
use crate::wire::length_without_zeros;
use nearfield_hardware::accelerator::{
    DepartureReason, HardwareTraversal, Iteration, MemorySpan, TranslationRefusal, Verdict,
};
use std::rc::Rc;
use std::sync::Arc;

/// A query in progress. The interpreter executes its iterations when hardware would, on the bytes
/// that the hardware has fetched.
pub struct OffloadedQuery<M> {
    program: Arc<TraversalProgram>,
    memory: Rc<M>,
    workspace: TraversalWorkspace,
    /// The scratchpad before an iteration that has not taken effect yet.
    before: Option<Vec<u8>>,
    /// The address of the next iteration, if this one takes effect.
    next: u64,
    left: u64,
    made: u64,
    /// The status with which its program has ended.
    status: Option<TraversalStatus>,
    /// The place of the bytes that are fetched when the program is done.
    object: Option<Object>,
    at_object: Option<MemorySpan>,
    number: u64,
}

/// A function from the scratchpad to the bytes that a program's result points to.
pub type Object = Rc<dyn Fn(&[u8]) -> MemorySpan>;

/// Bytes of the program's hash in a request. The rest of the header is in the rack's packet
/// overhead.
const HASH_BYTES: usize = 8;

impl<M> std::fmt::Debug for OffloadedQuery<M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Offloaded");
        let shown = shown.field("address", &self.workspace.address);
        shown.field("made", &self.made).finish_non_exhaustive()
    }
}

impl<M: TraversalMemory> OffloadedQuery<M> {
    /// Creates a traversal of a query that may make `iterations` iterations. Hardware fetches a
    /// node before it finds that there are none left.
    pub fn new(query: &TraversalQuery, memory: &Rc<M>, iterations: u64) -> OffloadedQuery<M> {
        let mut scratchpad = query.scratchpad.clone();
        scratchpad.resize(query.program.scratchpad_bytes(), 0);
        OffloadedQuery {
            program: Arc::clone(&query.program),
            memory: Rc::clone(memory),
            workspace: TraversalWorkspace::new(query.start, scratchpad),
            before: None,
            next: query.start,
            left: iterations,
            made: 0,
            status: None,
            object: None,
            at_object: None,
            number: 0,
        }
    }

    /// Adds the fetch of an object at the end.
    pub fn with_object(self, object: Object) -> OffloadedQuery<M> {
        OffloadedQuery {
            object: Some(object),
            ..self
        }
    }

    /// Sets a number that distinguishes it from others.
    pub fn with_number(self, number: u64) -> OffloadedQuery<M> {
        OffloadedQuery { number, ..self }
    }

    /// Returns the number; 0 unless another was given.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the outcome after hardware has ended it with `end`.
    pub fn outcome(mut self, end: DepartureReason) -> TraversalOutcome {
        let status = match end {
            DepartureReason::Returned | DepartureReason::Limit => {
                self.status.unwrap_or(TraversalStatus::Malfunction)
            }
            DepartureReason::Refused(refusal) => {
                // If its stores were refused, the last iteration has had no effect.
                if let Some(before) = self.before {
                    self.workspace.scratchpad = before;
                    self.made -= 1;
                }
                match refusal {
                    TranslationRefusal::Miss => TraversalStatus::NoSuchAddress,
                    TranslationRefusal::Split => TraversalStatus::Split,
                    TranslationRefusal::Denied => TraversalStatus::Denied,
                }
            }
        };
        TraversalOutcome {
            status,
            address: self.workspace.address,
            scratchpad: self.workspace.scratchpad,
            iterations: self.made,
        }
    }

    /// Returns the spans that the iteration has stored, in the order in which they become visible.
    fn stores(&self) -> Vec<MemorySpan> {
        let span = |address, bytes: &[u8]| MemorySpan {
            address,
            bytes: bytes.len() as u32,
        };
        let workspace = &self.workspace;
        let allocated = workspace
            .stored_allocation()
            .map(|(distance, bytes)| span(workspace.region.wrapping_add(distance), bytes));
        let node = workspace.stored_node(self.program.node_load());
        let node = node
            .map(|(distance, bytes)| span(workspace.address.wrapping_add_signed(distance), bytes));
        allocated.chain(node).collect()
    }

    fn ended(&mut self, instructions: u64, status: TraversalStatus) -> Iteration {
        self.status = Some(status);
        Iteration {
            instructions: instructions as u32,
            stores: Vec::new(),
            verdict: Verdict::Return,
        }
    }

    /// Returns the bytes of its scratchpad in a packet. As in a datagram, zeros at the end are left
    /// out.
    fn scratchpad_bytes(&self) -> usize {
        length_without_zeros(&self.workspace.scratchpad)
    }

    /// Continues at the next node, because all of the iteration has taken effect.
    fn advance(&mut self) {
        self.before = None;
        if self.next != 0 {
            self.workspace.address = self.next;
        }
    }
}

impl<M: TraversalMemory> HardwareTraversal for OffloadedQuery<M> {
    fn fetch(&self) -> MemorySpan {
        if let Some(span) = self.at_object {
            return span;
        }
        let load = self.program.node_load();
        let address = self
            .workspace
            .address
            .wrapping_add_signed(load.start.into());
        MemorySpan {
            address,
            // The node's address must be valid, even if the program needs no byte of it.
            bytes: u32::from(load.bytes).max(1),
        }
    }

    fn load(&mut self) {
        // The object is only fetched: its bytes go to the caller, not to the program.
        if self.at_object.is_some() {
            return;
        }
        let load = self.program.node_load();
        let from = self.fetch().address;
        self.workspace.begin(self.program.declaration());
        let loaded = self.memory.load(from, self.workspace.node_mut(load));
        if loaded.is_err() {
            // The hardware has checked the address, so a failure means that its table and the
            // memory differ.
            self.status = Some(TraversalStatus::Malfunction);
        }
    }

    fn execute(&mut self) -> Iteration {
        if self.at_object.is_some() {
            return self.ended(1, TraversalStatus::Done);
        }
        if self.made >= self.left {
            return Iteration {
                verdict: Verdict::Limit,
                ..self.ended(0, TraversalStatus::IterationLimit)
            };
        }
        if self.status == Some(TraversalStatus::Malfunction) {
            return self.ended(0, TraversalStatus::Malfunction);
        }
        let changes = self.program.changes_memory();
        self.before = changes.then(|| self.workspace.scratchpad.clone());
        let result = Interpreter.iterate_counting(&self.program, &mut self.workspace);
        let Ok((next, instructions)) = result else {
            // The iteration is not counted, so no refusal may take it back.
            self.before = None;
            return self.ended(0, TraversalStatus::Malfunction);
        };
        self.made += 1;
        self.next = next;
        let stores = self.stores();
        if self.workspace.allocates() && self.workspace.region == 0 {
            // The iteration has no effect, and is made again with regions.
            self.workspace.scratchpad = self.before.take().unwrap_or_default();
            self.made -= 1;
            return self.ended(instructions, TraversalStatus::OutOfRegions);
        }
        let verdict = match (next, &self.object) {
            (0, Some(object)) => {
                // The object costs the hardware one more fetch, without logic.
                self.at_object = Some(object(&self.workspace.scratchpad));
                Verdict::Next
            }
            (0, None) => {
                self.status = Some(TraversalStatus::Done);
                Verdict::Return
            }
            _ if self.made >= self.left => {
                self.status = Some(TraversalStatus::IterationLimit);
                Verdict::Limit
            }
            _ => Verdict::Next,
        };
        // With stores, the iteration takes effect when the hardware has checked them.
        if stores.is_empty() {
            self.advance();
        }
        Iteration {
            instructions: instructions as u32,
            stores,
            verdict,
        }
    }

    fn store(&mut self) {
        let load = self.program.node_load();
        let region = self.workspace.region;
        let address = self.workspace.address;
        // The hardware has checked these addresses.
        for (distance, bytes) in self.workspace.stored_allocation() {
            let _ = self.memory.store(region.wrapping_add(distance), bytes);
        }
        for (distance, bytes) in self.workspace.stored_node(load) {
            let _ = self
                .memory
                .store(address.wrapping_add_signed(distance), bytes);
        }
        let declaration = self.program.declaration();
        self.workspace.take_region(declaration);
        self.advance();
    }

    fn request_bytes(&self) -> u32 {
        // Memory nodes know the program by its hash. (In the paper its code travels, section 4.1.)
        (HASH_BYTES + self.scratchpad_bytes()) as u32
    }

    fn reply_bytes(&self) -> u32 {
        match self.at_object {
            Some(object) => object.bytes,
            None => self.scratchpad_bytes() as u32,
        }
    }
}
