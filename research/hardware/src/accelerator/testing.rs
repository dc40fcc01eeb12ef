//! Traversals with artificial iterations, for the tests of models.

use super::{HardwareTraversal, Iteration, MemorySpan, Verdict};

/// A traversal that fetches the same number of bytes and computes equally long in each iteration.
#[derive(Clone, Debug)]
pub(super) struct Loop {
    pub address: u64,
    /// The distance between nodes.
    pub stride: u64,
    pub bytes: u32,
    pub instructions: u32,
    pub left: u32,
    /// Number of bytes that each iteration stores at its address.
    pub stored: u32,
    pub stores_made: u32,
    pub is_loaded: bool,
}

impl Loop {
    pub(super) fn new(address: u64, iterations: u32) -> Loop {
        Loop {
            address,
            stride: 256,
            bytes: 256,
            instructions: 8,
            left: iterations,
            stored: 0,
            stores_made: 0,
            is_loaded: false,
        }
    }
}

impl HardwareTraversal for Loop {
    fn fetch(&self) -> MemorySpan {
        MemorySpan {
            address: self.address,
            bytes: self.bytes,
        }
    }

    fn load(&mut self) {
        self.is_loaded = true;
    }

    fn execute(&mut self) -> Iteration {
        // Each fetch is loaded once, before its logic.
        assert!(std::mem::take(&mut self.is_loaded));
        let stores = match self.stored {
            0 => Vec::new(),
            bytes => vec![MemorySpan {
                address: self.address,
                bytes,
            }],
        };
        self.left -= 1;
        self.address += self.stride;
        Iteration {
            instructions: self.instructions,
            stores,
            verdict: match self.left {
                0 => Verdict::Return,
                _ => Verdict::Next,
            },
        }
    }

    fn store(&mut self) {
        self.stores_made += 1;
    }

    fn request_bytes(&self) -> u32 {
        128
    }

    fn reply_bytes(&self) -> u32 {
        128
    }
}
