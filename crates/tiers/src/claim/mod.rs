//! The protocol that moves a value while other threads read, change and delete it.
//!
//! A store has an index of records. A record is a value itself, or refers to something *outside* of
//! the index: an object in a slot, which is changed there, or a place in a cold tier. Readers read
//! a record and then what it refers to, in a *shared phase*, which any number of threads may be in
//! at once. An *exclusive phase* begins when all have left theirs. A thread that changes a key
//! holds the key's lock.
//!
//! A move has three steps. Nothing is locked in the second, which writes to a tier.
//!
//! 1. In a shared phase, [`MoveClaim::take`] claims what the record refers to; then the value is
//!    read.
//! 2. The new tier takes the whole value.
//! 3. In a shared phase and with the key's lock, [`MoveClaim::publish`] replaces the old record
//!    with the new one, if the key still holds the same value. Otherwise the move is abandoned.
//!
//! Readers see either record, and find either value whole: the old one stays until the next
//! exclusive phase, because it is [`RetiredList`].
//!
//! # The same value
//!
//! A record that contains the value is the same if its bytes are. An object may be changed in its
//! slot while the record stays, so the slot is [`WatchedSlots`]. A place may be released and reused
//! for another value, to which the key then refers by the same record, so the place is
//! [held](Holds).
//!
//! `tests/loom` runs this in all interleavings.

mod holds;
mod retired;
mod watched;

pub use holds::Holds;
pub use retired::RetiredList;
pub use watched::{Watch, WatchedSlots};

use std::fmt;
use std::hash::Hash;

/// The target of a record, outside of the index: a slot `S`, or a place `P`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimTarget<S, P> {
    /// An object that is changed in its slot.
    Slot(S),
    /// A value in a cold tier.
    Place(P),
}

/// A store that moves values.
pub trait ClaimStore {
    /// The position of an object.
    type Slot: Copy + Eq + Hash + fmt::Debug;
    /// The position of a value in a cold tier.
    type Place: Copy + fmt::Debug;

    /// Returns the slots that are watched. The store reports which are
    /// [changed](WatchedSlots::changed).
    fn watched(&self) -> &WatchedSlots<Self::Slot>;
    /// Keeps a place from being released.
    fn hold(&self, place: Self::Place);
    /// Ends a hold, and releases the place if it was given up meanwhile.
    fn release_hold(&self, place: Self::Place);
    /// Retires what a record referred to, because readers may still use it.
    fn retire(&self, outside: ClaimTarget<Self::Slot, Self::Place>);
}

/// A claim on the old value of a key that moves, as its record refers to it. See the
/// [module](self).
#[derive(Debug)]
pub struct MoveClaim<'s, S: ClaimStore> {
    store: &'s S,
    claimed: Option<ClaimedTarget<S::Slot, S::Place>>,
}

#[derive(Debug)]
enum ClaimedTarget<S, P> {
    Slot(S, Watch),
    Place(P),
}

impl<'s, S: ClaimStore> MoveClaim<'s, S> {
    /// Claims what a record refers to; `None` means that the record contains the value. Call it in
    /// the phase in which the record was read, before reading the value.
    pub fn take(store: &'s S, outside: Option<ClaimTarget<S::Slot, S::Place>>) -> MoveClaim<'s, S> {
        let claimed = outside.map(|outside| match outside {
            ClaimTarget::Slot(slot) => ClaimedTarget::Slot(slot, store.watched().watch(slot)),
            ClaimTarget::Place(place) => {
                // A place that was released and reused would make a new value look like this one.
                store.hold(place);
                ClaimedTarget::Place(place)
            }
        });
        MoveClaim { store, claimed }
    }

    /// Returns the place that is claimed, if the value is in a cold tier.
    pub fn place(&self) -> Option<S::Place> {
        match self.claimed {
            Some(ClaimedTarget::Place(place)) => Some(place),
            Some(ClaimedTarget::Slot(..)) | None => None,
        }
    }

    /// Calls `replace`, which replaces the old record with the new one if the old one is still
    /// there, and returns whether it did. Then it retires what the old record referred to. Call it
    /// in a shared phase with the key's lock, once the new value is complete.
    ///
    /// # Errors
    /// The error of `replace`. Nothing is changed.
    pub fn publish<E>(&self, replace: impl FnOnce() -> Result<bool, E>) -> Result<bool, E> {
        let outside = match self.claimed {
            None => None,
            Some(ClaimedTarget::Place(place)) => Some(ClaimTarget::Place(place)),
            Some(ClaimedTarget::Slot(slot, watch)) => {
                // The key's lock keeps other threads from changing the object after this check.
                if !self.store.watched().holds(slot, watch) {
                    return Ok(false);
                }
                Some(ClaimTarget::Slot(slot))
            }
        };
        let replaced = replace()?;
        if let (true, Some(outside)) = (replaced, outside) {
            // Not freed: readers that found the old record may still read there.
            self.store.retire(outside);
        }
        Ok(replaced)
    }
}

impl<S: ClaimStore> Drop for MoveClaim<'_, S> {
    fn drop(&mut self) {
        match self.claimed {
            None => {}
            Some(ClaimedTarget::Slot(slot, watch)) => self.store.watched().end(slot, watch),
            Some(ClaimedTarget::Place(place)) => self.store.release_hold(place),
        }
    }
}
