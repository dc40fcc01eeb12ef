//! Numbers of owners of locks, assigned by a table in remote memory.
//!
//! The table is an array of words, *slots*, each of which stands for the same count of numbers. A
//! process claims a slot, and owns its numbers as long as it keeps changing the slot's word:
//!
//! ```text
//!  63        62 … 32        31 … 0
//! ┌─────────┬─────────────┬───────┐
//! │ claimed │ incarnation │ beat  │
//! └─────────┴─────────────┴───────┘
//! ```
//!
//! A process changes a slot only by swapping its whole word for another, and no word recurs: a
//! claim adds one to the incarnation, and a *beat* changes the last part. A process that sees one
//! word for a whole *lease*, by its own clock, and then swaps it for a claim of its own, knows that
//! there was no beat meanwhile. A process whose beat comes late fails to swap, and so learns that
//! another process has its numbers.
//!
//! No clocks are compared. As with [locks](crate::recovery::lease), an owner relies on its numbers
//! for half a lease after a beat ([`OwnerNumberClaim::is_safe`]), so it is enough that no clock
//! runs at twice the speed of another.
//!
//! A lock of a dead owner stays held until a client waits for it. By then its number may be in use
//! again. The word of a lock holds the incarnation as well ([`Locker::of_incarnation`]), so the two
//! owners cannot be confused. For the same reason an owner that has lost its numbers without
//! knowing it harms no lock.

use crate::address::{GlobalAddress, WORD_BYTES};
use crate::endpoint::Endpoint;
use crate::error::FabricError;
use crate::recovery::lease::{Locker, OWNERS};
use crate::verb::FabricVerb;
use std::cell::Cell;
use std::ops::Range;
use std::time::Duration;

const CLAIMED_BIT: u64 = 1 << 63;
const INCARNATION_SHIFT: u32 = 32;
const INCARNATION_MASK: u64 = (1 << 31) - 1;
const BEAT_MASK: u64 = (1 << INCARNATION_SHIFT) - 1;
/// Number of beats in a lease, more than necessary, because some may fail.
const BEATS_PER_LEASE: u32 = 8;
/// Number of reads of the table in a lease by a process that waits for a slot, so that it notices
/// the end of a lease soon.
const LOOKS_PER_LEASE: u32 = 16;
/// Number of leases for which a process waits. By then it has detected all dead owners, even if
/// each claim that it lost to another process took a lease.
const LEASES_WAITED: u32 = 3;

/// The reason why there are no numbers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnersError {
    /// All slots are claimed by living processes.
    #[error("all {slots} slots of the table of owners at {at} are in use")]
    Full {
        /// The address of the table.
        at: GlobalAddress,
        /// Number of slots.
        slots: u16,
    },
    /// The claim has passed to another process, because there was no beat for a lease, or the table
    /// was lost.
    #[error("the owners {numbers:?} of the table at {at} now belong to another process")]
    Lost {
        /// The address of the table.
        at: GlobalAddress,
        /// The numbers.
        numbers: Range<u16>,
    },
    /// The table's node fails. The change may have been made or not.
    #[error(transparent)]
    Fabric(#[from] FabricError),
}

/// A table of owners. All users must use the same parameters.
#[derive(Clone, Debug)]
pub struct OwnerTable {
    at: GlobalAddress,
    slots: u16,
    /// Count of numbers of each slot.
    each: u16,
    lease: Duration,
}

/// Numbers that this process owns as long as it beats. After a drop, they become free after a
/// lease.
#[derive(Debug)]
pub struct OwnerNumberClaim {
    table: OwnerTable,
    slot: u16,
    /// The slot's word after the last confirmed beat.
    word: Cell<u64>,
    until: Cell<Duration>,
}

impl OwnerTable {
    /// Creates the table at an address, of `slots` slots, each of `owners / slots` numbers less
    /// than `owners`. It has 8 bytes a slot, which are all zero before the first claim.
    ///
    /// # Panics
    /// `slots` is 0 or more than `owners`, `owners` is more than [`OWNERS`], or `at` is not aligned
    /// to 8 bytes.
    pub fn new(at: GlobalAddress, slots: u16, owners: u16, lease: Duration) -> OwnerTable {
        assert!((1..=owners.min(OWNERS)).contains(&slots), "{slots} slots");
        assert!(
            at.offset().is_multiple_of(WORD_BYTES),
            "a table of words at {at}"
        );
        OwnerTable {
            at,
            slots,
            each: owners / slots,
            lease,
        }
    }

    /// Frees all slots of a table that is not in use yet.
    ///
    /// # Errors
    /// As [`Endpoint::post`].
    pub async fn clear(&self, endpoint: &impl Endpoint) -> Result<(), FabricError> {
        let zeros = vec![0; usize::from(self.slots) * WORD_BYTES as usize];
        endpoint.write(self.at, &zeros).await
    }

    /// Returns the length of the table, in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.slots) * WORD_BYTES
    }

    /// Claims a slot: two round trips if some are free, and one more for each other process that
    /// claims one at the same time. Otherwise it takes a lease to detect the unused slots of dead
    /// processes; then all of these become free.
    ///
    /// # Errors
    /// `Full` after three leases; `Fabric`.
    pub async fn claim(&self, endpoint: &impl Endpoint) -> Result<OwnerNumberClaim, OwnersError> {
        let began = endpoint.now();
        // The last seen word of each slot, and the time when it was first seen.
        // A slot of zero is free, so it does not matter since when.
        let mut seen = vec![(0, began); usize::from(self.slots)];
        let mut bytes = vec![0; seen.len() * WORD_BYTES as usize];
        loop {
            endpoint.read(self.at, &mut bytes).await?;
            let now = endpoint.now();
            let mut candidates = Vec::new();
            let words = bytes
                .as_chunks()
                .0
                .iter()
                .map(|&word| u64::from_le_bytes(word));
            for (slot, (word, seen)) in (0..).zip(words.zip(&mut seen)) {
                if seen.0 != word {
                    *seen = (word, now);
                }
                let claimed = word & CLAIMED_BIT != 0;
                if !claimed || now - seen.1 >= self.lease {
                    candidates.push((claimed, incarnation(word), slot, word));
                }
            }
            // Free slots come first, the least used first, because locks distinguish only 4096
            // incarnations.
            candidates.sort_unstable();
            if candidates.iter().any(|(claimed, ..)| *claimed) {
                // Wait until the posts that dead owners began in time have taken effect.
                endpoint.settle().await?;
            }
            let mut candidates = candidates.into_iter();
            while let Some((_, _, slot, word)) = candidates.next() {
                if let Some(claim) = self.take(endpoint, slot, word).await? {
                    // The wait for a lease was long, so it serves the next processes as well.
                    let dead = candidates.filter(|(claimed, ..)| *claimed);
                    self.set_free(endpoint, dead.map(|(_, _, slot, word)| (slot, word)))
                        .await?;
                    return Ok(claim);
                }
            }
            if endpoint.now() - began > self.lease * LEASES_WAITED {
                return Err(OwnersError::Full {
                    at: self.at,
                    slots: self.slots,
                });
            }
            // Each look must see an unchanged word, so a lease is noticed a sixteenth late at most.
            endpoint.sleep(self.lease / LOOKS_PER_LEASE).await;
        }
    }

    /// Claims a slot if its word is unchanged.
    async fn take(
        &self,
        endpoint: &impl Endpoint,
        slot: u16,
        word: u64,
    ) -> Result<Option<OwnerNumberClaim>, OwnersError> {
        let next = (u64::from(incarnation(word)) + 1) & INCARNATION_MASK;
        let desired = CLAIMED_BIT | next << INCARNATION_SHIFT;
        // Others count the lease from when they see the word, which is later.
        let began = endpoint.now();
        let found = endpoint.compare_swap(self.slot(slot), word, desired);
        if found.await? != word {
            return Ok(None);
        }
        Ok(Some(OwnerNumberClaim {
            table: self.clone(),
            slot,
            word: Cell::new(desired),
            until: Cell::new(began + self.lease / 2),
        }))
    }

    /// Frees the slots of dead owners if their words are unchanged.
    async fn set_free(
        &self,
        endpoint: &impl Endpoint,
        dead: impl Iterator<Item = (u16, u64)>,
    ) -> Result<(), FabricError> {
        let swap = |(slot, word)| FabricVerb::compare_swap(self.slot(slot), word, freed(word));
        let mut swaps: Vec<FabricVerb<'_>> = dead.map(swap).collect();
        if swaps.is_empty() {
            return Ok(());
        }
        endpoint.post(&mut swaps).await
    }

    fn slot(&self, slot: u16) -> GlobalAddress {
        self.at.plus(u64::from(slot) * WORD_BYTES)
    }
}

fn incarnation(word: u64) -> u32 {
    (word >> INCARNATION_SHIFT & INCARNATION_MASK) as u32
}

/// Returns the word of a slot after its release.
fn freed(word: u64) -> u64 {
    word & !(CLAIMED_BIT | BEAT_MASK)
}

/// Returns the word after a beat.
fn beaten(word: u64) -> u64 {
    word & !BEAT_MASK | (word + 1) & BEAT_MASK
}

impl OwnerNumberClaim {
    /// Returns the claimed numbers.
    pub fn numbers(&self) -> Range<u16> {
        let each = self.table.each;
        debug_assert!(self.slot < self.table.slots);
        self.slot * each..(self.slot + 1) * each
    }

    /// Returns the number of this claim among the successive claims of the slot.
    pub fn incarnation(&self) -> u32 {
        incarnation(self.word.get())
    }

    /// Creates a locker for one of the numbers, counted from 0 within them, with the lease of its
    /// locks. Use each number for one locker at a time.
    ///
    /// # Panics
    /// `place` is not less than the count of [`numbers`](OwnerNumberClaim::numbers).
    pub fn locker(&self, place: u16, lease: Duration) -> Locker {
        let numbers = self.numbers();
        assert!(
            usize::from(place) < numbers.len(),
            "{place} is not among {numbers:?}"
        );
        Locker::of_incarnation(numbers.start + place, self.incarnation(), lease)
    }

    /// Returns the time until which no other process can have the numbers, by the clock of the
    /// endpoint that beats.
    pub fn until(&self) -> Duration {
        self.until.get()
    }

    /// Returns true while no other process can have the numbers, by the clock of the endpoint that
    /// beats.
    pub fn is_safe(&self, endpoint: &impl Endpoint) -> bool {
        endpoint.now() < self.until.get()
    }

    /// Extends the claim by half a lease. One round trip.
    ///
    /// # Errors
    /// `Lost`: this and all later calls fail. `Fabric`: retry.
    pub async fn beat(&self, endpoint: &impl Endpoint) -> Result<(), OwnersError> {
        loop {
            let began = endpoint.now();
            let word = self.word.get();
            let next = beaten(word);
            debug_assert!(word & CLAIMED_BIT != 0 && next != word);
            let at = self.table.slot(self.slot);
            let found = endpoint.compare_swap(at, word, next).await?;
            if found == word {
                self.word.set(next);
                self.until.set(began + self.table.lease / 2);
                return Ok(());
            }
            if found != next {
                self.until.set(Duration::ZERO);
                return Err(OwnersError::Lost {
                    at: self.table.at,
                    numbers: self.numbers(),
                });
            }
            // An unconfirmed beat was executed at an unknown time, so another one is needed.
            self.word.set(next);
        }
    }

    /// Beats until an error occurs: a task of each process that has a claim.
    ///
    /// # Errors
    /// As [`beat`](OwnerNumberClaim::beat); after `Fabric` it may be called again.
    pub async fn keep(&self, endpoint: &impl Endpoint) -> Result<(), OwnersError> {
        loop {
            self.beat(endpoint).await?;
            endpoint.sleep(self.table.lease / BEATS_PER_LEASE).await;
        }
    }

    /// Releases the numbers, when no locker uses them any more. A lost claim stays with its new
    /// owner.
    ///
    /// # Errors
    /// `Fabric`: the numbers become free after a lease.
    pub async fn release(self, endpoint: &impl Endpoint) -> Result<(), OwnersError> {
        let word = self.word.get();
        let free = freed(word);
        let at = self.table.slot(self.slot);
        let found = endpoint.compare_swap(at, word, free).await?;
        // The last beat may have been executed without a confirmation.
        let unheard = beaten(word);
        if found == unheard {
            endpoint.compare_swap(at, unheard, free).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
