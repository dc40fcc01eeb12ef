//! A simulated memory node.

use crate::address::{GlobalAddress, NodeId, RESERVED_BYTES};
use crate::chunks::Chunks;
use crate::error::FabricError;
use crate::verb::{FabricVerb, MaskedSwap};
use nearfield_hardware::network::{NetworkParameters, Port};

#[derive(Debug)]
pub struct SimNode {
    pub memory: Vec<u8>,
    pub port: Port,
    pub chunks: Chunks,
    /// True if the node responds.
    pub up: bool,
}

impl SimNode {
    pub fn new(bytes: usize, network: NetworkParameters) -> SimNode {
        SimNode {
            // The system allocates pages when they are written.
            memory: vec![0; bytes],
            port: Port::new(network),
            chunks: Chunks::new(bytes as u64, RESERVED_BYTES),
            up: true,
        }
    }

    /// Returns the bytes at an offset; the verb was checked.
    pub fn bytes(&mut self, offset: u64, length: usize) -> &mut [u8] {
        let offset = offset as usize;
        &mut self.memory[offset..offset + length]
    }

    pub fn word(&self, offset: u64) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.memory[offset as usize..offset as usize + 8]);
        u64::from_le_bytes(word)
    }

    fn set_word(&mut self, offset: u64, word: u64) {
        self.bytes(offset, 8).copy_from_slice(&word.to_le_bytes());
    }

    /// Swaps bits of a word, and returns the old word.
    pub fn swap(&mut self, offset: u64, swap: &MaskedSwap) -> u64 {
        let found = self.word(offset);
        if let Some(word) = swap.apply(found) {
            self.set_word(offset, word);
        }
        found
    }

    /// Adds to a word, and returns the old word.
    pub fn add(&mut self, offset: u64, summand: u64) -> u64 {
        let found = self.word(offset);
        self.set_word(offset, found.wrapping_add(summand));
        found
    }

    /// Executes a verb atomically, and stores the result in it.
    pub fn apply(&mut self, verb: &mut FabricVerb<'_>) {
        match verb {
            FabricVerb::Read { from, into } => {
                into.copy_from_slice(self.bytes(from.offset(), into.len()));
            }
            FabricVerb::Write { to, bytes } => {
                self.bytes(to.offset(), bytes.len()).copy_from_slice(bytes);
            }
            FabricVerb::Swap { at, swap, found } => *found = self.swap(at.offset(), swap),
            FabricVerb::Add { at, summand, found } => *found = self.add(at.offset(), *summand),
        }
    }

    /// Allocates memory of this node, which has the number `node`.
    pub fn allocate(&mut self, node: NodeId, bytes: u64) -> Result<GlobalAddress, FabricError> {
        let offset = self.chunks.allocate(bytes);
        let offset = offset.ok_or(FabricError::OutOfMemory { node, bytes })?;
        Ok(GlobalAddress::new(node, offset))
    }

    /// Allocates these bytes of this node.
    pub fn allocate_at(&mut self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        let node = address.node();
        if self.chunks.allocate_at(address.offset(), bytes) {
            Ok(())
        } else {
            Err(FabricError::OutOfMemory { node, bytes })
        }
    }

    /// Returns the first line from an address on that is allocated, or that is not.
    pub fn find_memory(&self, from: GlobalAddress, is_allocated: bool) -> Option<GlobalAddress> {
        let found = self.chunks.find(from.offset(), is_allocated)?;
        Some(GlobalAddress::new(from.node(), found))
    }

    /// Frees memory of this node.
    pub fn free(&mut self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        if self.chunks.free(address.offset(), bytes) {
            Ok(())
        } else {
            Err(FabricError::NotAllocated { address, bytes })
        }
    }
}
