//! The access to the keyspace while values move.

use super::values::OnTheWay;
use crate::keyspace::{Databases, Keyspace, ValueMoveError};
use nearfield_tiers::ColdPlace;
use std::time::Duration;

/// Time that other threads may take to leave their phases, while new ones wait. *Assumed.*
const PATIENCE: Duration = Duration::from_millis(1);

/// The access to the keyspace while values move.
#[derive(Clone, Copy, Debug)]
pub enum MoverKeyspaceAccess<'d> {
    /// Phases and stripes are entered for each step.
    Each,
    /// The caller holds the keyspace exclusively.
    Whole(&'d Databases),
}

impl MoverKeyspaceAccess<'_> {
    /// Calls `run` in a phase.
    pub fn enter<R>(&self, keyspace: &Keyspace, run: impl FnOnce(&Databases) -> R) -> R {
        match self {
            MoverKeyspaceAccess::Whole(databases) => run(databases),
            MoverKeyspaceAccess::Each => run(&keyspace.share()),
        }
    }

    /// Returns true if records replaced by moves [are freed](MoverKeyspaceAccess::free_replaced)
    /// meanwhile.
    pub fn frees_replaced(&self) -> bool {
        matches!(self, MoverKeyspaceAccess::Each)
    }

    /// Frees records that moves have replaced: they take memory until no thread can read them.
    pub fn free_replaced(&self, keyspace: &Keyspace) {
        // A caller that holds the keyspace exclusively frees them itself afterwards.
        if let MoverKeyspaceAccess::Each = self {
            keyspace.reclaim_by(|keyspace| keyspace.try_exclude_for(PATIENCE));
        }
    }

    /// Ends a move.
    ///
    /// # Errors
    /// The reason why the value stays at its place.
    pub fn publish(
        &self,
        keyspace: &Keyspace,
        moving: OnTheWay<'_>,
        place: Option<ColdPlace>,
    ) -> Result<(), ValueMoveError> {
        match self {
            MoverKeyspaceAccess::Whole(databases) => moving.publish(databases, place),
            // A node is published under the lock of its object's slot.
            MoverKeyspaceAccess::Each if moving.is_node() => {
                moving.publish(&keyspace.share(), place)
            }
            MoverKeyspaceAccess::Each => {
                let databases = keyspace.share();
                // The phase first: a thread that holds a stripe must not wait for a phase.
                let stripe = keyspace.stripes.of(moving.key());
                let held = keyspace.stripes.lock(stripe);
                let published = moving.publish(&databases, place);
                drop(held);
                published
            }
        }
    }
}
