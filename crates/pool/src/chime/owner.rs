//! The number with which a client takes locks.
//!
//! Numbers are claimed for a lease of their own, longer than that of locks, and renewed when locks
//! are taken. If a client has taken no lock for so long that another has claimed its number, it
//! claims a new one. The locks of its former number belong to the other client, like those of a
//! dead one.

use super::header::ChimeHeaderAddress;
use crate::error::PoolError;
use crate::layout::Geometry;
use nearfield_fabric::Endpoint;
use nearfield_fabric::recovery::owners::{OwnerNumberClaim, OwnersError};
use nearfield_fabric::recovery::redo::Redo;
use std::cell::{Cell, OnceCell};
use std::time::Duration;

/// A number, and locks that are taken with it.
#[derive(Debug)]
pub(super) struct Owner {
    redo: Redo,
    claim: OwnerNumberClaim,
    /// The time at which the claim must be renewed.
    due: Cell<Duration>,
    /// The next number, after this one was lost. Locks that were taken with this one may still be
    /// in use.
    next: OnceCell<Box<Owner>>,
}

/// Number of renewals of a claim in its lease, if locks are taken.
const BEATS_PER_LEASE: u32 = 8;

impl Owner {
    pub fn new(redo: Redo, claim: OwnerNumberClaim) -> Owner {
        redo.keep_until(claim.until());
        Owner {
            redo,
            claim,
            due: Cell::default(),
            next: OnceCell::new(),
        }
    }

    /// Returns the owner that takes locks now. One round trip if the claim must be renewed, else
    /// none.
    ///
    /// # Errors
    /// `Owners` if it was lost and all are in use, and the nodes' errors.
    pub async fn redo(
        &self,
        endpoint: &impl Endpoint,
        header: &ChimeHeaderAddress,
        geometry: Geometry,
        lease: Duration,
    ) -> Result<&Redo, PoolError> {
        let mut owner = self;
        loop {
            while let Some(next) = owner.next.get() {
                owner = next;
            }
            // Read before the beat, from which the lease of the claim counts.
            let began = endpoint.now();
            if began < owner.due.get() {
                return Ok(&owner.redo);
            }
            match owner.claim.beat(endpoint).await {
                Ok(()) => {
                    owner
                        .due
                        .set(began + header.claim_lease(lease) / BEATS_PER_LEASE);
                    owner.redo.keep_until(owner.claim.until());
                }
                Err(OwnersError::Lost { .. }) => {
                    // No change may begin under a number that is another client's. Locks that were
                    // taken with it fall to that client.
                    owner.redo.keep_until(Duration::ZERO);
                    // The former owner stays in the chain, because guards of its locks may still
                    // refer to it.
                    let next = Box::pin(header.join(endpoint, lease, geometry)).await?;
                    // Otherwise another task was faster; this one's number becomes free after a
                    // lease.
                    let _ = owner.next.set(Box::new(next));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
