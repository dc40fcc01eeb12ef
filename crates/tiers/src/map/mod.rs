//! A map of byte strings whose values move between tiers.
//!
//! The map has an ordered index of *records*: a value, or its place in a cold tier. All keys lie in
//! the index. Operations take the same steps as on the index alone, and then read what lies
//! elsewhere:
//!
//! - A thread is *pinned* while it reads a record, as readers of the index are. A place that is
//!   given up is released when all have left who were pinned then. Who waits for a disk
//!   [holds](crate::cold::Held) the place instead, so that nobody else waits for it.
//! - An operation that compares reads the value, and puts the new record in place of the one that
//!   it was read by. So does a move (see [`claim`](crate::claim)).
//! - A batch that compares has the values that it compares with in memory before it begins, and
//!   nothing moves until it ends (`batch.rs`).
//!
//! A thread of the map keeps the tiers (see [`keep`](crate::keep)). It ends when the map is
//! dropped.

mod batch;
mod fetch;
mod inner;
mod point;
mod record;
mod values;

use crate::error::OpenError;
use crate::tiers::Tiers;
use inner::Inner;
use nearfield_core::{Batch, Bytes, Error, OrderedIndex};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use values::Forced;

/// A map of byte strings over an index `I`. See the [module](self).
#[derive(Debug)]
pub struct TieredIndex<I: OrderedIndex<Bytes> + 'static> {
    inner: Arc<Inner<I>>,
    keeper: Option<JoinHandle<()>>,
}

/// What a tier of a map holds, and what it has served since the map was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierUse {
    /// Its kind: `memory`, `numa`, `compressed` or `file`.
    pub kind: &'static str,
    /// The most bytes that it may take.
    pub capacity_bytes: u64,
    /// The bytes that it takes now. Those of the memory tier are of the index, with all keys.
    pub used_bytes: u64,
    /// The values that lie in it.
    pub values: u64,
    /// Values that have moved into it.
    pub moved_in: u64,
    /// Values that have moved out of it.
    pub moved_out: u64,
    /// Reads of values that it could not answer.
    pub unreadable: u64,
}

impl<I: OrderedIndex<Bytes> + std::fmt::Debug + 'static> TieredIndex<I> {
    /// A map over an empty index, which takes as much memory as `used_bytes` says.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn new(
        tiers: Tiers,
        entries: I,
        used_bytes: fn(&I) -> usize,
    ) -> Result<TieredIndex<I>, OpenError> {
        let inner = Arc::new(Inner::new(tiers, entries, used_bytes));
        let kept = Arc::clone(&inner);
        let thread = std::thread::Builder::new().name("nearfield-mover".to_owned());
        let keeper = thread
            .spawn(move || kept.keep())
            .map_err(OpenError::Thread)?;
        Ok(TieredIndex {
            inner,
            keeper: Some(keeper),
        })
    }

    /// The tier in which the value of a key lies; `None` if the key is absent.
    ///
    /// # Errors
    /// Those of the index.
    pub fn tier_of(&self, key: &[u8]) -> Result<Option<usize>, Error> {
        self.inner.tier_of(key)
    }

    /// Moves the value of a key to a tier now, also one that is too short to move by itself, and
    /// answers whether it has: it may be absent or lie there already, the tier may not take it, or
    /// it was changed meanwhile. The map may move it again.
    ///
    /// # Errors
    /// The value cannot be read, or there is no memory for it.
    pub fn move_to(&self, key: &[u8], tier: usize) -> Result<bool, Error> {
        let forced = self.inner.force(key, tier)?;
        Ok(forced == Forced::Moved)
    }

    /// What each tier holds, the fastest first.
    pub fn tiers(&self) -> Vec<TierUse> {
        self.inner.tiers()
    }
}

impl<I: OrderedIndex<Bytes> + 'static> Drop for TieredIndex<I> {
    fn drop(&mut self) {
        self.inner.stopping.store(true, Ordering::Release);
        if let Some(keeper) = self.keeper.take() {
            // It panics with no lock that anybody takes from now on.
            let _ = keeper.join();
        }
    }
}

impl<I: OrderedIndex<Bytes> + std::fmt::Debug + 'static> OrderedIndex<Bytes> for TieredIndex<I> {
    fn execute(&self, batch: &mut Batch<Bytes>) -> Result<(), Error> {
        self.inner.execute(batch)
    }

    fn len(&self) -> usize {
        self.inner.entries.len()
    }

    /// Checks the index, and that each tier accounts for its values to the byte.
    fn check_invariants(&self) {
        self.inner.check_invariants();
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.inner.get(key)
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.inner.insert(key, value)
    }

    fn update(
        &self,
        key: &[u8],
        previous: Option<&[u8]>,
        value: &[u8],
    ) -> Result<(bool, Option<Vec<u8>>), Error> {
        self.inner.update(key, previous, value)
    }

    fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.inner.remove(key)
    }

    fn remove_if(&self, key: &[u8], expected: &[u8]) -> Result<(bool, Option<Vec<u8>>), Error> {
        self.inner.remove_if(key, expected)
    }
}
