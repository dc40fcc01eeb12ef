//! The memory and the registers of a run.

use super::memory::InterpreterMemory;
use crate::isa::{Register, STACK_BYTES};

/// Largest number of functions that may be active at once, including the first. It is the limit of
/// the Linux kernel.
pub const CALL_DEPTH_MAX: usize = 8;

/// The address where memory begins. The addresses of a run are not those of the process: no address
/// of one is valid in the other.
const MEMORY_ADDRESS: u64 = 0x1_0000_0000;

/// The address where the stacks begin.
const STACK_ADDRESS: u64 = 0x7f_0000_0000;

/// The reason why a run ended early. Slots of 8 bytes count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutionFault {
    /// A load or store is not within one region.
    #[error("slot {slot}: {bytes} bytes at {address:#x} are not in memory")]
    Access {
        /// The slot of the instruction.
        slot: usize,
        /// The address of the first byte.
        address: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// Too many functions are active.
    #[error("slot {slot}: more than {CALL_DEPTH_MAX} functions are active")]
    CallDepth {
        /// The slot of the call.
        slot: usize,
    },
    /// The run has used up its budget of calls and backward jumps.
    #[error("slot {slot}: the budget of backward jumps and calls is used up")]
    Budget {
        /// The slot of the jump or call.
        slot: usize,
    },
}

/// A piece of memory that code may access, at addresses of its own.
#[derive(Debug)]
pub struct MachineRegion<'m> {
    /// The address of the first byte.
    pub address: u64,
    /// The bytes.
    pub bytes: &'m mut [u8],
}

/// The registers and the memory with which a run begins. Changes to memory stay after the run.
#[derive(Debug)]
pub struct BpfMachine<'m> {
    pub(super) registers: [u64; 11],
    pub(super) regions: Vec<MachineRegion<'m>>,
    pub(super) stack: Box<[u8; STACK_BYTES * CALL_DEPTH_MAX]>,
}

impl<'m> BpfMachine<'m> {
    /// Creates a machine without memory except the stack.
    pub fn new() -> BpfMachine<'m> {
        let mut registers = [0; 11];
        registers[usize::from(Register::R10.number())] = STACK_ADDRESS + STACK_BYTES as u64;
        BpfMachine {
            registers,
            regions: Vec::new(),
            stack: Box::new([0; STACK_BYTES * CALL_DEPTH_MAX]),
        }
    }

    /// Creates a machine with one region, whose address is in register 1 and whose length in
    /// register 2. Both are zero if there are no bytes.
    pub fn with_memory(bytes: &'m mut [u8]) -> BpfMachine<'m> {
        let mut machine = BpfMachine::new();
        // An empty region has no address that could be loaded from, so register 1 stays zero.
        if !bytes.is_empty() {
            machine.set(Register::R1, MEMORY_ADDRESS);
            machine.set(Register::R2, bytes.len() as u64);
            machine.regions.push(MachineRegion {
                address: MEMORY_ADDRESS,
                bytes,
            });
        }
        machine
    }

    /// Sets a register, except the frame pointer, which the machine sets itself.
    pub fn set(&mut self, register: Register, value: u64) {
        if register != Register::R10 {
            self.registers[usize::from(register.number())] = value;
        }
    }
}

impl InterpreterMemory for BpfMachine<'_> {
    /// Returns the bytes, which must be within one region.
    fn resolve(&mut self, address: u64, bytes: u64) -> Option<&mut [u8]> {
        let within = |start: u64, length: usize| {
            // Code computes addresses freely, so neither the difference nor the sum may wrap
            // around.
            let offset = address.checked_sub(start)?;
            let end = offset.checked_add(bytes)?;
            (end <= length as u64).then_some(offset as usize..end as usize)
        };
        if let Some(range) = within(STACK_ADDRESS, self.stack.len()) {
            return self.stack.get_mut(range);
        }
        for region in &mut self.regions {
            if let Some(range) = within(region.address, region.bytes.len()) {
                return region.bytes.get_mut(range);
            }
        }
        None
    }

    fn stored(&mut self, _address: u64, _bytes: u64) {}
}

impl Default for BpfMachine<'_> {
    fn default() -> Self {
        BpfMachine::new()
    }
}
