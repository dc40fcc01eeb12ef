//! A map of byte strings whose values move between tiers.
//!
//! The map has an ordered index of *records*: a value, or its place in a cold tier. All keys are in
//! the index. Operations take the same steps as on the index alone, and then read the values
//! outside of it:
//!
//! - A thread is *pinned* while it reads a record, like all readers of the index. A place that is
//!   given up is released when all threads that were pinned then have unpinned. A thread that waits
//!   for a disk [holds](crate::cold::ColdPlaceGuard) the place instead, so that no other release
//!   has to wait for it.
//! - An operation that compares reads the value, and replaces the record only if it is still the
//!   one whose value it read. So does a move (see [`claim`](crate::claim)).
//! - A batch that compares brings the values that it compares with into memory before it begins,
//!   and nothing moves until it ends (`batch.rs`).
//!
//! A thread of the map keeps the tiers (see [`keep`](crate::keep)). It ends when the map is
//! dropped.

mod batch;
mod fetch;
mod inner;
mod point;
mod record;
mod values;

use crate::error::TierOpenError;
use crate::tiers::Tiers;
use inner::TieredIndexCore;
use nearfield_core::{Batch, ByteStrings, OperationError, OrderedIndex};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use values::ForcedMoveOutcome;

/// A map of byte strings over an index `I`. See the [module](self).
#[derive(Debug)]
pub struct TieredIndex<I: OrderedIndex<ByteStrings> + 'static> {
    inner: Arc<TieredIndexCore<I>>,
    keeper: Option<JoinHandle<()>>,
}

/// The usage of a tier of a map, and its traffic since the map was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierUse {
    /// The kind: `memory`, `numa`, `compressed` or `file`.
    pub kind: &'static str,
    /// Number of bytes that it may use.
    pub capacity_bytes: u64,
    /// Number of bytes that it uses now. For the memory tier these are the bytes of the index, with
    /// all keys.
    pub used_bytes: u64,
    /// Number of values in it.
    pub values: u64,
    /// Number of values that moved into it.
    pub moved_in: u64,
    /// Number of values that moved out of it.
    pub moved_out: u64,
    /// Number of reads of values that failed.
    pub unreadable: u64,
}

impl<I: OrderedIndex<ByteStrings> + std::fmt::Debug + 'static> TieredIndex<I> {
    /// Creates a map over an empty index; `used_bytes` returns the bytes of its memory.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn new(
        tiers: Tiers,
        entries: I,
        used_bytes: fn(&I) -> usize,
    ) -> Result<TieredIndex<I>, TierOpenError> {
        let inner = Arc::new(TieredIndexCore::new(tiers, entries, used_bytes));
        let kept = Arc::clone(&inner);
        let thread = std::thread::Builder::new().name("nearfield-mover".to_owned());
        let keeper = thread
            .spawn(move || kept.keep())
            .map_err(TierOpenError::Thread)?;
        Ok(TieredIndex {
            inner,
            keeper: Some(keeper),
        })
    }

    /// Returns the tier that stores the value of a key; `None` if the key is absent.
    ///
    /// # Errors
    /// Those of the index.
    pub fn tier_of(&self, key: &[u8]) -> Result<Option<usize>, OperationError> {
        self.inner.tier_of(key)
    }

    /// Moves the value of a key to a tier now, even one that is too short to move by itself.
    /// Returns false if it did not move: if it is absent or in the tier already, if the tier
    /// refuses it, or if it was changed meanwhile. The map may move it again.
    ///
    /// # Errors
    /// The value cannot be read, or memory for it cannot be allocated.
    pub fn move_to(&self, key: &[u8], tier: usize) -> Result<bool, OperationError> {
        let forced = self.inner.force(key, tier)?;
        Ok(forced == ForcedMoveOutcome::Moved)
    }

    /// Returns the usage and traffic of each tier, from fast to slow.
    pub fn tiers(&self) -> Vec<TierUse> {
        self.inner.tiers()
    }
}

impl<I: OrderedIndex<ByteStrings> + 'static> Drop for TieredIndex<I> {
    fn drop(&mut self) {
        self.inner.stopping.store(true, Ordering::Release);
        if let Some(keeper) = self.keeper.take() {
            // A panic there poisons no lock that another thread takes from now on.
            let _ = keeper.join();
        }
    }
}

impl<I: OrderedIndex<ByteStrings> + std::fmt::Debug + 'static> OrderedIndex<ByteStrings>
    for TieredIndex<I>
{
    fn execute(&self, batch: &mut Batch<ByteStrings>) -> Result<(), OperationError> {
        self.inner.execute(batch)
    }

    fn len(&self) -> usize {
        self.inner.entries.len()
    }

    /// Checks the index, and that each tier accounts for its values to the byte.
    fn check_invariants(&self) {
        self.inner.check_invariants();
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, OperationError> {
        self.inner.get(key)
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, OperationError> {
        self.inner.insert(key, value)
    }

    fn update(
        &self,
        key: &[u8],
        previous: Option<&[u8]>,
        value: &[u8],
    ) -> Result<(bool, Option<Vec<u8>>), OperationError> {
        self.inner.update(key, previous, value)
    }

    fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, OperationError> {
        self.inner.remove(key)
    }

    fn remove_if(
        &self,
        key: &[u8],
        expected: &[u8],
    ) -> Result<(bool, Option<Vec<u8>>), OperationError> {
        self.inner.remove_if(key, expected)
    }
}
