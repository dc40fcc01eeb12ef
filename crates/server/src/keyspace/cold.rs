//! The part of the keyspace that reads values in cold tiers and gives up their places.
//!
//! A record whose value is stored in a cold tier has the value's [`ColdPlace`] instead of the
//! value. The type of the key and the time at which it expires stay in the record, so that commands
//! which ask only for these read no tier.
//!
//! Reads of strings hold no stripe. A place that is given up is therefore not released at once: a
//! read that found the place in the index must still find its value there. The place is *retired*,
//! like a [slot](super::slots), and released in the next exclusive phase, when no read is in
//! progress.

pub use nearfield_tiers::cold::{ColdPlaceGuard, ColdTiers};
pub use nearfield_tiers::disk::PATIENCE;

use super::freeing::ObjectFreeing;
use super::slots::ObjectSlot;
use super::{Databases, KeyMetadata, KeyView, Keyspace, RecordPayload, ValueRecord};
use crate::error::{CommandError, shown};
use crate::object::{RedisType, StoredObject};
use nearfield_tiers::{AccountedHeap, ColdPlace, ReadError, claim};
use parking_lot::RwLockWriteGuard;
use std::cell::RefCell;

/// The part of a value that a record refers to outside of the index: an object or a long string in
/// a slot, or a value in a cold tier.
pub type Outside = claim::ClaimTarget<ObjectSlot, ColdPlace>;

impl ValueRecord<'_> {
    /// Returns what the record refers to outside of the index.
    #[inline]
    pub fn outside(&self) -> Option<Outside> {
        match self.payload {
            RecordPayload::Inline(_) => None,
            RecordPayload::InSlot(slot) => Some(Outside::Slot(slot)),
            RecordPayload::InTier(place) => Some(Outside::Place(place)),
        }
    }
}

/// A function that enters the exclusive phase for callers that can do without it, such as
/// [`try_exclude`](Keyspace::try_exclude).
pub type Enter = fn(&Keyspace) -> Option<RwLockWriteGuard<'_, Databases>>;

thread_local! {
    /// The buffer into which values of cold tiers are read.
    static READ: RefCell<Vec<u8>> = RefCell::default();
}

/// The capacity in bytes up to which the buffer is kept after a read.
const KEPT_BYTES: usize = 64 << 10;

impl Keyspace {
    /// Gives up what the record of a key referred to.
    #[inline]
    pub fn retire(&self, outside: Option<Outside>) {
        match outside {
            None => {}
            Some(Outside::Slot(slot)) => self.slots.retire(slot),
            Some(Outside::Place(place)) => {
                self.cold_notes.remove(place);
                self.cold.retire(place);
            }
        }
    }

    /// Returns the number of slots and places that were given up and wait to be freed.
    #[inline]
    pub fn retired(&self) -> usize {
        self.slots.retired() + self.cold.retired()
    }

    /// Frees what was given up. The slow part runs when the result is dropped, which is best done
    /// after the exclusive phase.
    pub fn reclaim(&self, exclusive: &mut Databases) -> ReclaimedValues<'_> {
        ReclaimedValues {
            objects: self.slots.reclaim(exclusive),
            freeing: &self.freeing,
            places: self.cold.take_retired(),
            cold: &self.cold,
        }
    }

    /// Frees what was given up, if there is any and the exclusive phase can be [entered](Enter).
    #[inline]
    pub fn reclaim_by(&self, enter: Enter) {
        if self.retired() > 0
            && let Some(mut databases) = enter(self)
        {
            let reclaimed = self.reclaim(&mut databases);
            // Freeing takes long, and no thread can reach these values any more.
            drop(databases);
            drop(reclaimed);
        }
    }

    /// Passes the value of `key`, stored at a place of a cold tier, to `read`.
    ///
    /// # Errors
    /// The value cannot be read. The error names the key.
    pub fn read_place<R>(
        &self,
        key: &[u8],
        place: ColdPlace,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, CommandError> {
        // Taken, not borrowed, because `read` may read another value.
        let mut value = READ.take();
        value.clear();
        let result = match self.cold.read(place, &mut value) {
            Ok(()) => Ok(read(&value)),
            Err(error) => Err(self.unreadable(key, place, &error)),
        };
        // One large value must not take memory in each thread for ever.
        if value.capacity() <= KEPT_BYTES {
            READ.replace(value);
        }
        result
    }

    /// Reads the object of `key`, stored at a place of a cold tier, into `heap`. The place is left
    /// as it is.
    ///
    /// # Errors
    /// The value cannot be read. The error names the key.
    pub fn thaw(
        &self,
        key: &[u8],
        kind: RedisType,
        place: ColdPlace,
        heap: &AccountedHeap,
    ) -> Result<StoredObject, CommandError> {
        let thawed = self.read_place(key, place, |value| StoredObject::thaw(kind, value, heap))?;
        thawed.map_err(|_| self.unreadable(key, place, &ReadError::Damaged))
    }

    #[cold]
    pub(super) fn unreadable(
        &self,
        key: &[u8],
        place: ColdPlace,
        error: &ReadError,
    ) -> CommandError {
        let tiers = self.cold.tiers();
        let tier = tiers.and_then(|tiers| tiers.specifications().get(place.tier()));
        let tier = tier.map_or(String::new(), |tier| format!(" {}", tier.kind));
        let key = shown(key);
        let text = format!("the value of '{key}' in the tier{tier} cannot be read: {error}");
        tracing::error!("{text}");
        CommandError::owned(format!("ERR {text}; a restart reads it from the log"))
    }
}

/// Brings the object of a key from a place of a cold tier into a slot.
pub(super) fn warm<'v>(
    view: &mut impl KeyView<'v>,
    key: &[u8],
    found: &KeyMetadata,
    place: ColdPlace,
) -> Result<ObjectSlot, CommandError> {
    debug_assert_eq!(found.outside, Some(Outside::Place(place)));
    let keyspace = view.keyspace();
    let object = keyspace.thaw(key, found.kind, place, &keyspace.heap)?;
    let bytes = object.heap_bytes();
    // The write of the new record retires the place.
    let slot = view.put_in_slot(key, object, found.expires_at_ms)?;
    keyspace.cold.count_move(place.tier(), 0, bytes);
    Ok(slot)
}

/// The objects and places that were given up and that no thread reads any more.
#[derive(Debug)]
pub struct ReclaimedValues<'k> {
    objects: Vec<StoredObject>,
    freeing: &'k ObjectFreeing,
    places: Vec<ColdPlace>,
    cold: &'k ColdTiers,
}

impl Drop for ReclaimedValues<'_> {
    fn drop(&mut self) {
        self.freeing.free(std::mem::take(&mut self.objects));
        self.places
            .iter()
            .for_each(|&place| self.cold.release(place));
    }
}
