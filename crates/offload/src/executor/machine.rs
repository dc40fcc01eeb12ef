//! Memory and registers of a run.

use super::memory::Memory;
use crate::isa::{Register, STACK_BYTES};

/// How many functions may be active at once, the first included. It is the limit of the Linux
/// kernel.
pub const CALL_DEPTH_MAX: usize = 8;

/// Where memory begins. The addresses of a run are not those of the process: no address of one is
/// valid in the other.
const MEMORY_ADDRESS: u64 = 0x1_0000_0000;

/// Where the stacks begin.
const STACK_ADDRESS: u64 = 0x7f_0000_0000;

/// The reason why a run ended early. Slots of 8 bytes count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A load or store lies not within one region.
    #[error("slot {slot}: {bytes} bytes at {address:#x} are not in memory")]
    Access {
        /// The instruction.
        slot: usize,
        /// The first byte.
        address: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// Too many functions are active.
    #[error("slot {slot}: more than {CALL_DEPTH_MAX} functions are active")]
    CallDepth {
        /// The call.
        slot: usize,
    },
    /// The run has made as many calls and taken as many backward jumps as it may.
    #[error("slot {slot}: the budget of backward jumps and calls is used up")]
    Budget {
        /// The jump or call.
        slot: usize,
    },
}

/// Memory that code may access, at addresses of its own.
#[derive(Debug)]
pub struct Region<'m> {
    /// The address of the first byte.
    pub address: u64,
    /// The bytes.
    pub bytes: &'m mut [u8],
}

/// The registers and the memory with which a run begins. What it leaves in memory stays there.
#[derive(Debug)]
pub struct Machine<'m> {
    pub(super) registers: [u64; 11],
    pub(super) regions: Vec<Region<'m>>,
    pub(super) stack: Box<[u8; STACK_BYTES * CALL_DEPTH_MAX]>,
}

impl<'m> Machine<'m> {
    /// A machine without memory but the stack.
    pub fn new() -> Machine<'m> {
        let mut registers = [0; 11];
        registers[usize::from(Register::R10.number())] = STACK_ADDRESS + STACK_BYTES as u64;
        Machine {
            registers,
            regions: Vec::new(),
            stack: Box::new([0; STACK_BYTES * CALL_DEPTH_MAX]),
        }
    }

    /// A machine with one region, whose address is in register 1 and whose length in register 2.
    /// Both are zero without bytes.
    pub fn with_memory(bytes: &'m mut [u8]) -> Machine<'m> {
        let mut machine = Machine::new();
        if !bytes.is_empty() {
            machine.set(Register::R1, MEMORY_ADDRESS);
            machine.set(Register::R2, bytes.len() as u64);
            machine.regions.push(Region {
                address: MEMORY_ADDRESS,
                bytes,
            });
        }
        machine
    }

    /// Sets a register, but not the frame pointer, which the machine sets itself.
    pub fn set(&mut self, register: Register, value: u64) {
        if register != Register::R10 {
            self.registers[usize::from(register.number())] = value;
        }
    }
}

impl Memory for Machine<'_> {
    /// The bytes have to lie within one region.
    fn resolve(&mut self, address: u64, bytes: u64) -> Option<&mut [u8]> {
        let within = |start: u64, length: usize| {
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

impl Default for Machine<'_> {
    fn default() -> Self {
        Machine::new()
    }
}
