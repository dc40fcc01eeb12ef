//! Compaction: blocks of byte strings move out of sparsely used memory, so that whole huge pages of
//! it can be given back to the system.
//!
//! A thread moves a few blocks whenever it is called. In each round:
//!
//! ```text
//!   rest ──▶ settle ──▶ move ──▶ leave ──▶ free ──▶ rest
//! ```
//!
//! - *Settle*: the memory to empty is chosen, and no block is created there any more. The round
//!   continues when each thread that was writing at that time has finished. All blocks there are
//!   then complete.
//! - *Move*: each block is copied under the lock of the node above it, as if it had grown.
//! - *Leave*: threads leave the old blocks, until none can read them any more.
//! - *Free*: the old blocks are freed by the first thread that encounters them. When all threads
//!   that may be freeing them have finished, the memory is given back.

use crate::counters::Off;
use crate::leaf::{ModifyLeaf, ReadLeaf, copy_block, units_of_block};
use crate::lock::VersionLockGuard;
use crate::memory::rounds::CompactionPhase;
use crate::node::{NodeRefKind, Ref};
use crate::tree::RadixTree;
use crate::writer::PinnedWriter;
use nearfield_core::{ByteStrings, OperationError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The minimum gain: compaction pauses after a round that gives back less than this part (1 in this
/// number) of the memory in use.
const GAIN_PART: usize = 512;

/// The maximum number of searches for a block whose node other threads keep replacing.
const TRIES: usize = 4;

impl RadixTree<ByteStrings> {
    /// Moves up to `blocks` blocks. Returns true if there is more to do, and false also while
    /// another thread moves blocks. The caller must not be pinned.
    pub fn compact(&self, blocks: usize) -> bool {
        let Some(mut round) = self.rounds.try_lock() else {
            return false;
        };
        let Some((pieces, region)) = self.memory.leaf_pieces() else {
            return false;
        };
        round.phase = match std::mem::take(&mut round.phase) {
            CompactionPhase::Rest => {
                if !pieces.is_scattered(region) || round.is_useless(self.leaf_bytes()) {
                    return false;
                }
                round.copied = 0;
                // Blocks that are being created in these spans are linked when all threads have
                // been unpinned.
                CompactionPhase::Settle(pieces.take_sparse(region), Self::after_all_threads())
            }
            CompactionPhase::Settle(spans, settled) if is_set(&settled) => {
                CompactionPhase::Move(spans, 0, 0)
            }
            CompactionPhase::Move(spans, span, unit) => {
                self.move_blocks(spans, (span, unit), blocks, &mut round.copied)
            }
            CompactionPhase::Leave(spans, left) if is_set(&left) => {
                CompactionPhase::Free(spans, Self::after_all_threads())
            }
            CompactionPhase::Free(spans, freed) if is_set(&freed) => {
                // SAFETY: `take_sparse` has chosen the spans. A block of strings is freed after the
                // last thread has left it, including threads that came by a shortcut.
                let given_back = unsafe { self.memory.release_emptied(&spans) };
                // Not the memory that the map takes now: it may grow meanwhile.
                let gained = given_back.saturating_sub(round.copied);
                let used = self.leaf_bytes();
                round.useless_at = (gained < used / GAIN_PART).then_some(used);
                CompactionPhase::Rest
            }
            waiting => {
                crossbeam_epoch::pin().flush();
                waiting
            }
        };
        true
    }

    /// Returns a flag that becomes true when all threads that are now pinned have been unpinned.
    fn after_all_threads() -> Arc<AtomicBool> {
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let guard = crossbeam_epoch::pin();
        guard.defer(move || told.store(true, Ordering::Release));
        guard.flush();
        over
    }

    fn leaf_bytes(&self) -> usize {
        self.memory.bytes().leaf_bytes
    }

    fn move_blocks(
        &self,
        spans: Vec<u32>,
        (mut span, mut unit): (usize, usize),
        blocks: usize,
        copied: &mut usize,
    ) -> CompactionPhase {
        let Some((pieces, _)) = self.memory.leaf_pieces() else {
            return CompactionPhase::Rest;
        };
        let guard = self.writer();
        let mut is_short = false;
        for _ in 0..blocks {
            let next = loop {
                let Some(&index) = spans.get(span).filter(|_| !is_short) else {
                    break None;
                };
                match pieces.next_piece(index, unit) {
                    Some(found) => break Some(found),
                    None => (span, unit) = (span + 1, 0),
                }
            };
            let Some((piece, at)) = next else {
                // The old blocks are retired before the flag is deferred, so that they are freed
                // first.
                drop(guard);
                self.collect();
                return CompactionPhase::Leave(spans, Self::after_all_threads());
            };
            let leaf = Ref::new(NodeRefKind::Leaf, piece);
            // The state of the block has its length even after it was replaced.
            unit = at + units_of_block(&self.memory, leaf);
            // Without memory the rest stays.
            match self.move_block(leaf, &guard) {
                Ok(bytes) => *copied += bytes,
                Err(_) => is_short = true,
            }
        }
        drop(guard);
        self.collect();
        CompactionPhase::Move(spans, span, unit)
    }

    /// Links a copy in place of a block, if the block is in the tree. Returns the copy's bytes.
    fn move_block(
        &self,
        leaf: Ref,
        guard: &PinnedWriter<'_, ByteStrings>,
    ) -> Result<usize, OperationError> {
        for _ in 0..TRIES {
            let Some(key) = ByteStrings::any_key(&self.memory, leaf, guard) else {
                return Ok(0);
            };
            let place = self.descend(key, usize::MAX, &mut Off);
            // The block was replaced meanwhile, and is freed by the thread that did so.
            if place.child != leaf {
                return Ok(0);
            }
            let node = self.memory.inner(place.node);
            let Ok((held, _)) = VersionLockGuard::lock(&node.header().lock) else {
                continue;
            };
            if ByteStrings::child(node, place.symbol) != leaf {
                held.unlock_unchanged();
                continue;
            }
            let latch = ByteStrings::latch(&self.memory, leaf, guard.latching().needed);
            let copy = match copy_block(&self.memory, leaf, guard) {
                Ok(copy) => copy,
                Err(error) => {
                    drop(latch);
                    held.unlock_unchanged();
                    return Err(error);
                }
            };
            self.exchange_leaf(node, place.symbol, leaf, copy, guard);
            return Ok(units_of_block(&self.memory, copy) * ByteStrings::LEAF_UNIT_BYTES);
        }
        Ok(0)
    }
}

fn is_set(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Acquire)
}

#[cfg(test)]
mod tests;
