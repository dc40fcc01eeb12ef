//! The memory that the interpreter accesses.

use crate::isa::OperandSize;

/// The bytes at the addresses of a run.
pub trait InterpreterMemory {
    /// Returns the bytes at an address, if the run may access them.
    fn resolve(&mut self, address: u64, bytes: u64) -> Option<&mut [u8]>;

    /// Notes a store of bytes that were resolved.
    fn stored(&mut self, address: u64, bytes: u64);

    fn load(&mut self, address: u64, size: OperandSize) -> Option<u64> {
        let bytes = self.resolve(address, size.bytes())?;
        // Fewer than 8 bytes leave the upper ones zero: the sign is extended by the instruction.
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(bytes) {
            *to = *from;
        }
        Some(u64::from_le_bytes(word))
    }

    fn store(&mut self, address: u64, size: OperandSize, value: u64) -> Option<()> {
        let bytes = self.resolve(address, size.bytes())?;
        for (to, from) in bytes.iter_mut().zip(value.to_le_bytes()) {
            *to = from;
        }
        self.stored(address, size.bytes());
        Some(())
    }
}
