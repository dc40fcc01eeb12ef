//! The memory of the nodes of structures while a caller changes them.

use crate::traversal::{AccessError, TraversalMemory};
use std::collections::HashMap;
use std::ops::Range;

/// The reason why a structure cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeapError {
    /// A word cannot be accessed.
    #[error("the word at {address:#x} cannot be accessed: {reason}")]
    Access {
        /// The address of the word.
        address: u64,
        /// The reason.
        reason: AccessError,
    },
    /// No free memory is left.
    #[error("the heap has no free space for {bytes} bytes")]
    Full {
        /// Number of bytes requested.
        bytes: u64,
    },
}

/// Access of a caller to node memory: words and allocations. A caller holds the locks of a
/// structure while it changes it: locks are not offloaded.
pub trait NodeHeap {
    /// Reads the word at an address.
    ///
    /// # Errors
    /// `ProgramAccess`.
    fn read(&self, address: u64) -> Result<u64, HeapError>;

    /// Changes the word at an address.
    ///
    /// # Errors
    /// `ProgramAccess`.
    fn write(&mut self, address: u64, word: u64) -> Result<(), HeapError>;

    /// Allocates memory, all zero, in which no load of a node is split.
    ///
    /// # Errors
    /// `Full`, `ProgramAccess`.
    fn allocate(&mut self, bytes: u64) -> Result<u64, HeapError>;

    /// Frees memory.
    fn free(&mut self, address: u64, bytes: u64);
}

/// Memory divided into allocations, which are taken from its parts in turn. Parts on several memory
/// nodes spread a structure over them.
#[derive(Debug)]
pub struct NodeArena<M> {
    memory: M,
    parts: Vec<Range<u64>>,
    next: usize,
    freed: HashMap<u64, Vec<u64>>,
}

impl<M: TraversalMemory> NodeArena<M> {
    /// Creates an arena of free addresses.
    pub fn new(memory: M, parts: Vec<Range<u64>>) -> NodeArena<M> {
        debug_assert!(parts.iter().all(|part| part.start <= part.end));
        NodeArena {
            memory,
            parts,
            next: 0,
            freed: HashMap::new(),
        }
    }

    /// Returns the memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    fn take(&mut self, bytes: u64) -> Option<u64> {
        if let Some(freed) = self.freed.get_mut(&bytes).and_then(Vec::pop) {
            return Some(freed);
        }
        // The parts take turns, so that structures are spread over the nodes; a full one is
        // skipped.
        for _ in 0..self.parts.len() {
            let count = self.parts.len();
            let part = self.parts.get_mut(self.next)?;
            self.next = (self.next + 1) % count;
            if part.end - part.start >= bytes {
                let address = part.start;
                part.start += bytes;
                return Some(address);
            }
        }
        None
    }
}

impl<M: TraversalMemory> NodeHeap for NodeArena<M> {
    fn read(&self, address: u64) -> Result<u64, HeapError> {
        let mut word = [0; 8];
        let loaded = self.memory.load(address, &mut word);
        loaded.map_err(|reason| HeapError::Access { address, reason })?;
        Ok(u64::from_le_bytes(word))
    }

    fn write(&mut self, address: u64, word: u64) -> Result<(), HeapError> {
        let stored = self.memory.store(address, &word.to_le_bytes());
        stored.map_err(|reason| HeapError::Access { address, reason })
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, HeapError> {
        let bytes = bytes.next_multiple_of(8);
        let address = self.take(bytes).ok_or(HeapError::Full { bytes })?;
        // Freed memory holds an old node.
        for offset in (0..bytes).step_by(8) {
            self.write(address + offset, 0)?;
        }
        Ok(address)
    }

    fn free(&mut self, address: u64, bytes: u64) {
        debug_assert!(address != 0, "null is no allocation");
        let bytes = bytes.next_multiple_of(8);
        self.freed.entry(bytes).or_default().push(address);
    }
}
