//! How the keyspace is held while values move.

use super::values::OnTheWay;
use crate::keyspace::{Databases, Keyspace, Unmoved};
use nearfield_tiers::Place;
use std::time::Duration;

/// How long others may take to leave their phases, while those who come wait. *Assumed.*
const PATIENCE: Duration = Duration::from_millis(1);

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

    /// True if what moves have replaced [is freed](Hold::free_replaced) meanwhile.
    pub fn frees_replaced(&self) -> bool {
        matches!(self, Hold::Each)
    }

    /// Frees what moves have replaced, as that takes memory until nobody can be at it; not for who
    /// has the keyspace to itself, and does so afterwards.
    pub fn free_replaced(&self, keyspace: &Keyspace) {
        if let Hold::Each = self {
            keyspace.reclaim_by(|keyspace| keyspace.try_exclude_for(PATIENCE));
        }
    }

    /// Ends a move.
    ///
    /// # Errors
    /// Why the value stays where it was.
    pub fn publish(
        &self,
        keyspace: &Keyspace,
        moving: OnTheWay<'_>,
        place: Option<Place>,
    ) -> Result<(), Unmoved> {
        match self {
            Hold::Whole(databases) => moving.publish(databases, place),
            // A node is published under the lock of its object's slot.
            Hold::Each if moving.is_node() => moving.publish(&keyspace.share(), place),
            Hold::Each => {
                let databases = keyspace.share();
                let stripe = keyspace.stripes.of(moving.key());
                let held = keyspace.stripes.lock(stripe);
                let published = moving.publish(&databases, place);
                drop(held);
                published
            }
        }
    }
}
