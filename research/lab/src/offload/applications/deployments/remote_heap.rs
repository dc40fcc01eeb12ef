//! Changes of a structure by a caller far from its memory: each node is read once, and written once
//! if it has changed. Locks are not offloaded, so the caller holds the structure's lock.

use super::super::deployment::{Deployment, DeploymentError, ObjectAccess};
use nearfield_offload::structures::{BPlusTree, HeapError, NodeHeap};
use nearfield_offload::traversal::AccessError;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Memory that callers allocate from, zeroed, at each memory node in turn.
#[derive(Debug)]
pub(in super::super) struct Reserve(Mutex<VecDeque<Range<u64>>>);

impl Reserve {
    pub(in super::super) fn new(parts: &[Range<u64>]) -> Reserve {
        Reserve(Mutex::new(parts.iter().cloned().collect()))
    }

    fn allocate(&self, bytes: u64) -> Result<u64, HeapError> {
        let full = HeapError::Full { bytes };
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut part = parts.pop_front().ok_or(full)?;
        let address = part.start;
        if part.end - address < bytes {
            // All parts have the same length, and are used evenly, so the others are full, too.
            return Err(full);
        }
        part.start += bytes;
        parts.push_back(part);
        Ok(address)
    }
}

/// Bytes of a transfer: a node of a tree.
const BLOCK: u64 = 256;

struct RemoteHeapBlock {
    bytes: [u8; BLOCK as usize],
    is_changed: bool,
}

/// A cache of nodes that were read, and of changes that are not written yet.
struct RemoteHeapCache<'d, D: ?Sized> {
    deployment: RefCell<&'d mut D>,
    blocks: RefCell<BTreeMap<u64, RemoteHeapBlock>>,
    reserve: &'d Reserve,
    failure: RefCell<Option<DeploymentError>>,
}

/// Inserts an entry, by reads and writes.
pub(super) fn insert<D: Deployment + ?Sized>(
    deployment: &mut D,
    reserve: &Reserve,
    tree: &mut BPlusTree,
    (key, value): (u64, u64),
) -> Result<(), DeploymentError> {
    let mut cache = RemoteHeapCache {
        deployment: deployment.into(),
        blocks: RefCell::default(),
        reserve,
        failure: RefCell::default(),
    };
    let inserted = tree.insert(&mut cache, key, value);
    // The tree only knows that a node was not read; this is the cause.
    if let Some(failure) = cache.failure.take() {
        return Err(failure);
    }
    inserted?;
    let blocks = cache.blocks.into_inner();
    let changed = blocks.iter().filter(|(_, block)| block.is_changed);
    // The caller holds the tree's lock, so no reader sees only some of these writes.
    for (&address, block) in changed {
        deployment.access(address, ObjectAccess::Write(&block.bytes))?;
    }
    Ok(())
}

impl<D: Deployment + ?Sized> RemoteHeapCache<'_, D> {
    fn with<R>(
        &self,
        address: u64,
        act: impl FnOnce(&mut RemoteHeapBlock, usize) -> R,
    ) -> Result<R, HeapError> {
        debug_assert!(address.is_multiple_of(8), "a word is within one block");
        let at = address - address % BLOCK;
        let mut blocks = self.blocks.borrow_mut();
        let block = match blocks.entry(at) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let mut block = RemoteHeapBlock {
                    bytes: [0; BLOCK as usize],
                    is_changed: false,
                };
                let then = ObjectAccess::Read(&mut block.bytes);
                if let Err(failure) = self.deployment.borrow_mut().access(at, then) {
                    self.failure.replace(Some(failure));
                    let reason = AccessError::Absent;
                    return Err(HeapError::Access { address, reason });
                }
                entry.insert(block)
            }
        };
        Ok(act(block, (address - at) as usize))
    }
}

impl<D: Deployment + ?Sized> NodeHeap for RemoteHeapCache<'_, D> {
    fn read(&self, address: u64) -> Result<u64, HeapError> {
        self.with(address, |block, at| {
            let bytes = block.bytes.get(at..at + 8);
            bytes
                .and_then(|bytes| bytes.try_into().ok())
                .map_or(0, u64::from_le_bytes)
        })
    }

    fn write(&mut self, address: u64, word: u64) -> Result<(), HeapError> {
        self.with(address, |block, at| {
            // An equal word leaves the block clean, which saves its write.
            if let Some(bytes) = block.bytes.get_mut(at..at + 8)
                && *bytes != word.to_le_bytes()
            {
                bytes.copy_from_slice(&word.to_le_bytes());
                block.is_changed = true;
            }
        })
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, HeapError> {
        let bytes = bytes.next_multiple_of(BLOCK);
        let address = self.reserve.allocate(bytes)?;
        for at in (address..address + bytes).step_by(BLOCK as usize) {
            // New memory is zero, so it need not be read.
            let block = RemoteHeapBlock {
                bytes: [0; BLOCK as usize],
                is_changed: true,
            };
            self.blocks.borrow_mut().insert(at, block);
        }
        Ok(address)
    }

    fn free(&mut self, _: u64, _: u64) {}
}
