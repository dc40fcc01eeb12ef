//! How the keyspace is held while values move.

use crate::keyspace::{Databases, Keyspace, Moving, Unmoved};
use nearfield_tiers::Place;

/// How the keyspace is held while values move.
#[derive(Clone, Copy, Debug)]
pub enum Hold<'d> {
    /// Phases and stripes are taken for each step.
    Each,
    /// The caller has the keyspace to itself.
    Whole(&'d Databases),
}

impl Hold<'_> {
    /// Calls `run` in a phase.
    pub fn enter<R>(&self, keyspace: &Keyspace, run: impl FnOnce(&Databases) -> R) -> R {
        match self {
            Hold::Whole(databases) => run(databases),
            Hold::Each => run(&keyspace.share()),
        }
    }

    /// Ends a move.
    ///
    /// # Errors
    /// Why the value stays where it was.
    pub fn publish(
        &self,
        keyspace: &Keyspace,
        moving: Moving<'_>,
        place: Option<Place>,
    ) -> Result<(), Unmoved> {
        match self {
            Hold::Whole(databases) => moving.publish(databases, place),
            Hold::Each => {
                let databases = keyspace.share();
                let stripe = keyspace.stripes.of(&moving.key);
                let held = keyspace.stripes.lock(stripe);
                let published = moving.publish(&databases, place);
                drop(held);
                published
            }
        }
    }
}
