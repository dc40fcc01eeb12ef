//! A simulated memory node.

use crate::address::RESERVED_BYTES;
use crate::chunks::Chunks;
use nearfield_hardware::network::{Parameters, Port};

#[derive(Debug)]
pub struct Node {
    pub memory: Vec<u8>,
    pub port: Port,
    pub chunks: Chunks,
    /// Whether it answers.
    pub up: bool,
}

impl Node {
    pub fn new(bytes: usize, network: Parameters) -> Node {
        Node {
            // The system gives out pages as they are written.
            memory: vec![0; bytes],
            port: Port::new(network),
            chunks: Chunks::new(bytes as u64, RESERVED_BYTES),
            up: true,
        }
    }

    /// The bytes at an offset; the verb was checked.
    pub fn bytes(&mut self, offset: u64, length: usize) -> &mut [u8] {
        let offset = offset as usize;
        &mut self.memory[offset..offset + length]
    }

    pub fn word(&self, offset: u64) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.memory[offset as usize..offset as usize + 8]);
        u64::from_le_bytes(word)
    }

    pub fn set_word(&mut self, offset: u64, word: u64) {
        self.bytes(offset, 8).copy_from_slice(&word.to_le_bytes());
    }
}
