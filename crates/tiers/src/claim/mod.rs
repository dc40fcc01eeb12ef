//! How a value moves while others read, change and delete it.
//!
//! A store has an index of records. A record is a value itself, or refers to what lies *outside* of
//! the index: an object in a slot, which is changed there, or a place in a cold tier. Readers read
//! a record and then what it refers to, in a *shared phase*, which any number of threads may be in
//! at once. An *exclusive phase* begins when all have left theirs. Who changes a key has its lock.
//!
//! A move goes in three steps. Nothing is locked in the second, in which a tier is written to.
//!
//! 1. In a shared phase, [`Claim::take`] claims what the record refers to, and the value is read
//!    then.
//! 2. The new tier takes the whole value.
//! 3. In a shared phase and with the key's lock, [`Claim::publish`] puts the new record in place of
//!    the old one, if the key still holds the same value. Otherwise the move is abandoned.
//!
//! Readers meet either record, and find either value whole: the old one stays until the next
//! exclusive phase, as it is [`Retired`].
//!
//! # The same value
//!
//! A record that has the value itself is the same if its bytes are. An object may be changed in its
//! slot while the record stays, so the slot is [`Watched`]. A place may be released and become
//! another value's, to which the key then refers by the same record, so it is [held](Holds).
//!
//! `tests/loom` runs this in all interleavings.

mod holds;
mod retired;
mod watched;

pub use holds::Holds;
pub use retired::Retired;
pub use watched::{Watch, Watched};

use std::fmt;
use std::hash::Hash;

/// What a record refers to that lies outside of the index: a slot `S`, or a place `P`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside<S, P> {
    /// An object that is changed in its slot.
    Slot(S),
    /// A value in a cold tier.
    Place(P),
}

/// A store whose values move.
pub trait Store {
    /// Where objects lie.
    type Slot: Copy + Eq + Hash + fmt::Debug;
    /// Where values of cold tiers lie.
    type Place: Copy + fmt::Debug;

    /// The slots that are watched. The store says which are [changed](Watched::changed).
    fn watched(&self) -> &Watched<Self::Slot>;
    /// Keeps a place from being released.
    fn hold(&self, place: Self::Place);
    /// Ends a hold, and releases the place if it was given up meanwhile.
    fn let_go(&self, place: Self::Place);
    /// Gives up what a record has referred to, while readers may be at it.
    fn retire(&self, outside: Outside<Self::Slot, Self::Place>);
}

/// The old value of a key that moves, as its record refers to it. See the [module](self).
#[derive(Debug)]
pub struct Claim<'s, S: Store> {
    store: &'s S,
    claimed: Option<Claimed<S::Slot, S::Place>>,
}

#[derive(Debug)]
enum Claimed<S, P> {
    Slot(S, Watch),
    Place(P),
}

impl<'s, S: Store> Claim<'s, S> {
    /// Claims what a record refers to; `None` is a record that has the value itself. To be called
    /// in the phase in which the record was read, before the value is.
    pub fn take(store: &'s S, outside: Option<Outside<S::Slot, S::Place>>) -> Claim<'s, S> {
        let claimed = outside.map(|outside| match outside {
            Outside::Slot(slot) => Claimed::Slot(slot, store.watched().watch(slot)),
            Outside::Place(place) => {
                store.hold(place);
                Claimed::Place(place)
            }
        });
        Claim { store, claimed }
    }

    /// The place that is claimed, if the value lies in a cold tier.
    pub fn place(&self) -> Option<S::Place> {
        match self.claimed {
            Some(Claimed::Place(place)) => Some(place),
            Some(Claimed::Slot(..)) | None => None,
        }
    }

    /// Has `replace` put the new record in place of the old one, if that is there, and answers
    /// whether it has. What the old one has referred to is given up then. To be called in a shared
    /// phase with the key's lock, once the new value is whole.
    ///
    /// # Errors
    /// That of `replace`. Nothing is changed.
    pub fn publish<E>(&self, replace: impl FnOnce() -> Result<bool, E>) -> Result<bool, E> {
        let outside = match self.claimed {
            None => None,
            Some(Claimed::Place(place)) => Some(Outside::Place(place)),
            Some(Claimed::Slot(slot, watch)) => {
                if !self.store.watched().holds(slot, watch) {
                    return Ok(false);
                }
                Some(Outside::Slot(slot))
            }
        };
        let replaced = replace()?;
        if let (true, Some(outside)) = (replaced, outside) {
            self.store.retire(outside);
        }
        Ok(replaced)
    }
}

impl<S: Store> Drop for Claim<'_, S> {
    fn drop(&mut self) {
        match self.claimed {
            None => {}
            Some(Claimed::Slot(slot, watch)) => self.store.watched().end(slot, watch),
            Some(Claimed::Place(place)) => self.store.let_go(place),
        }
    }
}
