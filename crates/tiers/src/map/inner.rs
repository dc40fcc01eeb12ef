//! The parts of a map: its index, its tiers and their keeper; and how places are read and released.

use super::record::{self, TieredRecord};
use super::values::Hand;
use crate::claim::{ClaimStore, ClaimTarget, WatchedSlots};
use crate::cold::{ColdPlaceGuard, ColdTiers};
use crate::keep::{TierKeeper, Warmth};
use crate::place::ColdPlace;
use crate::tiers::Tiers;
use crate::usage::ReadError;
use crossbeam_epoch::{Guard, pin};
use nearfield_core::{ByteStrings, OperationError, OrderedIndex};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// Number of bytes that an entry uses besides its key and value, in an index whose blocks are half
/// empty. *Assumed*: less would let the memory grow past its capacity between two counts.
const ENTRY_OVERHEAD_BYTES: u64 = 64;

/// The parts of a map. See the [module](super).
#[derive(Debug)]
pub(super) struct TieredIndexCore<I> {
    pub(super) entries: I,
    used_bytes: fn(&I) -> usize,
    pub(super) cold: Arc<ColdTiers>,
    pub(super) warmth: Warmth,
    pub(super) keeper: TierKeeper<Hand>,
    /// Number of uses that were noted, each counted as the uses that it stands for.
    pub(super) uses: AtomicU64,
    /// Number of bytes that may have been written since the memory was counted.
    pub(super) written: AtomicU64,
    /// The lock that is shared by batches that compare with values in memory, and exclusive while a
    /// move ends.
    pub(super) still: RwLock<()>,
    /// Number of places that were given up and wait until no thread uses them.
    retired: Arc<AtomicUsize>,
    /// Rings that no thread uses now.
    pub(super) rings: Mutex<Vec<crate::files::TierReadRing>>,
    nothing: WatchedSlots<Nowhere>,
    pub(super) stopping: AtomicBool,
}

/// The slot of this store: values are in the index or in cold tiers, never in slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Nowhere {}

impl<I: OrderedIndex<ByteStrings>> TieredIndexCore<I> {
    pub(super) fn new(tiers: Tiers, entries: I, used_bytes: fn(&I) -> usize) -> TieredIndexCore<I> {
        TieredIndexCore {
            entries,
            used_bytes,
            warmth: Warmth::default(),
            keeper: TierKeeper::new(Some(&tiers)),
            cold: Arc::new(ColdTiers::new(Some(Arc::new(tiers)))),
            uses: AtomicU64::new(0),
            written: AtomicU64::new(0),
            still: RwLock::default(),
            retired: Arc::default(),
            rings: Mutex::default(),
            nothing: WatchedSlots::default(),
            stopping: AtomicBool::new(false),
        }
    }

    pub(super) fn index_bytes(&self) -> u64 {
        (self.used_bytes)(&self.entries) as u64
    }

    /// Notes a use of a key with the record `stored`.
    #[inline]
    pub(super) fn note(&self, key: &[u8], stored: Option<&[u8]>) {
        let uses = self.warmth.note(xxh3_64(key));
        if uses > 0 {
            self.uses.fetch_add(u64::from(uses), Ordering::Relaxed);
        }
        if let Some(TieredRecord::There(place)) = stored.map(TieredRecord::parse) {
            self.cold.note_use(0, key, place);
        }
    }

    /// Makes room in memory for entries of `bytes` bytes.
    ///
    /// # Errors
    /// No tier accepts anything.
    pub(super) fn make_room(&self, entries: usize, bytes: usize) -> Result<(), OperationError>
    where
        I: std::fmt::Debug,
    {
        let bytes = 2 * bytes as u64 + entries as u64 * ENTRY_OVERHEAD_BYTES;
        let written = self.written.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let (used, limit) = (self.keeper.memory_bytes(), self.keeper.memory_bytes_max());
        if used + written <= limit || self.keeper.relieve(&self) {
            return Ok(());
        }
        Err(OperationError::OutOfMemory {
            what: format!("all tiers are full, and the memory tier has {limit} bytes"),
        })
    }

    /// Returns the value of a record that was read by a pinned thread.
    ///
    /// # Errors
    /// The value cannot be read.
    #[inline]
    pub(super) fn load(
        &self,
        guard: Guard,
        key: &[u8],
        stored: Vec<u8>,
    ) -> Result<Vec<u8>, OperationError> {
        let place = match record::take(stored) {
            Ok(value) => return Ok(value),
            Err(place) => place,
        };
        if !self.cold.waits(place) {
            // Read while pinned, which is cheaper than a hold and takes only microseconds.
            return self.read(key, place);
        }
        // A thread that stayed pinned while it waits for a disk would delay all other releases.
        let held = ColdPlaceGuard::new(&self.cold, place);
        drop(guard);
        self.read(key, held.place())
    }

    /// Reads a place. The caller prevents its release meanwhile.
    pub(super) fn read(&self, key: &[u8], place: ColdPlace) -> Result<Vec<u8>, OperationError> {
        let mut value = Vec::new();
        let read = self.cold.read(place, &mut value);
        read.map(|()| value)
            .map_err(|error| unreadable(key, &error))
    }

    /// Returns the value of a record that this thread replaced, and gives its place up.
    ///
    /// # Errors
    /// The value cannot be read. The place is given up nevertheless.
    #[inline]
    pub(super) fn take(&self, key: &[u8], replaced: Vec<u8>) -> Result<Vec<u8>, OperationError> {
        let place = match record::take(replaced) {
            Ok(value) => return Ok(value),
            Err(place) => place,
        };
        // Only this thread gives the place up, so it needs no hold.
        let value = self.read(key, place);
        self.give_up(vec![place]);
        value
    }

    /// Releases places once no thread can use them that found them in the index.
    pub(super) fn give_up(&self, places: Vec<ColdPlace>) {
        if places.is_empty() {
            return;
        }
        let count = places.len();
        self.retired.fetch_add(count, Ordering::Relaxed);
        // The epoch's garbage may outlive the map, and must not keep its files open.
        let (cold, retired) = (Arc::downgrade(&self.cold), Arc::clone(&self.retired));
        let guard = pin();
        guard.defer(move || {
            if let Some(cold) = cold.upgrade() {
                places.iter().for_each(|&place| cold.release(place));
            }
            retired.fetch_sub(count, Ordering::Relaxed);
        });
        // Otherwise the release could wait in this thread's own list until that is full.
        guard.flush();
    }

    /// Returns the number of places that wait to be released.
    pub(super) fn retired(&self) -> usize {
        self.retired.load(Ordering::Relaxed)
    }
}

/// Creates the error of a key whose value cannot be read.
pub(super) fn unreadable(key: &[u8], error: &ReadError) -> OperationError {
    OperationError::Unreadable {
        key: OperationError::shorten(key),
        what: error.to_string(),
    }
}

/// The store of moves. The shared phase of a thread is the time while it is pinned.
impl<I: OrderedIndex<ByteStrings>> ClaimStore for TieredIndexCore<I> {
    type Slot = Nowhere;
    type Place = ColdPlace;

    fn watched(&self) -> &WatchedSlots<Nowhere> {
        &self.nothing
    }

    fn hold(&self, place: ColdPlace) {
        self.cold.hold(place);
    }

    fn release_hold(&self, place: ColdPlace) {
        self.cold.release_hold(place);
    }

    fn retire(&self, outside: ClaimTarget<Nowhere, ColdPlace>) {
        match outside {
            ClaimTarget::Slot(slot) => match slot {},
            ClaimTarget::Place(place) => self.give_up(vec![place]),
        }
    }
}
