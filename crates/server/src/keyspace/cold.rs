//! Values in cold tiers: reading them, and giving up their places.
//!
//! A record whose value lies in a cold tier has the value's [`Place`] instead of it. The type of
//! the key and the time at which it expires stay in the record, so that commands which ask for
//! these read no tier.
//!
//! Reads of strings hold no stripe. So that they find at a place what they have read of in the
//! index, a place that is given up is not released at once: it is *retired*, like a
//! [slot](super::slots), and released in the next exclusive phase, when no read is under way.

pub use nearfield_tiers::cold::{Cold, Held};
pub use nearfield_tiers::disk::PATIENCE;

use super::freeing::ObjectFreeing;
use super::slots::Slot;
use super::{Databases, Found, Keys, Keyspace, Payload, Record};
use crate::error::{CommandError, shown};
use crate::object::{Kind, Object};
use nearfield_tiers::{Heap, Place, ReadError, claim};
use parking_lot::RwLockWriteGuard;
use std::cell::RefCell;

/// What a record refers to that lies outside of the index: an object or a long string in a slot, or
/// a value in a cold tier.
pub type Outside = claim::Outside<Slot, Place>;

impl Record<'_> {
    /// What it refers to outside of the index.
    #[inline]
    pub fn outside(&self) -> Option<Outside> {
        match self.payload {
            Payload::Inline(_) => None,
            Payload::InSlot(slot) => Some(Outside::Slot(slot)),
            Payload::InTier(place) => Some(Outside::Place(place)),
        }
    }
}

/// How the exclusive phase is entered by who can do without, such as
/// [`try_exclude`](Keyspace::try_exclude).
pub type Enter = fn(&Keyspace) -> Option<RwLockWriteGuard<'_, Databases>>;

thread_local! {
    /// Where values of cold tiers are read to.
    static READ: RefCell<Vec<u8>> = RefCell::default();
}

/// A buffer that is larger than this after a read is given back.
const KEPT_BYTES: usize = 64 << 10;

impl Keyspace {
    /// Gives up what the record of a key has referred to.
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

    /// How much was given up and waits to be freed.
    #[inline]
    pub fn retired(&self) -> usize {
        self.slots.retired() + self.cold.retired()
    }

    /// Frees what was given up. What takes long is done when the result is dropped, which is best
    /// after the exclusive phase.
    pub fn reclaim(&self, exclusive: &mut Databases) -> Reclaimed<'_> {
        Reclaimed {
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
            drop(databases);
            drop(reclaimed);
        }
    }

    /// Gives the value of `key`, which lies at a place of a cold tier, to `read`.
    ///
    /// # Errors
    /// It cannot be read. The error names the key.
    pub fn read_place<R>(
        &self,
        key: &[u8],
        place: Place,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, CommandError> {
        let mut value = READ.take();
        value.clear();
        let result = match self.cold.read(place, &mut value) {
            Ok(()) => Ok(read(&value)),
            Err(error) => Err(self.unreadable(key, place, &error)),
        };
        if value.capacity() <= KEPT_BYTES {
            READ.replace(value);
        }
        result
    }

    /// The object of `key`, which lies at a place of a cold tier, in `heap`. The place is left as
    /// it is.
    ///
    /// # Errors
    /// It cannot be read. The error names the key.
    pub fn thaw(
        &self,
        key: &[u8],
        kind: Kind,
        place: Place,
        heap: &Heap,
    ) -> Result<Object, CommandError> {
        let thawed = self.read_place(key, place, |value| Object::thaw(kind, value, heap))?;
        thawed.map_err(|_| self.unreadable(key, place, &ReadError::Damaged))
    }

    #[cold]
    pub(super) fn unreadable(&self, key: &[u8], place: Place, error: &ReadError) -> CommandError {
        let tiers = self.cold.tiers();
        let tier = tiers.and_then(|tiers| tiers.specifications().get(place.tier()));
        let tier = tier.map_or(String::new(), |tier| format!(" {}", tier.kind));
        let key = shown(key);
        let text = format!("the value of '{key}' in the tier{tier} cannot be read: {error}");
        tracing::error!("{text}");
        CommandError::owned(format!("ERR {text}; a restart reads it from the log"))
    }
}

impl Keys<'_> {
    /// Brings the object of a key from a cold tier into a slot.
    pub(super) fn warm(
        &mut self,
        key: &[u8],
        found: &Found,
        place: Place,
    ) -> Result<Slot, CommandError> {
        let keyspace = self.keyspace();
        let object = keyspace.thaw(key, found.kind, place, &keyspace.heap)?;
        self.put_warm(key, found, place, object)
    }

    /// Puts the object of a key, which was read at a place of a cold tier, into a slot.
    pub(super) fn put_warm(
        &mut self,
        key: &[u8],
        found: &Found,
        place: Place,
        object: Object,
    ) -> Result<Slot, CommandError> {
        let bytes = object.heap_bytes();
        let slot = self.put_in_slot(key, object, found.expires_at_ms)?;
        self.keyspace().cold.count_move(place.tier(), 0, bytes);
        Ok(slot)
    }
}

/// What was given up and nobody reads any more.
#[derive(Debug)]
pub struct Reclaimed<'k> {
    objects: Vec<Object>,
    freeing: &'k ObjectFreeing,
    places: Vec<Place>,
    cold: &'k Cold,
}

impl Drop for Reclaimed<'_> {
    fn drop(&mut self) {
        self.freeing.free(std::mem::take(&mut self.objects));
        self.places
            .iter()
            .for_each(|&place| self.cold.release(place));
    }
}
