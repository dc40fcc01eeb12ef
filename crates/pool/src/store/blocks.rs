//! Values that do not fit in a slot: each has a block of its own, which is written before a slot
//! refers to it, and never again while one does. So have [long keys](super::long_keys).
//!
//! The memory of a replaced block is reused when no operation can still read it, by separate
//! [`epochs`](nearfield_fabric::recovery::epochs): an operation enters an epoch before it reads a
//! slot, and trusts a block that it has read only if its guard is valid afterwards. No cache holds
//! addresses of blocks, so epochs may advance often.

use super::form::StoreValueBlock;
use crate::error::PoolError;
use nearfield_fabric::recovery::epochs::{
    self, ClosedNodes, Epochs, RemoteEpochGuard, TABLE_BYTES,
};
use nearfield_fabric::{Endpoint, FabricArena, FabricError, FabricVerb, GlobalAddress, NodeId};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

/// The size of a client's chunks of a node, in bytes.
const CHUNK_BYTES: u64 = 1 << 18;
/// Maximum number of blocks that are read by one post.
const READS_MAX: usize = 64;
/// Number of bytes up to which several blocks are read by one post. Buffers are allocated before a
/// node refuses to read a block of a damaged length.
const READ_BYTES_MAX: u64 = 1 << 26;
/// Maximum number of unpublished blocks that a client keeps.
const SPARE_MAX: usize = 64;
/// Number of bytes up to which a value's memory is in whole lines; longer ones have eighths of a
/// power of two.
const EXACT_BYTES: u64 = 512;
/// Time after which a silent process counts as dead, and no longer delays the reclamation of
/// memory.
pub(super) const LEASE: Duration = Duration::from_millis(1600);
/// Number of retired bytes from which a process makes blocks become free. It keeps as many for its
/// own values.
const RETIRED_BYTES: u64 = 1 << 20;
/// The number of retired blocks of a process that others find if it dies.
const RING_ENTRIES: usize = 4096;
/// Number of leases for which an operation waits for the memory of retired blocks if no node has
/// memory.
const LEASES_OF_WAITING: u32 = 2;
/// Duration of each wait.
const WAIT: Duration = Duration::from_millis(1);
/// The number of blocks that a process names in its ring by one post.
const TOGETHER: usize = 16;

/// The memory of blocks, which all clients of a process share.
#[derive(Debug)]
pub(super) struct BlockMemory(Epochs);

impl BlockMemory {
    /// Creates the table of epochs, and stores its address in a word.
    pub async fn create(endpoint: &impl Endpoint, word: GlobalAddress) -> Result<(), PoolError> {
        let table = endpoint.allocate(word.node(), TABLE_BYTES).await?;
        endpoint.write(table, &[0; TABLE_BYTES as usize]).await?;
        let table = table.to_bits().to_le_bytes();
        Ok(endpoint.write(word, &table).await?)
    }

    /// Takes part in the epochs with the table whose address is in a word.
    pub async fn open(
        endpoint: &impl Endpoint,
        word: GlobalAddress,
    ) -> Result<BlockMemory, PoolError> {
        let mut table = [0; 8];
        endpoint.read(word, &mut table).await?;
        let table = GlobalAddress::from_bits(u64::from_le_bytes(table));
        let options = epochs::EpochOptions {
            lease: LEASE,
            retired_bytes: RETIRED_BYTES,
            ring_entries: RING_ENTRIES,
            together: TOGETHER,
            is_eager: true,
        };
        Ok(BlockMemory(
            Epochs::register(endpoint, table, options).await?,
        ))
    }

    /// Returns the bytes that this process has retired, and that are not free yet.
    pub fn retired_bytes(&self) -> u64 {
        self.0.retired_bytes()
    }

    /// Begins an operation: while its guard lives and is valid, the blocks of slots that it reads
    /// stay unchanged.
    pub async fn enter(&self, endpoint: &impl Endpoint) -> Result<RemoteEpochGuard<'_>, PoolError> {
        self.0.tend(endpoint).await?;
        Ok(self.0.enter())
    }
}

/// A client's blocks.
#[derive(Debug)]
pub(super) struct ValueBlockAllocator {
    arena: FabricArena,
    /// Blocks that were written, but not published.
    spare: RefCell<Vec<StoreValueBlock>>,
    /// The memory of blocks; `None` for words, which have no blocks.
    memory: Option<Arc<BlockMemory>>,
}

/// A guard of [`BlockMemory`]; words need none.
#[derive(Debug)]
pub(super) struct BlockReadGuard<'m>(Option<RemoteEpochGuard<'m>>);

impl BlockReadGuard<'_> {
    /// Returns true if the blocks that were read can be trusted. Otherwise they may be anything.
    pub async fn is_valid(&self, endpoint: &impl Endpoint) -> Result<bool, PoolError> {
        match &self.0 {
            Some(guard) => Ok(guard.confirm(endpoint).await?),
            None => Ok(true),
        }
    }
}

/// Returns the bytes of memory for a value of this length: the same for similar lengths, so that
/// they can reuse each other's.
fn memory_bytes(bytes: u32) -> u64 {
    let bytes = u64::from(bytes).max(1);
    let step = match bytes {
        0..=EXACT_BYTES => 64,
        // An eighth of the power of two below: at most that much is wasted, and there are eight
        // lengths between two powers.
        _ => bytes.next_power_of_two() / 16,
    };
    let memory = bytes.next_multiple_of(step);
    debug_assert!(memory.is_multiple_of(64), "blocks are whole lines");
    memory
}

/// Returns how many of these blocks, at least one, are read by one post.
fn read_together(blocks: &[StoreValueBlock]) -> usize {
    let mut bytes = 0;
    let fits = |block: &&StoreValueBlock| {
        bytes += u64::from(block.bytes);
        bytes <= READ_BYTES_MAX
    };
    blocks
        .iter()
        .take(READS_MAX)
        .take_while(fits)
        .count()
        .max(1)
}

impl ValueBlockAllocator {
    pub fn new(nodes: &[NodeId], memory: Option<Arc<BlockMemory>>) -> ValueBlockAllocator {
        ValueBlockAllocator {
            arena: FabricArena::new(nodes, CHUNK_BYTES),
            spare: RefCell::default(),
            memory,
        }
    }

    /// Begins an operation, before it reads a slot.
    pub async fn enter(&self, endpoint: &impl Endpoint) -> Result<BlockReadGuard<'_>, PoolError> {
        Ok(BlockReadGuard(match &self.memory {
            Some(memory) => Some(memory.enter(endpoint).await?),
            None => None,
        }))
    }

    /// Writes a value. Two round trips with the change of the slot, which must not begin before.
    pub async fn write(
        &self,
        endpoint: &impl Endpoint,
        value: &[u8],
    ) -> Result<StoreValueBlock, PoolError> {
        let block = self.reserve(endpoint, value.len()).await?;
        self.fill(endpoint, block, value).await
    }

    /// Writes a value to a node, which all clients must know. Does not wait for memory.
    pub async fn write_on(
        &self,
        endpoint: &impl Endpoint,
        node: NodeId,
        value: &[u8],
    ) -> Result<StoreValueBlock, PoolError> {
        let bytes = value.len() as u32;
        let memory = memory_bytes(bytes);
        // A drain would miss the value.
        if self.closed_nodes().contains(node) {
            return Err(PoolError::Closed { node });
        }
        let address = self.arena.allocate_on(endpoint, node, memory).await?;
        endpoint.write(address, value).await?;
        Ok(StoreValueBlock { address, bytes })
    }

    /// Returns true if there may be blocks.
    pub fn is_used(&self) -> bool {
        self.memory.is_some()
    }

    /// Returns an unwritten block for a value of this length.
    pub async fn reserve(
        &self,
        endpoint: &impl Endpoint,
        length: usize,
    ) -> Result<StoreValueBlock, PoolError> {
        let bytes = length as u32;
        let memory = memory_bytes(bytes);
        loop {
            let address = match self.take_spare(memory) {
                Some(address) => address,
                None => self.allocate(endpoint, memory).await?,
            };
            if self.is_usable(endpoint, address, memory).await? {
                return Ok(StoreValueBlock { address, bytes });
            }
        }
    }

    /// Returns true if allocated memory may hold a value. Memory that is reused may be lost with
    /// its node, and is freed if the node is closed.
    async fn is_usable(
        &self,
        endpoint: &impl Endpoint,
        address: GlobalAddress,
        memory: u64,
    ) -> Result<bool, PoolError> {
        let node = address.node();
        if !endpoint.is_reachable(node) {
            return Ok(false);
        }
        if self.closed_nodes().contains(node) {
            match endpoint.free(address, memory).await {
                // The node was drained, and has ended.
                Err(FabricError::NodeLost { .. }) => {}
                freed => freed?,
            }
            return Ok(false);
        }
        Ok(true)
    }

    /// Closes a node, so that processes put no further blocks there, or opens it again.
    pub async fn close_node(
        &self,
        endpoint: &impl Endpoint,
        node: NodeId,
        is_closed: bool,
    ) -> Result<(), PoolError> {
        if let Some(memory) = &self.memory {
            memory.0.close_node(endpoint, node, is_closed).await?;
        }
        Ok(())
    }

    fn closed_nodes(&self) -> ClosedNodes {
        let memory = self.memory.as_ref();
        let closed = memory.map(|memory| memory.0.closed_nodes());
        closed.unwrap_or_default()
    }

    /// Writes a value to its reserved block, and returns the block: another one if that is lost.
    pub async fn fill(
        &self,
        endpoint: &impl Endpoint,
        mut block: StoreValueBlock,
        value: &[u8],
    ) -> Result<StoreValueBlock, PoolError> {
        loop {
            match endpoint.write(block.address, value).await {
                // The block is lost with its node, and another node has room for the value.
                Err(FabricError::NodeLost { node }) if !endpoint.is_reachable(node) => {
                    block = self.reserve(endpoint, value.len()).await?;
                }
                written => {
                    written?;
                    return Ok(block);
                }
            }
        }
    }

    /// Takes a spare block with memory of this length. It was never published, so no other client
    /// reads it.
    fn take_spare(&self, memory: u64) -> Option<GlobalAddress> {
        let mut spare = self.spare.borrow_mut();
        let fits = |block: &StoreValueBlock| memory_bytes(block.bytes) == memory;
        let found = spare.iter().position(fits)?;
        Some(spare.swap_remove(found).address)
    }

    /// Returns an unwritten block for a value of this length, as
    /// [`reserve`](ValueBlockAllocator::reserve) does. Does not wait: returns `None` if the memory
    /// of retired blocks may become free, and no other is.
    pub async fn reserve_now(
        &self,
        endpoint: &impl Endpoint,
        length: usize,
    ) -> Result<Option<StoreValueBlock>, PoolError> {
        let bytes = length as u32;
        let memory = memory_bytes(bytes);
        loop {
            let address = match self.take_spare(memory) {
                Some(address) => address,
                None => match self.allocate_now(endpoint, memory).await {
                    Err(PoolError::Fabric(FabricError::OutOfMemory { .. }))
                        if self.has_retired() =>
                    {
                        return Ok(None);
                    }
                    allocated => allocated?,
                },
            };
            if self.is_usable(endpoint, address, memory).await? {
                return Ok(Some(StoreValueBlock { address, bytes }));
            }
        }
    }

    /// Returns a block for a value of another length in the same memory, if that has the same
    /// length.
    pub fn resized(block: StoreValueBlock, length: usize) -> Option<StoreValueBlock> {
        let bytes = length as u32;
        let is_same = memory_bytes(bytes) == memory_bytes(block.bytes);
        is_same.then_some(StoreValueBlock { bytes, ..block })
    }

    async fn allocate(
        &self,
        endpoint: &impl Endpoint,
        bytes: u64,
    ) -> Result<GlobalAddress, PoolError> {
        // A silent process delays the epochs for a lease, after which it is expelled.
        let until = endpoint.now() + LEASES_OF_WAITING * LEASE;
        loop {
            match self.allocate_now(endpoint, bytes).await {
                Err(PoolError::Fabric(FabricError::OutOfMemory { .. }))
                    if self.has_retired() && endpoint.now() < until =>
                {
                    endpoint.sleep(WAIT).await;
                    // Each entry advances the epochs, if it is time.
                    drop(self.enter(endpoint).await?);
                }
                allocated => return allocated,
            }
        }
    }

    /// Allocates memory that is free already.
    async fn allocate_now(
        &self,
        endpoint: &impl Endpoint,
        bytes: u64,
    ) -> Result<GlobalAddress, PoolError> {
        if let Some(memory) = &self.memory
            && let Some(address) = memory.0.reuse(endpoint, bytes).await?
        {
            return Ok(address);
        }
        self.arena.avoid(self.closed_nodes());
        Ok(self.arena.allocate(endpoint, bytes).await?)
    }

    fn has_retired(&self) -> bool {
        let memory = self.memory.as_ref();
        memory.is_some_and(|memory| memory.retired_bytes() > 0)
    }

    /// Reads a value. One round trip.
    pub async fn read(
        &self,
        endpoint: &impl Endpoint,
        block: StoreValueBlock,
    ) -> Result<Vec<u8>, PoolError> {
        block.check()?;
        let mut bytes = vec![0; block.bytes as usize];
        endpoint.read(block.address, &mut bytes).await?;
        Ok(bytes)
    }

    /// Reads values. One round trip for every 64, or for fewer if they are long.
    pub async fn read_all(
        &self,
        endpoint: &impl Endpoint,
        blocks: &[StoreValueBlock],
    ) -> Result<Vec<Vec<u8>>, PoolError> {
        let mut values = Vec::with_capacity(blocks.len());
        while let Some(rest) = blocks.get(values.len()..).filter(|rest| !rest.is_empty()) {
            let together = read_together(rest);
            let mut buffers = Vec::with_capacity(together);
            for block in &rest[..together] {
                block.check()?;
                buffers.push(vec![0; block.bytes as usize]);
            }
            let reads = rest.iter().zip(&mut buffers);
            let reads = reads.map(|(block, into)| FabricVerb::Read {
                from: block.address,
                into,
            });
            endpoint.post(&mut reads.collect::<Vec<_>>()).await?;
            values.extend(buffers);
        }
        Ok(values)
    }

    /// Takes back an unpublished block.
    pub async fn take_back(
        &self,
        endpoint: &impl Endpoint,
        reading: &BlockReadGuard<'_>,
        block: StoreValueBlock,
    ) -> Result<(), PoolError> {
        let has_room = self.spare.borrow().len() < SPARE_MAX;
        if has_room {
            self.spare.borrow_mut().push(block);
            return Ok(());
        }
        self.retire(endpoint, reading, block).await
    }

    /// Retires a block that no slot refers to any more, but that others may be about to read. The
    /// change of its slot must be acknowledged. No round trip, or one for each 16 blocks.
    pub async fn retire(
        &self,
        endpoint: &impl Endpoint,
        reading: &BlockReadGuard<'_>,
        block: StoreValueBlock,
    ) -> Result<(), PoolError> {
        let (Some(memory), Some(guard)) = (&self.memory, &reading.0) else {
            return Ok(());
        };
        if block.check().is_err() {
            // No client has allocated it.
            return Ok(());
        }
        // The slot was changed under a guard of the tree. If the guard of blocks was lost
        // meanwhile, its epoch may have ended long ago, while others still read the block in
        // theirs.
        let later;
        let guard = if guard.confirm(endpoint).await? {
            guard
        } else {
            later = memory.enter(endpoint).await?;
            &later
        };
        let bytes = memory_bytes(block.bytes);
        let retired = memory.0.retire(endpoint, guard, block.address, bytes);
        Ok(retired.await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scan of damaged slots would otherwise allocate gigabytes for each before it reads one.
    #[test]
    fn few_long_blocks_are_read_together() {
        let block = |bytes| StoreValueBlock {
            address: GlobalAddress::new(NodeId(0), 4096),
            bytes,
        };
        let together = |lengths: &[u32]| {
            let blocks: Vec<_> = lengths.iter().map(|&bytes| block(bytes)).collect();
            read_together(&blocks)
        };
        assert_eq!(together(&[1000; 100]), 64);
        assert_eq!(together(&[1000; 10]), 10);
        assert_eq!(together(&[1 << 24; 10]), 4);
        assert_eq!(together(&[u32::MAX; 10]), 1);
        assert_eq!(together(&[7, u32::MAX, 7]), 1);
        assert!(block(512 << 20).check().is_ok() && block(0).check().is_ok());
        assert!(block(u32::MAX).check().is_err());
        for offset in [0, 4097] {
            let address = GlobalAddress::new(NodeId(0), offset);
            let error = StoreValueBlock { address, bytes: 7 }.check();
            assert_eq!(error, Err(PoolError::Damaged { at: address }));
        }
    }

    #[test]
    fn lengths_waste_little_and_have_few_classes() {
        let mut classes = std::collections::BTreeSet::new();
        for bytes in 1..200_000 {
            let memory = memory_bytes(bytes);
            assert!(memory >= u64::from(bytes) && memory.is_multiple_of(64));
            let waste = memory - u64::from(bytes);
            assert!(
                waste < 64 || waste * 8 <= u64::from(bytes),
                "{bytes}: {memory}"
            );
            classes.insert(memory);
        }
        assert!(classes.len() < 90, "{}", classes.len());
    }
}
