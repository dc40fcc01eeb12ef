//! A slot for a traversal, with all that is not needed in each iteration.

use super::{TraversalEnd, TraversalJob};
use crate::executor::{Near, TraversalLane, TraversalWorkspace};
use crate::node::local::LocalMemory;
use crate::node::ranges::{Tenant, TenantPermission};
use crate::program::NodeLoad;
use crate::traversal::{ProgramEngine, TraversalStatus};

/// A slot for a traversal.
#[derive(Debug)]
pub struct TraversalSlot<T> {
    /// The status that ends the traversal before its next iteration.
    pub refusal: Option<TraversalStatus>,
    pub tenant: Tenant,
    pub engine: ProgramEngine,
    /// The workspace. If native code does not run the traversal in place, `address` is the present
    /// one.
    pub workspace: TraversalWorkspace,
    load: NodeLoad,
    group: usize,
    limit: u64,
    near: Near,
    tag: Option<T>,
}

impl<T> TraversalSlot<T> {
    pub fn new(engine: &ProgramEngine) -> TraversalSlot<T> {
        let mut slot = TraversalSlot {
            refusal: None,
            tenant: Tenant::default(),
            engine: engine.clone(),
            workspace: TraversalWorkspace::new(0, Vec::new()),
            load: NodeLoad::default(),
            group: 0,
            limit: 0,
            near: Near::NONE,
            tag: None,
        };
        slot.use_engine(engine);
        slot
    }

    /// Prepares for the traversals of a program.
    fn use_engine(&mut self, engine: &ProgramEngine) {
        let program = engine.program();
        self.load = program.node_load();
        self.workspace
            .scratchpad
            .resize(program.scratchpad_bytes(), 0);
        self.engine = engine.clone();
        self.group = self.engine.group_in_place();
        self.near = Near::NONE;
    }

    /// Forgets the known part of the memory, which is no longer valid.
    pub fn forget_memory(&mut self) {
        self.near = Near::NONE;
    }

    /// Begins a job; `number` is the slot's.
    #[inline]
    pub fn begin(
        &mut self,
        memory: &LocalMemory<'_>,
        number: u32,
        job: TraversalJob<'_, T>,
    ) -> TraversalLane {
        // Most traversals of a node run the same few programs, so a slot often has the engine
        // already.
        if !self.engine.is_same(job.engine) {
            self.use_engine(job.engine);
        }
        if self.tenant != job.tenant {
            // The known part was checked for the tenant before.
            (self.tenant, self.near) = (job.tenant, Near::NONE);
        }
        let scratchpad = &mut self.workspace.scratchpad;
        let length = scratchpad.len();
        if job.scratchpad.len() == length {
            scratchpad.copy_from_slice(job.scratchpad);
        } else {
            scratchpad.clear();
            scratchpad.extend_from_slice(&job.scratchpad[..job.scratchpad.len().min(length)]);
            scratchpad.resize(length, 0);
        }
        // Native code stores into the scratchpad as far as the program declares.
        debug_assert_eq!(length, self.engine.program().scratchpad_bytes());
        debug_assert!(self.tag.is_none(), "a traversal still uses the slot");
        self.limit = job.iterations;
        self.tag = Some(job.tag);
        let mut lane = TraversalLane {
            node: std::ptr::null(),
            scratchpad: self.workspace.scratchpad.as_mut_ptr(),
            left: job.iterations,
            near: self.near,
            next: 0,
            group: 0,
            slot: number,
            bytes: u32::from(self.load.bytes.max(1)),
        };
        self.go_to(memory, &mut lane, job.address);
        lane
    }

    /// Returns the traversal's present address.
    pub fn address(&self, lane: &TraversalLane) -> u64 {
        match lane.group {
            0 => self.workspace.address,
            _ => lane.address(),
        }
    }

    /// Sends the traversal to an address. Refuses it if it has no iteration left, or if the tenant
    /// has no such node here.
    #[inline]
    pub fn go_to(&mut self, memory: &LocalMemory<'_>, lane: &mut TraversalLane, address: u64) {
        let node = match self.near.find(address) {
            // The limit comes first: at its last node, a traversal is not refused for an address
            // that it may never load.
            _ if lane.left == 0 => Err(TraversalStatus::IterationLimit),
            Some(node) => Ok(node),
            None => self.look_up(memory, address),
        };
        match node {
            Ok(node) => {
                (lane.node, lane.near, lane.group) = (node, self.near, self.group);
                self.refusal = None;
            }
            Err(status) => {
                lane.group = 0;
                self.refusal = Some(status);
            }
        }
        // Native code keeps the address in the lane, from which it is computed.
        if lane.group == 0 {
            self.workspace.address = address;
        }
    }

    /// Looks a node up in the table of ranges.
    #[cold]
    fn look_up(
        &mut self,
        memory: &LocalMemory<'_>,
        address: u64,
    ) -> Result<*const u8, TraversalStatus> {
        let start = self.load.start;
        let from = address.wrapping_add_signed(start.into());
        // A program that loads nothing still needs a valid address.
        let bytes = self.load.bytes.max(1);
        let ranges = memory.ranges();
        let place = ranges.translate(self.tenant, from, bytes.into(), TenantPermission::Read)?;
        let memory = memory.words().as_ptr().cast::<u8>();
        let range = ranges.find(from).ok_or(TraversalStatus::NoSuchAddress)?;
        let first = range.start.wrapping_add_signed(-i64::from(start));
        let mut near = Near {
            first,
            room: range.bytes - u64::from(bytes) + 1,
            origin: memory.wrapping_add(range.offset as usize),
        };
        debug_assert_eq!(near.find(address), Some(memory.wrapping_add(place)));
        // A program returns 0 at the end of a traversal, so native code must not take it for an
        // address.
        if near.find(0).is_some() {
            near.room = 0;
        }
        self.near = near;
        Ok(memory.wrapping_add(place))
    }

    /// Returns the end of the traversal: its tag, status and results.
    #[inline]
    pub fn end(
        &mut self,
        lane: &TraversalLane,
        status: TraversalStatus,
    ) -> Option<TraversalEnd<'_, T>> {
        Some(TraversalEnd {
            tag: self.tag.take()?,
            status,
            address: self.address(lane),
            scratchpad: &self.workspace.scratchpad,
            iterations: self.limit - lane.left,
        })
    }
}
