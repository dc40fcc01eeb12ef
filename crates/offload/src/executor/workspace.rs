//! The windows of one iteration.

use super::memory::InterpreterMemory;
use super::stores::{ByteSet, Stores};
use crate::isa::{Register, STACK_BYTES};
use crate::program::{Declaration, NODE_BYTES_MAX, NodeLoad, REGION_BYTES};

/// The data of an iteration. The executor's caller fills in the node, and afterwards writes the
/// stored bytes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraversalWorkspace {
    /// The present address of the traversal.
    pub address: u64,
    /// The state of the traversal.
    pub scratchpad: Vec<u8>,
    /// The address of the region that this iteration may allocate, or zero.
    pub region: u64,
    pub(super) node: [u8; NODE_BYTES_MAX],
    pub(super) allocation: [u8; REGION_BYTES],
    pub(super) stores: Stores,
}

impl TraversalWorkspace {
    /// Creates the workspace of a traversal that begins at an address.
    pub fn new(address: u64, scratchpad: Vec<u8>) -> TraversalWorkspace {
        TraversalWorkspace {
            address,
            scratchpad,
            region: 0,
            node: [0; NODE_BYTES_MAX],
            allocation: [0; REGION_BYTES],
            stores: Stores::default(),
        }
    }

    /// Returns the bytes of the node that an iteration loads. They begin at [`NodeLoad::start`]
    /// from the current address.
    pub fn node_mut(&mut self, load: NodeLoad) -> &mut [u8] {
        let bytes = usize::from(load.bytes).min(NODE_BYTES_MAX);
        &mut self.node[..bytes]
    }

    /// Prepares for an iteration at the current address: no store is noted, the allocation is zero,
    /// and the last free region of the scratchpad's list is the one that the iteration may take.
    pub fn begin(&mut self, declaration: Declaration) {
        // Most iterations store nothing, and need not write the set nor clear the allocation.
        if !self.stores.node.is_empty() {
            self.stores.node = ByteSet::EMPTY;
        }
        if !self.stores.allocation.is_empty() {
            self.stores.allocation = ByteSet::EMPTY;
            self.allocation = [0; REGION_BYTES];
        }
        self.region = declaration
            .regions_at
            .and_then(|at| self.free_regions(at).last())
            .unwrap_or(0);
    }

    /// Removes the region from the list, if the iteration has stored into it.
    pub fn take_region(&mut self, declaration: Declaration) {
        let Some(at) = declaration.regions_at.map(usize::from) else {
            return;
        };
        if self.stores.allocation.is_empty() {
            return;
        }
        // The list is in the scratchpad, so the program may have changed the count, even to zero.
        let count = word(&self.scratchpad, at).saturating_sub(1);
        if let Some(bytes) = self.scratchpad.get_mut(at..at + 8) {
            bytes.copy_from_slice(&count.to_le_bytes());
        }
    }

    /// Returns the addresses of the list of free regions, as far as they are in the scratchpad.
    pub fn free_regions(&self, at: u16) -> impl Iterator<Item = u64> + '_ {
        let at = usize::from(at);
        // The caller or the program wrote the count, so it may reach beyond the scratchpad's end.
        let room = self.scratchpad.len().saturating_sub(at + 8) / 8;
        let count = word(&self.scratchpad, at).min(room as u64) as usize;
        (0..count).map(move |index| word(&self.scratchpad, at + 8 + 8 * index))
    }

    /// Returns the stored bytes of the node, with their distances from the current address.
    pub fn stored_node(&self, load: NodeLoad) -> impl Iterator<Item = (i64, &[u8])> {
        let ranges = self.stores.node.ranges();
        ranges.map(move |range| {
            let distance = i64::from(load.start) + range.start as i64;
            (distance, &self.node[range])
        })
    }

    /// Returns the stored bytes of the allocation, with their distances from its start.
    pub fn stored_allocation(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let ranges = self.stores.allocation.ranges();
        ranges.map(|range| (range.start as u64, &self.allocation[range]))
    }

    /// Returns true if the iteration has stored into the node or the allocation.
    pub fn has_stores(&self) -> bool {
        !self.stores.node.is_empty() || !self.stores.allocation.is_empty()
    }

    /// Returns true if the iteration has stored into the allocation.
    pub fn allocates(&self) -> bool {
        !self.stores.allocation.is_empty()
    }
}

/// Returns a word of a scratchpad, or zero outside of it.
fn word(scratchpad: &[u8], at: usize) -> u64 {
    let bytes = scratchpad.get(at..at + 8);
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

/// The addresses of the windows for the interpreter. They are far apart.
const NODE_ORIGIN: u64 = 0x10_0000_0000;
const SCRATCHPAD_ORIGIN: u64 = 0x20_0000_0000;
const ALLOCATION_ORIGIN: u64 = 0x30_0000_0000;
const STACK_ORIGIN: u64 = 0x40_0000_0000;
// `stored` recognizes a window by the origins before and after it.
const _: () = assert!(
    NODE_ORIGIN < SCRATCHPAD_ORIGIN
        && SCRATCHPAD_ORIGIN < ALLOCATION_ORIGIN
        && ALLOCATION_ORIGIN < STACK_ORIGIN
);

// The verifier counts on a stack that is aligned as its words are.
const _: () = assert!(STACK_ORIGIN & 7 == 0);

/// A workspace at the interpreter's addresses, with a stack.
pub(super) struct WorkspaceWindows<'w> {
    workspace: &'w mut TraversalWorkspace,
    load: NodeLoad,
    stack: [u8; STACK_BYTES],
}

impl WorkspaceWindows<'_> {
    /// Creates the windows. Each byte of the stack holds the lowest byte of `garbage`.
    pub fn new(
        workspace: &mut TraversalWorkspace,
        load: NodeLoad,
        garbage: u64,
    ) -> WorkspaceWindows<'_> {
        WorkspaceWindows {
            workspace,
            load,
            stack: [garbage as u8; STACK_BYTES],
        }
    }

    /// Returns the registers with which an iteration begins; those that are not set hold `garbage`.
    pub fn registers(&self, garbage: u64) -> [u64; 11] {
        let mut registers = [garbage; 11];
        let mut set = |register: Register, value| {
            registers[usize::from(register.number())] = value;
        };
        set(Register::R1, NODE_ORIGIN);
        set(Register::R2, SCRATCHPAD_ORIGIN);
        set(Register::R3, self.workspace.address);
        set(Register::R4, ALLOCATION_ORIGIN);
        set(Register::R5, self.workspace.region);
        set(Register::R10, STACK_ORIGIN);
        registers
    }

    fn node_start(&self) -> u64 {
        NODE_ORIGIN.wrapping_add_signed(self.load.start.into())
    }
}

impl InterpreterMemory for WorkspaceWindows<'_> {
    fn resolve(&mut self, address: u64, bytes: u64) -> Option<&mut [u8]> {
        let node_start = self.node_start();
        let stack_start = STACK_ORIGIN - STACK_BYTES as u64;
        let load = self.load;
        let windows: [(u64, &mut [u8]); 4] = [
            (node_start, {
                let bytes = usize::from(load.bytes).min(NODE_BYTES_MAX);
                &mut self.workspace.node[..bytes]
            }),
            (SCRATCHPAD_ORIGIN, &mut self.workspace.scratchpad),
            (ALLOCATION_ORIGIN, &mut self.workspace.allocation),
            (stack_start, &mut self.stack),
        ];
        for (start, window) in windows {
            let offset = address.checked_sub(start);
            let end = offset.and_then(|offset| offset.checked_add(bytes));
            if let (Some(offset), Some(end)) = (offset, end)
                && end <= window.len() as u64
            {
                return window.get_mut(offset as usize..end as usize);
            }
        }
        None
    }

    fn stored(&mut self, address: u64, bytes: u64) {
        let node_start = self.node_start();
        let stores = &mut self.workspace.stores;
        let (set, start) = if address >= node_start && address < SCRATCHPAD_ORIGIN {
            (&mut stores.node, node_start)
        } else if (ALLOCATION_ORIGIN..ALLOCATION_ORIGIN + REGION_BYTES as u64).contains(&address) {
            (&mut stores.allocation, ALLOCATION_ORIGIN)
        } else {
            return;
        };
        let offset = (address - start) as usize;
        debug_assert!(
            offset + bytes as usize <= NODE_BYTES_MAX,
            "the bytes were resolved"
        );
        set.insert(offset..offset + bytes as usize);
    }
}
