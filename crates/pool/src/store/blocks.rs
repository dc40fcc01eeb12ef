//! Values that do not fit in a slot: each lies in a block of its own, which is written before a
//! slot refers to it, and never again.

use super::form::Block;
use crate::error::PoolError;
use nearfield_fabric::{Arena, Endpoint, FabricError, NodeId, Verb};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The size of a client's chunks of a node, in bytes.
const CHUNK_BYTES: u64 = 1 << 18;
/// Blocks that are read by one post, at most.
const READS_MAX: usize = 64;
/// The number of unpublished blocks that a client keeps.
const SPARE_MAX: usize = 64;

/// A client's blocks.
#[derive(Debug)]
pub(super) struct Blocks {
    arena: Arena,
    /// Written, and not published.
    spare: RefCell<Vec<Block>>,
    /// Bytes of all clients of a store.
    retired: Arc<AtomicU64>,
}

impl Blocks {
    pub fn new(nodes: &[NodeId], retired: Arc<AtomicU64>) -> Blocks {
        Blocks {
            arena: Arena::new(nodes, CHUNK_BYTES),
            spare: RefCell::default(),
            retired,
        }
    }

    /// Writes a value. Two round trips with the change of the slot, which must not begin before.
    pub async fn write(
        &self,
        endpoint: &impl Endpoint,
        value: &[u8],
    ) -> Result<Block, FabricError> {
        let bytes = value.len() as u32;
        let spare = {
            let mut spare = self.spare.borrow_mut();
            let found = spare.iter().position(|block| block.bytes == bytes);
            found.map(|found| spare.swap_remove(found))
        };
        let block = match spare {
            Some(block) => block,
            None => Block {
                address: self.arena.allocate(endpoint, u64::from(bytes)).await?,
                bytes,
            },
        };
        endpoint.write(block.address, value).await?;
        Ok(block)
    }

    /// Reads a value. One round trip.
    pub async fn read(&self, endpoint: &impl Endpoint, block: Block) -> Result<Vec<u8>, PoolError> {
        let mut bytes = vec![0; block.bytes as usize];
        endpoint.read(block.address, &mut bytes).await?;
        Ok(bytes)
    }

    /// Reads values. One round trip for every 64.
    pub async fn read_all(
        &self,
        endpoint: &impl Endpoint,
        blocks: &[Block],
    ) -> Result<Vec<Vec<u8>>, PoolError> {
        let buffers = blocks.iter().map(|block| vec![0; block.bytes as usize]);
        let mut buffers: Vec<Vec<u8>> = buffers.collect();
        for (blocks, buffers) in blocks.chunks(READS_MAX).zip(buffers.chunks_mut(READS_MAX)) {
            let reads = blocks.iter().zip(buffers).map(|(block, into)| Verb::Read {
                from: block.address,
                into,
            });
            endpoint.post(&mut reads.collect::<Vec<_>>()).await?;
        }
        Ok(buffers)
    }

    /// Takes back an unpublished block.
    pub fn take_back(&self, block: Block) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE_MAX {
            spare.push(block);
        } else {
            self.retired.fetch_add(u64::from(block.bytes), Relaxed);
        }
    }

    /// Takes a block that no slot leads to any more, but that others may be about to read. All that
    /// values leave behind comes here; it stays allocated, and is counted.
    pub fn retire(&self, block: Block) {
        self.retired.fetch_add(u64::from(block.bytes), Relaxed);
    }
}
